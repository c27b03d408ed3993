"""Fit what RPMs held to its new place; runs inside the build sandbox.

    python -I -S vendor_worker.py CHANGES

CHANGES is a JSON file: links to make, libraries with their search path and the names that are added
or replaced, texts in which the vendor's folders are replaced, and what wrappers of compilers get.
patchelf 0.14 mixes up what it is told of in one call, so it is told one thing at a time.

Imports nothing of the package: it is started with `-I`, from where the package is not seen.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_TOOL_TIMEOUT_S = 600


def main(changes: str) -> None:
    """Make all changes below the folder that the file names."""
    os.umask(0o022)
    asked = json.loads(Path(changes).read_text(encoding="utf-8"))
    mount = Path(asked["mount"])
    for target, text in asked["links"].items():
        place = mount / target
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(text)
    for target, change in asked["libraries"].items():
        patch(str(mount / target), change)
    for target in asked["texts"]:
        place = mount / target
        content = place.read_bytes()
        place.write_bytes(rewritten(content, asked, wrapper=target in asked["wrappers"]))


def patch(path: str, change: dict[str, Any]) -> None:
    """Give a library its search path, and the names that it needs."""
    mode = os.stat(path).st_mode
    os.chmod(path, mode | 0o200)
    _patchelf("--force-rpath", "--set-rpath", change["rpath"], path)
    for old, new in change["replace"].items():
        _patchelf("--replace-needed", old, new, path)
    for name in change["add"]:
        _patchelf("--add-needed", name, path)
    os.chmod(path, mode)


def _patchelf(*words: str) -> None:
    argv = ["patchelf", *words]  # that of the sandbox
    done = subprocess.run(argv, check=False, timeout=_TOOL_TIMEOUT_S)  # noqa: S603 - as above
    if done.returncode != 0:
        sys.exit(f"error: patchelf failed on {words[-1]}")


def rewritten(content: bytes, asked: dict[str, Any], *, wrapper: bool) -> bytes:
    """Return a text with the new folders; of a wrapper also with its compiler and libraries."""
    text = content.decode("utf-8", "surrogateescape")
    if wrapper:
        for name, value in asked["variables"].items():
            text = _replaced(rf"^{name}=.*$", f'{name}="{value}"', text)
        library = re.escape(asked["library"])
        text = _replaced(rf"(?<![\w-])-l{library}(?![\w-])", asked["linked"], text)
    for old in sorted(asked["moved"], key=len, reverse=True):
        text = text.replace(old, asked["moved"][old])
    return text.encode("utf-8", "surrogateescape")


def _replaced(pattern: str, new: str, text: str) -> str:
    return re.sub(pattern, lambda _: new, text, flags=re.MULTILINE)


if __name__ == "__main__":
    main(*sys.argv[1:])
