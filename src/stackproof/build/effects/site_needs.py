"""What the image of a plan would lack on the site that it is built for, told before it is built."""

from __future__ import annotations

import os

from stackproof.build.effects.loaded import Loaded
from stackproof.build.foreseen import ForeseenNeeds, foresee, lacking
from stackproof.build.plan import Plan
from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value
from stackproof.inject.effects import known_releases
from stackproof.inject.needs import Lacks
from stackproof.site.effects import probe


class SiteNeeds(Value):
    """What an image will need, and what of that a site lacks."""

    needs: ForeseenNeeds
    lacking: Lacks

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Return what should be known before hours of building."""
        hint = "build on a machine as old as the site, in the root of one (--root), or for another"
        return tuple(
            Problem(reason=Reason.UNSUPPORTED, message=f"the site lacks {text}", hint=hint)
            for text in self.lacking.lacks
        )


def ask(loaded: Loaded, plan: Plan, site: str | None, *, locked: bool) -> SiteNeeds | None:
    """Return what is known of a site, None without one.

    A folder of a cluster configuration says nothing of this. Raises `StackproofError` as
    `probe.load_site` does.
    """
    if site is None or os.path.isdir(site):
        return None
    needs = foresee(plan, loaded.stack, loaded.glibc, locked=locked)
    found = lacking(needs, probe.load_site(site), known_releases.load_releases())
    return SiteNeeds(needs=needs, lacking=found)
