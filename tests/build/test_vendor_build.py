"""Cray MPICH from a folder of RPMs to an image in which ranks run; what is missing, and hostile.

The libraries are those of MPICH's wheel under Cray's names, so that programs truly run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import crayrelease
import documented
from crayrelease import PE, Release
from inprocess import exit_code
from mpitrees import Trees
from need import need
from stackproof.build.effects import executor
from stackproof.build.engines.vendor.effects.builder import BUILDER
from stackproof.core.effects import shipped
from stackproof.image import activate
from stackproof.image.effects.image_file import load_image
from vendorrpms import Package, text

PAGE = documented.ROOT / "docs" / "how-to" / "vendor-mpi.md"


@pytest.fixture(scope="module")
def wheel(trees: Trees) -> Path:
    need("network", "gcc")
    return trees["mpich"].prefix


@pytest.fixture(scope="module")
def made(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Release:
    need("gcc", "patchelf", "zstd")
    return crayrelease.release(wheel, tmp_path_factory.mktemp("release"))


@pytest.fixture
def folder(made: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe for the release, and its RPMs in `rpms`."""
    (tmp_path / "rpms").mkdir()
    for path in made.rpms.iterdir():
        os.link(path, tmp_path / "rpms" / path.name)
    recipe = shipped.find("recipes", "cray-mpich").read_text()
    (tmp_path / "cray-mpich.yaml").write_text(f"{recipe}libraries: [{made.site}]\n")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def inside(image: str, *words: str | Path) -> str:
    """Return what a command says with an image mounted; `run` becomes that command."""
    argv = [sys.executable, "-m", "stackproof", "run", image, "--", *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(*words: str | Path) -> int:
    return exit_code("build", "cray-mpich.yaml", "--from", "rpms", "--fact", "gpu=none", *words)


def digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


Said = pytest.CaptureFixture[str]


@pytest.mark.battery
def test_one_command_and_two_ranks(
    folder: Path, wheel: Path, made: Release, monkeypatch: pytest.MonkeyPatch, capfd: Said
) -> None:
    """One command builds it, twice to the same bytes; wrappers compile, and ranks really run."""
    need("bubblewrap", "mksquashfs", "python")
    assert BUILDER.solving.value == "files"
    assert build() == 0
    first = digest("cray-mpich.squashfs")
    capfd.readouterr()
    assert build() == 0
    assert "nothing to do" in capfd.readouterr().err
    monkeypatch.setenv("STACKPROOF_CACHE", str(folder / "another-cache"))
    before = os.umask(0o077)
    try:
        assert build("-o", "again.squashfs", "--update") == 0
    finally:
        os.umask(before)
    assert digest("again.squashfs") == first

    image = load_image("cray-mpich.squashfs")
    arm = activate.deployment(image, name="baseline", permitted=())
    assert (arm.mpi.family, arm.mpi.version, image.redistribute) == ("cray-mpich", "8.1.30", False)
    capfd.readouterr()
    assert exit_code("inspect", "cray-mpich.squashfs") == 0
    assert "redistribute no" in " ".join(capfd.readouterr().out.split())

    arms = "transports: {intra-node: auto}"
    Path("bench.yaml").write_text(
        f"name: vendor\nbaseline: {{image: cray-mpich.squashfs, {arms}}}\n"
        f"challengers: [{{name: again, image: again.squashfs, {arms}}}]\nplacements: [intra-node]\n"
    )
    assert exit_code("bench", "bench.yaml", "--dry-run") == 0
    assert "cray-mpich 8.1.30  intra-node: auto" in capfd.readouterr().out

    Path("hello.c").write_text(
        "#include <mpi.h>\n#include <stdio.h>\nint main(void) { int n; char v[8192]; int l;\n"
        "MPI_Init(0, 0); MPI_Comm_size(MPI_COMM_WORLD, &n); MPI_Get_library_version(v, &l);\n"
        'int r; MPI_Comm_rank(MPI_COMM_WORLD, &r); if (!r) printf("%d ranks, %.40s\\n", n, v);\n'
        "MPI_Finalize(); return 0; }\n"
    )
    inside("cray-mpich.squashfs", "mpicc", "-o", "hello", "hello.c")
    two = (wheel / "bin" / "mpiexec", "-n", "2", "-bind-to", "core")
    said = inside("cray-mpich.squashfs", *two, "./hello")
    assert "2 ranks, MPI VERSION    : CRAY MPICH version 8.1." in said
    program = arm.programs["stackproof-bench"]
    asked = ("--benchmarks", "latency", "--sizes", "8", "--samples", "2")
    said = inside("cray-mpich.squashfs", *two, program, *asked)
    lines = [json.loads(line) for line in said.splitlines()]
    assert lines[0]["world_size"] == 2
    assert lines[-1]["ok"]
    loaded = {path for line in lines if line["kind"] == "rank" for path in line["libraries"]}
    assert "/user-environment/cray-mpich-8.1.30/lib/libmpi_gnu_123.so.12.0.0" in loaded
    assert "/user-environment/cray-pmi-6.1.15/lib/libpmi2.so.0" in loaded
    assert f"{made.site}/libfabric.so.1" in loaded
    assert not Path(crayrelease.MARK).exists()


@pytest.mark.battery
@pytest.mark.parametrize(
    ("gpu", "gtl", "site"),
    [("cuda", "libmpi_gtl_cuda.so.0", "libcudart.so.12"),
     ("rocm", "libmpi_gtl_hsa.so.0", "libamdhip64.so.6")],
)  # fmt: skip
def test_the_library_for_gpus_is_linked(
    gpu: str, gtl: str, site: str, folder: Path, made: Release
) -> None:
    need("bubblewrap", "mksquashfs", "python")
    out = f"{gpu}.squashfs"
    program = "/user-environment/benchmarks/stackproof-bench"
    if gpu == "rocm":  # that programs are linked with it is seen once
        program = "/user-environment/cray-mpich-8.1.30/lib/libmpi_gnu_123.so.12"
        with Path("cray-mpich.yaml").open("a") as text_of_recipe:
            text_of_recipe.write("benchmarks: []\n")
    recipe = ("cray-mpich.yaml", "--from", "rpms", "--fact", f"gpu={gpu}", "-o", out)
    assert exit_code("build", *recipe) == 0
    assert Path(f"cray-mpich.{os.uname().machine}-{gpu}.lock.json").is_file()
    script = f"ldd {program}; echo $MPICH_GPU_SUPPORT_ENABLED; ls /user-environment/cray-gtl-*/lib"
    said = inside(out, "sh", "-c", script)
    assert re.search(rf"{re.escape(gtl)} => /user-environment/\S*/cray-gtl-8\.1\.30/lib/", said)
    assert f"{site} => {made.site}/{site}" in said
    assert "\n1\n" in said
    other = {"cuda": "hsa", "rocm": "cuda"}[gpu]
    assert f"libmpi_gtl_{other}" not in said


@pytest.mark.battery
def test_a_missing_soname_is_named_with_its_rpm(folder: Path, capfd: Said) -> None:
    need("python")
    for path in Path("rpms").glob("cray-p*-[16]*"):
        path.unlink()
    assert build("--stop-after", "lock") == 3
    said = capfd.readouterr().err
    assert "`libpmi.so.0`, which `libmpi_gnu_123.so.12.0.0` needs, is in none of the RPMs: " in said
    assert "`cray-pmi-*.rpm`, 6.1.15 or older, would bring it" in said
    assert not list(Path().glob("*.lock.json"))


@pytest.mark.battery
def test_pals_is_named_too(folder: Path, capfd: Said) -> None:
    next(Path("rpms").glob("cray-pals-*")).unlink()
    assert build("--stop-after", "lock") == 3
    assert (
        "`libpals.so.0`, which `libpmi2.so.0` needs, is in none of the RPMs: `cray-pals-*.rpm`"
        in (capfd.readouterr().err)
    )


@pytest.mark.battery
def test_what_the_machine_lacks(folder: Path, made: Release, capfd: Said) -> None:
    """A library of the site is told before anything is built; for another site it is a note."""
    recipe = Path("cray-mpich.yaml")
    recipe.write_text(recipe.read_text().replace(str(made.site), "/nowhere"))
    words = ("--from", "rpms", "--fact", "gpu=rocm")
    assert exit_code("build", "cray-mpich.yaml", *words) == 4
    said = capfd.readouterr().err
    assert "`libamdhip64.so.6`, which `libmpi_gtl_hsa.so.0` needs and no RPM" in said
    assert "is not on this machine; it is of ROCm" in said
    assert "`libraries: [DIR]` in the recipe" in said
    assert exit_code("check", "cray-mpich.yaml", *words) == 4
    capfd.readouterr()
    assert build("--site", "lumi-g", *words, "--stop-after", "lock") == 0
    assert "note: `libamdhip64.so.6`" in capfd.readouterr().err


@pytest.mark.battery
def test_an_older_library_of_the_machine(folder: Path, made: Release, capfd: Said) -> None:
    need("gcc")
    old = crayrelease.library(folder / "old", "libfabric.so.1")
    recipe = Path("cray-mpich.yaml")
    recipe.write_text(recipe.read_text().replace(str(made.site), str(old.parent)))
    assert build() == 4
    said = capfd.readouterr().err
    assert f"is an older one here: `{old}` has no FABRIC_1." in said
    assert "it is of libfabric, of the Slingshot Host Software" in said


@pytest.mark.battery
def test_a_driver_is_only_on_nodes_with_a_gpu(
    folder: Path, made: Release, tmp_path: Path, capfd: Said
) -> None:
    need("gcc", "patchelf")
    site = tmp_path / "site"
    shutil.copytree(made.site, site)
    (site / "libcuda.so.1").unlink()
    recipe = Path("cray-mpich.yaml")
    recipe.write_text(recipe.read_text().replace(str(made.site), str(site)) + "benchmarks: []\n")
    words = ("--from", "rpms", "--fact", "gpu=cuda", "--stop-after", "lock")
    assert exit_code("build", "cray-mpich.yaml", *words) == 0
    said = capfd.readouterr().err
    assert "note: `libcuda.so.1`" in said
    assert "on nodes with a GPU" in said


@pytest.mark.battery
def test_a_newer_glibc_than_this_machine_has(folder: Path, capfd: Said) -> None:
    path = next(Path().glob("rpms/*gnu123*"))
    assert build("--stop-after", "lock") == 0
    lock = next(Path().glob("*.lock.json"))
    data = json.loads(lock.read_text())
    data["libraries"][0]["glibc"] = "9.99"
    lock.write_text(json.dumps(data))
    assert path.exists()
    capfd.readouterr()
    assert build() == 4
    assert "needs glibc 9.99, and this machine has glibc 2." in capfd.readouterr().err


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.battery
def test_an_rpm_that_is_cut_off(folder: Path, capfd: Said) -> None:
    """One that is needed is refused; one that is not, and cannot be read, is passed over."""
    cut(next(Path("rpms").glob("*gnu123*")))
    assert build("--stop-after", "lock") == 5
    assert "is damaged or cut off: its files have another digest" in capfd.readouterr().err
    assert not list(Path().glob("*.lock.json"))


@pytest.mark.battery
def test_an_rpm_that_nobody_needs_may_be_anything(folder: Path, capfd: Said) -> None:
    cut(next(Path("rpms").glob("*8.1.25*")))
    Path("rpms/other.rpm").write_bytes(b"\xed\xab\xee\xdb")
    Path("rpms/pipe.rpm").unlink(missing_ok=True)
    os.mkfifo("rpms/pipe.rpm")
    assert build("--stop-after", "lock") == 0
    said = capfd.readouterr().err
    assert "rpms/other.rpm" in said
    assert "rpms/pipe.rpm" in said


@pytest.mark.battery
def test_hostile_rpms_write_nothing(folder: Path, capfd: Said) -> None:
    root = f"{PE}/pmi/6.1.15"
    evil = {f"{root}/lib/../../../../../../evil": text("x"), f"{root}/lib/libpmi.so.0": text("x")}
    for path in Path("rpms").glob("cray-pmi-*"):
        path.unlink()
    Package("cray-pmi-6.1.15", evil, release="99").written(folder / "rpms")
    assert build() == 3
    assert "leads out of where it belongs" in capfd.readouterr().err
    assert not list(folder.glob("*.squashfs*"))
    assert not list(folder.glob("*.lock.json"))


@pytest.mark.battery
def test_an_rpm_that_changed_after_it_was_locked(folder: Path, capfd: Said) -> None:
    assert build("--stop-after", "lock") == 0
    shutil.rmtree(folder / "cache")
    name = next(Path("rpms").glob("cray-pals-*"))
    name.unlink()
    assert build() == 3
    assert f"`rpms` has no `{name.name}`, which the lock names" in capfd.readouterr().err
    name.write_bytes(b"another")
    assert build() == 5
    assert "is not the file that was locked" in capfd.readouterr().err
    assert exit_code("build", "cray-mpich.yaml", "--fact", "gpu=none") == 3
    assert "--from DIR, or `from` in the recipe" in capfd.readouterr().err


@pytest.mark.battery
def test_the_folder_may_stand_in_the_recipe(folder: Path, capfd: Said) -> None:
    recipe = Path("cray-mpich.yaml")
    recipe.write_text(recipe.read_text() + "from: rpms\n")
    assert exit_code("plan", "cray-mpich.yaml", "--fact", "gpu=none") == 0
    said = capfd.readouterr()
    assert "of the site  libfabric.so.1  for" in said.out
    assert "scripts of RPMs are not run: cray-mpich-8.1.30-gnu123" in said.err
    assert not list(folder.glob("*.lock.json"))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("image", "containerfile", "cray-mpich.yaml", "--base", "x@sha256:" + "a" * 64), 3, "HPE lets nobody"),
        (("mirror", "create", "m", "cray-mpich.yaml"), 3, "HPE lets nobody hand on"),
        (("build", "cray-mpich.yaml", "--mirror", "m"), 2, "name their folder with --from"),
        (("build", "cray-mpich.yaml", "--from", "rpms", "--on", "slurm"), 2, "engine: spack"),
        (("build", "mpich", "--from", "rpms"), 2, "only recipes with `engine: vendor`"),
        (("build", "cray-mpich.yaml"), 3, "it is not said where the RPMs"),
        (("build", "cray-mpich.yaml", "--from", "nowhere"), 3, "there is no folder `nowhere`"),
        (("build", "cray-mpich.yaml", "--from", "."), 3, "has no RPM of Cray MPICH"),
        (("build", "cray-mpich.yaml", "--from", "empty"), 3, "`empty` holds no RPM"),
    ],
)  # fmt: skip
def test_what_is_refused(
    words: tuple[str, ...],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Said,
) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cray-mpich.yaml").write_text(shipped.find("recipes", "cray-mpich").read_text())
    (tmp_path / "empty").mkdir()
    Package("other", {"/usr/bin/other": text("x")}).written(tmp_path / "sub")
    assert exit_code(*words) == code
    assert said in capfd.readouterr().err


