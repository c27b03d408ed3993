"""Filters of system calls: what a build step, or another user's command, has no business with.

A filter is a program of the kernel's old packet filter (linux/filter.h, linux/seccomp.h), as bytes.
Namespaces and the loss of capabilities do not reach what is refused here: the caller's keys, a
terminal's input, sockets of the virtual machine, and parts of the kernel that are large and that no
build asks for.
"""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import dataclass

# linux/audit.h, and the numbers of asm/unistd.h
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # struct seccomp_data, little-endian
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32 = 0x40000000
_CLONE_NEWUSER = 0x10000000
_AF_VSOCK = 40
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

_Instruction = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """The numbers of system calls on one kind of machine."""

    architecture: int
    ioctl: int
    clone: int
    unshare: int
    socket: int
    refused: tuple[int, ...]  # add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd


_CLONE3 = 435
_MACHINES = {
    "x86_64": _Calls(architecture=0xC000003E, ioctl=16, clone=56, unshare=272, socket=41,
                     refused=(248, 249, 250, 321, 298, 323)),
    "aarch64": _Calls(architecture=0xC00000B7, ioctl=29, clone=220, unshare=97, socket=198,
                      refused=(217, 218, 219, 280, 241, 282)),
    "ppc64le": _Calls(architecture=0xC0000015, ioctl=54, clone=120, unshare=282, socket=326,
                      refused=(269, 270, 271, 361, 319, 364)),
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
    body += _when(_CLONE3, _refused(errno.ENOSYS))
    for number in calls.refused:
        body += _when(number, _refused(errno.EPERM))
    for number in (calls.clone, calls.unshare):
        body += _with_argument(number, (_JUMP_ANY, _CLONE_NEWUSER), _FIRST, errno.EPERM)
    body += _with_argument(calls.socket, (_JUMP_EQUAL, _AF_VSOCK), _FIRST, errno.EAFNOSUPPORT)
    body += _typing(calls.ioctl)
    return _packed([
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, calls.architecture), _refused(errno.ENOSYS),
        *body, (_RETURN, 0, 0, _ALLOW),
    ])  # fmt: skip


def without_typing(machine: str) -> bytes | None:
    """Return the filter that keeps a command from typing into its terminal (TIOCSTI, TIOCLINUX).

    What is typed is read by whoever has the terminal next, with that one's rights. None for a kind
    of machine that is not known.
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


def _typing(ioctl: int) -> list[_Instruction]:
    return [
        instruction
        for request in (_TIOCSTI, _TIOCLINUX)
        for instruction in _with_argument(ioctl, (_JUMP_EQUAL, request), _SECOND, errno.EPERM)
    ]


def _packed(instructions: list[_Instruction]) -> bytes:
    """Return a program as the kernel wants it (struct sock_filter)."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
