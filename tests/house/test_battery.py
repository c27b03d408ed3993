"""The battery: which files it has, when one runs again, in which order, and what its table says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from clusters import wait_until
from housefiles import ROOT, tool

LAYERS = """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["cli", "doctor | prove", "core"]
"""
HEAD = "import pytest\n\n\n"
FILES = {
    ".gitignore": "build/\n__pycache__/\nonce\n",
    "pyproject.toml": LAYERS,
    "src/stackproof/core/a.py": "",
    "src/stackproof/doctor/a.py": "",
    "src/stackproof/prove/a.py": "",
    "src/stackproof/cli/a.py": "",
    "docs/a.md": "",
    "tests/helper.py": "HELP = 1\n",
    "tests/known-unsteady.tsv": "test\tsince\tsymptom\tsuspicion\n",
    "tests/core/test_plain.py": "def test_a():\n    pass\n",
    "tests/core/test_slow.py": f"{HEAD}@pytest.mark.battery\ndef test_a():\n    pass\n\n\ndef test_b():\n    assert 0\n",
    "tests/core/test_drawn.py": "from hypothesis import given\n\n\n@given(None)\ndef test_a():\n    pass\n",
    "tests/doctor/test_verb.py": f"from stackproof import cli\n{HEAD}@pytest.mark.battery\ndef test_a():\n    pass\n",
    "tests/doctor/test_alone.py": f"{HEAD}pytestmark = pytest.mark.machine\n",
}  # fmt: skip


@pytest.fixture
def battery(tmp_path, monkeypatch):
    """Return the tool, at work in a small checkout."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for argv in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *argv], cwd=tmp_path, check=True)
    module = tool("battery")
    for name, path in (("ROOT", ""), ("TESTS", "tests"), ("STATE", "build/battery"),
                       ("UNSTEADY", "tests/known-unsteady.tsv")):  # fmt: skip
        monkeypatch.setattr(module, name, tmp_path / path)
    (tmp_path / "build/battery").mkdir(parents=True)
    return module


def test_it_has_the_files_that_the_gate_leaves_something_of(battery):
    assert battery.list_files() == (
        "core/test_drawn", "core/test_slow", "doctor/test_alone", "doctor/test_verb",
    )  # fmt: skip
    assert battery.choose(["tests/core/test_slow.py"]) == ("core/test_slow",)
    assert battery.choose(["doctor"]) == ("doctor/test_alone", "doctor/test_verb")
    assert battery.choose([])[-1] == battery.FRESH
    for word in ("core/test_plain", "no-such-room", ""):
        with pytest.raises(SystemExit):
            battery.choose([word or "core/test_"])


def test_every_marker_of_this_project_is_seen():
    """A file whose tests the gate leaves out is a file of the battery."""
    files = tool("battery").list_files()
    assert len(files) > 100
    assert {"bench/test_bench", "house/test_attack_list", "core/test_fitting"} <= {*files}
    assert "house/test_whole_road" not in files


@pytest.mark.parametrize(
    ("path", "again"),
    [
        ("tests/core/test_slow.py", {"core/test_slow"}),
        ("tests/helper.py", {"core/test_slow", "doctor/test_verb", "doctor/test_alone"}),
        ("src/stackproof/core/a.py", {"core/test_slow", "doctor/test_verb", "doctor/test_alone"}),
        ("src/stackproof/cli/a.py", {"doctor/test_verb", "doctor/test_alone"}),
        ("src/stackproof/prove/a.py", {"doctor/test_verb", "doctor/test_alone"}),
        ("docs/a.md", {"doctor/test_verb", "doctor/test_alone"}),
        ("tests/known-unsteady.tsv", set()),
        ("tests/core/test_plain.py", set()),
    ],
)
def test_a_file_runs_again_when_something_below_it_changes(battery, path, again):
    names = ("core/test_slow", "doctor/test_verb", "doctor/test_alone")
    before = {name: battery.make_key(name) for name in names}
    with (battery.ROOT / path).open("a") as file:
        file.write("# more\n")
    for function in (battery.list_sources, battery.has_everything_below):
        function.cache_clear()
    assert {name for name in names if battery.make_key(name) != before[name]} == again


def test_the_longest_comes_first_and_before_it_what_was_touched(battery):
    before = {
        "core/test_slow": battery.Outcome(key="", word="passed", seconds=9.0),
        "core/test_drawn": battery.Outcome(key="", word="passed", seconds=99.0),
    }
    files = battery.list_files()
    assert battery.order(files, before, frozenset()) == (
        "core/test_drawn", "doctor/test_alone", "doctor/test_verb", "core/test_slow",
    )  # fmt: skip
    touched = frozenset({"src/stackproof/doctor/a.py"})
    assert battery.order(files, before, touched)[:2] == ("doctor/test_alone", "doctor/test_verb")


