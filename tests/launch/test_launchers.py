import json
from pathlib import Path

import pytest

from refusals import refusal
from stackproof.core.errors import Reason, StackproofError
from stackproof.launch import launchers
from stackproof.launch.launchers import LaunchRequest, messages
from stackproof.results.case import Placement, Rank

COVERS = (
    "launch/launchers/of_mpis.py",
    "launch/launchers/of_schedulers.py",
    "launch/launchers/request.py",
)

CAPTURES = Path(__file__).parents[1] / "captures" / "launch"


def placement(*ranks: tuple[str, int | None]) -> Placement:
    return Placement(name="p", ranks=tuple(Rank(node=node, cpu=cpu) for node, cpu in ranks))


def request(*ranks, **changes) -> LaunchRequest:
    kept = {"prefix": "/mnt/s", "program": ("prog", "--x"), "agent": "/run/agent", **changes}
    return LaunchRequest(placement=placement(*ranks), **kept)


def words(name, *ranks, **changes) -> str:
    return " ".join(launchers.get(name).argv(request(*ranks, **changes)))


TWO_NODES = (("n1", 0), ("n2", 1))
BLOCKS = (("a", 1), ("a", 9), ("b", 1), ("b", 9))
TURNS = (("a", None), ("b", None), ("a", None), ("b", None))
COMMANDS = [
    # Each rank is pinned, and hosts are counted in rank order.
    ("hydra", TWO_NODES, {},
     ("/mnt/s/bin/mpiexec -launcher rsh -launcher-exec /run/agent -genvall -bind-to none"
     " -hosts n1:1,n2:1 -n 1 taskset -c 0 prog --x : -n 1 taskset -c 1 prog --x")),
    # A node is named again for a later run of ranks on it.
    ("hydra", (("b", None), ("b", None), ("a", None), ("b", None)), {},
     ("/mnt/s/bin/mpiexec -launcher rsh -launcher-exec /run/agent -genvall -bind-to none"
     " -hosts b:2,a:1,b:1 -n 2 prog --x : -n 1 prog --x : -n 1 prog --x")),
    # Each segment names its host.
    ("intel-hydra", (("b", 1), ("a", None), ("a", None)), {},
     ("/mnt/s/bin/mpiexec.hydra -bootstrap rsh -bootstrap-exec /run/agent -genvall"
     " -n 1 -host b taskset -c 1 prog --x : -n 2 -host a prog --x")),
    # Each segment has all slots of its host, and variables are exported by name.
    ("prte", (("a", 0), ("a", 1), ("b", 0)), {"environment": {"B": "2", "A": "1"}},
     ("/mnt/s/bin/mpiexec --bind-to none -x A -x B -n 1 --host a:2 taskset -c 0 prog --x"
     " : -n 1 --host a:2 taskset -c 1 prog --x : -n 1 --host b:1 taskset -c 0 prog --x")),
    ("srun", BLOCKS, {},
     ("srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --nodelist=a,b --distribution=block"
     " --cpu-bind=map_cpu:1,9 --kill-on-bad-exit=1 --export=ALL prog --x")),
    ("srun", TURNS, {"family": "mpich", "pmi": "pmix", "mounts": "/i.squashfs:/mnt/s"},
     ("srun --mpi=pmix --nodes=2 --ntasks=4 --ntasks-per-node=2 --nodelist=a,b"
     " --distribution=cyclic --cpu-bind=none --kill-on-bad-exit=1 --export=ALL"
     " --image=/i.squashfs:/mnt/s prog --x")),
    # Ranks that pin themselves are left alone.
    ("srun", (("a", 0), ("b", 1)), {"pinned": True},
     ("srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=a,b --distribution=block"
     " --cpu-bind=none --kill-on-bad-exit=1 --export=ALL prog --x")),
    ("flux", BLOCKS, {"family": "openmpi", "labelled": True},
     ("flux run --nodes=2 --ntasks=4 --exclusive --requires=hosts:a,b -o pmi=pmix"
     " -o cpu-affinity=map:1;9 -o gpu-affinity=off -o mpibind=off -o exit-on-error --label-io"
     " prog --x")),
    ("flux", TURNS, {},
     ("flux run --nodes=2 --ntasks=4 --exclusive --requires=hosts:a,b --taskmap=cyclic"
     " -o cpu-affinity=off -o gpu-affinity=off -o mpibind=off -o exit-on-error prog --x")),
    ("flux", BLOCKS, {"family": "cray-mpich", "pinned": True},
     ("flux run --nodes=2 --ntasks=4 --exclusive --requires=hosts:a,b -o pmi=cray-pals"
     " -o cpu-affinity=off -o gpu-affinity=off -o mpibind=off -o exit-on-error prog --x")),
    ("pals", BLOCKS, {"family": "openmpi", "labelled": True},
     "mpiexec --pmi=pmix --envall -l -n 4 --ppn 2 --hosts a,b --cpu-bind list:1:9 prog --x"),
    ("pals", BLOCKS, {"family": "cray-mpich", "pinned": True},
     "mpiexec --envall -n 4 --ppn 2 --hosts a,b --cpu-bind none prog --x"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "ranks", "changes", "line"), COMMANDS)
