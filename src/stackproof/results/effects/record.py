"""Where launches are written down, each with its digest (`stackproof.results.digests`)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

from stackproof.core import limits, noun
from stackproof.core.effects import files
from stackproof.core.ids import digest
from stackproof.results.digests import DigestLine
from stackproof.results.measurement import Measurement
from stackproof.results.model import ASKED, LAUNCHES, SPECIFICATION

_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<path>.+)")


class Record(Struct):
    """A results folder that is written, and its list of digests if it has one."""

    folder: Path
    digests: Path | None

    def keep(self, name: str, measurement: Measurement) -> None:
        """Write a launch as a file of this name; raises as `write` does."""
        self.write(f"{LAUNCHES}/{name}", noun.to_json(measurement))

    def write(self, path: str, text: str) -> None:
        """Write a file below the folder after the line with its digest.

        Raises `StackproofError` (DISK_FULL, NOT_PERMITTED).
        """
        content = text.encode()
        self.note(path, content)
        files.write(self.folder / path, content)

    def note(self, path: str, content: bytes) -> None:
        """Write the line with the digest of a file."""
        if self.digests is None:
            return
        try:
            with open(self.digests, "ab") as stream:
                stream.write(f"{digest(content)}  {path}\n".encode())
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise files.translate(error, self.digests) from error


def begin(folder: Path, element: int = 0) -> Record:
    """Return the record of an allocation, with the digests of specifications that are there.

    A folder whose launches were begun without digests gets none: those of some launches would say
    more than is so. A line that was cut, or whose launch was never written, is taken away.
    """
    lists = read_digests(folder)
    if not lists and any((folder / LAUNCHES).glob("*.json")):
        return Record(folder, None)
    path = folder / f"digests-{element}.sha256"
    if path.exists():
        lines = _lines(path)
        if lines and not (folder / lines[-1].path).exists():
            lines.pop()
        whole = "".join(f"{line.sha256}  {line.path}\n" for line in lines).encode()
        if whole != files.read_bounded(path, limits.RESULTS):
            files.write(path, whole)
    record = Record(folder, path)
    known = {line.path for lines in lists for line in lines}
    for name in (SPECIFICATION, ASKED):
        if name not in known and (folder / name).exists():
            record.note(name, files.read_bounded(folder / name, limits.RESULTS))
    return record


def read_digests(folder: Path) -> list[list[DigestLine]]:
    """Return the lists of digests of a results folder; raises as reading a file does."""
    return [_lines(path) for path in sorted(folder.glob("digests-*.sha256"))]


def _lines(path: Path) -> list[DigestLine]:
    """Return the lines of a list, up to one that a machine that stopped has cut."""
    text = files.read_bounded(path, limits.RESULTS).decode(errors="replace")
    lines: list[DigestLine] = []
    for line in text.split("\n")[:-1]:
        match = _LINE.fullmatch(line)
        if match is None:
            break
        lines.append(DigestLine(match["path"], match["sha256"]))
    return lines
