"""Where launches are written down, each with its digest (`stackproof.results.digests`)."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from msgspec import Struct

from stackproof.core import limits, noun
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.ids import digest
from stackproof.results.digests import DigestLine
from stackproof.results.measurement import Measurement
from stackproof.results.model import ASKED, LAUNCHES, PROBES, SET_ASIDE, SPECIFICATION

_OPENED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<path>.+)")


def load_launch(path: Path) -> Measurement:
    """Return the measurement in a launch file; raises as reading a file and a document does."""
    return noun.from_json(Measurement, files.read_bounded(path, limits.RESULTS), file=str(path))


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
        descriptor = _open_list(self.digests, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            with open(descriptor, "ab") as stream:
                stream.write(f"{digest(content)}  {path}\n".encode())
                stream.flush()
                os.fsync(descriptor)
        except OSError as error:
            raise files.translate(error, self.digests) from error


def begin(folder: Path, element: int = 0) -> Record:
    """Return the record of an allocation, with the digests of specifications that are there.

    A folder whose launches were begun without digests gets none: those of some launches would say
    more than is so. A line that was cut, or whose launch was never written, is taken away.
    """
    refuse_links(folder)
    lists = {name: lines or _lines(folder / name) for name, lines in read_digests(folder).items()}
    if not lists and any((folder / LAUNCHES).glob("*.json")):
        return Record(folder, None)
    path = folder / f"digests-{element}.sha256"
    if path.name in lists:
        lines = [*lists[path.name]]
        if lines and not (folder / lines[-1].path).exists():
            lines.pop()
        whole = "".join(f"{line.sha256}  {line.path}\n" for line in lines).encode()
        if whole != files.read_bounded(path, limits.RESULTS):
            files.write(path, whole)
    record = Record(folder, path)
    known = {line.path for lines in lists.values() for line in lines}
    for name in (SPECIFICATION, ASKED):
        if name not in known and (folder / name).exists():
            record.note(name, files.read_bounded(folder / name, limits.RESULTS))
    return record


def refuse_links(folder: Path) -> None:
    """Refuse a results folder that leads elsewhere; raises `StackproofError` (INVALID_VALUE)."""
    for name in (LAUNCHES, SET_ASIDE, PROBES):
        path = folder / name
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise fail(
                Reason.INVALID_VALUE,
                f"`{path}` is no folder of these results, but a link or a file",
                where=Location(file=os.fspath(path)),
                hint="put the folder there that it stands for, or choose another -o",
            )


def read_digests(folder: Path) -> dict[str, list[DigestLine] | None]:
    """Return the lists of digests of a results folder by name, None for a link or what is no file.

    Raises as reading a file does.
    """
    lists: dict[str, list[DigestLine] | None] = {}
    for path in sorted(folder.glob("digests-*.sha256")):
        try:
            lists[path.name] = _lines(path)
        except StackproofError as error:
            if error.reason is not Reason.INVALID_VALUE:
                raise
            lists[path.name] = None
    return lists


def _open_list(path: Path, flags: int) -> int:
    """Open a list; raises `StackproofError` (INVALID_VALUE) for a link and for what is no file."""
    try:
        descriptor = os.open(path, flags | _OPENED, 0o666)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENXIO, errno.EISDIR}:
            raise files.translate(error, path) from error
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    raise fail(
        Reason.INVALID_VALUE,
        f"`{path}` is no list of digests, but a link, a folder or a device",
        where=Location(file=os.fspath(path)),
        hint="whoever put it there may have changed the launches too: measure in another folder",
    )


def _lines(path: Path) -> list[DigestLine]:
    """Return the lines of a list, up to one that a machine that stopped has cut."""
    descriptor = _open_list(path, os.O_RDONLY)
    with open(descriptor, "rb") as stream:
        text = files.read_bounded(path, limits.RESULTS, stream=stream).decode(errors="replace")
    lines: list[DigestLine] = []
    for line in text.split("\n")[:-1]:
        match = _LINE.fullmatch(line)
        if match is None:
            break
        lines.append(DigestLine(match["path"], match["sha256"]))
    return lines
