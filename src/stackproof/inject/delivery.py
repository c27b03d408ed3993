"""What is put into a folder for an injection: for programs on disk, for EESSI, for an artefact.

A judgement becomes the files that start a program with its replacement: a script, links, a copy.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping

from msgspec import field

from stackproof.core.value import Value
from stackproof.inject.model import Judgement
from stackproof.inject.ways import ALIASES


class Copied(Value):
    """A file that is copied: from where, to where below the folder, with which DT_RPATH.

    `soname` is another one than it has, `needed` maps the names that the source asks for to those
    that the copy asks for, where they differ, and `asks` is a library that the copy asks for
    besides; each is empty for none.
    """

    source: str
    target: str
    rpath: str
    soname: str = ""
    needed: Mapping[str, str] = field(default_factory=dict)
    asks: str = ""


class Delivery(Value):
    """What a folder is filled with, by paths below it.

    `links` maps a path to the text of the link, `scripts` to the text of a program, `trees` to
    files and folders that are copied as they are. `left` are names that stay those of the program's
    own machine and loader; `without` are plug-ins that stay behind, with the reason: the MPI goes
    on without them. `environment` is what programs or the MPI must be told.
    """

    copies: tuple[Copied, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    trees: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def plan_wrapping(judgement: Judgement, place: str, old_rpath: str) -> tuple[str, Delivery]:
    """Return what is started in the place of a program, and what the folder `place` gets for it.

    `old_rpath` is what the program has. It is copied where no variable reaches it. Lists that are
    set already are kept behind ours: they come after the MPI, as before.
    """
    name = posixpath.basename(judgement.program)
    home = posixpath.join(place, "aliases")
    environment = {
        key: value.replace(ALIASES, home) for key, value in judgement.environment.items()
    }
    program, copies = judgement.program, tuple[Copied, ...]()
    if judgement.way.rpath:
        target = f"libexec/{name}"
        # In the copy $ORIGIN would be another folder.
        origin = posixpath.dirname(program)
        old = old_rpath.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        folders = (word.replace(ALIASES, home) for word in judgement.way.rpath)
        rpath = ":".join((*folders, *((old,) if old else ())))
        copies = (Copied(source=program, target=target, rpath=rpath),)
        program = posixpath.join(place, target)
    return program, Delivery(
        copies=copies,
        links={
            posixpath.join("aliases", posixpath.basename(link)): target
            for link, target in judgement.way.links.items()
        },
        scripts={f"bin/{name}": _script(judgement, environment, program)},
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
