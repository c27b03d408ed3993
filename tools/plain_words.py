"""Count what a program can count of the plain words of CODING_STYLE.md.

python tools/plain_words.py [--update]

Counts stand in plain_words.json, by kind and by folder. A count that grew is printed with its
places, those of the files changed last if there are any, and the exit code is 1. `--update` writes
the counts that fell, and no others; it writes all where there is no file.
"""

from __future__ import annotations

import ast
import collections
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
COUNTS = ROOT / "tools" / "plain_words.json"
WORDS = ROOT / "tools" / "misspelt.txt"
LONGEST = 30
"""Words that a sentence may have."""
BANNED_NAMES = frozenset({"found", "one", "wanted", "asked", "said", "told"})
# What a program or a verb calls is named by its caller.
_CALLED_BY_OTHERS = frozenset({"main", "run"})

_OPENING = re.compile(
    r"(?:(?:Return|Yield|Say|Tell|Give|Show)s? )?"
    r"(?:what|whether|how|who|whom|whose|which|where|why)\b",
    re.IGNORECASE,
)
# A statement that begins with a word for a question has no noun for its subject.
_HEADLESS = re.compile(
    r"(?:(?:And|But|So|Then) )?(?:who|what|whoever|whom|which|whose|that which)\b(?!.*[?:]\W*$)",
    re.IGNORECASE | re.DOTALL,
)
_EXIT = re.compile(r"\bend(?:s|ed)? with (?:exit code )?`?\d")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"``.+?``|`[^`]+`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?])[)\"'*_]*\s+(?=[(\"'*_]*[A-Z\d])")
_WORD = re.compile(r"[A-Za-z]+")

Counts = Mapping[str, Mapping[str, int]]


class Place(NamedTuple):
    """A place that a rule forbids: its kind, its file below the root, its line, and its text."""

    kind: str
    file: str
    line: int
    text: str

    @property
    def folder(self) -> str:
        """The room of `src`, the folder of `docs`, or the file itself."""
        parts = Path(self.file).parts[:-1]
        return "/".join(parts[:3] if parts[:1] == ("src",) else parts[:2]) or self.file


def read_misspelt(text: str) -> dict[str, str]:
    """Return the right spelling for each wrong one; a row holds both, `#` begins a comment."""
    rows = (line.split(maxsplit=1) for line in text.splitlines() if line[:1] not in {"", "#"})
    return {wrong: right.strip() for wrong, right in rows}


def check_python(text: str, file: str, misspelt: Mapping[str, str]) -> Iterator[Place]:
    """Yield the places of a module: its names, its docstrings, its comments and its messages."""
    tree = ast.parse(text)
    yield from _check_names(tree, file)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for line in _EXIT.findall(node.value):
                yield Place("exit", file, node.lineno, f"{line}: write `exits with`")
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if not docstring:
                continue
            number = node.body[0].lineno
            if _OPENING.match(docstring):
                yield Place("docstring", file, number, docstring.splitlines()[0])
            yield from _check_spelling(docstring, file, number, misspelt)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _check_spelling(token.string, file, token.start[0], misspelt)


def _check_names(tree: ast.Module, file: str) -> Iterator[Place]:
    """Yield the public functions of one word, and the variables that fit everything."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) if "_" not in name and name not in _CALLED_BY_OTHERS:
                yield Place("function", file, node.lineno, f"{name}: write a verb and its object")
    for part in ast.walk(tree):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) if name in BANNED_NAMES:
                yield Place("name", file, part.lineno, name)
            case ast.arg(arg=name) if name in BANNED_NAMES:
                yield Place("name", file, part.lineno, name)


def check_page(text: str, file: str, misspelt: Mapping[str, str]) -> Iterator[Place]:
    """Yield the places of a page; code and tables are left out."""
    for number, paragraph in _paragraphs(text):
        for at, sentence in _sentences(paragraph):
            line = number + paragraph[:at].count("\n")
            words = [word for word in sentence.split() if any(map(str.isalnum, word))]
            if len(words) > LONGEST:
                yield Place("sentence", file, line, f"{len(words)} words: {' '.join(words[:8])} …")
            if _HEADLESS.match(sentence):
                yield Place("headless", file, line, " ".join(words[:8]))
            yield from _check_spelling(sentence, file, line, misspelt)
            for match in _EXIT.findall(sentence):
                yield Place("exit", file, line, f"{match}: write `exits with`")


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs and items of a page with their first line; code in them is one word."""
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    lines: list[str] = []
    fenced = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        code = fenced or fence or line.startswith(("    ", "|", "#"))
        if lines and (code or not line.strip() or _ITEM.match(line)):
            yield number - len(lines), _without_markup("\n".join(lines))
            lines = []
        if line.strip() and not code:
            lines.append(line)


