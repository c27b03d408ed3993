"""Words that change one package of a recipe (`--with mpi=mpich@5.0.2`), and what came of them.

A swap is a pure change of the recipe: an engine says which keys it lays over it, how deep that
goes, and why. What is built then is what a recipe with these keys means.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import field

from stackproof.core.document import Document, Path
from stackproof.core.errors import Location, Problem, Reason, StackproofError, did_you_mean
from stackproof.core.value import Value

MPI, LIBFABRIC = "mpi", "libfabric"
_SLUG = re.compile(r"[^a-z0-9.]+")
_LONGEST_NAME, _LONGEST_DESCRIPTION = 63, 500


class SwapKind(StrEnum):
    """What a word changes of a package: which one it is, its source, or its text."""

    WITH = "--with"
    SOURCE = "--with-source"
    PATCH = "--with-patch"


_FORMS = {
    SwapKind.WITH: "PACKAGE=NAME[@VERSION]",
    SwapKind.SOURCE: "PACKAGE=URL or PACKAGE=FILE",
    SwapKind.PATCH: "PACKAGE=FILE",
}


class Depth(StrEnum):
    """How deep a swap goes, the shallowest first."""

    INJECT = "inject"
    """The replacement is put under programs as they are: nothing is compiled again."""
    SPLICE = "splice"
    """Spack builds what it has, and links it with the replacement."""
    REBUILD = "rebuild"
    """The package, and what needs it, is obtained or compiled again."""


class SwapWord(Value):
    """A word of the command line: `value` is what PACKAGE becomes, or gets."""

    kind: SwapKind
    package: str
    value: str

    @property
    def text(self) -> str:
        """Return it as it was given."""
        return f"{self.kind} {self.package}={self.value}"

    @property
    def name(self) -> str:
        """Return the name of the replacement, empty where only a version is given."""
        name = self.value.partition("@")[0]
        return "" if name[:1].isdigit() else name

    @property
    def version(self) -> str | None:
        """Return the version of the replacement, None where none is given."""
        name, _, version = self.value.partition("@")
        return name if name[:1].isdigit() else version or None

    def problem(
        self, message: str, hint: str | None = None, *, reason: Reason = Reason.UNSUPPORTED
    ) -> Problem:
        """Return a problem of this word."""
        return Problem(reason=reason, message=message, hint=hint, where=Location(file=self.text))

    def unknown(self, names: Iterable[str]) -> Problem:
        """Return the problem that a recipe has no such package."""
        known = list(names)
        guess = did_you_mean(self.package, known)
        hint = f"{guess}the recipe has: {', '.join(known)}"
        message = f"there is no package `{self.package}` to be swapped"
        return self.problem(message, hint, reason=Reason.INVALID_VALUE)


class Swap(Value):
    """What one word came to: `why` says what decided the depth."""

    word: str
    depth: Depth
    why: str

    def __str__(self) -> str:
        return f"{self.word}: {self.depth}: {self.why}"


class RecipeOverlay(Value):
    """The keys that a word lays over a recipe, and how deep the swap goes."""

    data: Mapping[str, Any] = field(default_factory=dict)
    depth: Depth = Depth.REBUILD
    why: str = ""


Swapper = Callable[[Document, SwapWord], RecipeOverlay]
"""What an engine lays over a recipe for a word; it raises `StackproofError` with all problems."""


def parse_words(
    with_: Sequence[str] = (), source: Sequence[str] = (), patch: Sequence[str] = ()
) -> tuple[SwapWord, ...]:
    """Return the words of the command line.

    Raises `StackproofError` (USAGE) for words of another form, and for two on the same package.
    """
    given = {SwapKind.WITH: with_, SwapKind.SOURCE: source, SwapKind.PATCH: patch}
    words: list[SwapWord] = []
    problems: list[Problem] = []
    for kind, texts in given.items():
        for text in texts:
            package, mark, value = text.partition("=")
            if not (package and mark and value.strip("@")):
                message = f"`{kind} {text}` is not of the form {_FORMS[kind]}"
                problems.append(Problem(reason=Reason.USAGE, message=message))
                continue
            words.append(SwapWord(kind=kind, package=package, value=value))
    seen: dict[tuple[SwapKind, str], SwapWord] = {}
    for word in words:
        if (before := seen.setdefault((word.kind, word.package), word)) is not word:
            message = f"`{before.text}` and `{word.text}` are about the same package"
            hint = "give one of them"
            problems.append(Problem(reason=Reason.USAGE, message=message, hint=hint))
    if problems:
        raise StackproofError(*problems)
    return tuple(words)


def apply(
    document: Document, words: Sequence[SwapWord], swapper: Swapper, *, suffix: str = ""
) -> tuple[Document, tuple[Swap, ...]]:
    """Return what words lay over a recipe, as a document, and what each came to.

    Each value's place is its word. `suffix` is what the matrix adds to the recipe's name. Raises
    `StackproofError` with the problems of all words.
    """
    data: dict[str, Any] = {}
    positions: dict[Path, Location] = {(): document.where()}
    swaps: list[Swap] = []
    problems: list[Problem] = []
    for word in words:
        try:
            overlay = swapper(document, word)
        except StackproofError as error:
            problems += error.problems
            continue
        _merge(data, overlay.data)
        positions |= {path: Location(file=word.text) for path in _paths(overlay.data)}
        swaps.append(Swap(word=word.text, depth=overlay.depth, why=overlay.why))
    if problems:
        raise StackproofError(*problems)
    name = str(document.data.get("name", "")).removesuffix(suffix)
    data["name"] = f"{name}-with-{slug(words)}"[: _LONGEST_NAME - len(suffix)].rstrip("-.")
    # No path of the user's machine gets into an image.
    given = ", ".join(f"{word.package}={posixpath.basename(word.value)}" for word in words)
    data["description"] = f"{name} with {given}"[:_LONGEST_DESCRIPTION]
    return Document(file=document.file, data=data, positions=positions), tuple(swaps)


def slug(words: Sequence[SwapWord]) -> str:
    """Return words as a part of names: `mpich-5.0.2`."""
    parts = []
    for word in words:
        whole = word.value if word.kind is SwapKind.WITH else f"{word.kind[7:]}-{word.package}"
        whole = whole if word.kind is not SwapKind.WITH or word.name else f"{word.package}-{whole}"
        parts.append(_SLUG.sub("-", whole.lower()).strip("-."))
    return "-".join(parts)


def _merge(data: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        there = data.get(key)
        if isinstance(there, dict) and isinstance(value, Mapping):
            _merge(there, value)
        else:
            data[key] = dict(value) if isinstance(value, Mapping) else value


def _paths(data: Any, path: Path = ()) -> Iterable[Path]:
    if path:
        yield path
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _paths(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _paths(value, (*path, index))
