"""Which launches are made until enough is decided: on results folders that were made up."""

from pathlib import Path

import pytest

from stackproof.bench import schedule
from stackproof.bench.effects import deciding
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.compare.model import Cell, Verdict, Why
from stackproof.core import noun
from stackproof.core.value import replace
from stackproof.results.measurement import Disturbance, RankFacts
from stackproof.results.model import LAUNCHES
from synthetic import INTER, Noise, Plan, simulate

ARMS = {
    name: frozenset({"stackproof-bench"}) for name in ("impi", "impi again", "mpich", "openmpi")
}
SIZES = (8, 65536)
CALM = Noise(launch=0.01, size=0.005)
LATENCY = {("inter-node", "latency"): dict.fromkeys(SIZES, 2.0)}


class Folder:
    """A results folder whose launches are taken from a simulation as they are asked for."""

    def __init__(self, path: Path, most=20, noise=CALM, **spec):
        self.path, self.events = path, []
        slower = {"openmpi": LATENCY}
        plan = Plan(blocks=most, noise=noise, slower=slower, sizes=SIZES)
        simulated = simulate(plan)
        bench = BenchSpec(baseline=Arm(image="a"), launches=most, until_decided=True, **spec)
        self.schedule = schedule.schedule(bench, ARMS)
        made = {(m.arm, m.block, m.case.placement.name): m for m in simulated.measurements}
        self.made = {
            one.file_name: made[one.arm, one.block, one.placement] for one in self.schedule
        }
        looks = deciding.looks.planned(most)
        results = replace(simulated.spec, looks=looks, launches=most)
        (path / LAUNCHES).mkdir(parents=True)
        (path / "bench.json").write_text(noun.to_json(results))
        self.experiment = deciding.Experiment(
            spec=bench, plan=self.schedule, baseline="impi", folder=path, null="impi again"
        )

    def disturb(self, arm):
        """Make the inter-node latency of an arm alone noisy, so that it stays undecided."""
        for name, one in self.made.items():
            if (one.arm, one.case.placement) == (arm, INTER):
                factor = 1.15 if one.block % 2 else 0.95
                series = tuple(
                    replace(s, values=tuple(v * factor for v in s.values))
                    if s.benchmark == "latency"
                    else s
                    for s in one.output.series
                )
                output = replace(one.output, series=series)
                self.made[name] = replace(one, output=output)

    def make(self, launch):
        one = self.made[launch.file_name]
        series = tuple(
            s
            for s in one.output.series
            if not launch.benchmarks or s.benchmark in launch.benchmarks
        )
        one = replace(one, order=launch.order, output=replace(one.output, series=series))
        (self.path / LAUNCHES / launch.file_name).write_text(noun.to_json(one))

    def run(self, most=10**6):
        """Make what is asked for, and return it; stop after `most` launches as a job does."""
        found = []
        for wanted in deciding.blocks(self.experiment, self.events.append):
            for launch in wanted:
                if (self.path / LAUNCHES / launch.file_name).exists():
                    continue
                if len(found) == most:
                    return found
                self.make(launch)
                found.append(launch)
        return found


def test_a_bench_that_is_not_asked_to_look_makes_everything(tmp_path):
    folder = Folder(tmp_path / "r")
    spec = replace(folder.experiment.spec, until_decided=False)
    experiment = replace(folder.experiment, spec=spec)
    assert list(deciding.blocks(experiment, folder.events.append)) == [folder.schedule]


@pytest.mark.battery
def test_launches_end_when_everything_is_decided(tmp_path):
    folder = Folder(tmp_path / "r")
    made = folder.run()
    assert max(one.block for one in made) == 8
    assert len(made) == 9 * 2 * len(ARMS)
    assert "every point is decided" in folder.events[-1].text
    assert deciding.missing(folder.experiment) == ()


def test_only_what_is_open_is_measured_beside_the_baseline(tmp_path):
    """Only the inter-node latency of mpich is noisy; all else is decided at the first look."""
    folder = Folder(tmp_path / "r")
    folder.disturb("mpich")
    made = folder.run()
    later = [one for one in made if one.block > 8]
    assert {(one.arm, one.placement, one.benchmarks) for one in later} == {
        (arm, "inter-node", ("latency",)) for arm in ("impi", "mpich")
    }


