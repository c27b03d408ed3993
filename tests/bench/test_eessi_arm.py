"""Arms that are an MPI of EESSI, on a folder laid out as EESSI's with real MPIs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import eessitree
from benchroom import ROOT, launched, mapped, measured, stackproof
from eessitree import CPU, MODULE, NEWER, VERSION, EessiTree
from mpitrees import Trees
from need import need
from refusals import refusal
from stackproof.bench import arms
from stackproof.bench.effects.kinds import eessi_arm
from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import Arm
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.linking.effects.view import RootView

pytestmark = pytest.mark.machine
NATIVE = ("stackproof-bench",)


def test_where_programs_of_a_toolchain_look() -> None:
    def names(*modules: str) -> list[str]:
        folders = eessi_arm.override_folders("/s", "OpenMPI", modules)
        assert all(folder.startswith("/s/rpath_overrides/OpenMPI/system") for folder in folders)
        return [folder.split("/")[4] for folder in folders if folder.endswith("/lib")]

    assert names("GCC/12.3.0", "OpenMPI/4.1.5-GCC-12.3.0") == ["system-GCC", "system"]
    assert names("OSU/7.5-gompi-2023b-CUDA-12.4.0", "x/1-GCC-13.2.0-CUDA-12.4.0") == [
        "system-GCC-CUDA-12.4.0", "system-GCC", "system"
    ]  # fmt: skip
    assert names("x/1-intel-compilers-2023.1.0") == ["system-Intel", "system"]
    assert names("EESSI/2023.06", "y/1.0") == ["system"]


def test_where_things_lie() -> None:
    software = eessi_arm.software_of("/cvmfs/r", VERSION, "x86_64/amd/zen3")
    assert software == "/cvmfs/r/versions/2023.06/software/linux/x86_64/amd/zen3"
    assert eessi_arm.site_of("/cvmfs/r", software) == (
        "/cvmfs/r/host_injections/2023.06/software/linux/x86_64/amd/zen3"
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> EessiTree:
    need("lmod", "network", "gcc", "patchelf")
    return eessitree.made(tmp_path_factory.mktemp("eessi"))


@pytest.fixture(scope="module")
def arm(tree: EessiTree) -> Arm:
    return Arm(eessi=VERSION, repository=str(tree.repository), load=(MODULE,), name="x")


def ready(arm: Arm) -> ReadyArm:
    return eessi_arm.of_eessi(arm, NATIVE)


def refused(arm: Arm, *programs: str) -> StackproofError:
    return refusal(eessi_arm.of_eessi, arm, programs or NATIVE)


def test_what_cannot_be(tree: EessiTree, arm: Arm, tmp_path: Path) -> None:
    gone = refused(replace(arm, repository=str(tmp_path / "cvmfs")))
    assert gone.reason is Reason.FILE_MISSING
    assert "EESSI is not there" in str(gone)
    assert "cvmfs_config probe software.eessi.io" in str(gone)
    version = refused(replace(arm, eessi="2025.06"))
    assert "EESSI has no version `2025.06`" in str(version)
    assert f"has: {VERSION}" in str(version)
    other = {"EESSI_ARCHDETECT_OPTIONS_OVERRIDE": f"{os.uname().machine}/amd/zen9"}
    cpu = refused(replace(arm, env=other, load=()))
    assert "has no software for" in str(cpu)
    assert CPU in str(cpu)
    unknown = refused(replace(arm, env={"EESSI_ARCHDETECT_OPTIONS_OVERRIDE": "unknown"}))
    assert "init/lmod/bash` printed an error" in str(unknown)
    assert "architecture failed" in str(unknown)
    foreign = tree.software.parents[1] / "sparc" / "generic"
    (foreign / "software").mkdir(parents=True)
    error = refused(
        replace(arm, load=(), env={"EESSI_ARCHDETECT_OPTIONS_OVERRIDE": "sparc/generic"})
    )
    shutil.rmtree(foreign.parent)
    assert error.reason is Reason.UNSUPPORTED
    assert "cannot run on this machine" in str(error)
    module = refused(replace(arm, load=("OpenMPI/9",)))
    assert "OpenMPI/9" in str(module)
    assert refused(replace(arm, load=())).reason is Reason.NO_MPI
    none = refused(replace(arm, inject=arms.INJECTED))
    assert none.reason is Reason.FILE_MISSING
    assert "inject apply" in str(none)
    aside = tree.site.parent / "amd" / "zen3" / "rpath_overrides" / "OpenMPI" / "system" / "lib"
    aside.mkdir(parents=True)
    named = refused(replace(arm, inject=arms.INJECTED))
    shutil.rmtree(tree.site.parents[1])
    assert "it has one for " in str(named)
    assert "amd/zen3, and this is" in str(named)


def test_with_and_without_an_injection(
    tree: EessiTree, arm: Arm, trees: Trees, tmp_path: Path
) -> None:
    """What the site puts there is taken, and its launcher; EESSI's own can be had all the same."""
    own = ready(arm)
    assert (own.deployment.mpi.family, own.deployment.mpi.version) == ("openmpi", "4.1.8")
    assert own.found["library"] == f"{tree.mpi}/lib/libmpi.so.40"
    assert own.found["set up by"].endswith("/init/lmod/bash")
    assert f"EESSI_SOFTWARE_SUBDIR={CPU}" in own.found["environment"]
    program = own.deployment.programs["stackproof-bench"]
    elf = RootView().elf(RootView().look(program))
    assert elf.rpath.startswith(f"{tree.site}/rpath_overrides/OpenMPI/system-GCC/lib:")
    assert "/compat/linux/" in elf.interpreter
    host = trees["openmpi"].prefix
    tree.site.mkdir(parents=True)
    stackproof("inject", "apply", program, "--with", host, "--eessi", tree.site, cwd=tmp_path)
    place = f"{tree.site}/rpath_overrides/OpenMPI/system"
    injected = ready(replace(arm, inject=arms.INJECTED))
    assert injected.found["library"] == f"{place}/lib/libmpi.so.40"
    assert f"{place}/lib/libmpi.so.40" in injected.found["taken from the site"]
    assert own.found["taken from the site"] == "nothing"
    assert injected.deployment.mpiexec == f"{host}/bin/mpiexec"
    assert injected.deployment.mpi.version == trees["openmpi"].version
    newer = ready(replace(arm, load=(NEWER,), inject=arms.INJECTED))
    assert newer.found["library"] == injected.found["library"]  # one folder for both toolchains
    alone = ready(replace(arm, inject=arms.OWN))
    assert alone.found["library"] == own.found["library"]
    assert alone.found["check of that"] == "works-with-steps, by preload"
    assert alone.image.sha256 != injected.image.sha256
    # What programs find; and EESSI's module does what its script does.
    script = tree.repository / "versions" / VERSION / "init" / "lmod" / "bash"
    script.rename(tmp_path / "bash")
    try:
        found = ready(arm).found
        assert found["set up by"] == f"the module EESSI/{VERSION}"
        assert found["library"] == injected.found["library"]
    finally:
        shutil.move(tmp_path / "bash", script)
    # A program of EESSI's own, which a module brings: a stand-in for OSU's.
    osu, sources = tree.software / "software" / "OSU" / "7.4" / "bin", ROOT / "tests" / "osustandin"
    osu.mkdir(parents=True)
    compilers = injected.compilers
    assert compilers is not None
    argv = (compilers.wrappers["c"], '-DRELEASE="7.4"', f"-I{sources}/c", "-o", osu / "osu_latency",
            sources / "c/mpi/pt2pt/standard/osu_latency.c")  # fmt: skip
    subprocess.run(argv, check=True, timeout=600, env=compilers.env.apply(os.environ))
    eessitree.write(tree.software / "modules/all/OSU/7.4.lua", f'prepend_path("PATH", "{osu}")\n')
    both = {**tree.entry, "load": [MODULE, "OSU/7.4"]}
    out = measured(
        tmp_path,
        baseline={"name": "own", **both, "inject": "none"},
        challengers=[{"name": "injected", **both, "inject": "host_injections"}],
        programs=["stackproof-bench", {"name": "OSU", "options": ["-i", "5"]}],
    )
    libraries = {arm: {*map(os.path.realpath, names)} for arm, names in mapped(out).items()}
    programs = {(launch["arm"], launch["case"]["program"]) for launch in launched(out)}
    assert libraries == {
        "own": {f"{tree.mpi}/lib/libmpi.so.40"},
        "injected": {os.path.realpath(f"{place}/lib/libmpi.so.40")},
    }
    names = ("stackproof-bench", "osu_latency")
    assert programs == {(one, name) for one in ("own", "injected") for name in names}
    lacking = refused(replace(arm, load=(MODULE,)), "osu_latency")
    assert "do not bring osu_latency" in str(lacking)


