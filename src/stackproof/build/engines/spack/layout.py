"""Where Spack finds everything inside the build sandbox, and how it is called there.

The folders are constant, so that nothing carries a machine's path, and they are those that the
hooks of Stackinator's recipes rely on (github.com/eth-cscs/stackinator, releases/v6,
stackinator/builder.py): they download into `<build>/environments`, which is also Spack's working
folder, and read `<build>/store/meta/recipe`.
"""

from __future__ import annotations

from stackproof.build.plan import BUILD, TOOLS
from stackproof.core.command import Command, EnvPatch

SPACK_CLONE = "spack"
"""The folder of Spack's clone, below `plan.BUILD` as all of these."""
CONFIG = "config"
"""The configuration that belongs to the stack (Spack's system scope)."""
LOCAL = "local"
"""The configuration that belongs to the machine and its user: caches, mirrors, cores."""
ENVIRONMENTS = "environments"
COMPILERS = "compilers"
BUILT = "built"
"""What is spliced, as it is compiled: see `stack.Splice`."""
REPLACEMENTS = "replacements"
"""The MPIs that take the place of those that compiled."""
MODULES = "modules-config"
CACHE = "cache"
SPACK = f"{BUILD}/{SPACK_CLONE}/bin/spack"
STAGE = f"{BUILD}/stage"
"""Where Spack downloads, unpacks and compiles."""
WORKER = f"{TOOLS}/spack_worker.py"

REPOSITORIES = "repos/spack_repo"
"""The folder of package repositories below the store: part of the uenv contract."""

# The install tree of a uenv image: Spack's default until 0.23 without the compiler, which Spack
# 1.0 took out itself. It is set for every version, so that a lock alone tells every prefix.
PROJECTION = (
    "{architecture.platform}-{architecture.os}-{architecture.target}/{name}-{version}-{hash}"
)

EPOCH = 315576060
"""SOURCE_DATE_EPOCH, seconds: in January 1980, since zip files, and so Python's wheels, cannot
hold an earlier time; the value is Stackinator's (stackinator/templates/Make.user)."""

_VARIABLES = {
    "SPACK_SYSTEM_CONFIG_PATH": f"{BUILD}/{CONFIG}",
    "SPACK_USER_CONFIG_PATH": f"{BUILD}/{LOCAL}",
    "SPACK_USER_CACHE_PATH": f"{BUILD}/{CACHE}",
    "SPACK_COLOR": "never",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "SOURCE_DATE_EPOCH": str(EPOCH),
}


def variables() -> EnvPatch:
    """Return what Spack, and every hook that calls it, gets besides the sandbox's environment."""
    return EnvPatch(set=_VARIABLES, prepend={"PATH": (f"{BUILD}/{SPACK_CLONE}/bin",)})


def spack(
    *words: str,
    environment: str | None = None,
    scope: str | None = None,
    ok: tuple[int, ...] = (0,),
) -> Command:
    """Return a call of Spack.

    `environment` is the folder of an environment below the build, `scope` that of a further
    configuration, `ok` the exit statuses that are no failure.
    """
    options = ("-C", f"{BUILD}/{scope}") if scope else ()
    where = ("-e", f"{BUILD}/{environment}") if environment else ()
    return Command(
        argv=(SPACK, "--color=never", *options, *where, *words),
        cwd=f"{BUILD}/{ENVIRONMENTS}",
        env=variables(),
        ok=ok,
    )


def tool(*words: str, cwd: str = "/") -> Command:
    """Return a call of another program with the same environment."""
    return Command(argv=words, cwd=cwd, env=variables())


def compiler_folder(name: str) -> str:
    """Return the folder of a compiler's environment below the build."""
    return f"{COMPILERS}/{name}"


def environment_folder(name: str) -> str:
    """Return the folder of an environment below the build."""
    return f"{ENVIRONMENTS}/{name}"


def built_folder(name: str) -> str:
    """Return the folder of an environment as it is before its MPI is exchanged."""
    return f"{BUILT}/{name}"


def replacement_folder(name: str) -> str:
    """Return the folder of the MPI that is put under an environment."""
    return f"{REPLACEMENTS}/{name}"
