"""What is found while documents are read: problems and notes, collected instead of raised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import field

from stackproof.build.engines.spack.stackinator.versions import other_version_of
from stackproof.build.plan import Copy
from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value, replace

# --------------------------------------------------------------------------------------------------
# Folders as values: what the folder of a recipe or a cluster holds, read before it is judged.

# A name that becomes the name of a folder: no separator, no `..`, nothing a shell would read.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Folder(Value):
    """The files of a folder, symbolic links followed.

    `path` is how people know it. `files` has every file by its path below the folder; `texts` the
    bytes of those that may have to be read: documents, hooks and what hooks include. What goes with
    a recipe of one file is laid out in the same way: `parts` are the parts of that file by the name
    that each has as a file of its own, and `places` says what a file is called by people.
    """

    path: str
    files: Mapping[str, Copy] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Document] | None = None

    def has(self, name: str) -> bool:
        """Return whether there is a document of this name."""
        return name in (self.texts if self.parts is None else self.parts)

    def place(self, name: str) -> str:
        """Return the path of one of its files as people know it."""
        if self.parts is not None:
            return self.places.get(name, self.path)
        return f"{self.path.rstrip('/')}/{name}"

    def below(self, prefix: str) -> dict[str, Copy]:
        """Return the files of a folder in it, by their path below that."""
        start = prefix.rstrip("/") + "/"
        return {
            path.removeprefix(start): entry
            for path, entry in self.files.items()
            if path.startswith(start)
        }


KeyPath = tuple[str | int, ...]
# What is called so in a recipe of several files, where there is one file only.
_ONE_FILE = {
    "config.yaml says version": "`generation` here is",
    "`version: 3` in config.yaml": "`generation: 3`",
    "compilers.yaml": "`compilers`",
    "in compilers.yaml": "under `compilers`",
    "the packages.yaml of the recipe": "`packages` of the recipe",
    "in a packages.yaml": "under `packages` here or in the site's packages.yaml",
}


class FindingsList:
    """Problems (nothing can be built) and notes (somebody should know), in the order found."""

    def __init__(self, *, one_file: bool = False) -> None:
        self.one_file = one_file
        self.problems: list[Problem] = []
        self.notes: list[Problem] = []

    def problem(
        self, reason: Reason, message: str, *, where: Location, hint: str | None = None
    ) -> None:
        """Add a problem."""
        self.problems.append(Problem(reason=reason, message=message, where=where, hint=hint))

    def note(self, message: str, *, where: Location, hint: str | None = None) -> None:
        """Add something that keeps nobody from going on."""
        self.notes.append(
            Problem(reason=Reason.INVALID_VALUE, message=message, where=where, hint=hint)
        )

    def called(self, words: str) -> str:
        """Return what something is called in recipes of this form."""
        return _ONE_FILE[words] if self.one_file else words

    def raise_problems(self) -> None:
        """Raise all problems at once, if there are any."""
        if self.problems:
            unique = {(p.reason, p.message, str(p.where)): p for p in self.problems}
            raise StackproofError(*unique.values())

    def parse(
        self, folder: Folder, name: str, needed_by: str = "", hint: str | None = None
    ) -> Document | None:
        """Return a document of a folder; None when it is not there or cannot be read.

        That one is not there which something is `needed_by` is a problem. Of a key that stands
        twice the last value counts, as for Stackinator; that is a note.
        """
        if needed_by and not folder.has(name):
            message, where = f"{needed_by} needs a file `{name}`", Location(file=folder.place(name))
            alike = [other for other in folder.files if other[:6] == name[:6]]
            hint = f"rename `{alike[0]}`, which is there" if alike else hint
            self.problem(Reason.FILE_MISSING, message, where=where, hint=hint)
        if folder.parts is not None:
            return folder.parts.get(name)
        text = folder.texts.get(name)
        if text is None:
            return None
        repeated: list[Problem] = []
        try:
            return documents.parse(text, file=folder.place(name), repeated=repeated)
        except StackproofError as error:
            self.problems += error.problems
            return None
        finally:
            self.notes += [
                replace(problem, message=f"{problem.message}; the last value counts")
                for problem in repeated
            ]

    def read(
        self,
        folder: Folder,
        name: str,
        schema: str,
        version: int | None = None,
        needed_by: str = "",
        hint: str | None = None,
    ) -> Document | None:
        """Return a document that fits its schema, None without one; see `parse` and `check`."""
        document = self.parse(folder, name, needed_by, hint)
        return document if document and self.check(document, schema, version) else None

    def check(self, document: Document, schema: str, version: int | None = None) -> bool:
        """Return whether a document fits its schema; what does not is a problem.

        With the `version` of a recipe, a key that only another version has says so.
        """
        found = documents.problems(document, schema)
        if version is not None:
            paths = {
                place: path[:-1]
                for path, place in document.positions.items()
                if document.where_key(*path[:-1]) is place
            }
            said = f"{self.called('config.yaml says version')} {version}"
            topic = schema.split("-")[1]
            found = tuple(_versioned(p, topic, paths, version, said) for p in found)
        self.problems += found
        return not found


class DocumentPart(NamedTuple):
    """A part of a document that is read: where it stands, and who is told what is wrong with it.

    Paths are below it; one that ends with `core.document.KEY` means the place of a key.
    """

    document: Document
    findings: FindingsList
    at: KeyPath = ()

    def below(self, *path: str | int) -> DocumentPart:
        """Return a part of it."""
        return DocumentPart(self.document, self.findings, (*self.at, *path))

    def where(self, *path: str | int) -> Location:
        """Return the place of something in it."""
        return self.document.where(*self.at, *path)

    def problem(
        self, path: KeyPath, message: str, hint: str | None, reason: Reason = Reason.INVALID_VALUE
    ) -> None:
        """Add a problem of what stands at a path."""
        self.findings.problem(reason, message, where=self.where(*path), hint=hint)

    def note(self, path: KeyPath, message: str, hint: str | None = None) -> None:
        """Add a note on what stands at a path."""
        self.findings.note(message, where=self.where(*path), hint=hint)

    def check_name(self, name: str, what: str) -> None:
        """Find out whether a key may become the name of a folder."""
        if not NAME.fullmatch(name):
            message = f"`{_shown(name)}` cannot be the name of {what}"
            hint = "use letters, digits, `_`, `-` and `.`; the first one a letter or a digit"
            self.problem((documents.KEY,), message, hint)

    def check_relative(self, path: KeyPath, text: str, what: str) -> bool:
        """Return whether a path stays below the folder it is in; one that leaves is a problem."""
        parts = text.split("/")
        if text and not text.startswith("/") and ".." not in parts and text.isprintable():
            return True
        message = f"`{_shown(text)}` is not a path inside of {what}"
        self.problem(path, message, "write it relative, without `..`")
        return False


def _versioned(
    problem: Problem, topic: str, paths: Mapping[Location, Any], version: int, said: str
) -> Problem:
    """Return a problem of an unknown key with what is known of the key elsewhere."""
    path = paths.get(problem.where) if problem.where else None
    if problem.reason is not Reason.UNKNOWN_KEY or path is None:
        return problem
    known = other_version_of((topic, *path), version, said)
    return replace(problem, hint=known) if known else problem


def _shown(text: str) -> str:
    return re.sub(r"[^ -~]", "?", text)[:80]


def mapping(value: Any) -> dict[str, Any]:
    """Return a value that is a mapping, or an empty one for what is none."""
    return value if isinstance(value, dict) else {}


def strings(value: Any) -> tuple[str, ...]:
    """Return the texts of a list, or none for what is no list."""
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def externals(package: Any) -> list[dict[str, Any]]:
    """Return what the settings of a package say that a machine has; one without form is empty."""
    entries = mapping(package).get("externals")
    return [mapping(entry) for entry in entries] if isinstance(entries, list) else []
