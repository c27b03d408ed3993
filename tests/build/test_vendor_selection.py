"""Which RPMs of a folder become a stack: names that hold versions, decoys, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import crayrelease
from crayrelease import PE, small
from stackproof.build.engines.vendor import engine, releases, rpm, selection
from stackproof.build.engines.vendor.effects import builder, worker
from stackproof.build.engines.vendor.engine import ENGINE, ReadRpm, make_lock, parse_vendor_recipe
from stackproof.build.engines.vendor.selection import ChosenRpms
from stackproof.build.engines.vendor.stack import VendorStack
from stackproof.core import document
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.value import replace
from stackproof.linking.elf import ElfFile, VersionNeed
from stackproof.linking.elf.layout import BytesSource
from vendorrpms import Member, Package, link, text

RECIPE = "engine: vendor\nname: small\nmpi: {family: cray-mpich}\n"
FACTS = {"architecture": "x86_64", "compiler": "gcc 12.2.0"}


def stack(more: str = "", **changes: object) -> VendorStack:
    made = parse_vendor_recipe(document.parse(RECIPE + more, file="r.yaml"), FACTS)
    return replace(made, **changes)  # type: ignore[arg-type]


def read(*packages: Package) -> tuple[rpm.Rpm, ...]:
    return tuple(rpm.parse(BytesSource(one.file, one.bytes())) for one in packages)


def mpich(version: str, tag: str = "gnu_123", place: str = "gnu/12.3", name: str = "") -> Package:
    word = name or tag.replace("_", "")
    return Package(f"cray-mpich-{version}-{word}", small(version, tag, place))


def pmi(version: str, name: str = "cray-pmi") -> Package:
    return Package(f"{name}-{version}", {f"{PE}/pmi/{version}/lib/libpmi.so.0": text("x")})


def gtl(version: str, kind: str = "cuda") -> Package:
    path = f"{PE}/mpich/{version}/gtl/lib/libmpi_gtl_{kind}.so.0"
    return Package(f"cray-mpich-{version}-gtl", {path: text("x")})


def chosen(wish: VendorStack, *packages: Package) -> list[str]:
    found = selection.select(read(*packages), wish, "dir")
    return [f"{one.role} {one.release} {one.compiler}{one.built}".strip() for one in found.products]


def refused(wish: VendorStack, *packages: Package) -> tuple[Problem, ...]:
    with pytest.raises(StackproofError) as caught:
        selection.select(read(*packages), wish, "dir")
    return caught.value.problems


DECOYS = (
    Package("cray-mpich-ucx-8.1.30-gnu123", small("8.1.30", "gnu_123", "gnu/12.3", "ucx")),
    Package("cray-mpich-8.1.30-doc", {f"{PE}/mpich/8.1.30/man/mpich/man3/MPI_Send.3": text("x")}),
    Package("cray-mpich-8.1.30-abi", {f"{PE}/mpich/8.1.30/ofi/abi/README": text("x")}),
    Package("other", {"/usr/bin/other": text("x")}),
)


def test_the_newest_of_what_is_asked_for() -> None:
    every = (
        *DECOYS, mpich("8.1.9"), mpich("8.1.30", "gnu_91", "gnu/9.1"), mpich("8.1.30"),
        mpich("8.1.30", "nvidia", "nvidia/20.7", "nvidia207"), mpich("8.1.25"),
    )  # fmt: skip
    assert chosen(stack(), *every) == ["mpich 8.1.30 gnu12.3"]
    assert chosen(stack(compiler="gnu-9"), *every) == ["mpich 8.1.30 gnu9.1"]
    assert chosen(stack(compiler="nvidia"), *every) == ["mpich 8.1.30 nvidia20.7"]
    assert chosen(stack(mpi_version="8.1.25"), *every) == ["mpich 8.1.25 gnu12.3"]
    (problem,) = refused(stack(mpi_version="8.1.2"), *every)
    assert (problem.reason, problem.hint) == (
        Reason.UNKNOWN_VERSION, "there are: 8.1.25, 8.1.30, 8.1.9",
    )  # fmt: skip
    (problem,) = refused(stack(compiler="aocc"), *every)
    assert "8.1.30 for nvidia-20.7" in str(problem.hint)


@pytest.mark.parametrize("name", ["gnu-12.3", "gnu12.3", "GNU123", "for-gcc"])
def test_how_a_name_spells_its_compiler_does_not_matter(name: str) -> None:
    assert chosen(stack(), mpich("9.0.0", name=name)) == ["mpich 9.0.0 gnu12.3"]


def test_only_decoys_are_no_mpi() -> None:
    (problem,) = refused(stack(), *DECOYS)
    assert problem.reason is Reason.FILE_MISSING
    assert "`dir` has no RPM of Cray MPICH for OFI and x86_64" in problem.message
    assert "--from" in str(problem.hint)


def test_an_rpm_for_another_machine_is_none() -> None:
    foreign = replace(mpich("8.1.30"), architecture="aarch64")
    (problem,) = refused(stack(), foreign)
    assert "what is there is for aarch64" in problem.message
    assert chosen(stack(), foreign, mpich("8.1.25")) == ["mpich 8.1.25 gnu12.3"]
    assert chosen(stack(architecture="aarch64"), foreign) == ["mpich 8.1.30 gnu12.3"]


def test_pmi_that_goes_with_it() -> None:
    """8.1.33 and 9.0.1 need PMI 6.1.16, others an older one; -devel comes along, pals too."""
    every = (pmi("6.1.9"), pmi("6.1.15"), pmi("6.1.15", "cray-pmi-devel"), pmi("6.1.16"))
    old = ["mpich 8.1.32 gnu12.3", "pmi 6.1.15", "pmi 6.1.15"]
    assert chosen(stack(), mpich("8.1.32"), *every) == old
    assert chosen(stack(), mpich("9.0.0"), *every)[1:] == old[1:]
    for new in ("8.1.33", "9.0.1", "9.1.0", "10.0.0"):
        assert chosen(stack(), mpich(new), *every)[1:] == ["pmi 6.1.16"]
    pals = Package("cray-pals-1.3.2", {"/opt/cray/pals/1.3.2/lib/libpals.so.0": text("x")})
    assert chosen(stack(), mpich("8.1.33"), pmi("6.1.16"), pals)[-1] == "pals 1.3.2"
    (problem,) = refused(stack(), mpich("8.1.33"), pmi("6.1.15"))
    assert "Cray MPICH 8.1.33 needs PMI 6.1.16 or newer, and `dir` has 6.1.15" in problem.message


def test_gtl_of_the_same_release_or_of_the_one_it_was_taken_from() -> None:
    wish = stack(gtl="cuda")
    assert chosen(wish, mpich("8.1.30"), gtl("8.1.30"))[1] == "gtl 8.1.30"
    assert chosen(wish, mpich("9.0.1"), gtl("8.1.33"), gtl("8.1.32"))[1] == "gtl 8.1.33"
    assert len(chosen(stack(), mpich("8.1.30"), gtl("8.1.30"))) == 1
    for wrong in (gtl("8.1.29"), gtl("8.1.30", "hsa")):
        (problem,) = refused(wish, mpich("8.1.30"), wrong)
        assert "no RPM with libmpi_gtl_cuda.so for Cray MPICH 8.1.30" in problem.message
        assert "cray-mpich-8.1.30-gtl-*.rpm" in str(problem.hint)


def test_two_builds_of_one_release() -> None:
    """The newer build counts, and that the other is passed over is told; equal ones are refused."""
    old, new = mpich("8.1.30"), replace(mpich("8.1.30"), release="24.sles15sp5")
    found = selection.select(read(old, new), stack(), "dir")
    assert found.mpich.rpm.release == "24.sles15sp5"
    assert found.notes == (f"`{old.file}` is passed over: `{new.file}` is newer",)
    copied = tuple(replace(one, file=f"copy{n}.rpm") for n, one in enumerate(read(old, old)))
    with pytest.raises(StackproofError, match=r"are both cray-mpich-8\.1\.30-gnu123-0-17"):
        selection.select(copied, stack(), "dir")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"lib/../../../etc/x": text("x")}, "leads out of where it belongs"),
        ({"lib/x": link("/etc/passwd")}, "leads to `/etc/passwd`"),
        ({"lib/x": link("../../../../../../etc/passwd")}, "leads to"),
        ({"lib/x": link("y/../../../..")}, "leads to"),
        ({"lib/d": link("."), "lib/d/x": text("x")}, "goes through a link"),
        ({"bin/x": Member(b"x", 0o104755)}, "(set-uid)"),
        ({"bin/x": Member(b"x", 0o102755)}, "(set-uid)"),
        ({"lib/x": Member(b"", 0o020666)}, "is no file and no link"),
    ],
)
def test_what_no_rpm_may_hold(members: Mapping[str, Member], said: str) -> None:
    root = f"{PE}/mpich/8.1.30/ofi/gnu/12.3"
    whole = {**mpich("8.1.30").members, **{f"{root}/{path}": one for path, one in members.items()}}
    problems = refused(stack(), Package("cray-mpich-8.1.30-gnu123", whole))
    assert {one.reason for one in problems} == {Reason.INVALID_VALUE}
    assert any(said in one.message for one in problems)
    assert all("cray-mpich-8.1.30-gnu123" in str(one.where) for one in problems)


def test_what_is_not_taken_may_be_anything_but_a_way_out() -> None:
    root = f"{PE}/mpich/8.1.30/ofi/gnu/12.3"
    other = {f"{PE}/lib64/libmpi.so": link(f"{root}/lib/x"), f"{root}/share/x": link("/etc")}
    whole = {**mpich("8.1.30").members, **other}
    assert chosen(stack(), Package("cray-mpich-8.1.30-gnu123", whole)) == ["mpich 8.1.30 gnu12.3"]


def test_an_rpm_that_contradicts_itself() -> None:
    (problem,) = refused(
        stack(), mpich("8.1.30"),
        Package("cray-mpich-8.1.31-gnu123", small("8.1.25", "gnu_123", "gnu/12.3")),
    )  # fmt: skip
    assert "its name says 8.1.31, and it holds /opt/cray/pe/mpich/8.1.25" in problem.message
    both = {**mpich("8.1.30").members, **mpich("8.1.25").members}
    problem = refused(stack(), Package("cray-mpich-8.1.30-gnu123", both))[0]
    assert "at once" in problem.message


def test_all_that_is_wrong_is_told_at_once() -> None:
    root = f"{PE}/mpich/8.1.33/ofi/gnu/12.3"
    members = {**mpich("8.1.33").members, f"{root}/lib/x": link("/"), f"{root}/lib/y": link("/etc")}
    found = refused(stack(gtl="rocm"), Package("cray-mpich-8.1.33-gnu123", members), pmi("6.1.15"))
    assert len(found) == 4


# ---- the lock, what is changed, and what is missing


def elf(**words: object) -> ElfFile:
    known = {"bits": 64, "little_endian": True, "machine": "x86_64", "kind": 3, "dynamic": True}
    return ElfFile(**{**known, **words})  # type: ignore[arg-type]


def locked(*packages: Package, wish: VendorStack, elfs: Mapping[str, ElfFile]) -> object:
    found = [selection.products(one) for one in read(*packages)]
    products = tuple(one for one in found if one)
    every = tuple(
        ReadRpm(
            product=one, sha256="0" * 64,
            files={file.path: file.sha256 for file in one.rpm.files if file.regular},
            elfs={file.sha256: elfs[file.path] for file in one.rpm.files if file.path in elfs},
        )
        for one in products
    )  # fmt: skip
    return make_lock(wish, ChosenRpms(products=products), every)


def test_libraries_for_another_machine_inside_an_rpm_are_refused() -> None:
    path = next(iter(mpich("8.1.30").members))
    with pytest.raises(StackproofError, match="is for aarch64, and the stack for x86_64"):
        locked(mpich("8.1.30"), wish=stack(), elfs={path: elf(machine="aarch64")})


def test_two_rpms_with_another_file_of_one_name() -> None:
    one, other = pmi("6.1.15"), Package(
        "cray-pmi-devel-6.1.15", {f"{PE}/pmi/6.1.15/lib/libpmi.so.0": text("another")}
    )  # fmt: skip
    with pytest.raises(StackproofError, match=r"bring a different `.*libpmi\.so\.0`"):
        locked(mpich("8.1.30"), one, other, wish=stack(), elfs={})


def test_what_is_changed_in_each_library() -> None:
    wish = stack("gtl: cuda\nxpmem: true\nlibraries: [/opt/cray/libfabric/1.22.0/lib64]\n")
    changes = selection.changes(wish, crayrelease.lock(wish))
    main, other = changes.values()
    assert main.rpath == (
        "$ORIGIN:$ORIGIN/../../cray-gtl-8.1.30/lib:/opt/cray/libfabric/1.22.0/lib64"
    )
    assert main.add == ("libmpi_gtl_cuda.so.0", "libxpmem.so.0")
    assert other.add == ("libcudart.so.12", "libcuda.so.1")


def test_hip_takes_the_place_of_an_older_one() -> None:
    wish = stack("gtl: rocm\nhip: '7'\n")
    lock = crayrelease.lock(wish)
    needs = replace(lock.libraries[1], needed=("libamdhip64.so.6", "libc.so.6"))
    changes = selection.changes(wish, replace(lock, libraries=(lock.libraries[0], needs)))
    assert changes[needs.target].replace == {"libamdhip64.so.6": "libamdhip64.so.7"}
    with pytest.raises(StackproofError, match="which `gtl` does not ask for"):
        stack("hip: '7'\n")


def test_a_missing_soname_is_named_with_its_rpm_and_others_are_the_sites() -> None:
    wish = stack("gtl: cuda\n")
    lock = crayrelease.lock(wish)
    assert selection.outside(wish, lock) == {
        "libfabric.so.1": "libmpi_gnu_123.so.12.0.0", "libpmi.so.0": "libmpi_gnu_123.so.12.0.0",
        "libcudart.so.12": "libmpi_gtl_cuda.so.0", "libcuda.so.1": "libmpi_gtl_cuda.so.0",
    }  # fmt: skip
    (problem,) = selection.missing(wish, lock)
    assert problem.message == (
        "`libpmi.so.0`, which `libmpi_gnu_123.so.12.0.0` needs, is in none of the RPMs: "
        "`cray-pmi-*.rpm`, 6.1.15 or older, would bring it"
    )
    assert releases.vendor_package("libpmi.so.0", "9.0.1").endswith(", 6.1.16 or newer,")
    assert releases.vendor_package("libpals.so.0", "9.0.1") == "cray-pals"
    assert releases.vendor_package("libmpi_gtl_hsa.so.0", "9.0.1") == "cray-mpich-8.1.33-gtl"
    assert releases.site_package("libgfortran.so.5") == "libgfortran5"
    assert releases.site_package("libunheard.so.1") == ""
    assert selection.floor(lock) == ("2.31", "libmpi_gnu_123.so.12.0.0")


def test_what_a_lock_answers() -> None:
    """What changes the RPMs asks for a new lock; what only changes the image does not."""
    lock = crayrelease.lock(stack())
    for same in (stack("xpmem: true\n"), stack("libraries: [/a]\n"), stack("views: {v: {}}\n")):
        assert ENGINE.stale(same, lock) == ""
    for other in (stack("gtl: cuda\n"), stack("compiler: gnu-9.1\n"), stack("abi: false\n")):
        assert ENGINE.stale(other, lock) == "the MPI, its compiler or its parts have changed"


def test_the_bill_and_the_description_say_that_it_stays_here() -> None:
    wish = stack("gtl: cuda\n")
    lock = crayrelease.lock(wish)
    image, bill = engine.describe_image(wish, lock), engine.render_bom(wish, lock)
    assert not image.redistribute
    assert image.mpi is not None
    assert (image.mpi.family, image.mpi.version) == ("cray-mpich", "8.1.30")
    assert image.views["default"].env.set["MPICH_GPU_SUPPORT_ENABLED"] == "1"
    assert "pkg:rpm/hpe/cray-mpich-8.1.30-gnu123@0-17?arch=x86_64" in bill
    assert "12" * 32 in bill
    assert '"stackproof:redistribute"' in bill
    assert "NVIDIA's driver" in bill


# ---- what is done to files

WRAPPER = """#!/bin/bash
prefix=/opt/cray/pe/mpich/8.1.30/ofi/gnu/12.3
exec_prefix=${prefix}
libdir="/opt/cray/pe/mpich/8.1.30/ofi/gnu/12.3/lib"
CC="/opt/cray/pe/gcc/12.2.0/bin/gcc"
if [ -n "$MPICH_CC" ] ; then
    CC="$MPICH_CC"
