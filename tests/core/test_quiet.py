"""How busy a machine is, what is said of it, and how it is waited for."""

import itertools
import os
import subprocess
import sys
import time

import pytest

from stackproof.core.effects import quiet
from stackproof.core.effects.quiet import MachineLoad

IDLE = "0.05 0.02 0.00 1/234 999\n"
FOURTEEN = "14.00 13.50 9.00 15/234 999\n"
CPUS = 2


@pytest.fixture(name="kernel")
def _kernel(tmp_path, monkeypatch):
    """Put a file in the place of the kernel's load, on two CPUs."""
    monkeypatch.setattr(quiet, "LOAD", tmp_path / "loadavg")
    monkeypatch.setattr(quiet, "LOOK_S", 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: CPUS)
    return tmp_path / "loadavg"


def load(average, running, cpus=CPUS, programs=()):
    return MachineLoad(average=average, running=running, cpus=cpus, programs=programs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FOURTEEN, (14.0, 15)),
        (IDLE, (0.05, 1)),
        ("", (0.0, 0)),
        ("no load here at all", (0.0, 0)),
        ("1.0 1.0 1.0", (0.0, 0)),
    ],
)
def test_the_kernels_text_is_read(text, expected):
    assert quiet.parse_load(text) == expected


@pytest.mark.parametrize(
    ("average", "running", "cpus", "is_busy"),
    [
        (14.0, 14.0, 2, True),
        (1.0, 1.0, 2, True),
        (0.4, 3.0, 2, False),  # one look that saw something end at once
        (9.0, 0.2, 2, False),  # what has ended and is still in the average
        (14.0, 14.0, 64, False),  # two CPUs are free
        (63.5, 63.0, 64, True),
        (0.1, 0.0, 1, False),
        (1.0, 1.0, 1, True),
    ],
)
def test_a_machine_is_busy_without_two_free_cpus(average, running, cpus, is_busy):
    assert load(average, running, cpus).is_busy is is_busy


def test_the_sentence_says_load_programs_consequence_and_what_to_do():
    text = quiet.busy_sentence(load(14.0, 14.0, programs=("cc1", "make")), "INCONCLUSIVE")
    assert text == (
        "load 14 on 2 CPUs, mostly of `cc1`, `make`: expect INCONCLUSIVE, a launch takes about 8 "
        "times longer; wait with --wait-for-quiet 30m, or stop with Ctrl-C"
    )


def test_programs_alike_count_together_and_those_without_time_not_at_all():
    spent = [("make", 3.0), ("cc1", 2.0), ("sleep", 0.0), ("cc1", 2.0), ("ld", 1.0), ("sh", 0.5)]
    assert quiet.greediest(spent) == ("cc1", "make", "ld")


def test_only_programs_that_somebody_could_end_are_named(tmp_path, monkeypatch):
    """Threads of the kernel have a flag of their own in /proc/PID/stat."""
    processes = {2: ("rcu_preempt", 0x00208040), 31: ("memfd:runc", 0x00400100), 40: ("cc1", 0)}
    for number, (name, flags) in processes.items():
        (tmp_path / f"{number}").mkdir()
        fields = f"S 1 1 1 0 -1 {flags} 0 0 0 0 7 3 0 0 20 0 1 0"
        (tmp_path / f"{number}" / "stat").write_text(f"{number} ({name}) {fields}\n")
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda _: scan(tmp_path))
    assert quiet._times() == {40: ("cc1", 10)}


def test_it_is_told_at_once_and_waited_only_when_asked_for(kernel, monkeypatch):
    kernel.write_text(FOURTEEN)
    monkeypatch.setattr(quiet, "wait_for_quiet", None)  # calling it would raise
    said = []
    assert quiet.watch(said.append, "INCONCLUSIVE").is_busy
    assert [text[:17] for text in said] == ["load 14 on 2 CPUs"]


def test_a_wait_says_at_once_how_long_and_for_what_and_advises_no_option(kernel, monkeypatch):
    kernel.write_text(FOURTEEN)
    monkeypatch.setattr(quiet, "wait_for_quiet", lambda seconds: said.append(f"{seconds}") or calm)
    calm, said = load(0.1, 0.0), []
    assert quiet.watch(said.append, "INCONCLUSIVE", 240.0) is calm
    begin, waited_s, end = said
    assert begin.startswith("load 14 on 2 CPUs")
    assert begin.endswith(
        ": INCONCLUSIVE would be likely; waiting for a quiet machine, up to 4 min: a load below "
        "0.75 by other programs (Ctrl-C stops)"
    )
    assert "--wait-for-quiet" not in begin
    assert (waited_s, end[:11]) == ("240.0", "quiet after")


def test_nothing_is_said_of_a_quiet_machine(kernel):
    kernel.write_text(IDLE)
    said = []
    assert not quiet.watch(said.append, "INCONCLUSIVE", wait_s=3600.0).is_busy
    assert not said


def test_nothing_is_said_where_the_kernel_does_not_tell(kernel):
    assert not kernel.exists()
    assert not quiet.look().is_busy


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def waited(looks, seconds):
    clock = Clock()
    seen = itertools.chain(looks)
    found = quiet.wait_for_quiet(seconds, lambda: next(seen), clock.time, clock.sleep)
    return found, clock.now


def test_waiting_ends_when_some_looks_in_a_row_were_quiet():
    noisy, calm = load(14.0, 14.0), load(9.0, 0.1)
    found, took = waited([noisy, calm, noisy, calm, calm, calm], 600.0)
    assert (found, took) == (calm, 25.0)
    assert quiet.quiet_sentence(found, took) == "quiet after 25 s (load 9 on 2 CPUs)"


def test_waiting_ends_when_the_time_is_over():
    found, took = waited(itertools.repeat(load(14.0, 14.0)), 12.0)
    assert took == 12.0
    text = quiet.quiet_sentence(found, took)
    assert text == "still busy after 12 s (load 14 on 2 CPUs): goes on all the same"


@pytest.mark.battery
def test_a_program_that_computes_is_named(monkeypatch):
    monkeypatch.setattr(quiet, "LOOK_S", 1.0)
    words = "import itertools; print('on', flush=True)\nfor _ in itertools.count(): pass"
    with subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        end = time.monotonic() + 600
        name = os.path.basename(os.path.realpath(f"/proc/{process.pid}/exe"))
        seen = []
        while time.monotonic() < end and not seen:
            took = quiet.look()
            seen = [one for one in took.programs if one.startswith("python")]
        process.kill()
    assert seen, name
