"""`stackproof image ls`: which images there are, what is in them, their size and age."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stackproof.build.effects import cache_entries
from stackproof.build.plan import IMAGE_FILE
from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.numbers import disk_text
from stackproof.image.effects import load as image_load

_SUFFIXES = (".squashfs", ".sqfs")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """An image; `mpi` is empty for one without, `unreadable` says why nothing of it is known."""

    path: str
    name: str = ""
    mpi: str = ""
    mount: str = ""
    size: int = 0
    date: str = ""
    sha256: str = ""
    unreadable: str = ""


def run(args: argparse.Namespace) -> int:
    """Print a line for each image, in the order of their paths."""
    places = [Path(place) for place in args.places]
    rows = [_row(path) for path in _found(places or [] if args.builds else places or [Path()])]
    if args.builds:
        rows += [_row(path) for path in _built()]
    if args.json:
        print(json.dumps([_data(row) for row in rows], indent=1))
        return 0
    good = [row for row in rows if not row.unreadable]
    _print(good)
    for row in rows:
        if row.unreadable:
            print(f"note: `{row.path}`: {row.unreadable}", file=sys.stderr)
    if not rows:
        print("note: there is no image", file=sys.stderr)
    return 0


def _found(places: Sequence[Path]) -> Iterator[Path]:
    """Yield the images that are named or lie in a folder; raises `StackproofError`."""
    for place in places:
        if place.is_dir():
            try:
                inside = sorted(place.iterdir())
            except OSError as error:
                raise files.translate(error, place) from error
            yield from (path for path in inside if path.suffix in _SUFFIXES and path.is_file())
        elif place.is_file():
            yield place
        else:
            raise fail(
                Reason.FILE_MISSING,
                f"`{place}` does not exist",
                where=Location(file=str(place)),
                hint="name an image, or a folder that holds some",
            )


def _built() -> Iterator[Path]:
    """Yield the images in the build folders, those that were used last at the end."""
    for entry in cache_entries.entries([cache_kinds.get("builds")]):
        image = entry.path / "out" / IMAGE_FILE
        if image.is_file():
            yield image


def _row(path: Path) -> _Row:
    try:
        image = image_load.load_image(str(path))
        digest = files.sha256(path)
        state = path.stat()
    except StackproofError as error:
        return _Row(path=str(path), unreadable=error.problems[0].message)
    except OSError as error:
        return _Row(path=str(path), unreadable=os.strerror(error.errno or 0))
    return _Row(
        path=str(path),
        name=image.name,
        mpi=f"{image.mpi.family} {image.mpi.version}" if image.mpi else "",
        mount=image.mount,
        size=state.st_size,
        date=datetime.fromtimestamp(state.st_mtime, UTC).isoformat(timespec="seconds"),
        sha256=digest,
    )


def _print(rows: Sequence[_Row]) -> None:
    if not rows:
        return
    table = [("IMAGE", "NAME", "MPI", "SIZE", "DATE", "SHA-256")]
    table += [
        (
            row.path, row.name, row.mpi or "-", disk_text(row.size),
            row.date[:16].replace("T", " "), row.sha256[:12],
        )
        for row in rows
    ]  # fmt: skip
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        cells = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip())


def _data(row: _Row) -> dict[str, object]:
    if row.unreadable:
        return {"path": row.path, "unreadable": row.unreadable}
    return {
        "path": row.path, "name": row.name, "mpi": row.mpi or None, "mount": row.mount,
        "bytes": row.size, "date": row.date, "sha256": row.sha256,
    }  # fmt: skip