def test_command_lines(name, ranks, changes, line):
    assert words(name, *ranks, **changes) == line


def test_pals_leaves_ranks_that_pin_themselves_alone_and_gives_none_in_turns():
    asked = request(*BLOCKS, pinned=True)
    assert launchers.get("pals").environment(asked).set == {"PALS_CPU_BIND": "none"}
    with pytest.raises(StackproofError, match="in turns"):
        words("pals", *TURNS)


@pytest.mark.parametrize(
    ("name", "words_wanted"),
    [
        ("hydra", "-launcher fork -genvall -bind-to none -hosts localhost:2 -n 2 prog"),
        ("intel-hydra", "-bootstrap fork -genvall -n 2 -host localhost prog"),
        ("prte", "--bind-to none -n 2 --host localhost:2 prog"),
    ],
)
def test_without_an_agent_all_ranks_are_here(name, words_wanted):
    assert words_wanted in words(name, ("n1", None), ("n1", None), agent=None)


def in_job(name, *ranks, **changes):
    asked = request(*ranks, agent=None, in_slurm_job=True, **changes)
    return " ".join(launchers.get(name).argv(asked)), launchers.get(name).environment(asked).set


@pytest.mark.parametrize(
    ("name", "start", "hosts"),
    [
        ("hydra", "mpiexec -launcher slurm -genvall", "-hosts n1:1,n2:1"),
        ("intel-hydra", "mpiexec.hydra -bootstrap slurm -genvall", "-host n2 taskset -c 1 prog"),
        ("prte", "mpiexec --bind-to none -n 1 --host n1:1", "--host n2:1 taskset -c 1 prog"),
    ],
)
def test_inside_a_slurm_job_its_srun_starts_the_helpers(name, start, hosts):
    line, variables = in_job(name, *TWO_NODES)
    assert start in line
    assert hosts in line
    assert not [key for key in variables if "agent" in key or "EXTRA_ARGS" in key]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("hydra", {"HYDRA_LAUNCHER_EXTRA_ARGS": "mount x --"}),
        ("intel-hydra", {"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "mount x --"}),
        ("prte", {"PRTE_MCA_prte_launch_agent": "mount x -- prted",
                  "OMPI_MCA_orte_launch_agent": "mount x -- orted"}),
    ],
)  # fmt: skip
def test_words_before_the_helpers(name, wanted):
    _, variables = in_job(name, *TWO_NODES, helper_words=("mount", "x", "--"))
    assert wanted.items() <= variables.items()


@pytest.mark.parametrize("name", ["hydra", "intel-hydra", "prte"])
def test_a_blank_in_the_words_before_the_helpers_is_refused(name):
    caught = refusal(in_job, name, *TWO_NODES, helper_words=("mount", "/a b.squashfs:/mnt/s", "--"))
    assert caught.reason is Reason.INVALID_VALUE
    assert "`/a b.squashfs:/mnt/s`" in str(caught)


def test_root_is_allowed_only_when_it_is_root():
    prte = launchers.get("prte")
    as_root = prte.environment(request(*TWO_NODES, as_root=True)).set
    as_user = prte.environment(request(*TWO_NODES)).set
    assert set(as_root) - set(as_user) == {
        "OMPI_ALLOW_RUN_AS_ROOT",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
    }


def test_prte_is_told_the_agent_by_the_names_of_both_versions():
    found = launchers.get("prte").environment(request(*TWO_NODES)).set
    assert found["PRTE_MCA_plm_ssh_agent"] == found["OMPI_MCA_plm_rsh_agent"] == "/run/agent"


