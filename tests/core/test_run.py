from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from refusals import refused
from stackproof.core import limits
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import run
from stackproof.core.errors import Reason, StackproofError


def shell(script: str, **options: object) -> Command:
    return Command(argv=("sh", "-c", script), **options)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def ended(pid: int) -> bool:
    """Return whether a process has ended, or does so within a second."""
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.01)
    return False


def test_output_and_exit_code_are_kept_apart():
    done = run.run(shell("echo out; echo err >&2; exit 3"))
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 3)
    assert not done.timed_out
    assert done.seconds > 0


def test_output_is_bytes_whatever_they_are():
    assert run.run(shell(r"printf '\377\000x'")).stdout == b"\xff\x00x"


def test_more_output_than_a_pipe_holds():
    done = run.run(shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2"))
    assert (len(done.stdout), len(done.stderr)) == (300_000, 300_000)


@pytest.mark.parametrize("watched", [True, False])
def test_of_a_long_output_begin_and_end_are_kept(monkeypatch, tmp_path, watched):
    """A step of a build may print without an end: that is neither memory nor a log of ours."""
    most = 100_000
    monkeypatch.setattr(limits, "PRINTED", limits.Limit("", "", bytes=most))
    lines: list[str] = []
    script = "echo begin; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end; echo error >&2"
    log = tmp_path / "log"
    done = run.run(shell(script), log=log, watch=lines.append if watched else None)
    assert done.stderr == b"error\n"
    assert done.stdout.startswith(b"begin\nxxx")
    assert done.stdout.endswith(b"xxx\nend\n")
    begin, said, end = done.stdout.partition(b"\n[2900011 bytes are left out here]\n")
    assert said
    assert len(begin) == len(end) == most // 2
    assert log.stat().st_size < 2 * most
    # Nothing says which of two outputs is read first.
    assert not watched or {"begin", "end", "error"} <= set(lines)


def test_a_line_without_an_end_comes_in_pieces(monkeypatch):
    monkeypatch.setattr(limits, "PRINTED_LINE", limits.Limit("", "", bytes=1000))
    lines: list[str] = []
    run.run(shell("head -c 300000 /dev/zero | tr '\\0' x"), watch=lines.append)
    assert "".join(lines) == "x" * 300_000
    assert len(lines) > 1


def test_standard_input_is_closed():
    assert run.run(Command(argv=("cat",), timeout_s=10)).stdout == b""


def test_the_environment_is_clean(monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    patch = EnvPatch(set={"A": "1"}, prepend={"PATH": ("/first",)}, unset=("TERM",))
    lines = run.run(Command(argv=("env",), env=patch)).stdout.decode().splitlines()
    seen = dict(line.split("=", 1) for line in lines)
    assert set(seen) <= {"PATH", "HOME", "TMPDIR", "LANG", "A"}
    assert seen["A"] == "1"
    assert seen["LANG"] == "C.UTF-8"
    assert seen["PATH"].startswith("/first:")


def test_there_is_always_a_path(monkeypatch):
    monkeypatch.delenv("PATH")
    assert run.run(Command(argv=("true",))).returncode == 0


def test_the_folder(tmp_path):
    assert (
        run.run(Command(argv=("pwd",), cwd=os.fspath(tmp_path))).stdout == f"{tmp_path}\n".encode()
    )


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (Command(argv=("no-such-program-here",)), Reason.TOOL_MISSING),
        (Command(argv=("/no/such/program",)), Reason.TOOL_MISSING),
        (Command(argv=("true",), cwd="/no/such/folder"), Reason.FILE_MISSING),
        (Command(argv=("/etc/passwd",)), Reason.NOT_PERMITTED),
        (Command(argv=("true", "\0")), Reason.INVALID_VALUE),
        (Command(argv=("true",), env=EnvPatch(set={"A=B": "1"})), Reason.INVALID_VALUE),
    ],
)
def test_what_cannot_start(command, reason):
    with refused(reason):
        run.run(command)


def test_a_missing_tool_names_its_package():
    with pytest.raises(StackproofError) as caught:
        run.run(Command(argv=("/nowhere/mksquashfs",)))
    assert "squashfs-tools" in (caught.value.problems[0].hint or "")


