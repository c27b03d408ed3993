"""Results that somebody changed: `compare` names what was done, and there is no verdict."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stackproof import cli
from stackproof.bench.effects import planning
from stackproof.compare.integrity import look
from stackproof.core import noun
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import Value, replace
from stackproof.results.effects import record
from stackproof.results.measurement import Measurement
from stackproof.results.model import Results
from synthetic import INTER, INTRA, Noise, Plan, simulate

COVERS = ("results/digests.py", "results/effects/record.py")

PLAN = Plan(
    challengers=("mpich",), sizes=(8, 1024, 65536), blocks=10,
    noise=Noise(launch=0.004, size=0.002, block=0.01),
)  # fmt: skip
MACHINE = {"kernel": "Linux 6.1.0-simulated", "cpu": "Simulated CPU"}


def measured() -> Results:
    """Return results as `bench` makes them: every launch with its time, machine and image."""
    results = simulate(PLAN)
    spec = replace(results.spec, host=MACHINE, margins={"latency": 0.1}, launches=10)
    launches = [
        replace(
            one,
            started=f"2026-01-02T03:{4 + one.order // 60:02}:{one.order % 60:02}+00:00",
            image_sha256=spec.arms[one.arm].image_sha256,
            host_facts=MACHINE,
            env={"FI_PROVIDER": "tcp", "HOME": "/root"},
        )
        for one in results.measurements
    ]
    return replace(results, spec=spec, measurements=tuple(launches))


def name_of(one: Measurement) -> str:
    return f"{one.order:05d}-{one.arm}-{one.case.placement.name}-{one.case.program}.json"


def begun(folder: Path, results: Results) -> Path:
    (folder / "launches").mkdir(parents=True)
    (folder / "spec.json").write_text("{}\n")
    (folder / "bench.json").write_text(noun.to_json(results.spec))
    return folder


def written(folder: Path, results: Results) -> Path:
    begun(folder, results)
    go_on(folder, results.measurements)
    return folder


def go_on(folder: Path, launches: tuple[Measurement, ...]) -> None:
    kept = record.begin(folder)
    for one in launches:
        kept.keep(name_of(one), one)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("honest") / "results", measured())


@pytest.fixture
def folder(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "results"))


class Said(Value, kw_only=False):
    """What `compare` said: exit code, text, data, and the report's HTML."""

    code: int
    text: str
    data: dict[str, Any]
    html: str
    error: str

    @property
    def kinds(self) -> set[str]:
        return {one["kind"] for one in self.data["integrity"]["doubts"]}

    @property
    def verdicts(self) -> set[str]:
        cells = [
            cell["verdict"]
            for panel in self.data["panels"]
            for judged in panel["judgements"]
            for cell in judged["cells"]
        ]
        return {self.data["verdict"], *(one["verdict"] for one in self.data["verdicts"]), *cells}


Ask = Callable[..., Said]
Deed = Callable[[Path], None]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Ask:
    def told(folder: Path, *words: str) -> Said:
        def run(*argv: object) -> int:
            with pytest.raises(SystemExit) as stop:
                cli.main([str(word) for word in argv])
            return int(stop.value.code or 0)

        code = run("compare", folder, "--all", *words)
        text, error = capsys.readouterr()
        page, data = tmp_path / "report.html", tmp_path / "report.json"
        reported = run("report", folder, "-o", page, "--json-file", data, *words)
        assert reported == (code if code == 7 else 0)  # the page is there all the same
        assert (capsys.readouterr().err == error) or code != 7
        words = " ".join(text.split())  # however the lines are broken
        return Said(code, words, json.loads(data.read_text()), page.read_text(), error)

    return told


def launches(folder: Path, arm: str = "", placement: str = "") -> list[Path]:
    return [
        path for path in sorted((folder / "launches").iterdir())
        if arm in path.name and placement in path.name
    ]  # fmt: skip


def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def without_digests(folder: Path) -> None:
    """Make the results those of an older version, or of somebody who took the digests away."""
    (folder / "digests-0.sha256").unlink()


def test_honest_results_pass_and_say_that_their_digests_hold(folder: Path, ask: Ask) -> None:
    said = ask(folder)
    assert (said.code, said.data["verdict"], said.kinds) == (0, "PASS", set())
    words = "the digests of 66 launches hold; anyone who may write to the folder could"
    assert words in said.text
    assert words in said.html
    assert said.data["integrity"]["digests"]
    assert "margins: latency 10 %, bandwidth 5 %" in said.text


def test_the_json_of_compare_says_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for deed, code in ((None, 0), (drop, 7)):
        if deed is not None:
            deed(folder)
        with pytest.raises(SystemExit) as stop:
            cli.main(["compare", str(folder), "--json"])
        assert int(stop.value.code or 0) == code
        doubts = json.loads(capsys.readouterr().out)["integrity"]["doubts"]
        assert [one["kind"] for one in doubts] == ["missing"] * (3 if deed else 0)


