"""Stack and lock to the plan that builds and packs them, as data.

One step for each component, whose inputs are the components it is built on: what else is in the
stack, or how the image looks, does not change its id, and with it what was built before serves.
"""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.build import programs, tail
from stackproof.build.engines.easybuild import layout, metadata
from stackproof.build.engines.easybuild.chain import Easyconfig
from stackproof.build.engines.easybuild.stack import (
    EasyBuildLock,
    EasyBuildStack,
    files_of,
    list_outside_folders,
)
from stackproof.build.plan import DOWNLOADS, Plan, Step
from stackproof.core import ids
from stackproof.core.command import EnvPatch
from stackproof.core.value import replace
from stackproof.image.model import MpiFacts


def build_plan(
    stack: EasyBuildStack,
    lock: EasyBuildLock,
    *,
    recipe: Mapping[str, str],
    csrc: Mapping[str, str],
) -> Plan:
    """Return the steps that build a locked stack and pack its image.

    `recipe` is the recipe as written, by its file's name, `csrc` the benchmark's C sources.
    """
    steps = [_tool_step(stack, lock)]
    made: dict[str, str] = {}
    for component in lock.components:
        needs = tuple(made[name] for name in component.needs if name in made)
        step = _component_step(stack, lock, component, (steps[0].id, *needs))
        steps.append(step)
        made[component.module] = step.id
    steps.append(_tidy_step(stack, tuple(step.id for step in steps)))
    image = metadata.describe_image(stack, lock)
    native = image.mpi if stack.benchmarks else None
    compiled = _program_steps(stack, image.mpi, made) if image.mpi else ()
    bill = metadata.render_bom(stack, lock)
    tools = {"easybuild": stack.easybuild}
    rest = (
        *tail.compiled(stack, native, csrc, layout.compilers_on_path(stack.request.toolchain)),
        tail.metadata_step(image, stack, lock, bill=bill, recipe=recipe, tools=tools),
        tail.packed(stack),
    )
    before = (steps[-1], *compiled)
    steps += (*compiled, *tail.in_turn(rest, *(step.id for step in before)))
    return Plan(name=stack.name, mount=stack.mount, steps=tuple(steps))


def _tool_step(stack: EasyBuildStack, lock: EasyBuildLock) -> Step:
    """Return the step that brings EasyBuild; with what decides the bytes of everything built."""
    return Step(
        name="easybuild",
        description=f"unpack EasyBuild {stack.easybuild}",
        build_files={
            "machine.json": ids.canonical_json(
                {
                    "mount": stack.mount,
                    "architecture": stack.architecture,
                    "below": stack.below.path if stack.below else None,
                    **_compiler(stack),
                    **stack.site_facts,
                }
            ).decode()
        },
        fetch=lock.tool,
        commands=(
            layout.worker(
                "unpack", layout.TOOL, *(f"{DOWNLOADS}/{file.filename}" for file in lock.tool)
            ),
        ),
    )


def _compiler(stack: EasyBuildStack) -> dict[str, str]:
    """Return the compiler as a fact, none for the gcc of the facts or a module's."""
    toolchain = stack.request.toolchain
    return {"toolchain": f"{toolchain.name} {toolchain.version}"} if toolchain.compilers else {}


def _component_step(
    stack: EasyBuildStack, lock: EasyBuildLock, component: Easyconfig, inputs: tuple[str, ...]
) -> Step:
    path = f"{layout.EASYCONFIGS}/{component.filename}"
    metadata_file = {layout.METADATA: lock.metadata} if lock.metadata else {}
    below = stack.below.modules if stack.below else ()
    words = (path, f"--external-modules-metadata={layout.METADATA}") if lock.metadata else (path,)
    return Step(
        name=component.module.replace("/", "-"),
        description=f"build {component.name} {component.version}",
        inputs=inputs,
        build_files={path: component.text, **metadata_file},
        fetch=files_of(component),
        commands=(
            layout.eb(
                stack.mount,
                *words,
                optarch=stack.optarch,
                modules=below,
                toolchain=stack.request.toolchain,
                local=any(path.startswith("/usr/local/") for path in list_outside_folders(stack)),
            ),
        ),
        outputs=_outputs(component),
        reports=layout.INSTALL,
    )


def _outputs(component: Easyconfig) -> tuple[str, ...]:
    """Return what a component installs: its folder and module files, below the mount point."""
    return (
        f"{layout.SOFTWARE}/{component.module}",
        f"{layout.LUA_MODULES}/all/{component.module}.lua",
        f"{layout.TCL_MODULES}/all/{component.module}",
    )


def _program_steps(
    stack: EasyBuildStack, mpi: MpiFacts, made: Mapping[str, str]
) -> tuple[Step, ...]:
    """Return the steps of the recipe's programs, which stand on the MPI alone; `made` are ids."""
    module = mpi.prefix.removeprefix(f"{stack.mount}/{layout.SOFTWARE}/")
    return tuple(
        replace(
            programs.program_step(program, stack.mount, mpi, EnvPatch()), inputs=(made[module],)
        )
        for program in stack.programs
    )


def _tidy_step(stack: EasyBuildStack, inputs: tuple[str, ...]) -> Step:
    """Return the step that takes out what differs between two builds of one lock."""
    folders = (layout.SOFTWARE, layout.LUA_MODULES, layout.TCL_MODULES)
    return Step(
        name="tidy",
        description="take out logs, reports and locks of the build",
        inputs=inputs,
        commands=(layout.worker("tidy", *(f"{stack.mount}/{folder}" for folder in folders)),),
    )
