"""Engines: what obtains the software of a stack.

An engine is pure: what is wrong with a stack, which steps build it, and what there is to say of it.
Its effects are in a builder (`build/effects/builders.py`, which has the registry of both); a plan
is run by `executor.py`, which knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from msgspec import field

from stackproof.build.plan import Plan
from stackproof.build.stack import AnyStack, Artefact, SourceFile
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Location, Problem
from stackproof.core.value import Value, replace
from stackproof.image.model import Image
from stackproof.mpi import families

Rows = tuple[tuple[str, str], ...]
"""What is known of a stack, a word and a line for each."""
Where = Callable[..., Location | None]
"""Where in the recipe a key stands."""


class Sources(Value):
    """Texts that go into an image, and where packages come from besides the network.

    `recipe` is the recipe as written, by its file's name, `csrc` the benchmark's C sources by
    name, `caches` a noun of the engine.
    """

    recipe: Mapping[str, str] = field(default_factory=dict)
    csrc: Mapping[str, str] = field(default_factory=dict)
    caches: Any = None


class Findings(Value):
    """What is wrong, and what should be known and keeps nobody from going on."""

    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()

    def also(self, problems: Iterable[Problem] = (), notes: Iterable[Problem] = ()) -> Findings:
        """Return these and more."""
        return Findings(problems=(*self.problems, *problems), notes=(*self.notes, *notes))


class Container(Value):
    """What a container builder needs to make the tree of a locked stack.

    `views` are their names; a container gets the variables of `environments` by view (those of ""
    without one), or reads a script of `scripts` where they are not known before the build.
    `programs` are ours that steps run. `packages` are of the base's archive, needed at run time;
    `builder_packages` and those that have `builder_programs` are needed to build, and `variables`
    set. `unpacked` are wheels that lie beside our programs, `outside` folders that must be there
    already; `gpu` is the kind that it is built for, empty for none. `download` is what downloads a
    file of the lock, as a pipeline of command lines, where `sources` does not say where it is from.
    """

    views: tuple[str, ...] = ()
    environments: Mapping[str, EnvPatch] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Problem, ...] = ()
    programs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    builder_packages: tuple[str, ...] = ()
    builder_programs: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    unpacked: tuple[Artefact, ...] = ()
    outside: tuple[str, ...] = ()
    gpu: str = ""
    sources: tuple[SourceFile, ...] = ()
    download: Callable[[Artefact], tuple[tuple[str, ...], ...]] | None = None


_ARCHITECTURES = ("x86_64", "aarch64", "ppc64le", "riscv64")


def compare_wants(stack: Any, lock: Any, wants: Callable[[Any], str], otherwise: str) -> str:
    """Return in what a lock does not answer a stack, `otherwise` if not for another machine.

    `wants` returns the id of what a lock must answer; empty where the lock has that one.
    """
    if lock.wants == wants(stack):
        return ""
    others = (one for one in _ARCHITECTURES if one != stack.architecture)
    found = (one for one in others if wants(replace(stack, architecture=one)) == lock.wants)
    return next((f"it is for {one}, and this is {stack.architecture}" for one in found), otherwise)


def list_rows(stack: AnyStack, *more: tuple[str, str], engine: str = "") -> Rows:
    """Return the first rows of any stack; `more` stand before its mount point."""
    return (
        ("stack", f"{stack.name} {stack.version}  {stack.description}".rstrip()),
        ("engine", engine or stack.engine),
        ("machine", f"{stack.architecture}, {stack.site_facts.get('compiler', '')}"),
        *more,
        ("mount", stack.mount),
    )


def describe_container(
    image: Image, env: EnvPatch, licence: str = "", labels: Mapping[str, str] | None = None,
    **more: Any,
) -> Container:  # fmt: skip
    """Return the needs of a container with an image; `env` is its environment without a view."""
    mpi = image.mpi
    return Container(
        views=tuple(image.views),
        environments={"": env, **{name: view.env for name, view in image.views.items()}},
        labels={
            f"{OCI}.licenses": licence,
            f"{OWN}.mpi": f"{mpi.family} {mpi.version}" if mpi else "",
            f"{OWN}.mpi.abi": families.REGISTRY[mpi.family].abi if mpi else "",
            f"{OWN}.mpi.prefix": mpi.prefix if mpi else "",
            **(labels or {}),
        },
        **more,
    )


class Engine(Protocol):
    """One way to obtain software; stacks and locks are nouns of its own (`stack.AnyStack`)."""

    def stale(self, stack: Any, lock: Any) -> str:
        """Return in what a lock does not answer a stack; empty where it does."""

    def problems(self, stack: Any, lock: Any | None, where: Where) -> Findings:
        """Return why the stack cannot be made; with a lock more can be told."""

    def plan(self, stack: Any, lock: Any | None, sources: Sources) -> Plan:
        """Return the steps of the build; without a lock those that make it, if they are steps."""

    def rows(self, stack: Any, lock: Any | None) -> Rows:
        """Return what is known of a stack and its lock, for people."""

    def container(self, stack: Any, lock: Any) -> Container:
        """Return what a container builder needs."""


def licences(every: Iterable[str]) -> str:
    """Return one SPDX expression for several."""
    found = sorted(set(every) - {""})
    return " AND ".join(f"({one})" if " " in one else one for one in found)


OCI = "org.opencontainers.image"
"""How keys begin of https://github.com/opencontainers/image-spec/blob/main/annotations.md."""
OWN = "stackproof"
"""How keys of labels begin that are ours."""