def test_results_of_before_are_said_to_have_no_digests(folder: Path, ask: Ask) -> None:
    without_digests(folder)
    said = ask(folder)
    assert (said.code, said.data["verdict"]) == (0, "PASS")
    assert "no digests were written with these launches" in said.text
    assert "no digests were written with these launches" in said.html
    assert not said.data["integrity"]["digests"]


def test_sha256sum_reads_the_digests(folder: Path) -> None:
    argv = ["sha256sum", "--quiet", "-c", "digests-0.sha256"]
    assert subprocess.run(argv, cwd=folder, check=False).returncode == 0
    divide(folder)
    assert subprocess.run(argv, cwd=folder, check=False, capture_output=True).returncode == 1


# --- an adversary ---------------------------------------------------------------------------


def drop(folder: Path) -> None:
    for path in launches(folder, "-mpich-")[-3:]:
        path.unlink()


def divide(folder: Path) -> None:
    def faster(data: dict[str, Any]) -> None:
        for series in data["output"]["series"]:
            series["values"] = [value / 1.5 for value in series["values"]]

    for path in launches(folder, "-mpich-"):
        edited(path, faster)


def swap_arms(folder: Path) -> None:
    other = {"impi": "mpich", "mpich": "impi"}
    for path in launches(folder):
        edited(path, lambda data: data.update(arm=other.get(data["arm"], data["arm"])))


def swap_files(folder: Path) -> None:
    one, two = launches(folder, "-mpich-", "intra")[:2]
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def copy(folder: Path) -> None:
    best, *others = launches(folder, "-mpich-", "inter")
    for path in others[:4]:
        path.write_bytes(best.read_bytes())


def copy_with_care(folder: Path) -> None:
    """Only the values are copied, into launches that keep all else."""
    best, *others = launches(folder, "-mpich-", "inter")
    output = json.loads(best.read_text())["output"]
    for path in others[:4]:
        edited(path, lambda data: data.update(output=output))


def other_host(folder: Path) -> None:
    def elsewhere(data: dict[str, Any]) -> None:
        for rank in data["output"]["ranks"]:
            rank["host"] = f"old-{rank['host']}"

    for path in launches(folder, "-impi-"):
        edited(path, elsewhere)


def in_launches(arm: str, change: Callable[[dict[str, Any]], None], most: int = 99) -> Deed:
    def deed(folder: Path) -> None:
        for path in launches(folder, arm)[:most]:
            edited(path, change)

    return deed


def in_plan(**changes: object) -> Deed:
    return lambda folder: edited(folder / "bench.json", lambda data: data.update(changes))


def strike_arm(folder: Path) -> None:
    def without(data: dict[str, Any]) -> None:
        data["challengers"] = ["impi again"]
        data["null"] = None
        data["arms"].pop("mpich")

    edited(folder / "bench.json", without)


def put_in(folder: Path) -> None:
    path = launches(folder, "-mpich-")[-1]
    data = json.loads(path.read_text())
    data.update(order=700, block=11)
    (folder / "launches" / "00700-mpich-inter-node-stackproof-bench.json").write_text(
        json.dumps(data)
    )


def set_aside(folder: Path) -> None:
    (folder / "set-aside").mkdir()
    for path in launches(folder, "-mpich-")[-2:]:
        path.rename(folder / "set-aside" / path.name)


def ask_for_less(folder: Path) -> None:
    (folder / "spec.json").write_text('{"launches": 1}\n')


def other_digests(folder: Path) -> None:
    """Make the digests again for launches that were changed: nothing here tells that."""
    divide(folder)
    lines = folder / "digests-0.sha256"
    paths = [line.split("  ")[1] for line in lines.read_text().splitlines()]
    lines.write_text(
        "".join(
            f"{hashlib.sha256((folder / path).read_bytes()).hexdigest()}  {path}\n"
            for path in paths
        )
    )


def no_probes(folder: Path) -> None:
    """Launches carry what the probes found, and the folder with the probes is gone."""

    def probed(data: dict[str, Any]) -> None:
        data["checks"].append({"name": "path", "state": "ok", "evidence": "inter-node: tcp"})

    for path in launches(folder):
        edited(path, probed)


