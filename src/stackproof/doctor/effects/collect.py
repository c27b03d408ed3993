"""Evidence for a diagnosis: of everything that is named, and of this machine, by looking."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stackproof.core.effects import documents
from stackproof.core.errors import Location, Problem, Reason, StackproofError, did_you_mean, fail
from stackproof.core.value import Value
from stackproof.doctor.effects import logs, machine
from stackproof.doctor.evidence import places
from stackproof.doctor.evidence import variables as evidence_variables
from stackproof.doctor.log.story import story_of
from stackproof.doctor.options import DoctorOptions
from stackproof.knowledge.evidence import FACTS, NUMBER, NUMBERS, Evidence, FactValue, merged
from stackproof.knowledge.model import OTHERS, Knowledge
from stackproof.mount.effects.mount_exec import MARKER
from stackproof.site.capture import read_capture
from stackproof.site.effects import probe
from stackproof.site.model import Site

if TYPE_CHECKING:
    from stackproof.doctor.effects.measured import ResultsEvidence
    from stackproof.doctor.effects.stacks import Mounted, StackEvidence


class Collected(Value):
    """The evidence, and in words the paths that arms of results took, and which are slower."""

    evidence: Evidence
    paths: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    slower: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def collect(options: DoctorOptions, knowledge: Knowledge) -> Collected:
    """Return the evidence of everything that was named; what is more certain comes later.

    Raises `StackproofError` with what cannot be read, and USAGE for what is not there to be chosen.
    """
    given = said(options, knowledge)
    measured = _measured(options)
    job, variables = _job(options)
    stack = _stack(options, variables, given)
    if options.site is not None:
        site = probe.load_site(options.site)
    else:
        site = read_capture(probe.take_capture(), name=probe.LOCAL)
    vendor = stack is None and measured is None
    vendor = vendor and evidence_variables.fits_settings(site.vendor_mpi, variables, knowledge)
    elsewhere = bool(options.env) and evidence_variables.of_another_host(
        variables, os.uname().nodename
    )
    evidence = _of_place(site if options.site or not elsewhere else None, options, vendor=vendor)
    if vendor:
        evidence = merged(evidence, evidence_variables.mpi_on_path(variables))
    evidence = merged(evidence, stack.described) if stack else evidence
    evidence = merged(job, evidence) if options.env is None else evidence
    evidence = merged(evidence, stack.loaded) if stack else evidence
    evidence = merged(evidence, machine.slurm_pmix()) if options.site is None else evidence
    if options.probe:
        evidence = merged(evidence, machine.ask_programs(options.image))
    if measured is not None:
        evidence = merged(evidence, measured.evidence)
    if options.env is not None:
        evidence = merged(evidence, job)
    here = measured is None and options.site is None and not elsewhere
    evidence = merged(evidence, _of_variables(evidence, knowledge, here=here))
    taken = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    evidence = merged(merged(evidence, given), Evidence(taken=taken))
    evidence = merged(evidence, evidence_variables.of_variables(evidence, knowledge))
    evidence = merged(evidence, places.implied(evidence))
    if measured is None:
        return Collected(evidence=evidence)
    return Collected(
        evidence=evidence,
        paths=measured.paths,
        fallbacks=measured.fallbacks,
        slower=measured.slower,
        problems=measured.results.problems,
    )


def _measured(options: DoctorOptions) -> ResultsEvidence | None:
    if not options.results:
        return None
    from stackproof.doctor.effects import measured  # noqa: PLC0415 - a log needs no results

    return measured.examine(options.results, options.arm)


def _stack(
    options: DoctorOptions, variables: Mapping[str, str], given: Evidence
) -> StackEvidence | None:
    mounted = _mounted(variables) if options.site is None else ()
    if not (options.image or options.program or mounted):
        return None
    from stackproof.doctor.effects import stacks  # noqa: PLC0415 - a log needs no loader

    loader_spoke = any(event.component == "the loader" for event in story_of(given).fatal)
    known = bool(options.env) or loader_spoke or not options.logs
    return stacks.examine(options, variables, mounted, known=known)


def _of_place(site: Site | None, options: DoctorOptions, *, vendor: bool) -> Evidence:
    """Return the facts of a site, or of this machine; none where a job was on another."""
    if site is None:
        return Evidence()
    if options.site is not None:
        return places.of_site(site, vendor=vendor)
    devices = merged(machine.gpu_driver(), machine.machine())
    return merged(places.of_site(site, vendor=False), devices)


def said(options: DoctorOptions, knowledge: Knowledge) -> Evidence:
    """Return what the user says; raises `StackproofError` with every wrong word."""
    problems: list[Problem] = []
    components = (*knowledge.newest, *sorted(OTHERS))
    versions = dict(_pairs(options.have, "--have", components, problems))
    texts = dict(_pairs(options.facts, "--fact", tuple(FACTS), problems))
    problems += _wrong_values(texts)
    if problems:
        raise StackproofError(*problems)
    evidence = Evidence()
    for name in options.logs:
        read = logs.evidence_of(name, name)
        if not story_of(read).fatal:
            documents.refuse_other_kind(name, "log")
        evidence = merged(evidence, read)
    origins = {f"version {name}": "as you say" for name in versions}
    origins |= {f"fact {name}": "as you say" for name in texts}
    facts = {name: _value(name, text) for name, text in texts.items()}
    given = Evidence(versions=versions, facts=facts, origins=origins)
    return merged(evidence, given)


def _of_variables(evidence: Evidence, knowledge: Knowledge, *, here: bool) -> Evidence:
    """Return the faults of variables' names and values.

    With `here` they are of a job on this machine, whose interfaces they may name.
    """
    if evidence.variables is None:
        return Evidence()
    found = evidence_variables.of_spelling(evidence.variables, knowledge)
    if not here or not evidence.variables:
        return found
    # Those of results are held against the nodes that the ranks ran on.
    there = evidence_variables.of_interfaces(
        evidence.variables, machine.interfaces(), "this machine"
    )
    return merged(found, there)


def _mounted(variables: Mapping[str, str]) -> Mounted:
    """Return the images that a job had mounted and that are here, with their mount points."""
    words = [word for word in variables.get(MARKER, "").split(",") if word]
    pairs = [(image, mount) for image, _, mount in (word.partition(":") for word in words) if mount]
    return tuple(dict.fromkeys(pair for pair in pairs if os.path.isfile(pair[0])))


def _job(options: DoctorOptions) -> tuple[Evidence, Mapping[str, str]]:
    """Return the environment of the job as evidence and as it is; nothing where it is not known."""
    if options.env is not None:
        variables = evidence_variables.parse_environment(logs.text_of(options.env))
        if not variables:
            raise fail(
                Reason.INVALID_VALUE,
                f"no variable of an environment is in `{options.env}`",
                where=Location(file=options.env),
                hint="write it in a rank: mpiexec -n 1 env > "
                f"{shlex.quote(options.env)} (srun on Slurm)",
            )
        return evidence_variables.of_environment(variables, options.env), variables
    if not options.results and options.site is None:
        return evidence_variables.of_environment(os.environ, "this shell"), dict(os.environ)
    return Evidence(), {}


def _pairs(
    words: Sequence[str], option: str, known: Sequence[str], problems: list[Problem]
) -> Iterator[tuple[str, str]]:
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value:
            message = f"`{option} {word}` is not NAME=VALUE"
            problems.append(_misused(message, f"such as {option} {_EXAMPLES[option]}"))
        elif name not in known:
            hint = f"{did_you_mean(name, known)}they ask for: {', '.join(known)}"
            problems.append(_misused(f"no rule asks for `{name}`", hint))
        else:
            yield name, value


def _misused(message: str, hint: str) -> Problem:
    return Problem(reason=Reason.USAGE, message=message, hint=hint)


_EXAMPLES = {"--have": "openmpi=5.0.8", "--fact": "transport=lnx"}


def _wrong_values(texts: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the facts that were given a value that no rule and no reader knows."""
    for name, text in texts.items():
        form = FACTS[name].form
        if form and not _NUMERIC[form].fullmatch(text):
            yield _misused(
                f"`--fact {name}={text}`: `{name}` is {form}",
                f"it says {FACTS[name].description}; leave it out where nobody knows",
            )
        elif "" in text.split(","):
            yield _misused(
                f"`--fact {name}={text}`: a word of the list is empty",
                f"{name}=VALUE or {name}=ONE,OTHER",
            )
            continue
        allowed = FACTS[name].values
        for word in text.split(",") if allowed else ():
            if word not in allowed:
                yield _misused(
                    f"`--fact {name}={text}`: `{word}` is no value of `{name}`",
                    f"{did_you_mean(word, allowed)}it can be: {', '.join(allowed)}",
                )


_NUMERIC = {
    NUMBER: re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?"),
    NUMBERS: re.compile(r"[0-9]{1,9}(?:,[0-9]{1,9})*"),
}


def _value(name: str, text: str) -> FactValue:
    if FACTS[name].form == NUMBER:
        return float(text)
    if FACTS[name].values == ("true", "false"):
        return text == "true"
    several = FACTS[name].form == NUMBERS or "," in text
    return tuple(text.split(",")) if several else text
