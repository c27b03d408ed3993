"""One sentence for each challenger, word by word."""

import pytest

from reportsamples import comparison_of
from stackproof.compare.model import (
    ArmCurve,
    ArmJudgement,
    Cell,
    Curve,
    Panel,
    Point,
    Tail,
    Verdict,
    Why,
)
from stackproof.compare.overrule import WRONG_BYTES
from stackproof.core.value import replace
from stackproof.report.headline import headline, headlines, list_numbers
from stackproof.report.markdown import render_markdown
from stackproof.report.terminal import terminal_verdicts

SIZES = (8, 1024, 1 << 20)
OPEN, SLOW_OPEN, TAIL = "open", "slow?", "tail"


def cell(size, what):
    """Return a cell: a ratio that passes or fails, or one of the words above."""
    fields = {"size": size, "blocks": 10, "margin": 0.1}
    if what == OPEN:
        return Cell(**fields, verdict=Verdict.INCONCLUSIVE, why=Why.INTERVAL, ratio=0.9)
    if what == SLOW_OPEN:
        return Cell(
            **fields, verdict=Verdict.INCONCLUSIVE, why=Why.CHANCE, ratio=0.7, low=0.6, high=0.8
        )
    if what == TAIL:
        tail = Tail(statistic="p95", blocks=10, verdict=Verdict.FAIL, margin=0.1, ratio=0.25)
        return Cell(**fields, verdict=Verdict.FAIL, why=Why.TAIL, ratio=1.0, tails=(tail,))
    verdict = Verdict.PASS if what >= 0.9 or what > 2 else Verdict.FAIL
    low, high = 0.99 * what, 1.01 * what
    return Cell(**fields, verdict=verdict, ratio=what, low=low, high=high)


def curve(title, placement, locality, *, sized=True):
    return Curve(
        placement=placement, locality=locality, program="p", benchmark=title, title=title,
        unit="us", kind="latency", higher_is_better=False, sized=sized,
    )  # fmt: skip


def made(**places):
    """Return a comparison of one challenger; `intra` and `inter` give its cells by curve."""
    names = {"intra": "intra-node", "inter": "inter-node"}
    panels = [
        Panel(
            curve=curve(title, f"{place}", names[place[:5]], sized=len(cells) > 1),
            limit=None,
            limit_source="",
            arms=(ArmCurve(arm="mpich", points=()),),
            judgements=(
                ArmJudgement(
                    arm="mpich", cells=tuple(cell(*one) for one in zip(SIZES, cells, strict=False))
                ),
            ),
        )
        for place, curves in places.items()
        for title, cells in curves.items()
    ]
    sample = comparison_of(sizes=(8,), benchmarks=("latency",), challengers=("mpich",), blocks=6)
    return replace(sample, panels=tuple(panels))


@pytest.mark.parametrize(
    ("places", "sentence"),
    [
        (
            {
                "intra": {"latency": (1 / 8, 1 / 7, 1 / 6)},
                "inter": {"latency": (0.8, 0.7, 1.0)},
            },
            ("within a node 6 to 8 times slower; between nodes 20 to 30 % slower up to 1 KiB, "
             "as fast at 1 MiB"),
        ),
        ({"intra": {"a": (1.0, 1, 1)}, "inter": {"a": (1, 1.0, 1)}}, "as fast everywhere"),
        ({"intra": {"a": (1.0, 1, 1)}}, "within a node as fast"),
        ({"intra": {"a": (2.0, 1, 1)}}, "within a node as fast or faster"),
        ({"intra": {"a": (0.8, 0.8, 0.1)}}, "within a node 20 % to 10 times slower"),
        ({"intra": {"a": (0.5, 0.5, 0.5)}}, "within a node 2 times slower"),
        (
            {"inter": {"a": (0.8, 1.0, 1.0), "b": (OPEN, 1.0, 1.0)}},
            "between nodes 20 % slower at 1 of 6 points, as fast from 1 KiB, undecided at 1",
        ),
        (
            {"inter": {"a": (0.8, OPEN, 1.0), "b": (1.0, 1.0, 0.8)}},
            "between nodes 20 % slower at 2 of 6 points, as fast at 3, undecided at 1",
        ),
        (
            {"inter": {"a": (0.8, 0.8, 0.8), "barrier": (1.0,)}},
            "between nodes 20 % slower in a, as fast in barrier",
        ),
        (
            {"inter": {"a": (1.0, 1.0, OPEN), "barrier": (1.0,)}},
            "between nodes as fast up to 1 KiB and at 1 more, undecided at 1 MiB",
        ),
        (
            {"inter": {"a": (TAIL, SLOW_OPEN, TAIL)}},
            ("between nodes 4 times slower in the tail at 8 B and at 1 more, 30 % slower but "
             "not proven at 1 KiB"),
        ),
        (
            {"inter": {"a": (1.0,) * 3}, "inter2": {"a": (OPEN,) * 3}},
            "at inter as fast; at inter2 undecided",
        ),
        ({"inter": {"a": (0.8, 0.8, 1.0)}, "intra": {"a": (0.8, 0.8, 1.0)}},
         "between nodes and within a node 20 % slower up to 1 KiB, as fast at 1 MiB"),
    ],
)  # fmt: skip
def test_the_sentence_says_how_much_and_where(places, sentence):
    assert headline(made(**places), "mpich") == f"mpich: {sentence}"


