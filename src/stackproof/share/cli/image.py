"""`stackproof image add | rm | fsck`: images put into the repository, taken out, and checked."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable

import msgspec

from stackproof.core.cli import progress
from stackproof.core.errors import ExitCode, Reason, fail
from stackproof.core.numbers import disk_text
from stackproof.share import labels
from stackproof.share.effects import checking, naming, places, storing
from stackproof.share.effects.checking import FaultKind
from stackproof.share.effects.storing import AddOptions
from stackproof.share.labels import Label, LabelRecord
from stackproof.share.options import ImageAddOptions, ImageCheckOptions, ImageRemoveOptions

_UARCHS = {"x8664": "x86_64", "neoversen1": "neoverse_n1", "neoversev2": "neoverse_v2"}


def run_add(asked: ImageAddOptions) -> int:
    """Put an image into the repository; print its label and digest."""
    repository = places.own()
    if os.path.isfile(asked.label) and not os.path.exists(asked.image):
        raise fail(
            Reason.USAGE,
            f"`{asked.label}` is a file, where a label was expected",
            hint=f"the label comes first: stackproof image add {asked.image} {asked.label}",
        )
    source = naming.image_file(asked.image)
    known = naming.record_of(asked.image) if source != asked.image else None
    here = known is not None and repository.folder_of(known.digest).is_dir()
    like = known.label if known is not None else Label()
    label, filled = naming.whole_label(asked.label, like, source)
    options = AddOptions(
        label=label,
        file=source,
        known=known.digest if known is not None and here else "",
        move=asked.move and known is None,
        force=asked.force,
    )
    record = storing.add(repository, options, progress.monitor(quiet=asked.json))
    progress.end_line()
    if filled:
        print(f"note: {filled}", file=sys.stderr)
    uarch = record.label.uarch
    meant = _UARCHS.get(re.sub("[^a-z0-9]", "", uarch.lower()), uarch)
    if meant != uarch:
        print(f"note: no machine known here is a `{uarch}`: was `{meant}` meant?", file=sys.stderr)
    if asked.json:
        print(json.dumps(data(record), indent=1))
    else:
        print(f"{record.label}\n{record.digest}  {record.file}")
    return 0


def run_rm(asked: ImageRemoveOptions) -> int:
    """Take labels away, and the images that have none then; at a terminal only after a yes."""
    repository = places.own()
    asks = not asked.yes and sys.stdin.isatty() and sys.stderr.isatty()
    found = naming.labels_to_remove(repository, asked.labels, exact=not asks)
    meant = {str(one.label): one for one in found}
    if asks:
        _refuse_unless_agreed(meant.values())
    gone = storing.remove(repository, tuple(one.label for one in meant.values()))
    if asked.json:
        rows = [{**data(one), "deleted": one.digest in gone} for one in meant.values()]
        print(json.dumps({"records": rows}, indent=1))
        return 0
    for one in meant.values():
        if one.digest in gone:
            print(f"removed  {disk_text(one.size):>8}  {one.label}  and its image")
        else:
            print(f"removed  {'-':>8}  {one.label}  its image has further labels")
    return 0


def _refuse_unless_agreed(records: Iterable[LabelRecord]) -> None:
    """Show what would go and wait for a yes; raises `StackproofError` (NOTHING_RAN)."""
    print(labels.table(tuple(records)), file=sys.stderr)
    print("take these labels away, and images that have no other? [y/N] ", end="", file=sys.stderr)
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise fail(Reason.NOTHING_RAN, "nothing was removed", hint="answer `y`, or give --yes")


def run_fsck(asked: ImageCheckOptions) -> int:
    """Print what is wrong with the repository; 6 where images or the index are."""
    repository = places.own()
    monitor = progress.monitor(quiet=asked.json or not asked.digests)
    faults = checking.check(repository, digests=asked.digests, monitor=monitor)
    progress.end_line()
    if asked.repair:
        faults = checking.mend(repository, faults)
    count = len({record.digest for record in repository.records()})
    if asked.json:
        rows = [{**msgspec.to_builtins(one), "label": one.label or None} for one in faults]
        print(json.dumps({"repository": str(repository.folder), "faults": rows}, indent=1))
    else:
        for one in faults:
            print(f"{'mended' if one.mended else one.fault:<10}  {one.label or '-'}  {one.path}")
            print(f"            {one.text}")
        print(f"`{repository.folder}`: {count} images, {len(faults)} faults", file=sys.stderr)
    bad = {FaultKind.INDEX, FaultKind.GONE, FaultKind.SIZE, FaultKind.DIGEST}
    return ExitCode.IMAGE if any(one.fault in bad and not one.mended for one in faults) else 0


def data(record: LabelRecord) -> dict[str, object]:
    """Return a record as `uenv image ls --json` prints it, and the path of the image."""
    file = record.file  # `..` in it stays, where it is absolute
    return {**list_fields(record), "path": file if file.startswith("/") else os.path.abspath(file)}


def list_fields(record: LabelRecord) -> dict[str, object]:
    """Return a record without a path: the parts of its label, digests, size and date."""
    return {
        **msgspec.to_builtins(record.label), "id": record.id, "digest": record.digest,
        "size": record.size, "date": record.date,
    }  # fmt: skip
