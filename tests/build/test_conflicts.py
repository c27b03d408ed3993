"""Versions that are known not to work together: the list, and whether a stack has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spackstacks import clones, content, digest, environment, node, stack
from stackproof.build.engines.spack.conflicts import (
    ConflictAnswer,
    ConflictSeverity,
    find,
    parse_conflicts,
    split,
)
from stackproof.build.engines.spack.stack import SpackLock
from stackproof.core.document import parse
from stackproof.core.errors import Location, Reason, StackproofError
from stackproof.core.value import replace
from stackproof.core.versions import Range

FILE = Path(__file__).parents[2] / "knowledge" / "conflicts.yaml"
KNOWN = parse_conflicts(parse(FILE.read_text(), file=FILE.name))
BY_ID = {conflict.id: conflict for conflict in KNOWN}
NOT_THERE, CANNOT_TELL, THERE = ConflictAnswer

SMALL = """\
sources:
  a: {title: A, url: https://example.org/a}
conflicts:
- id: one
  severity: error
  packages: [{name: x, versions: "1:2"}]
  reason: it breaks
  remedy: take another
  sources: [a]
"""


def answer(conflict: str, *specs: str, packages=None, lock=None, **changes) -> ConflictAnswer:
    """Return whether a stack of these specs has a conflict of the list."""
    asked = stack(
        environments=(environment(specs=specs, variants=changes.pop("variants", ()), **changes),),
        packages=packages or {},
    )
    found = find(asked, lock, [BY_ID[conflict]])
    return found[0].answer if found else NOT_THERE


# the list


def test_every_entry_has_its_own_words_and_public_sources():
    assert len(BY_ID) == len(KNOWN) > 20
    for conflict in KNOWN:
        assert conflict.sources
        assert all(re.fullmatch(r"https://[\w./#-]+", url) for url in conflict.sources)
        assert conflict.reason != conflict.remedy
        for package in conflict.packages:
            assert package.versions.known
            for one in package.versions.ranges:  # none is upside down
                assert one.low is None or one.high is None or Range(one.low, one.high).meets(one)


def test_every_source_is_used():
    document = parse(FILE.read_text(), file=FILE.name)
    used = {name for entry in document.data["conflicts"] for name in entry["sources"]}
    assert used == set(document.data["sources"])


@pytest.mark.parametrize(
    ("old", "new", "reason", "line", "column"),
    [
        ("severity: error", "severity: fatal", Reason.INVALID_VALUE, 5, 13),
        ("  reason: it breaks\n", "", Reason.MISSING_KEY, 4, 3),
        ("remedy:", "remedey:", Reason.UNKNOWN_KEY, 8, 3),
        ("sources: [a]", "sources: []", Reason.INVALID_VALUE, 9, 12),
        ("https:", "http:", Reason.INVALID_VALUE, 2, 22),
        ('"1:2"', "1.2", Reason.WRONG_TYPE, 6, 34),
        ('"1:2"', '"1", variants: {cuda: true}', Reason.WRONG_TYPE, 6, 56),
        ("id: one", "id: One", Reason.INVALID_VALUE, 4, 7),
        ("[{name: x", "[{nmae: x", Reason.UNKNOWN_KEY, 6, 15),
    ],
)
def test_mistakes_in_the_list_are_found_with_their_place(old, new, reason, line, column):
    assert old in SMALL
    with pytest.raises(StackproofError) as caught:
        parse_conflicts(parse(SMALL.replace(old, new, 1), file="list"))
    places = [(p.reason, p.where.line, p.where.column) for p in caught.value.problems]
    assert (reason, line, column) in places


# before there is a lock


@pytest.mark.parametrize(
    ("conflict", "specs", "expected"),
    [
        ("openmpi-lnx-device-registration-cuda",
         ("openmpi@5.0.7 +cuda", "libfabric@2.3 fabrics=lnx,shm"), THERE),
        ("openmpi-lnx-device-registration-cuda",
         ("openmpi@5.0.9 +cuda", "libfabric@2.3 fabrics=lnx,shm"), NOT_THERE),
        ("openmpi-lnx-device-registration-cuda",
         ("openmpi@5.0.7 ~cuda", "libfabric@2.3 fabrics=lnx,shm"), NOT_THERE),
        ("openmpi-lnx-device-registration-cuda",
         ("openmpi@5.0.7", "libfabric@2.3 fabrics=lnx,shm"), CANNOT_TELL),
        ("openmpi-lnx-device-registration-cuda",
         ("openmpi@5 +cuda", "libfabric@2.3 fabrics=lnx"), CANNOT_TELL),
        ("openmpi-lnx-device-registration-cuda",
         ("openmpi@5.0.7 +cuda", "libfabric@1.22 fabrics=cxi"), NOT_THERE),
        ("openmpi-lnx-device-registration-cuda",
         ("openmpi@5.0.7 +cuda ^libfabric@2.1.0 fabrics=shm,lnx",), THERE),
        ("openmpi-lnx-device-registration-rocm",
         ("openmpi@5.0.3 +rocm", "libfabric@2.2 fabrics=lnx"), THERE),
        ("openmpi-5.0.8-lnx-device-cuda",
         ("openmpi@5.0.8 +cuda", "libfabric@2.2.0 fabrics=lnx"), THERE),
        ("openmpi-5.0.8-lnx-device-cuda",
         ("openmpi@5.0.8 +cuda", "libfabric@2.1 fabrics=lnx"), NOT_THERE),
        ("openmpi-4.0-libfabric-2", ("openmpi@3.1.6", "libfabric@2.3"), THERE),
        ("openmpi-4.0-libfabric-2", ("openmpi@4.0.7", "libfabric@2:"), THERE),
        ("openmpi-4.0-libfabric-2", ("openmpi@4.1.6", "libfabric@2.3"), NOT_THERE),
        ("openmpi-4.0-libfabric-2", ("openmpi@3.1.6", "libfabric@1.22"), NOT_THERE),
        ("openmpi-one-sided-libfabric-1.20", ("openmpi@5.0.1", "libfabric@1.22"), THERE),
        ("openmpi-one-sided-libfabric-1.20", ("openmpi@5.0.2", "libfabric@1.22"), NOT_THERE),
        ("openmpi-one-sided-libfabric-1.20", ("openmpi@5.0.1",), CANNOT_TELL),
        ("openmpi-5.0.1-libfabric-1.15-device",
         ("openmpi@5.0.1 +cuda", "libfabric@1.15.2"), THERE),
        ("openmpi-5.0-device-nonblocking-collectives", ("openmpi@5.0.9 +cuda",), THERE),
        ("libfabric-lnx-gdrcopy", ("libfabric@2.1.0 fabrics=lnx +gdrcopy",), THERE),
        ("libfabric-lnx-gdrcopy", ("libfabric@2.2.0 fabrics=lnx +gdrcopy",), NOT_THERE),
        ("libfabric-lnx-probe", ("libfabric@2.0.0 fabrics=shm,lnx",), THERE),
        ("libfabric-2.4.0-lnx-cxi", ("libfabric@2.4.0 fabrics=cxi,lnx",), THERE),
        ("libfabric-2.4.0-lnx-cxi", ("libfabric@2.4.0 fabrics=cxi",), CANNOT_TELL),
        ("libfabric-2.4.0-lnx-cxi", ("libfabric@2.5.1 fabrics=cxi,lnx",), NOT_THERE),
        ("libfabric-shm-rocm-device", ("libfabric@2.5.0 fabrics=shm +rocm",), THERE),
        ("libfabric-shm-rocm-device", ("libfabric@2.5.1 fabrics=shm +rocm",), NOT_THERE),
        ("libfabric-shm-xpmem-ignored", ("libfabric@1.19.1 fabrics=shm,xpmem",), THERE),
        ("libfabric-shm-xpmem-ignored", ("libfabric@2.3.1 fabrics=shm,xpmem",), NOT_THERE),
        ("libfabric-2.1-cxi-defaults", ("libfabric@2.1.0 fabrics=cxi",), THERE),
        ("libfabric-2.2-eager-size", ("libfabric@2.3.1 fabrics=cxi",), THERE),
        ("libfabric-2.2-eager-size", ("libfabric@2.4 fabrics=cxi",), NOT_THERE),
        ("libfabric-2.5.0-libcxi", ("libfabric@2.5.0 fabrics=cxi", "libcxi@13.0.0"), THERE),
        ("libfabric-2.5.0-libcxi", ("libfabric@2.5.0 fabrics=cxi", "libcxi@14.0.0"), NOT_THERE),
        ("libfabric-2.0-libcxi-new", ("libfabric@2.0.0 fabrics=cxi", "libcxi@12.0.1"), THERE),
        ("libfabric-2.0-libcxi-new", ("libfabric@2.1.0 fabrics=cxi", "libcxi@12.0.1"), NOT_THERE),
        ("libfabric-libcxi-1.5", ("libfabric@1.22.0 fabrics=cxi", "libcxi@1.5.0"), THERE),
        ("libfabric-2.5.1-libcxi-newer",
         ("openmpi@5.0.10", "libfabric@2.5.1 fabrics=cxi", "libcxi@14.0.0"), THERE),
        ("libfabric-2.5.1-libcxi-newer",
         ("openmpi@5.0.10", "libfabric@2.5.1 fabrics=cxi", "libcxi@13.0.0"), NOT_THERE),
        ("libcxi-fuse-3", ("libcxi@13", "libfuse@3.16"), THERE),
        ("libcxi-fuse-3", ("libcxi@13", "libfuse@2.9.9"), NOT_THERE),
    ],
)  # fmt: skip
def test_what_a_recipe_asks_for(conflict, specs, expected):
    assert answer(conflict, *specs) is expected


@pytest.mark.parametrize(
    ("conflict", "specs", "mpi", "expected"),
    [
        ("cray-mpich-libfabric-1.22", ("cray-mpich@8.1.25", "libfabric@1.22.0"), "cray-mpich", THERE),
        ("cray-mpich-libfabric-1.22", ("cray-mpich@8.1.28", "libfabric@1.22.0"), "cray-mpich", NOT_THERE),
        ("cray-mpich-libfabric-2.3.1", ("cray-mpich@8.1.27", "libfabric@2.3.1"), "cray-mpich", THERE),
        ("cray-mpich-thread-multiple", ("cray-mpich@8.1.28 +cuda",), "cray-mpich", THERE),
        ("cray-mpich-ipc-cache", ("cray-mpich@8.1.32 +rocm",), "cray-mpich", THERE),
        ("cray-mpich-ipc-cache", ("cray-mpich@9.0.0 +rocm",), "cray-mpich", NOT_THERE),
        ("mpich-cxi-any-source", ("mpich@4.2.3", "libfabric@2.3 fabrics=cxi"), "mpich", THERE),
        ("mpich-cxi-any-source", ("mpich@4.3.0", "libfabric@2.3 fabrics=cxi"), "mpich", NOT_THERE),
        ("mpich-4.3-xpmem-dip", ("mpich@4.3.2 +xpmem",), "mpich", THERE),
        ("mpich-4.3-xpmem-dip", ("mpich@4.3.0 +xpmem",), "mpich", NOT_THERE),
        ("mpich-4.3-xpmem-dip", ("mpich@5.0.0 +xpmem",), "mpich", NOT_THERE),
        # One MPI rules out the others.
        ("mpich-cxi-any-source", ("libfabric@2.3 fabrics=cxi",), "openmpi", NOT_THERE),
        ("mpich-cxi-any-source", ("libfabric@2.3 fabrics=cxi",), None, CANNOT_TELL),
    ],
)  # fmt: skip
def test_each_mpi(conflict, specs, mpi, expected):
    assert answer(conflict, *specs, mpi=mpi) is expected


def test_settings_of_another_mpi_or_of_what_nobody_asks_for_do_not_bring_it():
    packages = {"mpich": {"require": "@4.2"}}
    specs = ("openmpi@5.0.9", "libfabric@2.3 fabrics=cxi")
    found = answer("mpich-cxi-any-source", *specs, mpi="openmpi", packages=packages)
    assert found is NOT_THERE
    packages = {"libfabric": {"require": "@2.4.0 fabrics=cxi,lnx"}}
    assert answer("libfabric-2.4.0-lnx-cxi", "cmake", packages=packages) is NOT_THERE


def test_every_conflict_was_tried():
    marks = [*test_what_a_recipe_asks_for.pytestmark, *test_each_mpi.pytestmark]
    tried = {case[0] for mark in marks for case in mark.args[1] if case[-1] is THERE}
    assert tried == set(BY_ID) - {"openmpi-5.0.8-lnx-device-rocm"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"require": "@2.4.0 fabrics=cxi,lnx"}, THERE),
        ({"require": ["@2.4.0", "fabrics=cxi,lnx"]}, THERE),
        ({"require": ["libfabric@2.4.0 fabrics=lnx,cxi"]}, THERE),
        ({"require": [{"spec": "@2.4.0 fabrics=cxi,lnx"}]}, THERE),
        ({"require": [{"spec": "@2.4.0 fabrics=cxi,lnx", "when": "+x"}]}, CANNOT_TELL),
        ({"require": [{"any_of": ["@2.4.0", "@2.5.1"]}]}, CANNOT_TELL),
        ({"require": "@2.5.1"}, NOT_THERE),
        ({"buildable": False, "externals": [{"spec": "libfabric@2.4.0 fabrics=cxi,lnx"}]}, THERE),
        ({"buildable": False, "externals": [{"spec": "libfabric@1.22.0 fabrics=cxi"}]}, NOT_THERE),
        ({"buildable": False,
          "externals": [{"spec": "libfabric@2.4.0"}, {"spec": "libfabric@1.22.0"}]}, CANNOT_TELL),
        ({"buildable": True, "externals": [{"spec": "libfabric@1.22.0"}]}, CANNOT_TELL),
        ({"buildable": False}, CANNOT_TELL),
        ({"externals": "?"}, CANNOT_TELL),
        ("nonsense", CANNOT_TELL),
    ],
)  # fmt: skip
def test_settings_of_packages(body, expected):
    packages = {"libfabric": body}
    assert answer("libfabric-2.4.0-lnx-cxi", "libfabric", packages=packages) is expected


def test_variants_of_the_environment_are_those_of_its_packages():
    specs = ("openmpi@5.0.7", "libfabric@2.3 fabrics=lnx")
    conflict = "openmpi-lnx-device-registration-cuda"
    assert answer(conflict, *specs, variants=("+cuda", "cuda_arch=90")) is THERE
    assert answer(conflict, *specs, variants=("~cuda",)) is NOT_THERE


# with a lock


def locked(*nodes, roots=("openmpi",), unify="true", **changes):
    """Return what is found in a stack whose lock has these packages."""
    asked = stack(environments=(environment(unify=unify, **changes),))
    environments = {"environments/apps": content(roots, *nodes)}
    lock = SpackLock(wants="x", clones=clones(asked), environments=environments)
    return find(asked, lock, KNOWN)


def fabrics(*names: str):
    return {"variants": {"fabrics": list(names)}}


def test_a_lock_decides():
    found = locked(
        node("openmpi", "5.0.7", ("libfabric", "link"), variants={"cuda": True}),
        node("libfabric", "2.3.1", **fabrics("lnx", "shm")),
    )
    ids = {finding.conflict.id for finding in found}
    assert ids == {
        "openmpi-lnx-device-registration-cuda",
        "openmpi-5.0-device-nonblocking-collectives",
    }
    assert {finding.answer for finding in found} == {THERE}
    assert found[0].versions == ("openmpi@5.0.7", "libfabric@2.3.1")


@pytest.mark.parametrize(
    ("kind", "version", "names"), [("link", "2.3.1", ("shm",)), ("build", "2.4.0", ("lnx", "cxi"))]
)
def test_a_lock_without_the_package_rules_it_out_and_what_only_builds_does_not_count(
    kind, version, names
):
    found = locked(
        node("openmpi", "5.0.9", ("libfabric", kind), variants={"cuda": False}),
        node("libfabric", version, **fabrics(*names)),
    )
    assert found == ()


def test_packages_of_two_roots_meet_only_where_they_are_unified():
    nodes = (
        node("mpich", "4.2.0"),
        node("libfabric", "2.5.1", **fabrics("cxi")),
    )
    both = ("mpich", "libfabric")
    ids = [f.conflict.id for f in locked(*nodes, roots=both, mpi="mpich")]
    assert ids == ["mpich-cxi-any-source"]
    assert locked(*nodes, roots=both, mpi="mpich", unify="false") == ()


def test_of_two_solutions_each_is_looked_at():
    old, new = node("libfabric", "2.4.0", **fabrics("lnx", "cxi")), node("libfabric", "2.5.1")
    new = {**new, "hash": digest("other")}
    data = content(("libfabric",), old, new)
    data["roots"] = [{"hash": new["hash"], "spec": "a"}, {"hash": old["hash"], "spec": "b"}]
    asked = stack(environments=(environment(unify="false"),))
    lock = SpackLock(wants="x", clones=(), environments={"environments/apps": data})
    assert [f.conflict.id for f in find(asked, lock, KNOWN)] == ["libfabric-2.4.0-lnx-cxi"]


def test_an_exact_version_is_not_those_that_begin_with_it():
    of = {"variants": {"fabrics": ["cxi"]}}
    assert locked(node("libfabric", "2.1", **of), roots=("libfabric",))[0].versions == (
        "libfabric@2.1",
    )


def test_a_branch_cannot_be_told():
    (found, *_) = locked(node("libfabric", "main", **fabrics("lnx", "cxi")), roots=("libfabric",))
    assert found.answer is CANNOT_TELL


# what is said


def said(*specs: str, accepted=(), where=None, known=KNOWN):
    """Return problems and notes of a stack of these specs before there is a lock."""
    asked = stack(environments=(environment(specs=specs),), packages={})
    return split(find(asked, None, known), accepted, where or {})


GDRCOPY = "libfabric@2.1.0 fabrics=lnx,cxi +gdrcopy"


def test_errors_are_problems_warnings_are_notes_and_both_name_all():
    place = Location(file="recipe.yaml", line=7, column=3)
    problems, notes = said(GDRCOPY, where={"apps": place})
    assert [p.where for p in problems] == [place]
    text = str(problems[0])
    conflict = BY_ID["libfabric-lnx-gdrcopy"]
    for word in ("libfabric@2.1.0", "apps", conflict.reason, conflict.remedy, conflict.id):
        assert word in text
    assert all(url in text for url in conflict.sources)
    assert any("libfabric-lnx-probe" in n.message for n in notes)


def test_what_is_accepted_is_no_problem():
    problems, notes = said(GDRCOPY, accepted=("libfabric-lnx-gdrcopy", "libfabric-lnx-probe"))
    assert problems == ()
    assert any(note.message.startswith("accepted: ") for note in notes)
    assert not any("libfabric-lnx-probe" in note.message for note in notes)


def test_what_cannot_be_told_is_one_note_where_a_version_is_named():
    problems, notes = said("libfabric@2: fabrics=lnx,cxi")
    assert problems == ()
    (note,) = [n for n in notes if "cannot be told" in n.message]
    assert "libfabric-2.4.0-lnx-cxi" in note.message
    assert "before there is a lock" in note.message
    assert said("openmpi", "libfabric") == ((), ())


def test_severity_decides():
    warning = replace(BY_ID["libfabric-lnx-gdrcopy"], severity=ConflictSeverity.WARNING)
    problems, notes = said(GDRCOPY, known=[warning])
    assert (len(problems), len(notes)) == (0, 1)
