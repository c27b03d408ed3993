"""Stack and lock of wheels to plan: every step of the build, as data."""

from __future__ import annotations

from stackproof.build import benchmark, bom, programs, tail
from stackproof.build.engine import (
    OCI,
    OWN,
    Container,
    Findings,
    Rows,
    Sources,
    Where,
    licences,
    other_machine,
)
from stackproof.build.engines.wheel import engine
from stackproof.build.engines.wheel.stack import Lock, Stack
from stackproof.build.plan import DOWNLOADS, Plan
from stackproof.build.stack import Artefact
from stackproof.build.transport_views import TransportViews, transport_views
from stackproof.core.command import EnvPatch
from stackproof.core.value import replace
from stackproof.image.model import Image, MpiFacts, View
from stackproof.mpi import families
from stackproof.mpi.transports.profile import libfabric_of

NATIVE = benchmark.NATIVE
INSTALLER = Artefact(
    name="installer",
    version="1.1.0",
    filename="installer-1.1.0-py3-none-any.whl",
    sha256="f55f5728ff61d3dd54dbc5a397cf3f7307cb64b180c20b72afbebf01c9e2c8a0",
)
"""What unpacks wheels in a container: the library that the wheel engine's worker imports."""


class WheelEngine:
    """The MPI developers' own wheels."""

    def stale(self, stack: Stack, lock: Lock) -> str:
        """See `Engine`."""
        if lock.wants == engine.wants(stack):
            return ""
        other = other_machine(stack, lock, engine.wants)
        return other or "versions or packages have changed"

    def problems(self, stack: Stack, lock: Lock | None, where: Where) -> Findings:
        """See `Engine`."""
        if lock is None:
            return Findings(problems=engine.problems(stack))
        views = transports_of(stack, lock).placed(where("transports"))
        changed = programs.find_changes(stack.programs, lock.programs, where("programs"))
        problems = (*engine.problems(stack), *views.problems, *changed)
        return Findings(problems=problems, notes=views.notes)

    def plan(self, stack: Stack, lock: Lock | None, sources: Sources) -> Plan:
        """See `Engine`; what makes a lock is no step but a question to the package index."""
        if lock is None:
            raise TypeError("the plan of wheels needs a lock")
        return plan(stack, lock, sources)

    def rows(self, stack: Stack, lock: Lock | None) -> Rows:
        """See `Engine`."""
        views = describe_image(stack, lock).views if lock else ()
        return (
            ("stack", f"{stack.name} {stack.version}  {stack.description}"),
            ("engine", stack.engine),
            ("machine", f"{stack.architecture}, {stack.site_facts.get('compiler', '')}"),
            ("mount", stack.mount),
            ("views", ", ".join(views)),
            *(
                ("file", f"{one.filename}  sha256 {one.sha256}")
                for one in (lock.artefacts if lock else ())
            ),
            *programs.list_rows(stack.programs),
        )

    def container(self, stack: Stack, lock: Lock) -> Container:
        """See `Engine`."""
        views = describe_image(stack, lock).views
        mpi = mpi_facts(stack, lock)
        family = families.REGISTRY[mpi.family]
        return Container(
            views=tuple(views),
            environments={
                "": family.environment(mpi.prefix),
                **{name: view.env for name, view in views.items()},
            },
            labels={
                f"{OCI}.licenses": licences(one.licence for one in lock.artefacts),
                f"{OWN}.mpi": f"{mpi.family} {mpi.version}",
                f"{OWN}.mpi.abi": family.abi,
                f"{OWN}.mpi.prefix": mpi.prefix,
            },
            programs=("wheel_worker.py",),
            builder_packages=("ca-certificates", "gcc", "libc6-dev", "python3", "python3-pip"),
            unpacked=(INSTALLER,),
            download=lambda artefact: (engine.fetch_command(artefact, DOWNLOADS).argv,),
        )


ENGINE = WheelEngine()


def plan(stack: Stack, lock: Lock, sources: Sources) -> Plan:
    """Return the plan that builds the image of a locked stack."""
    image = describe_image(stack, lock)
    facts = mpi_facts(*engine.own_part(stack, lock))
    native = facts if NATIVE in stack.benchmarks else None
    needs = families.REGISTRY[facts.family].environment(facts.prefix)
    install = engine.install_step(*engine.own_part(stack, lock))
    other = engine.replacing_part(stack, lock)
    compiled = tuple(
        replace(programs.program_step(own, stack.mount, facts, needs), inputs=(install.id,))
        for own in stack.programs
    )
    rest = (
        *tail.compiled(stack, native, sources.csrc, needs),
        *([replace(engine.install_step(*other), name="replacement")] if other else []),
        tail.metadata_step(image, stack, lock, bill=render_bom(stack, lock), recipe=sources.recipe),
        tail.packed(stack),
    )
    before = (install, *compiled)
    steps = (*before, *tail.in_turn(rest, *(step.id for step in before)))
    return Plan(name=stack.name, mount=stack.mount, steps=steps)


def mpi_facts(stack: Stack, lock: Lock) -> MpiFacts:
    """Return what the image will say about its MPI: the one that runs its programs."""
    stack, lock = engine.replacing_part(stack, lock) or (stack, lock)
    return MpiFacts(
        family=stack.mpi_family,
        version=engine.mpi_version(stack, lock),
        prefix=f"{stack.mount}/{engine.prefix_name(stack, lock)}",
        launcher=families.REGISTRY[stack.mpi_family].launcher,
    )


def render_bom(stack: Stack, lock: Lock) -> str:
    """Return the bill of materials: each wheel with the licence that its publisher states."""
    wheels = [bom.of_index(artefact) for artefact in lock.artefacts]
    parts = [*wheels, *programs.program_bills(stack.programs, tuple(wheel.ref for wheel in wheels))]
    needs = [part.ref for part in parts]
    return bom.render(stack, lock, parts, needs=needs, facts=stack.site_facts)


def transports_of(stack: Stack, lock: Lock) -> TransportViews:
    """Return the changes by views of the recipe's transports, and those that cannot be views."""
    own = [view.name for view in stack.views]
    libfabric = libfabric_of(render_bom(stack, lock))
    return transport_views(stack, mpi_facts(stack, lock), libfabric, taken=own)


def describe_image(stack: Stack, lock: Lock) -> Image:
    """Return the description in an image; its `path`, `size` and `sha256` are still empty.

    Raises `StackproofError` (UNSUPPORTED) for a transport of the recipe that cannot be had.
    """
    changes = transports_of(stack, lock).required()
    facts, own = mpi_facts(stack, lock), mpi_facts(*engine.own_part(stack, lock))
    needs = families.REGISTRY[facts.family].environment(facts.prefix)
    if own != facts:  # its programs, IMB-MPI1 among them, are found behind those of the other
        needs = needs.then(EnvPatch(append={"PATH": (f"{own.prefix}/bin",)}))
    needs = programs.program_folders(stack.programs, stack.mount).then(needs)
    views = {
        view.name: View(
            name=view.name,
            root=f"{stack.mount}/env/{view.name}",
            description=view.description,
            env=needs.then(view.filled(prefix=facts.prefix, mount=stack.mount)),
            features=tail.of_mpi(facts),
        )
        for view in stack.views
    }
    places = {name: _program_path(name, stack, own) for name in stack.benchmarks}
    places |= programs.program_places(stack.programs, stack.mount)
    return tail.described(stack, lock, facts, places, views, changes)


def _program_path(name: str, stack: Stack, facts: MpiFacts) -> str:
    return benchmark.program_path(stack.mount) if name == NATIVE else f"{facts.prefix}/bin/{name}"
