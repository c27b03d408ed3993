"""Spack's specs, version ranges and variants as text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stackproof.core.versions import ANY, PackageSpec, Range, Versions, parse_spec, versions

TRUE, FALSE = frozenset(("true",)), frozenset(("false",))


# What `satisfies` and `intersects` of Spack 1.1 answer for the same two.
@pytest.mark.parametrize(
    ("one", "other", "within", "meets"),
    [
        ("2.3.1", "2.1:2.3", True, True),
        ("2.1:2.3", "2.3.1", False, True),
        ("5.0.7", "5.0.0:5.0.7", True, True),
        ("5.0.8", "5.0.0:5.0.7", False, False),
        ("5.0", "5.0.0:5.0.7", False, True),
        ("5.0", "5:5.0", True, True),
        ("5.0.10", "5.0", True, True),
        ("5.1", "5.0", False, False),
        ("2:", ":1.22", False, False),
        ("2:", "2.4.0", False, True),
        ("2:", "2.0:", False, True),
        (":8.1.27", ":8", True, True),
        (":8", ":8.1.27", False, True),
        ("1", ":1.2", False, True),
        ("=1", ":1.2", True, True),
        ("=2.3", "2.3", True, True),
        ("2.3", "=2.3", False, True),
        ("=2.3", "=2.3", True, True),
        ("=2.3", "=2.3.1", False, False),
        ("2.3.1", "=2.3", False, False),
        ("=2", "2.0:", False, False),
        ("1.15,1.22", "1.22", False, True),
        ("1.22", "1.15,1.22", True, True),
        ("13.1.0,14.0.0", "14", False, True),
        ("10", "9:", True, True),
        ("git.abc=2.3", "2.3", True, True),
        ("main", "2.3", False, True),
        ("2.3", "main", False, True),
        (":", "2.3", False, True),
        ("2.3", ":", True, True),
    ],
)
def test_versions_against_versions(one, other, within, meets):
    assert versions(one).within(versions(other)) is within
    assert versions(one).meets(versions(other)) is meets


PARTS = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(tuple)
RANGES = st.one_of(
    st.builds(lambda v: Range(v, v), PARTS),
    st.builds(lambda v: Range(v, v, exact=True), PARTS),
    st.builds(Range, st.none() | PARTS, st.none() | PARTS),
).filter(lambda r: r.low is None or r.high is None or r.low[: len(r.high)] <= r.high)


def holds(version: tuple[int, ...], one: Range) -> bool:
    """Say whether one version is in a range, by the definition."""
    if one.exact:
        return version == one.low
    low = one.low is None or version >= one.low
    return low and (one.high is None or version[: len(one.high)] <= one.high)


@given(RANGES, RANGES, PARTS)
def test_a_version_within_one_range_is_in_those_around_it(one, other, version):
    if one.within(other) and holds(version, one):
        assert holds(version, other)


@given(RANGES, RANGES, PARTS)
def test_ranges_with_a_version_in_common_meet(one, other, version):
    if holds(version, one) and holds(version, other):
        assert one.meets(other)
        assert other.meets(one)


@given(RANGES, RANGES)
def test_meeting_goes_both_ways_and_follows_from_being_within(one, other):
    assert one.meets(other) is other.meets(one)
    assert one.within(one)
    assert one.within(Range(None, None))
    if one.within(other):
        assert one.meets(other)


@given(RANGES)
def test_text_and_back(one):
    def text(part: tuple[int, ...] | None) -> str:
        return ".".join(map(str, part or ()))

    if one.exact:
        assert versions(f"={text(one.low)}") == Versions((one,))
    else:
        assert versions(f"{text(one.low)}:{text(one.high)}") == Versions((one,))


@pytest.mark.parametrize(
    ("text", "known"),
    [("2.3", True), ("2.3:", True), (":", True), ("main", False), ("2.3,main", False),
     ("2.3-rc1", False), ("a:b", False), ("2.3:x", False), ("x:2.3", False), ("25-05-4", True)],
)  # fmt: skip
def test_what_can_be_compared(text, known):
    assert versions(text).known is known


@pytest.mark.parametrize(
    ("text", "packages"),
    [
        ("cmake", [("cmake", ANY, {})]),
        ("hdf5@1.14 +mpi~cxx", [("hdf5", versions("1.14"), {"mpi": TRUE, "cxx": FALSE})]),
        ("hdf5 ++mpi ~~cxx", [("hdf5", ANY, {"mpi": TRUE, "cxx": FALSE})]),
        ("openmpi fabrics=cma,ofi schedulers==slurm", [
            ("openmpi", ANY, {"fabrics": frozenset(("cma", "ofi")), "schedulers": frozenset(("slurm",))}),
        ]),
        ("libfabric fabrics:=cxi,lnx", [("libfabric", ANY, {"fabrics": frozenset(("cxi", "lnx"))})]),
        ('zlib cflags="-O3 -g"', [("zlib", ANY, {"cflags": frozenset(("-O3 -g",))})]),
        ("zlib target='zen3'", [("zlib", ANY, {"target": frozenset(("zen3",))})]),
        ("mpich@4.2 device=ch4 ^libfabric@2.3 fabrics=cxi", [
            ("mpich", versions("4.2"), {"device": frozenset(("ch4",))}),
            ("libfabric", versions("2.3"), {"fabrics": frozenset(("cxi",))}),
        ]),
        ("hdf5 ^[virtuals=mpi] openmpi@5", [("hdf5", ANY, {}), ("openmpi", versions("5"), {})]),
        ("hdf5 %c,cxx=llvm@18 ^zlib", [
            ("hdf5", ANY, {}), ("llvm", versions("18"), {}), ("zlib", ANY, {}),
        ]),
        ("builtin.zlib@1.3", [("zlib", versions("1.3"), {})]),
        ("gcc@=13.2.0%gcc@12", [("gcc", versions("=13.2.0"), {}), ("gcc", versions("12"), {})]),
        ("fabrics=cxi fabrics=lnx", []),
        ("", []),
    ],
)  # fmt: skip
def test_specs(text, packages):
    assert parse_spec(text) == tuple(PackageSpec(*parts) for parts in packages)


def test_a_spec_without_a_name_gets_the_packages():
    assert parse_spec("@2.3 +cuda", "libfabric") == (
        PackageSpec("libfabric", versions("2.3"), {"cuda": TRUE}),
    )
    assert parse_spec("libfabric@2.3", "libfabric")[0].versions == versions("2.3")


@given(st.text(max_size=60))
@example("\N{SUPERSCRIPT TWO}")  # a digit, and no number
def test_no_text_breaks_it(text):
    for one in parse_spec(text):
        assert one.name
    versions(text)


NAMES = st.sampled_from(("openmpi", "py-numpy", "hdf5", "gcc", "intel-oneapi-mpi"))
VARIANTS = st.sampled_from(("+cuda", "~rocm", "fabrics=cxi,lnx", "cuda_arch=90", "@5.0:5.1"))


@given(st.lists(st.tuples(NAMES, st.lists(VARIANTS, max_size=3, unique=True)), min_size=1))
def test_every_package_of_a_spec_is_found_with_its_own_variants(parts):
    text = " ^".join(" ".join((name, *variants)) for name, variants in parts)
    found = parse_spec(text)
    assert [one.name for one in found] == [name for name, _ in parts]
    for one, (_, variants) in zip(found, parts, strict=True):
        assert (one.variants.get("cuda") == TRUE) == ("+cuda" in variants)
        assert (one.versions == versions("5.0:5.1")) == ("@5.0:5.1" in variants)
        assert ("fabrics" in one.variants) == ("fabrics=cxi,lnx" in variants)