def test_the_null_arm_is_measured_beside_what_is_open_and_is_no_question_itself(tmp_path):
    alone, beside = Folder(tmp_path / "alone"), Folder(tmp_path / "beside")
    alone.disturb("impi again")
    assert max(one.block for one in alone.run()) == 8
    assert "every point is decided" in alone.events[-1].text
    for arm in ("impi again", "mpich"):
        beside.disturb(arm)
    later = {(one.arm, one.placement) for one in beside.run() if one.block > 8}
    assert later == {(arm, "inter-node") for arm in ("impi", "impi again", "mpich")}


def test_where_there_is_no_challenger_the_null_arm_is_the_question(tmp_path):
    folder = Folder(tmp_path / "r")
    folder.disturb("impi again")
    folder.experiment = replace(folder.experiment, null=None)
    assert {one.arm for one in folder.run() if one.block > 8} == {"impi", "impi again"}


@pytest.mark.battery
def test_who_continues_makes_the_same_launches(tmp_path):
    noisy = Noise(launch=0.06, size=0.03)
    whole = Folder(tmp_path / "whole", noise=noisy).run()
    folder, made = Folder(tmp_path / "parts", noise=noisy), []
    while part := folder.run(most=70):
        made += part
    assert [(one.file_name, one.benchmarks) for one in made] == [
        (one.file_name, one.benchmarks) for one in whole
    ]


def test_missing_launches_are_those_of_the_next_block(tmp_path):
    folder = Folder(tmp_path / "r")
    assert {one.block for one in deciding.missing(folder.experiment)} == {0}
    folder.run(most=2 * len(ARMS) + 3)
    next_ones = deciding.missing(folder.experiment)
    assert {one.block for one in next_ones} == {1}
    assert len(next_ones) == 2 * len(ARMS) - 3


def test_the_budget_ends_it_and_it_is_said_what_more_time_would_buy(tmp_path):
    # A simulated launch takes 2.5 s, a block 20 s: 8 of them fit into 170 s beside the first one,
    # which is only validated.
    folder = Folder(tmp_path / "r", noise=Noise(launch=0.08, size=0.04), budget_s=170.0)
    assert max(one.block for one in folder.run()) == 8
    text = folder.events[-1].text
    assert text.startswith("the budget of 3 min ends here; ")
    assert "more launches per arm (about " in text
    assert deciding.missing(folder.experiment) == ()
    more = replace(folder.experiment.spec, budget_s=260.0)
    folder.experiment = replace(folder.experiment, spec=more)
    assert {one.block for one in folder.run()} >= {9, 10}


def test_more_time_buys_nothing_where_others_disturb_the_launches(tmp_path):
    folder = Folder(tmp_path / "r", noise=Noise(launch=0.08, size=0.04), budget_s=170.0)
    busy = RankFacts(rank=0, host="a", disturbance=Disturbance(wall_s=1.0, other_load=0.5))
    folder.made = {
        name: replace(one, output=replace(one.output, ranks=(busy,)))
        for name, one in folder.made.items()
    }
    folder.run()
    text = folder.events[-1].text
    assert "other programs disturb the launches, so more of them will not help" in text
    assert "would decide" not in text


def test_a_job_reads_the_budget_from_the_folder(tmp_path):
    folder = Folder(tmp_path / "r", noise=Noise(launch=0.08, size=0.04))
    deciding.keep_budget(folder.path, 50.0)
    assert max(one.block for one in folder.run()) == 2


def test_a_budget_that_is_too_small_still_gives_one_timed_block(tmp_path):
    """Else there would be nothing to show, and `every point` of none would be decided."""
    folder = Folder(tmp_path / "r", noise=Noise(launch=0.08, size=0.04), budget_s=1.0)
    assert {one.block for one in folder.run()} == {0, 1}
    assert "0 of " in folder.events[-1].text
    results = replace(folder.experiment, folder=tmp_path / "none")
    assert deciding._offer(results) == "no launch has a result yet"


@pytest.mark.parametrize(
    ("why", "needed", "look", "still"),
    [
        (Why.INTERVAL, 30, 15, True),
        (Why.INTERVAL, 90, 15, False),
        (Why.INTERVAL, None, 15, False),
        (Why.INTERVAL, None, 8, True),  # eight launches know too little to give up
        (Why.NO_PAIRS, None, 8, False),
        (Why.DISTURBED, None, 15, True),
        (None, None, 8, False),
    ],
)
def test_a_point_is_given_up_when_it_is_out_of_reach(why, needed, look, still):
    verdict = Verdict.PASS if why is None else Verdict.INCONCLUSIVE
    cell = Cell(size=8, blocks=8, verdict=verdict, margin=0.1, why=why, launches_needed=needed)
    assert deciding._open(cell, look, 40) is still
