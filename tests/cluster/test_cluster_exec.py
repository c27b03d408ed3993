"""`stackproof cluster exec`: a command in a cluster as if it ran here."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from clusters import SOURCE, told, wait_until
from need import need
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.cluster.slurm import SlurmSpec, parse_user
from stackproof.core.errors import ExitCode
from terminals import read_until, terminal

pytestmark = [
    pytest.mark.machine,
    pytest.mark.guarantee(
        "What others wrote",
        "A command as another user in a cluster",
        "cannot type into the terminal of who calls.",
    ),
]

EXEC = (sys.executable, "-m", "stackproof", "cluster", "exec")


@pytest.fixture(scope="module", params=["plain", "slurm"])
def up(request):
    """Give a cluster to tests that change nothing of it, with Slurm and without."""
    need("netns")
    wanted = None
    if request.param == "slurm":
        need("slurm")
        wanted = SlurmSpec(users=(parse_user("alice:2001"),))
    name = f"exec-{os.getpid()}"
    yield cluster_up.up(ClusterSpec(name=name, slurm=wanted))
    cluster_up.down(name)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCE, **more}


def execute(
    state: ClusterState, *words: str, cwd: str = "/", text: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*EXEC, "--name", state.name, *words], cwd=cwd, env=environment(**env), input=text,
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def test_folder_environment_input_and_exit_code_are_kept(up, tmp_path):
    script = "pwd; hostname; echo $COLOUR; cat; echo error >&2; exit 7"
    done = execute(
        up, "--", "sh", "-c", script, cwd=str(tmp_path), text="given\n", COLOUR="red blue"
    )
    assert done.stdout.splitlines() == [str(tmp_path), "head", "red blue", "given"]
    assert done.stderr == "error\n"
    assert done.returncode == 7


def test_it_is_listed(up):
    def listed(*words: str) -> str:
        return subprocess.run(
            [*EXEC[:-1], "ls", *words], env=environment(), check=True, capture_output=True,
            text=True, timeout=600,
        ).stdout  # fmt: skip

    (row,) = (line.split() for line in listed().splitlines() if line.startswith(f"{up.name} "))
    slurm = up.slurm.version if up.slurm else "-"
    assert row == [up.name, str(len(up.nodes)), "unlimited", slurm, "up"]
    (one,) = (one for one in json.loads(listed("--json")) if one["name"] == up.name)
    assert (one["up"], one["nodes"], one["folder"]) == (True, len(up.nodes), up.folder)


def test_a_node_can_be_named(up):
    assert execute(up, "--on", "node2", "--", "hostname").stdout == "node2\n"
    assert execute(up, "hostname").stdout == "head\n"
    assert execute(up, "--", "echo", "--", "--on").stdout == "-- --on\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--", "there-is-no-such"), 127),
        (("--", "/etc/passwd"), 126),
        (("--", "sh", "-c", "kill -SEGV $$"), 128 + signal.SIGSEGV),
        (("--on", "node9", "--", "true"), ExitCode.JOB),
        (("--as", "carol", "--", "true"), ExitCode.INVALID),
        ((), ExitCode.USAGE),
    ],
)
def test_how_it_ends_is_told(up, words, code):
    done = execute(up, *words)
    assert done.returncode == code
    assert done.stdout == ""


@pytest.mark.parametrize("up", ["slurm"], indirect=True)  # it makes the users
def test_a_user_has_no_rights_but_their_own(up):
    script = "id -un; id -Gn; echo $HOME $USER; grep -c CapEff.*0000000000000000 /proc/self/status"
    done = execute(up, "--as", "alice", "--", "sh", "-c", script)
    assert done.stdout.split() == ["alice", "alice", "/var/spool/users/alice", "alice", "1"]
    assert execute(up, "--as", "alice", "--", "ls", up.folder).returncode != 0
    assert execute(up, "--as", "alice", "--", "srun", "id", "-un").stdout == "alice\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_command(up, number):
    script = f"trap 'echo got; exit 5' {number.name.removeprefix('SIG')}; echo up; while :; do sleep 0.05; done"
    with subprocess.Popen(
        [*EXEC, "--name", up.name, "--", "sh", "-c", script],
        env=environment(),
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        running.send_signal(number)
        assert running.stdout.read() == b"got\n"
        assert running.wait(600) == 5


def test_a_command_does_not_outlive_who_waits_for_it(up):
    with subprocess.Popen(
        [*EXEC, "--name", up.name, "--", "sh", "-c", "echo $$; exec sleep 60"],
        env=environment(), stdout=subprocess.PIPE,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        pid = running.stdout.readline().decode().strip()
        assert pid in told(up, None, "ps", "-A", "-o", "pid=").split()
        running.kill()
    assert wait_until(lambda: pid not in told(up, None, "ps", "-A", "-o", "pid=").split())


def test_it_works_at_a_terminal(up):
    """Ctrl-C comes from the terminal to both, and to the command once."""
    script = "trap 'echo int' INT; test -t 0 && echo terminal; sleep 0.5; echo end"
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execve(EXEC[0], [*EXEC, "--name", up.name, "--", "sh", "-c", script], environment())
    said = read_until(descriptor, b"terminal")
    time.sleep(0.1)
    os.write(descriptor, b"\x03")
    said += read_until(descriptor)
    os.close(descriptor)
    assert said.count(b"int\r\n") == 1
    assert said.endswith(b"end\r\n")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_another_user_cannot_type_into_the_terminal(up):
    """What is typed would be run by the shell of whoever called, with that one's rights."""
    need("root")
    script = (
        "import fcntl, termios\n"
        "try: print('typed', fcntl.ioctl(0, termios.TIOCSTI, b'x'))\n"
        "except OSError as error: print('refused', error.errno)"
    )
    who = "alice" if up.slurm else "nobody"
    words = (*EXEC, "--name", up.name, "--as", who, "--", "/usr/bin/python3", "-c", script)
    with terminal() as (_, child):
        done = subprocess.run(
            ["setsid", "--ctty", "--wait", *words], cwd="/", env=environment(), stdin=child,
            stdout=subprocess.PIPE, stderr=child, timeout=600, check=False,
        )  # fmt: skip
    assert done.stdout == b"refused 1\n"


@pytest.mark.usefixtures("runtime")
def test_what_is_left_of_a_cluster_can_be_used():
    state = cluster_up.up(ClusterSpec())
    cluster_up.kill("default", "node1")
    assert execute(state, "hostname").stdout == "head\n"
    assert execute(state, "--on", "node2", "hostname").stdout == "node2\n"
    done = execute(state, "--on", "node1", "hostname")
    assert done.returncode == ExitCode.JOB
    assert "cluster up" in done.stderr


@pytest.mark.usefixtures("runtime")
def test_without_a_cluster_it_says_how_to_have_one():
    done = subprocess.run(
        [*EXEC, "--", "true"], env=environment(), stderr=subprocess.PIPE, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == ExitCode.NOT_POSSIBLE
    assert "cluster up" in done.stderr
