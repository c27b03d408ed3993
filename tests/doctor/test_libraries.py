"""What an image's MPI and programs would load: libraries made for the test, nothing is run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import doctoring
from elflab import Lab
from images import MOUNT, env_json
from need import need
from stackproof.core import limits
from stackproof.core.errors import Reason, StackproofError
from stackproof.doctor.effects import machine, stacks
from stackproof.doctor.evidence.libraries import release_of
from stackproof.doctor.evidence.places import implied
from stackproof.image.effects.image_file import load_image
from stackproof.image.effects.view import ImageFiles
from stackproof.knowledge.evidence import merged
from stackproof.linking.effects.view import RootView
from stackproof.mount.effects.mount_exec import MARKER

PREFIX = f"{MOUNT}/mpi"
NODES_18 = "FABRIC_1.7 { global: fi_a; }; FABRIC_1.8 { global: fi_b; } FABRIC_1.7;"
NODES_19 = NODES_18 + " FABRIC_1.9 { global: fi_c; } FABRIC_1.8;"
RUNPATH = ("-Wl,-rpath,$ORIGIN:$ORIGIN/openmpi", "-Wl,--enable-new-dtags")


class Stack:
    """An Open MPI of four small libraries that asks for FABRIC_1.9, and an image of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lab = Lab(folder / "tree" / "mpi")
        self.libfabric()
        self.lab.library(
            "lib/openmpi/libpmix.so.2", defines=("pmix",),
            texts=("OpenPMIx 5.0.8 (PMIx Standard: 4.2)",),
        )  # fmt: skip
        self.lab.library("lib/libopen-pal.so.80", defines=("opal",))
        self.lab.library(
            "lib/libmpi.so.40", defines=("MPI_Init",), imports=("fi_c",), flags=RUNPATH,
            needs=("lib/openmpi/libfabric.so.1", "lib/openmpi/libpmix.so.2", "lib/libopen-pal.so.80"),
        )  # fmt: skip

    def libfabric(
        self, name: str = "lib/openmpi/libfabric.so.1", *, script: str = NODES_19,
        release: str = "2.5.1", needs: tuple[str, ...] = (),
    ) -> str:  # fmt: skip
        functions = ("fi_a", "fi_b") + (("fi_c",) if "1.9" in script else ())
        return self.lab.library(
            name, defines=functions, script=script, needs=needs, texts=(release,)
        )

    def image(self, name: str = "stack.squashfs") -> str:
        mpi = {"family": "openmpi", "version": "5.0.11", "prefix": PREFIX, "launcher": "prte"}
        tree = self.folder / "tree"
        for source in tree.glob("mpi/source*"):
            source.unlink()
        meta = tree / "meta"
        meta.mkdir(exist_ok=True)
        (meta / "env.json").write_text(json.dumps(env_json(mpi=mpi)))
        path = self.folder / name
        subprocess.run(
            ["mksquashfs", tree, path, "-noappend", "-no-progress", "-quiet"],
            check=True, timeout=600, capture_output=True,
        )  # fmt: skip
        return str(path)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    need("gcc", "mksquashfs")
    return Stack(tmp_path)


def told(image: str, *library_path: str) -> dict[str, object]:
    found = stacks.of_image(image, load_image(image), library_path)
    return {**found.facts, **found.versions}


def test_an_image_tells_what_its_mpi_loads(stack: Stack) -> None:
    image = stack.image()
    found = stacks.of_image(image, load_image(image), ())
    assert found.versions == {"libfabric": "2.5.1", "pmix": "5.0.8"}
    assert found.facts == {
        "mpi": "openmpi", "cxi-provider": False, "fabric-symbols-missing": False,
        "libraries-missing": False, "ofi-support": True, "xpmem-built": False,
    }  # fmt: skip
    assert f"{PREFIX}/lib/openmpi/libfabric.so.1" in found.origin("version", "libfabric")


