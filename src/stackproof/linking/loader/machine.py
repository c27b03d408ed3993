"""What of a machine and of its loader decides where libraries are looked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from stackproof.core.value import Value
from stackproof.linking.elf.constants import Traces

LEVELS = ("x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v4")
"""Levels of the x86-64 psABI, the lowest first."""

# glibc NEWS: glibc-hwcaps came with 2.33, the older subfolders went with 2.37.
_FIRST_HWCAPS, _LAST_LEGACY, _WITHOUT_ASSERTION = 33, 36, 41
# glibc's manual, "Dynamic String Tokens", and the features that each level names in the psABI.
_FLAGS = {
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
# AT_PLATFORM and the important bits of AT_HWCAP (glibc before 2.37, elf/dl-hwcaps.c). LSE atomics,
# of ARMv8.1, are taken as there: no processor of a cluster since 2018 lacks them.
_LEGACY = {"x86_64": ("x86_64", "x86_64"), "aarch64": ("aarch64", "atomics")}
_DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_DEFAULT_CACHE = "/etc/ld.so.cache"


class Machine(Value):
    """A processor: its architecture, and for x86-64 its level."""

    architecture: str
    level: str = "x86-64-v1"


def level_of(flags: Iterable[str]) -> str:
    """Return the level of x86-64 that the flags in /proc/cpuinfo give."""
    have = set(flags)
    level = LEVELS[0]
    for name, wanted in _FLAGS.items():
        if not wanted <= have:
            break
        level = name
    return level


class Interpreter(Value):
    """A dynamic loader: what is compiled into it.

    `folders` are searched last; `minor` is n of glibc 2.n, None when it does not say (before
    2.33); `glibc` is False for another C library's loader (musl).
    """

    path: str
    folders: tuple[str, ...] = _DEFAULT_FOLDERS
    cache: str = _DEFAULT_CACHE
    minor: int | None = None
    glibc: bool = True

    @property
    def library_token(self) -> str:
        """Return what `$LIB` stands for: the first default folder without its slash."""
        return self.folders[0].strip("/") if self.folders else "lib64"

    @property
    def asserts_versions(self) -> bool:
        """Return whether a versioned symbol may not be found in a library that has lost them.

        glibc took this assertion back in 2.41 (commit bdaf50035354, "elf: Remove version assert in
        check_match"); since then such a library only brings a warning.
        """
        return self.minor is None or self.minor < _WITHOUT_ASSERTION

    def subfolders(self, machine: Machine) -> tuple[str, ...]:
        """Return the subfolders of every folder of a search, in order; the last one is none."""
        found: list[str] = []
        if self.minor is not None and self.minor >= _FIRST_HWCAPS:
            found += [f"glibc-hwcaps/{name}" for name in hwcaps(machine)]
        words = _LEGACY.get(machine.architecture)
        if words and (self.minor is None or self.minor <= _LAST_LEGACY):
            found += _legacy("tls", *words)
        return (*found, "")


def hwcaps(machine: Machine) -> tuple[str, ...]:
    """Return the names below `glibc-hwcaps` that a machine uses, the best first.

    glibc has none for aarch64.
    """
    if machine.architecture != "x86_64":
        return ()
    return tuple(reversed(LEVELS[1 : LEVELS.index(machine.level) + 1]))


def _legacy(*words: str) -> list[str]:
    """Return the old subfolders: every choice of the words, most words first, in binary order."""
    choices = itertools.product((True, False), repeat=len(words))
    paths = ["/".join(itertools.compress(words, choice)) for choice in choices]
    return list(dict.fromkeys(path for path in paths if path))


def interpreter_of(path: str, traces: Traces) -> Interpreter:
    """Return what is known of a loader from the constants in its file."""
    if traces.loader_folders:
        return Interpreter(
            path=path,
            folders=traces.loader_folders,
            cache=traces.loader_cache or _DEFAULT_CACHE,
            minor=traces.glibc_minor,
        )
    musl = "ld-musl" in path
    return Interpreter(path=path, minor=traces.glibc_minor, glibc=not musl)
