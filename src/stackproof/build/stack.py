"""What stacks and locks of every engine have, and the files that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import field

from stackproof.core.command import EnvPatch
from stackproof.core.value import Value

DEFAULT_MOUNT = "/user-environment"
"""Where the image of a recipe is mounted that does not say it."""


class AnyStack(Protocol):
    """What the stack of every engine says of itself; the fields are as in that of wheels."""

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


class PlainStack(AnyStack, Protocol):
    """A stack that has the views and the benchmarks of its recipe as they are."""

    @property
    def views(self) -> tuple[StackView, ...]:
        """Return the views of the recipe."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Return the benchmark programs in the image."""


class AnyLock(Protocol):
    """What the lock of every engine has: `wants` is the id of what it answers."""

    @property
    def wants(self) -> str:
        """Return the id of what was asked for."""


class StackView(Value):
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


class Artefact(Value):
    """One file of the lock: what the package index serves under this name has this digest."""

    name: str
    version: str
    filename: str
    sha256: str
    licence: str = ""


class Digest(Value):
    """A digest that a source file may have, and who says so (a public address or package)."""

    sha256: str
    provenance: str


class OsPackage(Value):
    """A source package of an operating system: `libfabric` 2.1.0-1.1 of suite `trixie`."""

    name: str
    version: str
    suite: str


class OtherPlace(Value):
    """Where else the same bytes are, as `filename`: an address, or a source package."""

    filename: str
    address: str = ""
    os_package: OsPackage | None = None


class SourceFile(Value):
    """One source file of a build, which must be there as `filename`.

    `accepted` are the digests it may have. It comes from `address` (the whole address of the
    file), or is the upstream tarball of an operating system's source package, or, when `commit`
    is given, holds that commit of the repository at `address` as
    `git archive --format=tar --prefix=STEM/ COMMIT` writes it, where STEM is `filename` without
    `.tar`: what identifies it then is the commit, and the digest is that of these bytes.
    `elsewhere` is asked in its order for what its own place has not any more.
    """

    filename: str
    accepted: tuple[Digest, ...] = ()
    address: str = ""
    commit: str = ""
    os_package: OsPackage | None = None
    elsewhere: tuple[OtherPlace, ...] = ()

    @property
    def pool(self) -> str:
        """Return the path of an operating system's source file in its archive; empty for others.

        Pools hold the files of every suite, cut by the first letters of names
        (https://wiki.debian.org/DebianRepository/Format).
        """
        if self.os_package is None:
            return ""
        name = self.os_package.name
        cut = name[: 4 if name.startswith("lib") else 1]
        return f"pool/main/{cut}/{name}/{self.filename}"
