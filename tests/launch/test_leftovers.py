"""What killed ranks left behind, and what is kept because somebody uses it or it is no leftover."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from need import need
from stackproof.core.command import Command, EnvPatch
from stackproof.launch.effects import launch_folder, leftovers

pytestmark = [
    pytest.mark.guarantee(
        "Folders of several users",
        "What a killed launch left is cleared, and nothing else.",
        "The next bench removes shared memory with names of MPI libraries that is yours and "
        "that no process uses. Tried: files of others, files in use, other names.",
    ),
]

NAMES = (
    "1234:0:0", "mpich_shm_7a04_0", "mpich_shar_tmpZgtCRd", "vader_segment.vm.0.1500001.1",
    "sm_segment.vm.0.a8500000.0", "osc_rdma.vm.0.1.2", "psm3_shm.1234", "ucx_shm_posix_4f2e",
    "Intel_MPI_oB3zXk", "nccl-oB3zXk",
)  # fmt: skip
OTHERS = (
    "libpod_lock", "sem.mine", "psm_4f2e", "mpich", "12:30", "notes.txt", "my_sm_segment.vm.0.1",
    "vader_segment", "stackproof-tree",
)  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of /dev/shm, in a machine that shows every process."""
    if os.stat("/proc/self/ns/pid").st_ino != leftovers._FIRST_PROCESSES:
        pytest.skip("a container")
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", str(folder))
    monkeypatch.setattr(leftovers, "_HYDRAS_FOLDER", str(folder))
    return folder


def test_files_of_mpi_libraries_go_and_no_others(memory: Path) -> None:
    for name in (*NAMES, *OTHERS):
        (memory / name).write_text("x")
    (memory / "nccl-folder").mkdir()
    (memory / "nccl-link").symlink_to("notes.txt")
    assert leftovers.sweep(time.time())
    assert {path.name for path in memory.iterdir()} == {*OTHERS, "nccl-folder", "nccl-link"}


@pytest.mark.battery
@pytest.mark.parametrize("mapped", [False, True])
def test_what_a_process_has_open_or_mapped_stays(memory: Path, mapped: bool) -> None:
    used, left = memory / NAMES[0], memory / NAMES[1]
    used.write_bytes(bytes(mmap.PAGESIZE))
    left.write_bytes(b"x")
    script = "import mmap, sys, time; f = open(sys.argv[1], 'r+b')\n"
    script += "m = mmap.mmap(f.fileno(), 0); f.close()\n" if mapped else ""
    script += "print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script, used], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert not leftovers.sweep(time.time())
        assert sorted(memory.iterdir()) == [used]
        process.kill()
    assert leftovers.sweep(time.time())
    assert list(memory.iterdir()) == []


def test_what_is_older_stays(memory: Path) -> None:
    (memory / NAMES[0]).write_text("x")
    assert leftovers.sweep(time.time() + 60)
    assert (memory / NAMES[0]).exists()


def test_files_of_another_user_stay(memory: Path) -> None:
    need("root")
    path = memory / NAMES[0]
    path.write_text("x")
    os.chown(path, 4343, 4343)
    assert leftovers.sweep(time.time())
    assert path.exists()


@pytest.mark.battery
def test_hydras_file_stays_while_a_launcher_runs(memory: Path) -> None:
    path = memory / "hydra_hwloc_xmlfile_3eKn3x"
    path.write_text("x")
    launcher = memory / "mpiexec"
    launcher.symlink_to("/bin/sleep")
    with subprocess.Popen([launcher, "60"]) as process:
        assert not leftovers.sweep(time.time())
        assert path.exists()
        process.kill()


@pytest.fixture
def temporary(memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that has only what the test puts there; gives the one of launches."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"stackproof-launches-{os.geteuid()}"


def test_a_launch_has_a_folder_that_goes_with_it(temporary: Path) -> None:
    show = Command(argv=("sh", "-c", 'echo "$TMPDIR"; touch "$TMPDIR/left"'))
    with launch_folder.held() as folder:
        assert launch_folder.run(show, folder).stdout.decode().strip() == folder
        assert tempfile.gettempdir() == folder
        own = EnvPatch(set={"TMPDIR": str(temporary.parent)})
        said = launch_folder.run(Command(argv=show.argv, env=own), folder).stdout.decode()
        assert said.strip() == str(temporary.parent)
    assert list(temporary.iterdir()) == []
    assert tempfile.gettempdir() == str(temporary.parent)


_KILLED = """
import os, subprocess, sys, tempfile
from stackproof.launch.effects import launch_folder
tempfile.tempdir = sys.argv[1]
with launch_folder.held() as folder:
    open(os.path.join(folder, "left"), "w").close()
    if len(sys.argv) > 2:
        subprocess.Popen(["sleep", "60"], env={"TMPDIR": folder}, start_new_session=True,
                         stdout=subprocess.DEVNULL)
    print(flush=True)
    sys.stdin.read()
"""


def begun(temporary: Path, *more: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, temporary.parent, *more],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout
    process.stdout.readline()
    return process


@pytest.mark.battery
def test_the_next_one_clears_what_a_killed_one_left_and_leaves_who_lives(
    temporary: Path, memory: Path
) -> None:
    with begun(temporary) as killed, begun(temporary) as living:
        (memory / NAMES[0]).write_text("x")
        killed.kill()
        killed.wait()
        with launch_folder.held() as folder:
            there = [path.name for path in temporary.iterdir()]
            assert len(there) == 2
            assert os.path.basename(folder) in there
        assert len(list(temporary.iterdir())) == 1
        assert list(memory.iterdir()) == []
        living.kill()


@pytest.mark.battery
def test_the_folder_of_ranks_that_live_on_stays_until_they_ended(temporary: Path) -> None:
    with begun(temporary, "with a rank") as killed:
        rank = int(Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text())
        killed.kill()
    with launch_folder.held():
        assert len(list(temporary.iterdir())) == 2
    os.kill(rank, signal.SIGKILL)
    while Path(f"/proc/{rank}/environ").exists() and _environ(rank):
        time.sleep(0.02)
    with launch_folder.held():
        assert len(list(temporary.iterdir())) == 1


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def test_a_folder_that_somebody_else_has_made_is_not_used(temporary: Path) -> None:
    temporary.mkdir(mode=0o777)
    temporary.chmod(0o777)
    with launch_folder.held() as folder:
        assert folder == ""
    assert list(temporary.iterdir()) == []
