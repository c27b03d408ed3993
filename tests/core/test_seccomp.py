"""Filters of system calls, put on real processes."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from need import need
from stackproof.core.effects import seccomp
from terminals import terminal

_TYPE = """
import fcntl, os, sys, termios
from stackproof.core.effects import seccomp
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if sys.argv[1] == "filtered":
    seccomp.install(seccomp.without_typing(os.uname().machine))
os.set_blocking(0, False)
fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
answers = []
for request, argument in ((termios.TIOCSTI, b"x"), (0x541C, b"\\x0b")):
    try:
        fcntl.ioctl(0, request, argument)
        answers.append(0)
    except OSError as error:
        answers.append(error.errno)
print(*answers, file=sys.stderr)
"""


def typed(how: str) -> list[int]:
    with terminal() as (_, child):
        done = subprocess.run(
            [sys.executable, "-c", _TYPE, how], stdin=child, stdout=child, stderr=subprocess.PIPE,
            timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return [int(word) for word in done.stderr.split()]


def test_a_filtered_command_cannot_type_into_its_terminal():
    need("root")
    assert typed("filtered") == [errno.EPERM, errno.EPERM]
    legacy = Path("/proc/sys/dev/tty/legacy_tiocsti")  # since Linux 6.2; before, everybody may
    if not legacy.exists() or legacy.read_text().strip() == "1":
        assert typed("plain")[0] == 0


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "ppc64le"])
def test_every_jump_lands_in_the_program(machine):
    for program in (seccomp.of_a_step(machine), seccomp.without_typing(machine)):
        assert program is not None
        rows = [program[at : at + 8] for at in range(0, len(program), 8)]
        assert 5 < len(rows) < 4096
        for number, row in enumerate(rows):
            jumps = row[2:4] if row[0] & 7 == 5 else b""
            assert all(number + 1 + jump < len(rows) for jump in jumps)
        assert rows[-1][0] == 6  # it ends with an answer


def test_an_unknown_machine_has_no_filter():
    assert seccomp.of_a_step("vax") is None
    assert seccomp.without_typing("vax") is None
