"""The Guix engine: a pack of Guix as an image of ours that is mounted where Guix has its store.

Nothing is compiled here but the benchmark, and nothing is changed: programs find what they need by
their run paths into /gnu/store.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from stackproof.build import benchmark, bom, tail
from stackproof.build.engine import (
    Container,
    Findings,
    Rows,
    Sources,
    Where,
    compare_wants,
    describe_container,
    list_rows,
)
from stackproof.build.engines.guix import scheme
from stackproof.build.engines.guix.locking import is_whole
from stackproof.build.engines.guix.stack import Channel, GuixLock, GuixStack, StoreItem, wants
from stackproof.build.meaning import make_stack, meaning_problems
from stackproof.build.plan import BUILD, Plan, Step
from stackproof.build.swap import MPI, RecipeOverlay, SwapKind, SwapWord
from stackproof.build.transport_views import TransportViews, transport_views
from stackproof.core import document as documents
from stackproof.core.command import Command, EnvPatch
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.image.model import Image, MpiFacts
from stackproof.mpi import families
from stackproof.mpi.transports.profile import libfabric_of

# --------------------------------- A recipe with `engine: guix` to the stack it means on a machine

SCHEMA = "guix-recipe"


def parse_guix_recipe(document: Document, facts: Mapping[str, str]) -> GuixStack:
    """Return the stack that a recipe means on a machine.

    `facts` are `architecture` and others of the site. Raises `StackproofError` with every problem.
    """
    problems = [*documents.problems(document, SCHEMA)]
    if isinstance(document.data, dict):
        problems += meaning_problems(document)
    if not problems:
        stack = _stack(document.data, facts)
        problems += _machine_problems(stack, document)
    if problems:
        raise StackproofError(*problems)
    return stack


def _machine_problems(stack: GuixStack, document: Document) -> Iterator[Problem]:
    if stack.architecture not in scheme.SYSTEMS:
        yield document.problem(
            ("engine",),
            f"Guix builds nothing for {stack.architecture}",
            f"the machines are: {', '.join(scheme.SYSTEMS)}",
        )


def _stack(data: Mapping[str, Any], facts: Mapping[str, str]) -> GuixStack:
    mpi = data["mpi"]
    return make_stack(
        GuixStack,
        data,
        facts,
        "the packages, ready to use",
        mpi_family=mpi["family"],
        mpi_package=mpi.get("package", mpi["family"]),
        mpi_version=mpi.get("version", ""),
        channels=tuple(_channel(name, body) for name, body in sorted(data["channels"].items())),
        benchmarks=tuple(data.get("benchmarks", ())),
    )


def _channel(name: str, body: Mapping[str, Any]) -> Channel:
    introduction = body.get("introduction", {})
    return Channel(
        name=name,
        url=body["url"],
        commit=body["commit"],
        branch=body.get("branch", ""),
        introduced=introduction.get("commit", ""),
        fingerprint=introduction.get("fingerprint", ""),
    )


# ----------------- Words that swap a package of a recipe for Guix: its transformation `with-input`

_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")


def swap(document: Document, word: SwapWord) -> RecipeOverlay:
    """See `Swapper`: Guix builds again what needs a package, with another in its place."""
    if word.kind is not SwapKind.WITH:
        message = "Guix builds from what its channels define"
        raise StackproofError(word.problem(message, "put the package into a channel of yours"))
    mpi = document.data["mpi"]
    is_mpi = word.package == MPI
    old = mpi.get("package", mpi["family"]) if is_mpi else word.package
    new = word.name or old
    if not all(map(_PACKAGE.fullmatch, (old, new, word.version or new))):
        message = f"`{word.value}` is no name of a package of Guix"
        raise StackproofError(word.problem(message, reason=Reason.INVALID_VALUE))
    replacement = f"{new}@{word.version}" if word.version else new
    inputs = _replace_input(document.data.get("with-input") or {}, old, replacement)
    why = f"Guix builds what needs {old} again, with {replacement} (--with-input)"
    if not is_mpi:
        return RecipeOverlay(data={"with-input": inputs}, why=why)
    family = next((name for name in families.REGISTRY if f"{new}-".startswith(f"{name}-")), "")
    if not family:
        message = f"`{new}` is the package of no MPI that is known here"
        hint = "its name begins with that of its family: openmpi, mpich-ofi"
        raise StackproofError(word.problem(message, hint, reason=Reason.INVALID_VALUE))
    version = {"version": word.version} if word.version or "version" in mpi else {}
    data = {"mpi": {"family": family, "package": new, **version}, "with-input": inputs}
    return RecipeOverlay(data=data, why=why)


def _replace_input(given: Mapping[str, str], old: str, replacement: str) -> dict[str, str]:
    """Return the inputs with `replacement` in the place of `old`, or of what replaced that."""
    replaced = [key for key, value in given.items() if value.partition("@")[0] == old]
    return dict.fromkeys(replaced or [old], replacement)


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
        return compare_wants(stack, lock, wants, "packages, inputs or the MPI have changed")

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
        if lock is None:
            return Plan(name=stack.name, mount=stack.mount, steps=(_pack_step(stack),))
        return build_plan(stack, lock, sources)

    def rows(self, stack: GuixStack, lock: GuixLock | None) -> Rows:
        """See `Engine`: also the files that Guix reads, whole."""
        texts = scheme.render_files(stack).items()
        lines = ((name, line) for name, text in texts for line in text.splitlines())
        rows = (*list_rows(stack), *lines)
        if lock is None:
            return rows
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
        return describe_container(describe_image(stack, lock), patch_environment(facts))


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


def build_plan(stack: GuixStack, lock: GuixLock, sources: Sources) -> Plan:
    """Return the plan that builds the image of a locked stack."""
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
    )  # fmt: skip
    return tail.plan_of(stack, [install], rest)


def mpi_facts(stack: GuixStack, lock: GuixLock) -> MpiFacts:
    """Return the facts of an image about its MPI."""
    prefix = f"{stack.mount}/store/{lock.mpi}"
    return tail.facts_of(stack.mpi_family, lock.item(lock.mpi).version, prefix)


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
    needs, features = patch_environment(facts), tail.of_mpi(facts)
    views = tail.own_views(stack, facts.prefix, needs, features)
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
