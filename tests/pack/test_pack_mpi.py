"""Real MPIs packed and moved: under their own launchers, Slurm's, alone, spawned, without glibc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from need import as_unprivileged, need
from packs import out

pytestmark = pytest.mark.in_turn

FAMILIES = {"mpich": "MPICH Version:      5.0.2", "openmpi": "Open MPI v5.0.11"}
OTHER = {"mpich": "openmpi", "openmpi": "mpich"}
SPAWN = Path(__file__).with_name("spawn.c")
# Open MPI's programs ask root twice, and count cores before they spawn. UCX of MPICH's wheel cannot
# always share memory with who is spawned, packed or not.
ROOT = {
    f"{name}_ALLOW_RUN_AS_ROOT{more}": "1" for name in ("OMPI", "PRTE") for more in ("", "_CONFIRM")
} | {"MPIR_CVAR_CH4_NETMOD": "ofi", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
_TIMEOUT_S = 300


def stackproof(*words: str | Path, cwd: Path, notes: bool = False) -> str:
    """Return what it prints, with what it notes to the standard error output if asked for."""
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", *map(os.fspath, words)],
        cwd=cwd, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout + (done.stderr if notes else "")


class Shelf:
    """Packs of the developers' MPIs, in a folder with a blank that all users may enter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "moved here"
        self.folder.mkdir()
        for family in FAMILIES:
            stackproof("build", "--locked", family, cwd=folder)
            image = folder / f"{family}.squashfs"
            stackproof("run", image, "--", "mpicc", "-o", "spawn", SPAWN, cwd=folder)
            words = ("pack", image, "./spawn", "--entry", "bench=stackproof-bench")
            stackproof(*words, "-o", f"at-first-{family}", cwd=folder)
            (folder / f"at-first-{family}").rename(self.folder / family)
            one = ("pack", image, "./spawn", "--tier", "1", "-o", self.folder / f"{family}.self")
            stackproof(*one, cwd=folder)
        (folder / "spawn").unlink()

    def bin(self, family: str) -> Path:
        return self.folder / family / "bin"

    def open_to_all(self) -> None:
        """Let everybody in: pytest closes its folder again whenever it makes one."""
        for above in (self.folder, *self.folder.parents[:-2]):
            above.chmod(above.stat().st_mode | 0o055)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    need("network", "bubblewrap", "mksquashfs", "gcc", "patchelf")
    return Shelf(tmp_path_factory.mktemp("packs"))


@pytest.mark.parametrize("family", FAMILIES)
def test_moved_it_starts_ranks_under_another_ones_environment(shelf: Shelf, family: str) -> None:
    """Another pack is first on PATH, and its libraries in LD_LIBRARY_PATH."""
    top, other = shelf.bin(family), shelf.bin(OTHER[family])
    (libmpi,) = {path.parent for path in other.parent.glob("stack/*/lib/libmpi.so*")}
    env = {**os.environ, **ROOT, "PATH": f"{other}:{os.environ['PATH']}"}
    env |= {"LD_LIBRARY_PATH": str(libmpi), "OPAL_PREFIX": "/nowhere"}
    words = ("--benchmarks", "latency", "--sizes", "8", "--samples", "3", "--expect-ranks", "2")
    done = out(top / "mpiexec", "-n", "2", top / "bench", *words, env=env)
    assert done.returncode == 0, done.stderr
    start = json.loads(done.stdout.splitlines()[0])
    assert start["mpi_library"].startswith(FAMILIES[family])
    assert start["world_size"] == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_alone_and_with_more_that_it_spawns(shelf: Shelf, family: str) -> None:
    program = shelf.bin(family) / "spawn"
    env = {**os.environ, **ROOT}
    for before in ((), (shelf.bin(family) / "mpiexec", "-n", "1")):
        done = out(*before, program, program, env=env)
        assert "rank 0 of 1 on " in done.stdout, done.stderr
        assert f", 2 spawned, {FAMILIES[family]}" in done.stdout
        assert done.returncode == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_rank_that_crashes_is_told_by_its_signal(shelf: Shelf, family: str) -> None:
    top = shelf.bin(family)
    script = 'test -n "$PMI_RANK$PMIX_RANK" && kill -SEGV $$; exit 3'
    done = out(top / "mpiexec", "-n", "2", "sh", "-c", script, env={**os.environ, **ROOT})
    assert "11" in done.stdout + done.stderr
    assert done.returncode not in {0, 3, 255}


