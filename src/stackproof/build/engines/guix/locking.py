"""A pack that was read to the lock: does it answer the recipe, and which item is the MPI."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from graphlib import CycleError, TopologicalSorter

from stackproof.build.engines.guix.scheme import StoreProfile
from stackproof.build.engines.guix.stack import (
    ITEM,
    MOUNT,
    GuixLock,
    GuixStack,
    StoreItem,
    wants,
)
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.mpi.families import same_release

_PROFILE = "profile"
LIBRARY = "libmpi.so."
"""How the library of every MPI here begins; without a number it may be a script of the linker."""


def profile_item(items: Collection[StoreItem]) -> str:
    """Return the item that is the pack's profile: the one of its name that nothing else needs.

    Raises `StackproofError` (IMAGE_UNREADABLE) for none, and for several.
    """
    needed = {name for item in items for name in item.needs}
    profiles = [
        item.filename for item in items if item.name == _PROFILE and item.filename not in needed
    ]
    if len(profiles) != 1:
        phrase = f"has {len(profiles)} profiles" if profiles else "has no profile"
        problem = Problem(
            reason=Reason.IMAGE_UNREADABLE,
            message=f"the pack {phrase}, and must have one",
            hint="make it with `guix pack --manifest=manifest.scm`",
        )
        raise StackproofError(problem)
    return profiles[0]


def make_lock(
    stack: GuixStack,
    pack: StoreItem,
    items: tuple[StoreItem, ...],
    profile: StoreProfile,
    names: Callable[[str], Collection[str]],
) -> GuixLock:
    """Return the lock of a stack.

    `names` returns what is in a folder of the store, nothing where none is. Raises
    `StackproofError` (INVALID_VALUE) with all that the recipe asks for and the pack has not.
    """
    profile_name = profile_item(items)
    problems = [
        *_package_problems(stack, profile, items),
        *_channel_problems(stack, profile),
        *_circle_problems(items),
    ]
    programs = names(f"{profile_name}/bin")
    problems += [
        _pack_problem(f"no program `{name}`", "leave it out of `benchmarks`, or add its package")
        for name in stack.benchmarks
        if name != "stackproof-bench" and name not in programs
    ]
    candidates = [
        item.filename
        for item in items
        if item.name == stack.mpi_package
        and _is_release(item.version, stack.mpi_version)
        and not item.version.endswith("R")  # what `-R` made: a wrapper around each program
        and any(name.startswith(LIBRARY) for name in names(f"{item.filename}/lib"))
    ]
    if len(candidates) != 1:
        listed = ", ".join(candidates) or "none"
        what = f"one `{stack.mpi_package}` with libmpi.so, but {listed}"
        hint = "say which one it is: `mpi: {family: …, package: …, version: …}` in the recipe"
        problems.append(_pack_problem(f"not {what}", hint))
    if problems:
        raise StackproofError(*problems)
    return GuixLock(
        wants=wants(stack),
        channels=stack.channels,
        pack=pack,
        items=items,
        mpi=candidates[0],
        profile=profile_name,
    )


def is_whole(lock: GuixLock) -> bool:
    """Return true for a lock that can be one: names of items and digests, and no circle."""
    names = {item.filename for item in lock.items}
    return (
        {lock.mpi, lock.profile} <= names
        and all(map(ITEM.fullmatch, names))
        and re.fullmatch("[0-9a-f]{64}", lock.pack.sha256) is not None
        and not [*_circle_problems(lock.items)]
    )


def _is_release(version: str, release: str) -> bool:
    return not release or same_release(version, release)


def _pack_problem(what: str, hint: str) -> Problem:
    return Problem(reason=Reason.INVALID_VALUE, message=f"the pack has {what}", hint=hint)


def _package_problems(
    stack: GuixStack, profile: StoreProfile, items: Collection[StoreItem]
) -> Iterator[Problem]:
    """Yield packages that the recipe asks for, or the profile names, and that are not there."""
    hint = "it was made from another manifest: make it again, or change `packages`"
    for spec in stack.packages:
        rest, _, output = spec.partition(":")
        name, _, version = rest.partition("@")
        if not any(
            (entry.name, entry.output) == (name, output or entry.output)
            and _is_release(entry.version, version)
            for entry in profile.entries
        ):
            yield _pack_problem(f"no `{spec}` in its profile", hint)
    there = {f"{MOUNT}/store/{item.filename}" for item in items}
    lost = next((entry.item for entry in profile.entries if entry.item not in there), "")
    if lost:
        what = f"no `{lost[:200]}`, which its profile names"
        yield _pack_problem(what, "it is cut off, or was changed: make it again")


def _circle_problems(items: Collection[StoreItem]) -> Iterator[Problem]:
    """Yield items that need each other: a hash is of all that went into an item."""
    try:
        TopologicalSorter({item.filename: item.needs for item in items}).prepare()
    except CycleError as error:
        yield _pack_problem(
            f"items that need each other: {', '.join(error.args[1][:4])}", "ask its maker"
        )


def _channel_problems(stack: GuixStack, profile: StoreProfile) -> Iterator[Problem]:
    """Yield commits of the pack's channels that are not the recipe's."""
    for commit in sorted(profile.commits - {channel.commit for channel in stack.channels})[:1]:
        hint = "build it with the `channels.scm` of this recipe, or write this commit into it"
        yield _pack_problem(
            f"packages of a channel at commit {commit[:40]}, which no channel is at", hint
        )