def test_a_libfabric_in_front_lacks_what_is_asked_for(stack: Stack, tmp_path: Path) -> None:
    image = stack.image()
    older = stack.libfabric("older/libfabric.so.1", script=NODES_18, release="2.1.0")
    found = stacks.of_image(image, load_image(image), (os.path.dirname(older),))
    assert found.versions["libfabric"] == "2.1.0"
    assert found.facts["fabric-symbols-missing"] is True
    said = found.origin("fact", "fabric-symbols-missing")
    assert said == f"libmpi.so.40 needs FABRIC_1.9 of {older}"


def test_cxi_and_xpmem_show_in_what_is_loaded(stack: Stack) -> None:
    """XPMEM may be inside of a library, or a plug-in."""
    stack.lab.library("lib/openmpi/libcxi.so.1", defines=("cxi",))
    stack.libfabric(needs=("lib/openmpi/libcxi.so.1",))
    pal = stack.lab.library("lib/libopen-pal.so.80", defines=("opal",), texts=("/dev/xpmem",))
    facts = told(stack.image())
    assert (facts["cxi-provider"], facts["xpmem-built"]) == (True, True)
    os.unlink(pal)
    stack.lab.library("lib/libopen-pal.so.80", defines=("opal",))
    assert told(stack.image())["xpmem-built"] is False
    stack.lab.library("lib/openmpi/mca_smsc_xpmem.so", defines=("xpmem",))
    assert told(stack.image())["xpmem-built"] is True


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("libnowhere.so.7", "libnowhere.so.7, which libopen-pal.so.80 needs"),
        ("libcuda.so.1", f"what {PREFIX}/lib/libmpi.so.40 loads"),  # a login node may lack it
    ],
)
def test_a_library_that_is_nowhere_is_named(stack: Stack, name: str, said: str) -> None:
    nowhere = stack.lab.library(f"lib/{name}", defines=("no",))
    stack.lab.library("lib/libopen-pal.so.80", defines=("opal",), needs=(f"lib/{name}",))
    os.unlink(nowhere)
    image = stack.image()
    found = stacks.of_image(image, load_image(image), ())
    assert found.facts["libraries-missing"] is (name != "libcuda.so.1")
    assert found.origin("fact", "libraries-missing") == said


def test_damage_and_absence_tell_nothing(stack: Stack) -> None:
    library = stack.folder / "tree/mpi/lib/libmpi.so.40"
    library.write_bytes(b"no library")
    assert told(stack.image("damaged.squashfs")) == {}
    library.unlink()
    assert told(stack.image("none.squashfs")) == {}


def test_links_in_an_image_are_followed_as_far_as_they_go(stack: Stack) -> None:
    folder = stack.folder / "tree/mpi/lib/openmpi"
    (folder / "libfabric.so.1").rename(folder / "real [1] *.so")
    (folder / "libfabric.so.1").symlink_to("real [1] *.so")
    (folder / "loop.so").symlink_to("loop.so")
    (folder / "out.so").symlink_to(shutil.which("gcc") or "/usr/bin/gcc")
    (folder / "up.so").symlink_to(f"{PREFIX}/lib/../lib/libmpi.so.40")
    view = RootView("/", {MOUNT: ImageFiles(stack.image())})
    found = view.look(f"{PREFIX}/lib/openmpi/libfabric.so.1")
    assert found is not None
    assert found.path == f"{PREFIX}/lib/openmpi/real [1] *.so"
    assert view.elf(found).soname == "libfabric.so.1"
    assert view.look(f"{PREFIX}/lib/openmpi/loop.so") is None
    assert view.look(f"{PREFIX}/lib/openmpi/nothing") is None
    outside = view.look(f"{PREFIX}/lib/openmpi/out.so")
    assert outside is not None
    assert not outside.path.startswith(MOUNT)
    assert view.look(f"{PREFIX}/lib/openmpi/up.so") == view.look(f"{PREFIX}/lib/libmpi.so.40")
    assert "libpmix.so.2" in view.listing(f"{PREFIX}/lib/openmpi")
    assert view.listing(f"{PREFIX}/nothing") == ()
    elf_files = list(view.elf_files(f"{PREFIX}/lib"))
    assert f"{PREFIX}/lib/openmpi/real [1] *.so" in elf_files
    assert f"{PREFIX}/lib/openmpi/libfabric.so.1" not in elf_files


