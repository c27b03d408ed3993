"""`stackproof activate IMAGE[:MOUNT][,…]`: what a job must mount and set to see images.

Nothing is mounted. It is for those who mount and start by themselves: the Slurm plug-in asks it at
submission, as the user, so that nothing of an image is ever read with root's rights; and a job
script for another scheduler can `eval` it.

With `--null` each record ends with a NUL byte: `stackproof-activate 1` first, then `mounts LIST`,
`set NAME=VALUE` and `unset NAME`, and `end` last, without which the answer is not whole. To set is
also what labels the images were asked for, for the plug-in on the nodes.
"""

from __future__ import annotations

import os
import sys

from stackproof.core import choices, harmless
from stackproof.core.cli import streams
from stackproof.mount import undo
from stackproof.mount.effects import job_mpi
from stackproof.mount.effects.activation import activated, check_names
from stackproof.mount.effects.entering import wrong

TYPE_CHECKING = False  # `typing`, msgspec and errors take longer to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stackproof.mount.options import ActivateOptions

_PROTOCOL = "stackproof-activate 1"
_LABELS = "SLURM_STACKPROOF_LABELS"
"""Where the nodes look for what images were asked for: `native/spank/names.h`."""


def run(asked: ActivateOptions) -> int:
    """Print the mount list and the change to the environment."""
    names, mpi = asked.views, asked.mpi
    before = dict(os.environ) if asked.keep else undo.left(os.environ)
    if asked.images == choices.NO_IMAGES:
        job_mpi.requested(mpi)
        if names or mpi.path or mpi.inject:
            raise wrong("usage", "`none` has no views, no transport and no injection")
        mounts, labels, after = "", "", before
    else:
        mounts, labels, after = activated(asked, before, _note)
    to_set, to_unset = undo.difference(os.environ, after)
    check_names(to_set)
    if asked.null:
        _write_records(mounts, {**to_set, **({_LABELS: labels} if labels else {})}, to_unset)
    elif asked.json:
        import json  # noqa: PLC0415 - not for the plug-in

        data = {"mounts": mounts, "set": to_set, "unset": list(to_unset)}
        print(json.dumps({"schema": "stackproof/activation/1", **data}, indent=1))
    else:
        out = sys.stdout if sys.stdout.isatty() else streams.unguarded(sys.stdout)
        print(render(mounts, to_set, to_unset), file=out)  # to a shell every value as it is
    return 0


def render(mounts: str, to_set: Mapping[str, str], to_unset: Sequence[str]) -> str:
    """Return the change as text for a POSIX shell, and for fish."""
    lines = [f"# mount: {harmless.line(mounts) or 'nothing'}"]
    lines += [f"unset {name}" for name in to_unset if name.isidentifier()]
    lines += [
        f"export {name}={_quoted(value)}"
        for name, value in sorted(to_set.items())
        if name.isidentifier()
    ]
    return "\n".join(lines)


def _quoted(value: str) -> str:
    """Return a word for POSIX shells and fish: in quotes of fish a backslash quotes a quote."""
    import shlex  # noqa: PLC0415 - not for the plug-in

    return "\\\\".join(shlex.quote(part) if part else "" for part in value.split("\\")) or "''"


def _write_records(mounts: str, to_set: Mapping[str, str], to_unset: Sequence[str]) -> None:
    records = [_PROTOCOL, f"mounts {mounts}"]
    records += [f"set {name}={value}" for name, value in to_set.items()]
    records += [f"unset {name}" for name in to_unset]
    text = "".join(f"{record}\0" for record in (*records, "end"))
    sys.stdout.flush()
    # The environment is bytes, which Python shows as text with surrogates.
    sys.stdout.buffer.write(os.fsencode(text))


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
