"""Arms of every kind, as specifications and command lines write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from installedmpis import MPICH, OPEN_MPI, installed
from need import installed_mpi, need
from refusals import refusal
from stackproof.bench import arms
from stackproof.bench.effects.arms import make_ready
from stackproof.bench.effects.kinds import host_arm, stamp_of
from stackproof.bench.effects.request import specification
from stackproof.bench.options import BenchOptions
from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import Arm, BenchSpec, parse_bench
from stackproof.compare.model import DEFAULT_MARGINS, MOST_LAUNCHES
from stackproof.core import document, noun
from stackproof.core.errors import Reason
from stackproof.results.case import Placement, Rank

ENTRIES = {
    "image": {"image": "sub/mpich.squashfs", "view": "lnx"},
    "pack": {"pack": "mpich-pack"},
    "prefix": {"prefix": "../mpi"},
    "module": {"module": ["gcc/12", "mpich"], "module-use": ["modules"]},
    "vendor": {"vendor": "lumi"},
    "eessi": {"eessi": "2023.06", "load": ["OpenMPI/4.1.5-GCC-12.3.0"], "repository": "cvmfs"},
    "container": {"container": "localhost/mpi:1", "bind": "hybrid", "host-mpi": "mpi"},
}


def parsed(*entries: dict[str, object]) -> BenchSpec:
    data = {"baseline": entries[0], "challengers": [*entries[1:]]}
    return parse_bench(document.parse(json.dumps(data), file="x.yaml"), folder="/here/now")


def wrong(entry: dict[str, object]) -> list[tuple[Reason, str]]:
    return [(problem.reason, f"{problem}") for problem in refusal(parsed, entry).problems]


# ------------------------------------------------------------------------- what holds for every kind


def test_a_path_is_relative_to_the_specification() -> None:
    assert arms.absolute("../mpi", "/here/now") == "/here/mpi"
    assert arms.absolute("/mpi", "/here/now") == "/mpi"


@pytest.mark.parametrize("name", arms.REGISTRY)
def test_a_kind_keeps_what_it_promises(name: str) -> None:
    kind = arms.REGISTRY[name]
    assert kind.name == name
    assert name in ENTRIES, "give an entry to try it with"
    assert not kind.keys & arms.COMMON
    arm = parsed({**ENTRIES[name], "name": "mine", "env": {"A": "b"}}).baseline
    assert (arm.kind, arm.name, arm.env) == (name, "mine", {"A": "b"})
    assert arm.asked
    assert arm.label
    assert noun.from_json(Arm, noun.to_json(arm), file="x") == arm
    known = noun.to_data(arm)
    assert {key.replace("-", "_") for key in kind.keys} <= known.keys()
    entry = kind.short("some/thing,else")
    assert parsed(entry).baseline.kind == name


@pytest.mark.parametrize("name", arms.REGISTRY)
@pytest.mark.parametrize("other", arms.REGISTRY)
def test_an_arm_is_one_thing(name: str, other: str) -> None:
    both = {**ENTRIES[name], **ENTRIES[other]}
    if name == other:
        assert parsed(both).baseline.kind == name
        return
    assert any("an arm is one thing" in said for _, said in wrong(both))


def test_paths_are_the_specification_s() -> None:
    spec = parsed(*ENTRIES.values())
    assert spec.baseline.image == "/here/now/sub/mpich.squashfs"
    assert spec.challengers[0].pack == "/here/now/mpich-pack"
    assert spec.challengers[1].prefix == "/here/mpi"
    assert spec.challengers[2].module_use == ("/here/now/modules",)
    eessi = parsed({**ENTRIES["eessi"], "inject": "none", "host-mpi": "mpi"}).baseline
    assert (eessi.repository, eessi.inject, eessi.host_mpi) == (
        "/here/now/cvmfs", "none", "/here/now/mpi"
    )  # fmt: skip
    assert parsed({**ENTRIES["eessi"], "inject": "mpi"}).baseline.inject == "/here/now/mpi"


def test_what_is_installed_takes_the_path_of_its_own_choice() -> None:
    spec = parsed(
        ENTRIES["image"], ENTRIES["prefix"], {**ENTRIES["module"], "transports": {"2x1": "tcp"}},
        ENTRIES["pack"],
    )  # fmt: skip
    assert spec.baseline.transports == spec.challengers[2].transports == {}
    assert spec.challengers[0].transports == {"intra-node": "auto", "inter-node": "auto"}
    assert spec.challengers[1].transports["2x1"] == "tcp"


def test_one_module_needs_no_list() -> None:
    assert parsed({"module": "mpich/5"}).baseline.module == ("mpich/5",)
    assert parsed({"module": "gnu/mpich/5"}).baseline.label == "gnu-mpich-5"


@pytest.mark.parametrize(
    ("entry", "reason", "words"),
    [
        ({"name": "x"}, Reason.MISSING_KEY, "does not say what it is"),
        ({"prefix": "/opt", "view": "x"}, Reason.INVALID_VALUE, "`view` is not for an installed"),
        ({"pack": "a", "inject": "x"}, Reason.INVALID_VALUE, "`inject` is not for a pack"),
        ({"pack": ""}, Reason.INVALID_VALUE, "pack"),
        ({"image": "a", "module-use": ["x"]}, Reason.INVALID_VALUE, "it is for a module"),
        ({"eessi": 2023.06}, Reason.WRONG_TYPE, "eessi"),
        (
            {"eessi": "2023.06", "runtime": "podman"},
            Reason.INVALID_VALUE,
            "not for an MPI of EESSI",
        ),
        ({"prefix": ""}, Reason.INVALID_VALUE, "prefix"),
        ({"module": []}, Reason.INVALID_VALUE, "module"),
        ({"module": ["-f x"]}, Reason.INVALID_VALUE, "module"),
        ({"module": ["a;b"]}, Reason.INVALID_VALUE, "module"),
        ({"prefx": "/opt"}, Reason.UNKNOWN_KEY, "prefx"),
    ],
)
def test_what_cannot_be(entry: dict[str, object], reason: Reason, words: str) -> None:
    found = wrong(entry)
    assert any(one is reason and words in said for one, said in found), found


def test_what_is_wrong_with_all_arms_is_said_at_once_with_its_line() -> None:
    text = """baseline: {name: base, image: a.squashfs, load: [x]}