def test_large_libraries_are_read_and_huge_ones_are_passed_over(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = stack.image()
    monkeypatch.setattr(limits.IMAGE_MEMBER, "bytes", 1000)
    assert told(image)["libfabric"] == "2.5.1"
    monkeypatch.setattr(limits.ELF_CONTENT, "bytes", 1000)
    assert told(image) == {}


def test_a_damaged_image_is_an_error(stack: Stack) -> None:
    image = Path(stack.image())
    image.write_bytes(image.read_bytes()[:200] + bytes(4000))
    with pytest.raises(StackproofError) as caught:
        ImageFiles(str(image))
    assert caught.value.reason is Reason.IMAGE_UNREADABLE


def test_a_program_tells_what_it_loads(stack: Stack) -> None:
    prefix = stack.folder / "tree/mpi"
    program = stack.lab.program(needs=("lib/libmpi.so.40",), flags=(f"-Wl,-rpath,{prefix}/lib",))
    found = stacks.of_program(program, (), {})
    assert found.versions["libfabric"] == "2.5.1"
    assert found.facts["mpi"] == "openmpi"
    assert "gtl-linked" not in found.facts
    assert "uses" not in found.facts
    with pytest.raises(StackproofError) as caught:
        stacks.of_program(str(stack.folder / "nothing"), (), {})
    assert caught.value.reason is Reason.FILE_MISSING
    text = stack.folder / "script"
    text.write_text("#!/bin/sh\n")
    with pytest.raises(StackproofError) as caught:
        stacks.of_program(str(text), (), {})
    assert caught.value.reason is Reason.NOT_ELF


def test_a_program_tells_which_functions_it_calls(stack: Stack) -> None:
    stack.lab.library("lib/libcalls.so", defines=("MPI_Mprobe", "MPI_Iallreduce", "MPI_Alltoallv"))
    calls = ("MPI_Mprobe", "MPI_Iallreduce", "MPI_Alltoallv")
    program = stack.lab.program("bin/calls", needs=("lib/libcalls.so",), calls=calls)
    found = stacks.of_program(program, (f"{stack.folder}/tree/mpi/lib",), {})
    assert found.facts["uses"] == ("probe", "alltoall", "non-blocking-collective")
    assert found.partial == ("fact uses",)


def test_images_that_a_job_had_mounted_are_where_it_had_them(stack: Stack) -> None:
    """Once the job is over nothing is mounted; its environment says what was."""
    # The machine may have an Open MPI of its own, but not the library beside this one.
    stack.lab.library("lib/libbeside.so.1", defines=("beside",))
    needs = ("lib/libmpi.so.40", "lib/libbeside.so.1")
    program = stack.lab.program("bin/uses", needs=needs, calls=("MPI_Init", "beside"))
    image = stack.image()

    def facts(*lines: str) -> dict[str, object]:
        env = stack.folder / "job.env"
        env.write_text("\n".join((f"LD_LIBRARY_PATH={PREFIX}/lib", *lines, "")))
        found: dict[str, object] = doctoring.told("--program", program, "--env", env)["evidence"]
        return found["facts"]  # type: ignore[return-value]

    assert facts(f"{MARKER}={image}:{MOUNT}")["libraries-missing"] is False
    assert facts()["libraries-missing"] is True
    assert "libraries-missing" not in facts(f"{MARKER}={image}.gone:{MOUNT}")


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("rank 0 of 2\nSegmentation fault (signal 11)\n", "K176"),
        ("ERROR: cannot read mesh.inp\nsrun: error: n1: task 0: Exited with exit code 1\n", "K224"),
        ("uses: error while loading shared libraries: libbeside.so.1: cannot open shared object\n", "K73"),
        ("uses: symbol lookup error: uses: undefined symbol: beside\n", ""),
    ],
)  # fmt: skip
def test_a_shell_that_lacks_a_library_is_no_cause_of_a_job_elsewhere(
    stack: Stack, words: str, first: str
) -> None:
    beside = stack.lab.library("lib/libbeside.so.1", defines=("beside",))
    program = stack.lab.program("bin/uses", needs=("lib/libbeside.so.1",), calls=("beside",))
    os.unlink(beside)
    log, env = stack.folder / "job.log", stack.folder / "job.env"
    log.write_text(words)
    env.write_text("LD_LIBRARY_PATH=/nowhere\n")
    said = doctoring.told("--program", program, "--log", log)
    fired = [one["rule"] for one in said["findings"] if one["answer"] == "fires"]
    assert fired[:1] == [first] if first else fired
    assert ("K73" in fired) is (first in {"K73", ""})
    assert ("libraries-missing" in said["evidence"]["facts"]) is (first in {"K73", ""})
    known = doctoring.told("--program", program, "--log", log, "--env", env)
    assert known["evidence"]["facts"]["libraries-missing"] is True


