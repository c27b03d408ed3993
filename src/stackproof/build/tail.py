"""The end of the plan of every engine: the benchmark, the image's metadata, and the image."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from stackproof import __version__
from stackproof.build import benchmark
from stackproof.build.plan import IMAGE_FILE, OUT, PYTHON, TOOLS, TREE_DIGEST, Plan, Step
from stackproof.build.stack import AnyLock, AnyStack, PlainStack
from stackproof.build.transport_views import with_transports
from stackproof.core import ids, noun
from stackproof.core.command import Command, EnvPatch
from stackproof.core.value import replace
from stackproof.image import metadata, model, superblock
from stackproof.image.model import BenchmarkProgram, Image, MpiFacts, View
from stackproof.mpi import families

# --------------------------------------------------------------------------------------------------
# Words for what tests can expect of each view of an image, and the file that ReFrame's sites read.
#
# `meta/extra/reframe.yaml` maps an environment to `features`, to `cc`, `cxx` and `ftn`, and to the
# `views` that it is started with (config/utilities/uenv.py,
# github.com/eth-cscs/cscs-reframe-tests).

REFRAME = "meta/extra/reframe.yaml"
MPI = "mpi"
_WRAPPERS = ("mpicc", "mpicxx", "mpifort")
_COMPILERS = ("gcc", "g++", "gfortran")


def of_mpi(facts: MpiFacts | None, gpu: str = "", more: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the features of a view with an MPI: that it has one, which, for which GPUs."""
    words = {MPI, facts.family, *([gpu] if gpu else []), *more} if facts else set(more)
    return tuple(sorted(words))


def reframe_yaml(
    views: Mapping[str, tuple[str, ...]], compilers: Mapping[str, tuple[str, ...]] | None = None
) -> str:
    """Return the file for views with their features; `compilers` are those without an MPI's."""
    lines = []
    for name, features in sorted(views.items()):
        own = (compilers or {}).get(name, _COMPILERS)
        names = zip(("cc", "cxx", "ftn"), _WRAPPERS if MPI in features else own, strict=True)
        facts = {"features": list(features), **dict(names), "views": [name]}
        lines.append(f"{json.dumps(name)}:\n")
        lines += [f"  {key}: {json.dumps(value)}\n" for key, value in facts.items()]
    return "".join(lines) or "{}\n"


BILL = "meta/bom.cdx.json"
"""The place of the bill of materials in an image."""


def in_turn(steps: Iterable[Step], *last: str) -> Iterator[Step]:
    """Yield steps, each with the one before it as its only input; `last` are ids before them."""
    for step in steps:
        ready = replace(step, inputs=last)
        yield ready
        last = (ready.id,)


def compiled(
    stack: AnyStack, facts: MpiFacts | None, csrc: Mapping[str, str], env: EnvPatch | None = None
) -> tuple[Step, ...]:
    """Return the step that compiles the benchmark with a stack's MPI; none without one.

    `csrc` are its C sources by name, `env` is what the MPI's compiler wrapper needs.
    """
    if facts is None:
        return ()
    return (benchmark.compile_step(mount=stack.mount, facts=facts, csrc=csrc, env=env),)


def plan_of(
    stack: AnyStack, before: Iterable[Step], rest: Iterable[Step], *, behind: Iterable[Step] = ()
) -> Plan:
    """Return the plan of a stack: steps, the rest one after the other, and the image.

    The rest waits for the steps of `behind`, for all of `before` where none are named.
    """
    before = tuple(before)
    last = in_turn((*rest, packed(stack)), *(step.id for step in tuple(behind) or before))
    return Plan(name=stack.name, mount=stack.mount, steps=(*before, *last))


def packed(stack: AnyStack) -> Step:
    """Return the step that makes the image file."""
    return pack_step(
        mount=stack.mount, compression=stack.compression, level=stack.compression_level
    )


def facts_of(family: str, version: str, prefix: str) -> MpiFacts:
    """Return the facts of an image about its MPI."""
    launcher = families.REGISTRY[family].launcher
    return MpiFacts(family=family, version=version, prefix=prefix, launcher=launcher)


