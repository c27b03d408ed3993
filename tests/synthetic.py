"""Made-up results with known truth: for tests of the statistics and of the report.

A simulated machine has a curve per benchmark (fixed cost, a protocol step, a bandwidth), a block
effect that all arms share, a launch effect, and noise per size. Arms differ from it only by the
factors that the caller plants. Nothing here was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import field

from stackproof.core import noun
from stackproof.core.value import Value, replace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Check, Measurement, Output, RankFacts, Series, State
from stackproof.results.metrics import METRICS
from stackproof.results.model import ComparedArm, Results, ResultsSpec

SIZES = tuple(1 << n for n in range(23))
INTRA = Placement(name="intra-node", ranks=(Rank(node="n0", cpu=0), Rank(node="n0", cpu=1)))
INTER = Placement(name="inter-node", ranks=(Rank(node="n0", cpu=0), Rank(node="n1", cpu=1)))


ANSWERS = {"mpich": "MPICH Version:      1.2.3", "openmpi": "Open MPI v1.2.3, package"}
"""The words that libraries have for themselves, where stackproof knows them."""


class Noise(Value):
    """Relative noise: `launch` of a whole launch, `size` of one size in it, `block` shared.

    `heavy` draws launch effects from Student's t with 3 degrees of freedom and adds rare delays.
    """

    launch: float = 0.03
    size: float = 0.015
    block: float = 0.05
    heavy: bool = False


class Plan(Value):
    """What to simulate; `slower[arm][(placement, benchmark)]` maps a size to a time factor."""

    challengers: tuple[str, ...] = ("mpich", "openmpi")
    benchmarks: tuple[str, ...] = ("latency", "bandwidth")
    sizes: tuple[int, ...] = SIZES
    placements: tuple[Placement, ...] = (INTRA, INTER)
    blocks: int = 10
    samples: int = 3
    noise: Noise = Noise()
    null: str | None = "impi again"
    slower: Mapping[str, Mapping[tuple[str, str], Mapping[int, float]]] = field(
        default_factory=dict
    )


def simulate(plan: Plan, seed: int = 1) -> Results:
    """Return the results of one simulated experiment."""
    random = np.random.default_rng(seed)
    null = () if plan.null is None else (plan.null,)
    arms = ("impi", *null, *plan.challengers)
    measurements = []
    order = 0
    for block in range(plan.blocks + 1):
        for placement in plan.placements:
            shared = random.normal(0, plan.noise.block)
            for arm in random.permutation(np.array(arms, dtype=object)):
                measurements.append(_launch(plan, placement, arm, (block, order), shared, random))
                order += 1
    return Results(spec=specification(plan), measurements=tuple(measurements))


def specification(plan: Plan) -> ResultsSpec:
    def arm(name: str) -> ComparedArm:
        family = "impi" if name.startswith("impi") else name
        digest = f"{sum(family.encode()):064x}"
        return ComparedArm(
            image=f"/data/images/{family}.squashfs",
            image_sha256=digest,
            lock_digest=digest[::-1],
            mpi={"family": family, "version": "1.2.3"},
            recipe=f"name: {family}\nmpi:\n  family: {family}\n  version: 1.2.3\n",
            lock='{"engine": "wheel", "artefacts": []}\n',
            view="default",
        )

    null = () if plan.null is None else (plan.null,)
    return ResultsSpec(
        name="simulated machine",
        baseline="impi",
        null=plan.null,
        challengers=plan.challengers,
        seed=7,
        created="2026-01-02T03:04:05Z",
        arms={name: arm(name) for name in ("impi", *null, *plan.challengers)},
        host={"cpu": "Simulated CPU", "kernel": "6.1.0-simulated", "cores": 2},
        limits={
            "inter-node": {"MB/s": 1250.0, "source": "10 Gbit/s set on the simulated link"},
            "intra-node": {"MB/s": None, "source": ""},
        },
        command=("stackproof", "bench", "bench.yaml", "-o", "results"),
        stackproof="0.0.0",
        versions={"python": "3.11", "numpy": "2.0"},
    )


def _times(placement: Placement, sizes: np.ndarray) -> np.ndarray:
    """Return the machine's one-way times in us: fixed cost, a step at 16 KiB, a bandwidth."""
    inter = placement.locality.value == "inter-node"
    start, rate = (18.0, 1180.0) if inter else (0.6, 9500.0)
    step = np.where(sizes >= 16384, start * 0.8, 0.0)
    return start + step + sizes / rate


