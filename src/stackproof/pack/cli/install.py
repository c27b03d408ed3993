"""`stackproof install IMAGE --to PREFIX`: a stack at a folder of its own, without a mount."""

from __future__ import annotations

import json
import shlex

from stackproof.core import noun
from stackproof.core.errors import Reason, fail
from stackproof.pack.effects import install
from stackproof.pack.effects.install import Installed
from stackproof.pack.options import InstallOptions
from stackproof.share.effects import naming


def run(asked: InstallOptions) -> int:
    """Install, or go back, and print what is there now."""
    if asked.undo == bool(asked.image):
        raise fail(
            Reason.USAGE,
            "`--undo` takes no image" if asked.undo else "nothing says what is to be installed",
            hint="leave it out: what was there before comes back"
            if asked.undo
            else "name an image: `stackproof install IMAGE --to PREFIX`",
        )
    if asked.undo:
        record = install.undo(asked)
        said = [f"{record.place} is {f'`{record.before}` again' if record.before else 'gone'}"]
    else:
        record = install.install(asked, naming.image_file(asked.image or ""))
        said = _said(record)
    print(json.dumps(noun.to_data(record), indent=1) if asked.json else "\n".join(said))
    return 0


def _said(record: Installed) -> list[str]:
    if not record.changed:
        return [f"{record.place} is `{record.name}` already: nothing was changed"]
    how = f"{len(record.moved)} texts named its old place, and each was rewritten or explained"
    where = f"programs: {record.place}/bin"
    if not record.moved:
        how = "built for this place"
        where = f"in a shell: . {record.place}/env/{record.view}/activate.sh"
    prefix = shlex.quote(record.place)
    under = f"  its MPI under your program: stackproof inject check PROGRAM --with {prefix}"
    return [
        f"{record.place}: {record.name}, {how}",
        f"  {where}",
        *([under] if install.has_mpi(record.place) else []),
        f"  to go back: stackproof install --undo --to {prefix}",
    ]
