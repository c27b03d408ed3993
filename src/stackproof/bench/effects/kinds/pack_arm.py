"""Arms that are packs: their own launcher starts their own programs, where they lie."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping

from stackproof.bench.effects.kinds import ArmReader, stamp_of
from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import Arm
from stackproof.build.benchmark import NATIVE
from stackproof.core.errors import Location, Problem, Reason, fail
from stackproof.core.value import replace
from stackproof.image.model import Deployment, Image
from stackproof.mpi.effects import fabric
from stackproof.mpi.transports import libfabric_of
from stackproof.pack.effects.unpacked import load_pack
from stackproof.pack.model import PROGRAMS, Pack, program_place


def of_pack(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    """Return a pack as an arm, with its digest and its MPI as it says itself.

    Raises `StackproofError` as `load_pack` does, NO_MPI for a pack that tells of no MPI, and
    COMMAND_NOT_FOUND where it has none of the programs that are wanted.
    """
    folder = arm.pack
    pack = load_pack(folder)
    if pack.mpi is None:
        raise fail(
            Reason.NO_MPI,
            f"the pack `{folder}` does not say which MPI it has",
            where=Location(file=folder),
            hint="pack an image with an MPI; one that was packed before packs said so, once more",
        )
    paths = _programs(folder, pack)
    if not paths.keys() & {*programs}:
        raise fail(
            Reason.COMMAND_NOT_FOUND,
            f"the pack `{folder}` has none of the programs {', '.join(programs)}",
            where=Location(file=folder),
            hint=f"name it when it is packed: `stackproof pack IMAGE PROGRAM {NATIVE} -o DIR`, or "
            "no program for all",
        )
    mpi = replace(pack.mpi, prefix=os.path.join(folder, pack.mpi.prefix))
    return ReadyArm(
        arm=arm,
        image=Image(
            path=folder, name=pack.name, mount=folder, size=0, sha256=pack.tree, mpi=mpi,
            lock_digest=pack.origin.lock,
        ),
        deployment=Deployment(
            name=arm.name or pack.name,
            mounts=(),
            mpi=mpi,
            programs=paths,
            image_sha256=pack.tree,
            lock_digest=pack.origin.lock,
        ),
        libfabric=libfabric_of(pack.documents.get(os.path.basename(fabric.BILL), "")),
        folders=(folder,),
        stamps={path: stamp_of(path) for path in _watched(folder, pack, mpi.prefix)},
        found=_found(pack),
        uncompiled=(_no_compiler(folder),),
        documents=pack.documents,
    )  # fmt: skip


def _no_compiler(folder: str) -> Problem:
    """Return the reason that nothing is compiled with a pack: its wrappers do not work."""
    return Problem(
        reason=Reason.UNSUPPORTED,
        message=f"the pack `{folder}` has not all programs, and none can be compiled with it",
        hint="compile them where its image is mounted, and name them when it is packed: "
        "`stackproof pack IMAGE PROGRAM …`",
    )


def _programs(folder: str, pack: Pack) -> dict[str, str]:
    """Return the programs of `bin/` by their names there, and by their own."""
    shown = {name: os.path.join(folder, PROGRAMS, name) for name in pack.programs}
    own = {os.path.basename(place): shown[name] for name, place in pack.programs.items()}
    return {**own, **shown}


def _watched(folder: str, pack: Pack, prefix: str) -> list[str]:
    """Return the files that must stay as they are: programs, their entry points, the MPI."""
    places = [*pack.programs.values(), *map(program_place, pack.programs.values())]
    programs = [os.path.join(folder, place) for place in places]
    return [*programs, *sorted(glob.glob(f"{glob.escape(prefix)}/lib*/libmpi*.so*"))]


def _found(pack: Pack) -> Mapping[str, str]:
    tier = (
        f"1: the stack is mounted at {pack.mounting.place} by its programs"
        if pack.mounting
        else "0: nothing is mounted"
    )
    return {
        "tree": f"{pack.tree}, which its files have",
        "packed from": f"{pack.origin.image}, SHA-256 {pack.origin.image_sha256}",
        "packed by": f"stackproof {pack.origin.stackproof}",
        "tier": f"a pack of tier {tier}",
        "launcher": "the pack's own",
    }


READER = ArmReader(read=of_pack)
