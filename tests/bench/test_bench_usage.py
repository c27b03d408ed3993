"""`bench` given words that make no sense: refused before anything is read or written."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import inprocess
from refusals import refusal
from stackproof.bench.effects import dry_run, nodes, request
from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.dry_run import notes
from stackproof.bench.effects.request import specification
from stackproof.bench.effects.run import Bench
from stackproof.bench.options import BenchOptions
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.build.effects import images
from stackproof.cli import main
from stackproof.cluster.effects import state, up
from stackproof.core.cli import parsing
from stackproof.core.effects import quiet
from stackproof.core.errors import ExitCode, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.results.case import Locality
from stackproof.results.model import RECOMMENDED_LAUNCHES


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Return what calls `bench` in an empty folder, and returns how it ended and what it said."""

    def call(*words: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            main(("bench", *words))
        assert isinstance(ended.value.code, int)
        return ended.value.code, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--transport", "tcp"], "no challenger"),
        (["--launches", "0"], "--launches is 0"),
        (["--launches", "-3"], "--launches is -3"),
        (["--launches", "many"], "must be a whole number"),
        (["--seed", "-1"], "--seed is -1"),
        (["--placement", "moon"], "--placement is `moon`, which is no placement"),
        (["--ranks", "some"], "--ranks is some"),
        (["--ranks", "2,0"], "--ranks is 2,0"),
        (["--ranks", "3"], "even ones for two nodes"),
        (["--transport", "tcp", "--resume", "results"], "cannot be changed"),
        (["--ranks", "4", "--resume", "results"], "--ranks cannot be changed"),
        (["--quick", "--resume", "results"], "--quick cannot be changed"),
        (["--sizes", "1MiB..8"], "no message sizes"),
        (["--sizes", "8,sixteen"], "no message sizes"),
        (["--sizes", "3..3"], "no message sizes"),
        (["--sizes", "16GiB"], "no message sizes"),
        (["--sizes", ","], "no message sizes"),
        (["--benchmarks", "latncy"], "did you mean `latency`?"),
        (["--quick", "spec.yaml"], "already says what --baseline, --quick would"),
        (["--on", "slurm", "--wait-for-quiet", "5m"], "a job waits in its queue"),
        (["--wait-for-quiet", "never"], "--wait-for-quiet is `never`"),
    ],
)
def test_options_out_of_range(
    tmp_path: Path, refused: Callable[..., tuple[int, str]], words: list[str], said: str
) -> None:
    code, stderr = refused("--baseline", "x.squashfs", *words)
    assert code == 2
    assert said in stderr
    assert list(tmp_path.iterdir()) == []


def test_a_transport_that_is_not_known_is_refused_with_those_that_are(
    tmp_path: Path, refused: Callable[..., tuple[int, str]]
) -> None:
    code, stderr = refused(
        "--baseline", "x.squashfs", "--challenger", "y.squashfs", "--transport", "lnx,pigeon,dove"
    )
    assert code == 3
    assert "`pigeon`" in stderr
    assert "`dove`" in stderr
    assert "matched" in stderr
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_arm_is_told_before_the_cluster_that_is_not_there(
    refused: Callable[..., tuple[int, str]],
) -> None:
    code, stderr = refused(
        "--baseline", "x.squashfs", "--challenger", "y.squashfs",
        "--placement", "inter-node", "--cluster", "not-up",
    )  # fmt: skip
    assert code == ExitCode.IMAGE
    assert re.findall(r"^error: .*\[(.+)\]$", stderr, re.MULTILINE) == [
        "image-missing", "image-missing", "cluster-down",
    ]  # fmt: skip


def asked(*words: str, tell: Callable[[str], None] = print) -> BenchSpec:
    parser = argparse.ArgumentParser()
    parsing.add_options(parser, BenchOptions)
    args = parser.parse_args(["--baseline", "v.squashfs", "--challenger", "o.squashfs", *words])
    return specification(parsing.value_of(BenchOptions, args), tell)


