"""The chain of a results folder on disk: what was planned, and a line for every record.

A record is written first, then its line. A machine that stops in between leaves a record without a
line: whoever continues makes the line, and only for the record that names the last one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from stackproof.core import limits, noun
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.ids import digest
from stackproof.core.value import replace
from stackproof.results.chain import (
    ChainLink,
    DigestChain,
    LaunchFile,
    ResultsPlan,
    next_link,
    promised,
)
from stackproof.results.measurement import Measurement
from stackproof.results.model import ResultsSpec

FOLDER = "chain"
PLAN = "plan.json"
ASKED = "spec.json"
_HINT = "no chain of `bench` is as large as that"


class Ledger(Struct):
    """The chain of one allocation, open to be continued."""

    folder: Path
    chain: int
    plan_sha256: str
    entries: tuple[ChainLink, ...]

    def write(self, path: Path, measurement: Measurement) -> None:
        """Write a launch as the next record, and then the line for it.

        Raises `StackproofError` (DISK_FULL, NOT_PERMITTED).
        """
        link = next_link(self.chain, self.plan_sha256, self.entries)
        content = noun.to_json(replace(measurement, link=link)).encode()
        files.write(path, content)
        self._append(ChainLink(number=link.number, file=path.name, sha256=digest(content)))

    def _append(self, entry: ChainLink) -> None:
        self.entries = (*self.entries, entry)
        path = _lines(self.folder, self.chain)
        try:
            path.parent.mkdir(exist_ok=True)
            with open(path, "ab") as stream:
                stream.write(json.dumps(noun.to_data(entry)).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise files.translate(error, path) from error

    def repair(self, records: Sequence[LaunchFile]) -> None:
        """Make the line for a record that was written and never acknowledged."""
        link = next_link(self.chain, self.plan_sha256, self.entries)
        lines = {(one.file, one.sha256) for one in self.entries}
        for one in records:
            if one.measurement.link == link and (one.file, one.sha256) not in lines:
                self._append(ChainLink(number=link.number, file=one.file, sha256=one.sha256))
                return


def begin(
    folder: Path, spec: ResultsSpec, chain: int, records: Sequence[LaunchFile]
) -> Ledger | None:
    """Open the chain of an allocation; what was planned is written down before the first record.

    Returns None for a folder whose launches were begun without a chain: a chain of some of them
    would say more than is so.
    """
    path = folder / FOLDER / PLAN
    if not path.exists():
        if any(one.measurement.link is None for one in records):
            return None
        asked = files.sha256(folder / ASKED) if (folder / ASKED).exists() else ""
        _write_once(path, noun.to_json(ResultsPlan(asked=asked, promised=promised(spec))).encode())
    content = _content(path)
    lines = _lines(folder, chain)
    entries, whole = _entries(lines) if lines.exists() else ((), True)
    if not whole:  # the machine stopped while the last line was written
        files.write(lines, "".join(f"{json.dumps(noun.to_data(one))}\n" for one in entries))
    ledger = Ledger(folder, chain, digest(content), entries)
    ledger.repair(records)
    return ledger


def _write_once(path: Path, content: bytes) -> None:
    """Write a file that several allocations may begin with: the first one stays."""
    temporary = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    files.write(temporary, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise files.translate(error, path) from error
    finally:
        temporary.unlink()


def read(folder: Path, records: Sequence[LaunchFile], unreadable: tuple[str, ...]) -> DigestChain:
    """Return the chain of a results folder as it is; what cannot be read of it is not there."""
    where = folder / FOLDER
    plan, plan_sha256 = None, ""
    try:
        content = _content(where / PLAN)
        plan_sha256 = digest(content)
        plan = noun.from_json(ResultsPlan, content, file=os.fspath(where / PLAN))
    except StackproofError:
        pass  # told by the chain as missing
    numbers = [path for path in sorted(where.glob("*.jsonl")) if path.stem.isdecimal()]
    asked = folder / ASKED
    return DigestChain(
        plan=plan,
        plan_sha256=plan_sha256,
        asked=files.sha256(asked) if asked.is_file() else "",
        entries={int(path.stem): _entries(path)[0] for path in numbers},
        records=tuple(records),
        unreadable=unreadable,
    )


def _entries(path: Path) -> tuple[tuple[ChainLink, ...], bool]:
    """Return the lines of a chain, and whether each of them could be read."""
    found: list[ChainLink] = []
    text = _content(path)
    for line in text.splitlines():
        try:
            found.append(noun.from_json(ChainLink, line, file=os.fspath(path)))
        except StackproofError:
            return tuple(found), False
    return tuple(found), text.endswith(b"\n") or not text


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise fail(
            Reason.FILE_MISSING, f"`{path}` is not there", where=Location(file=os.fspath(path))
        )
    return files.read_bounded(path, limits.RESULTS, hint=_HINT)


def _lines(folder: Path, chain: int) -> Path:
    return folder / FOLDER / f"{chain}.jsonl"
