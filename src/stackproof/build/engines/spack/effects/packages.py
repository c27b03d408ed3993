"""The package that a Spack stack would use for a name: its text, in the recipe or in a clone."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from stackproof.build.effects import git
from stackproof.build.engines.spack import configuration, os_sources
from stackproof.build.engines.spack.packagefile import PackageFacts, read_package
from stackproof.build.engines.spack.stack import LockedClone, SpackStack
from stackproof.core.command import Command
from stackproof.core.effects import files
from stackproof.core.effects.run import run
from stackproof.core.errors import Reason, fail
from stackproof.core.monitor import Monitor

# Where Spack before 1.0 has its packages, in its own clone.
_OLD_PATH = "var/spack/repos/builtin"
_CLOSE = 3
_TIMEOUT_S = 1800.0


def compiled(tree: Path) -> None:
    """Compile Spack's own modules in its clone: nothing can be written beside them in the sandbox.

    A module that this Python cannot compile (test inputs) is left as it is.
    """
    folder = tree / "lib" / "spack"
    if folder.is_dir():
        words = ("-I", "-S", "-m", "compileall", "-q", "-j", "0", str(folder))
        run(Command(argv=(sys.executable, *words), timeout_s=_TIMEOUT_S))


class Packages:
    """The packages of a stack, in the order in which Spack would look for them.

    Accepted sources of the operating system do not count: they extend what is found here.
    """

    def __init__(
        self,
        stack: SpackStack,
        blobs: Mapping[str, Path],
        clones: tuple[LockedClone, ...],
        monitor: Monitor,
    ) -> None:
        self._stack = stack
        self._blobs = blobs
        self._clones = {clone.name: clone for clone in clones}
        self._monitor = monitor
        self._trees: dict[str, Path] = {}

    def find(self, name: str) -> tuple[str, PackageFacts]:
        """Return the repository that has a package, and what the package says.

        Raises `StackproofError`: INVALID_VALUE for a name that no repository has, with those that
        are close to it, and what `git.tree` raises.
        """
        wanted = os_sources.package_path(name, self._stack.generation)
        for namespace, path in self._places(wanted):
            if path.is_file():
                try:
                    text = path.read_text(encoding="utf-8", errors="replace")
                except OSError as error:
                    raise files.translate(error, path) from error
                return namespace, read_package(text, str(path))
        close = difflib.get_close_matches(name, self._names(), n=_CLOSE)
        raise fail(
            Reason.INVALID_VALUE,
            f"no package repository of this stack has `{name[:80]}`",
            hint=f"did you mean {', '.join(f'`{n}`' for n in close)}?" if close else None,
        )

    def _places(self, wanted: str) -> Iterator[tuple[str, Path]]:
        local = {r.namespace: r for r in self._stack.local_repositories}
        for namespace in configuration.repository_names(self._stack):
            if namespace == os_sources.NAMESPACE:
                continue
            if namespace in local:
                entry = local[namespace].files.get(wanted)
                if entry is not None:
                    yield namespace, self._blobs[entry.sha256]
            elif namespace in self._clones:
                yield namespace, self._folder(namespace) / wanted
        if self._stack.generation == 1:
            yield "builtin", self._folder("spack") / wanted

    def _folder(self, name: str) -> Path:
        """Return the folder of a repository in its clone, brought here if need be."""
        if name not in self._trees:
            clone = self._clones[name]
            path = {r.name: r.path for r in self._stack.package_repositories}.get(name, _OLD_PATH)
            self._trees[name] = (
                git.tree(clone.url, clone.commit, self._monitor, prepare=compiled) / path
            )
        return self._trees[name]

    def _names(self) -> list[str]:
        found = set()
        for namespace, path in self._places("packages"):
            if namespace in self._trees or path.is_dir():
                found |= {entry.lstrip("_").replace("_", "-") for entry in os.listdir(path)}
        return sorted(found)
