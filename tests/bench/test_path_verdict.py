"""Words of real MPIs to verdicts on paths; and words that were cut, mixed up or made up."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackproof.bench import path_verdict, programs
from stackproof.bench.path_verdict import Probed
from stackproof.core import noun
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.launch.launchers import labels
from stackproof.mpi import families, path_logs, transports
from stackproof.mpi.path_logs import patterns
from stackproof.mpi.transports import Libfabric, Profile, Setup
from stackproof.results.case import Case, Locality, Placement, Rank
from stackproof.results.measurement import Output, RankFacts, State
from stackproof.results.path import Medium, MessagePaths, Override, Route, Statement, Topic

COVERS = (
    "mpi/families/cray_mpich/evidence.py",
    "mpi/families/intel_mpi/evidence.py",
    "mpi/path_logs/libfabric.py",
    "mpi/families/mpich/evidence.py",
    "mpi/families/openmpi/evidence.py",
    "mpi/path_logs/ucx.py",
)

CAPTURES = Path(__file__).parents[1] / "captures" / "probes"
OK, BAD, UNKNOWN = State.OK, State.BAD, State.UNKNOWN
LNX = "`cm` with libfabric's `shm+tcp;ofi_rxm:lnx`"

# What was seen: the verdict, and what carried the messages.
EXPECTED = {
    "openmpi-5.0.11-auto-inter": (OK, "`ob1` with `tcp`"),
    "openmpi-5.0.11-auto-intra": (OK, "`ob1` with `sm`"),
    "openmpi-5.0.11-shm-intra": (OK, "`ob1` with `sm`"),
    "openmpi-5.0.11-tcp-inter": (OK, "`cm` with libfabric's `tcp`"),
    "openmpi-5.0.11-tcp-inter-ob1": (BAD, "`ob1` with `tcp`"),
    "openmpi-5.0.11-shm-intra-tcp": (BAD, "`ob1` with `tcp`"),
    "openmpi-4.1.8-tcp-inter": (OK, "`cm` with libfabric's `tcp`"),
    "openmpi-5.0.7-auto-inter-ucx": (OK, "UCX's `tcp/eth0`"),
    "openmpi-5.0.7-auto-intra-ucx": (OK, "UCX's `sysv/memory cma/memory`"),
    "openmpi-5.0.8-lnx-intra": (OK, LNX),
    "openmpi-5.0.8-lnx-inter": (OK, LNX),
    "openmpi-5.0.8-lnx-intra-sm": (BAD, "`ob1` with `sm`"),
    "mpich-5.0.2-auto-inter": (OK, "UCX's `tcp/eth0`"),
    "mpich-5.0.2-auto-intra": (OK, "ch4's shared memory"),
    "mpich-5.0.2-shm-intra": (OK, "ch4's shared memory"),
    "mpich-5.0.2-shm-intra-tcp-provider": (OK, "ch4's shared memory"),
    "mpich-5.0.2-tcp-intra": (OK, "`ch4:ofi` with libfabric's `tcp`"),
    "mpich-5.0.2-tcp-inter": (OK, "`ch4:ofi` with libfabric's `tcp`"),
    "mpich-5.0.2-tcp-inter-sockets": (BAD, "`ch4:ofi` with libfabric's `sockets`"),
    "mpich-5.0.2-tcp-inter-ucx": (BAD, "UCX's `tcp/eth0`"),
    "mpich-5.0.2-tcp-intra-local": (BAD, "ch4's shared memory"),
    "mpich-4.3.1-tcp-inter": (OK, "`ch4:ofi` with libfabric's `tcp`"),
    "mpich-4.3.1-shm-intra": (OK, "ch4's shared memory"),
    "mpich-4.0.3-tcp-inter": (OK, "`ch4:ofi` with libfabric's `tcp`"),
    "intel-mpi-2021.18.1-auto-intra": (OK, "the fabric `shm`"),
    "intel-mpi-2021.18.1-auto-inter": (OK, "`shm:ofi` with libfabric's `tcp`"),
    "intel-mpi-2021.18.1-shm-intra": (OK, "the fabric `shm`"),
    "intel-mpi-2021.18.1-tcp-intra": (OK, "`ofi` with libfabric's `tcp`"),
    "intel-mpi-2021.18.1-tcp-inter": (OK, "`ofi` with libfabric's `tcp`"),
    "intel-mpi-2021.18.1-tcp-intra-shm": (BAD, "the fabric `shm` of `shm:ofi`"),
    "intel-mpi-2021.18.1-shm-intra-ofi": (BAD, "`ofi` with libfabric's `tcp`"),
    "intel-mpi-2021.18.1-auto-inter-shm": (BAD, "`shm` with libfabric's `tcp`"),
}
each_capture = pytest.mark.parametrize("name", sorted(EXPECTED))


def load(name):
    return json.loads((CAPTURES / f"{name}.json").read_text())


def probed(data, stdout=None, stderr=None) -> Probed:
    """Return a capture as `bench.effects.path_probe` would have it, with other output where it is given."""
    out = data["stdout"] if stdout is None else stdout
    err = data["stderr"] if stderr is None else stderr
    case = noun.from_data(Case, data["case"])
    family, launcher = data["family"], data["launcher"]
    setup = Setup(
        family=family,
        version=data["version"],
        placement=case.placement,
        libfabric=Libfabric(version=data["libfabric"]),
        fabric="ethernet",
        launcher=launcher,
    )
    profile = transports.get(case.transport).profile(setup)
    lines = labels.split(launcher, f"{out}\n{err}")
    return Probed(
        family=family,
        case=case,
        profile=profile,
        env={**profile.env.set, **data["arm"]},
        statements=path_logs.read(families.probe_of(family).rules, lines),
        output=programs.REGISTRY[case.program].parse(labels.joined(launcher, out).encode(), case),
    )


def found_of(one: Probed) -> MessagePaths:
    bare = MessagePaths(
        arm="a", placement=one.case.placement, transport=one.case.transport, family=one.family,
        version="1", launcher="hydra", identity="i", started="2026-01-01T00:00:00+00:00",
        seconds=0.5,
    )  # fmt: skip
    return path_verdict.judged(bare, one)


def test_every_capture_is_expected_to_be_something():
    assert sorted(path.stem for path in CAPTURES.glob("*.json")) == sorted(EXPECTED)


@each_capture
def test_what_real_mpis_said(name):
    data = load(name)
    one = probed(data)
    state, carrier = EXPECTED[name]
    (route,) = path_verdict.routes(one)
    assert (route.state, route.carrier) == (state, carrier)
    assert route.pairs == ((0, 1),)
    assert len(one.output.ranks) == 2
    assert one.output.complete
    for variable in data["arm"]:
        if state is BAD or variable in one.profile.env.set:
            assert variable in route.evidence
    found = found_of(one)
    assert noun.from_json(MessagePaths, noun.to_json(found)) == found
    check = path_verdict.check_of(found)
    assert (check.name, check.state) == ("path", state)
    problem = path_verdict.problem_of(found)
    assert (problem is not None) == (state is BAD)
    if problem is not None:
        assert problem.reason is Reason.WRONG_TRANSPORT
        assert problem.detail


@each_capture
def test_what_rules_on_known_problems_are_told(name):
    evidence = path_verdict.evidence_of_run(found_of(probed(load(name))))
    assert evidence.facts["transport"] == load(name)["case"]["transport"]
    assert evidence.facts["launcher"] in {"mpiexec", "mpirun"}
    assert evidence.facts["mpi"] == load(name)["family"]
    assert evidence.logs
    assert set(evidence.partial) == {"logs", "variables"}


def test_versions_are_told_by_libfabric_itself():
    found = found_of(probed(load("openmpi-5.0.8-lnx-intra")))
    assert path_verdict.evidence_of_run(found).versions["libfabric"] == "2.1.0"
    found = found_of(probed(load("mpich-5.0.2-tcp-inter")))
    assert path_verdict.evidence_of_run(found).versions["libfabric"] == "2.5.1"
    found = found_of(probed(load("intel-mpi-2021.18.1-tcp-inter")))
    assert path_verdict.evidence_of_run(found).versions["libfabric"] == "2.4.0"


# --- output that is cut, mixed up or made up -----------------------------------------------------


def lost(text, generator, part):
    return "\n".join(line for line in text.split("\n") if generator.random() > part)


@each_capture
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_lost_lines_never_turn_a_verdict_round(name, part):
    """What is not said any more cannot be told; it neither contradicts nor confirms."""
    data = load(name)
    state, _ = EXPECTED[name]
    generator = random.Random(name)
    for _ in range(20):
        one = probed(
            data, lost(data["stdout"], generator, part), lost(data["stderr"], generator, part)
        )
        (route,) = path_verdict.routes(one)
        if state is OK:
            assert route.state is not BAD
        elif not any(s.topic is Topic.FALLBACK for s in probed(data).statements):
            assert route.state is not OK


@each_capture
def test_mixed_lines_say_the_same(name):
    """Ranks write at the same time, and libraries print what nobody asked for in between."""
    data = load(name)
    generator = random.Random(name)
    lines = data["stderr"].split("\n")
    mixed = []
    for rank in (0, 1):
        own = [line for line in lines if f"[{rank}]" in line[:4] or f",{rank}]<" in line[:6]]
        mixed.append(own)
    noise = ["libfabric: nothing", "[0] ", "", "Using tcp provider", "\x00\x1b[31m", "[1] [0] [1]"]
    out = []
    while any(mixed):
        out.append(next(iter(generator.choice([m for m in mixed if m])[:1])))
        for own in mixed:
            if own and own[0] == out[-1]:
                own.pop(0)
                break
        out.append(generator.choice(noise))
    (route,) = path_verdict.routes(probed(data, stderr="\n".join(out)))
    assert (route.state, route.carrier) == EXPECTED[name]


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(EXPECTED)),
    cut=st.integers(0, 8000),
    flips=st.lists(
        st.tuples(st.integers(0, 8000), st.characters(exclude_categories=("Cs",))), max_size=20
    ),
)
def test_damaged_output_is_survived(name, cut, flips):
    data = load(name)
    text = list(data["stdout"] + data["stderr"])
    for at, character in flips:
        if at < len(text):
            text[at] = character
    damaged = "".join(text)
    (route,) = path_verdict.routes(probed(data, damaged[:cut], damaged[cut:]))
    assert route.state in State


@settings(max_examples=100, deadline=None)
@given(text=st.text(), launcher=st.sampled_from(["prte", "hydra", "intel-hydra", "srun", "other"]))
def test_garbage_says_nothing(text, launcher):
    for probe in map(families.probe_of, families.REGISTRY):
        for one in path_logs.read(probe.rules, labels.split(launcher, text)):
            assert one.value


def test_output_without_end_is_bounded():
    line = (0, "MPI startup(): libfabric provider: " + "x" * 10)
    many = ((0, f"libfabric provider: p{number} - d") for number in range(patterns.MOST_LINES * 2))
    rules = families.probe_of("mpich").rules
    assert len(path_logs.read(rules, many)) <= patterns.MOST_STATEMENTS + 2
    long = "libfabric provider: tcp - " + "x" * 10_000_000
    (provider, _) = path_logs.read(rules, [(0, long)])
    assert provider.value == "tcp"
    assert len(provider.quote) < 1000
    assert (
        path_logs.read(families.probe_of("intel-mpi").rules, [line] * 10_000)[0].value == "x" * 10
    )


def test_control_characters_are_not_quoted():
    (layer,) = path_logs.read(
        families.probe_of("openmpi").rules,
        [(0, "\x1b]0;x\x07[n:1] selected ob1 best priority 20")],
    )
    assert layer.quote.isprintable()
    long = f"libfabric provider: \x1b[31m{'x' * 1000} - eth0"
    for one in path_logs.read(families.probe_of("mpich").rules, [(0, long)]):
        assert one.value.isprintable()
        assert len(one.value) < 1000


# --- verdicts on made-up words -------------------------------------------------------------------

FOUR = Placement(
    name="four",
    ranks=(Rank(node="a"), Rank(node="a"), Rank(node="b"), Rank(node="b")),
    interface="eth0",
)


def say(topic, value, rank, peer=None, **more):
    return Statement(topic=topic, value=value, rank=rank, peer=peer, quote=f"said {value}", **more)


def asked(statements, *, placement=FOUR, transport="auto", profile=None, env=None, ranks=()):
    case = Case(
        program="stackproof-bench", benchmarks=("latency",), sizes=(8,), placement=placement,
        transport=transport,
    )  # fmt: skip
    return Probed(
        family="openmpi",
        case=case,
        profile=profile or Profile(),
        env=env or {},
        statements=tuple(statements),
        output=Output(program="stackproof-bench", ranks=ranks),
    )


def ob1(carriers):
    found = [say(Topic.LAYER, "ob1", rank) for rank in range(4)]
    return found + [say(Topic.CARRIER, name, rank, peer) for (rank, peer), name in carriers.items()]


def by_node(inside="sm", between="tcp"):
    return {
        (rank, peer): inside if rank // 2 == peer // 2 else between
        for rank in range(4)
        for peer in range(4)
        if rank != peer
    }


def test_pairs_of_one_kind_are_told_together():
    routes = path_verdict.routes(asked(ob1(by_node())))
    assert {(r.locality, r.carrier): r.pairs for r in routes} == {
        (Locality.INTRA, "`ob1` with `sm`"): ((0, 1), (2, 3)),
        (Locality.INTER, "`ob1` with `tcp`"): ((0, 2), (0, 3), (1, 2), (1, 3)),
    }


def test_one_pair_on_another_path_is_found_among_many():
    carriers = {**by_node(), (3, 2): "tcp"}
    profile = Profile(inside=(Medium.MEMORY,), between=(Medium.TCP,))
    found = path_verdict.routes(asked(ob1(carriers), profile=profile))
    bad = [route for route in found if route.state is BAD]
    assert [route.pairs for route in bad] == [((2, 3),)]
    assert "rank 3 sends to rank 2" in bad[0].evidence
    assert "one way" in bad[0].carrier


def test_a_pair_that_nobody_spoke_of_cannot_be_told():
    carriers = {key: name for key, name in by_node().items() if key != (1, 2)}
    states = {route.pairs: route.state for route in path_verdict.routes(asked(ob1(carriers)))}
    assert states[((1, 2),)] is UNKNOWN


def test_a_rank_that_says_two_things_says_nothing():
    two = [say(Topic.LAYER, "ob1", 0), say(Topic.LAYER, "cm", 0)]
    assert {r.state for r in path_verdict.routes(asked([*two, *ob1(by_node())]))} == {OK, UNKNOWN}


def test_another_interface_than_the_one_asked_for():
    facts = tuple(
        RankFacts(rank=rank, host="ab"[rank // 2], tx_bytes={"eth0": 0, "eth1": 0, "lo": 0})
        for rank in range(4)
    )
    statements = ob1(by_node())
    assert {r.state for r in path_verdict.routes(asked(statements, ranks=facts))} == {OK}
    statements.append(say(Topic.DEVICE, "eth1", 0))
    bad = [r for r in path_verdict.routes(asked(statements, ranks=facts)) if r.state is BAD]
    assert {pair for route in bad for pair in route.pairs} == {(0, 2), (0, 3)}
    assert "`eth1`, not `eth0`" in bad[0].evidence
    # A subnet or a domain is no interface, and tells nothing of one.
    statements[-1] = say(Topic.DEVICE, "10.0.0.0/24", 0)
    assert {r.state for r in path_verdict.routes(asked(statements, ranks=facts))} == {OK}


def test_a_provider_below_a_utility_is_the_provider():
    profile = Profile(expect="tcp", by_provider=True, between=(Medium.TCP,), inside=(Medium.TCP,))
    for provider, state in (("tcp;ofi_rxm", OK), ("tcp", OK), ("sockets", BAD), ("verbs", BAD)):
        statements = [
            say(topic, value, rank)
            for rank in range(4)
            for topic, value in (
                (Topic.LAYER, "cm"),
                (Topic.PROVIDER, provider),
                (Topic.OPENED, provider[:3]),
                (Topic.OPENED, provider),
                (Topic.OPENED, "off_coll"),
            )
        ]
        assert {r.state for r in path_verdict.routes(asked(statements, profile=profile))} == {state}


@pytest.mark.parametrize(
    ("name", "inside", "between"),
    [
        ("sm", Medium.MEMORY, Medium.MEMORY),
        ("tcp;ofi_rxm", Medium.TCP, Medium.TCP),
        ("cxi", Medium.SLINGSHOT, Medium.SLINGSHOT),
        ("shm+cxi:lnx", Medium.MEMORY, Medium.SLINGSHOT),
        ("shm+cxi:cxi0", Medium.MEMORY, None),
        ("shm+tcp;ofi_rxm:lnx", Medium.MEMORY, Medium.TCP),
        ("efa", None, None),
        ("", None, None),
    ],
)
def test_what_is_below_a_name(name, inside, between):
    assert patterns.medium_of(name, Locality.INTRA) is inside
    assert patterns.medium_of(name, Locality.INTER) is between


def test_what_lnx_joins_is_told_by_its_link():
    """From libfabric 2.2 on it calls itself `lnx`, and the link says what it joins."""
    statements = [
        say(topic, value, rank)
        for rank in range(4)
        for topic, value in (
            (Topic.LAYER, "cm"), (Topic.PROVIDER, "lnx"), (Topic.LINK, "shm+cxi:lnx"),
            (Topic.OPENED, "lnx"), (Topic.OPENED, "cxi"),
        )
    ]  # fmt: skip
    profile = Profile(
        expect="lnx", by_provider=True, inside=(Medium.MEMORY,), between=(Medium.SLINGSHOT,)
    )
    assert {r.state for r in path_verdict.routes(asked(statements, profile=profile))} == {OK}
    wrong = replace(profile, between=(Medium.TCP,))
    found = path_verdict.routes(asked(statements, profile=wrong))
    assert {r.locality: r.state for r in found} == {Locality.INTRA: OK, Locality.INTER: BAD}


def test_statistics_of_lnx_are_read():
    line = (
        "libfabric:9:1795287845::lnx:domain:lnx_dump_core_ep_stats():178<trace> "
        "eth0,1,2,3,4,5,6,70,80"
    )
    (sent,) = path_logs.read(families.probe_of("openmpi").rules, [(0, line)])
    assert (sent.topic, sent.value) == (Topic.SENT, "eth0 1,2,3,4,5,6,70,80")


def test_a_family_without_a_probe_cannot_tell():
    one = replace(asked([]), family="lam")
    assert {route.state for route in path_verdict.routes(one)} == {UNKNOWN}


def test_a_rank_that_opened_something_else_than_rank_0_said():
    """MPICH chooses on every rank, and rank 0 alone tells."""
    spoken = [say(Topic.LAYER, "ch4:ofi", 0), say(Topic.PROVIDER, "tcp", 0)]
    opened = [say(Topic.OPENED, "tcp", 0), say(Topic.OPENED, "sockets", 1)]
    two = Placement(name="two", ranks=(Rank(node="a"), Rank(node="b")))
    profile = Profile(expect="tcp", by_provider=True)
    one = replace(asked([*spoken, *opened], placement=two, profile=profile), family="mpich")
    (route,) = path_verdict.routes(one)
    assert route.state is BAD
    assert "rank 1 sends to rank 0" in route.evidence
    quiet = replace(one, statements=(*spoken, opened[0]))
    assert path_verdict.routes(quiet)[0].state is UNKNOWN


def test_many_ranks_are_not_looked_at_by_every_pair():
    crowd = Placement(name="many", ranks=tuple(Rank(node=f"n{n // 64}") for n in range(256)))
    pairs = [pair for r in path_verdict.routes(asked([], placement=crowd)) for pair in r.pairs]
    assert len(pairs) == len(set(pairs)) == 255 + 254
    assert {rank for pair in pairs for rank in pair} == set(range(256))


def test_variables_that_oppose_a_transport():
    profile = Profile(env=EnvPatch(set={"FI_PROVIDER": "tcp", "OMPI_MCA_pml": "cm"}))
    env = {"FI_PROVIDER": "sockets", "UCX_TLS": "tcp", "PATH": "/bin", "OMPI_MCA_pml": "cm"}
    assert path_verdict.overrides(profile, env) == (
        Override(name="FI_PROVIDER", wanted="tcp", found="sockets"),
    )
    assert path_verdict.overrides(profile, {})[0].found is None
    assert path_verdict.steering(profile, env) == {"UCX_TLS": "tcp"}
    assert path_verdict.hints(profile, env) == "FI_PROVIDER=sockets, UCX_TLS=tcp"
    assert path_verdict.hints(profile, profile.env.set) == ""


def test_the_worst_route_is_the_state_of_a_probe():
    def route(state):
        return Route(
            locality=Locality.INTRA, pairs=((0, 1),), carrier="c", state=state, evidence="e",
            reason="wrong-transport" if state is BAD else "",
        )  # fmt: skip

    bare = found_of(asked([]))
    for states, worst in (
        ([OK], OK),
        ([OK, UNKNOWN], UNKNOWN),
        ([UNKNOWN, BAD, OK], BAD),
        ([], UNKNOWN),
    ):
        found = replace(bare, routes=tuple(map(route, states)))
        assert found.state is worst
        assert path_verdict.check_of(found).state is worst
    quiet = replace(bare, routes=(route(UNKNOWN),), quiet="it hung")
    assert "it hung" in path_verdict.check_of(quiet).evidence
