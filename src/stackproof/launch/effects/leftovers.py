"""Shared memory that ranks left on this machine when they were killed, and its end.

MPI libraries remove their files in /dev/shm when a rank ends in good order; a rank that is killed
leaves them for ever. A file goes when it has a name that such a library gives, is this user's, is
not older than is said, and no process has it open or mapped.

Imports little of the standard library: `task` needs it on every node.
"""

from __future__ import annotations

import os
import re
import stat

TYPE_CHECKING = False  # as in `mount_exec`
if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - files in it are judged one by one
# libfabric (PID:USER:NUMBER), MPICH and its kin, Open MPI since 2 (vader_segment, later sm_segment,
# windows), Intel MPI, UCX, PSM2 and PSM3, MVAPICH, PMIx, NCCL and RCCL.
_NAMES = re.compile(
    r"\d+:\d+:\d+(?:_\w+)?|mpich_sh\w+|(?:vader|sm)_segment\.\S+|osc_(?:rdma|sm)\.\S+"
    r"|open_mpi\.\S+|Intel_MPI_\w+|shm-col-space-\S+|ucx_shm_posix_\w+|psm[23]_shm\.\S+"
    r"|(?:ib_shmem|mv2)-\S+|pmix-gds-\S+|nccl-\w+"
)
# Hydra describes the machine in a file here, wherever TMPDIR is. It tells its ranks the name, and
# nobody has it open.
_HYDRAS_FOLDER = "/tmp"  # noqa: S108 - as above
_HYDRAS = re.compile(r"hydra_hwloc_xmlfile_\w{6}")
_HYDRA = re.compile(r"hydra|mpiexec|mpirun")
# The inode number of the first namespace of processes (linux/proc_ns.h, PROC_PID_INIT_INO).
_FIRST_PROCESSES = 0xEFFFFFFC
_CLOCK_S = 1.0  # file systems have a coarser clock

_FileKey = tuple[int, int]


def sweep(since: float = 0.0) -> bool:
    """Remove what ended ranks left since a time, in seconds since 1970.

    Returns false where something has such a name and stays, because a process may need it, or
    because not every process is to be seen, as in a container.
    """
    since -= _CLOCK_S
    left = dict(_own_files(SHARED_MEMORY, _NAMES, since))
    hydras = dict(_own_files(_HYDRAS_FOLDER, _HYDRAS, since))
    if not left and not hydras:
        return True
    if os.stat("/proc/self/ns/pid").st_ino != _FIRST_PROCESSES:
        return False
    unused = dict(left)
    try:
        for key in _in_use(since) if left else ():
            unused.pop(key, None)
    except PermissionError:  # a process of this user's that may not be looked into
        unused = {}
    if hydras and not any(_HYDRA.match(_name(process)) for process in _own_processes()):
        unused |= hydras
    for path in unused.values():
        try:
            os.unlink(path)
        except OSError:  # somebody else has just done it
            continue
    return len(unused) == len(left) + len(hydras)


def mentioned(text: str, since: float) -> bool:
    """Return true where a process of this user has a text in the variables it was started with.

    One that may not be looked into counts as well, unless it is older than a time.
    """
    wanted = os.fsencode(text)
    for process in _own_processes():
        try:
            with open(f"{process}/environ", "rb") as stream:
                if wanted in stream.read():
                    return True
        except PermissionError:
            if _started(process) >= since - _CLOCK_S:
                return True
        except OSError:  # it has just ended, or is one of the kernel's
            continue
    return False


def _own_files(folder: str, names: re.Pattern[str], since: float) -> Iterator[tuple[_FileKey, str]]:
    user = os.geteuid()
    try:
        entries = os.listdir(folder)
    except OSError:
        return
    for path in [f"{folder}/{name}" for name in entries if names.fullmatch(name)]:
        try:
            state = os.lstat(path)
        except OSError:  # it has just gone
            continue
        if stat.S_ISREG(state.st_mode) and state.st_uid == user and state.st_ctime >= since:
            yield (state.st_dev, state.st_ino), path


def _own_processes() -> Iterator[str]:
    """Yield the folders in /proc of the processes that can have opened files of this user."""
    user = os.geteuid()
    for name in os.listdir("/proc"):
        process = f"/proc/{name}"
        try:
            if name.isdigit() and user in {0, _field(process, "Uid")}:
                yield process
        except (OSError, ValueError):  # it has just ended
            continue


def _in_use(since: float) -> Iterator[_FileKey]:
    """Yield the files that processes have open or mapped.

    Raises `PermissionError` for one that may not be looked into and is not older than a time.
    """
    for process in _own_processes():
        try:
            yield from _files_of(process)
        except PermissionError:
            if _started(process) >= since:
                raise
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue


def _files_of(process: str) -> Iterator[_FileKey]:
    with open(f"{process}/maps", "rb") as stream:
        lines = stream.readlines()
    for line in lines:
        device, inode = line.split()[3:5]
        if inode != b"0":
            major, _, minor = device.partition(b":")
            yield os.makedev(int(major, 16), int(minor, 16)), int(inode)
    for number in os.listdir(f"{process}/fd") if lines else ():  # the kernel's own have no memory
        try:
            state = os.stat(f"{process}/fd/{number}")
        except FileNotFoundError:  # closed meanwhile
            continue
        yield state.st_dev, state.st_ino


def _field(process: str, name: str) -> int:
    """Return the first number of a line of a process' status (proc(5)); raises `OSError`."""
    with open(f"{process}/status", encoding="ascii", errors="replace") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith(f"{name}:"))


def _name(process: str) -> str:
    try:
        with open(f"{process}/comm", encoding="ascii", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _started(process: str) -> float:
    """Return when a process started, in seconds since 1970; later than anything where unknown."""
    try:
        with open(f"{process}/stat", "rb") as stream:
            ticks = int(stream.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", encoding="ascii") as stream:
            booted = next(int(line.split()[1]) for line in stream if line.startswith("btime "))
    except (OSError, StopIteration):
        return float("inf")
    return booted + ticks / os.sysconf("SC_CLK_TCK")
