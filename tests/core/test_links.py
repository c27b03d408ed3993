"""Links of foreign trees, judged by their names."""

from __future__ import annotations

import pytest

from stackproof.core import limits, links
from stackproof.core.links import PLAIN, ROOT_FILE_SYSTEM, LinkRules

pytestmark = [
    pytest.mark.guarantee(
        "Foreign trees",
        "Links are judged before anything is read.",
        "A relative link that climbs out of its tree is refused. An absolute one means the "
        "tree's own root in a root file system, and is inside below the mount point of an "
        "image. Others may stand, for programs to follow; no verb opens, lists, renames or "
        "replaces anything through them. Tried: links out, up, absolute, through others; to "
        "read, write, rename and remove.",
    ),
]

MOUNTED = LinkRules(root="/user-environment")


def bad(found: dict[str, str], *folders: str, rules: LinkRules = PLAIN) -> list[str]:
    return [fault.path for fault in links.faults(found, folders, rules)]


@pytest.mark.parametrize(
    ("path", "target"),
    [("a", "../x"), ("d/a", "../../x"), ("a", "d/../../x"), ("a", ".."), ("a", "nowhere/../../x")],
)
def test_who_climbs_out_is_a_fault(path, target):
    assert bad({path: target}, "d") == [path]
    assert bad({path: target}, "d", rules=ROOT_FILE_SYSTEM) == []


@pytest.mark.parametrize(
    ("path", "target"),
    [("a", "d/../b"), ("d/a", "../b"), ("a", "/etc/passwd"), ("a", "a"), ("a", "nowhere/../b"),
     ("a", ""), ("d/a", "..")],
)  # fmt: skip
def test_others_may_stand(path, target):
    assert bad({path: target}, "d") == []


def test_links_are_resolved_through_links():
    deep = {"d/e/up": "..", "x": "d/e/up/up2", "d/up2": "../..", "y": "s/../..", "s": "d/e"}
    assert bad(deep, "d", "d/e") == ["d/up2", "x"]
    assert bad({"s": "d", "a": "s/../.."}, "d") == ["a"]
    assert bad({"l": "m", "m": "l", "a": "l/../../.."}, "d") == []


def test_absolute_links_below_the_mount_point_are_inside():
    found = {
        "a": "/user-environment/d/..",
        "b": "/user-environment/..",
        "c": "/user-environments/x",
    }
    assert bad(found, "d", rules=MOUNTED) == ["b"]
    assert bad(found, "d") == []
    assert MOUNTED.inside("/user-environment") == ""
    assert ROOT_FILE_SYSTEM.inside("/etc") == "/etc"
    assert PLAIN.inside("/etc") is None


def test_links_without_end_are_faults(monkeypatch):
    monkeypatch.setattr(limits.LINK_STEPS, "count", 100)
    assert len(bad({f"l{at}": "x/" * 20 for at in range(20)})) > 10
