"""`stackproof bench SPEC`: run baseline and challengers, interleaved, then say the verdicts."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

from stackproof.bench import specifying
from stackproof.bench.effects import batch_job, nodes, request
from stackproof.bench.effects.dry_run import notes, plan_text, planned
from stackproof.bench.effects.run import prepare
from stackproof.bench.options import BenchOptions
from stackproof.bench.spec import BenchSpec
from stackproof.compare.model import Verdict
from stackproof.core.cli import progress
from stackproof.core.effects import quiet
from stackproof.core.errors import ExitCode, Reason, fail


def run(asked: BenchOptions) -> int:
    """Measure and, unless told otherwise, judge; exit code 0 for PASS, 8 for FAIL, else 9.

    A batch job that was submitted has decided nothing: 9.
    """
    if asked.no_verdict and asked.require_pass:
        raise fail(Reason.USAGE, "`--no-verdict` and `--require-pass` exclude each other")
    specifying.refuse_changes(asked)
    if asked.in_job and not asked.resume:
        raise fail(Reason.USAGE, "say which results folder with --resume FOLDER")
    folder = specifying.folder_of(asked)
    if asked.in_job:
        batch_job.work_in_job(folder, progress.monitor())
        return 0
    measured = not (asked.dry_run or asked.topology)
    begin = _look_around(asked) if measured else lambda: 1.0
    spec = _specification(asked, begin)
    if asked.dry_run or asked.topology:
        return _dry_run(spec, folder, asked)
    for text in notes(spec):
        _note(text)
    give_up = not asked.no_give_up
    monitor, command = progress.monitor(), tuple(sys.argv)
    done = request.measure(spec, folder, monitor, command=command, give_up=give_up, begin=begin)
    if asked.no_verdict:
        print(folder)
        return 0
    return _judged(folder, asked) if done else int(ExitCode.UNKNOWN)


def _look_around(options: BenchOptions) -> Callable[[], float]:
    """Return the function that tells how busy this machine is, waits, and returns its factor."""
    wait_s = specifying.wait_s(options)
    return functools.cache(lambda: quiet.watch(_note, Verdict.INCONCLUSIVE.value, wait_s).factor)


def _specification(options: BenchOptions, begin: Callable[[], object]) -> BenchSpec:
    """Return the specification to measure; recipes in the place of images are built for it.

    `begin` is called before a build.
    """
    words = request.RecipeWords(
        swap=options.swapped,
        all=options.swap,
        with_source=options.with_source,
        with_patch=options.with_patch,
    )
    if options.resume and words != request.RecipeWords():
        raise fail(
            Reason.USAGE,
            "words such as `--swap` cannot be added with --resume",
            hint="a results folder keeps its specification",
        )
    spec = request.specification(options, _note)
    if options.resume:
        return spec
    arms = (spec.baseline, *spec.challengers)
    if options.dry_run and any(request.recipe_of(arm, Path.cwd()) for arm in arms):
        _note("a plan needs the recipes' images: those that are missing are built first")
    return request.build_recipes(spec, words, progress.monitor(), begin=begin)


def _judged(folder: Path, asked: BenchOptions) -> int:
    """Say what the launches tell; return the exit code."""
    from stackproof.report.cli import compare  # noqa: PLC0415 - numpy only when there is a verdict

    code = compare.judge(folder, as_json=asked.json)
    return compare.required(code) if asked.require_pass else code


def _dry_run(spec: BenchSpec, folder: Path, asked: BenchOptions) -> int:
    """Say what would run; of a batch job the script, unless somebody says what its nodes are."""
    if not asked.dry_run:
        raise fail(Reason.USAGE, "`--topology` is for `--dry-run`: a launch asks its nodes itself")
    place = nodes.of_topology(spec, Path(asked.topology)) if asked.topology else None
    if place is None and spec.is_submitted:
        print(batch_job.dry_run(spec, folder), end="")
        for text in notes(spec):
            _note(text)
        return 0
    plan = planned(prepare(spec, place=place), folder)
    print(
        json.dumps(plan, indent=2) if asked.json else plan_text(plan),
        end="\n" if asked.json else "",
    )
    return 0


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)
