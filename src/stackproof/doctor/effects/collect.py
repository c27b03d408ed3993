"""Evidence for a diagnosis: of everything that is named, and of this machine, by looking."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from stackproof.bench import path_verdict
from stackproof.compare import path_words
from stackproof.compare.effects.results import load_results
from stackproof.core import limits
from stackproof.core.command import Command
from stackproof.core.effects import documents, run
from stackproof.core.effects.run import Runner
from stackproof.core.errors import Location, Problem, Reason, StackproofError, did_you_mean, fail
from stackproof.core.value import Value, replace
from stackproof.doctor.effects import libraries, logs
from stackproof.doctor.evidence import launches
from stackproof.doctor.evidence import libraries as evidence_libraries
from stackproof.doctor.evidence import results as evidence_results
from stackproof.doctor.evidence import variables as evidence_variables
from stackproof.doctor.evidence.programs import MACHINE, NVIDIA_VERSION, STACK, Reply, read_answers
from stackproof.doctor.evidence.variables import (
    fits_settings,
    mpi_on_path,
    of_another_host,
    of_spelling,
    of_variables,
)
from stackproof.doctor.log.story import story_of
from stackproof.doctor.options import DoctorOptions
from stackproof.image.effects.image_file import load_image, read_member
from stackproof.image.model import Image
from stackproof.image.superblock import MAGIC
from stackproof.knowledge.evidence import (
    FACTS,
    NUMBER,
    NUMBERS,
    Evidence,
    FactValue,
    merged,
)
from stackproof.knowledge.model import OTHERS, Knowledge
from stackproof.mount.effects.mount_exec import MARKER
from stackproof.mpi.effects import fabric
from stackproof.results.model import Results
from stackproof.share.effects import naming
from stackproof.site.capture import read_capture
from stackproof.site.effects import probe
from stackproof.site.model import Site


class Collected(Value):
    """The evidence, and the results that it was taken from."""

    evidence: Evidence
    paths: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    ratios: tuple[str, ...] = ()
    results: Results | None = None


def collect(options: DoctorOptions, knowledge: Knowledge) -> Collected:
    """Return the evidence of everything that was named; what is more certain comes later.

    Raises `StackproofError` with what cannot be read, and USAGE for what is not there to be chosen.
    """
    if options.image is not None:
        image_file = naming.image_file(options.image)
        _refuse_text(image_file)
        options = options.changed(image=image_file)
    given = said(options, knowledge)
    results = load_results(Path(options.results), probes=True) if options.results else None
    if options.site is not None:
        site = probe.load_site(options.site)
    else:
        site = read_capture(probe.take_capture(), name=probe.LOCAL)
    job, variables = _job(options, results)
    mounted = _mounted(variables) if options.site is None else ()
    chosen = options.image or _with_mpi(mounted)
    vendor = chosen is None and options.program is None and results is None
    vendor = vendor and fits_settings(site.vendor_mpi, variables, knowledge)
    elsewhere = bool(options.env) and of_another_host(variables, socket.gethostname())
    evidence = _of_place(site if options.site or not elsewhere else None, options, vendor=vendor)
    if vendor:
        evidence = merged(evidence, mpi_on_path(variables))
    image, bill = _image(chosen, options.view)
    if image is not None:
        found = evidence_results.of_bill(bill, f"bill of materials of {image.name}")
        evidence = merged(merged(evidence, found), evidence_results.of_image(image, options.view))
    evidence = merged(job, evidence) if options.env is None else evidence
    evidence = merged(evidence, _loaded(options, (chosen, image), variables, mounted))
    if options.probe:
        evidence = merged(evidence, ask_programs(options.image))
    if results is not None and options.results is not None:
        arm = _arm(results, options.arm)
        evidence = merged(evidence, _measured(results, arm, options.results))
    if options.env is not None:
        evidence = merged(evidence, job)
    here = results is None and options.site is None and not elsewhere
    evidence = merged(evidence, _of_variables(evidence, knowledge, here=here))
    taken = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    evidence = merged(merged(evidence, given), Evidence(taken=taken))
    evidence = merged(evidence, of_variables(evidence, knowledge))
    return Collected(
        evidence=merged(evidence, evidence_results.implied(evidence)),
        paths=path_words.differences(results) if results is not None else (),
        fallbacks=launches.fallbacks(results, options.arm) if results is not None else (),
        ratios=launches.ratios(results, options.arm) if results is not None else (),
        results=results,
    )


def _of_place(site: Site | None, options: DoctorOptions, *, vendor: bool) -> Evidence:
    """Return the facts of a site, or of this machine; none where a job was on another."""
    if site is None:
        return Evidence()
    if options.site is not None:
        return evidence_results.of_site(site, vendor=vendor)
    machine = merged(gpu_driver(), libraries.machine())
    return merged(evidence_results.of_site(site, vendor=False), machine)


def _refuse_text(path: str) -> None:
    """Raise `StackproofError` for a text in the place of an image: a log, most likely."""
    with contextlib.suppress(OSError), open(path, "rb") as stream:
        head = stream.read(limits.KIND.bytes)
        if head and not logs.is_binary(head) and not head.startswith(MAGIC):
            documents.refuse_other_kind(path, "image", Reason.IMAGE_NOT_SQUASHFS)
            raise fail(
                Reason.IMAGE_NOT_SQUASHFS,
                f"`{path}` is a text, and not an image of stackproof",
                where=Location(file=path),
                hint=f"what a job printed is given by --log {path}, its environment by --env",
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


def _arm(results: Results, name: str | None) -> str:
    """Return the arm that is meant: the first that failed, else the first challenger."""
    spec = results.spec
    arms = (*spec.challengers, spec.baseline)
    if name is None:
        return next((arm for arm in arms if launches.find_failures(results, arm)), arms[0])
    if name not in arms:
        raise fail(
            Reason.USAGE,
            f"the results have no arm `{name}`",
            hint=f"{did_you_mean(name, arms)}arms are: {', '.join(arms)}",
        )
    return name


def _measured(results: Results, arm: str, folder: str) -> Evidence:
    """Return what the probes and the launches of an arm tell."""
    evidence = Evidence()
    for path in results.paths:
        if path.arm == arm:
            evidence = merged(evidence, path_verdict.evidence_of_run(path))
    for log in logs.of_discarded(Path(folder), results, arm):
        evidence = merged(evidence, log)
    evidence = merged(evidence, evidence_results.of_results(results, arm))
    evidence = merged(evidence, launches.of_discarded(results, arm))
    return merged(evidence, evidence_results.of_nodes(results, arm))


def _of_variables(evidence: Evidence, knowledge: Knowledge, *, here: bool) -> Evidence:
    """Return the faults of variables' names and values.

    With `here` they are of a job on this machine, whose interfaces they may name.
    """
    if evidence.variables is None:
        return Evidence()
    found = of_spelling(evidence.variables, knowledge)
    if not here or not evidence.variables:
        return found
    # Those of results are held against the nodes that the ranks ran on.
    there = evidence_variables.of_interfaces(
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
    return image, read_member(path, fabric.BILL).decode(errors="replace")


def _job(options: DoctorOptions, results: Results | None) -> tuple[Evidence, Mapping[str, str]]:
    """Return the environment of the job as evidence and as it is; nothing where it is not known."""
    if options.env is not None:
        variables = evidence_variables.parse_environment(logs.text_of(options.env))
        if not variables:
            raise fail(
                Reason.INVALID_VALUE,
                f"no variable of an environment is in `{options.env}`",
                where=Location(file=options.env),
                hint=f"write it in a rank: srun -n1 env > {options.env}",
            )
        return evidence_variables.of_environment(variables, options.env), variables
    if results is None and options.site is None:
        return evidence_variables.of_environment(os.environ, "this shell"), dict(os.environ)
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
                Problem(
                    reason=Reason.USAGE,
                    message=f"`{option} {word}` is not NAME=VALUE",
                    hint=f"such as {option} {_EXAMPLES[option]}",
                )
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


_EXAMPLES = {"--have": "openmpi=5.0.8", "--fact": "transport=lnx"}


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


_TIMEOUT_S = 20.0
_NOT_FOUND = 127


def ask_programs(image: str | None, runner: Runner = run.run) -> Evidence:
    """Return what the programs of an image (or of this shell) and of this machine say.

    A program that is not there, does not end in 20 s or cannot be started tells nothing.
    """
    inside = (sys.executable, "-P", "-m", "stackproof", "run", image, "--") if image else ()
    commands: dict[str, tuple[str, ...]] = {
        **{name: (*inside, *argv) for name, argv in STACK.items()},
        **MACHINE,
    }
    there = {name: argv for name, argv in commands.items() if shutil.which(argv[0])}
    with ThreadPoolExecutor(max_workers=4) as pool:
        found = pool.map(lambda argv: _ask(argv, runner), there.values())
    replies: Mapping[str, Reply] = {
        name: reply for name, reply in zip(there, found, strict=True) if reply is not None
    }
    return read_answers(replies)


def gpu_driver() -> Evidence:
    """Return what a file of NVIDIA's driver says; nothing is run."""
    return read_answers({}, _driver())


def _ask(argv: tuple[str, ...], runner: Runner) -> Reply | None:
    try:
        done = runner(Command(argv=argv, timeout_s=_TIMEOUT_S))
    except StackproofError:
        return None
    if done.timed_out or done.returncode == _NOT_FOUND:
        return None
    text = (done.stdout or done.stderr)[: limits.ANSWER.bytes].decode(errors="replace")
    return Reply(text=text, returncode=done.returncode)


def _driver() -> str:
    try:
        with open(NVIDIA_VERSION, encoding="utf-8", errors="replace") as stream:
            return stream.read(4096)
    except OSError:
        return ""
