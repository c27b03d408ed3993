"""Scripts to the programs that run them, and what is then said of an injection into those."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import replace
from stackproof.inject import python_script
from stackproof.inject.model import Cause, Effect, Finding, InjectionVerdict, Judgement, verdict_of
from stackproof.linking.effects.view import RootView

# The kernel reads so much of a file, and goes so deep (fs/exec.c, include/uapi/linux/binfmts.h).
_FIRST_LINE, _DEEPEST = 256, 5
# Options of env(1) that take a value (GNU coreutils 9.7, src/env.c).
_LONG = {"--unset": "u", "--chdir": "C", "--argv0": "a", "--split-string": "S"}
_WITH_VALUE = frozenset(_LONG.values())
# What is only said because the program itself calls no MPI.
_OF_NO_USER = {Cause.NO_MPI, Cause.STATIC, Cause.HOST}


# Its host is known, and it calls all of MPI whatever the script does.
_OF_ANY_MODULE = {Cause.HOST, Cause.NOT_JUDGED}


def program_of(view: RootView, path: str, folders: Sequence[str]) -> str:
    """Return the program that runs a script, or the path itself where it is none.

    `folders` are those in which env(1) looks for a name. Raises `StackproofError` (INVALID_VALUE)
    for scripts that are run by scripts without end, and as reading files does.
    """
    found = path
    for _ in range(_DEEPEST + 1):
        after = _next(view, found, folders)
        if not after:
            return found
        found = after
    raise fail(
        Reason.INVALID_VALUE,
        f"`{path}` is a script that is run by a script, and so on without end",
        where=Location(file=path),
        hint="name the program",
    )


def _next(view: RootView, path: str, folders: Sequence[str]) -> str:
    """Return the program that the first line of a file names, empty for none."""
    file = view.look(path)
    line = view.head(file, _FIRST_LINE).partition(b"\n")[0] if file else b""
    words = line[2:].decode(errors="surrogateescape").split()
    if not line.startswith(b"#!") or not words:
        return ""
    named = posixpath.join("/", words[0])
    is_env = posixpath.basename(words[0]) == "env"
    return (_told(view, words[1:], folders) or named) if is_env else named


def named_by(view: RootView, path: str, folders: Sequence[str]) -> str:
    """Return the program that the first line of a script names, else the path itself."""
    return _next(view, path, folders) or path


def is_shim(view: RootView, program: str) -> bool:
    """Return True for a script of pyenv, which chooses the interpreter to start."""
    return posixpath.dirname(program).endswith("/shims") and bool(_next(view, program, ()))


def lost_finding(script: str, interpreter: str) -> Finding:
    """Return that a script imports mpi4py, and its interpreter has none."""
    return Finding(
        cause=Cause.HOST,
        effect=Effect.CANNOT_TELL,
        message=f"it imports mpi4py, and no folder of `{interpreter}` has it",
        file=script,
        provider=interpreter,
        remedy="write the interpreter that has it into the first line, or say where it is: "
        "--env PYTHONPATH=DIR",
    )


def shim_finding(view: RootView, script: str, shim: str) -> Finding:
    """Return that a shim of pyenv chooses the interpreter, and which one to name."""
    root, name = posixpath.dirname(posixpath.dirname(shim)), posixpath.basename(shim)
    file = view.look(f"{root}/version")
    version = view.head(file, _FIRST_LINE).decode(errors="replace").split() if file else []
    chosen = f"{root}/versions/{version[0]}/bin/{name}" if version else ""
    known = f", now perhaps `{chosen}`" if chosen and view.look(chosen) else ""
    return Finding(
        cause=Cause.HOST,
        effect=Effect.CANNOT_TELL,
        message=f"`{shim}` is a shim of pyenv: which interpreter it starts shows only when it runs",
        file=script,
        provider=shim,
        remedy=f"write the interpreter into the first line: `pyenv which {name}` prints it{known}",
    )


def of_module(
    judgements: Sequence[Judgement], path: str, interpreter: str, module: str
) -> Judgement:
    """Return the answer for a script, of those for the alternatives of a module that it imports.

    That alternative counts which fits the injected MPI best.
    """
    order = list(InjectionVerdict)
    best = min(judgements, key=lambda answer: order.index(answer.verdict))
    others = len(judgements) - 1
    note = Finding(
        cause=Cause.HOST,
        effect=Effect.NOTE,
        message=(f"it imports {module}, and `{interpreter}` loads" if interpreter else "this is")
        + f" `{best.program}`"
        + (f": of {others + 1} for different MPIs, the one that fits" if others else ""),
        file=path or best.program,
        provider=best.program,
    )
    kept = [
        reason for reason in best.findings if not interpreter or reason.cause not in _OF_ANY_MODULE
    ]
    findings = (*kept, note)
    return replace(best, program=path or best.program, findings=findings)


def opened_by(view: RootView, script: str, program: str) -> tuple[str, ...]:
    """Return the libraries that a script of Python opens, none for what another program runs."""
    name = posixpath.basename(program)
    file = view.look(script) if script != program and name.startswith("python") else None
    if file is None:
        return ()
    text = view.head(file, limits.SMALL_RECORD.bytes)
    whole = len(text) < limits.SMALL_RECORD.bytes
    return python_script.opened_by(text.decode(errors="replace")) if whole else ()


def _told(view: RootView, words: Sequence[str], folders: Sequence[str]) -> str:
    """Return the program that env(1) is told to start, empty where it is told or finds none."""
    options, left = _options_of_env(words)
    while left and "=" in left[0]:
        variable, _, value = left.pop(0).partition("=")
        folders = value.split(":") if variable == "PATH" else folders
    name = left[0] if left else ""
    if "/" in name:
        return posixpath.join("/", options.get("C", ""), name)
    return look_for(view, name, folders) if name else ""


def look_for(view: RootView, name: str, folders: Sequence[str]) -> str:
    """Return the path of a program by its name, empty where no folder has it."""
    places = (posixpath.join("/", folder, name) for folder in folders if folder)
    return next((place for place in places if view.look(place) is not None), "")


def _options_of_env(words: Sequence[str]) -> tuple[Mapping[str, str], list[str]]:
    """Return the values of env(1)'s options by their letters, and the words after all options.

    What `-S` splits has been split: its words are as any other.
    """
    found: dict[str, str] = {}
    left = list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, _, value = word.partition("=")
            letter = _LONG.get(name, "")
        else:
            at = next((n for n, one in enumerate(word) if one in _WITH_VALUE), len(word))
            letter, value = word[at : at + 1], word[at + 1 :]
        if letter == "S":
            left = [value, *left] if value else left
        elif letter:
            found[letter] = value or (left.pop(0) if left else "")
    return found, left


def of_script(judgement: Judgement, path: str) -> Judgement:
    """Return what a judgement of the program that runs a script says of the script at `path`."""
    undecided = any(
        one.cause in _OF_NO_USER and one.effect is not Effect.NOTE for one in judgement.findings
    )
    told = Finding(
        cause=Cause.HOST,
        effect=Effect.CANNOT_TELL if undecided else Effect.NOTE,
        message=f"it is a script for `{judgement.program}`"
        + (": what it starts or opens shows only when it runs" if undecided else ""),
        file=path,
        provider=judgement.program,
        remedy="name what it starts, or the `.so` of the module that it opens" if undecided else "",
    )
    kept = [one for one in judgement.findings if not (undecided and one.cause in _OF_NO_USER)]
    findings = (*kept, told)
    return replace(judgement, program=path, findings=findings, verdict=verdict_of(findings))
