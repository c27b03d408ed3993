"""Known conflicts of a loaded Spack stack, for the verbs that look at stacks."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from stackproof import conflicts
from stackproof.cli.stacks import Loaded
from stackproof.errors import Location, Problem, Reason
from stackproof.host import documents, shipped
from stackproof.spackstack import SpackLock

FILE = "conflicts.yaml"


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