fi
    $Show $CC "${allargs[@]}" -I$includedir -L$libdir -lmpi_gnu_123 -lmpi_gnu_1234 $LDFLAGS
"""


def test_wrappers_are_rewritten() -> None:
    wish = stack("gtl: cuda\n")
    step = engine.install_step(wish, crayrelease.lock(wish))
    asked = document.parse(step.build_files["changes.json"], file="c").data
    found = worker.rewritten(WRAPPER.encode(), asked, wrapper=True).decode()
    prefix = "/user-environment/cray-mpich-8.1.30"
    linked = (
        f"-Wl,--disable-new-dtags -Wl,-rpath,$libdir -lmpi_gnu_123 -L{prefix.replace('mpich', 'gtl')}/lib "
        f"-Wl,-rpath,{prefix.replace('mpich', 'gtl')}/lib -Wl,--allow-shlib-undefined -lmpi_gtl_cuda"
    )
    assert found == (
        WRAPPER.replace("prefix=/opt/cray/pe/mpich/8.1.30/ofi/gnu/12.3", f'prefix="{prefix}"')
        .replace("exec_prefix=${prefix}", f'exec_prefix="{prefix}"')
        .replace("/opt/cray/pe/mpich/8.1.30/ofi/gnu/12.3/lib", f"{prefix}/lib")
        .replace('CC="/opt/cray/pe/gcc/12.2.0/bin/gcc"', 'CC="gcc"')
        .replace("-lmpi_gnu_123 ", f"{linked} ")
    )
    other = worker.rewritten(b"prefix=/opt/cray/pe/mpich/8.1.30/gtl\n\xff", asked, wrapper=False)
    assert other == b"prefix=/user-environment/cray-gtl-8.1.30\n\xff"


def test_a_library_that_was_changed_otherwise_is_found() -> None:
    need = VersionNeed("libamdhip64.so.6", "hip_6", 2, False, False)
    before = elf(needed=("libamdhip64.so.6", "libc.so.6"), runpath="/x", version_needs=(need,))
    change = selection.LibraryChange(
        rpath="$ORIGIN", add=("libcuda.so.1",), replace={"libamdhip64.so.6": "libamdhip64.so.7"}
    )
    right = replace(
        before, needed=("libcuda.so.1", "libamdhip64.so.7", "libc.so.6"), runpath=None,
        rpath="$ORIGIN", version_needs=(need._replace(library="libamdhip64.so.7"),),
    )  # fmt: skip
    assert builder.is_as_asked(before, right, change)
    for wrong in (
        {"rpath": "libcuda.so.1"}, {"runpath": "/x"}, {"soname": "x"}, {"exports": {"a": 1}},
        {"needed": ("libamdhip64.so.7", "libc.so.6")}, {"version_needs": (need,)},
        {"needed": ("libcuda.so.1", "libc.so.6", "libamdhip64.so.7")},
    ):  # fmt: skip
        assert not builder.is_as_asked(before, replace(right, **wrong), change), wrong
