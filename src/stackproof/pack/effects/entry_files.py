"""Entry points on disk: compiled once, and copied with a table for each program."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from stackproof.core.command import Command
from stackproof.core.effects import run
from stackproof.core.effects.sandbox import package_hint
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.pack.entries import ARCHITECTURES, COMPILE, MARK, fill, render_table
from stackproof.pack.model import EntryPoint, Loading

_SOURCES = Path(__file__).parents[1] / "csrc"
_PARTS = {
    "tier 0": ("*.c",),
    "tier 1": ("*.c", "mounts/*.c", "tier1/*.c"),
    "self": ("text.c", "table.c", "environment.c", "mounts/*.c", "self/*.c"),
}
"""What each kind is compiled of."""
_TIMEOUT_S = 60.0


@functools.cache
def template(kind: str = "tier 0", architecture: str = "") -> bytes:
    """Return the compiled entry point of a tier, or launcher of one file, with no table yet.

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