def _values(benchmark: str, placement: Placement, sizes: np.ndarray) -> np.ndarray:
    times = _times(placement, sizes)
    inter = placement.locality.value == "inter-node"
    floor = times[0] / (24 if inter else 8)
    match benchmark:
        case "latency":
            return times
        case "bandwidth":
            return sizes / (floor + sizes / (1180.0 if inter else 9500.0))
        case "bibandwidth":
            return 1.8 * sizes / (floor + sizes / (1180.0 if inter else 9500.0))
        case "message_rate":
            return 1e6 / (floor + sizes / (1180.0 if inter else 9500.0))
        case "alltoall" | "allgather" | "allreduce":
            return 2.2 * times
        case _:
            return 1.3 * times


def _launch(plan, placement, arm, place, shared, random) -> Measurement:
    block, order = place
    noise = plan.noise
    effect = random.standard_t(3) / np.sqrt(3) if noise.heavy else random.normal()
    series = []
    for benchmark in plan.benchmarks:
        metric = METRICS[benchmark]
        sizes = np.array(plan.sizes if metric.sized else (0,), dtype=np.float64)
        planted = plan.slower.get(arm, {}).get((placement.name, benchmark), {})
        factors = np.array([planted.get(int(size), 1.0) for size in sizes])
        logs = shared + noise.launch * effect + random.normal(0, noise.size, len(sizes))
        if noise.heavy:
            rare = random.random(len(sizes)) < 0.03
            logs = logs + rare * random.exponential(0.3, len(sizes))
        times = factors * np.exp(logs)
        values = _values(benchmark, placement, sizes)
        values = values / times if metric.higher_is_better else values * times
        jitter = np.exp(random.normal(0, 0.004, (len(sizes), plan.samples)))
        series += [
            Series(
                benchmark=benchmark,
                size=int(size),
                unit=metric.unit,
                values=tuple(float(v) for v in row),
                iterations=100,
                validated=int(size) * 100,
            )
            for size, row in zip(sizes, values[:, None] * jitter, strict=True)
        ]
    family = "impi" if arm.startswith("impi") else arm
    return Measurement(
        arm=arm,
        block=block,
        order=order,
        case=Case(
            program="stackproof-bench",
            benchmarks=plan.benchmarks,
            sizes=plan.sizes,
            placement=placement,
            validate=True,
        ),
        output=Output(
            program="stackproof-bench",
            program_version="1",
            mpi_library=ANSWERS.get(family, f"{family} 1.2.3"),
            world_size=len(placement.ranks),
            worlds=1,
            clock={"resolution_ns": 1.0},
            ranks=tuple(
                RankFacts(
                    rank=i,
                    host=rank.node,
                    cpu=rank.cpu,
                    cpus=() if rank.cpu is None else (rank.cpu,),
                    libraries=(f"/user-environment/{family}/lib/libmpi.so",),
                )
                for i, rank in enumerate(placement.ranks)
            ),
            series=tuple(series),
            complete=True,
        ),
        checks=(
            Check(name="validation", state=State.OK, evidence="every byte as expected"),
            Check(
                name="transport",
                state=State.OK,
                evidence="eth0 sent what was received"
                if placement is INTER
                else "no interface sent anything",
            ),
        ),
        argv=("mpiexec", "-n", "2", f"/user-environment/{family}/bin/stackproof-bench"),
        env={
            "FI_PROVIDER": "tcp" if placement is INTER else "shm",
            f"{family.upper()}_SETTING": "1",
        },
        started=f"2026-01-02T03:{order // 60 % 60:02d}:{order % 60:02d}Z",
        seconds=2.5,
        image_sha256=f"{sum(family.encode()):064x}",
        host_facts={"cpu": "Simulated CPU"},
    )


