"""Modules of a machine, by Lmod, by Tcl's Environment Modules, or by PrgEnv above one of them.

Loading fails in many voices, and often exits with 0. Lmod's sentences are those of its messages
(github.com/TACC/Lmod, `messageDir/en.lua`), those of Environment Modules of its releases 3.2, which
prints `ModuleCmd_Load.c(…):ERROR:…` and exits with 0, to 5 (github.com/envmodules/modules).
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence

from stackproof.core.command import EnvPatch
from stackproof.core.value import Value

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


class ModuleLoad(Value):
    """What loading one module did: its exit code, all that it printed, what was loaded after it."""

    name: str
    code: int
    said: str
    loaded: tuple[str, ...]


class LoadFault(Value):
    """Why a module is not there after all, and what could be done."""

    message: str
    hint: str


def fault_of(load: ModuleLoad, later: tuple[str, ...], spider: str = "") -> LoadFault | None:
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
    return LoadFault(message=message, hint=hint) if message else None


def _refusal(load: ModuleLoad, spider: str) -> LoadFault | None:
    """Return what the module tool said of a module that it did not load, None for nothing known."""
    name = load.name
    if first := _FIRST.search(load.said):
        wanted = next(filter(None, first.groupdict().values())).strip().strip('".')
        return LoadFault(
            message=f"the module `{name}` needs another one first: {wanted}",
            hint=f"name it before: module: [{wanted.split()[0]}, {name}]",
        )
    if _ELSEWHERE.search(load.said):
        lines = _SPIDER.search(f"{spider}\n")
        ways = [" ".join(line.split()) for line in lines["lines"].splitlines()] if lines else []
        return LoadFault(
            message=f"the module `{name}` needs others first"
            + (f": {' or '.join(ways[:4])}" if ways else ""),
            hint=f"name them before: module: [{', '.join([*ways[0].split(), name])}]"
            if ways
            else f"`module spider {name}` says which",
        )
    if _UNKNOWN.search(load.said):
        return LoadFault(
            message=f"there is no module `{name}`",
            hint="`module avail` lists those that there are; one in a folder of its own needs "
            "`module-use: [FOLDER]`",
        )
    return None


def is_error(said: str) -> bool:
    """Return whether a text is, or has, an error of a module tool."""
    return _ERROR.search(said) is not None


def is_loaded(name: str, loaded: tuple[str, ...]) -> bool:
    """Return whether a name is that of a loaded module, with or without its version."""
    return any(one == name or one.startswith(f"{name}/") for one in loaded)


def told(text: str) -> str:
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