SCRIPT = (
    "import sys; from pathlib import Path; sys.path.insert(0, sys.argv.pop(1))\n"
    "import battery; root = Path.cwd()\n"
    "battery.ROOT, battery.TESTS = root, root / 'tests'\n"
    "battery.STATE = root / 'build/battery'\n"
    "battery.UNSTEADY = root / 'tests/known-unsteady.tsv'\n"
    "battery.main()\n"
)


def run(battery: ModuleType, *words: str) -> tuple[int, str]:
    """Run the tool in its small checkout; return its exit code and what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(ROOT / "tools"), *words], cwd=battery.ROOT,
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def settings(battery: ModuleType) -> None:
    """Give the small checkout what pytest needs to know there."""
    (battery.TESTS / "conftest.py").write_text(
        "from hypothesis import settings\n\nsettings.register_profile('chance')\n\n\n"
        "def pytest_configure(config):\n    for name in ('battery', 'machine', 'hypothesis'):\n"
        "        config.addinivalue_line('markers', name)\n"
    )


def test_what_passed_is_kept_and_what_passed_again_is_told(battery):
    settings(battery)
    slow = battery.TESTS / "core" / "test_slow.py"
    code, said = run(battery, "core/test_slow")
    assert (code, said.splitlines()[-1]) == (0, "1 passed, 0 failed, 0 skipped")
    code, said = run(battery, "core/test_slow")
    assert (code, said.splitlines()[0]) == (
        0, "1 of 1 files passed before, and nothing changed for them",
    )  # fmt: skip
    assert said.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"
    # It fails once, and not again.
    slow.write_text(
        f"{HEAD}@pytest.mark.battery\ndef test_a():\n"
        "    from pathlib import Path\n    there = Path('once').exists()\n"
        "    Path('once').touch()\n    assert there\n"
    )
    code, said = run(battery, "core/test_slow")
    assert code == 1
    assert "    1 failed, then passed again" in said
    assert "unsteady  core/test_slow  test_a" in said
    (battery.ROOT / "once").unlink()
    with (battery.TESTS / "known-unsteady.tsv").open("a") as file:
        file.write("core/test_slow::test_a\t2026-11-28\tfails once\tthe file of this test\n")
    code, said = run(battery, "core/test_slow")
    assert code == 0
    assert "unsteady (known)  core/test_slow  test_a" in said
    # What always fails is no matter of chance, whatever the list says.
    slow.write_text(f"{HEAD}@pytest.mark.battery\ndef test_a():\n    assert 0\n")
    code, said = run(battery, "core/test_slow")
    assert code == 1
    assert "failed  core/test_slow  test_a" in said
    assert "known to be unsteady" in said


def test_the_table_counts_what_did_not_run(battery):
    outcomes: Mapping[str, Any] = {
        "core/test_slow": battery.Outcome(key="", word="passed", seconds=1.0, counts=(3, 0, 1))
    }
    lines = battery.render(outcomes, ["doctor/test_verb"], {}).splitlines()
    assert "    1 not run" in lines
    assert "not run  doctor/test_verb" in lines
    assert lines[-1] == "3 passed, 0 failed, 1 skipped"


def test_an_end_without_a_test_is_never_known(battery):
    """A process that died has no names of tests, which are all on any list."""
    for tests, is_known in (((), False), (("test_a",), True), (("test_a", "test_b"), False)):
        outcome = battery.Outcome(key="", word="unsteady", seconds=1.0, tests=tests)
        known = {"core/test_slow::test_a": "line"}
        assert battery.is_known("core/test_slow", outcome, known) is is_known


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"key": ""}', '{"file": "a", "key": 1}', "\xff"]
)
def test_a_damaged_record_is_no_record(battery, text):
    outcome = battery.Outcome(key="", word="passed", seconds=1.0)
    battery.save_outcome("core/test_slow", outcome)
    (battery.STATE / "damaged.json").write_bytes(text.encode("latin-1"))
    assert battery.load_state() == {"core/test_slow": outcome}


def test_a_wrong_revision_is_an_error(battery):
    assert run(battery, "--since", "no-such-revision") == (
        1, "error: git has no revision `no-such-revision`\n",
    )  # fmt: skip


@pytest.mark.battery
def test_a_run_that_is_stopped_goes_on(battery):
    settings(battery)
    (battery.TESTS / "doctor" / "test_alone.py").write_text(
        f"{HEAD}pytestmark = pytest.mark.machine\n\n\ndef test_a():\n"
        "    import time\n    from pathlib import Path\n"
        "    if not Path('once').exists():\n        Path('once').touch()\n        time.sleep(600)\n"
    )
    (battery.TESTS / "doctor" / "test_verb.py").unlink()
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(ROOT / "tools"), "core/test_slow", "doctor/test_alone"],
        cwd=battery.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert wait_until((battery.ROOT / "once").exists)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "stopped: the same command goes on" in err
    assert "not run  doctor/test_alone" in out
    code, said = run(battery, "core/test_slow", "doctor/test_alone")
    assert code == 0
    assert said.splitlines()[0] == "1 of 2 files passed before, and nothing changed for them"
    assert said.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"
