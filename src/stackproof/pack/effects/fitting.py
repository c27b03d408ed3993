"""Programs of this machine judged with the MPI of the image that they are packed with."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence

from msgspec import field

from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.image.model import Image
from stackproof.inject import job
from stackproof.inject.attempt import Question
from stackproof.inject.effects import known_releases
from stackproof.inject.judge import judge
from stackproof.inject.model import Judgement
from stackproof.inject.program import calls_mpi
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView, this_machine


class MpiFit(Value):
    """How programs find the MPI of an image.

    `links` maps names that they ask for and the MPI has under others to files, `folders` are where
    its libraries lie, both with paths at the mount point. `doubts` are what the files do not tell.
    """

    links: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def judged(view: RootView, image: Image, programs: Sequence[str]) -> MpiFit:
    """Return how programs of this machine find the MPI of an image, which the view has mounted.

    Those that call no MPI are left out. Raises `StackproofError` with every reason why a program
    does not run with it: INJECTION_FAILS; NO_MPI where the image has none.
    """
    callers = [path for path in programs if _calls(view, path)]
    if not callers:
        return MpiFit()
    if image.mpi is None:
        raise fail(
            Reason.NO_MPI,
            f"`{callers[0]}` calls MPI, and `{image.path}` has none",
            where=Location(file=callers[0]),
            hint="name an image with an MPI: that of this machine opens parts of itself by their "
            "place, which no pack has",
        )
    replacement = find_replacement(view, image.mpi.prefix)
    question = Question(
        machine=this_machine(), with_plugins=False, releases=known_releases.load_releases
    )
    found = [judge(view, path, replacement, question) for path in callers]
    against = list(job.reasons_against(found))
    faults = [one for one in against if one.reason is Reason.INJECTION_FAILS]
    faults += [_only_preloaded(one) for one in found if one.way.preload]
    if faults:
        raise StackproofError(*faults)
    ways = [one.way for one in found]
    return MpiFit(
        links={posixpath.basename(at): to for way in ways for at, to in way.links.items()},
        folders=tuple(
            folder
            for way in ways
            for folder in (*way.library_path, *way.rpath)
            if folder.startswith(f"{image.mount}/")
        ),
        doubts=tuple(_short(one.message, callers) for one in against),
    )


def mpi_by_name(view: RootView, image: Image, paths: Sequence[str]) -> dict[str, str]:
    """Return what lets modules of a tree find the image's MPI, which they open by its name.

    Source: mpi4py, "Runtime configuration options", `MPI4PY_LIBMPI`.
    """
    if image.mpi is None or not any("/mpi4py/MPI." in path for path in paths):
        return {}
    main = find_replacement(view, image.mpi.prefix).main_for(None)
    return {"MPI4PY_LIBMPI": main.path} if main else {}


def _calls(view: RootView, path: str) -> bool:
    file = view.look(path)
    try:
        return file is not None and calls_mpi(view.elf(file), posixpath.basename(path))
    except StackproofError:  # a script, for example
        return False


def _short(message: str, programs: Sequence[str]) -> str:
    """Return a message with names in the place of paths, which a pack says nothing of."""
    for path in programs:
        message = message.replace(path, os.path.basename(path))
    return message


def _only_preloaded(judgement: Judgement) -> Problem:
    return Problem(
        reason=Reason.INJECTION_FAILS,
        message=f"`{judgement.program}` takes the image's MPI only where that is preloaded, which "
        "no program of a pack is told",
        where=Location(file=judgement.program),
        hint="compile it with the image's MPI: stackproof run IMAGE -- mpicc",
    )