DEEDS: dict[str, tuple[Deed, str]] = {
    "drop": (drop, "missing"),
    "divide": (divide, "edited"),
    "swap_arms": (swap_arms, "swapped"),
    "swap_files": (swap_files, "swapped"),
    "copy": (copy, "doubled"),
    "copy_with_care": (copy_with_care, "doubled"),
    "other_host": (other_host, "other-host"),
    "other_kernel": (
        in_launches("-impi-", lambda data: data["host_facts"].update(kernel="Linux 4.18.0")),
        "other-kernel",
    ),
    "other_year": (
        in_launches(
            "-impi-", lambda data: data.update(started=data["started"].replace("2026", "2024"))
        ),
        "other-time",
    ),
    "other_environment": (
        in_launches("-mpich-", lambda data: data["env"].update(FI_PROVIDER="shm"), most=5),
        "other-environment",
    ),
    "wide_margins": (in_plan(margins={"latency": 0.5}), "specification-changed"),
    "strike_null": (in_plan(null=None), "specification-changed"),
    "strike_arm": (strike_arm, "specification-changed"),
    "fewer_planned": (in_plan(launches=5), "specification-changed"),
    "put_in": (put_in, "added"),
    "set_aside": (set_aside, "missing"),
    "ask_for_less": (ask_for_less, "specification-changed"),
}
WITHOUT = (
    "swap_arms", "swap_files", "copy", "copy_with_care", "other_host", "other_kernel", "other_year",
    "other_environment", "strike_null", "strike_arm",
)  # fmt: skip
"""What launches tell of each other, when there are no digests."""


@pytest.mark.parametrize("name", DEEDS)
def test_what_was_done_is_named_and_there_is_no_verdict(name: str, folder: Path, ask: Ask) -> None:
    deed, kind = DEEDS[name]
    deed(folder)
    said = ask(folder)
    assert said.code == 7
    assert kind in said.kinds
    assert f"not to be trusted, {kind}: " in said.text
    assert f"not to be trusted, {kind}: " in said.html
    assert said.verdicts == {"INCONCLUSIVE"}
    assert "PASS" not in said.text.split("PASS when")[0]
    assert "cannot be trusted" in said.error


def test_probes_that_were_removed_are_missing(folder: Path, ask: Ask) -> None:
    without_digests(folder)
    assert "missing" not in ask(folder).kinds
    no_probes(folder)
    said = ask(folder)
    assert (said.code, said.kinds) == (7, {"missing"})
    assert "the probe of mpich at inter-node, which its launches tell of, is missing" in said.text


@pytest.mark.parametrize("name", WITHOUT)
def test_without_digests_launches_tell_of_each_other(name: str, folder: Path, ask: Ask) -> None:
    deed, kind = DEEDS[name]
    without_digests(folder)
    deed(folder)
    said = ask(folder)
    assert said.code == 7
    assert kind in said.kinds


def test_launches_that_are_not_there_are_counted(folder: Path, ask: Ask) -> None:
    without_digests(folder)
    drop(folder)
    said = ask(folder)
    assert (said.code, said.kinds) == (9, set())  # too few to judge, and no doubt
    for text in (said.text, said.html):
        assert "10 planned per arm and placement" in text
        assert "mpich 8" in text


def test_margins_that_were_not_planned_are_named(folder: Path, ask: Ask) -> None:
    said = ask(folder, "--margin", "latency=50%")
    assert said.code == 0
    for text in (said.text, said.html, json.dumps(said.data, ensure_ascii=False)):
        assert "the margin of latency is 50 %; 10 % was planned" in text


def test_wide_margins_from_the_beginning_are_named(tmp_path: Path, ask: Ask) -> None:
    results = measured()
    spec = replace(results.spec, margins={"bandwidth": 0.5})
    said = ask(written(tmp_path / "wide", replace(results, spec=spec)))
    assert "the margin of bandwidth is 50 %, as planned; 5 % is usual" in said.text
    assert "the margin of bandwidth is 50 %, as planned; 5 % is usual" in said.html


def test_variables_that_the_specification_sets_for_an_arm_are_those_of_its_ranks() -> None:
    results = measured()
    arms = {**results.spec.arms}
    arms["mpich"] = replace(arms["mpich"], env={"LD_PRELOAD": "/opt/slow.so"})
    spec = replace(results.spec, arms=arms)
    without = replace(results, spec=spec)
    assert {one.kind for one in look(without).doubts} == {"other-environment"}
    launches_with = tuple(
        replace(one, case=replace(one.case, env=arms[one.arm].env)) for one in results.measurements
    )
    assert look(replace(without, measurements=launches_with)).doubts == ()


# --- what may happen to honest results ------------------------------------------------------


def halves(tmp_path: Path) -> tuple[Path, Results, int]:
    """Return a folder whose bench stopped in the middle, and what is still to be made."""
    results = measured()
    done = len(results.measurements) // 2
    part = replace(results, measurements=results.measurements[:done])
    return written(tmp_path / "half", part), results, done


