"""Small MPIs as they are installed: a wrapper, a header, and a library that says what it is.

mpi = installed(tmp_path / "mpich-5", said=MPICH)
assert (mpi / "bin" / "mpicc").exists()

The library answers `MPI_Get_library_version` and nothing else: enough to be asked, not to start.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

MPICH = "MPICH Version:      5.0.2\nMPICH Release date: none"
OPEN_MPI = "Open MPI v5.0.11, package: a test, ident: 5.0.11"
INTEL = "Intel(R) MPI Library 2021.18 for Linux* OS"

_HEADER = """
#define MPI_MAX_LIBRARY_VERSION_STRING 8192
int MPI_Init(int *, char ***);
int MPI_Get_library_version(char *, int *);
"""
_SOURCE = """
#include <string.h>
#include "mpi.h"
int MPI_Init(int *a, char ***b) {{ (void)a; (void)b; return 0; }}
int MPI_Get_library_version(char *text, int *length) {{
    strcpy(text, {said}); *length = strlen(text); return 0; }}
"""
_WRAPPER = """#!/bin/sh
# A compiler wrapper; with $NEEDED it works only where a module has set that.
{needed}
prefix={prefix}
case "$1" in -show|--showme) echo "gcc -I$prefix/include -L$prefix/lib -lmpi"; exit 0 ;; esac
exec gcc -I"$prefix/include" "$@" -L"$prefix/lib" {rpath} -l:{library}
"""


def installed(
    prefix: Path,
    *,
    said: str = MPICH,
    suffix: str = "",
    needed: str = "",
    rpath: bool = True,
    library: str = "libmpi.so.12",
) -> Path:
    """Make one below a prefix and return that; `needed` is a variable that its wrapper asks for."""
    for name in ("bin", "include", "lib"):
        (prefix / name).mkdir(parents=True, exist_ok=True)
    (prefix / "include" / "mpi.h").write_text(_HEADER)
    source = prefix / "lib" / "mpi.c"
    source.write_text(_SOURCE.format(said=json.dumps(said)))
    argv = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library}", f"-I{prefix}/include"]
    subprocess.run([*argv, "-o", prefix / "lib" / library, source], check=True, timeout=600)
    wrapper = prefix / "bin" / f"mpicc{suffix}"
    wrapper.write_text(
        _WRAPPER.format(
            prefix=prefix,
            library=library,
            needed=f': "${{{needed}:?is not set}}"' if needed else "",
            rpath=f"-Wl,-rpath,{prefix}/lib" if rpath else "",
        )
    )
    wrapper.chmod(0o755)
    return prefix
