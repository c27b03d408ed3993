"""Walls around squashfuse, which parses what a stranger made: `native/helper/confine.c` in Python.

Only the system calls are left that reading a file and answering the kernel need (seccomp); where
the kernel has Landlock, no file but the image, the libraries of the system and the program. So no
network, no other process, no home folder.

Imports nothing but `libc` and little of the standard library: see `mount_exec`.
"""

from __future__ import annotations

import ctypes
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
# The calls named in `native/helper/confine.c`, by their numbers here; a test compares the two.
PERMITTED = {
    "x86_64": (
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 24, 25, 28,
        32, 33, 35, 39, 59, 60, 63, 72, 79, 80, 89, 95, 96, 97, 102, 104, 107, 108, 131, 137, 138,
        158, 186, 201, 202, 204, 217, 218, 219, 221, 228, 230, 231, 257, 262, 267, 269, 271, 273,
        275, 278, 292, 293, 295, 302, 318, 332, 334,
    ),
    "aarch64": (
        17, 23, 24, 25, 29, 43, 44, 48, 49, 56, 57, 59, 61, 62, 63, 64, 65, 66, 67, 69, 73, 75, 76,
        78, 79, 80, 93, 94, 96, 98, 99, 101, 113, 115, 123, 124, 128, 132, 134, 135, 139, 160,
        166, 169, 172, 174, 175, 176, 177, 178, 214, 215, 216, 221, 222, 223, 226, 233, 261, 278,
        291, 293,
    ),
}  # fmt: skip
_ARCHITECTURES = {"x86_64": (0xC000003E, 56), "aarch64": (0xC00000B7, 220)}  # and clone's number
_CLONE3, _CLONE_THREAD = 435, 0x00010000
_LOAD, _EQUAL, _ANY, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0, 0x00050000
_EPERM, _ENOSYS = 1, 38
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2
# linux/landlock.h
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _READ_FILE, _READ_FOLDER = 1, 4, 8
_RIGHTS = (0, 0x1FFF, 0x3FFF, 0x7FFF)
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_FILES = ("/etc/ld.so.cache", "/etc/fuse.conf", "/dev/null", "/proc", "/sys/devices/system/cpu")


def confine(program: str, image: int) -> None:
    """Put the walls around this process, for good; `image` is open. Raises `OSError`."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no-new-privileges")
    _restrict_files(program, image)
    _restrict_calls(os.uname().machine)


def filter_for(machine: str) -> bytes | None:
    """Return the filter of system calls; None for a kind of machine that is not known."""
    if machine not in PERMITTED:
        return None
    architecture, clone = _ARCHITECTURES[machine]
    rows = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    for number in PERMITTED[machine]:
        rows += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    rows += [
        (_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | _ENOSYS),  # libc then takes clone
        (_EQUAL, 0, 3, clone), (_LOAD, 0, 0, 16), (_ANY, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | _EPERM),
    ]  # fmt: skip
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


def _restrict_calls(machine: str) -> None:
    program = filter_for(machine)
    if program is None:
        return
    kept = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    if _libc.prctl(_PR_SET_SECCOMP, _FILTER, head, 0, 0) != 0 and ctypes.get_errno() != _ENOSYS:
        raise OSError(ctypes.get_errno(), "seccomp")


def _restrict_files(program: str, image: int) -> None:
    version = _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    # A program from elsewhere has its libraries anywhere.
    if version < 1 or not program.startswith("/usr/"):
        return
    handled = struct.pack("=Q", _RIGHTS[min(version, 3)])
    rules = _syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if rules < 0:
        return
    for path in _LIBRARIES:
        _permit_path(rules, path, _EXECUTE | _READ_FILE | _READ_FOLDER)
    for path in _FILES:
        _permit_path(rules, path, _READ_FILE | _READ_FOLDER)
    _permit_path(rules, program, _EXECUTE | _READ_FILE)
    _permit(rules, image, _READ_FILE)
    _syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _permit_path(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # this system has none
        return
    _permit(rules, place, rights if os.path.isdir(path) else rights & ~_READ_FOLDER)
    os.close(place)


def _permit(rules: int, place: int, rights: int) -> None:
    _syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, place), 0)
