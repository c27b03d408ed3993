"""`stackproof image attach`: bills of materials, verdicts, reports and files beside an image."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from stackproof.core.effects import files, ssh_keys
from stackproof.core.errors import Problem, StackproofError
from stackproof.core.numbers import disk_text
from stackproof.image.effects.load import load_superblock
from stackproof.report.effects import attached
from stackproof.report.effects.attached import NewDocument
from stackproof.report.options import AttachOptions
from stackproof.share.attested import kinds
from stackproof.share.effects import measuring, naming


def run(asked: AttachOptions) -> int:
    """Put documents beside an image, all or none, and print them."""
    path = os.path.abspath(naming.image_file(asked.image))
    load_superblock(path)
    if asked.sign:
        ssh_keys.require_key(asked.sign)
    sha256 = measuring.measure(path).sha256
    new = _gathered(path, sha256, asked.documents)
    if asked.sign:
        new = attached.sealed(path, new, sha256, asked.sign, force=asked.force)
    written = attached.put(path, new, force=asked.force)
    if asked.json:
        rows = [_data(one, place) for one, place in zip(new, written, strict=True)]
        print(json.dumps({"image": path, "sha256": sha256, "documents": rows}, indent=1))
    else:
        for one, place in zip(new, written, strict=True):
            print(f"{one.name:<28}  {disk_text(len(one.content)):>8}  {place}")
    return 0


def _gathered(image: str, sha256: str, words: Sequence[str]) -> tuple[NewDocument, ...]:
    """Return all documents that are meant; raises `StackproofError` with the problems of all."""
    if not words:
        return attached.of_image(image)
    found: list[NewDocument] = []
    problems: list[Problem] = []
    for word in words:
        try:
            if os.path.isdir(word):
                found += attached.of_results(image, sha256, word)
            else:
                found.append(attached.of_file(sha256, word))
        except StackproofError as error:
            problems += error.problems
    if problems:
        raise StackproofError(*problems)
    return tuple(found)


def _data(one: NewDocument, place: Path) -> dict[str, object]:
    return {
        "name": one.name, "type": kinds.media_type(one.name, one.content),
        "size": len(one.content), "sha256": files.sha256(place), "path": str(place),
    }  # fmt: skip
