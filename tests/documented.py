"""The command lines of README and of the pages: taken out of their blocks, with what is said of them.

A block is indented by four blanks or fenced as `sh`. What stands in it besides command lines is
what they print. In a block fenced as `console` each command line begins with `$ `, and the lines
below it are its output, which is compared in shape (`shape_differences`). A comment in front of a
block says why it is not run:

    <!-- not run: needs a Slingshot machine -->

or what is added to its long commands, so that the tests need minutes and not hours:

    <!-- run with: --launches 2 -->
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from stackproof.core.value import Value

ROOT = Path(__file__).parent.parent
_MARK = re.compile(r"<!-- (not run|run with): (.+?) -->")
Mark = tuple[str, str]
_NONE: Mark = ("", "")
_MEASURED = re.compile(
    r"\d of \d+ points|\bpoints?\.|^ +(?:latency|bandwidth) +\d"
    r"|^ +[\w-]+: (?:within a node|between nodes) "
)
_VERDICT = re.compile(r"\b(?:PASS|FAIL|INCONCLUSIVE)\b")
# What a line of a `console` block begins with here that is no command line.
_PRINTED = "| "
_FENCE = re.compile(r"^ *```(\w*)")
# The first word of a command line that is none of ours: a program, or a path of one of this project.
_PROGRAMS = frozenset((
    ".", "apt-get", "buildah", "cat", "chmod", "cp", "debootstrap", "dpkg-deb", "dpkg-statoverride", "echo",
    "export", "gdb", "git", "install", "ldd", "make", "meson", "mkdir", "mksquashfs", "module",
    "mpiexec", "nox", "nsenter", "pip", "pipx", "podman", "python3", "rm", "rpmbuild", "salloc",
    "sbatch", "source", "srun", "ssh", "tar", "uv",
))  # fmt: skip
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
_OPERATORS = frozenset(("|", "||", "&&", ";", "&", ">", ">>", "<", "2>"))


class Line(Value):
    """A command line of a page, as it stands there.

    `reason` says why it is not run, if so; `more` is added to its measuring commands; `output` are
    the lines that the page shows as printed by it, in a `console` block only.
    """

    page: str
    number: int
    text: str
    reason: str = ""
    more: str = ""
    output: tuple[str, ...] = ()

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
        bare = [words[1:] if words[:1] == ["sudo"] else words for words in found]
        return [words for words in bare if words[:1] == ["stackproof"]]


def pages() -> list[Path]:
    """Return README and every page that is written by hand."""
    written = [path for path in (ROOT / "docs").rglob("*.md") if "reference" not in path.parts]
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(written)]


def lines_of(path: Path) -> list[Line]:
    """Return the command lines of a page."""
    page = str(path.relative_to(ROOT))
    text = path.read_text(encoding="utf-8")
    printed = _outputs(text)
    return [
        Line(
            page=page,
            number=number,
            text=command,
            reason=said if kind == "not run" else "",
            more=said if kind == "run with" else "",
            output=printed.get(number, ()),
        )
        for number, command, (kind, said) in _commands(text)
    ]


def shape_differences(line: Line, printed: str) -> list[str]:
    """Return the shown output lines that a command did not print, in the order of the page.

    Digits stand for any digits and runs of blanks for any blanks; `…` at the end of a line stands
    for its rest, and `…` alone for any lines. Of a path the last name is compared. A line of
    measured points is compared by its first word, since every machine measures its own. What a
    command prints besides is left out of account.
    """
    actual = [_shape(text) for text in printed.splitlines()]
    missing, begin = [], 0
    for shown in line.output:
        wanted = _shape(shown)
        if wanted == "…":
            continue
        for number in range(begin, len(actual)):
            if _fits(wanted, actual[number]):
                begin = number + 1
                break
        else:
            missing.append(shown)
    return missing


def _shape(text: str) -> str:
    """Return a line without what differs from machine to machine: numbers, blanks and verdicts."""
    if _MEASURED.search(text):
        return f"{text.split(maxsplit=1)[0]} measured"
    names = re.sub(r"\S*/([\w.+-]+)", r"\1", text)
    numbers = re.sub(r"\d+(?:[.,]\d+)*", "0", names)
    return " ".join(_VERDICT.sub("VERDICT", numbers).split())


def _fits(shown: str, printed: str) -> bool:
    if shown.endswith("…"):
        return printed.startswith(shown.removesuffix("…").rstrip())
    return shown == printed


def _outputs(text: str) -> dict[int, tuple[str, ...]]:
    """Return the lines shown below each command of the `console` blocks, by the command's number."""
    printed: dict[int, tuple[str, ...]] = {}
    inside, command, continued = False, 0, False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            inside, command, continued = line.strip() == "```console", 0, False
        elif inside and line.startswith("$ "):
            command, continued = number, line.endswith("\\")
        elif inside and continued:
            continued = line.endswith("\\")
        elif inside and command and line.strip():
            printed[command] = (*printed.get(command, ()), line)
    return printed


