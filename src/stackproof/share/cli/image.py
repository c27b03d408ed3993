"""`stackproof image add | rm | fsck`: images put into the repository, taken out, and checked."""

from __future__ import annotations

import json
import os
import sys

from stackproof.core.cli import progress
from stackproof.core.errors import ExitCode, Reason, fail
from stackproof.core.numbers import disk_text
from stackproof.core.value import replace
from stackproof.share import labels
from stackproof.share.effects import checking, naming, places, storing
from stackproof.share.effects.checking import FaultKind, RepositoryFault
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.effects.storing import AddOptions
from stackproof.share.labels import Label, LabelRecord
from stackproof.share.options import ImageAddOptions, ImageCheckOptions, ImageRemoveOptions


def run_add(asked: ImageAddOptions) -> int:
    """Put an image into the repository; print its label and digest."""
    repository = places.own()
    source = naming.image_file(asked.image)
    known = naming.record_of(asked.image) if source != asked.image else None
    here = known is not None and repository.folder_of(known.digest).is_dir()
    options = AddOptions(
        label=_whole(asked.label, known.label if known is not None else Label()),
        file=source,
        known=known.digest if known is not None and here else "",
        move=asked.move and known is None,
        force=asked.force,
    )
    record = storing.add(repository, options, progress.monitor(quiet=asked.json))
    progress.end_line()
    if asked.json:
        print(json.dumps(data(record), indent=1))
    else:
        print(f"{record.label}\n{record.digest}  {record.file}")
    return 0


def _whole(text: str, like: Label) -> Label:
    """Return a label with all parts, those left out as another has them; raises USAGE."""
    label = labels.parse(text)
    label = replace(
        label,
        system=label.system or like.system or places.system(),
        uarch=label.uarch or like.uarch,
    )
    if label.missing:
        raise fail(
            Reason.USAGE,
            f"the label `{text}` lacks: {', '.join(label.missing)}",
            hint="such as mpich/5.0.2:v1@daint%zen2: name/version:tag@system%uarch",
        )
    return label


def run_rm(asked: ImageRemoveOptions) -> int:
    """Take labels away, and the images that have none then."""
    repository = places.own()
    meant = {str(one.label): one for word in asked.labels for one in _meant(repository, word)}
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


def _meant(repository: ImageRepository, word: str) -> tuple[LabelRecord, ...]:
    """Return what goes for a word; raises IMAGE_MISSING, LABEL_AMBIGUOUS."""
    records = repository.candidates(labels.parse(word))
    whole = tuple(record for record in records if word in {record.id, record.digest})
    found = whole or labels.chosen(records, word, system=places.system())
    if not found:
        raise fail(
            Reason.IMAGE_MISSING,
            f"no image of `{repository.folder}` has the label `{word}`",
            hint=f"{labels.guess(repository.records(), word, system=places.system())}"
            "`stackproof image ls` lists the labels",
        )
    if len(found) > 1 and not whole:
        raise fail(
            Reason.LABEL_AMBIGUOUS,
            f"`{word}` means {len(found)} labels",
            detail=labels.table(found),
            hint=f"name each of them in full, as `{found[0].label}`",
        )
    return found


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
        rows = [_fault_data(one) for one in faults]
        print(json.dumps({"repository": str(repository.folder), "faults": rows}, indent=1))
    else:
        for one in faults:
            print(f"{'mended' if one.mended else one.fault:<10}  {one.label or '-'}  {one.path}")
            print(f"            {one.text}")
        print(f"`{repository.folder}`: {count} images, {len(faults)} faults", file=sys.stderr)
    bad = {FaultKind.INDEX, FaultKind.GONE, FaultKind.SIZE, FaultKind.DIGEST}
    return ExitCode.IMAGE if any(one.fault in bad and not one.mended for one in faults) else 0


def _fault_data(one: RepositoryFault) -> dict[str, object]:
    return {
        "fault": one.fault, "label": one.label or None, "path": one.path, "text": one.text,
        "mended": one.mended,
    }  # fmt: skip


def data(record: LabelRecord) -> dict[str, object]:
    """Return a record as `uenv image ls --json` prints it, and the path of the image."""
    label, file = record.label, record.file
    return {
        "name": label.name, "version": label.version, "tag": label.tag, "system": label.system,
        "uarch": label.uarch, "id": record.id, "digest": record.digest, "size": record.size,
        "date": record.date, "path": file if file.startswith("/") else os.path.abspath(file),
    }  # fmt: skip