def test_releases_are_constants_and_two_that_differ_tell_nothing() -> None:
    assert release_of("libfabric", b"\0a\0002.3.1\0b\0002.3.1\0") == "2.3.1"
    assert release_of("libfabric", b"\0001.15.2.0\0") == "1.15.2.0"
    assert release_of("libfabric", b"\0002.3.1\0002.4.0\0") == ""
    assert release_of("pmix", b"OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2") == "4.2.2"
    assert release_of("pmix", b"") == ""


def plugins(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str, text: bytes = b"") -> Path:
    place = folder / "slurm"
    place.mkdir()
    for name in names:
        (place / name).write_bytes(b"\0libpmix.so\0" + text)
    conf = folder / "slurm.conf"
    conf.write_text(f"ClusterName=x\nPluginDir={place}\n")
    monkeypatch.setenv("SLURM_CONF", str(conf))
    return place


def test_slurms_plugins_tell_their_pmix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "pmix" / "lib"
    library.mkdir(parents=True)
    text = f"\0{library}\0/other/path\0".encode()
    place = plugins(tmp_path, monkeypatch, "mpi_pmix_v3.so", "mpi_pmix_v5.so", text=text)
    found = machine.slurm_pmix()
    assert found.facts == {"pmix-loads": False, "slurm-pmix": ("3", "5")}
    assert found.origins["fact slurm-pmix"] == str(place)
    assert found.origins["fact pmix-loads"] == f"{library}/libpmix.so is not there"
    (library / "libpmix.so").write_bytes(b"")
    found = machine.slurm_pmix()
    assert found.facts == {"pmix-loads": True, "slurm-pmix": ("3", "5")}
    for own, differ in (("5.0.8", False), ("6.0.0", True)):
        both = merged(found, type(found)(versions={"pmix": own}))
        assert implied(both).facts == {"pmix-majors-differ": differ}


def test_a_plugin_that_does_not_say_its_library_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins(tmp_path, monkeypatch, "mpi_pmix_v4.so", text=b"\0/a/lib\0/b/lib64\0")
    assert machine.slurm_pmix().facts == {"slurm-pmix": ("4",)}


def test_this_machine_tells_its_devices() -> None:
    facts = machine.machine().facts
    assert facts["xpmem-device"] is os.path.exists("/dev/xpmem")
    assert facts["cxi-device"] is os.path.isdir("/sys/class/cxi")
    assert "lo" in machine.interfaces()
