"""Scripts to the programs that run them, and what is then said of an injection into those."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace

from stackproof.errors import Location, Reason, fail
from stackproof.host.elfview import HostView
from stackproof.inject import Cause, Effect, Finding, Judgement
from stackproof.inject.model import verdict_of

# The kernel reads so much of a file, and goes so deep (fs/exec.c, include/uapi/linux/binfmts.h).
_FIRST_LINE, _DEEPEST = 256, 5
# What is only said because the program itself calls no MPI.
_OF_NO_USER = {Cause.NO_MPI, Cause.STATIC, Cause.HOST}


def program_of(view: HostView, path: str, folders: Sequence[str]) -> str:
    """Return the program that runs a script, or the path itself where it is none.

    `folders` are those in which env(1) looks for a name. Raises `StackproofError` (INVALID_VALUE)
    for scripts that are run by scripts without end, and as reading files does.
    """
    found = path
    for _ in range(_DEEPEST + 1):
        file = view.look(found)
        line = view.head(file, _FIRST_LINE).partition(b"\n")[0] if file else b""
        words = line[2:].decode(errors="surrogateescape").split()
        if not line.startswith(b"#!") or not words:
            return found
        found = posixpath.join("/", words[0])
        if posixpath.basename(words[0]) == "env":
            found = _told(view, words[1:], folders) or found
    raise fail(
        Reason.INVALID_VALUE,
        f"`{path}` is a script that is run by a script, and so on without end",
        where=Location(file=path),
        hint="name the program",
    )


def _told(view: HostView, words: Sequence[str], folders: Sequence[str]) -> str:
    """Return the program that env(1) is told to start, empty where it is told or finds none."""
    name = next((w for w in words if not w.startswith("-") and "=" not in w), "")
    if not name or "/" in name:
        return name
    places = (posixpath.join("/", folder, name) for folder in folders if folder)
    return next((place for place in places if view.look(place) is not None), "")


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
