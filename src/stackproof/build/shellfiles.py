"""Files written by commands of a shell, for builders that copy nothing; and words for a shell."""

from __future__ import annotations

import base64
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping

from stackproof.core.errors import Reason, fail

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_PLAIN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# A RUN becomes one argument of a shell, and the kernel takes 131,072 bytes in one (MAX_ARG_STRLEN);
# builders read lines of up to 65,536 bytes.
_MOST_BYTES = 60_000
_LONGEST_LINE = 8_000
_ENCODED_LINE = 76


def write_commands(
    texts: Mapping[str, bytes], executable: frozenset[str]
) -> Iterator[tuple[str, ...]]:
    """Yield commands that write files, as many in a group as one RUN takes."""
    folders = sorted({posixpath.dirname(path) for path in texts})
    parts = [f"mkdir -p {shell_word(folder)}" for folder in folders]
    for path, content in texts.items():
        parts += _file(path, content)
        if path in executable:
            parts.append(f"chmod 755 {shell_word(path)}")
    waiting: list[str] = []
    size = 0
    for part in parts:
        length = len(part.encode()) + 4
        if waiting and size + length > _MOST_BYTES:
            yield tuple(waiting)
            waiting, size = [], 0
        waiting.append(part)
        size += length
    if waiting:
        yield tuple(waiting)


def _file(path: str, content: bytes) -> Iterator[str]:
    """Yield shell commands that write a file: as text where that is possible."""
    lines = _plain_lines(content)
    if lines is None:
        text = base64.b64encode(content).decode()
        cut = range(0, len(text), _ENCODED_LINE)
        lines = [text[start : start + _ENCODED_LINE] for start in cut]
        form, end = "%s", f" | base64 -d {{}} {shell_word(path)}"
    else:
        form, end = "%s\\n", f" {{}} {shell_word(path)}"
    if not lines:
        yield f": > {shell_word(path)}"
    mark = ">"
    for block in _blocks([_single(line) for line in lines]):
        words = " \\\n      ".join(block)
        yield f"printf '{form}' \\\n      {words} \\\n     {end.format(mark)}"
        mark = ">>"


def _plain_lines(content: bytes) -> list[str] | None:
    """Return the lines of a text, or None for what only an encoding can carry unharmed."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    if _NOT_PLAIN.search(text) or (text and not text.endswith("\n")):
        return None
    lines = text.split("\n")[:-1]
    return None if any(len(line.encode()) > _LONGEST_LINE for line in lines) else lines


def _blocks(words: list[str]) -> Iterator[list[str]]:
    block: list[str] = []
    size = 0
    for word in words:
        length = len(word.encode()) + 9
        if block and size + length > _MOST_BYTES - 1_000:
            yield block
            block, size = [], 0
        block.append(word)
        size += length
    if block:
        yield block


def shell_word(text: str) -> str:
    """Return a text as one word of a shell; raises `StackproofError` as `single_line` does."""
    return shlex.quote(single_line(text))


def _single(text: str) -> str:
    """Return a line of a file in single quotes, needed or not: a column of them reads better."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def single_line(text: str) -> str:
    """Return a text as it is; raises `StackproofError` (INVALID_VALUE) for control characters."""
    if _CONTROL.search(text):
        raise fail(
            Reason.INVALID_VALUE,
            f"{text!r} has a control character, which a Containerfile cannot hold there",
            hint="take it out of the recipe",
        )
    return text
