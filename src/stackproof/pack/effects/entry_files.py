"""Entry points on disk: compiled once, and copied with a table for each program."""

from __future__ import annotations

import functools
import os
import posixpath
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import run
from stackproof.core.effects.sandbox import package_hint
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.pack.model import LOADER, SPARE, EntryPoint, Loading

# --------------------------------------------- Entry points to the table that `csrc/table.c` holds
# With STACKPROOF_PACK_EXPLAIN in the environment an entry point says what it does, and why.
#
# | letter | text | | --- | --- | | `U` | `..` for each folder from the one of the entry point up to
# the pack | | `P` | the program, in the pack | | `A` | there is one: the program is told the entry
# point's own path | | `N` | the name that the program is told | | `X` | an argument before those of
# the user | | `F` | the x of the newest GLIBC_2.x that is needed | | `I` | the loader that the
# program names | | `C` | a place where machines have their C library; several, the first one there
# counts | | `L`, `D` | the loader of the pack, and the folder with its C library | | `S` | the
# folder with libraries that are used where the machine lacks one of them | | `R` | the name of such
# a library, which is looked for beside the places of `C` | | `V` | a version that the machine's
# must define, of the `R` before | | `M`, `W` | where the stack is to be mounted (tier 1), and what
# asks for it there | | `s`, `u` | a variable to set, `NAME=VALUE`, and one to unset | | `p`, `a` |
# what comes first in a list, and last in it |

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
    records = _records(entry, loading)
    table = b"".join(f"{letter}{text}\0".encode() for letter, text in records)
    if len(table) >= TABLE_BYTES:
        raise fail(
            Reason.UNSUPPORTED,
            f"programs and environment of `{entry.place}` take {len(table)} bytes, "
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


_SOURCES = Path(__file__).parents[1] / "csrc"
_PARTS = {
    "tier 0": ("*.c",),
    "tier 1": ("*.c", "mounts/*.c", "tier1/*.c"),
}
"""What each kind is compiled of."""
_TIMEOUT_S = 60.0


@functools.cache
def template(kind: str = "tier 0", architecture: str = "") -> bytes:
    """Return the compiled entry point of a tier, with no table yet.

    Another architecture than this machine's needs a cross compiler. Raises `StackproofError`:
    UNSUPPORTED for one that is not known, as an image may name any text as its own; TOOL_MISSING
    without a C compiler, BUILD_FAILED.
    """
    foreign = architecture not in {"", os.uname().machine}
    if foreign and architecture not in ARCHITECTURES:
        raise fail(
            Reason.UNSUPPORTED,
            f"there are no entry points for programs of `{architecture[:80]}`",
            hint=f"the image names its machine so; packs are for {', '.join(ARCHITECTURES)}",
        )
    compiler = f"{architecture}-linux-gnu-gcc" if foreign else "gcc"
    with tempfile.TemporaryDirectory(prefix="stackproof-pack-") as folder:
        target = os.path.join(folder, "entry")
        try:
            units = (str(unit) for part in _PARTS[kind] for unit in sorted(_SOURCES.glob(part)))
            argv = (compiler, *COMPILE, "-o", target, *units)
            run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
        except StackproofError as error:
            if error.reason is Reason.TOOL_MISSING:
                raise fail(
                    Reason.TOOL_MISSING,
                    f"no C compiler `{compiler}`, which makes the entry points of a pack",
                    hint=package_hint(f"gcc-{architecture}-linux-gnu" if foreign else "gcc"),
                ) from None
            raise
        content = Path(target).read_bytes()
    if content.count(MARK) != 1:
        raise fail(
            Reason.BUILD_FAILED,
            "the C compiler changed the table of entry points",
            hint="use gcc 10 or newer",
        )
    return content


def write_entries(
    pack: Path, entries: Sequence[EntryPoint], loading: Loading, architecture: str = ""
) -> None:
    """Write every entry point to its place in the pack; raises as `template` does."""
    for entry in entries:
        target = pack / entry.place
        compiled = template("tier 1" if entry.mounting else "tier 0", architecture)
        with target.open("xb") as stream:  # the program has gone from there: nothing is replaced
            stream.write(fill(compiled, render_table(entry, loading)))
        target.chmod(0o755)
