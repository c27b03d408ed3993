"""`stackproof doctor [IMAGE]`: which known problems a stack, a machine or results have."""

from __future__ import annotations

import json
import sys

from stackproof.core.errors import ExitCode
from stackproof.doctor.answer import text_of
from stackproof.doctor.cli.explain import text_width
from stackproof.doctor.diagnosis import Diagnosis, data_of
from stackproof.doctor.effects.collect import collect
from stackproof.doctor.options import DoctorOptions, DoctorRequest
from stackproof.doctor.rules import diagnose
from stackproof.knowledge.effects.load import load_knowledge


def run(asked: DoctorRequest) -> int:
    """Collect evidence, decide every known problem, and print those that are there, worst first.

    Exits with 0 where a cause is named or nothing failed, with 9 where something failed and no
    known problem explains it.
    """
    diagnosis = examine(asked.sources)
    if asked.json:
        print(json.dumps(data_of(diagnosis), indent=1, ensure_ascii=False))
    else:
        print(text_of(diagnosis, text_width(), every=asked.all))
    return int(ExitCode.UNKNOWN if diagnosis.undecided else ExitCode.DONE)


def examine(options: DoctorOptions) -> Diagnosis:
    """Collect the evidence that the options name, and return the diagnosis of it."""
    knowledge = load_knowledge()
    collected = collect(options, knowledge)
    for problem in collected.problems:
        print(problem.worded("warning"), file=sys.stderr)
    return Diagnosis(
        evidence=collected.evidence,
        findings=diagnose(knowledge, collected.evidence),
        paths=collected.paths,
        fallbacks=collected.fallbacks,
        slower=collected.slower,
        named={
            "PROGRAM": options.program or "",
            "IMAGE": options.image or "",
            "RESULTS": options.results or "",
        },
    )
