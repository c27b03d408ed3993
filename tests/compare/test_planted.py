"""What was planted in results, and the word for it: in text, JSON, Markdown, report and exit code."""

import json
import re

import pytest

from experiments import FAST, QUIET, changed, experiment, output, sampled, series, times, with_spec
from reportsamples import Page
from stackproof.compare.compare import compare
from stackproof.compare.model import Verdict
from stackproof.core.value import replace
from stackproof.report.cli.compare import exit_code
from stackproof.report.render import render_csv, render_html, render_json, render_markdown
from stackproof.report.terminal import terminal_verdicts
from synthetic import INTER, INTRA, Noise, fault

SIZES = (8, 1024)
LATENCY = ("inter-node", "latency")


def measured(factors=None, tails=None, *, noise=QUIET, blocks=12, **plan):
    slower = {"mpich": {LATENCY: factors}} if factors else {}
    plan = {"benchmarks": ("latency",), "placements": (INTER,), "sizes": SIZES, **plan}
    results = sampled(experiment(blocks=blocks, slower=slower, noise=noise, **plan), tails)
    return with_spec(results, margins={"latency": 0.05}, launches=blocks)


def by(factor):
    return dict.fromkeys(SIZES, factor)


def halved():
    """A link that loses most of its rate halfway, for all arms."""
    return changed(measured(), times(3.0), lambda one: one.block > 6)


def some_launches_slow():
    slow = {1, 4, 8, 11}
    return changed(measured(), times(1.5), lambda one: one.arm == "mpich" and one.block in slow)


def one_rank_slow():
    """A collective waits for its slowest rank."""
    slower = {"mpich": {("inter-node", "allreduce"): by(1.5)}}
    return sampled(small(slower, "allreduce"))


def small(slower, benchmark):
    return experiment(
        blocks=12, slower=slower, benchmarks=(benchmark,), placements=(INTER,), sizes=SIZES
    )


def fallen_back():
    def change(one):
        return replace(one, case=replace(one.case, transport="tcp"))

    return changed(measured(), change, lambda one: one.arm == "mpich" and one.block % 2)


def of_arm(one):
    return one.arm == "mpich"


def crowded():
    def change(one):
        ranks = tuple(replace(rank, cpus=(0,)) for rank in one.output.ranks)
        return output(ranks=ranks)(one)

    return changed(measured(placements=(INTRA,)), change, of_arm)


def said_by(**changes):
    """Return a plant: what the challenger's launches say instead."""
    return lambda: changed(measured(), output(**changes), of_arm)


def noisy_null(factor=1.1, arm=1.0):
    slower = {"impi again": {LATENCY: by(factor)}, "mpich": {LATENCY: by(arm)}}
    return sampled(small(slower, "latency"))


def lost(results, blocks, arm="mpich"):
    return fault(results, arm, blocks, "job-timeout", "too slow")


PASS, FAIL, OPEN = "PASS", "FAIL", "INCONCLUSIVE"
BY_TAIL, TAIL_OPEN = "FAIL, by the tail", "PASS, tail undecided"

NOISY = "mpich is not judged: impi differs from itself"

PLANTED = {
    "equal arms": (measured, PASS, [PASS, PASS], ""),
    "3 % slower": (
        lambda: measured(by(1.03), noise=Noise(launch=0.03)), OPEN, [OPEN, OPEN],
        "the interval reaches over the margin",
    ),
    "8 % slower": (lambda: measured(by(1.08)), FAIL, [FAIL, FAIL], ""),
    "20 % slower": (lambda: measured(by(1.2)), FAIL, [FAIL, FAIL], ""),
    "one size": (lambda: measured({8: 1.2}), FAIL, [FAIL, PASS], "latency 8 B between nodes: "),
    "one rank": (one_rank_slow, FAIL, [FAIL, FAIL], "allreduce"),
    "long stalls": (lambda: measured(tails={"mpich": (0.2, 50)}), FAIL, [BY_TAIL, BY_TAIL], "p95"),
    "tail": (lambda: measured(tails={"mpich": (0.1, 4)}), FAIL, [BY_TAIL, BY_TAIL], "in the tail (p95 "),
    "both arms have the tail": (
        lambda: measured(tails=dict.fromkeys(("impi", "impi again", "mpich"), (0.03, 4))),
        PASS, [TAIL_OPEN, TAIL_OPEN], "tail undecided at all 2",
    ),
    "rare and long": (
        lambda: measured(tails={"mpich": (0.04, 20)}), OPEN, [OPEN, OPEN],
        "the tail seems worse by more than its margin, and that is not proven",
    ),
    "a third of the launches": (some_launches_slow, OPEN, [OPEN, OPEN], "interval"),
    "link cut halfway": (
        halved, PASS, [PASS, PASS],
        "times slower from block 7 on: the machine or its network changed",
    ),
    "fall-back": (fallen_back, OPEN, [OPEN, OPEN], "launches by different paths are never put"),
    "singletons": (said_by(world_size=1, worlds=2), OPEN, [], "2 ranks were asked for, and there were 2 worlds"),
    "smaller world": (said_by(world_size=1), OPEN, [], "2 ranks were asked for, and there were 1 worlds"),
    "noisy null arm": (lambda: noisy_null(1.2), OPEN, [OPEN, OPEN], NOISY),
    "null arm too fast": (lambda: noisy_null(0.8), OPEN, [OPEN, OPEN], NOISY),
    "noisy, and slower": (lambda: noisy_null(1.2, 1.5), OPEN, [OPEN, OPEN], NOISY),
    "40 % lost": (
        lambda: lost(measured(blocks=20), range(1, 9)), OPEN, [OPEN, OPEN],
        "what is left may be a selection, so nothing is judged",
    ),
    "output cut off": (
        said_by(complete=False), OPEN, [], "its output ends before the program did",
    ),
    "ranks on one CPU": (crowded, OPEN, [], "rank 0 and rank 1 shared CPU 0 of n0"),
    "nothing looked at": (
        lambda: changed(measured(), series(lambda s: replace(s, validated=None)), of_arm), PASS, [PASS, PASS],
        "nobody looked whether bytes arrived unchanged at mpich",
    ),
    "empty runs": (said_by(series=()), OPEN, [], "it measured nothing"),
}  # fmt: skip


