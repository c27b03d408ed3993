"""`stackproof inject apply` and `undo`: the replacement made, and taken back."""

from __future__ import annotations

import json
import shlex

from stackproof.core import noun
from stackproof.inject.effects import apply
from stackproof.inject.options import ApplyOptions, UndoOptions


def run_apply(asked: ApplyOptions) -> int:
    """Make the replacement, and print where."""
    done = apply.apply(asked)
    if asked.json:
        print(json.dumps({**noun.to_data(done), "dry-run": asked.dry_run}, indent=1))
        return 0
    print(f"{'would make' if asked.dry_run else 'made'} {done.place}")
    for line in done.files:
        print(f"  {line}")
    for name, value in done.environment.items():
        print(f"to be set when programs are started: {name}={shlex.quote(value)}")
    for line in done.notes:
        print(f"note: {line}")
    if not asked.dry_run:
        print(f"to go back: stackproof inject undo {shlex.quote(done.place)}")
    return 0


def run_undo(asked: UndoOptions) -> int:
    """Put back what was at a place before."""
    place, record = apply.undo(asked.place)
    now = f"is `{record.before}` again" if record.before else "is gone: nothing was there before"
    if record.before_folder:
        now = "is the folder again that it was before"
    print(f"{place} {now}")
    return 0
