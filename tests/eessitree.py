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
MODULE, NEWER = "OpenMPI/4.1.5-GCC-12.3.0", "OpenMPI/4.1.6-GCC-13.2.0"
"""The Open MPI of the toolchains 2023a and 2023b by EESSI's names; both have the files of 4.1.8."""
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
setenv("LMOD_PACKAGE_PATH", pathJoin(software, ".lmod"))
prepend_path("MODULEPATH", pathJoin(software, "modules", "all"))
"""
# What EESSI's own does: a hook of its own, then the file of the site.
_SITE_PACKAGE = """
require("strict")
local hook = require("Hook")
function eessi_load_hook(t) setenv("SEEN_BY_EESSI", t.modFullName) end
hook.register("load", eessi_load_hook)
local path = string.gsub(os.getenv("EESSI_SOFTWARE_PATH") or "", "versions", "host_injections")
if isFile(path .. "/.lmod/SitePackage.lua") then dofile(path .. "/.lmod/SitePackage.lua") end
"""
_GCC = """#!/bin/sh
exec /usr/bin/gcc "-Wl,--dynamic-linker,{loader}" "-Wl,--build-id=0x{mark}" "$@"
"""


def mark(release: str) -> str:
    """Return the build id that a GCC of the tree gives to what it links; all are the machine's."""
    return f"GCC/{release}".ljust(12).encode().hex()  # whole words of four bytes


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
    """Make a repository with two toolchains, each with its GCC and its Open MPI."""
    repository = folder / "cvmfs" / "software.eessi.io"
    tree = EessiTree(repository, EessiTree(repository, Path()).software / "software" / MODULE)
    mpitrees.unpacked(families.get("openmpi"), folder, tree.mpi, "4.1.8")
    newer = tree.software / "software" / NEWER
    shutil.copytree(tree.mpi, newer, symlinks=True, copy_function=os.link)
    version = repository / "versions" / VERSION
    write(version / "init" / "lmod" / "bash", _START)
    write(
        repository / "init" / "modules" / "EESSI" / f"{VERSION}.lua",
        _MODULE.format(repository=repository, cpu=CPU),
    )
    write(tree.software / ".lmod" / "SitePackage.lua", _SITE_PACKAGE)
    loader = version / "compat" / "linux" / os.uname().machine / "lib64" / "ld-linux.so.2"
    loader.parent.mkdir(parents=True)
    shutil.copy(os.path.realpath(_interpreter()), loader)
    for module, prefix in ((MODULE, tree.mpi), (NEWER, newer)):
        _write_modules(tree, module, prefix, loader)
    return tree


def _write_modules(tree: EessiTree, module: str, mpi: Path, loader: Path) -> None:
    """Write the modules of an MPI and of the GCC that its name ends with, and that GCC."""
    release = module.rpartition("-")[2]
    gcc = write(
        tree.software / "software" / "GCC" / release / "bin" / "cc",
        _GCC.format(loader=loader, mark=mark(release)),
    )
    gcc.chmod(0o755)
    patch = families.get("openmpi").environment(str(mpi))
    lines = [f'setenv("{name}", "{value}")' for name, value in patch.set.items()]
    lines.append(f'prepend_path("PATH", "{mpi}/bin")')
    modules = tree.software / "modules" / "all"
    write(modules / f"{module}.lua", f'depends_on("GCC/{release}")\n' + "\n".join(lines))
    write(modules / "GCC" / f"{release}.lua", f'prepend_path("PATH", "{gcc.parent}")\n')


def _interpreter() -> str:
    done = subprocess.run(
        ["ldd", "/bin/sh"], capture_output=True, text=True, check=True, timeout=600
    )
    return next(word for word in done.stdout.split() if "/ld-" in word)
