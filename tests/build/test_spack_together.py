"""Environments that do not need each other are solved and installed at the same time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fakespack
from fakespack import Folder
from need import need
from spackstacks import clones, environment, lock_files, locked, spliced, stack
from stackproof.build.effects.workspace import Installing, Workspace
from stackproof.build.engines.spack import buildplan, layout, lockplan, output
from stackproof.build.engines.spack.effects import build as spack_build
from stackproof.build.engines.spack.effects import nodes
from stackproof.build.engines.spack.effects import together as spack_together
from stackproof.build.engines.spack.stack import Caches, SpackStack
from stackproof.build.engines.spack.workers import Workers
from stackproof.build.plan import Plan, Step
from stackproof.core.command import Command, Completed
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor

COVERS = (
    "build/engines/spack/effects/together.py",
    "build/engines/spack/layout.py",
)

# Passes only if somebody else passes it in the same moment.
MEET = """
import pathlib, sys, time
own, other = map(pathlib.Path, sys.argv[1:3])
own.write_text("")
end = time.monotonic() + 30
while not other.exists():
    if time.monotonic() > end:
        sys.exit(f"nobody came to {other}")
    time.sleep(0.01)
"""
# Writes down how many of it run now. Each is a job of make.
COUNT = """
import fcntl, pathlib, sys, time
path = pathlib.Path(sys.argv[1])
def add(number):
    with path.open("a+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        now = int((stream.read().split() or ["0"])[-1]) + number
        stream.write(f"{now}\\n")
add(1)
time.sleep(0.15)
add(-1)
"""


# Two packages of two jobs each, more jobs as the server gives them.
INSTALLER = """
import os, re, subprocess, sys
pipe = os.open(re.search("fifo:(.*)", os.environ["MAKEFLAGS"])[1], os.O_RDWR | os.O_NONBLOCK)
left, running, taken = 4, [], 0
while left or running:
    if left:
        try:
            may = not running or bool(os.read(pipe, 1))
        except BlockingIOError:
            may = False
        if may:
            taken += bool(running)
            left -= 1
            running.append(subprocess.Popen([sys.executable, "-c", *sys.argv[1:]]))
    for one in [one for one in running if one.poll() is not None]:
        running.remove(one)
        if taken:
            taken -= 1
            os.write(pipe, b"+")
"""


def defaults(folder: Path, installer: str) -> None:
    """Write what Spack says of its installers."""
    place = folder / "spack" / "etc" / "spack" / "defaults" / "base"
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.yaml").write_text(f"config:\n  # one of two\n  installer: {installer}\n")


def python(code: str, *words: object) -> list[str]:
    return ["@python@", "-c", code, *map(str, words)]


def run(
    folder: Path, work: dict[str, tuple[list[str], list[list[str]]]], *, jobs: int = 2
) -> subprocess.CompletedProcess[str]:
    """Run calls by name, with what each needs, as in a build folder."""
    (folder / "local").mkdir(exist_ok=True)
    (folder / "local" / "config.yaml").write_text(f"config:\n  build_jobs: {jobs}\n")
    data = {
        name: {"needs": needs, "calls": [{"argv": argv, "env": {"OWN": name}} for argv in calls]}
        for name, (needs, calls) in work.items()
    }
    (folder / "work.json").write_text(json.dumps(data))
    argv = [
        sys.executable,
        "-I",
        "-S",
        str(spack_together.__file__),
        str(folder),
        f"{folder}/work.json",
    ]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip


def test_two_that_do_not_need_each_other_run_at_once(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    after = python("import os; print('only then', os.environ['OWN'], end='')")
    work = {
        "one": ([], [python(MEET, a, b), after]),
        "two": ([], [python(MEET, b, a), after]),
    }
    done = run(tmp_path, work)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["one: only then one", "two: only then two"]


def test_one_job_is_one_at_a_time(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    work: dict[str, Any] = {name: ([], [python(COUNT, seen)]) for name in "abc"}
    assert run(tmp_path, work, jobs=1).returncode == 0
    assert seen.read_text().split() == ["1", "0"] * 3


def test_what_is_needed_has_ended_and_a_failure_ends_nothing_else(tmp_path: Path) -> None:
    a, b, made = (tmp_path / name for name in ("a", "b", "made"))
    touch = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
    see = "import pathlib, sys; sys.exit(not pathlib.Path(sys.argv[1]).exists())"
    work = {
        "broken": ([], [python(MEET, a, b), python("raise SystemExit(7)"), python(touch, a)]),
        "whole": ([], [python(MEET, b, a), python(touch, made)]),
        "later": (["whole"], [python(see, made)]),
        "lost": (["broken", "whole"], [python(touch, tmp_path / "wrong")]),
        "more": (["lost"], [python(touch, tmp_path / "wrong")]),
    }
    done = run(tmp_path, work, jobs=4)
    assert done.returncode == 7
    assert made.exists()
    assert "later" not in done.stdout
    assert not (tmp_path / "wrong").exists()
    assert done.stdout.splitlines() == [
        "lost: did not begin, since broken failed", "more: did not begin, since lost failed",
    ]  # fmt: skip


def test_a_failure_that_comes_last_ends_everything(tmp_path: Path) -> None:
    """`more` stands before `lost`, which it needs: neither begins, and nobody waits for them."""
    work = {
        "more": (["lost"], [python("raise SystemExit(1)")]),
        "broken": ([], [python("raise SystemExit(7)")]),
        "lost": (["broken"], [python("raise SystemExit(1)")]),
    }
    done = run(tmp_path, work, jobs=1)
    assert done.returncode == 7
    assert done.stdout.splitlines() == [
        "lost: did not begin, since broken failed", "more: did not begin, since lost failed",
    ]  # fmt: skip


@pytest.mark.battery
@pytest.mark.parametrize("jobs", [2, 3])
def test_all_together_never_have_more_jobs_than_were_asked_for(tmp_path: Path, jobs: int) -> None:
    """By the server, as Spack's newer installer asks it; every job is given back."""
    seen = tmp_path / "seen"
    defaults(tmp_path, "new")
    calls = [python(INSTALLER, COUNT, seen)]
    done = run(tmp_path, {"one": ([], calls), "two": ([], calls), "three": ([], calls)}, jobs=jobs)
    assert (done.returncode, done.stdout) == (0, "")
    numbers = [int(text) for text in seen.read_text().split()]
    assert len(numbers) == 24
    assert 0 < max(numbers) <= jobs


def test_the_older_installer_has_its_part_of_the_jobs(tmp_path: Path) -> None:
    """Of 16 with 8 packages at once in two environments: 2 * 4 packages of 2 jobs each."""
    (tmp_path / "local").mkdir()
    config = tmp_path / "local" / "config.yaml"
    config.write_text("config:\n  build_jobs: 16\n  concurrent_packages: 8\n")
    few = ["-c", "config:build_jobs:2", "-c", "config:concurrent_packages:4"]
    assert spack_together.divide_jobs(tmp_path, 2) == few
    config.write_text("config:\n  build_jobs: 2\n")
    assert spack_together.divide_jobs(tmp_path, 5) == ["-c", "config:build_jobs:1"]
    # They stand where Spack wants them, and in calls that install alone.
    show = "import os, sys; print(sys.argv[1:], 'MAKEFLAGS' in os.environ)"
    script = tmp_path / "spack"
    script.write_text(f"#!{sys.executable}\n{show}\n")
    script.chmod(0o755)
    done = run(tmp_path, {"one": ([], [[str(script), "install"], [str(script), "find"]]),
                          "two": ([], [python("")])})  # fmt: skip
    assert done.stdout.splitlines() == [
        "one: ['-c', 'config:build_jobs:1', 'install'] False", "one: ['find'] False",
    ]  # fmt: skip


def test_the_newer_installer_is_told_apart(tmp_path: Path) -> None:
    for which, newer in (("old", False), ("new", True)):
        defaults(tmp_path, which)
        assert spack_together.is_newer(tmp_path) is newer


def two() -> SpackStack:
    return stack(2, environments=(environment(), environment(name="tools", views=())))


def step(plan: Plan, name: str) -> Step:
    return next(one for one in plan.steps if one.name == name)


@pytest.mark.parametrize("of", [two(), spliced()])
def test_a_plan_has_one_step_for_all_environments(of: SpackStack) -> None:
    lock = locked(of)
    plan = buildplan.build_plan(of, lock, Caches())
    one = step(plan, "install-environments")
    names = [path.removesuffix("/spack.lock") for path in lock_files(of)][1:]
    calls = layout.list_calls(one, one.commands[0])
    assert list(calls) == names
    for name, call in calls.items():
        assert call.argv[call.argv.index("-e") + 1] == f"/build/{name}"
        assert "--only-concrete" in call.argv
    (text,) = (t for p, t in one.build_files.items() if p.endswith("together.json"))
    needs = {name: data["needs"] for name, data in json.loads(text).items()}
    last = "environments/apps"
    assert needs == {
        **{name: [] for name in names},
        last: [n for n in names if "apps" in n and n != last],
    }
    # Compilers are there before; what comes later waits for all.
    order = [one.name for one in plan.steps]
    assert order.index("install-compiler-gcc") + 1 == order.index("install-environments")


def test_on_the_nodes_of_a_job_they_run_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each on all nodes; the first that fails ends it, with a log of its own."""
    asked: list[tuple[str, str]] = []

    def on_nodes(command: Command, *_: object, log: Path, watch: object) -> Completed:
        asked.append((command.argv[command.argv.index("-e") + 1], log.name))
        code = int("tools" in asked[-1][0])
        return Completed(argv=command.argv, returncode=code, stdout=b"", stderr=b"", seconds=1.0)

    monkeypatch.setattr(nodes, "install", on_nodes)
    of = two()
    lock = locked(of)
    one = step(buildplan.build_plan(of, lock, Caches()), "install-environments")
    space = Workspace(home=tmp_path, tree=tmp_path)
    job = Installing(
        step=one, command=one.commands[0], log=tmp_path / "x-1.log", space=space, mount=of.mount
    )
    with pytest.raises(StackproofError) as caught:
        spack_build.install(Workers(nodes=2), job, null_monitor)
    assert caught.value.reason is Reason.BUILD_FAILED
    assert asked == [
        ("/build/environments/apps", "x-1-environments-apps.log"),
        ("/build/environments/tools", "x-1-environments-tools.log"),
    ]


def test_what_has_to_be_known_first_is_solved_first() -> None:
    """The parts of what is spliced at once, itself in the next plan."""
    of = spliced()
    plan = lockplan.lock_plan(of, clones(of))
    assert [one.name for one in plan.steps][1:] == [
        "concretize-compilers-gcc", "concretize-environments",
    ]  # fmt: skip
    files = lock_files(of)
    known = {path: data for path, data in files.items() if not path.startswith("environments")}
    plan = lockplan.lock_plan(of, clones(of), known)
    assert [one.name for one in plan.steps][1:] == ["concretize-environments-apps"]


def test_what_several_say_is_told_apart() -> None:
    names = ("environments/a", "environments/b")
    text = "environments/a: ==> one: 1\nodd: line\nenvironments/b: two\nenvironments/a: \n"
    assert layout.group_lines(text, names) == {
        "environments/a": "==> one: 1\n", "environments/b": "two", "": "odd: line",
    }  # fmt: skip
    both = [output.Progress(total=3, done=frozenset("x"), running=("gcc",), phase="build"),
            output.Progress(total=2, done=frozenset("xy"))]  # fmt: skip
    joined = output.join_progress(both)
    assert (joined.total, len(joined.done), joined.running) == (5, 3, ("gcc",))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    need("bubblewrap", "mksquashfs", "gcc")
    return fakespack.make(tmp_path)


@pytest.mark.battery
def test_a_build_of_two_environments(folder: Folder) -> None:
    """Each meets the other while it is solved, and while it is installed."""
    folder.write("meet-one", more={"others": ("meet-two",)})
    assert "install-environments" in folder.build("--jobs", "2").stderr
    assert (folder.path / "small.squashfs").exists()


@pytest.mark.battery
def test_a_failure_in_one_environment_leaves_the_other(folder: Folder) -> None:
    folder.write("meet-one", "broken", more={"others": ("meet-two", "good")})
    said = folder.build("--jobs", "2", ok=5).stderr
    assert "first.c:3:1: error: expected ';'" in said
    assert "`broken@1.0` was not installed" in said
    assert "spack -e /build/environments/tools install" in said
    (home,) = (home for home in folder.builds if (home / "store").is_dir())
    kept = {path.parent.name.rpartition("-1.0")[0] for path in home.glob("store/*/*/done")}
    assert kept == {"meet-one", "meet-two", "good"}
    folder.write("meet-one", more={"others": ("meet-two", "good")})
    folder.build()