def test_an_image_under_eessi_with_the_sites_hook(
    tree: EessiTree, arm: Arm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`inject apply --with IMAGE --eessi-here`: the hook is for the injected arm alone."""
    place = f"{tree.site}/rpath_overrides/OpenMPI/system"
    home = f"{place}/home"
    stackproof("build", "openmpi", cwd=tmp_path)
    program = ready(arm).deployment.programs["stackproof-bench"]
    options = ("--with", "openmpi.squashfs", "--eessi-here", "--set", "SITES_OWN=1")
    tree.site.mkdir(parents=True, exist_ok=True)
    with monkeypatch.context() as here:
        here.setenv("EESSI_SOFTWARE_PATH", str(tree.software))
        stackproof("inject", "apply", program, *options, cwd=tmp_path)
    try:
        own = ready(replace(arm, inject=arms.OWN)).deployment
        injected = ready(replace(arm, inject=arms.INJECTED)).deployment
        assert own.mpiexec == f"{tree.mpi}/bin/mpiexec"
        assert own.env.apply({})["OPAL_PREFIX"] == str(tree.mpi)
        assert "SITES_OWN" not in own.env.apply({})
        assert injected.mpiexec == f"{home}/bin/mpiexec"
        assert injected.env.apply({})["OPAL_PREFIX"] == home
        assert injected.env.apply({})["SITES_OWN"] == "1"
        out = measured(
            tmp_path,
            baseline={"name": "own", **tree.entry, "inject": "none"},
            challengers=[{"name": "injected", **tree.entry, "inject": "host_injections"}],
        )
        libraries = {arm: {*map(os.path.realpath, names)} for arm, names in mapped(out).items()}
        assert libraries == {
            "own": {f"{tree.mpi}/lib/libmpi.so.40"},
            "injected": {os.path.realpath(f"{place}/lib/libmpi.so.40")},
        }
    finally:
        stackproof("inject", "undo", place, cwd=tmp_path)


def test_the_toolchains_2023a_and_2023b(tree: EessiTree, arm: Arm, tmp_path: Path) -> None:
    """Each arm has the GCC and the MPI of its own toolchain, side by side in one bench."""
    for load in (MODULE, NEWER):
        program = ready(replace(arm, load=(load,))).deployment.programs["stackproof-bench"]
        notes = subprocess.check_output(["readelf", "--notes", program], text=True, timeout=600)
        assert eessitree.mark(load.rpartition("-")[2]) in notes
    own = {name: {**tree.entry, "load": [load], "inject": "none", "name": name}
           for name, load in (("2023a", MODULE), ("2023b", NEWER))}  # fmt: skip
    out = measured(tmp_path, baseline=own["2023a"], challengers=[own["2023b"]])
    for arm, names in mapped(out).items():
        load = own[arm]["load"][0]
        assert names
        assert all(f"/{load}/" in name for name in names)
    assert len([*launched(out)]) == 4
