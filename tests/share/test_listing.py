"""Lists of a namespace's images: what is kept in a registry, and what a site's service answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

import uenvsql
from refusing import refused
from stackproof.core.errors import Reason
from stackproof.share import addresses, listing
from stackproof.share.labels import LabelRecord

_SHA256 = "ab" * 32
_PATH = "deploy/daint/zen2/mpich/5.0.2:v1"


def row(**changes: object) -> dict[str, Any]:
    made = {
        "path": _PATH, "sha256": _SHA256, "size": 7, "created": "2026-01-02T03:04:05+01:00",
        "manifest": "sha256:" + "cd" * 32,
    }  # fmt: skip
    return made | changes


def parse(*rows: object, namespace: str = "deploy") -> tuple[LabelRecord, ...]:
    content = json.dumps({"results": rows}).encode()
    return listing.parse(content, namespace=namespace, where="a list")


def test_a_row_is_an_image_with_its_label() -> None:
    (one,) = parse(row())
    assert str(one.remote) == str(addresses.remote_of_path(_PATH))
    assert (one.digest, one.size) == (_SHA256, 7)
    assert one.date == "2026-01-02 02:04:05"
    assert one.digests == {_SHA256, "cd" * 32}


@pytest.mark.parametrize(
    "other",
    [
        7, None, [], {}, row(path="deploy/daint"), row(path=7), row(sha256="ab"), row(size=-1),
        row(sha256="Z" * 64), row(size=True), row(size="7"), row(created=None),
        row(path=_PATH.replace("deploy", "build")),
    ],
)  # fmt: skip
def test_what_is_no_image_of_the_namespace_is_passed_over(other: object) -> None:
    assert [one.size for one in parse(other, row())] == [7]


@pytest.mark.parametrize("created", ["", "yesterday", "0001-01-01T00:00:00+23:59"])
def test_a_date_that_is_none_is_left_out(created: str) -> None:
    (one,) = parse(row(created=created))
    assert one.date == ""


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"{}", b'{"results": {}}', b"[" * 100_000], ids=repr
)
def test_what_is_no_list_is_an_error(content: bytes) -> None:
    with refused(Reason.REGISTRY_ANSWER) as caught:
        listing.parse(content, namespace="deploy", where="a list")
    assert "`a list` is no list of images" in str(caught.value)


def test_what_is_written_is_read_again_in_one_order() -> None:
    both = parse(row(path=_PATH.replace("v1", "v2")), row())
    assert [one.label.tag for one in both] == ["v1", "v2"]
    text = listing.render(both)
    assert listing.parse(text, namespace="deploy", where="a list") == both
    assert listing.render(reversed(both)) == text


@pytest.mark.parametrize("created", ["2026-01-02T03:04:05Z", "1970-01-01T00:00:00Z", ""])
def test_a_site_may_serve_it_to_uenv(created: str) -> None:
    """Which splits the path at slashes, and knows no `Z` and no year before 2022."""
    (written,) = json.loads(listing.render(parse(row(created=created))))["results"]
    assert written["path"].split("/") == ["deploy", "daint", "zen2", "mpich", "5.0.2", "v1"]
    assert uenvsql.reads_date(written["created"])


def test_an_image_is_added_once_and_taken_away_by_its_label() -> None:
    (one,) = parse(row())
    (again,) = parse(row(size=8))
    assert [r.size for r in listing.changed([one], add=[again], drop=[])] == [8]
    assert listing.changed([one], add=[], drop=[one.label]) == ()
