"""Evidence for a diagnosis: of everything that is named, and of this machine, by looking."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from stackproof.bench import path_verdict
from stackproof.compare import path_words
from stackproof.compare.curve_shapes import Mark
from stackproof.compare.effects.results import load_results
from stackproof.core import limits
from stackproof.core.effects import documents, files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, did_you_mean, fail
from stackproof.core.value import Value, replace
from stackproof.doctor.effects import libraries, programs
from stackproof.doctor.evidence import launches, log
from stackproof.doctor.evidence import libraries as evidence_libraries
from stackproof.doctor.evidence import results as evidence_results
from stackproof.doctor.evidence.variables import of_variables
from stackproof.doctor.log.extract import LogExtract, LogReader
from stackproof.doctor.log.story import story_of
from stackproof.doctor.options import DoctorOptions
from stackproof.doctor.spelling import of_spelling
from stackproof.image.effects.load import load_image, read_member
from stackproof.image.model import Image
from stackproof.knowledge.evidence import (
    FACTS,
    NUMBER,
    NUMBERS,
    Evidence,
    FactValue,
    merged,
    redacted,
)
from stackproof.knowledge.model import OTHERS, Knowledge
from stackproof.mount.effects.mount_exec import MARKER
from stackproof.mpi.effects import fabric
from stackproof.results.model import Results
from stackproof.share.effects import naming
from stackproof.site.capture import Capture, read_capture
from stackproof.site.effects import probe
from stackproof.site.model import Site

_PIECE = 1 << 20
_LOG_HINT = "give the part that shows the fault"


class Collected(Value):
    """The evidence, what the curves show, and what it was taken from."""

    evidence: Evidence
    marks: tuple[Mark, ...] = ()
    paths: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    ratios: tuple[str, ...] = ()
    site: Site | None = None
    capture: Capture | None = None
    image: Image | None = None
    bill: str = ""
    results: Results | None = None


def collect(options: DoctorOptions, knowledge: Knowledge) -> Collected:
    """Return the evidence of everything that was named; what is more certain comes later.

    Raises `StackproofError` with what cannot be read, and USAGE for what is not there to be chosen.
    """
    if options.image is not None:
        options = options.changed(image=naming.image_file(options.image))
    given = said(options, knowledge)
    results = load_results(Path(options.results)) if options.results is not None else None
    capture = None
    if options.site is not None:
        site = probe.load_site(options.site)
    else:
        capture = probe.take_capture()
        site = read_capture(capture, name=probe.LOCAL)
    job, variables = _job(options, results)
    mounted = _mounted(variables) if options.site is None else ()
    chosen = options.image or _with_mpi(mounted)
    vendor = chosen is None and options.program is None and results is None
    evidence = evidence_results.of_site(site, vendor=vendor and options.site is not None)
    if options.site is None:
        evidence = merged(evidence, merged(programs.driver(), libraries.machine()))
    image, bill = _image(chosen, options.view)
    if image is not None:
        found = evidence_results.of_bill(bill, f"bill of materials of {image.name}")
        evidence = merged(merged(evidence, found), evidence_results.of_image(image, options.view))
    evidence = merged(job, evidence) if options.env is None else evidence
    evidence = merged(evidence, _loaded(options, (chosen, image), variables, mounted))
    if options.probe:
        evidence = merged(evidence, programs.ask(options.image))
    if results is not None:
        evidence = merged(evidence, _measured(results, _arm(results, options.arm), knowledge))
    if options.env is not None:
        evidence = merged(evidence, job)
    evidence = merged(evidence, _of_variables(options, results, evidence, knowledge))
    taken = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    evidence = merged(merged(evidence, given), Evidence(taken=taken))
    evidence = merged(evidence, of_variables(evidence, knowledge))
    return Collected(
        evidence=merged(evidence, evidence_results.implied(evidence)),
        marks=_marks(results, options.arm, knowledge),
        paths=path_words.differences(results) if results is not None else (),
        fallbacks=launches.fallbacks(results, options.arm) if results is not None else (),
        ratios=launches.ratios(results, options.arm) if results is not None else (),
        site=site,
        capture=capture,
        image=image,
        bill=bill,
        results=results,
    )


def said(options: DoctorOptions, knowledge: Knowledge) -> Evidence:
    """Return what the user says; raises `StackproofError` with every wrong word."""
    problems: list[Problem] = []
    components = (*knowledge.newest, *sorted(OTHERS))
    versions = dict(_pairs(options.have, "--have", components, problems))
    texts = dict(_pairs(options.facts, "--fact", tuple(FACTS), problems))
    problems += _wrong_values(texts)
    if problems:
        raise StackproofError(*problems)
    logs = {name: logs_of(name) for name in options.logs}
    evidence = Evidence()
    for name, one in logs.items():
        if not story_of(Evidence(logs={name: one.text}, line_numbers={name: one.numbers})).fatal:
            documents.refuse_other_kind(name, "log")
        evidence = merged(evidence, log.of_log(one.text, name, one.numbers))
    origins = {f"version {name}": "as you say" for name in versions}
    origins |= {f"fact {name}": "as you say" for name in texts}
    given = Evidence(
        versions=versions,
        facts={name: _value(name, text) for name, text in texts.items()},
        logs={name: redacted(one.text) for name, one in logs.items()},
        line_numbers={name: one.numbers for name, one in logs.items() if one.numbers},
        origins=origins,
    )
    return merged(evidence, given)


def logs_of(path: str) -> LogExtract:
    """Return the kept lines of a log that was named; raises `StackproofError` (FILE_MISSING, …)."""
    documents.refuse_other_kind(path, "log", texts=False)
    reader = LogReader()
    if not os.path.isfile(path):  # a pipe, whose writer may be slow
        reader.feed(files.read_bounded(path, limits.LOG_PIPE, hint=_LOG_HINT))
        return reader.extract()
    try:
        with open(path, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > limits.LOG.bytes:
                raise fail(
                    Reason.TOO_LARGE,
                    f"`{path}` has more than {limits.LOG.bytes} bytes",
                    where=Location(file=path),
                    hint=_LOG_HINT,
                )
            for piece in iter(lambda: stream.read(_PIECE), b""):
                reader.feed(piece)
    except OSError as error:
        raise files.translate(error, path) from error
    return reader.extract()


def text_of(path: str) -> str:
    """Return the text of a file that was named; raises `StackproofError` (TOO_LARGE, …)."""
    data = files.read_bounded(path, limits.LOG_PIPE, hint="this is no list of variables")
    return data.decode(errors="replace")


def _arm(results: Results, name: str | None) -> str:
    spec = results.spec
    arms = (*spec.challengers, spec.baseline)
    if name is None:
        return arms[0]
    if name not in arms:
        raise fail(
            Reason.USAGE,
            f"the results have no arm `{name}`",
            hint=f"{did_you_mean(name, arms)}arms are: {', '.join(arms)}",
        )
    return name


def _measured(results: Results, arm: str, knowledge: Knowledge) -> Evidence:
    """Return what the probes and the launches of an arm tell."""
    evidence = Evidence()
    for path in results.paths:
        if path.arm == arm:
            evidence = merged(evidence, path_verdict.evidence_of_run(path))
    evidence = merged(evidence, evidence_results.of_results(results, arm, knowledge))
    return merged(evidence, evidence_results.of_nodes(results, arm))


def _of_variables(
    options: DoctorOptions, results: Results | None, evidence: Evidence, knowledge: Knowledge
) -> Evidence:
    """Return what is wrong with the names and the values of variables."""
    if evidence.variables is None:
        return Evidence()
    found = of_spelling(evidence.variables, knowledge)
    if results is not None or options.site is not None or not evidence.variables:
        return found
    # Those of results are held against the nodes that the ranks ran on.
    there = evidence_results.of_interfaces(
        evidence.variables, libraries.interfaces(), "this machine"
    )
    return merged(found, there)


def _mounted(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the images that a job had mounted and that are here, with their mount points."""
    words = [word for word in variables.get(MARKER, "").split(",") if word]
    pairs = [(image, mount) for image, _, mount in (word.partition(":") for word in words) if mount]
    return tuple(dict.fromkeys(pair for pair in pairs if os.path.isfile(pair[0])))


