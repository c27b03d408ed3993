"""Where the examples and data that come with stackproof lie: sites, recipes, knowledge.

In an installed wheel they are package data below `stackproof/data`, in a checkout they are the
folders of the same name beside `src`.
"""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path

from stackproof.errors import Reason, fail

_PACKAGE = Path(__file__).resolve().parent.parent
_SUFFIX = ".yaml"
KINDS = ("sites", "recipes", "knowledge")


def root(kind: str) -> Path:
    """Return the folder of a kind (`sites`, `recipes` or `knowledge`).

    Raises `StackproofError` (FILE_MISSING) when the installation lacks it.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not one of: {', '.join(KINDS)}")
    for folder in (_PACKAGE / "data" / kind, _PACKAGE.parent.parent / kind):
        if folder.is_dir():
            return folder
    raise fail(
        Reason.FILE_MISSING,
        f"the folder of shipped {kind} is missing from this installation",
        hint="install stackproof again",
    )


def names(kind: str) -> tuple[str, ...]:
    """Return what can be asked for by name, sorted.

    Sites and recipes are named without `.yaml`; knowledge is named by the path below its folder.
    """
    folder = root(kind)
    if kind == "knowledge":
        files = (path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
        return tuple(sorted(path.relative_to(folder).as_posix() for path in files))
    return tuple(sorted(path.stem for path in folder.glob(f"*{_SUFFIX}")))


def find(kind: str, name: str) -> Path:
    """Return the file of a shipped site, recipe or piece of knowledge.

    Raises `StackproofError` (FILE_MISSING) that lists the names there are, the closest one first.
    """
    known = names(kind)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"did you mean `{close[0]}`? " if close else ""
        raise fail(
            Reason.FILE_MISSING,
            f"no {kind.removesuffix('s')} `{name}` comes with stackproof",
            hint=f"{guess}there are: {', '.join(known) or 'none'}",
        )
    return root(kind) / (name if kind == "knowledge" else name + _SUFFIX)


def benchmark_sources() -> dict[str, str]:
    """Return the C sources of the benchmark program by name, in order."""
    folder = resources.files("stackproof.benchmarks") / "csrc"
    return {
        entry.name: entry.read_text()
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith((".c", ".h"))
    }
