"""The stack and lock nouns: a recipe resolved on a site, and the exact files it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from stackproof.command import EnvPatch


class AnyStack(Protocol):
    """What the stack of every engine says of itself; the fields are as in `Stack`."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def version(self) -> str:
        """Return the version that its recipe states."""

    @property
    def description(self) -> str:
        """Return a line for people."""

    @property
    def engine(self) -> str:
        """Return the name of the engine that obtains it."""

    @property
    def mount(self) -> str:
        """Return where its image is mounted."""

    @property
    def architecture(self) -> str:
        """Return the machine as `uname -m` names it."""

    @property
    def default_view(self) -> str | None:
        """Return the view that counts where none is named."""

    @property
    def transports(self) -> tuple[str, ...]:
        """Return the transports that become views."""

    @property
    def site_facts(self) -> Mapping[str, str]:
        """Return the facts of the site that mattered."""

    @property
    def compression(self) -> str:
        """Return how the image is compressed."""

    @property
    def compression_level(self) -> int:
        """Return the level of it."""


class AnyLock(Protocol):
    """What the lock of every engine has: `wants` is the id of what it answers."""

    @property
    def wants(self) -> str:
        """Return the id of what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One distribution the engine must obtain: `specifier` is a PEP 440 set, `==5.0.11`."""

    name: str
    specifier: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.specifier}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackView:
    """A view of the stack; `env` may use `@prefix@` and `@mount@`, replaced when it is planned."""

    name: str
    description: str = ""
    env: EnvPatch = field(default_factory=EnvPatch)

    def filled(self, *, prefix: str, mount: str) -> EnvPatch:
        """Return `env` with the folder of the MPI and the mount point in their places."""

        def fill(text: str) -> str:
            return text.replace("@prefix@", prefix).replace("@mount@", mount)

        return EnvPatch(
            set={key: fill(value) for key, value in self.env.set.items()},
            unset=self.env.unset,
            prepend={key: tuple(map(fill, value)) for key, value in self.env.prepend.items()},
            append={key: tuple(map(fill, value)) for key, value in self.env.append.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A recipe resolved on a site; still without file digests (those are in the lock).

    `mpi_family` is a name in `stackproof.mpis`; `site_facts` are the only facts of the site that
    mattered, so that an unrelated edit of the site changes no id; `architecture` is the machine
    name as `uname -m` gives it.
    """

    SCHEMA: ClassVar[str] = "stackproof/stack/1"

    name: str
    version: str
    description: str
    engine: str
    mpi_family: str
    requirements: tuple[Requirement, ...]
    mount: str
    architecture: str
    views: tuple[StackView, ...]
    default_view: str | None
    transports: tuple[str, ...]
    benchmarks: tuple[str, ...]
    packages: tuple[str, ...] = ()
    compression: str = "zstd"
    compression_level: int = 6
    site_facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """One file of the lock: what the package index serves under this name has this digest."""

    name: str
    version: str
    filename: str
    sha256: str
    licence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The engine's solution for a stack, kept beside the recipe as `<recipe>.lock.json`.

    `wants` is the id of what was asked for (engine, requirements, architecture): a lock whose
    `wants` differs from the stack's belongs to an older recipe.
    """

    SCHEMA: ClassVar[str] = "stackproof/lock/1"

    engine: str
    wants: str
    artefacts: tuple[Artefact, ...]
