"""Where EasyBuild finds everything inside the build sandbox, and how it is called there.

Everything that decides a result is an option here; how many processes may run at once and which
modules tool there is belong to the machine and are in no id.
"""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.build.engines.easybuild.components import Toolchain
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

PROGRAMS = {
    "libcxi": ("bin",),
    "osu": tuple(
        f"libexec/osu-micro-benchmarks/mpi/{kind}"
        for kind in ("collective", "one-sided", "pt2pt", "startup")
    ),
}
"""Folders with programs of components that a view shows beside the MPI's, below their prefix."""

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

# What EasyBuild passes over by default (`/lib.*,/usr.*`), without /usr/local; our script before
# compilers reads it as well, and the shell's expressions can exclude no word.
_RPATH_FILTER = "--rpath-filter=/lib.*,/usr/[^l].*,/usr/l[^o].*"


def eb(
    mount: str,
    *words: str,
    optarch: str,
    modules: tuple[str, ...] = (),
    toolchain: Toolchain = Toolchain(),  # noqa: B008 - a frozen value
    local: bool = False,
) -> Command:
    """Return a call of EasyBuild that installs below a mount point.

    `modules` are folders of module files besides its own. Compilers of a toolchain without a
    module are variables (`--minimal-build-env`), and found by PATH: an absolute name would let
    EasyBuild write its script over the compiler. With `local` libraries are taken from below
    `/usr/local`, such as CUDA's: EasyBuild writes no run path to anything in `/usr` by itself,
    and the dynamic loader looks there only where somebody told it to.
    """
    made = toolchain.compilers
    names = {"CC": made.c, "CXX": made.cxx, "FC": made.fortran, "F77": made.fortran} if made else {}
    chosen = ",".join(f"{name}:{program}" for name, program in names.items())
    return Command(
        argv=(
            PYTHON, "-m", "easybuild.main", *_OPTIONS,
            f"--installpath-software={mount}/{SOFTWARE}",
            f"--installpath-modules={mount}/{LUA_MODULES}",
            "--module-syntax=Lua",
            f"--optarch={optarch}",
            *([f"--minimal-build-env={chosen}"] if chosen else []),
            *([_RPATH_FILTER] if local else []),
            *words,
        ),
        cwd=BUILD,
        env=_environment(
            {"MODULEPATH": ":".join((f"{mount}/{LUA_MODULES}/all", *modules))}
        ).then(compilers_on_path(toolchain)),
    )  # fmt: skip


def worker(*words: str) -> Command:
    """Return a call of our own program in the sandbox."""
    return Command(argv=(PYTHON, "-I", "-S", WORKER, *words), env=_environment({}))


def compilers_on_path(toolchain: Toolchain) -> EnvPatch:
    """Return PATH with compilers of the machine that are in a folder of their own."""
    folders = {"PATH": (f"{toolchain.prefix}/bin",)} if toolchain.prefix else {}
    return EnvPatch(prepend=folders)


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
        },
    )
