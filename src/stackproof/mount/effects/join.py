"""One mount for all ranks of a node: a rank joins the namespaces of one that came before it.

Ranks that a launcher starts on one node each run `stackproof run`. With a user namespace of its own
per rank the kernel would not let one rank copy from another's memory (process_vm_readv(2) asks for
the rights of ptrace(2), which end at the border of a user namespace), and MPI libraries that count
on it fail or fall back. So the first rank makes the namespaces and the others enter them.

Nothing stays running for this. A small file, held locked while one process mounts or joins, names
the processes that are in the namespaces; the kernel keeps these as long as one of them lives. When
the last has ended, the next one that comes makes new ones. Joining another job's mount of the same
image is right too: it is the same file at the same place, seen by the same user.

Imports nothing but `libc` and little of the standard library: see `mount_exec`.
"""

from __future__ import annotations

import fcntl
import os
import stat
import zlib

from stackproof.core import limits
from stackproof.core.effects import libc
from stackproof.core.effects.libc import MountFailure
from stackproof.core.effects.outputs import is_private

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

# Somebody else may have taken the name in one of them.
_PLACES = ("/tmp", "/dev/shm", "/var/tmp")  # noqa: S108 - made for this user alone, and checked


class Meeting:
    """The place where processes that want the same mounts meet; a context that holds its lock.

    `what` tells images and mount points apart from all others, in any text. Raises `MountFailure`
    (not-permitted) when there is no folder that belongs to this user alone.
    """

    def __init__(self, what: str) -> None:
        # Mounts of another namespace around this one, user, machine or container are not these.
        around = [_read_link(f"/proc/self/ns/{name}") for name in ("user", "mnt", "pid")]
        root = os.stat("/")
        around += [_boot(), str(os.geteuid()), str(os.getegid()), f"{root.st_dev}:{root.st_ino}"]
        self._key = "\n".join([*around, what])
        self._path = os.path.join(_folder(), f"mounts-{zlib.crc32(self._key.encode()):08x}")
        self._file = -1

    def __enter__(self) -> Self:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = os.open(self._path, flags, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            raise MountFailure(
                "not-permitted", f"cannot use `{self._path}`: {error.strerror}",
                "remove it, or say `--join no`",
            ) from None  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        os.close(self._file)

    def join(self) -> list[str] | None:
        """Enter the namespaces of a process that is there; return its mount points in order.

        None when nobody is there. This process' root and working folder become those of the
        namespace.
        """
        text = os.pread(self._file, limits.JOINED.bytes, 0).decode(errors="replace")
        key, _, record = text.partition("\0")
        if key != self._key:
            return None
        namespaces, _, rest = record.partition("\n")
        points, _, members = rest.partition("\n")
        for member in members.split():
            pid, _, started = member.partition("@")
            if _started(pid) == started and _enter(pid, namespaces):
                alive = [other for other in members.split() if _started(other.partition("@")[0])]
                self._write(namespaces, points, alive)
                return points.split(",")
        return None

    def record(self, points: Sequence[str]) -> None:
        """Say that this process is in the namespaces that it has just made."""
        self._write(_namespaces("self"), ",".join(points), [])

    def _write(self, namespaces: str, points: str, members: list[str]) -> None:
        own = f"{os.getpid()}@{_started('self')}"
        record = f"{self._key}\0{namespaces}\n{points}\n{' '.join([*members, own])}\n"
        os.pwrite(self._file, record.encode(), 0)
        os.ftruncate(self._file, len(record.encode()))


def _enter(pid: str, namespaces: str) -> bool:
    """Enter the namespaces of a process, if they still are those that were written down."""
    try:
        if _namespaces(pid) != namespaces:
            return False
        descriptors = [
            os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in _foreign(pid)
        ]
    except OSError:  # it has just ended, or became a program that nobody may look into
        return False
    try:
        for descriptor in descriptors:
            libc.setns(descriptor)
    except OSError as error:
        raise MountFailure("mount-failed", f"cannot join the mounts of process {pid}: {error}",
                           "say `--join no`") from None  # fmt: skip
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return True


def _foreign(pid: str) -> list[str]:
    """Return the namespaces to enter: the user namespace first, since it gives the right."""
    names = ("user", "mnt")
    return [n for n in names if _read_link(f"/proc/{pid}/ns/{n}") != _own(n)]


def _own(name: str) -> str:
    return _read_link(f"/proc/self/ns/{name}")


def _namespaces(pid: str) -> str:
    return " ".join(os.readlink(f"/proc/{pid}/ns/{name}") for name in ("user", "mnt"))


def _read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _started(pid: str) -> str:
    """Return when a process started, in ticks since boot; "" when there is none (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in {b"Z", b"X"} else fields[19].decode()


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _folder() -> str:
    """Return a folder on this node that nobody else may write to."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if given.startswith("/") and _is_private(given):
        return given
    # Not the folder of clusters: nodes see that one with what is shared, open to all their users.
    for place in _PLACES:
        path = f"{place}/stackproof-join-{os.geteuid()}"
        try:  # noqa: SIM105 - contextlib takes longer to import
            os.mkdir(path, 0o700)
        except OSError:  # it is there, or cannot be
            pass
        if _is_private(path):
            return path
    raise MountFailure(
        "not-permitted",
        f"`{path}` does not belong to you alone, so that others could misuse it",
        "set XDG_RUNTIME_DIR to a folder of yours with mode 0700, or say `--join no`",
    )


def _is_private(path: str) -> bool:
    try:
        state = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and is_private(state)


# What ranks that are killed leave in /dev/shm goes with the last of them where it is their own. It
# is for those that share one mount namespace: ranks in several would not see each other's memory.

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - it is covered, in a namespace
# As fast as the machine's: huge pages and memory policies are options of a mount, and so are sizes.
_KEPT = ("size=", "nr_blocks=", "nr_inodes=", "huge=", "mpol=", "noswap")


def options_of(mounts: str, place: str = SHARED_MEMORY) -> str | None:
    """Return options for a file system like the one at a place, by the text of mountinfo (proc(5)).

    None where no tmpfs is mounted there.
    """
    result = None
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, last = rest.partition(" ")
        if fields.split(" ")[4:5] == [place]:
            words = last.rpartition(" ")[2].split(",")
            kept = [word for word in words if word.startswith(_KEPT)]
            result = ",".join(["mode=1777", *kept]) if kind == "tmpfs" else None
    return result


def cover_shared_memory() -> str:
    """Put an empty /dev/shm over the machine's, in this mount namespace.

    Returns why that cannot be, in which case ranks have the machine's, else nothing.
    """
    try:
        with open("/proc/self/mountinfo", encoding="ascii", errors="replace") as stream:
            options = options_of(stream.read())
        if options is None:
            return f"no tmpfs is mounted at {SHARED_MEMORY}"
        libc.mount("stackproof", SHARED_MEMORY, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, options)
    except OSError as error:
        return str(error)
    return ""
