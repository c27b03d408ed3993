"""Arms of every kind side by side for real: modules, installed MPIs, an image and containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from benchroom import CLUSTER, mapped, stackproof
from clusters import wait_until
from containerlab import Store, root_with, store
from mpitrees import Trees
from nativebuild import built
from need import installed_mpi, need
from refusals import refusal
from stackproof.bench.effects.kinds import container_arm
from stackproof.bench.spec import Arm
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import Value, replace
from stackproof.mpi import families

pytestmark = pytest.mark.machine
SLURM = "test-arms"
EXAMPLE = Path(__file__).parents[2] / "demo" / "every-kind.yaml"
CONTAINERS = ("container", "hybrid", "hook")
# Debian's MPICH (4.0.2 on UCX 1.13) hangs now and then in MPI_Finalize: its block is made again then,
# after the time limit, which is short for that. Five blocks make an interval; one more may be lost.
SHORT = {"benchmarks": ["latency"], "sizes": [8, 65536], "samples": 5, "seconds-per-size": 0.003,
         "placements": ["inter-node"], "launches": 6, "null-arm": False, "timeout": 20}  # fmt: skip


class Kinds(Value, kw_only=False):
    """What a machine has besides images: modules in a folder, and a container in a store."""

    modules: Path
    store: Store
    container: str
    mpich: Path
    artefact: Path
    hook: Path

    def example(self, room: Path) -> str:
        """Write the example into a folder, and return its name.

        It is as it is shipped, but short, and what it names is what lies here.
        """
        spec = yaml.safe_load(EXAMPLE.read_text()) | SHORT
        here = {
            "prefix": {"mpi": str(self.mpich)},
            "host-mpi": {"mpi": str(self.mpich)},
            "artefact": {"art": str(self.artefact)},
            "container": {"localhost/app:1": self.container},
        }
        for arm in (spec["baseline"], *spec["challengers"]):
            arm |= {key: there.get(arm[key], arm[key]) for key, there in here.items() if key in arm}
            if "module" in arm:
                arm["module-use"] = [str(self.modules)]
            if "container" in arm:
                arm["env"] = self.store.env
            if arm.get("bind") == "hook":
                arm["hook"] = str(self.hook)
        (room / EXAMPLE.name).write_text(json.dumps(spec))
        return EXAMPLE.name


@pytest.fixture(scope="module")
def kinds(trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    need("installed-mpis", "lmod", "podman", "root", "runc")
    folder = tmp_path_factory.mktemp("site")
    intel = trees["intel-mpi"].prefix
    patch = families.get("intel-mpi").environment(str(intel))
    lines = [f'setenv("{name}", "{value}")' for name, value in patch.set.items()]
    lines += [f'prepend_path("{n}", "{one}")' for n, many in patch.prepend.items() for one in many]
    for name, text in {
        "tools/1": "",
        "intel-mpi/2021": 'prereq("tools")\n' + "\n".join(lines),
    }.items():
        path = folder / "modules" / f"{name}.lua"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    mpich = trees["mpich"].prefix
    stackproof("inject", "artefact", mpich, "-o", "art", cwd=folder)
    hook = built(tmp_path_factory.mktemp("hook"), "hook/stackproof-oci-hook")
    with store() as lab:
        image = lab.add("mpich", root_with(folder / "root", mpich))
        yield Kinds(folder / "modules", lab, image, mpich, folder / "art", hook)


def results(folder: Path) -> dict[str, object]:
    return json.loads((folder / "bench.json").read_text())


def libraries(folder: Path, arm: str, word: str = "/libmpi") -> set[str]:
    return mapped(folder, word)[arm]


def told(folder: Path) -> None:
    """Assert what results say of each arm, what its ranks say, and that there is a verdict."""
    arms = results(folder)["arms"]
    assert arms["vendor"]["kind"] == "module"
    assert arms["vendor"]["asked"] == "tools, intel-mpi/2021"
    assert "tools/1, intel-mpi/2021" in arms["vendor"]["found"]["modules"]
    assert arms["vendor"]["found"]["calls itself"].startswith("Intel(R) MPI Library 2021")
    assert arms["debian-mpich"]["mpi"] == {"family": "mpich", "version": "4.0.2"}
    assert arms["debian-openmpi"]["mpi"]["family"] == "openmpi"
    assert arms["container"]["found"]["library"] == "/opt/mpi/lib/libmpi.so.12"
    assert arms["container"]["found"]["check of that"].startswith("works")
    assert len(arms["container"]["found"]["container SHA-256"]) == 64
    assert arms["hybrid"]["found"]["library"].endswith("/mpi/lib/libmpi.so.12")
    assert libraries(folder, "container") == {"/opt/mpi/lib/libmpi.so.12"}
    assert libraries(folder, "hybrid") == {arms["hybrid"]["found"]["library"]}
    assert arms["hook"]["found"]["library"] == "/opt/mpi/lib/libmpi.so.12"  # by its name
    assert any("/opt/stackproof/art/" in name for name in libraries(folder, "hook", "/lib"))
    assert not any("/opt/stackproof/" in name for name in libraries(folder, "container", "/lib"))
    assert libraries(folder, "debian-openmpi") == {arms["debian-openmpi"]["found"]["library"]}
    assert len({one["image_sha256"] for one in arms.values()}) == len(arms) == 8
    words = ("compare", folder.name, "--minimum-launches", "5", "--json")
    judged = json.loads(stackproof(*words, cwd=folder.parent, ok=(0, 8, 9)).stdout)
    (panel,) = judged["panels"]
    assert {one["arm"] for one in panel["judgements"]} == {*arms} - {"host"}
    for one in panel["judgements"]:
        for cell in one["cells"]:
            assert cell["low"] < cell["ratio"] < cell["high"], (one["arm"], cell)
    verdicts = {one["arm"]: one["verdict"] for one in judged["verdicts"]}
    assert {verdicts[name] for name in CONTAINERS} <= {"PASS", "FAIL", "INCONCLUSIVE"}
    assert {path["arm"] for path in judged["paths"]} == {*arms}


def test_the_example_runs_on_two_plain_nodes(room: Path, kinds: Kinds) -> None:
    """Arms of every kind side by side, each with its evidence, its path and its ratio."""
    spec = kinds.example(room)
    stackproof("bench", spec, "-o", "on-nodes", "--cluster", CLUSTER, "--no-verdict", cwd=room)
    told(room / "on-nodes")
    stackproof("report", "on-nodes", "-o", "kinds.html", cwd=room)
    page = (room / "kinds.html").read_text()
    for words in ("module: tools, intel-mpi/2021", "Open MPI v4", "container SHA-256", "hybrid"):
        assert words in page


def test_the_same_file_runs_in_a_slurm_job(room: Path, kinds: Kinds) -> None:
    need("slurm")
    runtime = Path(kinds.store.folder) / "runtime"
    runtime.mkdir(mode=0o700)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}

    def run(*words: object) -> str:
        argv = [sys.executable, "-m", "stackproof", *map(str, words)]
        done = subprocess.run(
            argv, cwd=room, env=env, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    squeue = ("cluster", "exec", "--name", SLURM, "--", "squeue", "--noheader")
    spec = kinds.example(room)
    shares = ["--share", room, "--share", kinds.modules, "--share", os.environ["STACKPROOF_CACHE"]]
    run("cluster", "up", "--nodes", "2", "--slurm", "--no-pin", "--name", SLURM, *shares)
    try:
        run("bench", spec, "-o", "in-slurm", "--on", "slurm", "--cluster", SLURM, "--no-verdict")
        assert wait_until(lambda: not run(*squeue).strip(), 600)
    finally:
        run("cluster", "down", "--name", SLURM)
    told(room / "in-slurm")
    assert results(room / "in-slurm")["host"]["scheduler"].startswith("Slurm ")


# ------------------------------------------------------------------------------------ what is refused


def refused(arm: Arm) -> StackproofError:
    return refusal(container_arm.of_container, arm, ())


def test_containers_that_cannot_be(kinds: Kinds, trees: Trees, tmp_path: Path) -> None:
    arm = Arm(
        container=kinds.container, host_mpi=str(kinds.mpich), env=kinds.store.env, name="x"
    )  # fmt: skip
    gone = refused(replace(arm, container="localhost/gone:1"))
    assert gone.reason is Reason.JOB_FAILED
    assert "gone" in str(gone)
    empty = kinds.store.add("empty", root_with(tmp_path / "empty", None))
    assert refused(replace(arm, container=empty)).reason is Reason.NO_MPI
    other = refused(replace(arm, host_mpi=str(trees["openmpi"].prefix)))
    assert other.reason is Reason.INJECTION_FAILS
    unnamed = refused(replace(arm, bind="hook"))
    assert "names an `artefact`" in str(unnamed)
    assert "host-mpi" in str(refused(replace(arm, host_mpi="")))
    system = refused(replace(arm, host_mpi=installed_mpi("mpich"), bind="hybrid"))
    assert "one of its own" in str(system)
    # The C library of another release: a file that says so, as far as the check reads it.
    bare = root_with(tmp_path / "old", kinds.mpich, libc=False)
    assert not list(bare.rglob("libc.so.6"))
    old = refused(replace(arm, container=kinds.store.add("old", bare)))
    assert old.reason in {Reason.INJECTION_FAILS, Reason.INJECTION_UNKNOWN}
    assert "libc.so.6" in str(old) or "ld-linux" in str(old)
    shutil.rmtree(bare)
