"""The MPI of a site's vendor, `vendor: SITE`, found as a prefix or as a module."""

from __future__ import annotations

import glob
import os
from typing import Any

from stackproof.bench.arms import HERE
from stackproof.bench.effects.kinds import ArmReader, Tell, reader_of
from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import Arm
from stackproof.core.errors import Reason, fail
from stackproof.core.value import replace
from stackproof.mpi.families.cray_mpich import CRAY_MPICH
from stackproof.site.effects.probe import load_site
from stackproof.site.model import VendorMpi

_CRAY = "/opt/cray/pe/mpich/{version}/ofi/{compiler}/*/bin/mpicc"
"""Where HPE's packages have Cray MPICH, as its modules show on Cray EX machines."""
_COMPILERS = ("gnu", "*")
_NAMED = "module:NAME or prefix:DIR; in a specification `module: NAME` or `prefix: DIR`"


def find_vendor(arm: Arm, tell: Tell = lambda _: None) -> Arm:
    """Return an arm with what its vendor's MPI is here; `tell` hears that.

    Raises `StackproofError` (NO_MPI) where a site does not have one, and as `load_site` does.
    """
    mpi = load_site(arm.vendor).vendor_mpi
    if mpi is None:
        raise fail(
            Reason.NO_MPI,
            "nothing here shows an MPI of the machine's vendor"
            if arm.vendor == HERE
            else f"the site `{arm.vendor}` does not say which MPI its vendor installed",
            hint=f"name it: {_NAMED}; or write `vendor-mpi` into the site's file and say "
            "vendor:FILE",
        )
    fields, where = _found(mpi)
    title = " ".join(filter(None, (mpi.family, mpi.version)))
    tell(f"the vendor's MPI is {title}, {where}")
    return replace(arm, vendor="", name=arm.name or "vendor", **fields)


def _found(mpi: VendorMpi) -> tuple[dict[str, Any], str]:
    """Return the fields of an arm for a vendor's MPI, and where it is in words."""
    if mpi.path and os.path.isdir(mpi.path):
        return {"prefix": mpi.path}, f"installed in {mpi.path}"
    if mpi.family == CRAY_MPICH.name:
        if wrapper := _cray(mpi.version or "*"):
            prefix = os.path.dirname(os.path.dirname(wrapper))
            return {"prefix": prefix}, f"installed in {prefix}"
        module = f"{mpi.family}/{mpi.version}" if mpi.version else mpi.family
        return {"module": (module,)}, f"as the module {module}"
    raise fail(
        Reason.NO_MPI,
        f"the vendor's MPI, {mpi.family}, is not on this machine"
        + (f": there is no `{mpi.path}`" if mpi.path else ", or the site does not say where"),
        hint=f"name it: {_NAMED}",
    )


def _cray(version: str) -> str:
    """Return the wrapper of Cray MPICH for gcc, else for any compiler; empty without one."""
    for compiler in _COMPILERS:
        found = sorted(glob.glob(_CRAY.format(version=version, compiler=compiler)))
        if found:
            return found[-1]
    return ""


def _read(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    found = find_vendor(arm)
    return reader_of(found).read(found, programs)


READER = ArmReader(read=_read, locate=lambda arm, _, tell: find_vendor(arm, tell))
