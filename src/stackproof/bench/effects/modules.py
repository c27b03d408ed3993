"""Modules loaded in a clean login shell: the environment that they make, and every way they lie.

The shell starts from the small environment of every program here (`core.effects.run`), not from the
user's, so that what is loaded at the moment plays no part. What it has in the end, less what it
began with, is the arm's environment: that includes what the machine sets at login, such as PrgEnv.

Loading fails in many voices, and often exits with 0. Lmod's sentences are those of its messages
(github.com/TACC/Lmod, `messageDir/en.lua`), those of Environment Modules of its releases 3.2, which
prints `ModuleCmd_Load.c(…):ERROR:…` and exits with 0, to 5 (github.com/envmodules/modules).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from stackproof.bench.effects import installation
from stackproof.bench.effects.installation import WRAPPERS, Installation
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects.run import base_environment, run
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.mpi.families.cray_mpich import CRAY_MPICH

_ERROR = re.compile(
    r"has detected the following error"  # Lmod's head of everything
    r"|^\s*(?:Module )?ERROR\b|:ERROR:\d+:"  # Environment Modules 4 and 5, and 3.2
    r"|Unable to locate a modulefile"
    r"|^\S*sh: .*(?:No such file or directory|command not found)$",  # of what a module sources
    re.IGNORECASE | re.MULTILINE,
)
_UNKNOWN = re.compile(
    r"module\(s\) are unknown|Unable to locate a modulefile|Module [^\n]{0,500} not found",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"without\s+these module\(s\) loaded:\s*(?P<lmod>[^\n]+)"
    r"|following\s+modules?\s+must\s+be loaded first:\s*(?P<tcl>[^\n]+)"
    r"|prereq(?:uisite)?s?\b[^:\n]{0,300}:\s*(?P<old>[^\n]+)",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(r"exist\s+but\s+cannot\s+be\s+loaded\s+as\s+requested", re.IGNORECASE)
_SPIDER = re.compile(
    r"need to load all module\(s\) on any one of the lines below[^\n]{0,500}\n"
    r"(?:[ \t]*[^\s][^\n]*\n)*[ \t\r]*\n"
    r"(?P<lines>(?:[ \t]+\S[^\n]*\n)+)",
    re.IGNORECASE,
)
# What a shell and the module tool keep for themselves, or that is of one shell alone.
_PRIVATE = re.compile(
    r"BASH_FUNC_.*|_ModuleTable.*|_LMFILES_.*|__LMOD_.*|LMOD_.*|MODULES_.*|MODULESHOME|MODULEPATH.*"
    r"|__MODULES_.*|BASH_ENV|ENV|SHLVL|PWD|OLDPWD|_|FPATH|MANPATH|PS1|COLUMNS|LINES|TMPDIR|HOME|TERM|USER"
)
_LISTS = re.compile(r".*PATH|.*_DIRS|LOADEDMODULES|CLASSPATH")
_LINES = 12
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


class ModuleLoad(Value):
    """What loading one module did: its exit code, all that it printed, what was loaded after it."""

    name: str
    code: int
    said: str
    loaded: tuple[str, ...]


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
            if fault := fault_of(one, loaded, _read(folder / f"spider.{number}")):
                problems.append(fault)
        if problems:
            raise StackproofError(*problems)
        env = _environment_in(folder / "after")
    return LoadedModules(env=difference(base_environment(), env), names=loaded, said=said)


def _start_problems(script: str, said: str) -> list[Problem]:
    """Return why a script that came before the modules did not do what it is for."""
    if not script or not is_error(said):
        return []
    return [
        Problem(
            reason=Reason.INVALID_VALUE,
            message=f"`{script}` printed an error",
            hint="read it in a new login shell, and see what it says",
            where=Location(file=script),
            detail=shown_lines(said) or None,
        )
    ]


def mpi_of(loaded: LoadedModules, *, named_by: str) -> Installation:
    """Return the MPI that loaded modules bring.

    Raises `StackproofError`: NO_MPI for none, INVALID_VALUE for two, and what
    `installation.of_environment` raises.
    """
    path = loaded.env.apply(base_environment()).get("PATH", "")
    holds = {folder: real for folder in path.split(":") if (real := _mpi_in(folder))}
    folders = mpi_folders(path, _SYSTEM, holds)
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
            detail=shown_lines(said) or None,
            hint="modules need Lmod or Environment Modules; name the MPI's folder instead: "
            "`prefix: DIR`",
        )
    raise fail(
        Reason.INVALID_VALUE,
        f"a login shell did not come to its end with the modules {', '.join(names)}"
        + (f" within {_PATIENCE_S:g} s" if done.timed_out else ""),
        detail=shown_lines(said) or None,
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


def fault_of(load: ModuleLoad, later: tuple[str, ...], spider: str = "") -> Problem | None:
    """Return why a module was not loaded, None when it was.

    `later` is what is loaded after all of them, `spider` what `module spider NAME` says. An exit
    code of 0 is not believed: what was printed and what is loaded decide.
    """
    name, there = load.name, is_loaded(load.name, load.loaded)
    refusal = None if there else _refusal(load, spider)
    if refusal is not None:
        return refusal
    message, hint = "", "load it by hand in a new login shell, and see what `module list` says"
    if is_error(load.said):
        ended = f" and exited with {load.code}" if load.code else ", although it exited with 0"
        message = f"loading the module `{name}` printed an error{ended}"
    elif load.code:
        message = f"loading the module `{name}` exited with {load.code}"
    elif not there:
        message = f"loading the module `{name}` exited with 0, and it is not loaded"
    elif not is_loaded(name, later):
        message = f"the module `{name}` was loaded, and one after it took it away again"
        hint = "modules that exclude each other cannot be one arm; give each an arm of its own"
    return _fault(load, message, hint) if message else None


def _refusal(load: ModuleLoad, spider: str) -> Problem | None:
    """Return what the module tool said of a module that it did not load, None for nothing known."""
    name = load.name
    if first := _FIRST.search(load.said):
        wanted = next(filter(None, first.groupdict().values())).strip().strip('".')
        return _fault(
            load,
            f"the module `{name}` needs another one first: {wanted}",
            f"name it before: module: [{wanted.split()[0]}, {name}]",
        )
    if _ELSEWHERE.search(load.said):
        lines = _SPIDER.search(f"{spider}\n")
        ways = [" ".join(line.split()) for line in lines["lines"].splitlines()] if lines else []
        return _fault(
            load,
            f"the module `{name}` needs others first"
            + (f": {' or '.join(ways[:4])}" if ways else ""),
            f"name them before: module: [{', '.join([*ways[0].split(), name])}]"
            if ways
            else f"`module spider {name}` says which",
        )
    if _UNKNOWN.search(load.said):
        return _fault(
            load,
            f"there is no module `{name}`",
            "`module avail` lists those that there are; one in a folder of its own needs "
            "`module-use: [FOLDER]`",
        )
    return None


def _fault(load: ModuleLoad, message: str, hint: str) -> Problem:
    detail = shown_lines(load.said) or None
    return Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint, detail=detail)


def is_error(said: str) -> bool:
    """Return whether a text is, or has, an error of a module tool."""
    return _ERROR.search(said) is not None


def is_loaded(name: str, loaded: tuple[str, ...]) -> bool:
    """Return whether a name is that of a loaded module, with or without its version."""
    return any(one == name or one.startswith(f"{name}/") for one in loaded)


def shown_lines(text: str) -> str:
    """Return the lines of a module tool that a message shows."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip(" -=")]
    return "\n".join(lines[:_LINES])


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> EnvPatch:
    """Return the change from one environment to another, without what belongs to a shell.

    Of lists such as PATH the entries that came are put in front of, or behind, what was there.
    """
    prepend: dict[str, tuple[str, ...]] = {}
    append: dict[str, tuple[str, ...]] = {}
    plain: dict[str, str] = {}
    for name, value in sorted(after.items()):
        if _PRIVATE.fullmatch(name) or before.get(name) == value:
            continue
        if not _LISTS.fullmatch(name):
            plain[name] = value
            continue
        had = [entry for entry in before.get(name, "").split(":") if entry]
        entries = [entry for entry in dict.fromkeys(value.split(":")) if entry]
        first = next((at for at, entry in enumerate(entries) if entry in had), len(entries))
        new = [(at, entry) for at, entry in enumerate(entries) if entry not in had]
        prepend[name] = tuple(entry for at, entry in new if at < first)
        append[name] = tuple(entry for at, entry in new if at > first)
    gone = tuple(n for n in sorted(before) if n not in after and not _PRIVATE.fullmatch(n))
    return EnvPatch(
        set=plain,
        unset=gone,
        prepend={name: entries for name, entries in prepend.items() if entries},
        append={name: entries for name, entries in append.items() if entries},
    )


def mpi_folders(path: str, system: Sequence[str], holds: Container[str]) -> tuple[str, ...]:
    """Return the folders of PATH that hold programs of an MPI, the first one first.

    Folders of the `system` do not count: what modules bring is asked for, and not what is there
    without them.
    """
    folders = dict.fromkeys(path.split(":"))
    return tuple(one for one in folders if one in holds and one not in system)
