"""A clone on this machine, read without believing it: its objects and refs, none of its settings.

The settings of a repository can name programs for git to start (a partial clone fetches what it
lacks; hooks, monitors, filters), and a folder of clones is often somebody else's. So git never
works in one. It works in a repository of our own with no settings, which borrows the clone's
objects, known by their digests, and has a copy of its refs.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stackproof.core.effects import files
from stackproof.core.errors import Reason, fail
from stackproof.core.limits import REFS

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# What git-check-ref-format(1) forbids, and a little more.
_NAME = re.compile(
    r"refs/(?!.*(?:\.\.|//|@\{|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![/.])"
)
_SYMBOLIC = "ref: "
_SETTINGS = "[core]\n\tbare = true\n\trepositoryformatversion = %d\n"
_LONG_IDS = "[extensions]\n\tobjectFormat = sha256\n"


@contextmanager
def opened(clone: Path) -> Iterator[Path]:
    """Give a bare repository that shows what a clone has; it is gone afterwards.

    Raises `StackproofError`: NO_NETWORK for what is no repository, as for one that is away,
    NOT_PERMITTED, DISK_FULL.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="stackproof-git-") as folder:
            _fill(Path(folder), clone)
            yield Path(folder)
    except OSError as error:
        raise files.translate(error, clone) from error


def _fill(view: Path, clone: Path) -> None:
    own, shared = _folders(clone)
    refs = _refs(shared)
    head = _line(own / "HEAD")
    if not (_ID.fullmatch(head) or _name_of(head)):
        raise fail(Reason.NO_NETWORK, f"`{clone}` is no git repository", hint="name a clone")
    objects = os.path.realpath(shared / "objects")
    if "\n" in objects or objects.startswith('"'):
        raise fail(Reason.INVALID_VALUE, f"`{clone}`: git cannot read a path like this")
    long_ids = any(len(commit) == 64 for commit in (*refs.values(), head))
    (view / "objects" / "info").mkdir(parents=True)
    (view / "refs").mkdir()
    settings = _SETTINGS % long_ids + (_LONG_IDS if long_ids else "")
    packed = "".join(f"{commit} {name}\n" for name, commit in sorted(refs.items()))
    shallow = [line for line in _text(shared / "shallow").split() if _ID.fullmatch(line)]
    for name, text in {
        "HEAD": f"{head}\n", "config": settings, "packed-refs": packed,
        "objects/info/alternates": f"{objects}\n",
        **({"shallow": "\n".join((*shallow, ""))} if shallow else {}),
    }.items():  # fmt: skip
        (view / name).write_bytes(text.encode(errors="surrogateescape"))


def _folders(clone: Path) -> tuple[Path, Path]:
    """Return git's own folder of a work tree, and the one that all work trees of a clone share."""
    own = clone
    if (clone / ".git").is_dir():
        own = clone / ".git"
    elif (clone / ".git").exists():
        own = clone / _line(clone / ".git").removeprefix("gitdir: ")
    common = _line(own / "commondir")
    return own, own / common if common else own


def _refs(folder: Path) -> dict[str, str]:
    """Return the refs of a repository with the commits, or tags, that they name."""
    found: dict[str, str] = {}
    for line in _text(folder / "packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        _add(found, name, commit)
    symbolic: dict[str, str] = {}
    base = os.fspath(folder)
    for inner, _, names in os.walk(folder / "refs"):
        for name in names:
            path = os.path.join(inner, name)
            ref, value = os.path.relpath(path, base), _line(Path(path))
            if target := _name_of(value):
                symbolic[ref] = target
            else:
                _add(found, ref, value)
    for ref, target in symbolic.items():
        if target in found:
            _add(found, ref, found[target])
    return found


def _add(found: dict[str, str], name: str, commit: str) -> None:
    if _ID.fullmatch(commit) and _NAME.fullmatch(name) and len(found) < REFS.count:
        found[name] = commit


def _name_of(value: str) -> str | None:
    """Return the ref that a symbolic one names."""
    name = value.removeprefix(_SYMBOLIC)
    return name if value.startswith(_SYMBOLIC) and _NAME.fullmatch(name) else None


def _line(path: Path) -> str:
    return _text(path).partition("\n")[0].strip()


def _text(path: Path) -> str:
    """Return the text of a regular file, empty for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if path.is_symlink():
            return ""
        raise files.translate(error, path) from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        content = files.read_bounded(path, REFS, hint="pack its refs", stream=stream)
    return content.decode(errors="surrogateescape")
