"""`stackproof image prune`: deletes what is not used on this machine."""

from __future__ import annotations

import json
import sys

from stackproof.build.effects import cache_entries
from stackproof.build.options import PruneOptions
from stackproof.core.numbers import disk_text


def run(asked: PruneOptions) -> int:
    """Delete what nobody needs and nobody uses; say how much that was."""
    pruned = cache_entries.prune(every=asked.every, dry_run=asked.dry_run)
    if asked.json:
        rows = [{"path": str(entry.path), "bytes": entry.size} for entry in pruned.gone]
        print(json.dumps(rows, indent=1))
    else:
        word = "would delete" if asked.dry_run else "deleted"
        for entry in pruned.gone:
            print(f"{word}  {disk_text(entry.size):>8}  {entry.path}")
        total = sum(entry.size for entry in pruned.gone)
        print(f"{word} {len(pruned.gone)} entries, {disk_text(total)}")
    if pruned.left:
        count = len(pruned.left)
        print(f"note: {count} entries are in use by a running command and stay", file=sys.stderr)
    return 0
