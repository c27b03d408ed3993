"""`tools/demo.py` with a stackproof that only writes down what it was asked for."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from stackproof.bench.spec import parse_bench
from stackproof.core.effects.documents import load
from stackproof.core.effects.quiet import MachineLoad

pytestmark = pytest.mark.battery

ROOT = Path(__file__).resolve().parents[2]
# In the place of the package: makes what the real verbs make, or waits where a test says so.
_STACKPROOF = """
import os, signal, subprocess, sys, time
from pathlib import Path
words = sys.argv[1:]
folder = Path(os.environ["LAB"])
with (folder / "log").open("a") as log:
    print(*words, file=log)
def target():
    return Path(words[words.index("-o") + 1])
if words[0] == os.environ.get("HANG"):
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        (folder / "hangs").touch()
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.5)  # puts its things away
        (folder / "put-away").touch()
        sys.exit(130)
if words[:2] == ["cluster", "up"] and os.environ.get("LEAVE"):
    left = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
    (folder / "left").write_text(str(left.pid))
if words[0] == "build":
    print("note: of the build", file=sys.stderr)
    for number in range(100):
        print("ok", number, "of the build", file=sys.stderr)
    target().write_text(os.environ.get("IMAGE", "image"))
if words[0] == "bench" or words[:2] == ["inject", "prove"]:
    if words[0] == "inject" and target().exists():
        sys.exit(2)
    target().mkdir(exist_ok=True)
    (target() / "one").touch()
if words[0] == "bench":
    sys.exit(int(os.environ.get("VERDICT", "0")))
if words[0] == "run" and words[words.index("--inject") + 1].endswith("/openmpi.squashfs"):
    sys.exit(8)
