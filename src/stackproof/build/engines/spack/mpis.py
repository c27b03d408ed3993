"""Packages of Spack that are an MPI: their family, their ABI, and which may replace another."""

from __future__ import annotations

import re

from stackproof.build.engines.spack.stackinator.config import version_of
from stackproof.build.engines.spack.stackinator.versions import LANGUAGES, SPLICES_SINCE
from stackproof.core.versions import versions
from stackproof.mpi import families

_RELEASE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)\s*(?:@=?([A-Za-z0-9][A-Za-z0-9._:,=-]*))?")
FAMILIES = {
    package: family.name for family in families.REGISTRY.values() for package in family.spack
}
"""Which family an MPI package of Spack is."""
PACKAGES = {family.name: next(iter(family.spack)) for family in families.REGISTRY.values()}
"""What Spack calls a family."""
OTHERS = tuple(
    package for family in families.REGISTRY.values() for package in tuple(family.spack)[1:]
)
"""Packages of older releases, under other names than their family's."""
_ABI_SINCE = {
    name: since for one in families.REGISTRY.values() for name, since in one.spack.items()
}
"""The first release with the ABI of today, as a package counts them."""


def release(spec: str) -> str:
    """Return the package of a spec, with its version where it has one: `mpich@4.3.2`."""
    found = _RELEASE.match(spec)
    return "".join(filter(None, (found[1], found[2] and f"@{found[2]}"))) if found else spec


def abi_of(package: str, version: str) -> str:
    """Return the ABI of a release of an MPI, the newest without a version; empty where unknown."""
    since = _ABI_SINCE.get(package, "")
    if version and since and not versions(version).within(versions(f"{since}:")):
        return ""
    return families.abi_of(FAMILIES[package], version) if package in FAMILIES else ""


def no_splice(generation: int, commit: str | None, old: str, new: str) -> str:
    """Return why Spack cannot put one MPI in another's place, empty where it can.

    `old` and `new` are packages with or without a version (`mpich@4.3.2`), `commit` is what the
    recipe names of Spack. Spack itself does not ask whether the ABIs are the same.
    """
    (package, _, version), (other, _, wanted) = old.partition("@"), new.partition("@")
    before, after = abi_of(package, version), abi_of(other, wanted)
    unknown = [text for text, abi in ((old, before), (new, after)) if not abi]
    if unknown:
        return f"the ABI of {' and '.join(unknown)} is not known"
    if before != after:
        return f"{old} and {new} have different ABIs"
    known = version_of(commit) or LANGUAGES[generation].spack_from
    if known < SPLICES_SINCE:
        first = ".".join(map(str, SPLICES_SINCE))
        said = f"`{commit}`" if version_of(commit) else "a Spack whose release is not named"
        return f"Spack splices since {first}, and the recipe is for {said}"
    return ""
