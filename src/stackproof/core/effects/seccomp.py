"""Filters of system calls: what a build step, or another user's command, has no business with.

A filter is a program of the kernel's old packet filter (linux/filter.h, linux/seccomp.h), as bytes.
Namespaces and the loss of capabilities do not reach what is refused here: the caller's keys, a
terminal's input, sockets of the virtual machine, the first process of a sandbox, and parts of the
kernel that are large and that no build asks for. Rings (io_uring) do what they are told behind the
back of any filter, and are refused as a whole.
"""

from __future__ import annotations

import errno
import os
import struct

from stackproof.core.value import Value

# linux/audit.h, and the numbers of asm/unistd.h
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32  # seccomp_data, little-endian
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32 = 0x40000000
_CLONE_NEWUSER = 0x10000000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK, _NETLINK_ROUTE = 1, 2, 10, 16, 0
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

_Instruction = tuple[int, int, int, int]


class _Calls(Value):
    """The numbers of system calls on one kind of machine."""

    architecture: int
    ioctl: int
    clone: int
    unshare: int
    sockets: tuple[int, int]  # socket, socketpair
    ptrace: int
    of_a_process: tuple[int, ...]  # process_vm_readv, process_vm_writev, prlimit64
    refused: tuple[int, ...]


_CLONE3 = 435
# io_uring_setup, io_uring_enter, io_uring_register
_RINGS = (425, 426, 427)
# The same on every kind of machine: open_tree, move_mount, fsopen, fsconfig, fsmount, fspick,
# pidfd_getfd, process_madvise, mount_setattr, quotactl_fd, memfd_secret, process_mrelease,
# open_tree_attr
_REFUSED = (428, 429, 430, 431, 432, 433, 438, 440, 442, 443, 447, 448, 467)
# In this order: add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd; mount, umount2,
# pivot_root, setns, name_to_handle_at, open_by_handle_at, fanotify_init, kcmp; acct, swapon,
# swapoff, quotactl, nfsservctl, lookup_dcookie, kexec_load, kexec_file_load, init_module,
# delete_module, finit_module, syslog; then what only this kind of machine has.
_MACHINES = {
    "x86_64": _Calls(
        architecture=0xC000003E, ioctl=16, clone=56, unshare=272, sockets=(41, 53), ptrace=101,
        of_a_process=(310, 311, 302),
        refused=(248, 249, 250, 321, 298, 323, 165, 166, 155, 308, 303, 304, 300, 312, 163, 167,
                 168, 179, 180, 212, 246, 320, 175, 176, 313, 103,
                 172, 173, 154, 134),  # iopl, ioperm, modify_ldt, uselib
    ),
    "aarch64": _Calls(
        architecture=0xC00000B7, ioctl=29, clone=220, unshare=97, sockets=(198, 199), ptrace=117,
        of_a_process=(270, 271, 261),
        refused=(217, 218, 219, 280, 241, 282, 40, 39, 41, 268, 264, 265, 262, 272, 89, 224,
                 225, 60, 42, 18, 104, 294, 105, 106, 273, 116),
    ),
    "ppc64le": _Calls(
        architecture=0xC0000015, ioctl=54, clone=120, unshare=282, sockets=(326, 333), ptrace=26,
        of_a_process=(351, 352, 325),
        refused=(269, 270, 271, 361, 319, 364, 21, 52, 203, 350, 345, 346, 323, 354, 51, 87,
                 115, 131, 168, 235, 268, 382, 128, 129, 353, 103,
                 102, 255, 86, 278, 279),  # socketcall, rtas, uselib, spu_run, spu_create
    ),
}  # fmt: skip
_I386, _I386_IOCTL, _X32_IOCTL = 0x40000003, 54, 514