def own_views(
    stack: PlainStack, prefix: str, needs: EnvPatch, features: tuple[str, ...]
) -> dict[str, View]:
    """Return the views of a recipe, each on top of what is needed; `prefix` is the MPI's folder."""
    return {
        view.name: View(
            name=view.name,
            root=f"{stack.mount}/env/{view.name}",
            description=view.description,
            env=needs.then(view.filled(prefix=prefix, mount=stack.mount)),
            features=features,
        )
        for view in stack.views
    }


def described(
    stack: AnyStack,
    lock: AnyLock,
    facts: MpiFacts | None,
    programs: Mapping[str, str],
    views: Mapping[str, View],
    changes: Mapping[str, EnvPatch],
) -> Image:
    """Return what an image will say of itself; `path`, `size` and `sha256` are still empty.

    `programs` are benchmarks and where they lie; `changes` are those of its transports' views.
    """
    return Image(
        path="",
        name=stack.name,
        mount=stack.mount,
        size=0,
        description=stack.description,
        default_view=stack.default_view,
        views=with_transports(views, stack.default_view, stack.mount, changes),
        transports=tuple(changes),
        mpi=facts,
        benchmarks=tuple(BenchmarkProgram(name=name, path=programs[name]) for name in programs),
        stack_id=ids.content_id(noun.to_data(stack)),
        lock_digest=lock_digest(lock),
        architecture=stack.architecture,
    )


def lock_digest(lock: AnyLock) -> str:
    """Return the id of a lock's content."""
    return ids.content_id(noun.to_data(lock))


def metadata_step(
    image: Image,
    stack: AnyStack,
    lock: AnyLock,
    *,
    bill: str,
    recipe: Mapping[str, str],
    tools: Mapping[str, str] | None = None,
) -> Step:
    """Return the step that writes what an image says of itself, once its views are known.

    `bill` is the bill of materials, `recipe` the recipe as written, by its file's name, `tools`
    the versions of what built it.
    """
    configure = {
        "mount": stack.mount,
        "stackproof": {"version": __version__},
        "engine": stack.engine,
        "host": {"machine": stack.architecture, **stack.site_facts},
        **(tools or {}),
    }
    files = {
        "meta/env.json": metadata.render_env_json(image),
        # As the uenv contract has it, without the times that would spoil it.
        "meta/configure.json": json.dumps(configure, indent=1, sort_keys=True) + "\n",
        "meta/stack.json": noun.to_json(stack),
        "meta/lock.json": noun.to_json(lock),
        BILL: bill,
        REFRAME: reframe_yaml(
            {name: view.features for name, view in image.views.items() if view.features}
        ),
        **{f"meta/recipe/{name}": text for name, text in recipe.items()},
    }
    scripts = []
    for name, view in image.views.items():
        files[f"env/{name}/env.json"] = metadata.render_view_env_json(view)
        files[f"env/{name}/activate.sh"] = metadata.render_activate_sh(view)
        scripts.append(f"env/{name}/activate.sh")
    return Step(
        name="metadata",
        description="write metadata, views, lock and bill of materials",
        files=files,
        executable=tuple(scripts),
        outputs=("meta", "env"),
    )


def pack_step(*, mount: str, compression: str, level: int, inputs: tuple[str, ...] = ()) -> Step:
    """Return the step that packs the store into `plan.IMAGE_FILE`."""
    return Step(
        name="image",
        description=f"pack the store into a SquashFS image ({compression})",
        inputs=inputs,
        commands=(
            Command(
                argv=(
                    PYTHON, "-I", "-S", f"{TOOLS}/{TREE_DIGEST}", mount,
                    f"{mount}/{model.TREE_RECORD}", *model.NOT_IN_TREE,
                ),
            ),
            Command(
                argv=superblock.pack_argv(
                    mount, f"{OUT}/{IMAGE_FILE}", compression=compression, level=level
                )
            ),
        ),
    )  # fmt: skip
