"""What a sweep found, in the words of a terminal and in the report."""

from __future__ import annotations

import pytest

from stackproof.compare import looks
from stackproof.compare.compare import compare
from stackproof.compare.model import Comparison, SweepOutcome
from stackproof.core.value import replace
from stackproof.report.render import render_html, render_json
from stackproof.report.sweep import best_lines, outcome_sentence
from stackproof.report.terminal import terminal_verdicts
from synthetic import INTER, Noise, Plan, simulate

SIZES = (8, 1024, 65536, 1 << 20)


@pytest.fixture(scope="module")
def swept() -> Comparison:
    """Three arms, of which `openmpi` is a fifth faster from 64 KiB on."""
    slow = {("inter-node", "latency"): {65536: 1.25, 1 << 20: 1.25}}
    plan = Plan(
        challengers=("mpich", "openmpi"), benchmarks=("latency",), sizes=SIZES, placements=(INTER,),
        blocks=11, null=None, slower={"impi": slow, "mpich": slow}, noise=Noise(launch=0.01, size=0.005),
    )  # fmt: skip
    results = simulate(plan)
    spec = replace(results.spec, looks=looks.planned(11), launches=11, sweep=True)
    return compare(replace(results, spec=spec))


def found(comparison: Comparison) -> SweepOutcome:
    assert comparison.sweep
    return comparison.sweep


def test_the_best_setting_is_said_by_size_with_its_interval(swept: Comparison) -> None:
    assert outcome_sentence(swept, found(swept)) == (
        "`openmpi` serves most sizes (33 of 33 launches of a full grid)."
    )
    small, large = best_lines(found(swept))
    assert small.startswith("latency at inter-node, 8 B")
    assert "1 KiB: none stands out; not told apart: impi, mpich, openmpi" in small
    assert large.startswith("latency at inter-node, 64 KiB")
    assert "1 MiB: openmpi, 1.2" in large
    assert large.endswith(") of the baseline")


def test_a_terminal_and_a_report_show_it(swept: Comparison) -> None:
    text = " ".join(terminal_verdicts(swept).split())
    assert outcome_sentence(swept, found(swept)) in text
    page = render_html(swept)
    assert '<section id="settings">' in page
    assert "The best setting by size" in page
    assert '"best":"openmpi"' in render_json(swept).replace(" ", "").replace("\n", "")


def test_where_the_baseline_is_best_that_is_said(swept: Comparison) -> None:
    same = replace(found(swept), best="impi")
    assert outcome_sentence(swept, same).startswith(
        "No setting serves more sizes than `impi` as it is"
    )


def test_without_a_sweep_there_is_nothing(swept: Comparison) -> None:
    plain = replace(swept, sweep=None)
    assert "settings" not in terminal_verdicts(plain)
    assert '<section id="settings">' not in render_html(plain)