def uncompared_output(path: Path) -> list[str]:
    """Return the lines of blocks that are neither a command line nor compared with an output.

    Outputs are compared below commands of ours in a `console` block.
    """
    ours = lines_of(path)
    compared = {row for line in ours if not line.reason for row in line.output}
    begins = {line.number for line in [*ours, *others_of(path)]}
    left, continued = [], False
    for number, text, _ in _code(path.read_text(encoding="utf-8")):
        line = text.removeprefix(_PRINTED)
        if number in begins or continued:
            continued = line.endswith("\\")
        elif line.strip() and line not in compared:
            left.append(f"{path.name}:{number}: {line}")
    return left


def others_of(path: Path) -> list[Line]:
    """Return the command lines of a page that begin with another program than ours."""
    page = str(path.relative_to(ROOT))
    return [
        Line(page=page, number=number, text=text, reason=said if kind == "not run" else "")
        for number, text, (kind, said) in _commands(path.read_text(encoding="utf-8"), _is_other)
    ]


def _is_ours(line: str) -> bool:
    return line.removeprefix("sudo ").startswith("stackproof ")


def _is_other(line: str) -> bool:
    word = line.split(" ", maxsplit=1)[0]
    return word in _PROGRAMS or _PATH.fullmatch(word) is not None


def _commands(
    text: str, wanted: Callable[[str], bool] = _is_ours
) -> Iterator[tuple[int, str, Mark]]:
    begun: tuple[int, str] | None = None
    for number, line, mark in _code(text):
        plain = line.strip().removeprefix("$ ").removeprefix(_PRINTED)
        if begun:
            begun = (begun[0], f"{begun[1][:-1]} {plain}")
        elif wanted(plain) and not line.startswith(("  ", _PRINTED)):
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
            if fence == "sh" or line.startswith("$ "):
                yield number, line, mark
            elif fence == "console":
                yield number, f"{_PRINTED}{line}", mark
        elif line.startswith("    ") and (inside or not before.strip()):
            inside = True
            yield number, line[4:], mark
        elif line.strip():
            inside = False
            marked = _MARK.search(line)
            mark = (marked[1], marked[2]) if marked else _NONE
        before = line


# What differs from machine to machine and from day to day, and a verdict.
_VARYING = (
    (re.compile(r"\bSHA256:[\w+/]+"), "KEY"),
    (re.compile(r"\b(?=[a-z]*\d)[0-9a-f]{12,}\b|(?<=-)[0-9a-f]{8}(?=\.json)"), "DIGEST"),
    (re.compile(r"(?<![\w./])/[\w./-]+"), "PATH"),
    (re.compile(r"\b(PASS|FAIL|INCONCLUSIVE)\b"), "VERDICT"),
    (re.compile(r"\d+(?:[.:-]\d+)*"), "NUMBER"),
    (re.compile(r" +"), " "),
)


def is_like(shown: Iterable[str], text: str) -> bool:
    """Say whether a text has the shape of an output that is shown, where `…` is any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else f"{re.escape(_without_varying(line))}\n" for line in shown
    )
    return re.fullmatch(pattern, _without_varying(text).rstrip("\n") + "\n") is not None


def _without_varying(text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.splitlines())
