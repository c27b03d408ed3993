"""The arms of a bench made ready: their images are read and turned into deployments."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from stackproof.bench.effects import kinds
from stackproof.bench.effects.kinds import stamp_of
from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import BenchSpec
from stackproof.build.benchmark import NATIVE
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.image.effects.image_file import read_member
from stackproof.image.effects.tree import read_tree_member
from stackproof.image.model import Image
from stackproof.results.model import ComparedArm


class Arms(Value):
    """All arms by name, the baseline first; `null` is the baseline once more."""

    by_name: Mapping[str, ReadyArm]
    baseline: str
    null: str | None
    challengers: tuple[str, ...]

    @property
    def programs(self) -> dict[str, frozenset[str]]:
        """Return the programs that each arm can run."""
        return {name: frozenset(one.deployment.programs) for name, one in self.by_name.items()}

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the files and folders that every node must see."""
        mounted = {mount.image for one in self.by_name.values() for mount in one.deployment.mounts}
        folders = {folder for one in self.by_name.values() for folder in one.folders}
        images = {one.image.path for one in self.by_name.values()}
        return tuple(sorted(mounted | images | folders))


def make_ready(spec: BenchSpec) -> Arms:
    """Read the images of all arms; raises `StackproofError` with the problems of all at once."""
    arms: list[ReadyArm] = []
    problems: list[Problem] = []
    # What has sources is compiled for an arm that does not bring it; every arm has our own.
    wanted = tuple(one.name for one in spec.programs if not one.source) or (NATIVE,)
    for arm in (spec.baseline, *spec.challengers):
        try:
            arms.append(kinds.reader_of(arm).read(arm, wanted))
        except StackproofError as error:
            problems += error.problems
    ready = {one.deployment.name: one for one in _told_apart(arms)}
    if len(ready) < len(arms):
        counts = Counter(one.deployment.name for one in _told_apart(arms))
        problems += [_same_name(name) for name, count in counts.items() if count > 1]
    if problems:
        raise StackproofError(*problems)
    names = list(ready)
    null = f"{names[0]}-again" if spec.null_arm else None
    if null:
        again = replace(ready[names[0]].deployment, name=null)
        ready[null] = replace(ready[names[0]], deployment=again)
    return Arms(by_name=ready, baseline=names[0], null=null, challengers=tuple(names[1:]))


def check_unchanged(ready: ReadyArm) -> None:
    """Raise `StackproofError` (IMAGE_DAMAGED) when an image, or a library, is another file.

    Every launch mounts it again, and numbers of the other one would stand under the name and the
    digest of the first.
    """
    for path, stamp in ready.stamps.items():
        if stamp_of(path) != stamp:
            raise fail(
                Reason.IMAGE_DAMAGED,
                f"`{path}` was replaced while it was measured",
                where=Location(file=path),
                hint="put it back, or measure the other one into another folder",
            )


def _told_apart(arms: Sequence[ReadyArm]) -> list[ReadyArm]:
    """Give arms that nobody named and that are called the same the version of their MPI, too.

    Where that is not enough they are called by their files.
    """
    found = list(arms)
    for better in (_versioned_name, _file_name):
        counts = Counter(one.deployment.name for one in found)
        found = [
            replace(one, deployment=replace(one.deployment, name=better(one)))
            if counts[one.deployment.name] > 1 and not one.arm.name
            else one
            for one in found
        ]
    return found


def _versioned_name(one: ReadyArm) -> str:
    return f"{one.deployment.name}-{one.deployment.mpi.version}"


def _file_name(one: ReadyArm) -> str:
    name = one.arm.label
    return re.sub(r"[^A-Za-z0-9._+-]", "-", name)


def read_text(image: Image, member: str) -> str:
    """Return the text of a file inside an image, empty when there is none."""
    if os.path.isdir(image.path):
        return read_tree_member(image.path, member)
    return read_member(image.path, member).decode(errors="replace")


def recipe_text(image: Image) -> str:
    """Return the recipe that an image was built from, empty when it does not have it."""
    if os.path.isdir(image.path):
        folder = os.path.join(image.path, "meta", "recipe")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return "".join(read_tree_member(folder, name) for name in names)
    return read_member(image.path, "meta/recipe/*").decode(errors="replace")


def compared(ready: ReadyArm) -> ComparedArm:
    """Return what results say of an arm."""
    facts = ready.deployment.mpi
    return ComparedArm(
        image=ready.image.path,
        image_sha256=ready.image.sha256,
        lock_digest=ready.image.lock_digest,
        mpi={"family": facts.family, "version": facts.version},
        recipe=recipe_text(ready.image),
        lock=ready.documents.get("lock.json") or read_text(ready.image, "meta/lock.json"),
        view=ready.arm.view or ready.image.default_view,
        transport=", ".join(f"{k}: {v}" for k, v in ready.arm.transports.items()) or None,
        env=dict(ready.arm.env),
        rate=ready.arm.rate,
        kind=ready.arm.kind,
        asked=ready.arm.asked,
        found=ready.found,
    )


def _same_name(name: str) -> Problem:
    return Problem(
        reason=Reason.INVALID_VALUE,
        message=f"two arms are called `{name}`",
        hint="give each arm a name of its own: `name` in a specification, or NAME=IMAGE",
    )
