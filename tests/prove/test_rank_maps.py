"""A rank is started and watched from outside: its files, its end, its signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elflab import Lab
from need import need
from stackproof.prove.effects import rank_maps


def start(folder: Path, *words: str, settings: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    argv = [sys.executable, "-I", rank_maps.__file__, str(folder), *settings, "--", *words]
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def record(folder: Path) -> dict[str, object]:
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text())


def test_files_and_those_that_are_opened_later(tmp_path: Path) -> None:
    need("gcc")
    lab = Lab(tmp_path)
    first = lab.library("lib/libfirst.so.1", defines=["first"], flags=("-Wl,--build-id=0xabcdef",))
    later = lab.library("lib/plugin.so", defines=["later"])
    declarations = "#include <unistd.h>\nstatic void late(void) __attribute__((destructor));\n"
    declarations += "static void late(void) { usleep(300000); }\n"
    program = lab.program(needs=[first], calls=["first"], declarations=declarations, opens=True)
    (tmp_path / "seen").mkdir()
    done = start(tmp_path / "seen", program, later, settings=(f"LD_LIBRARY_PATH={tmp_path}/lib",))
    out, _ = done.communicate(timeout=600)
    assert done.returncode == 0
    assert "dlopen works" in out
    seen = record(tmp_path / "seen")
    files = {one["path"]: one["build_id"] for one in seen["files"]}
    assert files[first] == "abcdef"
    assert {program, later} <= files.keys()
    assert not any("python" in path for path in files)
    assert (seen["exit"], seen["signal"]) == (0, 0)


@pytest.mark.parametrize(
    ("script", "code", "kept"),
    [
        ("exit 3", 3, (3, 0)),
        ("kill -SEGV $$", -signal.SIGSEGV, (None, signal.SIGSEGV)),
        ("exec /nowhere", 127, (127, 0)),
    ],
)
def test_the_end_is_the_ranks(
    tmp_path: Path, script: str, code: int, kept: tuple[int | None, int]
) -> None:
    done = start(tmp_path, "sh", "-c", script)
    done.communicate(timeout=600)
    assert done.returncode == code
    seen = record(tmp_path)
    assert (seen["exit"], seen["signal"]) == kept


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    done = start(tmp_path, "/nowhere")
    _, text = done.communicate(timeout=600)
    assert done.returncode == 127
    assert "/nowhere" in text


@pytest.mark.battery
def test_signals_reach_the_rank(tmp_path: Path) -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    with start(tmp_path, "sh", "-c", script) as done:
        assert done.stdout is not None
        assert done.stdout.readline() == "ready\n"
        done.send_signal(signal.SIGTERM)
        assert done.wait(timeout=600) == 9


@pytest.mark.battery
def test_a_witness_that_is_killed_takes_its_rank_along(tmp_path: Path) -> None:
    with start(tmp_path, "sh", "-c", "echo $$; exec sleep 60") as done:
        assert done.stdout is not None
        rank = Path(f"/proc/{done.stdout.readline().strip()}/comm")
        done.kill()
        done.wait(timeout=600)
        until = time.monotonic() + 20
        while time.monotonic() < until and rank.exists():
            time.sleep(0.05)
        assert not rank.exists()
