"""A judgement to the files that start a program with its replacement: script, links, a copy."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping

from msgspec import field

from stackproof.core.value import Value
from stackproof.inject.model import Judgement
from stackproof.inject.ways import ALIASES


class Wrapping(Value):
    """What a folder holds to start one program; paths are below that folder.

    `links` maps a path to the text of the link. `copy` is where a copy of the program goes when no
    variable reaches it, with `rpath` as its DT_RPATH; empty otherwise. `environment` is what the
    script sets.
    """

    program: str
    script: str
    text: str
    links: Mapping[str, str] = field(default_factory=dict)
    copy: str = ""
    rpath: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def plan_wrapping(judgement: Judgement, place: str, old_rpath: str) -> Wrapping:
    """Return what the folder `place` holds for a program; `old_rpath` is what the program has.

    Lists that are set already are kept behind ours: they come after the MPI, as before.
    """
    name = posixpath.basename(judgement.program)
    home = posixpath.join(place, "aliases")
    links = {
        posixpath.join("aliases", posixpath.basename(link)): target
        for link, target in judgement.way.links.items()
    }
    environment = {
        key: value.replace(ALIASES, home) for key, value in judgement.environment.items()
    }
    copy = rpath = ""
    if judgement.way.rpath:
        copy = f"libexec/{name}"
        # In the copy $ORIGIN would be another folder.
        origin = posixpath.dirname(judgement.program)
        old = old_rpath.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        folders = (word.replace(ALIASES, home) for word in judgement.way.rpath)
        rpath = ":".join((*folders, *((old,) if old else ())))
    program = posixpath.join(place, copy) if copy else judgement.program
    return Wrapping(
        program=judgement.program,
        script=f"bin/{name}",
        text=_script(judgement, environment, program),
        links=links,
        copy=copy,
        rpath=rpath,
        environment=environment,
    )


def _script(judgement: Judgement, environment: Mapping[str, str], program: str) -> str:
    about = f"# Starts {judgement.program} with {judgement.replacement}."
    lines = ["#!/bin/sh", "".join(c if c.isprintable() else "?" for c in about)]
    for name, value in environment.items():
        if name == "LD_PRELOAD":  # a tool that stands before the MPI stays before it
            before = f"${{{name}:+${name}:}}"
            lines.append(f"export {name}={before}{shlex.quote(value)}")
            continue
        more = f"${{{name}:+:${name}}}" if name == "LD_LIBRARY_PATH" else ""
        lines.append(f"export {name}={shlex.quote(value)}{more}")
    lines.append(f'exec {shlex.quote(program)} "$@"')
    return "\n".join(lines) + "\n"
