"""Containers as arms: programs carried in, images by their files, GPUs, and what cannot be."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchroom import ROOT, SHORT, launched, measured, stackproof
from containerlab import Store, root_with, store
from mpitrees import Trees
from need import need
from refusals import refusal
from stackproof.bench.effects import launching
from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.kinds import container_arm, container_case, container_rank
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.bench.spec import Arm
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import Value, replace
from stackproof.image.container.effects import roots
from stackproof.launch.effects.allocation import Allocation
from stackproof.results.case import Case, Placement, Rank

pytestmark = pytest.mark.machine
CSRC = ROOT / "tests" / "csrc"


class Lab(Value, kw_only=False):
    """A store with a container, the same as an OCI layout and a SquashFS file, and its root."""

    store: Store
    image: str
    layout: Path
    squashfs: Path
    root: Path
    mpich: Path

    @property
    def arm(self) -> Arm:
        return Arm(container=self.image, host_mpi=str(self.mpich), env=self.store.env, name="x")

    @property
    def entry(self) -> dict[str, object]:
        return {"container": self.image, "host-mpi": str(self.mpich), "env": self.store.env}

    def podman(self, *words: object) -> None:
        subprocess.run(
            ["podman", *map(str, words)], check=True, timeout=600, capture_output=True,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **self.store.env},
        )  # fmt: skip


def test_settings_that_a_shell_exports_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arm says its settings by itself, so that a result has them; the error says how."""
    podman = tmp_path / "podman"
    podman.write_text("#!/bin/sh\necho image not known >&2\nexit 125\n")
    podman.chmod(0o755)
    monkeypatch.delenv("CONTAINERS_CONF", raising=False)
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", "/my/storage.conf")
    for env, hint in (
        ({}, "`env: {CONTAINERS_STORAGE_CONF: /my/storage.conf}`"),
        ({"CONTAINERS_STORAGE_CONF": "/other"}, "repeat it with: "),
    ):
        arm = Arm(container="localhost/app:1", env=env, name="x")
        with pytest.raises(StackproofError) as caught:
            container_case.run_runtime(arm, (str(podman), "image", "inspect"))
        assert hint in (caught.value.problems[0].hint or "")


@pytest.fixture(scope="module")
def lab(trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    need("podman", "root", "runc", "mksquashfs", "gcc")
    folder = tmp_path_factory.mktemp("containers")
    mpich = trees["mpich"].prefix
    root = root_with(folder / "root", mpich)
    beside = next(root.rglob("libc.so.6")).parent
    for name in ("libstdc++.so.6", "libgcc_s.so.1"):  # for IMB
        words = ["gcc", f"-print-file-name={name}"]
        found = subprocess.run(words, check=True, timeout=600, capture_output=True, text=True)
        shutil.copy(found.stdout.strip(), beside)
    with store() as kept:
        image = kept.add("mpich", root)
        made = Lab(kept, image, folder / "layout", folder / "mpich.sqsh", root, mpich)
        made.podman("save", "--format=oci-dir", "--output", made.layout, image)
        words = ("mksquashfs", root, made.squashfs, "-comp", "lz4", "-no-progress", "-quiet")
        subprocess.run(words, check=True, timeout=600, capture_output=True)
        yield made


def test_a_container_gets_of_a_busy_cpu_what_its_rank_would(lab: Lab) -> None:
    """Its control group has not to share with those of other containers."""
    own = container_rank.beside(Path("/proc/self/cgroup").read_text())
    words = container_arm.of_container(lab.arm, ()).deployment.wrapped
    script = 'while read -r line; do echo "$line"; done </proc/self/cgroup'
    done = subprocess.run(
        [*words, "/bin/sh", "-c", script], check=True, timeout=600, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **lab.store.env},
    )  # fmt: skip
    groups = [line.split(":", 2)[2] for line in done.stdout.splitlines()]
    assert {str(Path(group).parent) for group in groups} == {"/" if own else "/libpod_parent"}
    chosen = replace(lab.arm, options=("--cgroup-parent=/test-group",))
    words = container_arm.of_container(chosen, ()).deployment.wrapped
    assert "--own-group" not in words


def test_what_is_put_into_a_container_is_where_links_lead(lab: Lab, tmp_path: Path) -> None:
    """A view, or what `install` made: its links would lead out of what is bound."""
    view = tmp_path / "view"
    view.mkdir()
    for path in lab.mpich.iterdir():
        (view / path.name).symlink_to(path)
    below = container_arm.of_container(
        replace(lab.arm, host_mpi=str(view), bind="hybrid"), ("stackproof-bench",)
    )
    assert below.found["library"].startswith(f"{os.path.realpath(lab.mpich)}/lib/libmpi.so")


