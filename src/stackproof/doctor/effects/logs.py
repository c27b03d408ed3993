"""Files of a job that are read: what it printed, and its environment."""

from __future__ import annotations

import os
from collections.abc import Iterator

from stackproof.core import limits
from stackproof.core.effects import documents, files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.doctor.evidence import log
from stackproof.doctor.log.extract import LogExtract, LogReader
from stackproof.knowledge.evidence import Evidence, merged, redacted

_PIECE = 1 << 20
_LOG_HINT = "give the part that shows the fault"


def evidence_of(path: str, name: str) -> Evidence:
    """Return the lines of a log that are kept, and the facts in them; raises as `logs_of`."""
    kept = logs_of(path)
    numbers = {name: kept.numbers} if kept.numbers else {}
    text = Evidence(logs={name: redacted(kept.text)}, line_numbers=numbers)
    return merged(log.of_log(kept.text, name, kept.numbers), text)


def logs_of(path: str) -> LogExtract:
    """Return the kept lines of a log that was named; raises `StackproofError` (FILE_MISSING, …)."""
    documents.refuse_other_kind(path, "log", texts=False)
    reader, empty = LogReader(), True
    for piece in _pieces(path):
        if empty and is_binary(piece[: limits.KIND.bytes]):
            raise _refused(path, Reason.INVALID_VALUE, "is not text", "give what the job printed")
        empty = empty and not piece.strip(_BLANKS)
        reader.feed(piece)
    if empty:  # nothing can be concluded from it
        hint = "standard error belongs to it: srun … >job.log 2>&1"
        raise _refused(path, Reason.INVALID_VALUE, "is empty", hint)
    return reader.extract()


def _pieces(path: str) -> Iterator[bytes]:
    if not os.path.isfile(path):  # a pipe, whose writer may be slow
        yield files.read_bounded(path, limits.LOG_PIPE, hint=_LOG_HINT)
        return
    try:
        with open(path, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > limits.LOG.bytes:
                text = f"has more than {limits.LOG.bytes} bytes"
                raise _refused(path, Reason.TOO_LARGE, text, _LOG_HINT)
            yield from iter(lambda: stream.read(_PIECE), b"")
    except OSError as error:
        raise files.translate(error, path) from error


def _refused(path: str, reason: Reason, text: str, hint: str) -> StackproofError:
    return fail(reason, f"`{path}` {text}", where=Location(file=path), hint=hint)


def is_binary(head: bytes) -> bool:
    """Return true for bytes of which more than a twentieth are control characters of no text."""
    return sum(head.count(byte) for byte in _NO_TEXT) > len(head) // 20


# Without bell, blanks and escape; a file of which parts were never written has holes of NUL.
_NO_TEXT = (*range(1, 7), *range(14, 27), *range(28, 32))
_BLANKS = b"\0 \t\r\n\v\f"


def text_of(path: str) -> str:
    """Return the text of a file that was named; raises `StackproofError` (TOO_LARGE, …)."""
    data = files.read_bounded(path, limits.LOG_PIPE, hint="this is no list of variables")
    return data.decode(errors="replace")
