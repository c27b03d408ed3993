"""The mount list grammar, from one file of examples that every parser of it shares."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core import mountlist
from stackproof.core.effects.libc import MountFailure
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.mountlist import MountRequest, bad_mount_point
from stackproof.mount.effects import mount_exec

_EXAMPLES = yaml.safe_load(
    (Path(__file__).parents[1] / "documents" / "mountlists.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("example", _EXAMPLES["valid"], ids=lambda example: example["text"])
def test_valid(example):
    requests = mountlist.parse(example["text"])
    assert [[r.image, r.mount_point] for r in requests] == example["entries"]
    assert mountlist.parse(mountlist.render(requests)) == requests


@pytest.mark.parametrize("example", _EXAMPLES["valid"], ids=lambda example: example["text"])
def test_valid_for_mountexec(example):
    if not example["wire"]:
        with pytest.raises(MountFailure) as caught:
            mount_exec.parse_wire(example["text"])
        assert caught.value.reason == Reason.USAGE
        return
    read = [
        [w.image, mountlist.normal(w.mount_point)] for w in mount_exec.parse_wire(example["text"])
    ]
    assert read == example["entries"]


@pytest.mark.parametrize("example", _EXAMPLES["invalid"], ids=lambda example: repr(example["text"]))
def test_invalid(example):
    with pytest.raises(StackproofError) as caught:
        mountlist.parse(example["text"])
    assert [problem.reason for problem in caught.value.problems] == example["reasons"]


_paths = st.text(string.ascii_letters + string.digits + "._-+ ", min_size=1)


@given(st.lists(st.tuples(_paths, st.none() | _paths.map("/mount/x{}".format)), min_size=1))
def test_render_and_parse_are_inverse(entries):
    requests = tuple(MountRequest(image=i, mount_point=m) for i, m in entries)
    if mountlist.clashes(requests):
        with pytest.raises(StackproofError):
            mountlist.parse(mountlist.render(requests))
    else:
        assert mountlist.parse(mountlist.render(requests)) == requests


@given(st.text())
def test_any_text_gives_entries_or_an_error_of_ours(text):
    outcome = _outcome(text)
    if isinstance(outcome, StackproofError):
        assert outcome.reason in {Reason.USAGE, Reason.BAD_MOUNT_POINT, Reason.MOUNT_POINT_CLASH}
        assert "\x00" not in str(outcome)
    else:
        assert all(r.mount_point is None or not bad_mount_point(r.mount_point) for r in outcome)


def _outcome(text: str) -> tuple[MountRequest, ...] | StackproofError:
    try:
        return mountlist.parse(text)
    except StackproofError as error:
        return error


@pytest.mark.parametrize(
    ("path", "bad"),
    [("/user-environment", False), ("user-environment", True), ("/usr", True), ("/usr/x", True)],
)
def test_bad_mount_point_says_why(path, bad):
    assert bool(bad_mount_point(path)) is bad


def test_a_label_of_a_registry_is_told_from_a_mount_point():
    with pytest.raises(StackproofError) as caught:
        mountlist.parse("deploy::mpich/5.0.2:v1")
    (problem,) = caught.value.problems
    assert "names an image of a registry" in problem.message
    assert "`stackproof image pull deploy::mpich/5.0.2:v1`" in str(problem.hint)
