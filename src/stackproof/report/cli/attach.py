"""`stackproof image attach`: verdicts beside an image."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from stackproof.core.effects import files
from stackproof.core.errors import Problem, StackproofError
from stackproof.core.numbers import disk_text
from stackproof.image.effects.image_file import load_superblock
from stackproof.report.effects import attached
from stackproof.report.effects.attached import NewVerdict
from stackproof.report.options import AttachOptions
from stackproof.share.effects import measuring, naming


def run(asked: AttachOptions) -> int:
    """Put verdicts beside an image, all or none, and print them."""
    path = os.path.abspath(naming.image_file(asked.image))
    load_superblock(path)
    sha256 = measuring.measure(path).sha256
    new = _gathered(path, sha256, asked.results)
    written = attached.put(path, new, force=asked.force)
    if asked.json:
        rows = [_data(verdict, place) for verdict, place in zip(new, written, strict=True)]
        print(json.dumps({"image": path, "sha256": sha256, "verdicts": rows}, indent=1))
    else:
        for verdict, place in zip(new, written, strict=True):
            print(f"{verdict.name:<28}  {disk_text(len(verdict.content)):>8}  {place}")
    return 0


def _gathered(image: str, sha256: str, folders: Sequence[str]) -> tuple[NewVerdict, ...]:
    """Return all verdicts that are meant; raises `StackproofError` with the problems of all."""
    verdicts: list[NewVerdict] = []
    problems: list[Problem] = []
    for folder in folders:
        try:
            verdicts.append(attached.of_results(image, sha256, folder))
        except StackproofError as error:
            problems += error.problems
    if problems:
        raise StackproofError(*problems)
    return tuple(verdicts)


def _data(verdict: NewVerdict, place: Path) -> dict[str, object]:
    return {
        "name": verdict.name, "size": len(verdict.content), "sha256": files.sha256(place),
        "path": str(place),
    }  # fmt: skip
