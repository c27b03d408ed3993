"""What is known of a loaded Spack stack: conflicts, and packages that hide others of their name."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator

from stackproof import conflicts
from stackproof.cli.stacks import Loaded
from stackproof.errors import Location, Problem, Reason, StackproofError
from stackproof.host import documents, shipped
from stackproof.spackstack import SpackLock
from stackproof.stackinator.repositories import RECIPE, SITE, package_names, shadowed

FILE = "conflicts.yaml"
FIRST_PACKAGES = "var/spack/repos/builtin/packages"
"""Where Spack up to 0.23 has its packages."""


def conflict_problems(
    loaded: Loaded, lock: SpackLock | None
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return what must be refused and what should be known, by the versions asked for or locked.

    A recipe of our own format can accept a conflict by its id. Recipes of Stackinator's formats
    have no word for that: there every conflict is a note.
    """
    known = conflicts.parse_conflicts(documents.load(str(shipped.find("knowledge", FILE))))
    accepted = _accepted(loaded)
    found = conflicts.find(loaded.spack, lock, known)
    problems, notes = conflicts.split(found, accepted, _places(loaded))
    if loaded.document is None:
        return (), (*problems, *notes)
    return (*problems, *_unknown(loaded, accepted, known)), notes


def shadow_notes(loaded: Loaded, lock: SpackLock | None) -> Iterator[Problem]:
    """Yield a note for each repository of which the recipe's own packages hide some.

    What the cloned repositories hold is known where this machine has them, as after a lock.
    """
    stack = loaded.spack
    local = {r.namespace: package_names(r) for r in stack.local_repositories}
    own = local.get(RECIPE, ())
    commits = {clone.name: clone.commit for clone in lock.clones} if lock else {}
    others = [(SITE, local.get(SITE, ()))] if own else []
    if stack.generation == 1:
        own, spack = local.get(SITE, ()), stack.spack
        ref = commits.get("spack", spack.commit)
        others = [("builtin", _listed(spack.url, ref, FIRST_PACKAGES))] if own else []
    for repository in stack.package_repositories if own else ():
        ref = commits.get(repository.name, repository.source.commit)
        names = _listed(repository.source.url, ref, f"{repository.path}/packages")
        others.append((repository.name, names))
    for name, names in others:
        hidden = shadowed(own, names)
        if hidden:
            yield Problem(
                reason=Reason.INVALID_VALUE,
                message=f"packages of the recipe or its site take the place of those in `{name}`: "
                f"{', '.join(hidden)}"
                if stack.generation == 1
                else f"the recipe's own packages take the place of those in `{name}`: "
                f"{', '.join(hidden)}",
                hint="rename them, or keep this in mind: what is newer there is not used",
                where=Location(file=_packages_place(loaded, hidden[0])),
            )


def _listed(url: str, ref: str | None, folder: str) -> tuple[str, ...]:
    """Return the packages of a repository that this machine has; what is wrong with it is not ours.

    A mirror that is not there is an error of the build, which needs it.
    """
    from stackproof.host import git  # noqa: PLC0415 - only where a recipe has its own packages

    with contextlib.suppress(StackproofError):
        return git.listed(url, ref, folder)
    return ()


def _packages_place(loaded: Loaded, name: str) -> str:
    """Return the file of one of the recipe's packages, for people."""
    if loaded.document is None:
        return str(loaded.path / "repo" / "packages" / name)
    folder = loaded.document.data.get("repo") or "repo"
    return str(loaded.path.parent / folder / "packages" / name)


def _accepted(loaded: Loaded) -> tuple[str, ...]:
    return () if loaded.document is None else tuple(loaded.document.data.get("accept", ()))


def _unknown(
    loaded: Loaded, accepted: tuple[str, ...], known: tuple[conflicts.Conflict, ...]
) -> Iterator[Problem]:
    """Yield accepted conflicts that nobody knows."""
    ids = [conflict.id for conflict in known]
    for index, name in enumerate(accepted):
        if name not in ids and loaded.document is not None:
            close = difflib.get_close_matches(name, ids, n=1)
            yield Problem(
                reason=Reason.INVALID_VALUE,
                message=f"`{name}` is not a known conflict",
                hint=f"did you mean `{close[0]}`?" if close else f"they are: {', '.join(ids)}",
                where=loaded.document.where("accept", index),
            )


def _places(loaded: Loaded) -> dict[str, Location]:
    """Return where the specs of each environment stand."""
    names = [environment.name for environment in loaded.spack.environments]
    if loaded.document is None:
        place = Location(file=str(loaded.path / "environments.yaml"))
        return dict.fromkeys(names, place)
    found = {}
    for name in names:
        network = loaded.document.data["environments"][name].get("network")
        key = "network" if network else "specs"
        found[name] = loaded.document.where("environments", name, key)
    return found