def test_osu_and_imb_are_carried_in(lab: Lab, trees: Trees, tmp_path: Path) -> None:
    """OSU's compiled by the MPI of the machine, IMB as Intel's MPI has it; on a prefix as well."""
    intel = str(trees["intel-mpi"].prefix)
    below = container_arm.of_container(
        replace(lab.arm, host_mpi=intel, bind="hybrid"), ("stackproof-bench", "IMB-MPI1")
    )
    assert below.found["library"].startswith(f"{intel}/lib/libmpi.so")
    assert {*below.deployment.programs} == {"stackproof-bench", "IMB-MPI1"}
    out = measured(
        tmp_path,
        baseline={"name": "host", "prefix": intel},
        challengers=[{"name": "own", **lab.entry, "host-mpi": intel}],
        validate=False,
        programs=[
            "stackproof-bench",
            "IMB-MPI1",
            {"name": "OSU", "source": str(ROOT / "tests/osustandin"), "options": ["-i", "5"]},
        ],
    )
    found: dict[tuple[str, str], set[str]] = {}
    for launch in launched(out):
        ranks = launch["output"]["ranks"]
        names = {name for rank in ranks for name in rank["libraries"] if "/libmpi" in name}
        found.setdefault((launch["arm"], launch["case"]["program"]), set()).update(names)
    programs = ("stackproof-bench", "IMB-MPI1", "osu_latency")
    assert {*found} == {(arm, one) for arm in ("host", "own") for one in programs}
    assert found["own", "stackproof-bench"] == {"/opt/mpi/lib/libmpi.so.12"}
    assert found["host", "stackproof-bench"] == {below.found["library"]}
    assert json.loads((out / "bench.json").read_text())["arms"]["own"]["mpi"]["family"] == "mpich"


# --------------------------------------------------------------------------------------------- GPUs


def test_buffers_on_a_gpu_in_a_container(lab: Lab, tmp_path: Path) -> None:
    """A stand-in for the driver and for an MPI that takes its buffers, given by options."""
    need("gcc")
    driver, aware = tmp_path / "libcuda.so.1", tmp_path / "gpuaware.so"
    shared = ("-O2", "-shared", "-fPIC")
    subprocess.run(["gcc", *shared, CSRC / "fakegpu.c", "-o", driver], check=True, timeout=600)
    subprocess.run([lab.mpich / "bin/mpicc", *shared, CSRC / "gpuaware.c", "-o", aware, "-ldl"],
                   check=True, timeout=600)  # fmt: skip
    ready = container_arm.of_container(lab.arm, ())
    assert ready.hidden(["libcuda.so.1"])
    (tmp_path / "none.yaml").write_text(
        json.dumps({**SHORT, "baseline": lab.entry, "memory": "cuda"})
    )
    done = stackproof("bench", "none.yaml", "-o", "none", cwd=tmp_path, ok=(4, 7))
    assert "no-gpu" in done.stderr
    assert "--device=nvidia.com/gpu=all" in done.stderr
    given = [f"--volume={driver}:/usr/lib/libcuda.so.1:ro", f"--volume={aware}:{aware}:ro"]
    env = {**lab.store.env, "LD_PRELOAD": str(aware)}
    out = measured(
        tmp_path,
        baseline={**lab.entry, "name": "gpu", "options": given, "env": env},
        memory=["host", "cuda"],
    )
    (timed,) = (one for one in launched(out) if one["block"] == 1)
    kinds = [rank["memory"]["kind"] for rank in timed["output"]["ranks"]]
    assert kinds == ["host", "cuda"]


# ------------------------------------------------------------------------------------ what is refused


def refused(arm: Arm) -> StackproofError:
    return refusal(container_arm.of_container, arm, ())


def test_an_image_of_another_architecture(lab: Lab, tmp_path: Path) -> None:
    """By what the image says, and by its files where it says nothing."""
    tree = tmp_path / "root"
    shutil.copytree(lab.root, tree, symlinks=True)
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            with path.open("r+b") as stream:
                stream.seek(18)
                stream.write(struct.pack("<H", 183))  # e_machine: EM_AARCH64
    archive = tmp_path / "root.tar"
    subprocess.run(["tar", "-cf", archive, "-C", tree, "."], check=True, timeout=600)
    lab.podman("import", "--arch=arm64", archive, "localhost/arm:1")
    said = refused(replace(lab.arm, container="localhost/arm:1"))
    assert said.reason is Reason.UNSUPPORTED
    assert "is for aarch64, and this machine is x86_64" in str(said)
    lab.podman("import", archive, "localhost/liar:1")
    for bind in ("none", "hybrid"):
        shown = refused(replace(lab.arm, container="localhost/liar:1", bind=bind))
        assert shown.reason in {Reason.INJECTION_FAILS, Reason.NO_MPI}
        assert "aarch64" in str(shown) or "processor" in str(shown), str(shown)