@pytest.mark.battery
def test_damage_by_patchelf_ends_the_build(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said
) -> None:
    """A step that changes more than was asked for: the worker's file is told another path."""
    need("bubblewrap", "mksquashfs", "python")
    with Path("cray-mpich.yaml").open("a") as recipe:
        recipe.write("benchmarks: []\n")
    done = executor._run_command  # a fault that cannot be caused: patchelf here is not damaged

    def lying(step: object, command: object, log: object, work: object) -> None:
        changes = work.space.build / "changes.json"  # type: ignore[attr-defined]
        data = json.loads(changes.read_text())
        for one in data["libraries"].values():
            one["rpath"] += ":/elsewhere"
        changes.write_text(json.dumps(data))
        done(step, command, log, work)  # type: ignore[arg-type]

    monkeypatch.setattr(executor, "_run_command", lying)
    assert build() == 5
    assert (
        "patchelf changed more, or less, than names and the search path" in capfd.readouterr().err
    )
    monkeypatch.setattr(executor, "_run_command", done)
    assert build() == 0


@pytest.mark.battery
def test_the_page_does_what_it_says(folder: Path, capfd: Said) -> None:
    """Every command line of the how-to, in its order, with the RPMs and the site of the test."""
    need("bubblewrap", "mksquashfs", "python")
    lines = [line for line in documented.lines_of(PAGE) if "runs these lines" in line.reason]
    assert [line.text.split()[1] for line in lines] == ["plan", "build", "inspect", "run"]
    for line in lines:
        for words in line.commands:
            changed = ["rpms" if word == "DIR" else word for word in words[1:]]
            if changed[0] == "run":
                assert "-lmpi_gnu_123" in inside(changed[1], *changed[3:])
                continue
            capfd.readouterr()
            assert exit_code(*changed) == 0, (line.place, capfd.readouterr().err)