@pytest.mark.parametrize("torn", ["none", "line", "file"])
def test_a_bench_that_goes_on_has_one_list(torn: str, tmp_path: Path, ask: Ask) -> None:
    """The machine may have stopped before the line of a launch was whole, or before its file."""
    folder, results, done = halves(tmp_path)
    lines = folder / "digests-0.sha256"
    if torn != "none":
        done -= 1
        (folder / "launches" / name_of(results.measurements[done])).unlink()
    if torn == "line":
        lines.write_bytes(lines.read_bytes()[:-20])
    assert ask(folder).kinds == set()  # as it was found
    go_on(folder, results.measurements[done:])
    said = ask(folder)
    assert (said.code, said.data["verdict"]) == (0, "PASS")
    assert "the digests of 66 launches hold" in said.text
    assert len(lines.read_text().splitlines()) == 68


def test_two_allocations_have_a_list_each(tmp_path: Path, ask: Ask) -> None:
    results = measured()
    folder = begun(tmp_path / "two", results)
    kept = [record.begin(folder, number) for number in (0, 1)]
    for one in results.measurements:
        kept[one.block % 2].keep(name_of(one), one)
    assert ask(folder).code == 0
    edited(folder / "bench.json", lambda data: data.update(seed=4242))
    record.begin(folder, 2)
    assert ask(folder).kinds == {"specification-changed"}


@pytest.mark.parametrize("aside", [True, False])
def test_a_block_that_is_made_again_is_set_aside_first(
    aside: bool, tmp_path: Path, ask: Ask
) -> None:
    folder, results, done = halves(tmp_path)
    (folder / "set-aside").mkdir()
    last = folder / "launches" / name_of(results.measurements[done - 2])
    if aside:
        last.rename(folder / "set-aside" / last.name)
    else:
        last.unlink()
    slower = replace(results.measurements[done - 2], seconds=9.0)
    go_on(folder, (slower, *results.measurements[done:]))
    assert ask(folder).kinds == (set() if aside else {"missing"})


def test_results_begun_without_digests_get_none_in_the_middle(tmp_path: Path) -> None:
    folder, results, done = halves(tmp_path)
    without_digests(folder)
    go_on(folder, results.measurements[done:])
    assert not list(folder.glob("digests-*"))


def _link(path: Path, aim: Path) -> None:
    path.symlink_to(aim)


LISTS = {
    "link": _link,
    "link to nothing": lambda path, _: path.symlink_to("/nowhere/at/all"),
    "folder": lambda path, _: path.mkdir(),
    "pipe": lambda path, _: os.mkfifo(path),
    "empty": lambda path, _: path.touch(),
    "words": lambda path, aim: path.write_text("none\n" + aim.read_text()),
}


@pytest.mark.attack
@pytest.mark.parametrize("kind", LISTS)
def test_a_list_that_is_none_is_edited(kind: str, folder: Path, tmp_path: Path, ask: Ask) -> None:
    """Also where what a link leads to would hold."""
    lines, aim = folder / "digests-0.sha256", tmp_path / "aim"
    lines.rename(aim)
    LISTS[kind](lines, aim)
    said = ask(folder)
    assert (said.code, said.kinds - {"added"}) == (7, {"edited"})
    assert said.verdicts == {"INCONCLUSIVE"}


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["link", "link to nothing", "folder", "pipe"])
def test_nothing_is_written_to_a_list_that_is_none(kind: str, tmp_path: Path) -> None:
    folder, _, _ = halves(tmp_path)
    lines, aim = folder / "digests-0.sha256", tmp_path / "aim"
    lines.rename(aim)
    before = aim.read_bytes()
    kept = record.Record(folder, lines)
    LISTS[kind](lines, aim)
    for write in (lambda: record.begin(folder), lambda: kept.note("x", b"x")):
        with pytest.raises(StackproofError) as caught:
            write()
        assert caught.value.reason is Reason.INVALID_VALUE
    assert aim.read_bytes() == before


@pytest.mark.attack
@pytest.mark.parametrize("name", ["launches", "set-aside", "probes"])
def test_a_folder_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    """`bench --resume` looks before it does anything else."""
    folder, _, _ = halves(tmp_path)
    aim = tmp_path / "aim"
    aim.mkdir()
    if (folder / name).exists():
        (folder / name).rename(tmp_path / "away")
    (folder / name).symlink_to(aim)
    for enter in (lambda: record.begin(folder), lambda: planning.load_spec(folder)):
        with pytest.raises(StackproofError) as caught:
            enter()
        assert caught.value.reason is Reason.INVALID_VALUE
    assert not list(aim.iterdir())


def test_digests_that_were_made_again_hold(folder: Path, ask: Ask) -> None:
    """As docs/explanation/results-as-evidence.md says: a signature or a commit tells that."""
    other_digests(folder)
    assert ask(folder).kinds == set()


def test_the_placements_of_the_plan_are_those_of_the_test() -> None:
    assert {one.case.placement for one in measured().measurements} == {INTRA, INTER}