@pytest.fixture(scope="module")
def older(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A container whose C library is of a release before all that the machine's MPI needs."""
    need("gcc")
    folder = tmp_path_factory.mktemp("older")
    tree = folder / "root"
    shutil.copytree(lab.root, tree, symlinks=True)
    (folder / "c.map").write_text("GLIBC_2.2.5 { global: *; };\nGLIBC_2.3 { } GLIBC_2.2.5;\n")
    (folder / "c.c").write_text("void __libc_start_main(void) {}\n")
    library = next(path for path in tree.rglob("libc.so.6"))
    words = ["gcc", "-shared", "-nostdlib", "-fPIC", "-Wl,-soname,libc.so.6",
             f"-Wl,--version-script,{folder}/c.map", "-o", library, folder / "c.c"]  # fmt: skip
    subprocess.run(words, check=True, timeout=600)
    return lab.store.add("older", tree)


def test_a_container_with_an_older_c_library(
    lab: Lab, older: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("artefact")
    stackproof("inject", "artefact", lab.mpich, "-o", "art", cwd=folder)
    arm = replace(lab.arm, container=older)
    ways = (
        replace(arm, bind="hybrid"),
        replace(arm, bind="hook", artefact=str(folder / "art"), hook="/never/started"),
    )
    for one in ways:
        error = refused(one)
        assert error.reason is Reason.INJECTION_FAILS
        assert "GLIBC_2." in str(error)
        assert "libc.so.6" in str(error)


def test_images_and_what_starts_them(lab: Lab, tmp_path: Path) -> None:
    of = container_arm.of_container
    own = of(lab.arm, ())
    layout = of(replace(lab.arm, container=str(lab.layout)), ())
    assert layout.found["library"] == own.found["library"] == "/opt/mpi/lib/libmpi.so.12"
    assert layout.found["container SHA-256"] == files.sha256(lab.layout / "index.json")
    assert roots.is_squashfs(str(lab.squashfs))
    wrong = refused(replace(lab.arm, container=str(lab.squashfs)))
    assert "podman does not start" in str(wrong)
    assert "which is a SquashFS file" in str(wrong)
    assert "enroot" in str(wrong)
    sif = tmp_path / "x.sif"
    sif.write_bytes(b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0".ljust(4096, b"\0"))
    assert "podman" in str(refused(replace(lab.arm, container=str(sif))))
    bare = root_with(tmp_path / "bare", None)  # a folder is a root, and not a part of this machine
    none = refused(replace(lab.arm, container=str(bare), runtime="apptainer"))
    assert none.reason is Reason.NO_MPI
    assert str(bare) in str(none)
    named = refused(replace(lab.arm, runtime="sarus"))
    assert named.reason is Reason.MISSING_KEY
    assert "archive: FILE" in str(named)
    gone = refused(replace(lab.arm, runtime="sarus", archive=str(tmp_path / "gone.tar")))
    assert gone.reason is Reason.FILE_MISSING


def test_a_container_that_srun_starts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged by its file where no job is; the step has srun's options, and nothing of ours inside."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    pair = Placement(name="p", ranks=(Rank(node="a", cpu=0), Rank(node="b", cpu=0)))
    case = Case(program="stackproof-bench", benchmarks=("latency",), sizes=(8,), placement=pair)
    allocation = Allocation(
        job="1", nodes={"a": (0,), "b": (0,)}, srun="/usr/bin/srun", pmi=("pmi2",)
    )
    inside = LaunchNodes(nodes=allocation.nodes, allocation=allocation)
    for runtime in ("pyxis", "edf"):
        for bind in ("none", "hybrid"):
            arm = replace(lab.arm, container=str(lab.squashfs), runtime=runtime, bind=bind)
            ready = container_arm.of_container(arm, ())
            assert ready.deployment.mpi.family == "mpich"
            assert ready.deployment.wrapped == ()
            command, patch = launching.launch_command(inside, ready, case)
            words = command.argv
            assert words[0] == "/usr/bin/srun"
            at = words.index("env")
            assert {*ready.step} <= {*words[:at]}
            assert "--cpu-bind=map_cpu:0" in words[:at]
            assert any(word.endswith("/stackproof-bench") for word in words[at:])
            assert not any("python" in word for word in words)
            assert patch.apply({})
            if runtime == "edf":
                text = Path(ready.step[0].partition("=")[2]).read_text()
                assert (f'"{lab.mpich}:{lab.mpich}:ro"' in text) is (bind == "hybrid")
            arms = Arms(by_name={"x": ready}, baseline="x", null=None, challengers=())
            problems = launching.launcher_problems(arms, LaunchNodes(nodes={"here": (0,)}))
            assert "started by srun" in problems[0].message
            assert launching.starter(inside, ready) == "srun"