def _with_mpi(mounted: Sequence[tuple[str, str]]) -> str | None:
    """Return the image of a job that has the MPI, None where none has."""
    for image, _ in mounted:
        try:
            if load_image(image).mpi is not None:
                return image
        except StackproofError:
            continue  # an image of others, which says nothing of itself
    return None


def _marks(results: Results | None, arm: str | None, knowledge: Knowledge) -> tuple[Mark, ...]:
    """Return what the curves show; of one arm alone, when one is named."""
    marks = evidence_results.marks_of(results, knowledge) if results is not None else ()
    return tuple(mark for mark in marks if arm is None or mark.arm == arm)


def _image(path: str | None, view: str | None) -> tuple[Image | None, str]:
    """Return the image and its bill of materials."""
    if path is None:
        return None, ""
    image = load_image(path)
    if view is not None and view not in image.views:
        raise fail(
            Reason.UNKNOWN_VIEW,
            f"the image has no view `{view}`",
            hint=f"it has: {', '.join(image.views) or 'none'}",
        )
    return image, read_member(path, fabric.BILL)


def _job(options: DoctorOptions, results: Results | None) -> tuple[Evidence, Mapping[str, str]]:
    """Return the environment of the job as evidence and as it is; nothing where it is not known."""
    if options.env is not None:
        variables = evidence_results.parse_environment(text_of(options.env))
        if not variables:
            raise fail(
                Reason.INVALID_VALUE,
                f"no variable of an environment is in `{options.env}`",
                where=Location(file=options.env),
                hint=f"write it in a rank: srun -n1 env > {options.env}",
            )
        return evidence_results.of_environment(variables, options.env), variables
    if results is None and options.site is None:
        return evidence_results.of_environment(os.environ, "this shell"), dict(os.environ)
    return Evidence(), {}


