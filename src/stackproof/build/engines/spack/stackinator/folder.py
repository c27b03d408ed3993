"""Folders as values: what the folder of a recipe or a cluster holds, read before it is judged."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import field

from stackproof.build.engines.spack.stack import FileEntry
from stackproof.core.value import Value

# A name that becomes the name of a folder: no separator, no `..`, nothing a shell would read.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


class Folder(Value):
    """The files of a folder, symbolic links followed.

    `path` is how people know it. `files` has every file by its path below the folder; `texts` the
    bytes of those that may have to be read: documents, hooks and what hooks include.
    """

    path: str
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def place(self, name: str) -> str:
        """Return the path of one of its files as people know it."""
        return f"{self.path.rstrip('/')}/{name}"

    def below(self, prefix: str) -> dict[str, FileEntry]:
        """Return the files of a folder in it, by their path below that."""
        start = prefix.rstrip("/") + "/"
        return {
            path.removeprefix(start): entry
            for path, entry in self.files.items()
            if path.startswith(start)
        }