def fault(results: Results, arm: str, blocks: Sequence[int], reason: str, evidence: str) -> Results:
    """Return the results with a BAD check on every launch of an arm in some blocks."""
    bad = Check(name="validation", state=State.BAD, reason=reason, evidence=evidence)
    return replace(
        results,
        measurements=tuple(
            replace(m, checks=(*m.checks, bad)) if m.arm == arm and m.block in blocks else m
            for m in results.measurements
        ),
    )


def write_results(results: Results, folder: Path) -> Path:
    """Write a results folder as `bench` does, and return it."""
    (folder / "launches").mkdir(parents=True)
    (folder / "bench.json").write_text(noun.to_json(results.spec))
    for number, measurement in enumerate(results.measurements):
        (folder / "launches" / f"{number:04d}.json").write_text(noun.to_json(measurement))
    return folder


# --- several paths of one MPI ---------------------------------------------------------------

PATHS = {"ompi-lnx": "lnx", "ompi-shm": "shm", "ompi-ofi": "tcp"}
PATH_SIZES = (8, 1024, 65536)
FOUR = Placement(name="2x2", ranks=tuple(Rank(node=node) for node in ("n0", "n0", "n1", "n1")))


def simulate_paths(**changes: Any) -> Results:
    """Return results of three paths of one MPI, over 2 and 4 ranks, and 8 that were only checked.

    Between nodes lnx is best in alltoall at 8 B, and the bytes of tcp over 8 ranks were wrong.
    """
    slower = {
        "ompi-ofi": {("inter-node", "alltoall"): dict.fromkeys(PATH_SIZES, 1.6)},
        "ompi-lnx": {("inter-node", "alltoall"): {8: 0.6}},
    }
    plan = Plan(
        challengers=tuple(PATHS),
        benchmarks=("latency", "alltoall"),
        sizes=PATH_SIZES,
        placements=(INTRA, INTER, FOUR),
        noise=Noise(launch=0.004, size=0.004, block=0.01),
        slower=slower,
    )
    results = simulate(replace(plan, **changes))
    found = [_on_path(one) for one in results.measurements]
    kept = [one for one in found if one.arm != "ompi-shm" or one.case.placement.name == INTRA.name]
    extra = [
        _untimed(one, State.BAD if one.arm == "ompi-ofi" else State.OK)
        for one in kept
        if one.block == 1 and one.case.placement.name == FOUR.name
    ]
    return replace(results, measurements=(*kept, *extra))


def _on_path(one: Measurement) -> Measurement:
    default = "shm" if one.case.placement.locality == "intra-node" else "tcp"
    case = replace(one.case, transport=PATHS.get(one.arm, default))
    return replace(one, case=case)


def _untimed(one: Measurement, state: State) -> Measurement:
    ranks = tuple(Rank(node=node) for node in ("n0", "n1") for _ in range(4))
    wrong = state is State.BAD
    check = Check(
        name="validation",
        state=state,
        reason="validation-failed" if wrong else "",
        evidence="3 received bytes were wrong" if wrong else "4096 received bytes were right",
    )
    placement = Placement(name="2x4", ranks=ranks, timed=False)
    case = replace(one.case, benchmarks=("alltoall",), placement=placement)
    # A launch of its own, not the copy of another one.
    series = tuple(
        replace(each, values=tuple(1.5 * value for value in each.values))
        for each in one.output.series
        if each.benchmark == "alltoall"
    )
    output = replace(one.output, series=series)
    return replace(one, case=case, checks=(check,), block=0, output=output)
