"""`doctor`: evidence of everything that is named, and of this machine, by looking."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stackproof import linkage as linkages
from stackproof import pathcheck, printed, symptoms
from stackproof.capture import Capture, read_capture
from stackproof.comparison import Results
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.evidence import FACTS, Evidence, FactValue, merged, redacted
from stackproof.host import answers, fabric, files, linkage, probe
from stackproof.host.images import load_image, read_member
from stackproof.host.results import load_results
from stackproof.image import Image
from stackproof.knowledge import OTHERS, Knowledge
from stackproof.shapes import Mark
from stackproof.site import Site

_LARGEST = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The evidence, what the curves show, and what it was taken from."""

    evidence: Evidence
    marks: tuple[Mark, ...] = ()
    site: Site | None = None
    capture: Capture | None = None
    image: Image | None = None
    bill: str = ""
    results: Results | None = None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name evidence."""
    parser.add_argument("image", nargs="?", metavar="IMAGE", help="image of the stack in question")
    parser.add_argument("--view", metavar="VIEW", help="view of the image (default: its own)")
    parser.add_argument(
        "--program", metavar="FILE", help="program of the job: what it loads is looked at, unrun"
    )
    parser.add_argument(
        "--site", metavar="SITE", help="site to look at (default: this machine, by looking)"
    )
    parser.add_argument("--results", metavar="FOLDER", help="results of `bench` or `import`")
    parser.add_argument(
        "--arm", metavar="ARM", help="arm of the results (default: the first challenger)"
    )
    parser.add_argument(
        "--log", action="append", default=[], metavar="FILE",
        help="what a job printed, standard error too; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--env", metavar="FILE",
        help="environment of the job, as `env` prints it in a rank (default: that of this shell; "
        "with --results or --site what they show)",
    )  # fmt: skip
    parser.add_argument(
        "--probe", action="store_true",
        help="also ask programs: fi_info, ompi_info, mpichversion (of the image, if there is one), "
        "scontrol, srun --mpi=list, pkg-config; takes seconds",
    )  # fmt: skip
    parser.add_argument(
        "--have", action="append", default=[], metavar="COMPONENT=VERSION",
        help="a version, such as libfabric=2.3.1; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--fact", action="append", default=[], metavar="NAME=VALUE",
        help="a fact, such as transport=lnx or memory=device; may be given several times",
    )  # fmt: skip


def collect(args: argparse.Namespace, knowledge: Knowledge) -> Collected:
    """Return the evidence of everything that was named; what is more certain comes later."""
    given = said(args, knowledge)
    results = _results(args.results)
    capture = None if args.site else probe.take_capture()
    site = (
        probe.load_site(args.site) if capture is None else read_capture(capture, name=probe.LOCAL)
    )
    vendor = args.image is None and args.program is None and results is None
    evidence = symptoms.of_site(site, vendor=vendor and args.site is not None)
    if args.site is None:
        evidence = merged(evidence, merged(answers.driver(), linkage.machine()))
    image, bill = _image(args)
    if image is not None:
        found = symptoms.of_bill(bill, f"bill of materials of {image.name}")
        evidence = merged(merged(evidence, found), symptoms.of_image(image, args.view))
    job, variables = _job(args, results)
    evidence = merged(job, evidence) if args.env is None else evidence
    evidence = merged(evidence, _loaded(args, image, variables))
    if args.probe:
        evidence = merged(evidence, answers.ask(args.image))
    if results is not None:
        arm = _arm(results, args.arm)
        for found_path in results.paths:
            if found_path.arm == arm:
                evidence = merged(evidence, pathcheck.evidence_of_run(found_path))
        evidence = merged(evidence, symptoms.of_results(results, arm, knowledge))
    if args.env is not None:
        evidence = merged(evidence, job)
    if args.site is None and evidence.variables:
        there = linkage.interfaces()
        found = symptoms.of_interfaces(evidence.variables, there, "this machine")
        evidence = merged(evidence, found)
    taken = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    evidence = merged(merged(evidence, given), Evidence(taken=taken))
    return Collected(
        evidence=merged(evidence, symptoms.implied(evidence)),
        marks=symptoms.marks_of(results, knowledge) if results is not None else (),
        site=site,
        capture=capture,
        image=image,
        bill=bill,
        results=results,
    )


def said(args: argparse.Namespace, knowledge: Knowledge) -> Evidence:
    """Return what the command line says; raises `StackproofError` with every wrong word."""
    problems: list[Problem] = []
    components = (*knowledge.newest, *sorted(OTHERS))
    versions = dict(_pairs(args.have, "--have", components, problems))
    texts = dict(_pairs(args.fact, "--fact", tuple(FACTS), problems))
    if problems:
        raise StackproofError(*problems)
    logs = {name: text_of(name) for name in args.log}
    evidence = Evidence()
    for name, text in logs.items():
        evidence = merged(evidence, printed.of_log(text, name))
    origins = {f"version {name}": "as you say" for name in versions}
    origins |= {f"fact {name}": "as you say" for name in texts}
    given = Evidence(
        versions=versions,
        facts={name: _value(text) for name, text in texts.items()},
        logs={name: redacted(text) for name, text in logs.items()},
        origins=origins,
    )
    return merged(evidence, given)


def text_of(path: str) -> str:
    """Return the text of a file that was named; raises `StackproofError` (TOO_LARGE, …)."""
    data = files.read_bounded(path, _LARGEST, hint="give the part that shows the fault")
    return data.decode(errors="replace")


def _results(folder: str | None) -> Results | None:
    if folder is None:
        return None
    results = load_results(Path(folder))
    for problem in results.problems:
        print(str(problem).replace("error:", "warning:", 1), file=sys.stderr)
    return results


def _arm(results: Results, name: str | None) -> str:
    spec = results.spec
    arms = (*spec.challengers, spec.baseline)
    if name is None:
        return arms[0]
    if name not in arms:
        raise fail(
            Reason.USAGE, f"the results have no arm `{name}`", hint=f"arms are: {', '.join(arms)}"
        )
    return name


def _image(args: argparse.Namespace) -> tuple[Image | None, str]:
    """Return the image and its bill of materials."""
    if args.image is None:
        return None, ""
    image = load_image(args.image)
    if args.view is not None and args.view not in image.views:
        raise fail(
            Reason.UNKNOWN_VIEW,
            f"the image has no view `{args.view}`",
            hint=f"it has: {', '.join(image.views) or 'none'}",
        )
    return image, read_member(args.image, fabric.BILL)


def _job(args: argparse.Namespace, results: Results | None) -> tuple[Evidence, Mapping[str, str]]:
    """Return the environment of the job as evidence and as it is; nothing where it is not known."""
    if args.env is not None:
        variables = symptoms.parse_environment(text_of(args.env))
        if not variables:
            raise fail(
                Reason.INVALID_VALUE,
                f"no variable of an environment is in `{args.env}`",
                where=Location(file=args.env),
                hint=f"write it in a rank: srun -n1 env > {args.env}",
            )
        return symptoms.of_environment(variables, args.env), variables
    if results is None and args.site is None:
        return symptoms.of_environment(os.environ, "this shell"), dict(os.environ)
    return Evidence(), {}


def _loaded(
    args: argparse.Namespace, image: Image | None, variables: Mapping[str, str]
) -> Evidence:
    """Return what the image's MPI, or the program, would load here."""
    view = image.views.get(args.view or image.default_view or "") if image is not None else None
    environment = view.env.apply(variables) if view is not None else dict(variables)
    folders = [word for word in environment.get("LD_LIBRARY_PATH", "").split(":") if word]
    found = Evidence()
    if args.program is not None:
        found = linkage.of_program(args.program, folders, environment, _bound(args, image))
    elif image is not None:
        found = linkage.of_image(args.image, image, folders)
    # An image says itself which MPI it has; this machine's libraries tell nothing of another's.
    out = {"mpi"} if image is not None else set()
    out |= {"libraries-missing"} if args.site is not None else set()
    facts = {name: one for name, one in found.facts.items() if name not in out}
    origins = {name: one for name, one in found.origins.items() if name[5:] not in out}
    evidence = dataclasses.replace(found, facts=facts, origins=origins)
    slurm = linkage.slurm_pmix() if args.site is None else None
    if slurm is None:
        return evidence
    return merged(evidence, linkages.of_slurm(slurm))


def _bound(args: argparse.Namespace, image: Image | None) -> tuple[str, str] | None:
    return None if image is None else (args.image, image.mount)


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
            close = difflib.get_close_matches(name, known, n=1)
            guess = f"did you mean `{close[0]}`? " if close else ""
            problems.append(
                Problem(
                    reason=Reason.USAGE,
                    message=f"no rule asks for `{name}`",
                    hint=f"{guess}they ask for: {', '.join(known)}",
                )
            )
        else:
            yield name, value


def _value(text: str) -> FactValue:
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return tuple(text.split(",")) if "," in text else text