"""


@pytest.fixture
def environment(tmp_path):
    fake = tmp_path / "fake" / "stackproof"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("")
    (fake / "__main__.py").write_text(_STACKPROOF)
    return {**os.environ, "PYTHONPATH": str(fake.parent), "LAB": str(tmp_path)}


@pytest.fixture
def demo(tmp_path, environment):
    """Return a function that runs the demo and returns the commands that it gave."""

    def run(*words: str, ok: int = 0, **env: str) -> list[str]:
        (tmp_path / "log").unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "demo.py", "--output", tmp_path / "out", *words],
            env={**environment, **env}, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == ok, done.stderr
        return (tmp_path / "log").read_text().splitlines() if ok != 2 else []

    return run


def _demo_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_program", ROOT / "tools" / "demo.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_can_be_run_again(demo, tmp_path):
    demo()
    assert (tmp_path / "out" / "injection" / "one").exists()
    demo()
    assert not list(tmp_path.glob("out/results-*"))


def test_half_a_proof_does_not_stand_in_the_way(demo, tmp_path):
    (tmp_path / "out" / "injection" / "half").mkdir(parents=True)
    demo()
    assert [path.name for path in (tmp_path / "out" / "injection").iterdir()] == ["one"]


def test_results_of_other_images_are_moved_aside(demo, tmp_path):
    demo()
    (tmp_path / "out" / "results" / "mine").touch()
    demo(IMAGE="another")
    assert (tmp_path / "out" / "results-1" / "mine").exists()
    assert not (tmp_path / "out" / "results" / "mine").exists()
    demo("--short", IMAGE="another")
    assert (tmp_path / "out" / "results-2").exists()


@pytest.mark.parametrize("code", [8, 9])
def test_a_verdict_is_a_result(demo, code):
    assert any(line.startswith("inject prove") for line in demo(VERDICT=str(code)))


def test_a_failure_is_its_exit_code_and_the_cluster_goes(demo):
    log = demo(ok=5, VERDICT="5")
    assert log[-2].startswith("bench ")
    assert log[-1].startswith("cluster down ")


def test_a_busy_machine_is_told_first(environment, tmp_path, monkeypatch, capfd):
    """The load figure is 14: what to expect of it comes before every command."""
    module = _demo_module()
    (tmp_path / "loadavg").write_text("14.00 13.50 9.00 15/234 999\n")
    monkeypatch.setattr(module.quiet, "LOAD", tmp_path / "loadavg")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for name in ("PYTHONPATH", "LAB"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.setenv("VERDICT", "9")
    monkeypatch.setattr(sys, "argv", ["demo.py", "--output", str(tmp_path / "out")])
    assert module.main() == 0
    said = capfd.readouterr().out
    assert said.startswith("note: load 14 on 2 CPUs")
    assert "expect INCONCLUSIVE" in said.splitlines()[0]
    assert "--wait-for-quiet 30m" in said.splitlines()[0]
    assert "$ stackproof build" in said
    assert (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("code", "meaning"),
    [(0, "as fast as Intel MPI"), (8, "the demo did not fail"), (9, "The demo did not fail")],
)
def test_it_ends_with_what_the_verdict_means_and_what_to_do_next(
    environment, tmp_path, code, meaning
):
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "demo.py", "--output", "out"], cwd=tmp_path,
        env={**environment, "VERDICT": str(code)}, capture_output=True, text=True, check=True,
        timeout=600,
    )  # fmt: skip
    end = done.stdout[done.stdout.rindex("Everything ran") :]
    assert meaning in end
    assert f"exited with {code}" in end
    assert f"The report:  {tmp_path}/out/report.html" in end
    assert f". {sys.prefix}/bin/activate" in end
    assert "has to end with an error, before anything crashes\n$ stackproof run" in done.stdout
    assert "$ stackproof report out/results -o out/report.html\n" in done.stdout
    assert "stackproof doctor --results out/results" in end
    assert end.count("  stackproof ") == 3


QUIET = MachineLoad(average=0.0, running=0.0, cpus=2)
BUSY = MachineLoad(average=14.0, running=14.0, cpus=2)


@pytest.mark.parametrize(
    ("load", "made", "launches", "first", "measuring"),
    [
        (QUIET, False, None, "about 1 min, 9 min left", "about 6 min, 7 min left"),
        (QUIET, True, None, "about 3 s, 8 min left", "about 6 min, 7 min left"),
        (QUIET, False, 2, "about 1 min, 4 min left", "about 1 min, 2 min left"),
        (BUSY, False, None, "about 8 min, 24 min left", "about 2 min, 9 min left"),
    ],
)
def test_a_stage_says_what_it_does_and_how_long_it_and_the_rest_take(
    tmp_path, load, made, launches, first, measuring
):
    module = _demo_module()
    if made:
        (tmp_path / "libfabric.squashfs").touch()
    args = argparse.Namespace(launches=launches, wait_for_quiet=None)
    stages = module._stages(tmp_path, "demo", args, load)
    assert module._head(stages) == f"build libfabric from source, {first}"
    assert module._head(stages[6:]).startswith("measure the MPIs")
    assert module._head(stages[6:]).endswith(f", {measuring}")


def test_every_stage_has_its_line_and_of_progress_some_lines_are_shown(environment, tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "demo.py", "--output", tmp_path / "out"],
        env=environment, capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    heads = re.findall(
        r"^(\d+/\d+) .+, about .+ left\n\$ stackproof (\w+)", done.stdout, re.MULTILINE
    )
    verbs = [*["build"] * 5, "cluster", "bench", "report", "run"]
    assert heads == [(f"{number}/9", verb) for number, verb in enumerate(verbs, 1)]
    assert done.stderr.count("note: of the build\n") == 5
    assert done.stderr.count("ok ") < 100  # one in 15 seconds
    log = tmp_path / "out" / "progress.log"
    assert str(log) in done.stdout
    assert log.read_text().count("ok 99 of the build\n") == 5


def test_what_a_command_leaves_running_holds_nothing_up(demo, tmp_path):
    """A node keeps the standard error of the command that made it."""
    try:
        assert demo(LEAVE="1")[-1].startswith("cluster down ")
    finally:
        os.kill(int((tmp_path / "left").read_text()), signal.SIGTERM)


def test_waiting_is_passed_on_to_what_measures(demo):
    (bench,) = (line for line in demo("--wait-for-quiet", "1s") if line.startswith("bench "))
    assert bench.endswith("--wait-for-quiet 1s")
    demo("--wait-for-quiet", "soon", ok=2)


def test_the_short_form_has_two_launches(demo):
    (bench,) = (line for line in demo("--short") if line.startswith("bench "))
    assert bench.endswith("--launches 2")


def test_two_checkouts_have_two_clusters(demo, tmp_path):
    names = {
        line.split()[-1]
        for out in ("one", "two")
        for line in demo("--output", str(tmp_path / out))
        if line.startswith("cluster ")
    }
    assert len(names) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", ["bench", "report"])
def test_interrupted_it_lets_the_command_end_and_takes_the_cluster_down(
    environment, demo, tmp_path, verb, number
):
    """Ctrl-C reaches every process of a terminal; a scheduler's SIGTERM only the first."""
    argv = [sys.executable, ROOT / "tools" / "demo.py", "--output", tmp_path / "out"]
    process = subprocess.Popen(
        argv, env={**environment, "HANG": verb}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    while not (tmp_path / "hangs").exists():
        assert process.poll() is None
        time.sleep(0.02)
    if number is signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert (tmp_path / "put-away").exists()
    assert (tmp_path / "log").read_text().splitlines()[-1].startswith("cluster down ")
    demo()


def test_the_help_counts_what_is_built():
    """README, `make help` and the demo agree on how many stacks there are."""
    module = _demo_module()
    words = {3: "three", 4: "four", 5: "five", 6: "six"}
    wanted = f"{words[len(module.RECIPES)]} stacks"
    assert wanted in (ROOT / "README.md").read_text()
    said = subprocess.run(["make", "-s", "help"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    assert wanted in said.stdout.decode()


def test_the_demo_says_how_many_launches_it_makes_and_how_long_they_take():
    demo = parse_bench(load(ROOT / "demo" / "demo.yaml"))
    assert demo.until_decided
    said = " ".join((ROOT / "README.md").read_text().split())
    assert f"at most {demo.launches} launches each" in said
    assert demo.budget_s == 300.0
    assert "five minutes of launches in all" in said
