"""The few system calls that mounting and ranks need and Python 3.11 lacks, and how mounting fails.

Imports nothing of ours and little of the standard library: see `mount_exec`.
"""

from __future__ import annotations

import ctypes
import errno
import os

# linux/sched.h, sys/mount.h
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT = 1, 2, 4, 32
MS_BIND, MS_MOVE, MS_REC, MS_SLAVE = 4096, 8192, 16384, 1 << 19
READ_ONLY = MS_RDONLY | MS_NOSUID | MS_NODEV
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h
_FUSE_SUPER_MAGIC = 0x65735546  # linux/magic.h
_MPOL_BIND = 2  # linux/mempolicy.h
# set_mempolicy(2) has no function in the C library: its number by `uname -m` (asm/unistd.h).
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261}
_NUMA_BITS = 1 << 10  # CONFIG_NODES_SHIFT is 10 at most
# The inode number of the first user namespace is fixed (linux/proc_ns.h, PROC_USER_INIT_INO).
_FIRST_USER_NAMESPACE = 0xEFFFFFFD
_MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine, as in `linking.elf.model`

# As in `stackproof.core.errors`, which is not imported here; what is not in it is 6.
_EXIT_CODES = {
    "usage": 2,
    "invalid-value": 3,
    "bad-mount-point": 3,
    "tool-missing": 4,
    "no-user-namespaces": 4,
    "no-fuse": 4,
    "not-permitted": 4,
    "singletons": 11,
}
_IMAGE_OR_MOUNT = 6

_libc = ctypes.CDLL(None, use_errno=True)


class MountFailure(Exception):  # noqa: N818 - it is a failure, as the reason says
    """Why an image could not be mounted; `reason` is a value of `stackproof.core.errors.Reason`."""

    def __init__(self, reason: str, message: str, hint: str = "", *, exit_code: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hint = hint
        self.exit_code = exit_code or _EXIT_CODES.get(reason, _IMAGE_OR_MOUNT)


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` name; raises `OSError`."""
    _check("unshare", _libc.unshare(flags))


def setns(descriptor: int) -> None:
    """Enter the namespace that an open file of /proc/PID/ns is; raises `OSError`."""
    _check("setns", _libc.setns(descriptor, 0))


def mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    """Mount by the system call of that name; raises `OSError`."""
    words = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    data = None if options is None else os.fsencode(options)
    _check(target, _libc.mount(*words, ctypes.c_ulong(flags), data))


def detach(target: str) -> None:
    """Take a mount away as soon as nobody uses it, as umount2(2); raises `OSError`."""
    _check(target, _libc.umount2(os.fsencode(target), _MNT_DETACH))


def pivot_root(new: str, old: str) -> None:
    """Make a folder the root, and see the old one at another; raises `OSError`."""
    _check("/", _libc.pivot_root(os.fsencode(new), os.fsencode(old)))


def write_out(descriptor: int) -> None:
    """Begin to write to the disk what is new of a file, and do not wait: `os.fsync` then has less.

    A file system that cannot do it leaves all to that.
    """
    whole = ctypes.c_int64(0), ctypes.c_int64(0)
    _libc.sync_file_range(descriptor, *whole, _SYNC_FILE_RANGE_WRITE)


def is_fuse(descriptor: int) -> bool:
    """Return True for an open file on FUSE, by fstatfs(2); raises `OSError`."""
    state = (ctypes.c_long * 64)()  # larger than struct statfs, whose first member is the kind
    _check("fstatfs", _libc.fstatfs(descriptor, state))
    return state[0] & 0xFFFFFFFF == _FUSE_SUPER_MAGIC


def bind_memory(node: int) -> None:
    """Take memory of a NUMA node only, here and in what this process becomes; raises `OSError`."""
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None or not 0 <= node < _NUMA_BITS:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), "set_mempolicy")
    mask = (1 << node).to_bytes(_NUMA_BITS // 8, "little")
    # The kernel reads one bit less than it is told of.
    bits = ctypes.c_ulong(_NUMA_BITS + 1)
    _check("set_mempolicy", _libc.syscall(ctypes.c_long(number), _MPOL_BIND, mask, bits))


def in_first_user_namespace() -> bool:
    """Return True in the user namespace that the machine started with."""
    return os.stat("/proc/self/ns/user").st_ino == _FIRST_USER_NAMESPACE


def default_signal(number: int) -> None:
    """Give a signal its default action, as signal(2); Python's `signal` costs 4 ms to import."""
    _libc.signal(number, None)


def end_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when the one that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def status_field(name: str) -> str:
    """Return a field of /proc/self/status, "" where the kernel has none such (proc(5))."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as stream:
        for line in stream:
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
    return ""


def _check(name: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def machine_of(program: str) -> str:
    """Return the machine that a program in ELF is for, empty for a file that is none."""
    try:
        with open(program, "rb") as stream:
            head = stream.read(20)
    except OSError:
        return ""
    number = int.from_bytes(head[18:], "big" if head[5:6] == b"\x02" else "little")
    return _MACHINES.get(number, f"ELF machine {number}") if head.startswith(b"\x7fELF") else ""