def test_intel_library_does_not_pin_again():
    assert launchers.get("intel-hydra").environment(request(*TWO_NODES)).set["I_MPI_PIN"] == "off"


@pytest.mark.parametrize(
    ("family", "option"),
    [
        ("openmpi", "--mpi=pmix"),
        ("mpich", "--mpi=pmi2"),
        ("intel-mpi", "--mpi=pmi2"),
        ("cray-mpich", "--mpi=cray_shasta"),
    ],
)
def test_srun_speaks_the_interface_of_the_family(family, option):
    assert option in words("srun", ("a", 0), ("b", 0), family=family).split()


@pytest.mark.parametrize("name", ["srun", "flux", "pals"])
@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param((("a", 0), ("b", 1)), id="cpus-differ"),
        pytest.param((("a", None), ("b", None), ("b", None), ("a", None)), id="order"),
        pytest.param((("b", None), ("a", None)), id="nodes-in-another-order"),
        pytest.param((("a", None), ("a", None), ("b", None)), id="uneven"),
        pytest.param((("a", 0), ("a", None)), id="half-pinned"),
    ],
)
def test_what_launchers_of_schedulers_cannot_say_is_unsupported(name, ranks):
    assert refusal(words, name, *ranks).reason is Reason.UNSUPPORTED


def capture(name: str) -> str:
    data = json.loads((CAPTURES / f"{name}.json").read_text())
    return data["stdout"] + "\n" + data["stderr"]


NAMES = sorted(path.stem for path in CAPTURES.glob("*.json"))


def of(*endings: str) -> set[str]:
    return {name for name in NAMES if name.endswith(endings)}


# One node's crash leaves words of launchers about the rank; a rank that only exits may leave none.
@pytest.mark.parametrize(
    ("read", "firing"),
    [
        (messages.unreachable, of("unreachable", "node-lost")),
        (
            messages.crashed,
            of("crash", "crash-one-node", "abort")
            | {"prte-exit-7", "srun-exit-7", "srun-no-program", "srun-no-cpu", "srun-node-lost"},
        ),
        (messages.not_started, of("no-start")),
        (messages.no_program, of("no-program", "no-program-pinned")),
        (messages.no_cpu, of("no-cpu")),
    ],
)
def test_messages_fire_on_their_captures_alone(read, firing):
    assert {name for name in NAMES if read(capture(name))} == firing
    assert len(firing) >= 3


@pytest.mark.parametrize("name", sorted(of("crash", "crash-one-node")))
def test_the_signal_of_the_rank_that_crashed_is_quoted(name):
    said = messages.crashed(capture(name))
    assert "11" in said or "Segmentation fault" in said


@pytest.mark.parametrize(
    "name", ["prte-unreachable", "intel-hydra-unreachable", "prte-node-lost", "srun-node-lost"]
)
def test_the_lost_node_is_named_where_the_launcher_names_it(name):
    assert "node2" in messages.unreachable(capture(name))


def test_the_agents_own_words_are_quoted():
    assert messages.unreachable("stackproof agent: node `n2` is not running") == (
        "stackproof agent: node `n2` is not running"
    )


def test_ranks_that_fail_at_the_same_time_talk_across_each_other():
    text = (
        "taskset: taskset: failed to set pid 4490's affinity: Invalid argument\n"
        "failed to set pid 4491's affinity: Invalid argument\n"
    )
    assert "4490" in messages.no_cpu(text)
    text = (
        "taskset: taskset: failed to execute /nothing: No such file or directory\n"
        "failed to execute /nothing: No such file or directory\n"
    )
    assert "/nothing" in messages.no_program(text)
    assert "/nothing" in messages.no_program(text.removeprefix("taskset: taskset: "))


@pytest.mark.timeout(120)  # where the cost is the square of the length it takes hours
@pytest.mark.parametrize(
    "piece", ["Executable: ", " ", "exited on ", "Unable to run bstrap_proxy on "]
)
def test_one_very_long_line_is_read_in_no_time(piece):
    text = piece * (1_000_000 // len(piece))
    for read in (messages.no_program, messages.crashed, messages.not_started, messages.unreachable):
        assert len(read(text)) <= messages._LONGEST_LINE