def one_line(text):
    return " ".join(re.sub(r"\\", "", text).split())


@pytest.mark.parametrize("name", PLANTED)
def test_the_word_is_right_everywhere(name):
    plant, verdict, words, said = PLANTED[name]
    comparison = compare(plant(), FAST)
    judgement = comparison.panels[0].judgement("mpich")
    assert [cell.reads for cell in judgement.cells] == words if words else judgement is None
    arm = comparison.verdict_of("mpich")
    assert (arm.verdict, comparison.verdict) == (verdict, verdict)
    assert exit_code(comparison) == {PASS: 0, FAIL: 8, OPEN: 9}[verdict]
    assert (comparison.verdict_of("impi again").verdict is Verdict.FAIL) is (said == NOISY)
    reads = TAIL_OPEN if TAIL_OPEN in words else verdict
    data = json.loads(render_json(comparison))
    assert (data["words"], data["verdicts"][0]["words"]) == (reads, reads)
    cells = [one for p in data["panels"] for one in p["judgements"] if one["arm"] == "mpich"]
    assert [cell["words"] for one in cells for cell in one["cells"]] == words
    shown = (terminal_verdicts(comparison), render_markdown(comparison))
    texts = [*map(one_line, shown), Page(render_html(comparison)).text]
    for text in texts:
        assert re.search(rf"mpich against impi(?::| [●✕○]) {reads}(?!,)", text)
        assert said in text
        if arm.overruled:
            assert arm.overruled in text
            assert not re.search(r"mpich (is|was) as fast|mpich: [^.]*(as fast|slower)", text)
        assert all(word in text for word in words if "," in word)
    rows = render_csv(comparison).splitlines()
    assert all(any(word in row for row in rows) for word in words)


LIBRARY = {"mpi_library": "Open MPI v5.0.8, package"}
UNTRUE = {
    "library in half": (output(**LIBRARY), lambda m: of_arm(m) and m.block % 2, "other-library"),
    "library in all": (output(**LIBRARY), of_arm, "other-library"),
    "library of the null arm": (
        output(mpi_library="impi 9"), lambda m: m.arm == "impi again", "other-library",
    ),
    "another release": (output(mpi_library="MPICH Version:  4.0"), of_arm, "other-library"),
    "no checks": (lambda m: replace(m, checks=()), of_arm, "missing"),
}  # fmt: skip


def test_warm_ups_need_no_checks() -> None:
    warm = changed(measured(), lambda m: replace(m, block=0, checks=()), lambda m: m.block == 1)
    assert exit_code(compare(warm, FAST)) != 7


@pytest.mark.parametrize("name", UNTRUE)
def test_results_that_are_not_what_they_say_are_not_judged(name, capsys):
    change, wanted, kind = UNTRUE[name]
    comparison = compare(changed(measured(), change, wanted), FAST)
    assert exit_code(comparison) == 7
    assert kind in capsys.readouterr().err
    assert {one.verdict for one in comparison.verdicts} == {Verdict.INCONCLUSIVE}
    for text in (terminal_verdicts(comparison), render_markdown(comparison)):
        assert "is not judged: these results are not what they say" in one_line(text)
        assert "as fast as" not in one_line(text)
