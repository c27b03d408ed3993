"""The C library that an image needs, held against a site and against the oldest that is named."""

from __future__ import annotations

import os

from stackproof.build import glibc
from stackproof.build.effects.loaded import Loaded
from stackproof.build.glibc import ForeseenNeeds
from stackproof.build.plan import Plan
from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value
from stackproof.inject.effects import known_releases, named
from stackproof.inject.needs import Lacks
from stackproof.linking.effects.view import RootView
from stackproof.site.effects import probe


class SiteNeeds(Value):
    """What an image will need, and what of that a site lacks."""

    needs: ForeseenNeeds
    lacking: Lacks

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Return what should be known before hours of building."""
        return tuple(
            Problem(reason=Reason.UNSUPPORTED, message=f"the site lacks {text}", hint=glibc.HINT)
            for text in self.lacking.lacks
        )


def ask(loaded: Loaded, plan: Plan, site: str | None, *, locked: bool) -> SiteNeeds | None:
    """Return what is known of a site, None without one.

    A folder of a cluster configuration says nothing of this. Raises `StackproofError` as
    `probe.load_site` does.
    """
    if site is None or os.path.isdir(site):
        return None
    needs = glibc.foresee(plan, loaded.stack.architecture, _release(), locked=locked)
    lacking = glibc.lacking(needs, probe.load_site(site), known_releases.load_releases())
    return SiteNeeds(needs=needs, lacking=lacking)


def read_floor(word: str, loaded: Loaded, plan: Plan) -> str:
    """Return the release of `--floor`; raises `StackproofError` where it is not to be had here."""
    floor = glibc.parse_floor(word)
    needs = glibc.foresee(plan, loaded.stack.architecture, _release(), locked=True)
    glibc.refuse_early(needs, _release(), floor)
    return floor


def refuse_newer(image: str, floor: str) -> None:
    """Raise `StackproofError` (BUILD_FAILED) for files of an image that need a newer glibc."""
    place = named.load_place(image)
    view = RootView("/", dict(place.binds))
    glibc.refuse(glibc.above(view, view.elf_files(place.path), floor), floor)


def _release() -> str:
    return (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")[2]
