"""The stack and lock of wheels: a recipe resolved on a site, and the exact files it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from stackproof.build.programs import StackProgram
from stackproof.build.stack import DEFAULT_MOUNT, Artefact, SourceFile, StackView
from stackproof.core.value import Value
from stackproof.mpi.requirement import Requirement


class ReplacingMpi(Value):
    """An MPI that is put under programs which another one of its ABI compiled."""

    family: str
    requirements: tuple[Requirement, ...]


class Stack(Value):
    """A recipe resolved on a site; still without file digests (those are in the lock).

    `mpi_family` is a name in `stackproof.mpi.families`; `site_facts` are the only facts of the site
    that mattered, so that an unrelated edit of the site changes no id; `architecture` is the
    machine name as `uname -m` gives it. With `replacement`, `mpi_family` is the MPI that programs
    are compiled with, and the other one runs them.
    """

    SCHEMA: ClassVar[str] = "stackproof/stack/1"

    name: str
    version: str = "0"
    description: str = ""
    engine: str
    mpi_family: str
    requirements: tuple[Requirement, ...]
    mount: str = DEFAULT_MOUNT
    architecture: str
    views: tuple[StackView, ...]
    default_view: str | None
    transports: tuple[str, ...] = ()
    benchmarks: tuple[str, ...]
    packages: tuple[str, ...] = ()
    replacement: ReplacingMpi | None = None
    programs: tuple[StackProgram, ...] = ()
    compression: str = "zstd"
    compression_level: int = 6
    site_facts: Mapping[str, str] = field(default_factory=dict)


class Lock(Value):
    """The engine's solution for a stack, kept beside the recipe as `<recipe>.lock.json`.

    `wants` is the id of what was asked for (engine, requirements, architecture): a lock whose
    `wants` differs from the stack's belongs to an older recipe. The files of a replacement come
    last, one for each of its requirements. `programs` are the sources of the recipe's programs.
    """

    SCHEMA: ClassVar[str] = "stackproof/lock/1"

    engine: str
    wants: str
    artefacts: tuple[Artefact, ...]
    programs: tuple[SourceFile, ...] = ()