def test_several_transports_are_as_many_arms_and_shm_stays_within_a_node() -> None:
    arms = asked("--transport", "lnx,tcp,shm,lnx").challengers
    assert [(arm.name, dict(arm.transports), arm.placements) for arm in arms] == [
        ("o-lnx", {"intra-node": "lnx", "inter-node": "lnx"}, ()),
        ("o-tcp", {"intra-node": "tcp", "inter-node": "tcp"}, ()),
        ("o-shm", {"intra-node": "shm"}, ("intra-node",)),
    ]
    (one,) = asked("--transport", "shm", "--placement", "intra-node").challengers
    assert (one.name, one.placements) == ("", ())


def test_an_arm_can_be_named_before_its_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = asked("--challenger", "new=a/b=c.squashfs", "--challenger", "./x=y.squashfs")
    assert [(arm.name, arm.image) for arm in spec.challengers] == [
        ("", f"{tmp_path}/o.squashfs"),
        ("new", f"{tmp_path}/a/b=c.squashfs"),
        ("", f"{tmp_path}/x=y.squashfs"),
    ]
    (tmp_path / "p=q.squashfs").touch()
    assert asked("--challenger", "p=q.squashfs").challengers[1].name == ""
    both = asked("--challenger", "n=q.squashfs", "--transport", "lnx,tcp").challengers
    assert [arm.name for arm in both] == ["o-lnx", "o-tcp", "n-lnx", "n-tcp"]
    assert refusal(asked, "--challenger", "a b=q.squashfs").reason is Reason.USAGE


def test_shm_between_nodes_alone_is_refused() -> None:
    caught = refusal(asked, "--transport", "lnx,shm", "--placement", "inter-node")
    assert caught.reason is Reason.UNSUPPORTED


def test_layouts_are_placements() -> None:
    """As a specification has them, in the words of the table of ranks."""
    words = (
        "--placement",
        "2x8-by-gpu",
        "--placement",
        "1x4-by-l3-packed",
        "--placement",
        "2x8-by-gpu",
    )
    assert asked(*words).placements == ("2x8-by-gpu", "1x4-by-l3-packed")
    forced = asked("--transport", "tcp,shm", *words).challengers
    assert [(dict(arm.transports), arm.placements) for arm in forced] == [
        ({"2x8-by-gpu": "tcp", "1x4-by-l3-packed": "tcp"}, ()),
        ({"1x4-by-l3-packed": "shm"}, ("1x4-by-l3-packed",)),
    ]
    with pytest.raises(StackproofError, match="for ranks of one node"):
        asked("--transport", "shm", "--placement", "2x1")
    with pytest.raises(StackproofError, match="so does --ranks"):
        asked("--ranks", "4", "--placement", "2x2")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("2x8-by-gpus", "2x8-by-gpu"),
        ("2x8-by-l2", "2x8-by-l3"),
        ("4x16-by-numa-paked", "4x16-by-numa-packed"),
        ("internode", "inter-node"),
        ("2x8-bysocket", "2x8-by-socket"),
    ],
)
def test_a_placement_that_is_none(word: str, meant: str) -> None:
    caught = refusal(asked, "--placement", word, "--placement", "0x2")
    first, second = caught.problems
    assert (first.reason, second.reason) == (Reason.USAGE, Reason.USAGE)
    assert f"did you mean `{meant}`? there are: intra-node, inter-node; NODESxRANKS" in first.hint
    assert "one of l3, numa, socket, core, node, nic, gpu" in first.hint
    assert second.message == "--placement is `0x2`, which is no placement"


def test_numbers_of_ranks_are_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    spec = asked("--ranks", "4,8")
    assert spec.placements == ("intra-node", "1x4", "inter-node", "2x2")
    assert spec.validated == ("1x8", "2x4")
    assert asked("--ranks", "3", "--placement", "intra-node").placements == ("intra-node", "1x3")
    far = asked("--ranks", "64", "--on", "slurm")  # the job looks at its own nodes
    assert (far.placements[-1], far.validated) == ("2x32", ())


def test_more_ranks_than_cpus_are_said_to_be_untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    told: list[str] = []
    assert asked("--ranks", "4", tell=told.append).validated == ("1x4", "2x2")
    (note,) = told
    assert note.startswith("4 ranks are more than the 2 CPUs here: ")
    assert note.endswith("nothing of it is timed")
    assert asked("--ranks", "2", tell=told.append).validated == ()
    assert len(told) == 1