def test_faster_is_said_where_equality_was_the_question():
    one = made(inter={"a": (0.8, 0.8, 0.8)})
    (panel,) = one.panels
    (judgement,) = panel.judgements
    cells = tuple(replace(cell, ratio=1 / 0.8) for cell in judgement.cells)
    panel = replace(panel, judgements=(replace(judgement, cells=cells),))
    assert headline(replace(one, panels=(panel,)), "mpich") == ("mpich: between nodes 20 % faster")


def test_an_arm_without_a_launch_has_nothing_to_compare():
    assert headline(made(), "mpich") == "mpich: nothing to compare"


def test_wrong_bytes_and_selections_stand_before_any_speed():
    one = made(inter={"a": (1.0, 1.0, 1.0)})
    (verdict, *others) = one.verdicts
    wrong = replace(verdict, overruled=WRONG_BYTES)
    said = headline(replace(one, verdicts=(wrong, *others)), "mpich")
    assert said == "mpich: received wrong bytes; otherwise between nodes as fast"
    withheld = replace(verdict, overruled="not judged: more launches were discarded")
    said = headline(replace(one, verdicts=(withheld, *others)), "mpich")
    assert said == "mpich: not judged: more launches were discarded"


def test_text_and_markdown_say_the_same_sentences():
    comparison = comparison_of()
    first, second = headlines(comparison)
    text = " ".join(terminal_verdicts(comparison).split())
    assert "mpich against impi: FAIL mpich: " in text
    assert " ".join(first.split()) in text
    assert " ".join(second.split()) in text
    assert "impi again:" not in text
    plain = render_markdown(comparison).replace("\\", "")
    assert f"\n{first}\n" in plain
    assert f"\n{second}\n" in plain


def with_points(comparison, **medians):
    """Return the comparison with these medians of the challenger and the baseline."""
    (panel,) = comparison.panels
    arms = {"mpich": medians["own"], comparison.spec.baseline: medians["base"]}
    curves = tuple(
        ArmCurve(
            arm=name,
            points=tuple(
                Point(size=size, median=value, minimum=value, maximum=value, blocks=(), values=())
                for size, value in zip(SIZES, values, strict=True)
            ),
        )
        for name, values in arms.items()
    )
    return replace(comparison, panels=(replace(panel, arms=curves),))


def test_medians_that_tell_another_ratio_than_the_pairs_are_left_out():
    slow = made(intra={"latency": (0.1, 1.0, 1.0)})
    near = with_points(slow, own=(11.0, 1.0, 1.0), base=(1.0, 1.0, 1.0))
    assert list_numbers(near, "mpich") == [
        "latency 8 B within a node: 10 times slower (11 against 1 µs)"
    ]
    far = with_points(slow, own=(24.5, 1.0, 1.0), base=(1.0, 1.0, 1.0))
    assert list_numbers(far, "mpich") == ["latency 8 B within a node: 10 times slower"]


def test_a_point_within_the_noise_does_not_head_the_answer():
    both = made(intra={"latency": (SLOW_OPEN, SLOW_OPEN, 1.0)})
    (panel,) = both.panels
    (judgement,) = panel.judgements
    noisy, slow, same = judgement.cells
    noisy = replace(noisy, why=Why.NOISE, ratio=0.1, low=0.05, high=0.2, floor=0.9)
    panel = replace(panel, judgements=(replace(judgement, cells=(noisy, slow, same)),))
    both = replace(both, panels=(panel,))
    assert headline(both, "mpich") == (
        "mpich: within a node as fast at 1 MiB, 30 % slower but not proven at 1 KiB, "
        "within the noise at 8 B"
    )
    assert list_numbers(both, "mpich")[0].startswith("latency 1 KiB within a node: 30 % slower but")
    alone = replace(panel, judgements=(replace(judgement, cells=(noisy, noisy, noisy)),))
    (text,) = list_numbers(replace(both, panels=(alone,)), "mpich")
    assert text.startswith("latency 8 B within a node: within the noise")
