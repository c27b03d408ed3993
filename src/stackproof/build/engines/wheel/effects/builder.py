"""The builder of wheels: the package index asked for a lock, and the recipe for them read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.build.effects import builders, stacks
from stackproof.build.effects.builders import Reading, Solving
from stackproof.build.effects.loaded import Loaded
from stackproof.build.effects.pip import index_command
from stackproof.build.effects.workspace import BuildSetup
from stackproof.build.engine import Findings
from stackproof.build.engines.wheel import engine as wheel_engine
from stackproof.build.engines.wheel.recipe import parse_recipe, placed
from stackproof.build.engines.wheel.stack import Lock, Stack
from stackproof.build.options import BuildOptions
from stackproof.build.plan import Plan
from stackproof.core.document import Document
from stackproof.core.effects import cache_kinds
from stackproof.core.effects.run import run
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import replace
from stackproof.mpi import families


class WheelBuilder(builders.MirrorlessBuilder):
    """See `Builder`."""

    engine = wheel_engine.ENGINE
    lock_kind = Lock
    solving = Solving.QUESTION
    swap = staticmethod(wheel_engine.swap)
    refused: Mapping[str, Problem] = {
        "from": builders.NO_RPMS,
        "mirror": Problem(
            reason=Reason.USAGE,
            message="`--mirror` is for builds from source, and this recipe is of wheels",
            hint="a folder of wheels is named by PIP_FIND_LINKS, with PIP_NO_INDEX=1",
        ),
        "build-dir": builders.build_dir_problem("wheels", "they are put together"),
        "on": builders.NO_NODES,
        "mirror create": Problem(
            reason=Reason.UNSUPPORTED,
            message="a mirror holds sources, and this recipe is of wheels",
            hint="`pip download` fills a folder for PIP_FIND_LINKS",
        ),
    }

    def load(self, reading: Reading) -> Loaded:
        """See `Builder`."""
        composed = reading.require_file()
        document = composed.document
        facts = stacks.build_facts(reading.options, composed)
        stack = parse_recipe(document, facts)
        programs, blobs = stacks.programs_of(document)
        stack = replace(stack, programs=programs)
        return Loaded(
            path=reading.path,
            document=document,
            composed=composed,
            stack=stack,
            blobs=blobs,
            notes=_wheels_on_slingshot(reading.options.site, stack, document),
            variant=stacks.variant(composed, facts),
        )

    def check(self, loaded: Loaded, lock: Any | None, *, whole: bool) -> Findings:
        """See `Builder`; any machine will do."""
        del loaded, lock, whole
        return Findings()

    def solve(self, loaded: Loaded, options: BuildOptions, monitor: Monitor) -> Lock:
        """See `Builder`: exact files, by the package index."""
        del options
        monitor(Event(what="started", name="resolve", text="exact versions and digests"))
        stack: Stack = loaded.stack
        lock = _asked(stack, loaded.document, "mpi")
        other = wheel_engine.replacing_part(stack)
        if other is not None:
            more = _asked(other[0], loaded.document, "replacement")
            lock = replace(lock, artefacts=(*lock.artefacts, *more.artefacts))
        found = ", ".join(f"{a.name} {a.version}" for a in lock.artefacts)
        monitor(Event(what="done", name="resolve", text=found))
        return lock

    def setup(
        self, loaded: Loaded, lock: Any, plan: Plan, options: BuildOptions, monitor: Monitor
    ) -> BuildSetup:
        """See `Builder`."""
        del loaded, lock, options, monitor
        compiles = any(step.makes_program for step in plan.steps)
        kept = cache_kinds.home("components") if compiles else None
        return BuildSetup(fetch_command=wheel_engine.fetch_command, movable=False, kept=kept)


BUILDER = WheelBuilder()


def _wheels_on_slingshot(site: str | None, stack: Stack, document: Document) -> tuple[Problem, ...]:
    """Return a note where the nodes are joined by Slingshot, whose NIC no wheel can use."""
    from stackproof.mpi.effects import fabric  # noqa: PLC0415 - only for wheels
    from stackproof.mpi.transports.profile import SLINGSHOT  # noqa: PLC0415

    if site is None:
        kind, place = fabric.of_this_machine()[0], "this machine"
    else:
        from stackproof.site.effects.probe import load_site  # noqa: PLC0415 - only with --site

        kind, place = load_site(site).fabric.type or "", f"`{site}`"
    if kind != SLINGSHOT:
        return ()
    title = families.REGISTRY[stack.mpi_family].title
    note = document.problem(
        ("mpi",),
        f"{title} of the developers' wheels has no cxi: between nodes of {place}, which "
        "Slingshot-11 joins, messages would take TCP",
        "build it from source on a libfabric that has cxi (`engine: easybuild` with "
        "`slingshot:`, or the chains for Spack), or put one under it with --inject",
        reason=Reason.UNSUPPORTED,
    )
    return (note,)


def _asked(stack: Stack, document: Document | None, key: str) -> Lock:
    """Return the lock that the package index gives for what stands under a key of the recipe."""
    try:
        return wheel_engine.read_lock(stack, run(index_command(wheel_engine.lock_command(stack))))
    except StackproofError as error:
        raise (placed(error, document, key) if document else error) from None
