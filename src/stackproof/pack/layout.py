"""Where things lie in a pack, and how one finds the other from its own place."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from stackproof.core.errors import Reason, fail

C_LIBRARY = re.compile(
    r"(?:ld-linux[\w-]*|ld64|libc|libm|libmvec|libpthread|libdl|librt|libutil|libresolv|libanl|"
    r"libnsl|libnss_\w+|libBrokenLocale|libthread_db|libgcc_s)\.so\.\d+"
)
"""What goes with the loader of a pack: glibc's libraries, and libgcc_s, which threads open."""
_NODE = re.compile(r"GLIBC_2\.(\d+)(?:\.\d+)?")
_RELATIVE_RELOCATIONS = 36  # glibc 2.36 brought GLIBC_ABI_DT_RELR


def is_inside(path: str, mount: str) -> bool:
    """Return true for a path below a mount point, whatever `..` it has."""
    return posixpath.normpath(path).startswith(f"{mount}/")


def is_loader(interpreter: str) -> bool:
    """Return true for the name of glibc's loader: what a program names may be any file."""
    name = posixpath.basename(interpreter)
    return name.startswith("ld") and C_LIBRARY.fullmatch(name) is not None


def program_place(path: str) -> str:
    """Return where the program itself lies, when its entry point takes its path.

    It is as deep in the tree and has the same name: what looks for `../lib` from there finds it.
    """
    folder, name = posixpath.split(path)
    above, last = posixpath.split(folder)
    return posixpath.join(above, f".{last}", name)


def run_path(file: str, folders: Iterable[str]) -> str:
    """Return a run path that leads from a file to folders, all of them paths in the pack."""
    here = posixpath.dirname(file)
    found = dict.fromkeys(posixpath.relpath(folder, here) for folder in folders)
    return ":".join("$ORIGIN" if path == "." else f"$ORIGIN/{path}" for path in found)


def floor_of(nodes: Iterable[str]) -> int:
    """Return the x of the newest GLIBC_2.x among version nodes, 0 for none."""
    found = [0]
    for node in nodes:
        match = _NODE.fullmatch(node)
        if match:
            found.append(int(match[1]))
        elif node == "GLIBC_ABI_DT_RELR":
            found.append(_RELATIVE_RELOCATIONS)
    return max(found)


def check_inside(text: str, option: str) -> str:
    """Return a path in the pack as it is written there; raises `StackproofError` (USAGE)."""
    path = posixpath.normpath(text.strip("/"))
    if not path or path.split("/")[0] in {"..", "."}:
        raise fail(
            Reason.USAGE,
            f"`{option} {text}`: this is no path in the pack",
            hint="write it from the pack's folder on, for example `opt/bin`",
        )
    return path