challengers:
  - {name: a, prefix: /opt/mpi, view: lnx}
  - {name: b, module: [gcc], bind: hybrid}
  - {name: c, container: localhost/x:1, module-use: [m]}
  - {name: d, eessi: "2023.06", runtime: podman}
  - {name: e, eessi: "2023.06", prefix: /opt}
  - {name: f}
  - {name: a, vendor: local, hook: x}
"""
    error = refusal(parse_bench, document.parse(text, file="x.yaml"), folder="/here")
    places = [one.where for one in error.problems]
    found = [(place.line, place.column) for place in places if place is not None]
    assert sorted(found) == [
        (1, 49), (3, 39), (4, 36), (5, 53), (6, 42), (7, 5), (8, 5), (9, 12), (9, 36)
    ]  # fmt: skip


OWN = {"name": "own", "ranks": [{"node": "n", "cpu": 3}, {"node": "n"}]}
BY_GPU = {"shape": "2x4", "by": "gpu", "fill": "packed", "membind": True}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"placements": [{"shape": "2x4"}]}, ["the placement lacks `by`"]),
        ({"placements": [{**BY_GPU, "interface": "e"}]}, ["placement cannot have `interface`"]),
        ({"challengers": [{"image": "a", "name": "x"}] * 2}, ["two arms are called `x`"]),
        ({"placements": [OWN], "validated": [OWN]}, ["two placements are called `own`"]),
        (
            {"placements": [OWN, BY_GPU], "challengers": [{"image": "a", "placements": ["2x4"]}]},
            ["`2x4`, which is none of", "inter-node, intra-node, own"],
        ),
        ({"sizes": {"from": "4 MiB", "to": 1}}, ["no power of two lies between", "turn them"]),
        ({"sizes": {"from": 5, "to": 7}}, ["no power of two lies between 5 and 7", "list the"]),
        ({"allocations": 2}, ["several allocations need a scheduler"]),
        ({"allocations": 3, "launches": 2, "on": "slurm"}, ["3 allocations cannot share 2"]),
    ],
)
def test_specifications_that_cannot_be(more: dict[str, object], words: list[str]) -> None:
    (problem,) = refusal(specified, **more).problems
    assert problem.reason is Reason.INVALID_VALUE
    assert problem.where is not None
    assert all(word in str(problem) for word in words), problem


def specified(**more: object) -> BenchSpec:
    data = {"baseline": {"image": "b"}, **more}
    return parse_bench(document.parse(json.dumps(data), file="x.yaml"), folder="/here")


def test_what_a_specification_says() -> None:
    spec = specified(
        placements=[OWN, BY_GPU, "1x2"], sizes=["4 KiB", 8], memory=["host", "cuda"], timeout=9,
        budget="2m", margins={"latency": 0.2}, **{"until-decided": True, "seconds-per-size": 0.5},
        **{"scheduler-options": {"exclusive": True, "requeue": False, "time": 5}},
    )  # fmt: skip
    own, *others = spec.placements
    assert isinstance(own, Placement)
    assert own.ranks == (Rank(node="n", cpu=3), Rank(node="n"))
    assert others == ["2x4-by-gpu-packed-membind", "1x2"]
    assert (spec.sizes, spec.memory) == ((8, 4096), ("host", "cuda"))
    assert (spec.timeout_s, spec.budget_s, spec.seconds_per_size) == (9.0, 120.0, 0.5)
    assert spec.margins == {**DEFAULT_MARGINS, "latency": 0.2}
    assert spec.launches == MOST_LAUNCHES
    assert spec.scheduler_options == {"exclusive": "", "requeue": "no", "time": "5"}


# ------------------------------------------------------------------------------- on the command line


def short(text: str) -> Arm:
    return specification(BenchOptions(baseline=text)).baseline


def test_short_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert short("a.squashfs").image == f"{tmp_path}/a.squashfs"
    assert short("image:a.squashfs:/mount").image == f"{tmp_path}/a.squashfs:/mount"
    assert (short("new=prefix:mpi").prefix, short("new=prefix:mpi").name) == (
        f"{tmp_path}/mpi", "new"
    )  # fmt: skip
    assert short("pack:mpich-pack").pack == f"{tmp_path}/mpich-pack"
    assert short("module:gcc/12,mpich").module == ("gcc/12", "mpich")
    assert short("module:a=b").module == ("a=b",)
    container = short("c=container:localhost/mpi:1@/opt/mpi")
    assert (container.container, container.host_mpi) == ("localhost/mpi:1", "/opt/mpi")
    assert (container.runtime, container.bind, container.label) == ("podman", "none", "mpi-1")
    eessi = short("eessi:2023.06,foss/2023a@host_injections")
    assert (eessi.eessi, eessi.load, eessi.inject) == (
        "2023.06", ("foss/2023a",), "host_injections"
    )  # fmt: skip
    assert short("eessi:2023.06@/opt/mpi").inject == "/opt/mpi"
    assert short("eessi:2023.06").inject is None
    (tmp_path / "prefix:x").mkdir()
    assert short("prefix:x").image == f"{tmp_path}/prefix:x"  # a file that is called so


@pytest.mark.parametrize("text", ["module:", "a b=prefix:/usr", "module:a b", "prefix:"])
def test_short_forms_that_cannot_be(text: str) -> None:
    error = refusal(short, text)
    assert error.reason is Reason.USAGE
    assert error.problems[0].hint


# ------------------------------------------------------------------------------------- made ready


@pytest.mark.battery
def test_installed_mpis_are_made_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small MPIs compile our program only as far as their headers go: that is said."""
    need("gcc")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    one = installed(tmp_path / "one", said=MPICH)
    broken = installed(tmp_path / "two", said=OPEN_MPI)
    (broken / "include" / "mpi.h").unlink()
    spec = parsed({"prefix": str(one)}, {"prefix": str(broken)}, {"prefix": str(tmp_path / "gone")})
    error = refusal(make_ready, spec)
    assert [problem.reason for problem in error.problems] == [
        Reason.BUILD_FAILED, Reason.BUILD_FAILED, Reason.FILE_MISSING,
    ]  # fmt: skip


