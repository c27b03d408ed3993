"""Faults made for real, and whether the first finding is their cause."""

from __future__ import annotations

import os

import pytest

from mpitrees import PROGRAM, Tree, Trees
from stackproof.bench import programs
from stackproof.compare import launch_checks
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects.run import run
from stackproof.doctor.conditions import Answer
from stackproof.doctor.evidence.results import of_results
from stackproof.doctor.rules import diagnose
from stackproof.knowledge.effects.load import load_knowledge
from stackproof.knowledge.evidence import Evidence, merged
from stackproof.launch import launchers
from stackproof.launch.launchers import LaunchRequest
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Measurement
from stackproof.results.model import Results, ResultsSpec

pytestmark = pytest.mark.machine

KNOWLEDGE = load_knowledge()
INCLUDE = "OMPI_MCA_opal_common_ofi_provider_include"


def measured(tree: Tree, *, starter: Tree | None = None, env: dict[str, str]) -> Results:
    """Return the results of one launch of two ranks on this node, good or bad."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two ranks that poll need as many CPUs")
    node = os.uname().nodename
    case = Case(
        program=PROGRAM,
        benchmarks=("latency", "bandwidth"),
        sizes=(8, 1024),
        placement=Placement(name="intra-node", ranks=(Rank(node=node), Rank(node=node))),
        samples=3,
        timeout_s=60,
    )
    first = starter or tree
    bench = programs.REGISTRY[PROGRAM]
    patch = first.family.environment(str(first.prefix))
    patch = patch.then(tree.family.environment(str(tree.prefix))).then(EnvPatch(set=env))
    member = launchers.get(first.family.launcher)
    request = LaunchRequest(
        prefix=str(first.prefix),
        program=bench.argv(str(tree.program), case),
        placement=case.placement,
        agent=None,
        environment=patch.apply({"PATH": "/usr/bin:/bin"}),
        as_root=os.geteuid() == 0,
    )
    argv = member.argv(request)
    done = run(Command(argv=argv, env=member.environment(request), timeout_s=case.timeout_s))
    output = bench.parse(done.stdout, case)
    judged = launch_checks.judge(
        output, case, mpi_family=tree.family.name, mpi_version=tree.version, completed=done
    )
    launch = Measurement(
        arm="a", block=1, order=1, case=case, output=output, checks=judged, argv=argv, env=env,
        started="", seconds=done.seconds,
    )  # fmt: skip
    return Results(
        spec=ResultsSpec(name="made", baseline="a", challengers=()), measurements=(launch,)
    )


def first_finding(results: Results, more: Evidence | None = None) -> tuple[str, Evidence]:
    evidence = merged(of_results(results, "a"), more or Evidence())
    finding = diagnose(KNOWLEDGE, evidence)[0]
    assert finding.outcome.answer is Answer.YES
    return finding.rule.id, evidence


def test_ranks_that_think_they_are_alone(trees: Trees) -> None:
    results = measured(trees["openmpi"], starter=trees["mpich"], env={})
    found, evidence = first_finding(results)
    assert found == "K25"
    assert evidence.facts["worlds"] == 2.0


def test_a_provider_that_nothing_has_is_passed_over_without_a_word(trees: Trees) -> None:
    """The job ends well over another path, which is why it needs a rule."""
    results = measured(trees["openmpi"], env={INCLUDE: "shm+cxi:lnx"})
    (launch,) = results.measurements
    assert launch.usable
    found, _ = first_finding(results, Evidence(versions={"libfabric": "2.3.1"}))
    assert found == "K01"


def test_settings_for_infiniband_on_slingshot(trees: Trees) -> None:
    results = measured(trees["openmpi"], env={"OMPI_MCA_pml": "ucx", "OMPI_MCA_mtl": "^ofi"})
    found, _ = first_finding(results, Evidence(facts={"fabric": "slingshot-11"}))
    assert found == "K27"


def test_a_good_launch_has_no_finding(trees: Trees) -> None:
    evidence = of_results(measured(trees["mpich"], env={}), "a")
    answers = {finding.outcome.answer for finding in diagnose(KNOWLEDGE, evidence)}
    assert Answer.YES not in answers