def test_the_short_form_can_be_made_shorter() -> None:
    whole = asked()
    assert (whole.benchmarks, whole.sizes) == ((), ())
    some = asked("--benchmarks", "bcast,latency,bcast", "--sizes", "64KiB,8,1 KiB")
    assert (some.benchmarks, some.sizes) == (("bcast", "latency"), (8, 1024, 65536))
    assert asked("--sizes", "0..4").sizes == (0, 1, 2, 4)
    assert asked("--sizes", "8..32,1MiB").sizes == (8, 16, 32, 1 << 20)


def test_quick_is_short_launches_and_as_many_as_a_verdict_needs() -> None:
    quick = asked("--quick")
    assert quick.benchmarks == ("latency", "bandwidth")
    assert quick.launches == RECOMMENDED_LAUNCHES
    assert (quick.samples, quick.seconds_per_size) < (
        asked().samples,
        asked().seconds_per_size,
    )
    assert asked("--quick", "--sizes", "8").sizes == (8,)


def test_quick_stays_within_this_machine_where_no_cluster_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = tuple(place.value for place in Locality)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private(tmp_path)))
    told: list[str] = []
    assert asked("--quick", tell=told.append).placements == ("intra-node",)
    (note,) = told
    assert note == (
        "no cluster is up, so this is measured within this machine alone; with `stackproof cluster "
        "up` it is measured between two nodes as well"
    )
    assert asked("--quick", "--ranks", "2", tell=told.append).placements == ("intra-node",)
    del told[:]
    for words in (("--placement", "inter-node"), ("--on", "slurm"), ("--cluster", "default")):
        spec = asked("--quick", *words, tell=told.append)
        assert spec.placements == (words[1:] if words[0] == "--placement" else both)
    assert asked(tell=told.append).placements == both  # only a first look is content with less
    monkeypatch.setattr(up, "status", lambda: "a cluster that is up")
    assert asked("--quick", tell=told.append).placements == both
    assert told == []


def test_what_needs_a_cluster_says_how_to_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private(tmp_path)))
    caught = refusal(nodes.here, asked())
    assert caught.reason is Reason.CLUSTER_DOWN
    assert "stackproof cluster up; or measure within" in str(caught)
    assert "--placement intra-node" in str(caught)


def test_somebody_elses_cluster_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who names it is told that it is root's; an own placement is kept."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private(tmp_path)))
    monkeypatch.setattr(state, "list_of_others", lambda: {"default": "root"})
    told: list[str] = []
    spec = asked(tell=told.append)
    assert spec.placements == ("intra-node",)
    (note,) = told
    assert note.startswith("the cluster `default` that is up is root's, not yours, so this is")
    nodes.here(spec)
    for words, reason in (
        (("--placement", "inter-node"), Reason.CLUSTER_DOWN),
        (("--cluster", "default"), Reason.NOT_PERMITTED),
    ):
        caught = refusal(nodes.here, asked(*words))
        assert caught.reason is reason
        assert "root's" in str(caught)


def private(folder: Path) -> Path:
    folder.chmod(0o700)
    return folder


def test_when_it_is_looked_is_said_before_anything_is_measured() -> None:
    (note,) = notes(asked("--until-decided"))
    assert note.startswith("after 8, 11, 15, 21, 29 and 40 launches per arm it is looked")
    (note,) = notes(replace(asked("--until-decided", "--launches", "10"), budget_s=1200.0))
    assert note.startswith("after 10 launches per arm")
    assert "no block is begun that would go beyond 20 min of timed launches in all" in note
    assert note.endswith("beside which come the probes and the launches that only check bytes")


def test_a_list_that_misses_a_slow_way_back_is_said_to() -> None:
    (note,) = notes(asked("--benchmarks", "latency,bandwidth"))
    assert "a slow way back between nodes is seen by `bibandwidth`" in note
    assert notes(asked("--benchmarks", "bandwidth,bibandwidth")) == []
    assert notes(asked("--benchmarks", "bandwidth", "--placement", "intra-node")) == []
    assert notes(asked("--benchmarks", "latency")) == []


