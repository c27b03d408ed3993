"""The plug-in for `srun --image` on a cluster of this machine: built from a checkout, or installed.

It is built once for each state of its sources and each release of Slurm, and kept in the cache.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from stackproof.cluster.effects import link
from stackproof.cluster.options import SlurmOptions
from stackproof.cluster.slurm import PACKAGES, SlurmSpec, SpankPlugin
from stackproof.core.command import Command
from stackproof.core.effects import cache_folder, cache_kinds
from stackproof.core.effects.run import run
from stackproof.core.errors import StackproofError
from stackproof.core.value import replace

NAME = "stackproof_spank.so"
_KIND = "native"
_BUILD_S = 300.0
_ASK_S = 10.0
_KEPT_BYTES = 64 << 20
_SOURCES = Path(__file__).resolve().parents[4] / "native"
_PARTS = ("core", "spank")
_HEADERS = "/usr/include"
_TOOLS = ("meson", "ninja", "cc")


def find() -> tuple[SpankPlugin | None, str]:
    """Return the plug-in as a cluster loads it, or None and why there is none."""
    built, why = _built()
    path = built or _installed()
    if path is None:
        return None, why
    program = os.path.join(sys.prefix, "bin", "stackproof")
    usable = os.access(program, os.X_OK) and not any(letter.isspace() for letter in program)
    arguments = (f"stackproof={program}",) if usable else ()
    return SpankPlugin(path=os.fspath(path), arguments=arguments, copied=True), ""


def with_own(spec: SlurmSpec | None, options: SlurmOptions) -> tuple[SlurmSpec | None, str]:
    """Return what is wanted with the plug-in for `--image`, and a note where it is not had.

    It is left out where it is named already, or not wanted.
    """
    if spec is None or options.no_images or spec.plugstack:
        return spec, ""
    if any(os.path.basename(plugin.path) == NAME for plugin in spec.spank):
        return spec, ""
    own, why = find()
    if own is None:
        return spec, f"jobs have no `--image`: {why}"
    return replace(spec, spank=(*spec.spank, own)), ""


def missing() -> tuple[str, ...]:
    """Return what building the plug-in needs and is not installed; none where it is not built."""
    if not (_SOURCES / "spank").is_dir():
        return ()
    names = tuple(name for name in _TOOLS if not _tool(name))
    header = f"{_HEADERS}/slurm/spank.h"
    return names if os.path.isfile(header) else (header, *names)


def _built() -> tuple[Path | None, str]:
    """Return the plug-in made from the sources beside this package, or why that cannot be."""
    if not (_SOURCES / "spank").is_dir():
        return None, "this installation has no sources of the plug-in, and none is installed"
    if names := missing():
        command = f"apt-get install {' '.join(PACKAGES)}"
        return None, f"`{'`, `'.join(names)}` is not installed (on Debian and Ubuntu: {command})"
    place = cache_kinds.home(_KIND) / _digest()
    try:
        with cache_folder.alone(place):
            if not (place / NAME).exists():
                with cache_folder.making(place) as folder:
                    why = _build(folder)
                    if why:
                        return None, why
                cache_folder.prune(_KIND, _KEPT_BYTES, keep=place)
    except StackproofError as error:
        return None, str(error.problems[0].message)
    cache_folder.used(place)
    return place / NAME, ""


def _build(folder: Path) -> str:
    """Build the plug-in into a folder; return why it could not be, or nothing."""
    argv = (os.fspath(_SOURCES / "spank" / "build-against"), _HEADERS, os.fspath(folder))
    done = run(Command(argv=argv, timeout_s=_BUILD_S))
    if done.returncode == 0:
        return ""
    lines = (done.stderr + done.stdout).decode(errors="replace").strip().splitlines()
    return f"the plug-in cannot be built: {lines[-1] if lines else 'no reason was given'}"


def _installed() -> Path | None:
    """Return the plug-in in the folder of this machine's Slurm; its own library lies there too."""
    argv = ("ldd", _tool("srun"))
    done = run(Command(argv=argv, timeout_s=_ASK_S)) if argv[1] else None
    for line in done.stdout.decode(errors="replace").splitlines() if done else ():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow and name.startswith("libslurmfull"):
            path = Path(rest.split(" (")[0]).parent / NAME
            return path if path.is_file() else None
    return None


def _digest() -> str:
    """Return what the built file depends on, as one word."""
    digest = hashlib.sha256()
    for path in _files((*_PARTS, "meson.build", "meson_options.txt", "version.sh")):
        digest.update(f"{path.relative_to(_SOURCES)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for name in ("spank.h", "slurm_version.h"):
        path = Path(_HEADERS, "slurm", name)
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:32]


def _files(names: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for name in names:
        path = _SOURCES / name
        found += [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sorted(found)


@functools.cache
def _tool(name: str) -> str:
    return shutil.which(name, path=link.search_path()) or ""
