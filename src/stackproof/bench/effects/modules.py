"""Modules loaded in a clean login shell: the environment that they make, and every way they lie.

The shell starts from the small environment of every program here (`core.effects.run`), not from the
user's, so that what is loaded at the moment plays no part. What it has in the end, less what it
began with, is the arm's environment: that includes what the machine sets at login, such as PrgEnv.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackproof.bench.arms import module
from stackproof.bench.arms.installation import WRAPPERS, Installation
from stackproof.bench.arms.module import ModuleLoad
from stackproof.bench.effects import installation
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects.run import base_environment, run
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.mpi.families.cray_mpich import CRAY_MPICH

_PATIENCE_S = 300.0
_LAUNCHERS = ("mpiexec.hydra", "mpiexec", "mpirun")
_SYSTEM = ("/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin")
# Where packages and Cray's software have what defines `module`, for shells that do not.
_STARTS = (
    "/etc/profile.d/lmod.sh", "/etc/profile.d/modules.sh", "/etc/profile.d/zz-cray-pe.sh",
    "/usr/share/lmod/lmod/init/bash", "/opt/cray/pe/lmod/lmod/init/bash",
    "/opt/apps/lmod/lmod/init/bash", "/usr/share/modules/init/bash",
    "/usr/share/Modules/init/bash", "/opt/cray/pe/modules/default/init/bash",
)  # fmt: skip

_SCRIPT = """
folder=$1; starts=$2; use=$3; first=$4; shift 4
[ -n "$first" ] && . "$first" >>"$folder/start" 2>&1
for start in $starts; do
    type module >/dev/null 2>&1 && break
    [ -r "$start" ] && . "$start" >>"$folder/start" 2>&1
done
unset starts start first
type module >/dev/null 2>&1 || exit 3
export LMOD_PAGER=none LMOD_COLORIZE=no NO_COLOR=1 MODULES_PAGER= MODULES_COLOR=never
if [ -n "$use" ]; then
    IFS=:; for one in $use; do module use "$one" >>"$folder/start" 2>&1; done; unset IFS
fi
number=0
for name in "$@"; do
    module load "$name" >"$folder/said.$number" 2>&1 </dev/null
    echo $? >"$folder/code.$number"
    printf '%s' "$LOADEDMODULES" >"$folder/loaded.$number"
    number=$((number + 1))
done
unset NO_COLOR LMOD_PAGER LMOD_COLORIZE MODULES_PAGER MODULES_COLOR
env -0 >"$folder/after"
number=0
for name in "$@"; do
    if grep -q '[Tt]ry: *"module spider' "$folder/said.$number"; then
        module spider "$name" >"$folder/spider.$number" 2>&1 </dev/null
    fi
    number=$((number + 1))
