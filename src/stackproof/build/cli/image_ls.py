"""`stackproof image ls`: which images there are, by label or in a folder, their size and age."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

from stackproof.build.effects import cache_entries
from stackproof.build.options import ImageListOptions
from stackproof.build.plan import IMAGE_FILE
from stackproof.core.cli.streams import ago_text, print_table
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.numbers import disk_text
from stackproof.image.effects.image_file import load_image
from stackproof.share import labels
from stackproof.share.cli.image import data
from stackproof.share.effects import naming, places
from stackproof.share.effects.naming import last_use
from stackproof.share.labels import LabelRecord

_SUFFIXES = (".squashfs", ".sqfs")


_Row = dict[str, Any]
"""What is printed of an image, by the keys of its JSON; `unreadable` says why nothing is known."""


def run(asked: ImageListOptions) -> int:
    """Print a line for each image: labels first, then files in the order of their paths."""
    paths = [path for place in asked.places for path in _files(place)]
    rows = [_row(path) for path in paths]
    if asked.builds:
        rows += [_row(path) for path in _built()]
    records = _labelled(asked.places, every=not asked.builds)
    if asked.names:
        print("".join(f"{record.label}\n" for record in records), end="")
    elif asked.json:
        print(json.dumps({"records": [*map(_labelled_data, records), *rows]}, indent=1))
    else:
        _print_labelled(records)
        _print([row for row in rows if "unreadable" not in row])
        for row in rows:
            if "unreadable" in row:
                print(f"note: `{row['path']}`: {row['unreadable']}", file=sys.stderr)
        if not rows and not records:
            _say_where_images_may_be()
    return 0


def _say_where_images_may_be() -> None:
    folder = places.own().folder
    print(
        f"note: there is no image in `{folder}`; `stackproof image add` puts one there, "
        "`image ls .` lists those of this folder",
        file=sys.stderr,
    )


def _labelled(asked: Sequence[str], *, every: bool) -> list[LabelRecord]:
    """Return the records that were asked for; all without a word, where `every` is wanted.

    Raises `StackproofError` (IMAGE_MISSING) for a word that is neither label, folder nor file.
    """
    here = [word for word in asked if not os.path.exists(word)]
    if not here:
        return list(places.records()) if every and not asked else []
    found: dict[str, LabelRecord] = {}
    for word in here:
        usable = not naming.looks_like_a_file(word) and labels.is_label(word)
        meant: tuple[LabelRecord, ...] = ()
        if usable:
            label = labels.parse(word)
            meant = labels.matching(
                places.candidates(label, beginning=True), label, system=places.system(),
                beginning=True,
            )  # fmt: skip
        known = () if meant else places.records()
        if usable and not meant:
            meant = tuple(record for record in known if str(record.label).startswith(word))
        if not meant:
            raise fail(
                Reason.IMAGE_MISSING,
                f"`{word}` is no file, no folder and no label",
                hint=f"{labels.guess(known, word, system=places.system())}"
                "`stackproof image ls` lists all labels",
            )
        found.update((str(record.label), record) for record in meant)
    return sorted(found.values(), key=attrgetter("label"))


def _files(place: str) -> Iterator[Path]:
    """Yield the images that are named or lie in a folder; raises `StackproofError`."""
    path = Path(place)
    if path.is_dir():
        try:
            inside = sorted(path.iterdir())
        except OSError as error:
            raise files.translate(error, path) from error
        yield from (one for one in inside if one.suffix in _SUFFIXES and one.is_file())
    elif path.is_file():
        yield path


def _built() -> Iterator[Path]:
    """Yield the images in the build folders, those that were used last at the end."""
    for folder in cache_entries.builds():
        image = folder / "out" / IMAGE_FILE
        if image.is_file():
            yield image


def _row(path: Path) -> _Row:
    try:
        image = load_image(str(path))
        digest = files.sha256(path)
        state = path.stat()
    except StackproofError as error:
        return {"path": str(path), "unreadable": error.problems[0].message}
    except OSError as error:
        return {"path": str(path), "unreadable": os.strerror(error.errno or 0)}
    return {
        "path": str(path), "name": image.name,
        "mpi": f"{image.mpi.family} {image.mpi.version}" if image.mpi else None,
        "mount": image.mount, "size": state.st_size, "date": _time(state.st_mtime),
        "digest": digest,
    }  # fmt: skip


def _print_labelled(records: Sequence[LabelRecord]) -> None:
    rows = [
        (
            str(one.label), one.id, disk_text(one.size), labels.date_text(one),
            ago_text(used) if (used := last_use(one.folder)) else "gone",
        )
        for one in records
    ]  # fmt: skip
    if rows:
        print_table(("LABEL", "ID", "SIZE", "DATE", "LAST USED"), rows)


def _print(rows: Sequence[_Row]) -> None:
    table = [
        (
            row["path"], row["name"], row["mpi"] or "-", disk_text(row["size"]),
            row["date"][:16].replace("T", " "), row["digest"][:12],
        )
        for row in rows
    ]  # fmt: skip
    if table:
        print_table(("IMAGE", "NAME", "MPI", "SIZE", "DATE", "SHA-256"), table)


def _labelled_data(record: LabelRecord) -> dict[str, object]:
    used = last_use(record.folder)
    return {**data(record), "used": _time(used) if used else None}


def _time(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="seconds")