@pytest.mark.battery
def test_arms_of_one_mpi_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("installed-mpis")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    link = tmp_path / "bin"
    link.mkdir()
    wrapper = installed_mpi("mpich")
    spec = parsed({"prefix": wrapper}, {"prefix": installed_mpi("openmpi")})
    ready = make_ready(spec)
    assert [*ready.by_name] == ["mpich", "openmpi", "mpich-again"]
    own: ReadyArm = ready.by_name["mpich"]
    assert own.found["compiler wrapper"] == wrapper
    assert own.image.sha256 != ready.by_name["openmpi"].image.sha256
    assert set(own.deployment.programs) == {"stackproof-bench"}
    assert own.stamps.keys() == {
        own.found["library"], own.deployment.programs["stackproof-bench"]
    }  # fmt: skip
    assert set(own.folders) <= set(ready.paths)
    assert all(stamp_of(path) == stamp for path, stamp in own.stamps.items())
    assert stamp_of(str(tmp_path / "gone")) == (0, 0, 0)
    assert host_arm.of_prefix(spec.baseline, ("stackproof-bench",)).found == own.found
    assert make_ready(spec).by_name["mpich"].image.sha256 == own.image.sha256
    error = refusal(make_ready, parsed({"prefix": wrapper}, {"prefix": wrapper}))
    assert "two arms are called" in str(error)
