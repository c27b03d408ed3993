"""The command lines of README and of the pages: taken out of their blocks, with what is said of them.

A block is indented by four blanks or fenced as `sh`. What stands in it besides command lines is
what they print. A comment in front of a block says why it is not run:

    <!-- not run: needs a Slingshot machine -->

or what is added to its long commands, so that the tests need minutes and not hours:

    <!-- run with: --launches 2 -->
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from stackproof.core.value import Value

ROOT = Path(__file__).parent.parent
_MARK = re.compile(r"<!-- (not run|run with): (.+?) -->")
Mark = tuple[str, str]
_NONE: Mark = ("", "")
_FENCE = re.compile(r"^ *```(\w*)")
# The first word of a command line that is none of ours: a program, or a path of one of this project.
_PROGRAMS = frozenset((
    "apt-get", "buildah", "chmod", "cp", "dpkg-statoverride", "export", "install", "ldd", "make",
    "meson", "module", "mpiexec", "nox", "pip", "pipx", "podman", "python3", "rm", "rpmbuild",
    "salloc", "sbatch", "source", "srun", "uv",
))  # fmt: skip
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
_OPERATORS = frozenset(("|", "||", "&&", ";", "&", ">", ">>", "<", "2>"))


class Line(Value):
    """A command line of a page, as it stands there.

    `reason` says why it is not run, if so; `more` is added to its measuring commands.
    """

    page: str
    number: int
    text: str
    reason: str = ""
    more: str = ""

    @property
    def place(self) -> str:
        """Return the page and the line."""
        return f"{self.page}:{self.number}"

    @property
    def commands(self) -> list[list[str]]:
        """Return the words of each command of ours, without what a shell makes of the rest."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        found: list[list[str]] = [[]]
        for word in lexer:
            if word in _OPERATORS:
                found.append([])
            else:
                found[-1].append(word)
        return [words for words in found if words[:1] == ["stackproof"]]


def pages() -> list[Path]:
    """Return README and every page that is written by hand."""
    written = [path for path in (ROOT / "docs").rglob("*.md") if "reference" not in path.parts]
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(written)]


def lines_of(path: Path) -> list[Line]:
    """Return the command lines of a page."""
    page = str(path.relative_to(ROOT))
    return [
        Line(
            page=page,
            number=number,
            text=text,
            reason=said if kind == "not run" else "",
            more=said if kind == "run with" else "",
        )
        for number, text, (kind, said) in _commands(path.read_text())
    ]


def others_of(path: Path) -> list[Line]:
    """Return the command lines of a page that begin with another program than ours."""
    page = str(path.relative_to(ROOT))
    return [
        Line(page=page, number=number, text=text, reason=said if kind == "not run" else "")
        for number, text, (kind, said) in _commands(path.read_text(encoding="utf-8"), _is_other)
    ]


def _is_ours(line: str) -> bool:
    return line.startswith("stackproof ")


def _is_other(line: str) -> bool:
    word = line.split(" ", maxsplit=1)[0]
    return word in _PROGRAMS or _PATH.fullmatch(word) is not None


def _commands(
    text: str, wanted: Callable[[str], bool] = _is_ours
) -> Iterator[tuple[int, str, Mark]]:
    begun: tuple[int, str] | None = None
    for number, line, mark in _code(text):
        plain = line.strip().removeprefix("$ ")
        if begun:
            begun = (begun[0], f"{begun[1][:-1]} {plain}")
        elif wanted(plain) and not line.startswith("  "):
            begun = (number, plain)
        else:
            continue
        if not begun[1].endswith("\\"):
            yield (*begun, mark)
            begun = None


def _code(text: str) -> Iterator[tuple[int, str, Mark]]:
    """Yield the lines of blocks, without their margin, and the mark that stands before them."""
    fence: str | None = None
    mark, before, inside = _NONE, "", False
    for number, line in enumerate(text.splitlines(), 1):
        opened = _FENCE.match(line)
        if opened:
            fence = opened[1] or "text" if fence is None else None
            inside = fence is not None
        elif fence is not None:
            if fence in {"sh", "console"}:
                yield number, line, mark
        elif line.startswith("    ") and (inside or not before.strip()):
            inside = True
            yield number, line[4:], mark
        elif line.strip():
            inside = False
            marked = _MARK.search(line)
            mark = (marked[1], marked[2]) if marked else _NONE
        before = line
