"""A program: may a process read the memory of its sibling? Run by the probe, never imported.

MPI ranks on one node are siblings. Their libraries copy a long message once with
process_vm_readv(2) where that is allowed; Yama (`kernel.yama.ptrace_scope`) and seccomp filters
forbid it on some machines. Two children are made, and the second reads a buffer of the first:
exit code 0 when it could, 1 when it was refused (the reason is printed).
"""

import ctypes
import os
import signal
import sys


class _Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def _read_sibling(process: int, source: "ctypes.Array[ctypes.c_char]") -> int:
    """Return 0 when the buffer of the other process, at the same address, could be read."""
    library = ctypes.CDLL(None, use_errno=True)
    target = ctypes.create_string_buffer(len(source))
    here = _Vector(ctypes.addressof(target), len(source))
    there = _Vector(ctypes.addressof(source), len(source))
    done = library.process_vm_readv(process, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if done == len(source) and target.raw == source.raw:
        return 0
    print(os.strerror(ctypes.get_errno()))  # noqa: T201 - this file is a program
    return 1


def main() -> int:
    """Return the exit code; both children are gone when it ends."""
    buffer = ctypes.create_string_buffer(b"the message of the first sibling")
    first = os.fork()
    if first == 0:
        signal.pause()
        os._exit(0)
    try:
        second = os.fork()
        if second == 0:
            code = _read_sibling(first, buffer)
            sys.stdout.flush()
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(second, 0)[1])
    finally:
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)


if __name__ == "__main__":
    sys.exit(main())
