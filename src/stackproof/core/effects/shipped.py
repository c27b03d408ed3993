"""Where the examples and data that come with stackproof lie: sites, recipes, knowledge.

In an installed wheel they are package data below `stackproof/data`, in a checkout they are the
folders of the same name beside `src`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from stackproof.core.errors import Reason, did_you_mean, fail

_PACKAGE = Path(__file__).resolve().parents[2]
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
    """Return the names that can be asked for, sorted.

    Sites and recipes are named without `.yaml`, those for Spack `spack/NAME`; knowledge is named by
    the path below its folder.
    """
    folder = root(kind)
    if kind == "recipes":
        found = (*folder.glob(f"*{_SUFFIX}"), *folder.glob(f"spack/*{_SUFFIX}"))
        return tuple(sorted(path.relative_to(folder).as_posix()[: -len(_SUFFIX)] for path in found))
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
        file = name + _SUFFIX
        here = kind != "knowledge" and Path(file).is_file()
        guess = f"the file here is `./{file}`; " if here else did_you_mean(name, known)
        raise fail(
            Reason.FILE_MISSING,
            f"no {kind.removesuffix('s')} `{name}` comes with stackproof",
            hint=f"{guess}there are: {', '.join((*_list_own(kind), *known)) or 'none'}",
        )
    return root(kind) / (name if kind == "knowledge" else name + _SUFFIX)


def _list_own(kind: str) -> list[str]:
    """Return the sites, or recipes, that lie in the current folder, as they can be asked for."""
    from stackproof.core import kinds, limits  # noqa: PLC0415 - for failures only

    every = sorted(path for path in Path().glob(f"*{_SUFFIX}") if path.is_file())
    paths = [path for path in every if path.name.isprintable()]
    heads: dict[Path, bytes] = {}
    for path in paths[: limits.KIND.count]:
        with contextlib.suppress(OSError):
            heads[path] = _head(path, limits.KIND.bytes)
    return [f"./{path}" for path, head in heads.items() if f"{kinds.kind_of_file(head)}s" == kind]


def _head(path: Path, most: int) -> bytes:
    """Return the first bytes of a file that nobody named: none of a pipe, nor of `/proc`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        state = os.fstat(descriptor)
        is_file = stat.S_ISREG(state.st_mode) and state.st_size > 0
        return os.pread(descriptor, most, 0) if is_file else b""
    finally:
        os.close(descriptor)


def has(path: Path) -> bool:
    """Return True for a file that is one of the shipped recipes."""
    return path.resolve().is_relative_to(root("recipes").resolve())


def benchmark_sources(part: str = "") -> dict[str, str]:
    """Return the C sources of the benchmark program, or of a folder of it, by name, in order."""
    folder = _PACKAGE / "bench" / "programs" / "csrc" / part
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(folder.iterdir())
        if path.suffix in {".c", ".h"}
    }