def of_a_step(machine: str) -> bytes | None:
    """Return the filter of a build step; None for a kind of machine that is not known.

    Programs for 32 bits are refused as a whole: their calls have other numbers.
    """
    calls = _MACHINES.get(machine)
    if calls is None:
        return None
    body: list[_Instruction] = [(_LOAD, 0, 0, _NUMBER)]
    if machine == "x86_64":
        body += [(_JUMP_ABOVE, 0, 1, _X32), _refused(errno.ENOSYS)]
    # The C library then uses clone(), whose flags can be looked at.
    for number in (_CLONE3, *_RINGS):
        body += _when(number, _refused(errno.ENOSYS))
    for number in (*_REFUSED, *calls.refused):
        body += _when(number, _refused(errno.EPERM))
    for number in (calls.clone, calls.unshare):
        body += _with_argument(number, (_JUMP_ANY, _CLONE_NEWUSER), _FIRST, errno.EPERM)
    # Debuggers and checkers of leaks trace what they started; nobody may stop the first process,
    # bubblewrap's, which waits for the step.
    body += _with_argument(calls.ptrace, (_JUMP_EQUAL, 1), _SECOND, errno.EPERM)
    for number in calls.of_a_process:
        body += _with_argument(number, (_JUMP_EQUAL, 1), _FIRST, errno.EPERM)
    for number in calls.sockets:
        body += _families(number)
    body += _typing(calls.ioctl)
    return _packed([
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, calls.architecture), _refused(errno.ENOSYS),
        *body, (_RETURN, 0, 0, _ALLOW),
    ])  # fmt: skip


def without_typing(machine: str) -> bytes | None:
    """Return the filter that keeps a command from typing into its terminal (TIOCSTI, TIOCLINUX).

    What is typed is read by whoever has the terminal next, with that one's rights. A ring cannot
    do it: io_uring has no such request. None for a kind of machine that is not known.
    """
    calls = _MACHINES.get(machine)
    if calls is None:
        return None
    own = [(_LOAD, 0, 0, _NUMBER), *_typing(calls.ioctl)]
    other: list[_Instruction] = []
    if machine == "x86_64":
        own += _typing(_X32 + _X32_IOCTL)
        other = [(_LOAD, 0, 0, _NUMBER), *_typing(_I386_IOCTL)]
    allow = (_RETURN, 0, 0, _ALLOW)
    return _packed([
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 0, len(own) + 1, calls.architecture), *own, allow,
        (_JUMP_EQUAL, 0, len(other), _I386), *other, allow,
    ])  # fmt: skip


def install(program: bytes) -> None:
    """Put a filter on this process and all that it starts, for good; root needs nothing else.

    Raises `OSError`.
    """
    import ctypes  # noqa: PLC0415 - every build would import it

    libc = ctypes.CDLL(None, use_errno=True)
    kept = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, head, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")


def _refused(number: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)


def _when(number: int, then: _Instruction) -> list[_Instruction]:
    return [(_JUMP_EQUAL, 0, 1, number), then]


def _with_argument(
    number: int, test: tuple[int, int], where: int, error: int
) -> list[_Instruction]:
    """Refuse a call whose argument passes a test; the number is loaded before and afterwards."""
    return [
        (_JUMP_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, where),
        (test[0], 0, 1, test[1]),
        _refused(error),
        (_LOAD, 0, 0, _NUMBER),
    ]


def _families(number: int) -> list[_Instruction]:
    """Refuse sockets but those of files, of IP, and the one that lists network interfaces."""
    return [
        (_JUMP_EQUAL, 0, 9, number),
        (_LOAD, 0, 0, _FIRST),
        (_JUMP_EQUAL, 6, 0, _AF_UNIX),
        (_JUMP_EQUAL, 5, 0, _AF_INET),
        (_JUMP_EQUAL, 4, 0, _AF_INET6),
        (_JUMP_EQUAL, 0, 2, _AF_NETLINK),
        (_LOAD, 0, 0, _THIRD),
        (_JUMP_EQUAL, 1, 0, _NETLINK_ROUTE),
        _refused(errno.EAFNOSUPPORT),
        (_LOAD, 0, 0, _NUMBER),
    ]


def _typing(ioctl: int) -> list[_Instruction]:
    return [
        instruction
        for request in (_TIOCSTI, _TIOCLINUX)
        for instruction in _with_argument(ioctl, (_JUMP_EQUAL, request), _SECOND, errno.EPERM)
    ]


def _packed(instructions: list[_Instruction]) -> bytes:
    """Return a program as the kernel wants it (struct sock_filter)."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
