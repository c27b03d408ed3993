"""The Guix engine: a pack of Guix as an image of ours that is mounted where Guix has its store.

Nothing is compiled here but the benchmark, and nothing is changed: programs find what they need by
their run paths into /gnu/store.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from urllib.parse import quote

from stackproof.build import benchmark, bom, features, tail
from stackproof.build.engine import (
    OWN,
    Container,
    Findings,
    Rows,
    Sources,
    Where,
    other_machine,
)
from stackproof.build.engines.guix import scheme
from stackproof.build.engines.guix.locking import is_whole
from stackproof.build.engines.guix.stack import GuixLock, GuixStack, StoreItem, wants
from stackproof.build.plan import BUILD, Plan, Step
from stackproof.build.transport_views import TransportViews, transport_views
from stackproof.core.command import Command, EnvPatch
from stackproof.core.errors import Problem, Reason
from stackproof.image.model import Image, MpiFacts, View
from stackproof.mpi import families
from stackproof.mpi.transports.profile import libfabric_of

PACK = f"{BUILD}/pack"
"""Where a build has the store of the pack."""


class GuixEngine:
    """Packages of Guix, packed by it."""

    def stale(self, stack: GuixStack, lock: GuixLock) -> str:
        """See `Engine`; a lock must hold every channel of the recipe at its commit."""
        if not is_whole(lock):
            return "its items do not belong together"
        if lock.channels != stack.channels:
            return "its channels are not those of the recipe, each at its commit"
        if lock.wants == wants(stack):
            return ""
        return other_machine(stack, lock, wants) or "packages, inputs or the MPI have changed"

    def problems(self, stack: GuixStack, lock: GuixLock | None, where: Where) -> Findings:
        """See `Engine`."""
        notes = tuple(
            Problem(
                reason=Reason.UNSUPPORTED,
                message=f"Guix takes the commit of `{channel.name}` unsigned: "
                "it has no introduction",
                where=where("channels"),
            )
            for channel in stack.channels
            if not channel.introduced
        )
        if lock is None:
            return Findings(notes=notes)
        views = transports_of(stack, lock).placed(where("transports"))
        return Findings(problems=views.problems, notes=(*notes, *views.notes))

    def plan(self, stack: GuixStack, lock: GuixLock | None, sources: Sources) -> Plan:
        """See `Engine`; without a lock it is what Guix is asked to do."""
        steps = (_pack_step(stack),) if lock is None else tuple(_steps(stack, lock, sources))
        return Plan(name=stack.name, mount=stack.mount, steps=steps)

    def rows(self, stack: GuixStack, lock: GuixLock | None) -> Rows:
        """See `Engine`: also the files that Guix reads, whole."""
        texts = scheme.render_files(stack).items()
        rows = [
            ("stack", f"{stack.name} {stack.version}  {stack.description}".rstrip()),
            ("engine", stack.engine),
            ("machine", f"{stack.architecture}, {stack.site_facts.get('compiler', '')}"),
            ("mount", stack.mount),
            *((name, line) for name, text in texts for line in text.splitlines()),
        ]
        if lock is None:
            return tuple(rows)
        return (
            *rows,
            ("views", ", ".join(describe_image(stack, lock).views)),
            ("pack", f"{lock.pack.filename}  sha256 {lock.pack.sha256}"),
            ("mpi", lock.mpi),
            ("store", f"{len(lock.items)} items"),
        )

    def container(self, stack: GuixStack, lock: GuixLock) -> Container:
        """See `Engine`; its builder refuses Containerfiles: Guix packs containers itself."""
        facts = mpi_facts(stack, lock)
        views = describe_image(stack, lock).views
        return Container(
            views=tuple(views),
            environments={"": patch_environment(facts), **{k: v.env for k, v in views.items()}},
            labels={
                f"{OWN}.mpi": f"{facts.family} {facts.version}",
                f"{OWN}.mpi.abi": families.REGISTRY[facts.family].abi,
                f"{OWN}.mpi.prefix": facts.prefix,
            },
        )


ENGINE = GuixEngine()


def _pack_step(stack: GuixStack) -> Step:
    argv = scheme.pack_argv(stack, "guix", "")
    return Step(
        name="pack",
        description=shlex.join(argv),
        build_files=scheme.render_files(stack),
        commands=(Command(argv=argv),),
        network=True,
    )


def _steps(stack: GuixStack, lock: GuixLock, sources: Sources) -> Iterator[Step]:
    facts = mpi_facts(stack, lock)
    source, store = f"{PACK}/{lock.pack.sha256}", f"{stack.mount}/store"
    install = Step(
        name="install",
        description=f"put {len(lock.items)} items of {lock.pack.filename} into {store}",
        commands=(
            Command(argv=("cp", "-R", "-P", "--preserve=mode", f"{source}/.", store)),
            Command(argv=("ln", "-s", f"store/{lock.profile}", f"{stack.mount}/profile")),
        ),
        outputs=("store", "profile"),
    )
    native = facts if benchmark.NATIVE in stack.benchmarks else None
    rest = (
        *tail.compiled(stack, native, sources.csrc, patch_environment(facts)),
        tail.metadata_step(
            describe_image(stack, lock), stack, lock,
            bill=render_bom(stack, lock), recipe={**sources.recipe, **scheme.render_files(stack)},
        ),
        tail.packed(stack),
    )  # fmt: skip
    yield install
    yield from tail.in_turn(rest, install.id)


def mpi_facts(stack: GuixStack, lock: GuixLock) -> MpiFacts:
    """Return the facts of an image about its MPI."""
    return MpiFacts(
        family=stack.mpi_family,
        version=lock.item(lock.mpi).version,
        prefix=f"{stack.mount}/store/{lock.mpi}",
        launcher=families.REGISTRY[stack.mpi_family].launcher,
    )


def patch_environment(facts: MpiFacts) -> EnvPatch:
    """Return the variables of the packages: PATH alone.

    All lies where it was configured to be, so no variable says where. `LD_LIBRARY_PATH` stays as
    it is: a program of the machine's own cannot load libraries of a store with its C library.
    """
    mount = facts.prefix.partition("/store/")[0]
    return EnvPatch(prepend={"PATH": (f"{mount}/profile/bin", f"{facts.prefix}/bin")})


def transports_of(stack: GuixStack, lock: GuixLock) -> TransportViews:
    """Return the changes by views of the recipe's transports, and those that cannot be views."""
    own = [view.name for view in stack.views]
    libfabric = libfabric_of(render_bom(stack, lock))
    return transport_views(stack, mpi_facts(stack, lock), libfabric, taken=own)