def _loaded(
    options: DoctorOptions,
    chosen: tuple[str | None, Image | None],
    variables: Mapping[str, str],
    mounted: libraries.Mounted,
) -> Evidence:
    """Return what the image's MPI, or the program, would load here, with all that was mounted."""
    path, image = chosen
    view = image.views.get(options.view or image.default_view or "") if image is not None else None
    # The environment of a job that had the image mounted has the view's variables already.
    apply = view is not None and path not in {other for other, _ in mounted}
    environment = view.env.apply(variables) if view is not None and apply else dict(variables)
    folders = [word for word in environment.get("LD_LIBRARY_PATH", "").split(":") if word]
    found = Evidence()
    if options.program is not None:
        bound = () if path is None or image is None else ((path, image.mount),)
        rest = tuple(one for one in mounted if one not in bound)
        found = libraries.of_program(options.program, folders, environment, (*bound, *rest))
    elif image is not None and path is not None:
        beside = tuple(one for one in mounted if one[0] != path)
        found = libraries.of_image(path, image, folders, beside)
    # An image says itself which MPI it has; this machine's libraries tell nothing of another's.
    out = {"mpi"} if image is not None else set()
    out |= {"libraries-missing"} if options.site is not None else set()
    gone = MARKER in variables and not mounted  # the job's images are not here
    out |= {"libraries-missing"} if gone else set()
    facts = {name: one for name, one in found.facts.items() if name not in out}
    origins = {name: one for name, one in found.origins.items() if name[5:] not in out}
    evidence = replace(found, facts=facts, origins=origins)
    slurm = libraries.slurm_pmix() if options.site is None else None
    if slurm is None:
        return evidence
    return merged(evidence, evidence_libraries.of_slurm(slurm))


def _pairs(
    words: Sequence[str], option: str, known: Sequence[str], problems: list[Problem]
) -> Iterator[tuple[str, str]]:
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value:
            problems.append(
                Problem(reason=Reason.USAGE, message=f"`{option} {word}` is not NAME=VALUE")
            )
        elif name not in known:
            guess = did_you_mean(name, known)
            problems.append(
                Problem(
                    reason=Reason.USAGE,
                    message=f"no rule asks for `{name}`",
                    hint=f"{guess}they ask for: {', '.join(known)}",
                )
            )
        else:
            yield name, value


def _wrong_values(texts: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the facts that were given a value that no rule and no reader knows."""
    for name, text in texts.items():
        form = FACTS[name].form
        if form and not _NUMERIC[form].fullmatch(text):
            yield Problem(
                reason=Reason.USAGE,
                message=f"`--fact {name}={text}`: `{name}` is {form}",
                hint=f"it says {FACTS[name].description}; leave it out where nobody knows",
            )
        elif "" in text.split(","):
            yield Problem(
                reason=Reason.USAGE,
                message=f"`--fact {name}={text}`: a word of the list is empty",
                hint=f"{name}=VALUE or {name}=ONE,OTHER",
            )
            continue
        allowed = FACTS[name].values
        for word in text.split(",") if allowed else ():
            if word not in allowed:
                guess = did_you_mean(word, allowed)
                yield Problem(
                    reason=Reason.USAGE,
                    message=f"`--fact {name}={text}`: `{word}` is no value of `{name}`",
                    hint=f"{guess}it can be: {', '.join(allowed)}",
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
