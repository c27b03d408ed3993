"""Faults made for real on two nodes: from what a launch printed, the cause must come first.

Each case is a launch of two ranks with one thing wrong, and then `doctor --log` as a user calls it,
with the environment of the job and its program. What needs Slingshot, GPUs, InfiniBand, Cray's MPI
or another libfabric cannot be made here; docs/explanation/knowledge.md says which problems these are.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import field

from containerlab import root_with, store
from mpitrees import CSRC, PROGRAM, Tree, Trees
from need import installed_mpi, need
from stackproof import cli
from stackproof.bench.effects.kinds import container_arm
from stackproof.bench.spec import Arm
from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.cluster.slurm import SlurmSpec
from stackproof.core.value import Value
from stackproof.doctor.effects import machine

pytestmark = pytest.mark.machine

WRONGBYTE = Path(__file__).parents[1] / "csrc" / "wrongbyte.c"
INCLUDE = "OMPI_MCA_opal_common_ofi_provider_include"
VARIABLES = {
    "HOME": "/root", "PATH": "/usr/bin:/bin",
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}  # fmt: skip
WORDS = ("--benchmarks", "latency", "--samples", "3", "--expect-ranks", "2", "--check", "all",
         "--sizes", "8,65536")  # fmt: skip
HANGS_S = 10
"""For a launch in which one rank gives up, and another may wait for it for ever."""

TIMED_OUT = 124
"""The exit code of timeout(1) for a program that it ended."""

LONG = ("--seconds-per-size", "5")
CM = {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi"}
LNX = {**CM, "OMPI_MCA_btl": "self", INCLUDE: "lnx", "FI_PROVIDER": "lnx",
       "FI_LNX_PROV_LINKS": "shm"}  # fmt: skip
PMI = {"mpich": "pmi2", "openmpi": "pmix"}
TABLE = {"OMPI_MCA_mtl_ofi_av": "table"}
KILL_ONE = (
    "sh", "-c",
    'test ${OMPI_COMM_WORLD_RANK-$PMI_RANK} = 0 || (sleep 0.3; kill -9 $$) & exec "$0" "$@"',
)  # fmt: skip
TINY_SHM = (
    "unshare", "--mount", "sh", "-c",
    'mount -t tmpfs -o size=64k none /dev/shm && exec "$0" "$@"',
)  # fmt: skip
# The machine may have an Open MPI of its own, but none of this name.
NO_LIBRARIES = (
    "unshare", "--mount", "sh", "-c",
    """mount -t tmpfs none PREFIX/lib && LC_ALL=C sed 's/libmpi.so.40/libmpi.so.49/' "$0" >PREFIX/lib/p
    chmod +x PREFIX/lib/p && exec PREFIX/lib/p "$@" """,
)  # fmt: skip


class Launch(Value, kw_only=False):
    """Two ranks of a program, started by its own launcher, another MPI's, or srun with a `pmi`."""

    mpi: str = "openmpi"
    starter: str = ""
    pmi: str = ""
    nodes: int = 1
    env: dict[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    seconds: int = 60
    ok: bool = False


FAULTS: dict[str, tuple[str | None, Launch]] = {
    "good-openmpi": (None, Launch(ok=True)),
    "good-mpich": (None, Launch("mpich", nodes=2, ok=True)),
    "good-intel-mpi": (None, Launch("intel-mpi", nodes=2, ok=True)),
    "good-intel-mpi-on-one-node": (None, Launch("intel-mpi", ok=True)),
    "good-mpich-on-one-node": (None, Launch("mpich", ok=True)),
    "good-openmpi-on-two-nodes": (None, Launch(nodes=2, ok=True)),
    "good-srun": (None, Launch(pmi="pmix", nodes=2, ok=True)),
    "good-srun-of-mpich": (None, Launch("mpich", pmi="pmi2", nodes=2, ok=True)),
    "good-srun-of-intel-mpi": (None, Launch("intel-mpi", pmi="pmi2", nodes=2, ok=True)),
    "singletons-of-mpiexec": ("K25", Launch(starter="mpich")),
    "singletons-of-pmi-2": ("K25", Launch(pmi="pmi2")),
    "singletons-without-pmi": ("K25", Launch(pmi="none", nodes=2)),
    "mpich-by-mpirun-of-openmpi": ("K61", Launch("mpich", starter="openmpi")),
    "mpich-by-pmix": ("K61", Launch("mpich", pmi="pmix")),
    "no-such-pmix": ("K60", Launch(pmi="pmix_v99")),
    "provider-renamed": (
        "K01", Launch(env={**CM, INCLUDE: "shm+cxi:lnx"}, seconds=HANGS_S)
    ),
    "good-lnx": (None, Launch(env={**LNX, **TABLE}, ok=True)),
    "lnx-without-address-tables": ("K05", Launch(env=LNX, seconds=HANGS_S)),
    "lnx-over-tcp": (
        "K65",
        Launch(env={**LNX, **TABLE, "FI_LNX_PROV_LINKS": "shm+tcp;ofi_rxm"}, seconds=HANGS_S),
    ),
    "provider-excluded": ("K62", Launch(env={**CM, "FI_PROVIDER": "tcp"}, seconds=HANGS_S)),
    "interface-of-openmpi": (
        "K66",
        Launch(nodes=2, env={"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "hsn0",
                             "OMPI_MCA_pml": "ob1"}),
    ),
    "interface-of-libfabric": (
        "K66",
        Launch("mpich", nodes=2, env={"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp",
                                      "FI_TCP_IFACE": "hsn0"}),
    ),
    "ucx-inherited": (
        "K76", Launch(env={"OMPI_MCA_pml": "ucx", "UCX_NET_DEVICES": "mlx5_0:1"}, seconds=HANGS_S)
    ),
    "a-namespace-for-each-rank": (
        "K67", Launch("mpich", wrapper=("unshare", "--user", "--map-root-user"))
    ),
    "xpmem-of-openmpi": ("K68", Launch(env={"OMPI_MCA_smsc": "xpmem"})),
    "xpmem-of-libfabric": ("K68", Launch("mpich", env={"FI_SHM_USE_XPMEM": "1"}, ok=True)),
    "killed-below-mpirun": ("K69", Launch(wrapper=KILL_ONE, more=LONG)),
    "killed-below-mpiexec": ("K69", Launch("mpich", wrapper=KILL_ONE, more=LONG)),
    "settings-of-openmpi": ("K72", Launch("mpich", env={"OMPI_MCA_btl": "self,sm"}, ok=True)),
    "settings-of-mpich": ("K72", Launch(env={"MPIR_CVAR_CH4_NETMOD": "ofi"}, ok=True)),
    "library-missing": ("K73", Launch(wrapper=NO_LIBRARIES)),
    "tiny-dev-shm": ("K122", Launch("mpich", wrapper=TINY_SHM)),
    "a-name-misspelt": ("K77", Launch(env={"OMPI_MCA_pmll": "ob1"}, ok=True)),
    "a-name-misspelt-of-libfabric": ("K77", Launch("mpich", env={"FI_PROVIDERS": "tcp"}, ok=True)),
    "component-missing": ("K74", Launch(env={"OMPI_MCA_pml": "nowhere"})),
    "nothing-left": ("K75", Launch(env={**CM, "OMPI_MCA_mtl": "^ofi"}, seconds=HANGS_S)),
}  # fmt: skip


class Job(Value, kw_only=False):
    """What a launch left behind: its output and its environment as files, and its exit code."""

    log: Path
    env: Path
    program: Path
    code: int

    @property
    def named(self) -> tuple[object, ...]:
        return ("--log", self.log, "--env", self.env, "--program", self.program)


Launcher = Callable[..., Job]
Doctor = Callable[..., list[str]]


@pytest.fixture(scope="module")
def nodes(trees: Trees) -> Iterator[ClusterState]:
    need("slurm", "root", "netns", "userns")
    shared = [str(trees["mpich"].prefix.parents[1])]
    if sys.prefix.startswith("/tmp/"):
        shared.append(sys.prefix)  # nodes have a /tmp of their own
    name = f"doctor-{os.getpid()}"
    slurm = SlurmSpec(cpus=4, pin=False)
    yield cluster_up.up(ClusterSpec(name=name, nodes=2, shared=tuple(shared), slurm=slurm))
    cluster_up.down(name)


@pytest.fixture
def launched(nodes: ClusterState, trees: Trees, tmp_path: Path) -> Launcher:
    def start(launch: Launch) -> Job:
        tree, starter = trees[launch.mpi], trees[launch.starter or launch.mpi]
        patch = starter.family.environment(str(starter.prefix))
        patch = patch.then(tree.family.environment(str(tree.prefix)))
        job = {**patch.apply(VARIABLES), **launch.env}
        argv = _argv(launch, starter, nodes, job)
        wrapper = (word.replace("PREFIX", str(tree.prefix)) for word in launch.wrapper)
        program = (str(tree.program), *WORDS, *launch.more)
        return _left(nodes, (*argv, *wrapper, *program), job, tmp_path, seconds=launch.seconds)

    return start


def _left(
    nodes: ClusterState, argv: Sequence[str], job: dict[str, str], folder: Path, seconds: int = 60
) -> Job:
    """Run a launch on the first node, and keep what it printed and its environment."""
    done = subprocess.run(
        cluster_model.enter_argv(nodes, None, ("timeout", str(seconds), *argv)), env=job,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
        check=False,
    )  # fmt: skip
    log, env = folder / "job.log", folder / "job.env"
    log.write_bytes(done.stdout)
    env.write_text("".join(f"{name}={value}\n" for name, value in job.items()))
    program = next(Path(word) for word in argv if word.endswith(PROGRAM))
    return Job(log, env, program, done.returncode)


def _argv(launch: Launch, starter: Tree, nodes: ClusterState, job: dict[str, str]) -> list[str]:
    hosts = [node.name for node in nodes.nodes[: launch.nodes]]
    if launch.pmi:
        count = str(launch.nodes)
        return ["srun", f"--mpi={launch.pmi}", "-n", "2", "-N", count, "--cpu-bind=none"]
    program = f"{starter.prefix}/bin/mpiexec"
    if starter.family.name == "openmpi":
        job |= {"PRTE_MCA_plm_ssh_agent": nodes.agent, "PRTE_MCA_plm_ssh_no_tree_spawn": "1"}
        slots = ",".join(f"{host}:{2 // launch.nodes}" for host in hosts)
        names = [word for name in sorted(job) for word in ("-x", name)]
        return [program, "--bind-to", "none", *names, "--host", slots, "-n", "2"]
    return [program, "-launcher", "ssh", "-launcher-exec", nodes.agent, "-hosts", ",".join(hosts),
            "-ppn", str(2 // launch.nodes), "-n", "2"]  # fmt: skip


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Return the problems that doctor finds, in its order."""

    def ask(*words: object) -> list[str]:
        with pytest.raises(SystemExit) as stop:
            cli.main(["doctor", *map(str, words), "--json"])
        assert not stop.value.code
        return _fired(capsys.readouterr().out)

    return ask


def _fired(text: str) -> list[str]:
    data: dict[str, Any] = json.loads(text)
    return [one["rule"] for one in data["findings"] if one["answer"] == "fires"]


@pytest.mark.parametrize("name", FAULTS)
def test_the_cause_is_the_first_finding(name: str, launched: Launcher, doctor: Doctor) -> None:
    first, launch = FAULTS[name]
    found: list[str] = []
    for _ in range(3 if first else 1):
        job = launched(launch)
        assert (job.code == 0) is launch.ok, job.log.read_text(errors="replace")
        found = doctor(*job.named)
        if found:  # a rank of Open MPI that ends at its start may take its last words with it
            break
    assert found[:1] == ([first] if first else []), job.log.read_text(errors="replace")


@pytest.mark.parametrize("way", ["one node", "two nodes", "srun"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_nothing_is_wrong_with_a_run_of_the_systems_mpi(
    mpi: str, way: str, nodes: ClusterState, trees: Trees, tmp_path: Path, doctor: Doctor
) -> None:
    """What the distribution has, older than the wheels, with words and warnings of its own."""
    need("installed-mpis")
    program = trees["mpich"].prefix.parents[1] / f"of-the-system-{mpi}" / PROGRAM
    if not program.exists():
        program.parent.mkdir()
        words = (installed_mpi(mpi), "-O2", "-o", program, *sorted(CSRC.glob("*.c")), "-lm", "-ldl")
        subprocess.run(words, check=True, timeout=600)
    job = {**VARIABLES, "OMPI_MCA_plm_rsh_agent": nodes.agent} if mpi == "openmpi" else VARIABLES
    hosts = [node.name for node in nodes.nodes[: 1 if way == "one node" else 2]]
    each = 2 // len(hosts)
    starter = installed_mpi(mpi).replace("mpicc", "mpiexec")
    slots = ",".join(f"{host}:{each}" for host in hosts)
    argv = {
        "openmpi": (starter, "--bind-to", "none", "--host", slots, "-n", "2"),
        "mpich": (starter, "-launcher", "ssh", "-launcher-exec", nodes.agent,
                  "-hosts", ",".join(hosts), "-ppn", str(each), "-n", "2"),
    }[mpi]  # fmt: skip
    if way == "srun":
        argv = ("srun", f"--mpi={PMI[mpi]}", "-n", "2", "-N", "2", "--cpu-bind=none")
    for _ in range(3):
        left = _left(nodes, (*argv, str(program), *WORDS), job, tmp_path, seconds=20)
        ended = left.code != TIMED_OUT or '"kind":"end"' not in left.log.read_text(errors="replace")
        if ended:  # MPICH 4.0 over UCX now and then stays in MPI_Finalize for ever
            break
    assert left.code == 0, left.log.read_text(errors="replace")
    assert doctor(*left.named) == [], left.log.read_text(errors="replace")


@pytest.mark.parametrize("way", ["mpiexec", "srun"])
def test_nothing_is_wrong_with_a_run_in_a_container(
    way: str, nodes: ClusterState, trees: Trees, tmp_path: Path, doctor: Doctor
) -> None:
    tree = trees["mpich"]
    with store() as kept:
        image = kept.add("mpich", root_with(tmp_path / "root", tree.prefix))
        inside = Arm(
            container=image, env=kept.env, host_mpi=str(tree.prefix), name="inside",
            options=(f"--volume={tree.program}:/{PROGRAM}:ro",),
        )  # fmt: skip
        wrapped = container_arm.of_container(inside, ()).deployment.wrapped
        job = {**VARIABLES, **kept.env, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        launch = Launch("mpich", pmi=PMI["mpich"] if way == "srun" else "")
        argv = _argv(launch, tree, nodes, job)
        left = _left(nodes, (*argv, *wrapped, f"/{PROGRAM}", *WORDS), job, tmp_path)
    assert left.code == 0, left.log.read_text(errors="replace")
    found = doctor("--log", left.log, "--env", left.env, "--fact", "container=true")
    assert found == [], left.log.read_text(errors="replace")


def test_settings_for_infiniband_are_also_told_on_slingshot(
    launched: Launcher, doctor: Doctor
) -> None:
    job = launched(Launch(env={"OMPI_MCA_pml": "ucx", "UCX_TLS": "rc,sm"}, seconds=HANGS_S))
    assert doctor(*job.named, "--fact", "fabric=slingshot-11")[:2] == ["K76", "K27"]


def test_a_provider_that_was_inherited_is_told_on_slingshot(
    launched: Launcher, doctor: Doctor
) -> None:
    """The job ends well, over the slow path; also beside a libfabric that is old besides."""
    env = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
    job = launched(Launch("mpich", nodes=2, env=env, ok=True))
    assert job.code == 0, job.log.read_text(errors="replace")
    assert doctor(*job.named) == []
    slingshot = ("--fact", "fabric=slingshot-11", "--have", "libfabric=2.1.0")
    assert doctor("--log", job.log, "--env", job.env, *slingshot)[0] == "K79"
    # The program's own libfabric has no cxi, which is worse.
    assert doctor(*job.named, *slingshot)[:2] == ["K29", "K79"]


def test_a_libfabric_without_the_symbols_that_are_asked_for(
    trees: Trees, launched: Launcher, doctor: Doctor
) -> None:
    """Open MPI 5.0.11 asks for FABRIC_1.9, which the libfabric of Intel MPI 2021.18 has not got."""
    folder = trees["openmpi"].prefix.parent / "older"
    folder.mkdir(exist_ok=True)
    shutil.copy(trees["intel-mpi"].prefix / "lib" / "libfabric.so.1", folder)
    library_path = f"{folder}:{trees['openmpi'].prefix}/lib"
    job = launched(Launch(env={"LD_LIBRARY_PATH": library_path}))
    assert job.code != 0
    assert doctor("--log", job.log)[0] == "K37"
    # Without running anything: the closure of the program shows it.
    assert doctor("--program", job.program, "--env", job.env)[0] == "K37"


def test_bytes_that_arrive_changed(trees: Trees, launched: Launcher, doctor: Doctor) -> None:
    tree = trees["mpich"]
    library = tree.prefix.parent / "wrongbyte.so"
    argv = [f"{tree.prefix}/bin/mpicc", "-shared", "-fPIC", "-o", str(library), str(WRONGBYTE)]
    env = tree.family.environment(str(tree.prefix)).apply(dict(os.environ))
    subprocess.run(argv, env=env, check=True, timeout=600)
    wrapper = ("env", f"LD_PRELOAD={library}", "STACKPROOF_WRONGBYTE_SIZE=65536")
    job = launched(Launch("mpich", wrapper=wrapper))
    assert doctor("--log", job.log)[0] == "K71"


def test_slurms_pmix_without_its_library(nodes: ClusterState, launched: Launcher) -> None:
    """srun says `Unspecified error`; that the library is gone is seen on the node."""
    slurm = machine.slurm_pmix()
    if not slurm.facts.get("pmix-loads"):
        pytest.skip("Slurm has no PMIx here, or does not say where its library is")
    folder = os.path.dirname(slurm.origin("fact", "pmix-loads").partition(" is ")[0])
    for node in nodes.nodes:
        _in(nodes, node.name, f"mount -t tmpfs none {shlex.quote(folder)}")
    try:
        job = launched(Launch(pmi="pmix", nodes=2))
        # A node has a /tmp of its own, so that it is told the log on standard input.
        words = "doctor --log /dev/stdin --fact pmi=pmix --json"
        told = _in(
            nodes,
            "node1",
            f"{shlex.quote(sys.executable)} -m stackproof {words}",
            job.log.read_bytes(),
        )
    finally:
        for node in nodes.nodes:
            _in(nodes, node.name, f"umount {shlex.quote(folder)}")
    assert job.code != 0
    assert _fired(told)[0] == "K24"
    assert launched(Launch(pmi="pmix", nodes=2)).code == 0


def _in(nodes: ClusterState, node: str, line: str, text: bytes = b"") -> str:
    done = subprocess.run(
        cluster_model.enter_argv(nodes, node, ("sh", "-c", line)), input=text, capture_output=True,
        timeout=600, check=False, env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode()
