"""Entry points to the table that `csrc/table.c` holds.

With STACKPROOF_PACK_EXPLAIN in the environment an entry point says what it does, and why.

| letter | text |
| --- | --- |
| `U` | `..` for each folder from the one of the entry point up to the pack |
| `P` | the program, in the pack |
| `A` | there is one: the program is told the entry point's own path |
| `N` | the name that the program is told |
| `X` | an argument before those of the user |
| `F` | the x of the newest GLIBC_2.x that is needed |
| `I` | the loader that the program names |
| `C` | a place where machines have their C library; several, the first one there counts |
| `L`, `D` | the loader of the pack, and the folder with its C library |
| `S` | the folder with libraries that are used where the machine lacks one of them |
| `R` | the name of such a library, which is looked for beside the places of `C` |
| `V` | a version that the machine's must define, of the `R` before |
| `M`, `W` | where the stack is to be mounted (tier 1), and what asks for it there |
| `s`, `u` | a variable to set, `NAME=VALUE`, and one to unset |
| `p`, `a` | what comes first in a list, and last in it |
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, fail
from stackproof.pack.model import LOADER, SPARE, EntryPoint, Loading

MARK = b"STACKPROOF-PACK-TABLE\0"
TABLE_BYTES = 16384
ARCHITECTURES = ("x86_64", "aarch64")
"""The machines that entry points are written for (`csrc/text.c`)."""
COMPILE = (
    "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Os", "-s", "-static", "-nostdlib",
    "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fno-pie", "-no-pie",
    "-fno-asynchronous-unwind-tables", "-fno-tree-loop-distribute-patterns",
    "-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,-z,noexecstack", "-Wl,--build-id=none",
)  # fmt: skip
"""How the C compiler makes an entry point that uses no library, one page of code and no more."""


def render_table(entry: EntryPoint, loading: Loading) -> bytes:
    """Return the table of an entry point; raises `StackproofError` (UNSUPPORTED) for too much."""
    return table_of(_records(entry, loading), entry.place)


def table_of(records: Iterable[tuple[str, str]], name: str) -> bytes:
    """Return a table of letters and texts; raises `StackproofError` (UNSUPPORTED) for too much."""
    table = b"".join(f"{letter}{text}\0".encode() for letter, text in records)
    if len(table) >= TABLE_BYTES:
        raise fail(
            Reason.UNSUPPORTED,
            f"programs and environment of `{name}` take {len(table)} bytes, "
            f"and an entry point holds {TABLE_BYTES - 1}",
            hint="choose a view with fewer variables, by `--view`, or name fewer programs",
        )
    return table + b"\0"


def fill(template: bytes, table: bytes) -> bytes:
    """Return an entry point: the compiled program with its table put in."""
    start = template.index(MARK)
    return template[:start] + table + template[start + len(table) :]


def _records(entry: EntryPoint, loading: Loading) -> Iterator[tuple[str, str]]:
    yield "U", "/".join(".." for _ in posixpath.dirname(entry.place).split("/"))
    yield "P", entry.program
    if entry.launcher:
        yield "A", ""
    if entry.name:
        yield "N", entry.name
    for word in entry.arguments:
        yield "X", word
    if not entry.script:
        yield "F", str(loading.floor)
        yield "I", loading.interpreter
        yield "L", loading.own
        yield "D", LOADER
        for path in loading.libraries:
            yield "C", path
        yield from _spare(loading)
    if entry.mounting:
        yield "M", entry.mounting.place
        yield "W", entry.mounting.because
    yield from _changes(entry.env)


def _spare(loading: Loading) -> Iterator[tuple[str, str]]:
    if loading.spare:
        yield "S", SPARE
    for name, versions in loading.spare.items():
        yield "R", name
        for version in versions:
            yield "V", version


def _changes(env: EnvPatch) -> Iterator[tuple[str, str]]:
    for name in env.unset:
        yield "u", name
    for name, value in env.set.items():
        yield "s", f"{name}={value}"
    for name, words in env.prepend.items():
        yield "p", f"{name}={':'.join(words)}"
    for name, words in env.append.items():
        yield "a", f"{name}={':'.join(words)}"
