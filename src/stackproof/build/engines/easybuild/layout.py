"""Where EasyBuild finds everything inside the build sandbox, and how it is called there.

Everything that decides a result is an option here; how many processes may run at once and which
modules tool there is belong to the machine and are in no id.
"""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.build.plan import BUILD, DOWNLOADS, PYTHON, TOOLS
from stackproof.core.command import Command, EnvPatch

TOOL = f"{BUILD}/easybuild"
"""EasyBuild itself, unpacked."""
EASYCONFIGS = "easyconfigs"
"""The folder of easyconfigs, below `plan.BUILD`."""
METADATA = "external-modules.cfg"
"""What EasyBuild is told of modules of the machine, below `plan.BUILD`."""
LOGS = "easybuild-logs"
"""The folder of EasyBuild's own logs, below `plan.BUILD`."""
WORKER = f"{TOOLS}/easybuild_worker.py"
HOOKS = f"{TOOLS}/easybuild_hooks.py"
SOFTWARE = "software"
"""The folder of what is installed, below the mount point."""
LUA_MODULES = "modules/lua"
TCL_MODULES = "modules/tcl"
"""Folders of module files below the mount point: for Lmod, and for every modules tool.

EasyBuild is told of the first; our hooks write into the second, which is beside it.
"""

EPOCH = 315576060
"""SOURCE_DATE_EPOCH, seconds: the time that images of the Spack engine have as well."""

INSTALL = "easybuild"
"""What `Step.reports` says of a step whose output is that of EasyBuild with our hooks."""

# Every option that decides what is built; docs.easybuild.io/configuration and `eb --help`.
_OPTIONS = (
    f"--hooks={HOOKS}",
    f"--sourcepath={DOWNLOADS}",
    f"--buildpath={BUILD}/stage",
    f"--tmpdir={BUILD}/temporary",
    f"--repositorypath={BUILD}/repository",
    f"--robot-paths={BUILD}/{EASYCONFIGS}",
    f"--tmp-logdir={BUILD}/{LOGS}",
    "--ignore-locks",  # one build of a plan runs at a time; a killed one leaves its locks
    "--modules-tool=Lmod",
    "--allow-modules-tool-mismatch",
    "--allow-use-as-root-and-accept-consequences",
    "--enforce-checksums",
    "--disable-mpi-tests",
    "--disable-generate-devel-module",
    "--disable-cleanup-tmpdir",
    "--color=never",
    "--output-style=basic",
    "--disable-show-progress-bar",
    "--umask=022",
)


def eb(mount: str, *words: str, optarch: str, modules: tuple[str, ...] = ()) -> Command:
    """Return a call of EasyBuild that installs below a mount point.

    `modules` are folders of module files besides its own.
    """
    return Command(
        argv=(
            PYTHON, "-m", "easybuild.main", *_OPTIONS,
            f"--installpath-software={mount}/{SOFTWARE}",
            f"--installpath-modules={mount}/{LUA_MODULES}",
            "--module-syntax=Lua",
            f"--optarch={optarch}",
            *words,
        ),
        cwd=BUILD,
        env=_environment({"MODULEPATH": ":".join((f"{mount}/{LUA_MODULES}/all", *modules))}),
    )  # fmt: skip


def worker(*words: str) -> Command:
    """Return a call of our own program in the sandbox."""
    return Command(argv=(PYTHON, "-I", "-S", WORKER, *words), env=_environment({}))


def _environment(more: Mapping[str, str]) -> EnvPatch:
    return EnvPatch(
        set={
            "PYTHONPATH": TOOL,
            "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "SOURCE_DATE_EPOCH": str(EPOCH),
            "USER": "stackproof",
            # Who owned files when they were packed is not for whoever unpacks them in a sandbox.
            "TAR_OPTIONS": "--no-same-owner",
            **more,
        }
    )
