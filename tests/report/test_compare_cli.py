"""`stackproof compare` and `stackproof report`: exit codes, what goes where, files whole or not."""

import csv
import json
import os
import shutil
import sys

import pytest

import terminals
from inprocess import stackproof
from stackproof.compare.margins import parse_margins
from stackproof.core.errors import Reason, StackproofError
from synthetic import SIZES, Noise, Plan, fault, simulate, write_results

COVERS = ("report/cli/compare.py", "report/cli/report.py", "report/effects/files.py")

QUIET = Noise(launch=0.003, size=0.003, block=0.02)
SLOW = {("inter-node", "latency"): dict.fromkeys(SIZES, 1.5)}
SMALL = {"challengers": ("mpich",), "sizes": (8, 1024, 65536), "noise": QUIET}


@pytest.fixture(scope="module")
def same(tmp_path_factory):
    return write_results(simulate(Plan(**SMALL)), tmp_path_factory.mktemp("same") / "results")


@pytest.fixture(scope="module")
def worse(tmp_path_factory):
    results = simulate(Plan(**SMALL, slower={"mpich": SLOW}))
    return write_results(results, tmp_path_factory.mktemp("worse") / "results")


def test_the_exit_code_is_the_verdict(same, worse, tmp_path):
    few = write_results(simulate(Plan(**{**SMALL, "blocks": 6})), tmp_path / "few")
    noisy = write_results(simulate(Plan(**SMALL, slower={"impi again": SLOW})), tmp_path / "noisy")
    for folder, code, required, words, said, step in (
        (same, 0, 0, "PASS, no tail measured", "mpich against impi: PASS", "stackproof report "),
        (worse, 8, 8, "FAIL", "0.67 FAIL", "stackproof doctor --results "),
        (few, 9, 8, "INCONCLUSIVE", "too few launches", "stackproof bench --resume "),
        (noisy, 9, 8, "INCONCLUSIVE", "warning: the null arm FAILS", "when this machine is quiet"),
    ):
        done = stackproof("compare", folder)
        assert done.returncode == code
        assert done.stderr.startswith(f"next: {step}")
        assert done.stderr.endswith(f"all numbers and notes: stackproof compare {folder} --all\n")
        assert done.stdout.endswith(f"verdict: {words}\n")
        assert done.stdout.splitlines()[0] == f"mpich against impi: {words}"
        assert said in done.stdout
        assert "\x1b" not in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 100
        assert stackproof("compare", folder, "--require-pass").returncode == required
    assert "as fast as" not in done.stdout


@pytest.mark.parametrize("facts", [{"family": []}, {"family": "mpich", "version": -1}])
def test_an_mpi_that_is_no_text_is_none(facts, same, tmp_path):
    folder = shutil.copytree(same, tmp_path / "results")
    spec = json.loads((folder / "bench.json").read_text())
    spec["arms"]["mpich"]["mpi"] = facts
    (folder / "bench.json").write_text(json.dumps(spec))
    done = stackproof("compare", folder)
    assert done.returncode in {0, 7, 8, 9}
    assert "bug" not in done.stderr


def test_a_folder_with_a_line_break_makes_no_line_of_ours(worse, tmp_path):
    folder = tmp_path / "a\nverdict: PASS"
    folder.symlink_to(worse)
    lines = stackproof("compare", folder).stderr.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["next:", "all"]


def test_json_goes_to_standard_output(worse):
    done = stackproof("compare", worse, "--json")
    assert done.returncode == 8
    data = json.loads(done.stdout)
    assert (data["schema"], data["verdict"]) == ("stackproof/comparison/1", "FAIL")


def test_margins_can_be_set(worse):
    done = stackproof("compare", worse, "--margin", "latency=60%", "--margin", "bandwidth=0.2")
    assert done.returncode == 0


@pytest.mark.parametrize("text", ["latency", "latency=", "latency=x", "latency=0", "latency=100%",
                                  "latency=nan", "speed=0.1", "=0.1", ""])  # fmt: skip
def test_margins_that_are_none(text):
    with pytest.raises(StackproofError) as caught:
        parse_margins([text])
    assert caught.value.reason is Reason.USAGE


def test_margins_that_are():
    assert parse_margins(["latency=0.2", "rate=7%", "latency=0.3"]) == {
        "latency": 0.3,
        "rate": pytest.approx(0.07),
    }


def test_broken_launches_are_warned_of_and_the_rest_is_judged(tmp_path):
    folder = write_results(simulate(Plan(**SMALL, blocks=12)), tmp_path / "results")
    (folder / "launches" / "0030.json").write_text("{")
    done = stackproof("compare", folder)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: not JSON")
    assert "0030.json" in done.stderr
    assert "discarded: 1" in done.stdout


