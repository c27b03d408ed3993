"""What every launcher keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from stackproof.core.errors import Reason
from stackproof.launch import launchers
from stackproof.launch.launchers import LaunchRequest
from stackproof.mpi import families
from stackproof.results.case import Placement, Rank

each_launcher = pytest.mark.parametrize("name", list(launchers.REGISTRY))
OF_SCHEDULERS = ("srun", "flux", "pals")
each_mpiexec = pytest.mark.parametrize(
    "name", [name for name in launchers.REGISTRY if name not in OF_SCHEDULERS]
)


def make(ranks, **changes) -> LaunchRequest:
    kept = {"prefix": "/mnt/s", "program": ("prog",), "agent": "/run/agent", **changes}
    return LaunchRequest(placement=Placement(name="p", ranks=tuple(ranks)), **kept)


PAIR = (Rank(node="a", cpu=0), Rank(node="b", cpu=0))


@each_launcher
def test_registered_under_its_name(name):
    assert launchers.get(name).name == name


def test_every_family_has_its_launcher():
    assert {family.launcher for family in families.REGISTRY.values()} <= set(launchers.REGISTRY)


def test_unknown_launcher_is_unsupported():
    assert refusal(launchers.get, "poe").reason is Reason.UNSUPPORTED


@each_mpiexec
def test_a_launcher_may_lie_elsewhere(name):
    launcher = launchers.get(name)
    assert launcher.argv(make(PAIR))[0].startswith("/mnt/s/bin/mpiexec")
    assert (
        launcher.argv(make(PAIR, mpiexec="/usr/bin/mpiexec.mpich"))[0] == "/usr/bin/mpiexec.mpich"
    )


@each_launcher
def test_program_and_its_arguments_come_last(name):
    argv = launchers.get(name).argv(make(PAIR, program=("/mnt/s/bin/x", "-n", "5", "a b")))
    assert argv[-4:] == ("/mnt/s/bin/x", "-n", "5", "a b")
    assert all(isinstance(word, str) and word for word in argv)


@each_launcher
def test_every_variable_of_the_request_is_set(name):
    environment = {"UCX_TLS": "tcp,self", "X": "a b;'c"}
    patch = launchers.get(name).environment(make(PAIR, environment=environment))
    assert environment.items() <= patch.set.items()


@pytest.mark.parametrize("name", ["flux", "pals"])
def test_ranks_that_share_a_core_are_not_for_every_launcher(name):
    crowded = (Rank(node="a", cpu=0), Rank(node="a", cpu=0))
    error = refusal(launchers.get(name).argv, make(crowded, oversubscribe=True))
    assert error.reason is Reason.UNSUPPORTED


@pytest.mark.parametrize("name", [n for n in launchers.REGISTRY if n not in {"flux", "pals"}])
def test_a_rank_that_yields_is_asked_for(name):
    crowded = (Rank(node="a", cpu=0), Rank(node="a", cpu=0))
    launcher = launchers.get(name)
    request = make(crowded, oversubscribe=True)
    plain = make(PAIR)
    assert launcher.argv(request)
    assert launcher.environment(request) != launcher.environment(plain) or "--overcommit" in (
        launcher.argv(request)
    )


@each_launcher
def test_nothing_to_start_is_invalid(name):
    for request in (make(()), make(PAIR, program=())):
        assert refusal(launchers.get(name).argv, request).reason is Reason.INVALID_VALUE


@each_mpiexec
@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(make(PAIR, agent=None), id="two-nodes-and-no-agent"),
        pytest.param(make((Rank(node="a", cpu=1), Rank(node="a", cpu=1))), id="shared-cpu"),
        pytest.param(make(PAIR, program=("prog", ":", "x")), id="colon"),
    ],
)
def test_what_cannot_be_started_is_invalid(name, request_):
    assert refusal(launchers.get(name).argv, request_).reason is Reason.INVALID_VALUE


def replay(name: str, argv: tuple[str, ...]) -> list[tuple[str, int | None]]:
    """Return where each rank runs, by the words of a command line alone."""
    hosts: list[str] = []
    if "-hosts" in argv:
        for entry in argv[argv.index("-hosts") + 1].split(","):
            node, _, count = entry.partition(":")
            hosts += [node] * int(count)
    found: list[tuple[str, int | None]] = []
    segments = " ".join(argv[argv.index("-n") :]).split(" : ")
    for segment in segments:
        words = segment.split()
        count = int(words[words.index("-n") + 1])
        cpu = int(words[words.index("taskset") + 2]) if "taskset" in words else None
        option = {"prte": "--host", "intel-hydra": "-host"}.get(name)
        for _ in range(count):
            node = words[words.index(option) + 1].split(":")[0] if option else hosts[len(found)]
            found.append((node, cpu))
    return found


@each_mpiexec
@pytest.mark.parametrize("slurm", [False, True], ids=["agent", "slurm"])
@given(
    ranks=st.lists(
        st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 7)), min_size=1, max_size=9
    )
)
def test_the_command_line_says_the_placement_and_nothing_else(name, slurm, ranks):
    pinned = [rank for rank in ranks if rank[1] is not None]
    request = make(
        (Rank(node=node, cpu=cpu) for node, cpu in ranks),
        oversubscribe=len(set(pinned)) < len(pinned),
        in_slurm_job=slurm,
        agent=None if slurm else "/run/agent",
    )
    assert replay(name, launchers.get(name).argv(request)) == ranks
