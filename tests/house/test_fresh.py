"""The tools around the tests: which fresh machines there are, and how tests are counted."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("fresh")


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("count_tests")


def test_both_suites_run_both_of_readmes_commands(fresh):
    rows = {(case.suite, case.command) for case in fresh.chosen([])}
    assert {(s, c) for s in ("bookworm", "trixie") for c in ("demo", "test")} <= rows


def test_every_odd_thing_is_tried(fresh):
    words = {word for case in fresh.chosen([]) for word in case.words}
    assert {"root", "sudo", "private-python", "blank", "umask-077", "no-ipv6", "no-fuse"} <= words


def test_words_choose(fresh):
    chosen = fresh.chosen(["trixie", "demo"])
    assert [case.name for case in chosen] == ["trixie-demo-root"]
    assert [case.suite for case in fresh.chosen(["short"])] == ["trixie"]
    names = [case.name for case in fresh.chosen([])]
    assert len(names) == len(set(names))
    assert [case.name for case in fresh.chosen([names[-1]])] == [names[-1]]


@pytest.mark.parametrize("words", [["trixy"], ["trixie", "bookworm"]])
def test_words_that_choose_nothing_are_refused(fresh, words):
    with pytest.raises(SystemExit) as ended:
        fresh.chosen(words)
    assert "error: no case has" in str(ended.value)


def test_the_list_needs_no_right():
    argv = [sys.executable, str(ROOT / "tools" / "fresh.py"), "--list"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    assert "trixie-demo-root" in done.stdout.split()


def test_a_case_that_this_machine_cannot_make_is_said(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(fresh, "LOGS", tmp_path)
    root = importlib.import_module("fresh_root")
    monkeypatch.setattr(root.platform, "freedesktop_os_release", lambda: {"ID": "slackware"})
    monkeypatch.delenv("FRESH_MIRROR_UBUNTU", raising=False)
    with pytest.raises(root.NotHere, match="no mirror of ubuntu"):
        root.mirror_of("noble")
    monkeypatch.setattr(root.os, "geteuid", lambda: 1000)
    case = fresh.chosen(["noble"])[0]
    outcome = fresh.run_case(case, tmp_path, keep=False)
    assert (outcome.state, outcome.note) == (
        "not here", "only root can make root folders of distributions",
    )  # fmt: skip
    assert case.name in fresh.table([outcome])


def test_another_distributions_root_takes_a_mirror_and_keys(fresh, monkeypatch, tmp_path):
    root = importlib.import_module("fresh_root")
    keys, argv = tmp_path / "keys.gpg", []

    def run(words: list[str], **_: object) -> None:
        argv.extend(words)
        (tmp_path / "noble-part").mkdir()

    monkeypatch.setattr(root.os, "geteuid", lambda: 0)
    monkeypatch.setattr(root.shutil, "which", lambda *_args, **_named: "debootstrap")
    monkeypatch.setattr(root.subprocess, "run", run)
    monkeypatch.setattr(root, "_SCRIPTS", str(tmp_path))
    monkeypatch.setenv("FRESH_MIRROR_UBUNTU", "http://mirror.example/ubuntu")
    monkeypatch.setenv("FRESH_KEYS_UBUNTU", str(keys))
    with pytest.raises(root.NotHere, match="FRESH_KEYS_UBUNTU=FILE"):
        root.make_base("noble", tmp_path, tmp_path / "log")
    keys.touch()
    assert root.make_base("noble", tmp_path, tmp_path / "log") == tmp_path / "noble-base"
    assert f"--keyring={keys}" in argv
    # Debootstrap is older than the suite here: it is told what to go by.
    assert argv[-4:] == [
        "noble", str(tmp_path / "noble-part"), "http://mirror.example/ubuntu", "gutsy",
    ]  # fmt: skip


def test_what_an_earlier_run_left_goes_unless_something_is_mounted_there(
    fresh, monkeypatch, tmp_path
):
    made = importlib.import_module("fresh_root")
    root = made.Root(path=tmp_path / "a case", setting=made.Setting())
    (root.path / "etc").mkdir(parents=True)
    read = Path.read_text
    line = f"36 35 98:0 / {tmp_path}/a\\040case/sys rw - sysfs sysfs rw\n"

    def mounts(path: Path) -> str:
        return line if path == Path("/proc/self/mountinfo") else read(path)

    monkeypatch.setattr(Path, "read_text", mounts)
    with pytest.raises(made.NotHere, match="sys` is mounted"):
        root.remove()
    line = line.replace("a\\040case", "another")
    root.remove()
    assert not root.path.exists()


def outcomes(fresh: ModuleType) -> list[Any]:
    states = ("passed", "failed", "not here")
    return [
        fresh.Outcome(case=case, state=state, note=f"{state} <&>", seconds=61.0)
        for case, state in zip(fresh.CASES, states, strict=False)
    ]


def test_cases_are_counted_as_tests(fresh, counting):
    text = fresh.junit(outcomes(fresh))
    assert counting.count(text) == (1, 1, 1)
    assert counting.seconds(text) == {"fresh": 183.0}


def test_the_last_line_counts_every_file_and_those_before_say_the_seconds(fresh, counting):
    of_pytest = (
        '<testsuites><testsuite tests="3" failures="0" errors="1" skipped="1">'
        '<testcase classname="tests.core.test_a" name="a" time="1.5"/>'
        '<testcase classname="tests.core.test_b" name="b" time="1.5"/>'
        '<testcase classname="tests.mount.test_c.TestX" name="c" time="200"/>'
        "</testsuite></testsuites>"
    )
    lines = counting.render([of_pytest, fresh.junit(outcomes(fresh))]).splitlines()
    assert lines == [
        "mount/test_c 200 s, fresh 183 s, core/test_a 2 s, core/test_b 2 s",
        "mount 200 s, fresh 183 s, core 3 s", "2 passed, 2 failed, 2 skipped",
    ]  # fmt: skip


def test_an_attack_that_fails_as_a_test_has_succeeded(fresh, counting, tmp_path):
    text = fresh.junit(outcomes(fresh))
    assert counting.render_attacks([text, text]) == ("4 attacks, 2 successes", 2)
    (tmp_path / "a.xml").write_text(text)
    argv = [sys.executable, str(ROOT / "tools" / "count_tests.py"), "--attacks", tmp_path / "a.xml"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "2 attacks, 1 successes\n")


def test_no_count_without_a_run(tmp_path):
    argv = [sys.executable, str(ROOT / "tools" / "count_tests.py"), str(tmp_path / "none.xml")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "none.xml is not there" in done.stderr