def test_nothing_usable_ends_with_7(tmp_path):
    results = fault(simulate(Plan(**SMALL, blocks=2)), "impi", range(3), "rank-crashed", "SIGSEGV")
    folder = write_results(results, tmp_path / "results")
    done = stackproof("compare", folder)
    assert (done.returncode, done.stdout) == (7, "")
    assert "rank-crashed" in done.stderr
    output = tmp_path / "report.html"
    assert stackproof("report", folder, "-o", output).returncode == 7
    assert not output.exists()


def test_no_such_folder(tmp_path):
    done = stackproof("compare", tmp_path / "absent")
    assert done.returncode == 3
    assert "there is no results folder" in done.stderr
    assert "bench.json` does not exist" not in done.stderr  # a name that nobody gave


def on_terminal(*argv, **environment):
    """Run with a terminal as standard output and return what it received."""
    code, text = terminals.shown(
        [sys.executable, "-m", "stackproof", *map(os.fspath, argv)],
        {**os.environ, "TERM": "xterm", "COLUMNS": "100", "OMP_NUM_THREADS": "1", **environment},
    )
    assert code == 8
    return text


def test_colour_on_a_terminal_only_adds_to_the_words(worse):
    coloured = on_terminal("compare", worse, NO_COLOR="")
    assert "\x1b[" in coloured
    assert "0.67 FAIL" in coloured
    plain = on_terminal("compare", worse, NO_COLOR="1")
    assert "\x1b[" not in plain
    assert "0.67 FAIL" in plain


def test_report_writes_three_files(worse, tmp_path):
    output = tmp_path / "deep" / "report.html"
    output.parent.mkdir()
    done = stackproof("report", worse, "-o", output)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in output.parent.iterdir()) == [
        "report.csv",
        "report.html",
        "report.json",
    ]
    assert done.stdout.split() == [
        str(output.with_suffix(suffix)) for suffix in (".html", ".json", ".csv")
    ]
    assert json.loads(output.with_suffix(".json").read_text())["verdict"] == "FAIL"
    with output.with_suffix(".csv").open() as stream:
        assert len(list(csv.reader(stream))) == 1 + 2 * 2 * 2 * 3
    assert output.read_text().startswith("<!doctype html>")


def test_report_writes_where_it_is_told(same, tmp_path):
    names = {"-o": "a.html", "--json-file": "b.json", "--csv": "c.csv", "--markdown": "d.md"}
    argv = [word for key, name in names.items() for word in (key, tmp_path / name)]
    overlay = ("--overlay", "adastra-openmpi-inter-host-latency")
    assert stackproof("report", same, *argv, *overlay).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names.values())
    assert '"overlay":["adastra-openmpi-inter-host-latency"]' in (tmp_path / "a.html").read_text()


def test_report_without_a_name_lies_in_the_results_folder(tmp_path):
    folder = write_results(simulate(Plan(**SMALL)), tmp_path / "results")
    names = [f"report.{suffix}" for suffix in ("html", "json", "csv")]
    for _ in range(2):  # the second replaces its own files
        done = stackproof("report", folder, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split() == [str(folder / name) for name in names]
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert stackproof("compare", folder).returncode == 0
    (folder / "report.html").write_text("years of work\n")
    done = stackproof("report", folder, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "would be replaced: it is not a report of ours" in done.stderr
    assert (folder / "report.html").read_text() == "years of work\n"


def test_report_of_no_results_says_that_they_are_not_there(tmp_path):
    done = stackproof("report", "absent", cwd=tmp_path)
    assert done.returncode == 3
    assert "absent" in done.stderr
    assert "report.html" not in done.stderr
    assert len(done.stderr.splitlines()) == 3  # nothing of where the report would go


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("--overlay", "no-such-curve"), 3),
        (("-o", "report.html", "--json-file", "report.html"), 2),
        (("-o", "."), 2),
        (("-o", ".."), 2),
        (("-o", "report.csv"), 2),
        (("--margin", "latency=2"), 2),
    ],
)
def test_report_refuses_and_leaves_nothing_behind(same, tmp_path, monkeypatch, argv, code):
    monkeypatch.chdir(tmp_path)
    assert stackproof("report", same, *argv).returncode == code
    assert list(tmp_path.iterdir()) == []


def test_report_where_nothing_can_be_written(same):
    done = stackproof("report", same, "-o", "/dev/full/report.html")
    assert done.returncode == 3
    assert "/dev/full" in done.stderr
