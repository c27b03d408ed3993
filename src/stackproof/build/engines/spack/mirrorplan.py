"""Spack stack and lock to the plan that brings all its sources into one folder, as data."""

from __future__ import annotations

from stackproof.build.engines.spack import locks
from stackproof.build.engines.spack.buildplan import builds, solution_files
from stackproof.build.engines.spack.layout import spack
from stackproof.build.engines.spack.lockplan import setup_step
from stackproof.build.engines.spack.stack import SpackLock, SpackStack
from stackproof.build.plan import BUILD, Plan, Step

MIRROR = f"{BUILD}/new-mirror"
"""Where the mirror that is made lies in the sandbox."""


def mirror_plan(stack: SpackStack, lock: SpackLock) -> Plan:
    """Return the steps that bring the sources of everything that is locked into `MIRROR`.

    Spack leaves out what the machine brings, and what is in the mirror already. The mirror is the
    user's own, so sources that may not be given away are in it too (`--private`).
    """
    setup = setup_step(stack, lock.clones)
    where = ("--directory", MIRROR, "--all", "--private")
    fill = Step(
        name="mirror",
        description="bring the sources of everything that is locked",
        inputs=(setup.id,),
        build_files=solution_files(stack, lock),
        commands=(
            *(
                spack("mirror", "create", *where, environment=folder)
                for folder in locks.folders(stack)
                if builds(lock, folder, stack.mount)
            ),
            spack("clean", "--stage"),
        ),
        network=True,
    )
    return Plan(name=stack.name, mount=stack.mount, steps=(setup, fill))
