"""A folder laid out as EESSI's repository, with a real MPI in it, for tests of what uses it.

The MPI is a wheel's, below the prefix that EESSI would have for it; its module sets the variables
that a tree needs which was moved. EESSI's start script, its module, and the loader of its
compatibility layer are small files of ours in their places.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import mpitrees
from stackproof.core.value import Value
from stackproof.mpi import families

VERSION = "2023.06"
CPU = f"{os.uname().machine}/generic"
MODULE = "OpenMPI/4.1.8-GCC-12.3.0"
_START = """# as EESSI's: its own Lmod, then its module
export MODULEPATH="$EESSI_CVMFS_REPO/init/modules"
. /usr/share/lmod/lmod/init/bash
module load "EESSI/$EESSI_VERSION"
echo "EESSI has selected $EESSI_SOFTWARE_SUBDIR as the compatible CPU target"
"""
_MODULE = """
local version = myModuleVersion()
local cpu = os.getenv("EESSI_ARCHDETECT_OPTIONS_OVERRIDE") or "{cpu}"
local software = pathJoin("{repository}", "versions", version, "software", "linux", cpu)
if cpu == "unknown" then LmodError("Software directory check for the detected architecture failed") end
setenv("EESSI_VERSION", version)
setenv("EESSI_CVMFS_REPO", "{repository}")
setenv("EESSI_SOFTWARE_SUBDIR", cpu)
setenv("EESSI_SOFTWARE_PATH", software)
prepend_path("MODULEPATH", pathJoin(software, "modules", "all"))
"""
_GCC = """#!/bin/sh
exec /usr/bin/gcc "-Wl,--dynamic-linker,{loader}" "$@"
"""


class EessiTree(Value, kw_only=False):
    """The repository, and the folder of its MPI."""

    repository: Path
    mpi: Path

    @property
    def software(self) -> Path:
        """Return the folder of a version's software for this processor."""
        return self.repository / "versions" / VERSION / "software" / "linux" / CPU

    @property
    def site(self) -> Path:
        """Return the site's folder beside it."""
        return self.repository / "host_injections" / VERSION / "software" / "linux" / CPU

    @property
    def entry(self) -> dict[str, object]:
        """Return what an arm of a specification says."""
        return {"eessi": VERSION, "repository": str(self.repository), "load": [MODULE]}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def made(folder: Path) -> EessiTree:
    """Make a repository with Open MPI 4.1.8, as EESSI 2023.06 has 4.1.5."""
    repository = folder / "cvmfs" / "software.eessi.io"
    tree = EessiTree(repository, EessiTree(repository, Path()).software / "software" / MODULE)
    mpitrees.unpacked(families.get("openmpi"), folder, tree.mpi, "4.1.8")
    version = repository / "versions" / VERSION
    write(version / "init" / "lmod" / "bash", _START)
    write(
        repository / "init" / "modules" / "EESSI" / f"{VERSION}.lua",
        _MODULE.format(repository=repository, cpu=CPU),
    )
    loader = version / "compat" / "linux" / os.uname().machine / "lib64" / "ld-linux.so.2"
    loader.parent.mkdir(parents=True)
    shutil.copy(os.path.realpath(_interpreter()), loader)
    gcc = write(tree.software / "software/GCC/12.3.0/bin/cc", _GCC.format(loader=loader))
    gcc.chmod(0o755)
    patch = families.get("openmpi").environment(str(tree.mpi))
    lines = [f'setenv("{name}", "{value}")' for name, value in patch.set.items()]
    lines.append(f'prepend_path("PATH", "{tree.mpi}/bin")')
    modules = tree.software / "modules" / "all"
    write(modules / f"{MODULE}.lua", 'depends_on("GCC/12.3.0")\n' + "\n".join(lines))
    write(modules / "GCC" / "12.3.0.lua", f'prepend_path("PATH", "{gcc.parent}")\n')
    return tree


def _interpreter() -> str:
    done = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True, timeout=9)
    return next(word for word in done.stdout.split() if "/ld-" in word)