def test_a_program_that_closes_its_outputs_and_stays_has_its_time_limit():
    lines: list[str] = []
    script = "echo x; exec >&- 2>&-; sleep 600"
    done = run.run(shell(script, timeout_s=0.5), watch=lines.append)
    assert (done.timed_out, done.stdout, lines) == (True, b"x\n", ["x"])


def test_an_interrupt_after_the_last_output_stays_one(monkeypatch):
    """The pipes are closed by then: what ends the program must not ask them once more."""
    real = subprocess.Popen
    interrupts = [KeyboardInterrupt()]

    class Interrupted(real):  # type: ignore[type-arg, valid-type, misc]
        def wait(self, timeout: float | None = None) -> int:
            if interrupts:
                raise interrupts.pop()
            return super().wait(timeout)

    monkeypatch.setattr(run.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.run(shell("exec >&- 2>&-; exec sleep 600"), watch=lambda _: None)
    assert interrupts == []


@pytest.mark.battery
@pytest.mark.parametrize("wait_s", [0, 0.01])
def test_output_without_an_end_has_its_time_limit(wait_s):
    """Also where whoever looks on is slower than what is printed."""
    script = "while :; do echo aaaaaaaa; done"
    done = run.run(shell(script, timeout_s=1), watch=lambda _: time.sleep(wait_s))
    assert done.timed_out
    assert done.stdout.startswith(b"aaaaaaaa\n")


@pytest.mark.battery
def test_a_daemon_that_writes_without_an_end_is_not_listened_to(monkeypatch):
    monkeypatch.setattr(run, "_STOP_WAIT_S", 0.5)
    monkeypatch.setattr(limits, "PRINTED", limits.Limit("", "", bytes=100_000))
    done = run.run(shell("setsid cat /dev/zero & sleep 60", timeout_s=1))
    assert done.timed_out
    assert len(done.stdout) < 200_000


_DEAF = "trap '' TERM; sh -c \"trap '' TERM; sleep 60\" & echo $! $$ > pids; sleep 60"


@pytest.mark.battery
@pytest.mark.parametrize(
    ("script", "number"),
    [
        ("sleep 60 & echo $! $$ > pids; wait", signal.SIGTERM),
        (_DEAF, signal.SIGKILL),
        # The child of a leader that has gone.
        ("(trap '' TERM; exec >&- 2>&-; sleep 60) & echo $! > pids; sleep 60", signal.SIGTERM),
    ],
    ids=["polite", "deaf", "deaf child"],
)
def test_a_timeout_keeps_what_was_written_and_leaves_no_child(
    tmp_path, monkeypatch, script, number
):
    monkeypatch.setattr(run, "_STOP_WAIT_S", 0.3 if script == _DEAF else run._STOP_WAIT_S)
    done = run.run(shell(f"echo before; {script}", timeout_s=1.5, cwd=os.fspath(tmp_path)))
    assert (done.timed_out, done.stdout, done.returncode) == (True, b"before\n", -number)
    assert done.seconds < 20
    assert all(ended(int(pid)) for pid in (tmp_path / "pids").read_text().split())


@pytest.mark.battery
def test_a_daemon_that_keeps_our_pipes_cannot_hold_us(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_STOP_WAIT_S", 0.3)
    pids = tmp_path / "pids"
    done = run.run(
        shell(f"echo x; setsid sh -c 'echo $$ > {pids}; exec sleep 60' &", timeout_s=1.5)
    )
    os.kill(int(pids.read_text()), signal.SIGKILL)
    assert done.timed_out
    assert done.stdout == b"x\n"


@pytest.mark.battery
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_child(tmp_path, number):
    pids = tmp_path / "pids"
    program = textwrap.dedent(f"""
        import signal
        from stackproof.core.command import Command
        from stackproof.core.effects import run
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            run.run(Command(argv=("sh", "-c", "sleep 60 & echo $! $$ > {pids}; wait")))
        except KeyboardInterrupt:
            print("unwound")
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    for _ in range(1000):
        if pids.exists() and len(pids.read_text().split()) == 2:
            break
        time.sleep(0.01)
    process.send_signal(number)
    stdout, _ = process.communicate(timeout=600)
    assert stdout == b"unwound\n"
    assert all(ended(int(pid)) for pid in pids.read_text().split())


@pytest.mark.battery
def test_an_interrupt_while_a_program_starts_leaves_no_child(tmp_path, monkeypatch):
    """The program runs before the call that starts it returns; on a busy machine, for long."""
    pids = tmp_path / "pids"
    real = subprocess.Popen

    class Slow(real):  # type: ignore[type-arg, valid-type, misc]
        def __init__(self, *words: object, **options: object) -> None:
            super().__init__(*words, **options)
            while not pids.exists() or not pids.read_text().strip():
                time.sleep(0.01)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(run.subprocess, "Popen", Slow)
    with pytest.raises(KeyboardInterrupt):
        run.run(shell(f"echo $$ > {pids}; exec sleep 60"))
    assert ended(int(pids.read_text()))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.battery
def test_a_second_interrupt_does_not_wait(tmp_path):
    program = textwrap.dedent(f"""
        import signal
        from stackproof.core.command import Command
        from stackproof.core.effects import run
        run._STOP_WAIT_S = 60
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 1, 0.5)
        try:
            run.run(Command(argv=("sh", "-c", {_DEAF!r}), cwd={str(tmp_path)!r}))
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("unwound")
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=600, check=True
    )
    assert done.stdout == b"unwound\n"
    assert all(ended(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_log_and_replay(tmp_path):
    log = tmp_path / "logs" / "step.log"
    command = shell(
        'echo "$A $(pwd)"; echo err >&2; exit 4', cwd="/usr", env=EnvPatch(set={"A": "a 'b"})
    )
    done = run.run(command, log=log)
    text = log.read_text()
    assert "exited with 4" in text
    assert "a 'b /usr\n" in text
    assert "# stderr\nerr\n" in text
    again = subprocess.run([log.with_suffix(".replay.sh")], capture_output=True, check=False)
    assert (again.returncode, again.stdout, again.stderr) == (4, done.stdout, done.stderr)


def test_words_that_are_not_utf8_are_logged_and_replayed(tmp_path):
    word = os.fsdecode(b"\xff\xfe")
    log = tmp_path / "step.log"
    done = run.run(Command(argv=("printf", "%s", word)), log=log)
    assert done.stdout == b"\xff\xfe"
    again = subprocess.run([log.with_suffix(".replay.sh")], capture_output=True, check=True)
    assert again.stdout == done.stdout


def test_check_accepts_the_exit_codes_of_the_command():
    assert run.check(shell("exit 3", ok=(0, 3))).returncode == 3


@pytest.mark.parametrize(
    ("script", "timeout", "reason"),
    [
        ("echo why >&2; exit 1", None, Reason.BUILD_FAILED),
        ("echo why; kill -SEGV $$", None, Reason.BUILD_FAILED),
        ("echo why; sleep 60", 0.3, Reason.BUILD_FAILED),
        ("echo why: No space left on device >&2; exit 1", None, Reason.DISK_FULL),
    ],
)
def test_check_refuses_the_rest(tmp_path, script, timeout, reason):
    log = tmp_path / "x.log"
    with pytest.raises(StackproofError) as caught:
        run.check(shell(script, timeout_s=timeout), log=log)
    (problem,) = caught.value.problems
    assert problem.reason is reason
    assert "why" in (problem.detail or "")
    assert os.fspath(log) in (problem.hint or "")


def test_check_takes_another_runner_and_shows_the_last_lines():
    def scripted(command: Command, *, log: Path | None = None) -> Completed:
        text = "\n".join(f"line {i}" for i in range(100)).encode()
        return Completed(argv=command.argv, returncode=9, stdout=text, stderr=b"", seconds=0)

    with pytest.raises(StackproofError) as caught:
        run.check(Command(argv=("/opt/tool", "a b")), runner=scripted)
    (problem,) = caught.value.problems
    lines = (problem.detail or "").split("\n")
    assert (lines[0], lines[-1], len(lines)) == ("line 80", "line 99", 20)
    assert "'a b'" in (problem.hint or "")


@pytest.mark.parametrize(
    ("returncode", "timed_out", "words"),
    [
        (3, False, "exited with 3"),
        (-11, False, "was killed by SIGSEGV"),
        (-40, False, "was killed by signal 40"),
        (-15, True, "did not end within its time limit"),
    ],
)
def test_how_it_ended(returncode, timed_out, words):
    done = Completed(
        argv=("x",), returncode=returncode, stdout=b"", stderr=b"", seconds=1, timed_out=timed_out
    )
    assert run.how_it_ended(done) == words