def describe_image(stack: GuixStack, lock: GuixLock) -> Image:
    """Return the description in an image.

    Raises `StackproofError` (UNSUPPORTED) for a transport of the recipe that cannot be had.
    """
    facts = mpi_facts(stack, lock)
    views = {
        view.name: View(
            name=view.name,
            root=f"{stack.mount}/env/{view.name}",
            description=view.description,
            env=patch_environment(facts).then(view.filled(prefix=facts.prefix, mount=stack.mount)),
            features=features.of_mpi(facts),
        )
        for view in stack.views
    }
    programs = {
        name: benchmark.program_path(stack.mount)
        if name == benchmark.NATIVE
        else f"{stack.mount}/profile/bin/{name}"
        for name in stack.benchmarks
    }
    changes = transports_of(stack, lock).required()
    return tail.described(stack, lock, facts, programs, views, changes)


def render_bom(stack: GuixStack, lock: GuixLock) -> str:
    """Return the bill of materials: each item of the store, on those whose paths stand in it."""
    parts = [_part(item) for item in lock.items]
    facts = {**stack.site_facts, "guix-pack": lock.pack.sha256}
    facts |= {
        f"guix-channel-{channel.name}": f"{channel.url}@{channel.commit}"
        for channel in lock.channels
    }
    return bom.render(stack, lock, parts, needs=[_ref(lock.profile)], facts=facts)


def _part(item: StoreItem) -> bom.BillEntry:
    version = f"@{quote(item.version, safe='')}" if item.version else ""
    return bom.BillEntry(
        name=item.name,
        version=item.version,
        ref=_ref(item.filename),
        scope="required",
        sha256=item.sha256,
        purl=f"pkg:generic/{quote(item.name, safe='')}{version}?guix_item={quote(item.filename)}",
        properties={"guix:item": item.filename, "guix:digest": "sha256 of its nar"},
        needs=tuple(map(_ref, item.needs)),
    )


def _ref(filename: str) -> str:
    return f"guix:{filename}"
