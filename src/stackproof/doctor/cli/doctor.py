"""`stackproof doctor [IMAGE]`: which known problems a stack, a machine or results have."""

from __future__ import annotations

import argparse
import json
import sys

from stackproof.core.cli.parsing import read
from stackproof.core.errors import ExitCode
from stackproof.doctor.answer import text_of
from stackproof.doctor.cli.explain import text_width
from stackproof.doctor.diagnosis import Diagnosis, data_of
from stackproof.doctor.effects import bundle
from stackproof.doctor.effects.collect import Collected, DoctorOptions, collect
from stackproof.doctor.rules import diagnose
from stackproof.knowledge.effects.load import load_knowledge


def run(args: argparse.Namespace) -> int:
    """Collect evidence, decide every known problem, and say what was found, the worst first.

    Findings do not change the exit code.
    """
    options = read(DoctorOptions, args, logs=tuple(args.log), facts=tuple(args.fact))
    collected, diagnosis = examine(options, args.replay)
    text = text_of(diagnosis, text_width(), every=args.all)
    data = data_of(diagnosis)
    if args.bundle:
        count = bundle.write(args.bundle, collected, data, text)
        left_out = f"; `removed.json` in it lists {count} values that were left out" * bool(count)
        print(f"bundle: {args.bundle}{left_out}", file=sys.stderr)
    print(json.dumps(data, indent=1, ensure_ascii=False) if args.json else text)
    return int(ExitCode.DONE)


def examine(options: DoctorOptions, replay: str | None) -> tuple[Collected, Diagnosis]:
    """Return the evidence, that of a bundle where one is named, and the diagnosis of it."""
    knowledge = load_knowledge()
    collected = bundle.replay(replay, options, knowledge) if replay else collect(options, knowledge)
    for problem in collected.results.problems if collected.results else ():
        print(problem.worded("warning"), file=sys.stderr)
    return collected, Diagnosis(
        evidence=collected.evidence,
        findings=diagnose(knowledge, collected.evidence),
        marks=collected.marks,
        paths=collected.paths,
        fallbacks=collected.fallbacks,
        ratios=collected.ratios,
    )
