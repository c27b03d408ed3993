"""`stackproof image du | prune`: what is kept on this machine, what it takes, and deleting it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from stackproof.build.effects import cache_entries, workspace
from stackproof.build.effects.cache_entries import DeletableEntry, PruneOptions
from stackproof.build.options import DiskOptions, PruneRequest
from stackproof.core.cli.tables import ago_text, print_table
from stackproof.core.effects import cache_kinds
from stackproof.core.effects.cache_kinds import KINDS, MEMORY
from stackproof.core.errors import Reason, fail
from stackproof.core.numbers import disk_text

_UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def run_du(asked: DiskOptions) -> int:
    """Print a row for each kind, or for each entry of the kinds that were named."""
    cache_kinds.check_names(asked.kinds)
    wanted = [kind for kind in KINDS if not asked.kinds or kind.name in asked.kinds]
    found = cache_entries.entries(wanted)
    if asked.json:
        print(json.dumps([_data(entry) for entry in found], indent=1))
    elif asked.kinds:
        _print_entries(found)
    else:
        _print_kinds(found)
    return 0


def run_prune(asked: PruneRequest) -> int:
    """Delete what was asked for and is not in use; say how much that was."""
    age_s = _age(asked.older_than) if asked.older_than else None
    pruned = cache_entries.prune(
        PruneOptions(
            kinds=asked.kinds, older_than_s=age_s, every=asked.every, dry_run=asked.dry_run
        )
    )
    if asked.json:
        print(json.dumps([_data(entry) for entry in pruned.gone], indent=1))
    else:
        word = "would delete" if asked.dry_run else "deleted"
        for entry in pruned.gone:
            print(f"{word}  {disk_text(entry.size):>8}  {entry.kind}  {entry.name}")
        total = sum(entry.size for entry in pruned.gone)
        print(f"{word} {len(pruned.gone)} entries, {disk_text(total)}")
    if pruned.left:
        kinds = ", ".join(dict.fromkeys(entry.kind for entry in pruned.left))
        print(
            f"note: {len(pruned.left)} entries are in use by a running command and stay: {kinds}",
            file=sys.stderr,
        )
    return 0


def _age(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([hdw])", text)
    if found is None:
        raise fail(Reason.USAGE, f"`{text}` is no age", hint="a number and h, d or w: 12h, 30d, 8w")
    return int(found[1]) * _UNITS[found[2]]


def _print_kinds(found: Sequence[DeletableEntry]) -> None:
    rows = []
    for kind in KINDS:
        of_kind = [entry for entry in found if entry.kind == kind.name]
        if of_kind:
            total = sum(entry.size for entry in of_kind)
            used = max(entry.used for entry in of_kind)
            busy = sum(entry.in_use for entry in of_kind)
            rows.append(
                (
                    kind.name,
                    str(len(of_kind)),
                    disk_text(total),
                    ago_text(used),
                    str(busy or "-"),
                    kind.title,
                )
            )
    print_table(("KIND", "ENTRIES", "SIZE", "LAST USED", "IN USE", "WHAT"), rows)
    total = sum(entry.size for entry in found)
    home = cache_kinds.cache()
    free = disk_text(workspace.free_bytes(home))
    print(f"total {disk_text(total)}; cache `{home}`, {free} free there", file=sys.stderr)
    if others := cache_entries.unknown():
        names = ", ".join(f"`{path}`" for path in others)
        print(f"note: no kind has {names}: of another release, and never deleted", file=sys.stderr)
    interrupted = [one for one in found if one.kind == MEMORY and not (one.in_use or one.foreign)]
    if interrupted:
        size = disk_text(sum(entry.size for entry in interrupted))
        print(
            f"note: interrupted builds hold {size} of memory; the same `build` continues them, "
            "`stackproof image prune` gives it back",
            file=sys.stderr,
        )


def _print_entries(found: Sequence[DeletableEntry]) -> None:
    rows = [
        (
            entry.kind,
            disk_text(entry.size),
            ago_text(entry.used),
            "in use" if entry.in_use else _state(entry),
            entry.name,
        )
        for entry in found
    ]
    print_table(("KIND", "SIZE", "LAST USED", "STATE", "NAME"), rows)


def _state(entry: DeletableEntry) -> str:
    if entry.foreign:
        return "of another cache"
    if entry.left:
        return "left"
    return "interrupted" if entry.interrupted else "-"


def _data(entry: DeletableEntry) -> dict[str, object]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "path": str(entry.path),
        "bytes": entry.size,
        "used": datetime.fromtimestamp(entry.used, UTC).isoformat(timespec="seconds"),
        "in_use": entry.in_use,
        "interrupted": entry.interrupted,
    }
