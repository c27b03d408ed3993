"""Where Spack finds everything inside the build sandbox, and how it is called there.

The folders are constant, so that nothing carries a machine's path, and they are those that the
hooks of Stackinator's recipes rely on (github.com/eth-cscs/stackinator, releases/v6,
stackinator/builder.py): they download into `<build>/environments`, which is also Spack's working
folder, and read `<build>/store/meta/recipe`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from stackproof.build.plan import BUILD, PYTHON, TOOLS, Step
from stackproof.core.command import Command, EnvPatch
from stackproof.core.value import replace

# --------------------------------------------------------------------------------------------------
# Steps whose calls of Spack do not need each other, as one step that runs them at the same time.
#
# Spack's own locks let several calls install into one store (lib/spack/spack/installer.py,
# github.com/spack/spack, v0.23 and v1.1; new_installer.py, v1.2). `effects/together.py` runs them,
# with one number of jobs for all, and says before every line whose it is.

PROGRAM = f"{TOOLS}/spack_together.py"
_FILE = "together.json"


def join_steps(
    name: str, steps: Mapping[str, Step], needs: Mapping[str, Iterable[str]] | None = None
) -> tuple[Step, ...]:
    """Return one step that does what `steps` do, by whose they are; a single one stays as it is.

    `needs` says what has to have ended well before one begins.
    """
    if len(steps) < 2:
        return tuple(steps.values())
    parts = tuple(steps.values())
    first = parts[0]
    work = {
        key: {"needs": list((needs or {}).get(key, ())), "calls": [*map(_call, step.commands)]}
        for key, step in steps.items()
    }
    file = f"{ENVIRONMENTS}/{name}-{_FILE}"
    build_files = {path: text for step in parts for path, text in step.build_files.items()}
    run = tool(PYTHON, "-I", "-S", PROGRAM, BUILD, f"{BUILD}/{file}", cwd=f"{BUILD}/{ENVIRONMENTS}")
    step = replace(
        first,
        name=f"{name}-{ENVIRONMENTS}",
        description=f"{first.description.rpartition(' ')[0]} {', '.join(steps)}",
        files={path: text for step in parts for path, text in step.files.items()},
        executable=tuple(dict.fromkeys(path for step in parts for path in step.executable)),
        build_files={**build_files, file: json.dumps(work, indent=1) + "\n"},
        commands=(run,),
    )
    return (step,)


def list_calls(step: Step, command: Command) -> dict[str, Command]:
    """Return the last call of each part of a step by whose it is; of another step its command."""
    text = next((t for path, t in step.build_files.items() if path.endswith(_FILE)), None)
    if text is None or PROGRAM not in command.argv:
        return {"": command}
    work = json.loads(text)
    return {
        key: replace(command, argv=tuple(part["calls"][-1]["argv"])) for key, part in work.items()
    }


def split_label(line: str, names: Iterable[str]) -> tuple[str, str]:
    """Return the label of a line and the rest; "" and the line for one without a label."""
    name, colon, text = line.partition(": ")
    return (name, text) if colon and name in names else ("", line)


def group_lines(text: str, names: Sequence[str]) -> dict[str, str]:
    """Return the lines of each name, not mixed any more."""
    lines_by_name: dict[str, list[str]] = {name: [] for name in names}
    for line in text.splitlines():
        name, rest = split_label(line, names)
        lines_by_name.setdefault(name, []).append(rest)
    return {name: "\n".join(lines) for name, lines in lines_by_name.items()}


def _call(command: Command) -> dict[str, object]:
    """Return a call as the program reads it; all have the variables of `layout` already."""
    shared = _ENVIRONMENT.set.items()
    own = {key: value for key, value in command.env.set.items() if (key, value) not in shared}
    return {"argv": list(command.argv), "env": own}


SPACK_CLONE = "spack"
"""The folder of Spack's clone, below `plan.BUILD` as all of these."""
CONFIG = "config"
"""The configuration that belongs to the stack (Spack's system scope)."""
LOCAL = "local"
"""The configuration that belongs to the machine and its user: caches, mirrors, cores."""
# Each has a folder for each compiler or environment, by its name.
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

_ENVIRONMENT = EnvPatch(
    set={
        "SPACK_SYSTEM_CONFIG_PATH": f"{BUILD}/{CONFIG}",
        "SPACK_USER_CONFIG_PATH": f"{BUILD}/{LOCAL}",
        "SPACK_USER_CACHE_PATH": f"{BUILD}/{CACHE}",
        "SPACK_COLOR": "never",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(EPOCH),
    },
    prepend={"PATH": (f"{BUILD}/{SPACK_CLONE}/bin",)},
)
"""What Spack, and every hook that calls it, gets besides the sandbox's environment."""


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
        env=_ENVIRONMENT,
        ok=ok,
    )


def tool(*words: str, cwd: str = "/") -> Command:
    """Return a call of another program with the same environment."""
    return Command(argv=words, cwd=cwd, env=_ENVIRONMENT)
