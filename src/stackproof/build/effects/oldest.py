"""The oldest C library that an image is to run with, held against what compiles and what came out.

`floor` says what counts; here the machine is asked and the image is looked into.
"""

from __future__ import annotations

import os

from stackproof.build import floor
from stackproof.build.effects.loaded import Loaded
from stackproof.build.plan import Plan
from stackproof.core.value import Value
from stackproof.inject.effects import named
from stackproof.linking.effects.view import RootView


class Oldest(Value):
    """A release of glibc that an image is to run with, and the root that it is built in."""

    release: str
    root: str

    def refuse(self, image: str) -> None:
        """Raise `StackproofError` (BUILD_FAILED) for files of an image that need a newer glibc."""
        place = named.load_place(image)
        view = RootView("/", dict(place.binds))
        found = floor.above(view, view.elf_files(place.path), self.release)
        floor.refuse(found, self.release, root=self.root)


def oldest(word: str, loaded: Loaded, plan: Plan) -> Oldest:
    """Return what `--floor` asks for; raises `StackproofError` where it is not to be had here."""
    release, root = floor.parse(word), os.fspath(loaded.root or "")
    floor.refuse_early(plan, loaded.stack, loaded.glibc, release, root=root)
    return Oldest(release=release, root=root)