@pytest.mark.parametrize(
    ("launches", "said"),
    [
        (1, "1 launch per arm decides nothing"),
        (2, "2 launches per arm decide nothing"),
        (7, "--minimum-launches 7"),
    ],
)
def test_too_few_launches_are_said_before_they_are_made(launches: int, said: str) -> None:
    (note,) = notes(asked("--launches", str(launches)))
    assert said in note
    assert notes(asked("--launches", "10")) == []


TABLE = """\
    rank  node   core  NUMA  NIC   GPU
    0     node1  49    3     cxi0  0
    1     node1  57    3     cxi0  1
    and 1 more
"""


def test_a_dry_run_shows_where_each_rank_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [
        {"node": "node1", "cpu": cpu, "numa": 3, "nic": "cxi0", "gpu": gpu}
        for gpu, cpu in enumerate((49, 57, 17))
    ]
    monkeypatch.setattr(dry_run, "_MOST_SHOWN", 2)
    assert "\n".join([*dry_run._rank_table(ranks), ""]) == TABLE
    plain = [{"node": "n", "cpu": 0, "numa": None, "nic": "", "gpu": None}]
    assert dry_run._rank_table(plain) == ["    rank  node  core", "    0     n     0"]
    assert dry_run._rank_table([{**plain[0], "cpu": None}]) == []


LOAD = "note: load 14 on 2 CPUs"


@pytest.fixture
def _busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loadavg").write_text("14.00 13.50 9.00 15/234 999\n")
    monkeypatch.setattr(quiet, "LOAD", tmp_path / "loadavg")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def stop(*_: object, **__: object) -> NoReturn:
    raise fail(Reason.INTERRUPTED, "it begins")


@pytest.mark.usefixtures("_busy")
def test_the_load_is_said_before_a_build_and_before_a_launch(
    refused: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "make_image", stop)
    _, stderr = refused("--baseline", "mpich", "--placement", "intra-node")
    assert stderr.index(LOAD) < stderr.index("error: it begins")
    assert "expect INCONCLUSIVE" in stderr
    monkeypatch.setattr(request, "prepare", lambda _: Bench(
        spec=BenchSpec(baseline=Arm(image="x")), place=nodes.LaunchNodes(nodes={}), placements={},
        arms=Arms(by_name={}, baseline="x", null=None, challengers=()),
    ))  # fmt: skip
    monkeypatch.setattr(request, "run_bench", stop)
    _, stderr = refused("--baseline", "x.squashfs", "--placement", "intra-node")
    assert stderr.index(LOAD) < stderr.index("error: it begins")


@pytest.mark.usefixtures("_busy")
@pytest.mark.parametrize("word", ["x.squashfs", "prefix:/not/there", "x.yaml"])
def test_a_misspelt_arm_is_told_before_the_load(
    refused: Callable[..., tuple[int, str]], word: str
) -> None:
    code, stderr = refused("--baseline", word, "--placement", "intra-node")
    assert code != 0
    assert "error: " in stderr
    assert LOAD not in stderr


def test_a_folder_of_another_kind_is_called_by_its_word(tmp_path: Path) -> None:
    (tmp_path / "mpi/bin").mkdir(parents=True)
    (tmp_path / "mpi/bin/mpicc").touch()
    (tmp_path / "new/stack").mkdir(parents=True)
    done = inprocess.stackproof(
        "bench", "--quick", "--baseline", "mpi", "--challenger", "new", cwd=tmp_path
    )
    assert "`mpi` is an installed MPI, not an image" in done.stderr
    assert "hint: write `prefix:mpi`" in done.stderr
    assert "hint: write `pack:new`" in done.stderr


def test_a_baseline_alone_is_said_to_be(refused: Callable[..., tuple[int, str]]) -> None:
    note = "note: no challenger is named (--challenger IMAGE): the baseline runs against itself"
    assert note in refused("--baseline", "x.squashfs")[1]
    assert note not in refused("--baseline", "x.squashfs", "--challenger", "y.squashfs")[1]
