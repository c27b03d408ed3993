"""Arms that are an MPI of the machine: it is asked what it is, and compiles the programs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from stackproof.bench.effects import installation, modules
from stackproof.bench.effects.compile_program import compile_program, native_source
from stackproof.bench.effects.installation import Installation
from stackproof.bench.effects.kinds import ArmReader, stamp_of
from stackproof.bench.ready import MpiWrappers, ReadyArm
from stackproof.bench.spec import Arm
from stackproof.build.programs import IMB
from stackproof.core.errors import Reason, fail
from stackproof.image.model import Deployment, Image, MpiFacts
from stackproof.inject.effects import job
from stackproof.inject.effects.job_key import MountedImage
from stackproof.mpi import families


def of_prefix(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    """Return an installed MPI as an arm; raises what `installation.of_prefix` and compilers do."""
    return _ready(arm, installation.of_prefix(arm.prefix), {}, programs)


def of_module(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    """Return what modules bring as an arm; raises as `modules` and compilers do."""
    loaded = modules.load(arm.module, arm.module_use)
    named_by = f"the module{'s' if len(arm.module) > 1 else ''} {', '.join(arm.module)}"
    mpi = modules.mpi_of(loaded, named_by=named_by)
    return _ready(arm, mpi, {"modules": ", ".join(loaded.names)}, programs)


def _ready(
    arm: Arm, mpi: Installation, more: Mapping[str, str], programs: tuple[str, ...]
) -> ReadyArm:
    wrappers = MpiWrappers(wrappers=mpi.wrappers, identity=mpi.identity, env=mpi.env)
    paths = _programs(mpi, wrappers, programs)
    found = {**more, "compiler wrapper": mpi.wrappers["c"]}
    return ready_of(arm, mpi, paths, wrappers, found, how="compiled with that wrapper")


def ready_of(
    arm: Arm,
    mpi: Installation,
    paths: Mapping[str, str],
    wrappers: MpiWrappers,
    found: Mapping[str, str],
    *,
    how: str,
) -> ReadyArm:
    """Return an MPI as an arm, with the paths of its programs; `how` our own was made by them."""
    facts = MpiFacts(
        family=mpi.family,
        version=mpi.version,
        prefix=mpi.prefix,
        launcher=families.get(mpi.family).launcher,
    )
    native = paths[native_source().name]
    own = os.path.dirname(native)
    digest = hashlib.sha256(f"{mpi.library_sha256} {os.path.basename(own)}".encode()).hexdigest()
    return ReadyArm(
        arm=arm,
        image=Image(
            path=mpi.prefix, name=mpi.family, mount=mpi.prefix, size=0, sha256=digest, mpi=facts
        ),
        deployment=Deployment(
            name=arm.name or mpi.family,
            mounts=(),
            mpi=facts,
            programs={**paths},
            env=mpi.env,
            image_sha256=digest,
            mpiexec=mpi.mpiexec,
        ),
        libfabric=job.libfabric_of(MountedImage(mpi.prefix, mpi.prefix)),
        folders=(own,),
        stamps={path: stamp_of(path) for path in (mpi.library, native)},
        found={
            **found,
            "library": mpi.library,
            "library SHA-256": mpi.library_sha256,
            "calls itself": mpi.said,
            "launcher": mpi.mpiexec or "none of its own",
            "benchmark": f"{how}, {os.path.basename(own)}",
        },
        compilers=wrappers,
    )


def _programs(mpi: Installation, wrappers: MpiWrappers, wanted: tuple[str, ...]) -> dict[str, str]:
    """Return the paths of programs: our own compiled, IMB-MPI1 where the MPI has it.

    Raises `StackproofError` (UNSUPPORTED) where nothing that is wanted can be had.
    """
    source = native_source()
    found = {source.name: str(compile_program(wrappers, source) / source.name)}
    imb = f"{mpi.prefix}/bin/{IMB}"
    if os.access(imb, os.X_OK):
        found[IMB] = imb
    if not found.keys() & {*wanted}:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{mpi.prefix}` has none of the programs {', '.join(wanted)}",
            hint=f"it has: {', '.join(found)}",
        )
    return found


READER = ArmReader(
    read=lambda arm, programs: (of_module if arm.module else of_prefix)(arm, programs)
)
