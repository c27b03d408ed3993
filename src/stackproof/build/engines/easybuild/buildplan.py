"""Stack and lock to the plan that builds and packs them, as data.

One step for each component, whose inputs are the components it is built on: what else is in the
stack, or how the image looks, does not change its id, and with it what was built before serves.
"""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.build import tail
from stackproof.build.engines.easybuild import layout, metadata
from stackproof.build.engines.easybuild.chain import Easyconfig
from stackproof.build.engines.easybuild.stack import EasyBuildLock, EasyBuildStack, files_of
from stackproof.build.plan import DOWNLOADS, Plan, Step
from stackproof.core import ids
from stackproof.core.command import Command


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
    steps.append(_modules_step(stack, lock, tuple(step.id for step in steps)))
    steps.append(_tidy_step(stack, (steps[-1].id,)))
    image = metadata.describe(stack, lock)
    native = image.mpi if image.benchmarks else None
    bill = metadata.render_bom(stack, lock)
    tools = {"easybuild": stack.easybuild}
    rest = (
        *tail.compiled(stack, native, csrc),
        tail.metadata_step(image, stack, lock, bill=bill, recipe=recipe, tools=tools),
        tail.packed(stack),
    )
    steps += tail.in_turn(rest, steps[-1].id)
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


def _component_step(
    stack: EasyBuildStack, lock: EasyBuildLock, component: Easyconfig, inputs: tuple[str, ...]
) -> Step:
    path = f"{layout.EASYCONFIGS}/{component.filename}"
    extra = _metadata_option(lock)
    return Step(
        name=component.module.replace("/", "-"),
        description=f"build {component.name} {component.version}",
        inputs=inputs,
        build_files={path: component.text, **_metadata_file(lock)},
        fetch=files_of(component),
        commands=(_eb(stack, path, *extra),),
        outputs=_outputs(component),
        reports=layout.INSTALL,
    )


def _outputs(component: Easyconfig) -> tuple[str, ...]:
    """Return what a component installs: its folder and its module file, below the mount point."""
    return (
        f"{layout.SOFTWARE}/{component.module}",
        f"{layout.LUA_MODULES}/all/{component.module}.lua",
    )


def _modules_step(stack: EasyBuildStack, lock: EasyBuildLock, inputs: tuple[str, ...]) -> Step:
    """Return the step that writes module files in Tcl as well."""
    paths = tuple(f"{layout.EASYCONFIGS}/{component.filename}" for component in lock.components)
    texts = tuple(component.text for component in lock.components)
    words = ("--module-only", "--skip-sanity-check", *_metadata_option(lock))
    return Step(
        name="modules",
        description="write module files for every modules tool",
        inputs=inputs,
        build_files={**dict(zip(paths, texts, strict=True)), **_metadata_file(lock)},
        commands=(_eb(stack, *paths, *words, lua=False),),
        outputs=(layout.TCL_MODULES,),
        reports=layout.INSTALL,
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


def _metadata_file(lock: EasyBuildLock) -> dict[str, str]:
    return {layout.METADATA: lock.metadata} if lock.metadata else {}


def _metadata_option(lock: EasyBuildLock) -> tuple[str, ...]:
    return (f"--external-modules-metadata={layout.METADATA}",) if lock.metadata else ()


def _eb(stack: EasyBuildStack, *words: str, lua: bool = True) -> Command:
    below = stack.below.modules if stack.below else ()
    return layout.eb(stack.mount, *words, optarch=stack.optarch, modules=below, lua=lua)
