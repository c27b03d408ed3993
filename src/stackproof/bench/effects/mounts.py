"""Check that this machine can mount the images of a bench, before anything is started."""

from __future__ import annotations

from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.core.errors import Problem
from stackproof.core.value import replace
from stackproof.mount import methods
from stackproof.mount.effects import helper
from stackproof.mount.effects.facts import load_mount_facts

_PACKS = "name packs as arms to measure them: `--challenger pack:DIR`"


def find_problems(arms: Arms, place: LaunchNodes) -> list[Problem]:
    """Find the reason that images of arms cannot be mounted here; nodes of a job are not asked."""
    if place.allocation is not None or place.job is not None:
        return []
    mounts = {
        name: [mount.mount_point for mount in ready.deployment.mounts]
        for name, ready in arms.by_name.items()
        if ready.deployment.mounts and name != arms.null
    }
    points = [point for listed in mounts.values() for point in listed]
    if not mounts:
        return []
    facts = load_mount_facts()
    if (place.state is not None and place.state.rootless) or not helper.can_reach(points):
        facts = replace(facts, helper_mounts=False)  # the helper has no right there to lend
    if methods.first(facts) is not None:
        return []
    cause = methods.find_problems("fuse", facts)[0]
    names = ", ".join(f"`{name}`" for name in mounts)
    message = f"cannot mount the images of {names} here: {cause.message}"
    return [replace(cause, message=message, hint=f"{cause.hint}; {_PACKS}")]