def _without_markup(text: str) -> str:
    """Return a paragraph with links as their text, and code as one word; it keeps its lines."""

    def word(match: re.Match[str]) -> str:
        number = match[0].strip("`")
        return number if number.isdecimal() else "Code" + "\n" * match[0].count("\n")

    text = _CODE.sub(word, text)
    text = _LINK.sub(lambda match: match[1] + "\n" * match[0][len(match[1]) :].count("\n"), text)
    return _ITEM.sub("", text, count=1) if _ITEM.match(text) else text


def _sentences(paragraph: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a paragraph, each with the offset that it begins at."""
    begin = 0
    for match in _END.finditer(paragraph):
        yield begin, paragraph[begin : match.start()]
        begin = match.end()
    yield begin, paragraph[begin:]


def _check_spelling(
    text: str, file: str, line: int, misspelt: Mapping[str, str]
) -> Iterator[Place]:
    for match in _WORD.finditer(_CODE.sub("", text)):
        right = misspelt.get(match[0].lower())
        if right:
            yield Place("spelling", file, line, f"{match[0]}: write `{right}`")


def check_project(root: Path = ROOT) -> list[Place]:
    """Return every place of the project, in the order of the files."""
    misspelt = read_misspelt(WORDS.read_text())
    places: list[Place] = []
    for path in sorted((root / "src").rglob("*.py")):
        places += check_python(path.read_text(), path.relative_to(root).as_posix(), misspelt)
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        places += check_page(path.read_text(), path.relative_to(root).as_posix(), misspelt)
    return places


def count(places: Iterable[Place]) -> dict[str, dict[str, int]]:
    """Return the number of places by kind and folder, both sorted."""
    totals = collections.Counter((place.kind, place.folder) for place in places)
    counts: dict[str, dict[str, int]] = {}
    for (kind, folder), number in sorted(totals.items()):
        counts.setdefault(kind, {})[folder] = number
    return counts


def changed_files(root: Path = ROOT) -> frozenset[str]:
    """Return the files that differ from the commit before the last, by git; none without git."""
    argv = ["git", "-C", str(root), "diff", "--name-only", "HEAD~1"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our words
    except OSError:
        return frozenset()
    return frozenset(done.stdout.splitlines())


def grown(
    places: Iterable[Place], counts: Counts, changed: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield a line for each count that grew, and its places: those of changed files, if any."""
    listed = list(places)
    for kind, folders in count(listed).items():
        for folder, number in folders.items():
            before = counts.get(kind, {}).get(folder, 0)
            if number > before:
                yield f"{kind}: {folder} has {number}, before {before}:"
                here = [place for place in listed if (place.kind, place.folder) == (kind, folder)]
                shown = [place for place in here if place.file in changed] or here
                yield from (f"  {place.file}:{place.line}: {place.text}" for place in shown)


def lower(new: Counts, counts: Counts) -> dict[str, dict[str, int]]:
    """Return the counts with those that fell; a count of nothing goes."""
    return {
        kind: kept
        for kind, folders in sorted(counts.items())
        if (
            kept := {
                folder: least
                for folder, before in sorted(folders.items())
                if (least := min(before, new.get(kind, {}).get(folder, 0)))
            }
        )
    }


def main(words: list[str]) -> int:
    """Check the project against its counts; return the exit code."""
    places = check_project()
    new = count(places)
    counts = json.loads(COUNTS.read_text()) if COUNTS.exists() else new
    lines = list(grown(places, counts, changed_files()))
    least = lower(new, counts)
    if "--update" in words:
        COUNTS.write_text(json.dumps(least, indent=1) + "\n")
    elif least != counts:
        print("plain words: counts fell; `python tools/plain_words.py --update` writes them")
    if lines:
        print("\n".join([*lines, "hint: CODING_STYLE.md, Plain words"]), file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
