"""The MPI of a site's vendor as an arm: `vendor` for this machine, `vendor:SITE` for another."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from typing import Any

from stackproof.core.errors import Reason, fail
from stackproof.site.effects.probe import load_site
from stackproof.site.model import VendorMpi

_HERE = "local"
_CRAY = "/opt/cray/pe/mpich/{version}/ofi/{compiler}/*/bin/mpicc"
"""Where HPE's packages have Cray MPICH, as its modules show on Cray EX machines."""
_COMPILERS = ("gnu", "*")


def is_vendor(text: str) -> bool:
    """Return whether a word of the command line means the vendor's MPI."""
    return text == "vendor" or text.startswith("vendor:")


def vendor_entry(text: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Return the entry of a specification for `vendor[:SITE]`; `tell` hears what was found.

    Raises `StackproofError` (NO_MPI) where a site does not have one, and as `load_site` does.
    """
    name = text.partition(":")[2] or _HERE
    site = load_site(name)
    mpi = site.vendor_mpi
    if mpi is None:
        raise fail(
            Reason.NO_MPI,
            "nothing here shows an MPI of the machine's vendor"
            if name == _HERE
            else f"the site `{name}` does not say which MPI its vendor installed",
            hint="name it: --baseline module:NAME or --baseline prefix:DIR; or write `vendor-mpi` "
            "into the site's file and say --baseline vendor:FILE",
        )
    entry, where = _found(mpi)
    title = " ".join(filter(None, (mpi.family, mpi.version)))
    tell(f"the vendor's MPI is {title}, {where}")
    return {"name": "vendor", **entry}


def _found(mpi: VendorMpi) -> tuple[dict[str, Any], str]:
    """Return the entry for a vendor's MPI, and where it is in words."""
    if mpi.path and os.path.isdir(mpi.path):
        return {"prefix": mpi.path}, f"installed in {mpi.path}"
    if mpi.family == "cray-mpich":
        if wrapper := _cray(mpi.version or "*"):
            prefix = os.path.dirname(os.path.dirname(wrapper))
            return {"prefix": prefix}, f"installed in {prefix}"
        module = f"cray-mpich/{mpi.version}" if mpi.version else "cray-mpich"
        return {"module": [module]}, f"as the module {module}"
    raise fail(
        Reason.NO_MPI,
        f"the vendor's MPI, {mpi.family}, is not on this machine"
        + (f": there is no `{mpi.path}`" if mpi.path else ", or the site does not say where"),
        hint="name it: --baseline module:NAME or --baseline prefix:DIR",
    )


def _cray(version: str) -> str:
    """Return the wrapper of Cray MPICH for gcc, else for any compiler; empty without one."""
    for compiler in _COMPILERS:
        found = sorted(glob.glob(_CRAY.format(version=version, compiler=compiler)))
        if found:
            return found[-1]
    return ""