@pytest.mark.parametrize("family", FAMILIES)
def test_in_a_root_without_a_c_library(shelf: Shelf, family: str, tmp_path: Path) -> None:
    """A user without rights, no loader, no shell, nothing but the pack: its own loader starts all."""
    for name in ("etc", "pack"):
        (tmp_path / "root" / name).mkdir(parents=True)
    (tmp_path / "root/etc/hosts").write_text("127.0.0.1 localhost\n")
    (tmp_path / "root/etc/passwd").write_text("one:x:12345:12345::/:/bin/false\n")
    argv = ["bwrap", "--bind", tmp_path / "root", "/", "--ro-bind", shelf.folder / family, "/pack"]
    argv += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp"]
    argv += ["--unshare-user", "--uid", "12345", "--gid", "12345", "--cap-drop", "ALL"]
    explain = {"STACKPROOF_PACK_EXPLAIN": "1"}
    done = out(*argv, "/pack/bin/mpiexec", "-n", "2", "/pack/bin/bench", "--benchmarks", "barrier",
               "--samples", "3", "--expect-ranks", "2", env={**os.environ, **explain})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["mpi_library"].startswith(FAMILIES[family])
    assert "by the loader of the pack, as this machine has no such loader" in done.stderr


def test_on_two_nodes_by_slurm_and_by_its_own_launcher(shelf: Shelf) -> None:
    """As a user, srun with the PMI of each MPI, and mpiexec, whose daemons lie in the pack."""
    need("root", "slurm", "netns")
    cluster = ("--name", "packs")
    folder = shelf.folder
    shelf.open_to_all()
    stackproof("cluster", "up", *cluster, "--nodes", "2", "--slurm", "--user", "alice:2001",
               "--share", folder, cwd=folder)  # fmt: skip
    try:
        alice = ("cluster", "exec", *cluster, "--as", "alice", "--")
        for family, kind in (("mpich", "pmi2"), ("openmpi", "pmix")):
            top = shelf.bin(family)
            srun = ("srun", "--nodes=2", "--ntasks=2", f"--mpi={kind}", top / "spawn")
            own = ("salloc", "--nodes=2", "--ntasks=2", top / "mpiexec", "-n", "2", top / "spawn")
            for words in (srun, own):
                said = stackproof(*alice, *words, cwd=folder)
                for rank in range(2):
                    assert f"rank {rank} of 2 on node" in said, (words, said)
                assert {"on node1", "on node2"} <= {one[-8:] for one in _places(said)}
                assert said.count(FAMILIES[family]) == 2
            _one_file_on_two_nodes(alice, folder, family, kind)
    finally:
        stackproof("cluster", "down", *cluster, cwd=folder)


def _one_file_on_two_nodes(alice: tuple[str, ...], folder: Path, family: str, kind: str) -> None:
    """Two ranks on each node: the first mounts, the second joins, and they share memory."""
    srun = ("srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2", f"--mpi={kind}")
    explain = ("env", "STACKPROOF_PACK_EXPLAIN=1")
    said = stackproof(*alice, *srun, *explain, folder / f"{family}.self", cwd=folder, notes=True)
    assert len(_places(said)) == 4, said
    assert said.count("made a mount namespace") == 2
    assert said.count("joined the mount namespace") == 2
    assert said.count(FAMILIES[family]) == 4


def _places(said: str) -> list[str]:
    return [line.partition(",")[0] for line in said.splitlines() if line.startswith("rank")]


def test_a_user_without_rights_runs_what_root_packed(shelf: Shelf) -> None:
    need("root", "unprivileged-user")
    shelf.open_to_all()
    top = shelf.bin("mpich")
    argv = as_unprivileged([os.fspath(top / "mpiexec"), "-n", "2", os.fspath(top / "spawn")])
    done = out(*argv, cwd="/")
    assert done.stdout.count("of 2 on ") == 2, done.stderr


def test_ranks_that_a_launcher_starts_one_by_one_share_memory(shelf: Shelf) -> None:
    """Each rank is the one file; MPICH copies from another rank's memory, or stops."""
    need("userns", "unprivileged-user")
    shelf.open_to_all()
    argv = [os.fspath(shelf.bin("mpich") / "mpiexec"), "-n", "2", f"{shelf.folder}/mpich.self"]
    env = {**os.environ, "MPIR_CVAR_CH4_NETMOD": "ofi", "STACKPROOF_PACK_EXPLAIN": "1"}
    done = out(*as_unprivileged(argv), cwd="/", env=env)
    assert done.stdout.count("of 2 on ") == 2, done.stderr
    assert done.stderr.count("joined the mount namespace") == 1
