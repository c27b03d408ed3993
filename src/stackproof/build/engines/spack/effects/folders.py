"""A folder to values: every file with its digest, symbolic links followed as far as allowed.

Recipes share folders by symbolic links (`repo -> ../gh200/repo`), so links are followed, and what
they point to is taken as if it lay there. A link may lead anywhere below one root and nowhere else:
the git checkout that the folder lies in, or the folder itself where there is none. So a recipe
brings what its collection has, and nothing of the machine.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import field

from stackproof.build.plan import Copy
from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.recipe.effects.inheritance import allowed_root

_SKIPPED = frozenset({".git"})
_INSTEAD = "copy what it points to, or run `git init` in the folder around both"


class Tree(Value):
    """The files of a folder: entries by path below it, texts of those asked for, real places.

    `blobs` maps a digest to a file on this machine that has it.
    """

    files: dict[str, Copy] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, Path] = field(default_factory=dict)


def read_tree(folder: str, *, root: str | None, wanted: Callable[[str], bool]) -> Tree:
    """Return all files below a folder; `wanted` says of which the bytes are kept in `texts`.

    `root` is the folder that links may not leave (None: as `allowed_root` says). Raises
    `StackproofError` with every problem at once: FILE_MISSING and NOT_PERMITTED, INVALID_VALUE for
    a link that leaves, leads nowhere or in a circle, and for what is no file; TOO_LARGE.
    """
    if not os.path.isdir(folder):
        message = f"there is no folder `{folder}`"
        raise fail(Reason.FILE_MISSING, message, where=Location(file=folder))
    reader = _Reader(folder, os.path.realpath(root or allowed_root(folder)), wanted)
    reader.read_folder("", (os.path.realpath(folder),))
    if reader.problems:
        raise StackproofError(*reader.problems)
    return reader.tree


class _Reader:
    def __init__(self, folder: str, root: str, wanted: Callable[[str], bool]) -> None:
        self.folder = folder
        self.root = root
        self.wanted = wanted
        self.tree = Tree()
        self.problems: list[Problem] = []
        self.bytes = 0

    def read_folder(self, below: str, around: tuple[str, ...]) -> None:
        """Read what is in a folder; `around` are the real folders it lies in, itself the last."""
        try:
            names = sorted(os.listdir(os.path.join(self.folder, below)))
        except OSError as error:
            self.problems += files.translate(error, os.path.join(self.folder, below)).problems
            return
        for name in names:
            if name not in _SKIPPED:
                self._read(os.path.join(below, name), around)

    def _read(self, path: str, around: tuple[str, ...]) -> None:
        shown = os.path.join(self.folder, path)
        real = os.path.realpath(shown)
        fault = self._fault(shown, real)
        if fault:
            self._problem(Reason.INVALID_VALUE, *fault, shown)
            return
        try:
            mode = os.stat(real, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                self._enter(path, real, around)
            elif stat.S_ISREG(mode):
                self._take(path, real)
            else:
                message = f"`{path}` is neither a file nor a folder"
                self._problem(Reason.INVALID_VALUE, message, "remove it", shown)
        except OSError as error:
            self.problems += files.translate(error, shown).problems

    def _fault(self, shown: str, real: str) -> tuple[str, str] | None:
        """Return what is wrong with where a path leads, and what to do."""
        if not os.path.islink(shown):
            return None
        target = os.readlink(shown)
        if not os.path.lexists(real) or os.path.islink(real):
            return f"the link to `{target}` leads nowhere", "correct or remove the link"
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            return (
                f"the link to `{target}` leaves `{self.root}`",
                f"links may lead anywhere in the git checkout around a recipe; {_INSTEAD}",
            )
        if _SKIPPED & set(os.path.relpath(real, self.root).split("/")):
            return f"the link to `{target}` leads into git's own files", "remove the link"
        return None

    def _enter(self, path: str, real: str, around: tuple[str, ...]) -> None:
        if real in around or len(around) > limits.FOLDER.depth:
            message = f"`{path}` leads back to a folder around it"
            self._problem(Reason.INVALID_VALUE, message, "remove the link", self.folder, path)
            return
        self.read_folder(path, (*around, real))

    def _take(self, path: str, real: str) -> None:
        if not path.isprintable():
            message = f"the name {path!r} is not text"
            self._problem(Reason.INVALID_VALUE, message, "rename the file", self.folder)
            return
        for chunk in self._content(real):
            digest = hashlib.sha256(chunk).hexdigest()
            executable = bool(os.stat(real).st_mode & 0o111)
            self.tree.files[path] = Copy(sha256=digest, executable=executable)
            self.tree.blobs.setdefault(digest, Path(real))
            if self.wanted(path):
                self.tree.texts[path] = chunk

    def _content(self, real: str) -> Iterator[bytes]:
        """Yield the bytes of a file, once; stops with a problem where it would be too much."""
        handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            self.bytes += os.fstat(stream.fileno()).st_size
            if self.bytes > limits.FOLDER.bytes or len(self.tree.files) >= limits.FOLDER.count:
                raise fail(
                    Reason.TOO_LARGE,
                    f"the folder has more than {limits.FOLDER.count} files or "
                    f"{limits.FOLDER.bytes} bytes, links followed",
                    where=Location(file=self.folder),
                    hint="check that this is the folder you meant",
                )
            yield stream.read()

    def _problem(self, reason: Reason, message: str, hint: str, *where: str) -> None:
        location = Location(file=os.path.join(*where))
        self.problems.append(Problem(reason=reason, message=message, hint=hint, where=location))


def read_file(path: str) -> bytes:
    """Return the bytes of a document; raises as `core.effects.documents.load` does."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                message = f"`{path}` is not a file"
                raise fail(Reason.INVALID_VALUE, message, where=Location(file=path))
            return stream.read(limits.DOCUMENT.bytes + 1)
    except OSError as error:
        raise files.translate(error, path) from error
