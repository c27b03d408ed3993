"""Packs as arms: what they say of themselves is read and held, and what is no pack says so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stackproof.bench.effects import launching
from stackproof.bench.effects.arms import Arms, check_unchanged, compared, make_ready
from stackproof.bench.effects.compiled_programs import with_programs
from stackproof.bench.effects.kinds.pack_arm import of_pack
from stackproof.bench.program_spec import Program
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.core import noun
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.image.effects import tree
from stackproof.image.model import MpiFacts
from stackproof.pack.effects.unpacked import load_pack
from stackproof.pack.model import Mounting, Origin, Pack

NATIVE = "stackproof-bench"
_MACHINE = 18  # the offset of e_machine in an ELF file
_AARCH64 = b"\xb7\0"


def packed(top: Path, *programs: str, inside: bool = True, **more: object) -> Path:
    """Make the folder of a pack with programs, as `stackproof pack` leaves it."""
    shown = {}
    for name in programs or (NATIVE, "mpiexec"):
        for place in (f"stack/mpi/bin/{name}", f"stack/mpi/.bin/{name}"):
            (top / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy("/bin/true", top / place)
        (top / "bin").mkdir(exist_ok=True)
        (top / "bin" / name).symlink_to(f"../stack/mpi/bin/{name}")
        shown[name] = f"stack/mpi/bin/{name}"
    (top / "stack/mpi/lib").mkdir()
    (top / "stack/mpi/lib/libmpi.so.12").write_bytes(b"library")
    pack = Pack(
        name="mpich", tier=0, floor=17, programs=shown, libraries={},
        tree=tree.of_folder(top, ("meta",)).sha256,
        origin=Origin(image="mpich", image_sha256="a" * 64, stack="s", lock="l" * 64, tree="",
                      glibc="2.36", stackproof="1"),
        documents={"lock.json": '{"of": "the lock"}'},
        mpi=MpiFacts(family="mpich", version="5.0.2", prefix="stack/mpi", launcher="hydra"),
    )  # fmt: skip
    told = top / "meta" / "provenance.json" if inside else Path(f"{top}.provenance.json")
    told.parent.mkdir(exist_ok=True)
    told.write_text(noun.to_json(replace(pack, **more)))  # type: ignore[arg-type]
    return top


def arms(*folders: Path) -> Arms:
    found = [Arm(pack=os.fspath(one)) for one in folders]
    return make_ready(BenchSpec(baseline=found[0], challengers=tuple(found[1:]), null_arm=False))


def test_it_is_what_it_says_of_itself_and_its_own_programs_run(tmp_path: Path) -> None:
    top = packed(tmp_path / "a pack")
    (ready,) = arms(top).by_name.values()
    digest = load_pack(os.fspath(top)).tree
    deployment = ready.deployment
    assert (deployment.name, ready.image.sha256, deployment.mounts) == ("mpich", digest, ())
    assert deployment.mpi.prefix == f"{top}/stack/mpi"
    assert deployment.programs[NATIVE] == f"{top}/bin/{NATIVE}"
    told = compared(ready)
    assert (told.kind, told.image, told.mpi["version"]) == ("pack", f"{top}", "5.0.2")
    assert (told.lock, told.lock_digest) == ('{"of": "the lock"}', "l" * 64)
    assert digest in told.found["tree"]
    assert "nothing is mounted" in told.found["tier"]
    check_unchanged(ready)
    (top / "stack/mpi/lib/libmpi.so.12").write_bytes(b"another one")
    with pytest.raises(StackproofError, match="was replaced while it was measured"):
        check_unchanged(ready)


def test_what_its_programs_mount_and_rename_is_told(tmp_path: Path) -> None:
    mounting = Mounting(place="/user-environment", because="it was asked for")
    top = packed(tmp_path / "one", tier=1, mounting=mounting)
    renamed = packed(tmp_path / "two", "bench", programs={"bench": f"stack/mpi/bin/{NATIVE}"})
    by_name = arms(top, renamed).by_name
    assert "mounted at /user-environment" in by_name["one"].found["tier"]
    assert by_name["two"].deployment.programs[NATIVE] == f"{renamed}/bin/bench"


@pytest.mark.parametrize("ending", ["", ".tar.zst", ".tar.gz"])
def test_what_lies_beside_it_counts_by_its_name(tmp_path: Path, ending: str) -> None:
    top = packed(tmp_path / "pack", inside=False)
    Path(f"{top}.provenance.json").rename(f"{top}{ending}.provenance.json")
    assert load_pack(os.fspath(top)).name == "mpich"


def elsewhere(top: Path) -> None:
    entry = top / "stack/mpi/bin" / NATIVE
    content = bytearray(entry.read_bytes())
    content[_MACHINE : _MACHINE + 2] = _AARCH64
    entry.write_bytes(content)


def as_file(begin: bytes) -> Callable[[Path], None]:
    def change(top: Path) -> None:
        shutil.rmtree(top)
        top.write_bytes(begin + bytes(100))

    return change


def changed(top: Path) -> None:
    (top / "stack/mpi/lib/libmpi.so.12").write_bytes(b"Library")


@pytest.mark.parametrize(
    ("spoil", "reason", "said", "hint"),
    [
        (shutil.rmtree, Reason.FILE_MISSING, "there is no", "name a pack's folder"),
        (as_file(b"hsqs"), Reason.UNSUPPORTED, "is a file", "unsquashfs -d DIR"),
        (as_file(b"\x28\xb5\x2f\xfd"), Reason.UNSUPPORTED, "is a file", "tar -xf"),
        (as_file(b"\x1f\x8b\x08\x00"), Reason.UNSUPPORTED, "is a file", "tar -xf"),
        (as_file(b""), Reason.UNSUPPORTED, "is a file", "stackproof pack IMAGE -o DIR"),
        (lambda top: shutil.rmtree(top / "stack"), Reason.UNSUPPORTED, "is no pack", "pack IMAGE"),
        (lambda top: shutil.rmtree(top / "meta"), Reason.FILE_MISSING,
         "no `pack.provenance.json` beside it", "--provenance inside"),
        (elsewhere, Reason.UNSUPPORTED, "is for aarch64, and this machine is", "pack the stack on"),
        (changed, Reason.IMAGE_DAMAGED, "not as they were packed", "copy or unpack it again"),
    ],
)  # fmt: skip
def test_what_is_no_pack_that_can_be_measured(
    tmp_path: Path, spoil: Callable[[Path], object], reason: Reason, said: str, hint: str
) -> None:
    top = packed(tmp_path / "pack")
    spoil(top)
    with pytest.raises(StackproofError, match=said) as caught:
        arms(top)
    assert caught.value.reason is reason
    assert hint in (caught.value.problems[0].hint or "")


@pytest.mark.parametrize(
    ("more", "reason", "said"),
    [
        ({"mpi": None}, Reason.NO_MPI, "does not say which MPI"),
        ({"programs": {"app": "stack/mpi/bin/app"}}, Reason.COMMAND_NOT_FOUND, "has none of"),
    ],
)
def test_a_pack_without_what_is_measured(
    tmp_path: Path, more: dict[str, object], reason: Reason, said: str
) -> None:
    top = packed(tmp_path / "pack", "app", **more)
    with pytest.raises(StackproofError, match=said) as caught:
        of_pack(Arm(pack=os.fspath(top)), (NATIVE,))
    assert caught.value.reason is reason
    assert "pack" in (caught.value.problems[0].hint or "")


def test_nothing_is_compiled_with_a_pack(tmp_path: Path) -> None:
    (tmp_path / "imb").mkdir()
    wanted = Program(name="IMB-MPI1", source=f"{tmp_path}/imb")
    with pytest.raises(StackproofError, match="none can be compiled with it"):
        with_programs(arms(packed(tmp_path / "pack")), [wanted])


def test_buffers_of_a_gpu_are_refused_by_its_bill(tmp_path: Path) -> None:
    (ready,) = arms(packed(tmp_path / "pack")).by_name.values()
    bill = '{"components": []}'
    asked = launching._without(replace(ready, documents={"bom.cdx.json": bill}))
    assert asked == launching.transports.without_by_bill(bill, "mpich")
