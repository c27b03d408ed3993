"""Command lines of tools that start another program, to the command line of that program."""

from __future__ import annotations

from collections.abc import Sequence

# Options that take the next word: util-linux 2.38 (taskset, ionice, setarch, chrt, setsid), GNU
# coreutils 9.1 (nice, nohup, stdbuf, timeout), time 1.9, numactl 2.0.16, bash 5.2 (exec).
_WITH_VALUE = {
    "chrt": ("T", "P", "D", "sched-runtime", "sched-period", "sched-deadline"),
    "command": (),
    "exec": ("a",),
    "ionice": ("c", "n", "p", "P", "u", "class", "classdata"),
    "nice": ("n", "adjustment"),
    "nohup": (),
    "numactl": (
        "i", "N", "c", "m", "C", "p", "P", "w", "interleave", "cpunodebind", "cpubind", "membind",
        "physcpubind", "preferred", "preferred-many", "weighted-interleave",
    ),
    "setarch": (),
    "setsid": (),
    "stdbuf": ("i", "o", "e", "input", "output", "error"),
    "taskset": (),
    "time": ("f", "o", "format", "output"),
    "timeout": ("k", "s", "kill-after", "signal"),
}  # fmt: skip
_PLACES = {"chrt": 1, "taskset": 1, "timeout": 1}
"""Tools that take so many words before the program: a mask or list, a priority, a time."""
_MACHINES = frozenset({"x86_64", "aarch64", "linux32", "linux64", "i386", "i686", "uname26"})


def is_starter(word: str) -> bool:
    """Return True for a tool that starts the program behind it."""
    return word.rpartition("/")[2] in _WITH_VALUE


def after_starter(words: Sequence[str]) -> list[str]:
    """Return the words behind a tool and its options: a program with its arguments."""
    tool, left = words[0].rpartition("/")[2], list(words[1:])
    with_value = _WITH_VALUE[tool]
    if tool == "setarch" and left and left[0] in _MACHINES:
        left = left[1:]
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        name = word[2:] if word.startswith("--") else word[-1]
        several = not word.startswith("--") and any(one in with_value for one in word[1:-1])
        if name in with_value and not several:  # a value may stand behind a letter at once
            left = left[1:]
    return left[_PLACES.get(tool, 0) :]
