"""Several installations on the nodes of a job: command lines, and how what they say is read."""

from __future__ import annotations

import pytest

from stackproof.build.engines.spack import workers
from stackproof.build.engines.spack.effects import task as spack_task
from stackproof.build.engines.spack.layout import spack
from stackproof.build.engines.spack.workers import Workers, WorkerState
from stackproof.core.command import Command, EnvPatch
from stackproof.core.errors import Reason

PROGRAM = ("python", "task.py")
SAID = """\
0: stackproof-worker: {"node": "node1"}
1: stackproof-worker: {"node": "node2"}
1: ==> Installing b-1.0-komznkgmd6mmlnzijkpcnemyza6ehmmi [2/2]
0: ==> Installing a-1.0-aiuc72g6jbbektrrrwpvaw5smnrpstou [1/2]
srun: error: Node failure on node2
0: [+] /user-environment/x/a-1.0-aiuc72g6jbbektrrrwpvaw5smnrpstou
0:
0: stackproof-worker: {"node": "node1", "code": 0}
1: stackproof-worker: {"no"""


def test_one_worker_on_each_node_and_nobody_ends_the_others() -> None:
    argv = workers.srun_argv(Workers(nodes=3), "name", PROGRAM, in_job=False)
    assert argv[0] == "srun"
    assert {"--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--exclusive"} <= set(argv)
    assert {"--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--label"} <= set(argv)
    assert argv[-2:] == PROGRAM


def test_a_step_of_a_job_is_not_exclusive_and_options_are_the_users() -> None:
    wanted = Workers(nodes=1, options={"partition": "debug", "contiguous": ""})
    argv = workers.srun_argv(wanted, "name", PROGRAM, in_job=True)
    assert not [word for word in argv if word.startswith("--exclusive")]
    assert argv[-4:-2] == ("--partition=debug", "--contiguous")
    whole = workers.srun_argv(
        Workers(nodes=1, options={"exclusive": "no"}), "name", PROGRAM, in_job=False
    )
    assert not [word for word in whole if word.startswith("--exclusive")]


def test_all_wrong_options_at_once() -> None:
    wanted = Workers(nodes=0, options={"-p": "x", "nodes": "3", "comment": "a\0b", "time": "5"})
    assert [problem.reason for problem in workers.problems(wanted)] == [Reason.USAGE] * 4


def test_an_install_uses_the_cores_of_its_node() -> None:
    call = spack("install", "--only-concrete", environment="environments/default")
    one = workers.install_call(call, Workers(nodes=2), old_installer=False)
    at = one.argv.index("install")
    assert one.argv[at : at + 3] == ("install", f"--jobs={workers.CORES}", "--only-concrete")
    assert (one.cwd, one.env) == (call.cwd, call.env)
    two = workers.install_call(call, Workers(nodes=2, jobs=7), old_installer=True)
    assert "--jobs=7" in two.argv
    # Settings come before the name of Spack's command.
    assert two.argv[1:3] == ("-c", "config:installer:old")


def test_what_workers_say_is_sorted_and_their_own_lines_are_left_out() -> None:
    assert workers.by_worker(SAID).splitlines() == [
        "==> Installing a-1.0-aiuc72g6jbbektrrrwpvaw5smnrpstou [1/2]",
        "[+] /user-environment/x/a-1.0-aiuc72g6jbbektrrrwpvaw5smnrpstou",
        "",
        "==> Installing b-1.0-komznkgmd6mmlnzijkpcnemyza6ehmmi [2/2]",
        "srun: error: Node failure on node2",
    ]
    assert workers.states(SAID) == {
        0: WorkerState(node="node1", code=0),
        1: WorkerState(node="node2"),  # its last line was torn off
    }


@pytest.mark.parametrize(
    ("line", "number", "text"),
    [
        ("0: word", 0, "word"),
        ("  7: word", 7, "word"),
        ("11: 12: word", 11, "12: word"),
        ("3:", 3, ""),
        ("srun: error: 5: x", None, "srun: error: 5: x"),
        ("", None, ""),
    ],
)
def test_labels(line: str, number: int | None, text: str) -> None:
    assert workers.unlabelled(line) == (number, text)


@pytest.mark.parametrize(
    "line", ["0: stackproof-worker: []", "0: stackproof-worker: {}", "0: stackproof-worker:"]
)
def test_what_is_no_word_of_a_worker_is_none(line: str) -> None:
    assert workers.states(line) == {}


def test_what_is_left_is_ended_by_its_name() -> None:
    assert workers.cancel_argv("name", None) == (("scancel", "--name=name"),)
    assert "--jobs=17" in workers.cancel_argv("name", "17")[0]


def test_the_program_on_the_nodes_speaks_the_same_language() -> None:
    """It may import nothing of the package, so it has these words itself."""
    assert (spack_task._MARK, spack_task._CORES) == (workers.MARK, workers.CORES)


def test_a_command_keeps_everything_else() -> None:
    command = Command(argv=("x", "install"), env=EnvPatch(set={"A": "1"}), ok=(0, 3))
    assert workers.install_call(command, Workers(nodes=1), old_installer=False).ok == (0, 3)
