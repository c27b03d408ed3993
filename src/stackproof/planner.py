"""Stack and lock to plan: every step of the build, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from stackproof import __version__, bom, ids, noun
from stackproof.engines import REGISTRY as ENGINES
from stackproof.engines import benchmark, wheel
from stackproof.image import BenchmarkProgram, Image, MpiFacts, View
from stackproof.images import metadata, squashfs
from stackproof.mpis import REGISTRY as MPIS
from stackproof.plan import Plan, Step
from stackproof.stack import Lock, Stack
from stackproof.transports.setup import libfabric_of
from stackproof.transports.views import TransportViews, transport_views, with_transports

NATIVE = benchmark.NATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Texts that go into an image: the recipe as written and the benchmark's C sources by name."""

    recipe_name: str
    recipe: str
    csrc: Mapping[str, str]


def plan(stack: Stack, lock: Lock, sources: Sources) -> Plan:
    """Return the plan that builds the image of a locked stack."""
    steps = list(ENGINES[stack.engine].steps(stack, lock, ()))
    facts = mpi_facts(stack, lock)
    if NATIVE in stack.benchmarks:
        step = benchmark.compile_step(
            mount=stack.mount,
            facts=facts,
            csrc=sources.csrc,
            env=MPIS[facts.family].environment(facts.prefix),
            inputs=(steps[-1].id,),
        )
        steps.append(step)
    steps.append(_metadata_step(stack, lock, sources, (steps[-1].id,)))
    steps.append(
        squashfs.pack_step(
            mount=stack.mount,
            compression=stack.compression,
            level=stack.compression_level,
            inputs=(steps[-1].id,),
        )
    )
    return Plan(name=stack.name, mount=stack.mount, steps=tuple(steps))


def mpi_facts(stack: Stack, lock: Lock) -> MpiFacts:
    """Return what the image will say about its MPI."""
    return MpiFacts(
        family=stack.mpi_family,
        version=wheel.mpi_version(stack, lock),
        prefix=f"{stack.mount}/{wheel.prefix_name(stack, lock)}",
        launcher=MPIS[stack.mpi_family].launcher,
    )


def lock_digest(lock: Lock) -> str:
    """Return the id of a lock's content."""
    return ids.content_id(noun.to_data(lock))


def render_bom(stack: Stack, lock: Lock) -> str:
    """Return the bill of materials: each wheel with the licence that its publisher states."""
    parts = [bom.of_index(artefact) for artefact in lock.artefacts]
    needs = [part.ref for part in parts]
    return bom.render(stack, lock, parts, needs=needs, facts=stack.site_facts)


def transports_of(stack: Stack, lock: Lock) -> TransportViews:
    """Return what the views of the recipe's transports change, and which cannot be views."""
    return transport_views(
        stack.transports,
        mpi_facts(stack, lock),
        libfabric_of(render_bom(stack, lock)),
        taken=tuple(view.name for view in stack.views),
        fabric=stack.site_facts.get("fabric", ""),
    )


def describe(stack: Stack, lock: Lock) -> Image:
    """Return what the image will say of itself; `path`, `size` and `sha256` are still empty.

    Raises `StackproofError` (UNSUPPORTED) for a transport of the recipe that cannot be had.
    """
    changes = transports_of(stack, lock).required()
    facts = mpi_facts(stack, lock)
    needs = MPIS[facts.family].environment(facts.prefix)
    views = {
        view.name: View(
            name=view.name,
            root=f"{stack.mount}/env/{view.name}",
            description=view.description,
            env=needs.then(view.filled(prefix=facts.prefix, mount=stack.mount)),
        )
        for view in stack.views
    }
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
        benchmarks=tuple(
            BenchmarkProgram(name=name, path=_program_path(name, stack, facts))
            for name in stack.benchmarks
        ),
        stack_id=ids.content_id(noun.to_data(stack)),
        lock_digest=lock_digest(lock),
    )


def _program_path(name: str, stack: Stack, facts: MpiFacts) -> str:
    return benchmark.program_path(stack.mount) if name == NATIVE else f"{facts.prefix}/bin/{name}"


def _metadata_step(stack: Stack, lock: Lock, sources: Sources, inputs: tuple[str, ...]) -> Step:
    image = describe(stack, lock)
    files: dict[str, str] = {
        "meta/env.json": metadata.render_env_json(image),
        "meta/configure.json": _configure_json(stack),
        "meta/stack.json": noun.to_json(stack),
        "meta/lock.json": noun.to_json(lock),
        "meta/bom.cdx.json": render_bom(stack, lock),
        f"meta/recipe/{sources.recipe_name}": sources.recipe,
    }
    scripts = []
    for name, view in image.views.items():
        files[f"env/{name}/env.json"] = metadata.render_view_env_json(view)
        files[f"env/{name}/activate.sh"] = metadata.render_activate_sh(view)
        scripts.append(f"env/{name}/activate.sh")
    return Step(
        name="metadata",
        description="write metadata, views, lock and bill of materials",
        inputs=inputs,
        files=files,
        executable=tuple(scripts),
        outputs=("meta", "env"),
    )


def _configure_json(stack: Stack) -> str:
    """Return `meta/configure.json` of the uenv contract, without the times that would spoil it."""
    data = {
        "mount": stack.mount,
        "stackproof": {"version": __version__},
        "engine": stack.engine,
        "host": {"machine": stack.architecture, **stack.site_facts},
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"