done
exit 0
"""


class LoadedModules(Value):
    """What modules make: a change of the environment, and the names that are loaded in the end.

    `said` is what the shell printed before the first of them.
    """

    env: EnvPatch
    names: tuple[str, ...]
    said: str = ""


def load(
    names: Sequence[str],
    use: Sequence[str] = (),
    *,
    first: str = "",
    told: Mapping[str, str] | None = None,
) -> LoadedModules:
    """Load modules in their order in a clean login shell; `use` are more folders of modules.

    `first` is a script that the shell reads before, `told` are variables that it begins with.
    Raises `StackproofError` with the problems of all at once: INVALID_VALUE for one that is not
    there, needs another one or was taken away, TOOL_MISSING where there are no modules.
    """
    with tempfile.TemporaryDirectory(prefix="stackproof-modules-") as text:
        folder = Path(text)
        _run(folder, names, use, first, told or {})
        loads = [_load_of(folder, number, name) for number, name in enumerate(names)]
        loaded = _split(_read(folder / "after", "\0LOADEDMODULES=").partition("\0")[0])
        said = _read(folder / "start")
        problems = _start_problems(first, said)
        for number, one in enumerate(loads):
            fault = module.fault_of(one, loaded, _read(folder / f"spider.{number}"))
            if fault is not None:
                problems.append(
                    Problem(
                        reason=Reason.INVALID_VALUE,
                        message=fault.message,
                        hint=fault.hint,
                        detail=module.told(one.said) or None,
                    )
                )
        if problems:
            raise StackproofError(*problems)
        env = _environment_in(folder / "after")
    return LoadedModules(env=module.difference(base_environment(), env), names=loaded, said=said)


def _start_problems(script: str, said: str) -> list[Problem]:
    """Return why a script that came before the modules did not do what it is for."""
    if not script or not module.is_error(said):
        return []
    return [
        Problem(
            reason=Reason.INVALID_VALUE,
            message=f"`{script}` printed an error",
            hint="read it in a new login shell, and see what it says",
            where=Location(file=script),
            detail=module.told(said) or None,
        )
    ]


def mpi_of(loaded: LoadedModules, *, named_by: str) -> Installation:
    """Return the MPI that loaded modules bring.

    Raises `StackproofError`: NO_MPI for none, INVALID_VALUE for two, and what
    `installation.of_environment` raises.
    """
    path = loaded.env.apply(base_environment()).get("PATH", "")
    holds = {folder: real for folder in path.split(":") if (real := _mpi_in(folder))}
    folders = module.mpi_folders(path, _SYSTEM, holds)
    if len({holds[folder] for folder in folders}) > 1:
        raise fail(
            Reason.INVALID_VALUE,
            f"two MPIs are in the environment of {named_by}: {' and '.join(folders)}",
            hint="load the modules of one MPI only",
        )
    wrapper = _program(folders[0], WRAPPERS[:-1]) if folders else ""
    if not wrapper and any(name.startswith(CRAY_MPICH.name) for name in loaded.names):
        wrapper = shutil.which("cc", path=path) or ""  # PrgEnv's, which links with that
    if not wrapper:
        raise fail(
            Reason.NO_MPI,
            f"{named_by} has no compiler wrapper of an MPI, such as `mpicc`",
            hint=f"loaded are: {', '.join(loaded.names)}; name the module of an MPI too",
        )
    launcher = _program(os.path.dirname(wrapper), _LAUNCHERS)
    return installation.of_environment(loaded.env, wrapper, launcher, named_by=named_by)


def _mpi_in(folder: str) -> str:
    """Return the real path of a folder that holds programs of an MPI, empty for another one."""
    names = (*_LAUNCHERS, *WRAPPERS[:-1])
    return os.path.realpath(folder) if any(os.path.isfile(f"{folder}/{n}") for n in names) else ""


def _program(folder: str, names: Sequence[str]) -> str:
    """Return the path of the first program that a folder has, empty for none."""
    paths = (f"{folder}/{name}" for name in names)
    return next((path for path in paths if os.access(path, os.X_OK)), "")


def _run(
    folder: Path, names: Sequence[str], use: Sequence[str], first: str, told: Mapping[str, str]
) -> None:
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    more = EnvPatch(set={**({"USER": user} if user else {}), **told})
    words = (str(folder), " ".join(_STARTS), ":".join(use), first, *names)
    argv = ("bash", "--login", "-c", _SCRIPT, "modules", *words)
    done = run(Command(argv=argv, env=more, cwd="/", timeout_s=_PATIENCE_S))
    if (folder / "after").exists() and not done.timed_out:
        return
    said = (done.stderr or done.stdout).decode(errors="replace") + _read(folder / "start")
    if done.returncode == 3:
        raise fail(
            Reason.TOOL_MISSING,
            "a login shell here has no `module`",
            detail=module.told(said) or None,
            hint="modules need Lmod or Environment Modules; name the MPI's folder instead: "
            "`prefix: DIR`",
        )
    raise fail(
        Reason.INVALID_VALUE,
        f"a login shell did not come to its end with the modules {', '.join(names)}"
        + (f" within {_PATIENCE_S:g} s" if done.timed_out else ""),
        detail=module.told(said) or None,
        hint="something that it reads at login, or a module, ends it or waits for input",
    )


def _load_of(folder: Path, number: int, name: str) -> ModuleLoad:
    code = _read(folder / f"code.{number}").strip()
    return ModuleLoad(
        name=name,
        code=int(code) if code.isdecimal() else 1,
        said=_read(folder / f"said.{number}"),
        loaded=_split(_read(folder / f"loaded.{number}")),
    )


def _environment_in(path: Path) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in _read(path).split("\0"))
    return {name: value for name, mark, value in pairs if mark}


def _read(path: Path, after: str = "") -> str:
    """Return what a file of the shell holds, from behind a text on; empty for none."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return f"\0{text}".partition(after)[2] if after else text


def _split(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(":") if name)
