"""Another MPI, or a libfabric, under the programs of one job: judged first, then mounted and set.

The answer is kept in the cache under the images, programs and variables of the job, with every
place that was searched for it. The second job reads one small file, and looks at these places
again. This runs before commands of users: whatever only the first time needs is imported then.
"""

from __future__ import annotations

import json
import os

from stackproof.core.environment import Change
from stackproof.inject.effects import job_key

TYPE_CHECKING = False  # `typing`, msgspec and errors take longer to import than to mount
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from stackproof.inject.effects.job_judge import Examined
    from stackproof.inject.effects.job_key import JobCase, MountedImage
    from stackproof.mpi.transports import Libfabric


_UNKNOWN = "injection-unknown"


class JobChange:
    """What a job sets: `all` for all that it starts, `ranks` for the words `started` alone."""

    __slots__ = ("all", "ranks", "started")

    def __init__(self, all_: Change, ranks: Change, started: Sequence[str]) -> None:
        self.all = all_
        self.ranks = ranks
        self.started = started

    def command(self, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """Return a command that gives its ranks what is theirs, in an environment that is set."""
        theirs = self.ranks.apply(environment)
        names = sorted({*environment, *theirs})
        gone = [word for name in names if name not in theirs for word in ("-u", name)]
        told = [f"{n}={theirs[n]}" for n in names if theirs.get(n, "") != environment.get(n, "")]
        found = []
        for word in words:
            found += [*(("env", *gone, *told) if word in self.started else ()), word]
        return found


def change(case: JobCase, *, accept_unknown: bool = False) -> JobChange:
    """Return what must be set for an injection, after it was judged.

    Raises `StackproofError` with all reasons: INJECTION_FAILS, INJECTION_UNKNOWN unless that is
    accepted, and what reading images and programs raises.
    """
    target = job_key.key_of(case)
    found = _load(target, case)
    if found is None:
        from stackproof.inject.effects import job_judge  # noqa: PLC0415 - slow, and the first time alone

        examined = job_judge.examine(case, _links_of(target))
        found = _data(examined)
        _keep(target, found)
    _refuse(found["problems"], accept_unknown=accept_unknown)
    return JobChange(_change(found["env"]), _change(found["ranks"]), found["started"])


def _change(fields: Mapping[str, Any]) -> Change:
    return Change(
        set=fields["set"],
        unset=tuple(fields["unset"]),
        prepend={name: tuple(words) for name, words in fields["prepend"].items()},
        append={name: tuple(words) for name, words in fields["append"].items()},
    )


def links_folder(case: JobCase) -> str:
    """Return the folder that holds the links of a case which was judged, empty without any."""
    folder = _links_of(job_key.key_of(case))
    return folder if os.path.isdir(folder) else ""


def libfabric_of(injected: MountedImage) -> Libfabric:
    """Return the libfabric that is injected, as bill of materials or pkg-config say; else none."""
    from stackproof.mpi.effects import fabric  # noqa: PLC0415 - only with a transport
    from stackproof.mpi.transports import Libfabric  # noqa: PLC0415

    if injected.described:
        return fabric.libfabric_of_image(injected.path)
    # A level of an artefact has its bill in the folder above.
    for tree in (injected.path, os.path.dirname(os.path.abspath(injected.path))):
        if os.path.isfile(f"{tree}/{fabric.BILL}"):
            return fabric.libfabric_of_image(tree)
    home = injected.path if os.path.isdir(injected.path) else os.path.dirname(injected.path)
    for folder in ("lib", "lib64", "."):
        try:
            with open(f"{home}/{folder}/pkgconfig/libfabric.pc", encoding="utf-8") as stream:
                words = [line.partition(":") for line in stream]
        except (OSError, UnicodeError):
            continue
        version = next((value.strip() for name, _, value in words if name == "Version"), "")
        return Libfabric(version=version)
    return Libfabric()


def _links_of(target: str) -> str:
    return f"{target}.links"


def _load(target: str, case: JobCase) -> dict[str, Any] | None:
    """Return the kept answer, None without one or if a place or link is not as it was."""
    try:
        with open(f"{target}.json", encoding="utf-8") as stream:
            data: dict[str, Any] = json.load(stream)
    except (OSError, ValueError):
        return None
    if data.get("schema") != job_key.SCHEMA or (
        data["links"] and _links_in(_links_of(target)) != data["links"]
    ):
        return None
    points, folders = job_key.points_of(case), dict[str, str]()
    for path, state in data["searched"].items():
        if job_key.found_at(path, points, folders) != state:
            return None
    return data


def _data(examined: Examined) -> dict[str, Any]:
    from stackproof.core import noun  # noqa: PLC0415 - see above

    searched = examined.view.searched
    return {**noun.to_data(examined.job), "schema": job_key.SCHEMA, "searched": searched}


def _keep(target: str, data: Mapping[str, Any]) -> None:
    """Make the links, and write what was decided; a cache that cannot be written is none."""
    from stackproof.core.effects import files  # noqa: PLC0415
    from stackproof.core.errors import StackproofError  # noqa: PLC0415 - see above

    if data["links"]:
        _link(_links_of(target), data["links"])
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        files.write(f"{target}.json", json.dumps(data))
    except (OSError, StackproofError):
        return


def _link(folder: str, links: Mapping[str, str]) -> None:
    """Make a folder hold these links alone; each is replaced at once, as other jobs use them."""
    from stackproof.core.effects import files  # noqa: PLC0415 - see above

    temporary = f"{folder}.{os.getpid()}"
    try:
        os.makedirs(folder, exist_ok=True)
        for name in {*os.listdir(folder)} - {*links}:
            files.remove(f"{folder}/{name}")
        for name, place in links.items():
            files.remove(temporary)
            os.symlink(place, temporary)
            os.replace(temporary, f"{folder}/{name}")
    except OSError as error:
        if _links_in(folder) != links:  # nobody else has made them
            raise files.translate(error, folder) from error


def _links_in(folder: str) -> dict[str, str]:
    try:
        return {name: os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}
    except OSError:
        return {}


def _refuse(problems: Sequence[Mapping[str, str]], *, accept_unknown: bool) -> None:
    """Raise every reason against an injection; with `accept_unknown` only why it fails."""
    against = [one for one in problems if not (accept_unknown and one["reason"] == _UNKNOWN)]
    if not against:
        return
    from stackproof.core import noun  # noqa: PLC0415 - see above
    from stackproof.core.errors import Problem, StackproofError  # noqa: PLC0415

    found = [noun.from_data(Problem, one) for one in against]
    if all(one["reason"] == _UNKNOWN for one in against):
        from stackproof.core.value import replace  # noqa: PLC0415 - see above

        last = found[-1]
        hint = f"{last.hint}; or try it: --accept-unknown" if last.hint else None
        found[-1] = replace(last, hint=hint or "try it: --accept-unknown")
    raise StackproofError(*found)
