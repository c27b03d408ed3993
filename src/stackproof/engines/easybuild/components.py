"""The catalogue of components that chains are made of: versions, sources, digests, options."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A digest that a source file may have, and who says so (a public address or package)."""

    sha256: str
    provenance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OsPackage:
    """A source package of an operating system: `libfabric` 2.1.0-1.1 of suite `trixie`."""

    name: str
    version: str
    suite: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file that EasyBuild must find under `filename` below its source path.

    `accepted` are the digests it may have. It comes from `address` (the whole address of the
    file), or from the upstream tarball of an operating system's source package, or, when `commit`
    is given, as that commit of the repository at `address`, packed by whoever fetches it: then
    `accepted` may be empty, and the commit is what identifies the content.
    """

    filename: str
    accepted: tuple[Digest, ...] = ()
    address: str = ""
    commit: str = ""
    os_package: OsPackage | None = None
