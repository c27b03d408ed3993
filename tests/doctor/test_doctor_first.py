"""The right cause first: faults that were planted, as `doctor` is asked about them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import field

from doctoring import fired
from experiments import changed, keep, output
from inprocess import stackproof
from knowing import KNOWLEDGE
from stackproof import cli
from stackproof.compare import path_words
from stackproof.compare.compare import compare
from stackproof.compare.effects.results import load_results
from stackproof.core import noun
from stackproof.core.numbers import ratio_text
from stackproof.core.value import Value, replace
from stackproof.doctor.answer import text_of
from stackproof.doctor.conditions import Answer
from stackproof.doctor.diagnosis import Diagnosis
from stackproof.doctor.evidence.places import implied
from stackproof.doctor.evidence.results import (
    fallbacks,
    of_cores,
    of_nodes,
    of_results,
    slower_arms,
)
from stackproof.doctor.evidence.variables import of_spelling, one_slip
from stackproof.doctor.rules import diagnose
from stackproof.knowledge.evidence import merged
from stackproof.results.measurement import Check, Disturbance, Measurement, State
from stackproof.results.model import Results, ResultsSpec
from synthetic import write_results

CAPTURES = Path(__file__).parents[1] / "captures" / "doctor"
SITE = ("--site", "lumi-g")
OPENMPI = ("--fact", "mpi=openmpi")
MPICH = ("--fact", "mpi=mpich")
CRAY = ("--fact", "mpi=cray-mpich")
NOTHING_LEFT = "No components were able to be opened in the pml framework.\n"
FATAL = (
    "libfabric:4711:cxi:ep_ctrl:cxip_recv_cb():1219<warn> LE resources not recovered during flow "
    "control. FI_CXI_RX_MATCH_MODE=[hybrid|software] is required\n"
)
APPEND = "Flow control triggered due to failure to append LE\n"


class Asked(Value, kw_only=False):
    """What is given to doctor: words, the environment of the job, and what it printed."""

    words: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    log: str = ""


LNX = {
    "OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "FI_LNX_PROV_LINKS": "shm+cxi",
    "OMPI_MCA_opal_common_ofi_provider_include": "lnx", "OMPI_MCA_mtl_ofi_av": "table",
}  # fmt: skip
OLD = ("--have", "libfabric=2.1.0")
PLANTED: dict[str, tuple[str, Asked]] = {
    "lnx-of-libfabric-2.1": ("K02", Asked((*OPENMPI, *OLD), LNX)),
    "no-address-tables": ("K05", Asked(
        (*OPENMPI, "--have", "libfabric=2.4.1", "--fact", "transport=lnx"),
        {**LNX, "OMPI_MCA_mtl_ofi_av": "map"})),
    "tcp-inherited": ("K79", Asked((*SITE, *MPICH), {"FI_PROVIDER": "tcp"})),
    "tcp-inherited-beside-an-old-libfabric": (
        "K79", Asked((*SITE, *MPICH, *OLD), {"FI_PROVIDER": "tcp"})),
    "psm-inherited": ("K79", Asked((*SITE, *OPENMPI, *OLD), {"FI_PROVIDER": "psm3"})),
    "cxi-on-ethernet": (
        "K79", Asked((*MPICH, "--fact", "fabric=ethernet"), {"FI_PROVIDER": "cxi"})),
    "ucx-forced-without-ucx": (
        "K80", Asked(OPENMPI, {"OMPI_MCA_pml": "ucx"}, NOTHING_LEFT)),
    "ucx-on-slingshot": (
        "K27", Asked((*SITE, *OPENMPI, *OLD), {"OMPI_MCA_pml": "ucx"})),
    "ucx-on-slingshot-that-did-not-start": (
        "K27", Asked((*SITE, *OPENMPI, *OLD), {"OMPI_MCA_pml": "ucx"}, NOTHING_LEFT)),
    "locked-memory": ("K82", Asked((*SITE, "--fact", "memlock-kib=64"))),
    "locked-memory-said": ("K82", Asked((), {}, "ERROR ibv_create_cq(cqe=4096) failed: Cannot "
        "allocate memory : Please set max locked memory (ulimit -l) to 'unlimited' "
        "(current: 16 kbytes)\n")),
    "pmll": ("K77", Asked(OPENMPI, {"OMPI_MCA_pmll": "ucx"})),
    "bttl": ("K77", Asked(OPENMPI, {"OMPI_MCA_bttl": "tcp,self"})),
    "providers": ("K77", Asked(MPICH, {"FI_PROVIDERS": "tcp"})),
    "netmodd": ("K77", Asked(MPICH, {"MPIR_CVAR_CH4_NETMODD": "ofi"})),
    "nic-polcy": ("K77", Asked((*SITE, *CRAY), {"MPICH_OFI_NIC_POLCY": "GPU"})),
    "softwar": ("K78", Asked((*SITE, *MPICH), {"FI_CXI_RX_MATCH_MODE": "softwar"})),
    "numaa": ("K78", Asked((*SITE, *CRAY), {"MPICH_OFI_NIC_POLICY": "NUMAA"})),
    "hardware-alone": ("K84", Asked((*SITE, *MPICH), {"FI_CXI_RX_MATCH_MODE": "hardware"})),
    "queue-of-64": ("K85", Asked((*SITE, *MPICH), {"FI_CXI_DEFAULT_CQ_SIZE": "64"})),
    "queue-of-64k": ("K200", Asked((*SITE, *MPICH), {"FI_CXI_DEFAULT_CQ_SIZE": "64K"})),
    "cvar-of-2g": ("K200", Asked((*SITE, *MPICH), {"MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE": "2g"})),
    "threshold-16kb": ("K200", Asked((*SITE, *MPICH), {"FI_CXI_RDZV_THRESHOLD": "16kb"})),
    "threshold-256": ("K86", Asked((*SITE, *MPICH), {"FI_CXI_RDZV_THRESHOLD": "256"})),
    "threshold-16-mib": (
        "K86", Asked((*SITE, *MPICH), {"FI_CXI_RDZV_THRESHOLD": "16777216"})),
    "user-without-mapping": ("K87", Asked((*SITE, *CRAY), {"MPICH_OFI_NIC_POLICY": "USER"})),
    "numa-unbound": ("K58", Asked(
        (*SITE, *CRAY), {"MPICH_OFI_NIC_POLICY": "NUMA", "SLURM_CPU_BIND": "quiet,none"})),
    "queue-overflow": ("K50", Asked(SITE, {}, "Cassini Event Queue overflow detected.\n")),
    "list-entries-fatal": ("K51", Asked(SITE, {"FI_CXI_RX_MATCH_MODE": "hardware"}, FATAL)),
    "list-entries-append": ("K51", Asked(SITE, {}, APPEND)),
    "libcxi-symbol": ("K88", Asked((), {}, "fi_info: symbol lookup error: "
        "/opt/libfabric/lib/libfabric.so.1: undefined symbol: cxil_alloc_trig_cp\n")),
    "shm-addresses": ("K89", Asked(MPICH, {"FI_PROVIDER": "shm"}, "Abort(745161870) on node 0: "
        "Fatal error in internal_Init: Message truncated, error stack:\n")),
    "wheel-without-cxi": (
        "K29", Asked((*SITE, *MPICH, *OLD, "--fact", "cxi-provider=false"))),
}  # fmt: skip


@pytest.fixture
def asked(tmp_path: Path) -> Any:
    def ask(asked: Asked) -> list[dict[str, Any]]:
        env, log = tmp_path / "job.env", tmp_path / "job.log"
        env.write_text("".join(f"{k}={v}\n" for k, v in {"HOME": "/h", **asked.env}.items()))
        log.write_text(asked.log)
        return fired(*asked.words, "--env", env, *(("--log", log) if asked.log else ()))

    return ask


@pytest.mark.parametrize("name", PLANTED)
def test_the_right_cause_is_first(name: str, asked: Any) -> None:
    first, planted = PLANTED[name]
    assert [one["rule"] for one in asked(planted)][:1] == [first]


@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "intel-mpi"])
def test_a_tiny_dev_shm_is_told_by_what_each_mpi_printed(mpi: str, asked: Any) -> None:
    """Printed with 64 KiB in /dev/shm: MPICH and Intel MPI die by SIGBUS, Open MPI says it."""
    log = (CAPTURES / f"shm-small-{mpi}.log").read_text()
    wanted = "K81" if mpi == "openmpi" else "K122"
    assert next(one["rule"] for one in asked(Asked((), {}, log))) == wanted


def test_a_program_that_ends_with_7_has_no_bus_error(asked: Any) -> None:
    log = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   EXIT CODE: 7\n"
    assert "K81" not in [one["rule"] for one in asked(Asked((), {}, log))]


def test_a_misspelt_name_is_shown_with_the_one_that_was_meant(asked: Any) -> None:
    (found,) = [one for one in asked(PLANTED["pmll"][1]) if one["rule"] == "K77"]
    assert "OMPI_MCA_pml?" in found["evidence"][0]


# --- no false alarms ------------------------------------------------------------------------

HEALTHY = {
    "openmpi": (OPENMPI, {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm,tcp",
        "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_plm_rsh_agent": "ssh",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1", "OMPI_MCA_hwloc_base_binding_policy": "core",
        "OMPI_MCA_mpi_show_handle_leaks": "0", "OMPI_MCA_coll_hcoll_enable": "0"}),
    "openmpi-cxi": ((*SITE, *OPENMPI, "--have", "libfabric=2.5.1", "--fact", "launcher=srun",
        "--fact", "pmi=pmix", "--fact", "pmix-loads=true"), {"FI_PROVIDER": "cxi", "OMPI_MCA_pml": "cm",
        "OMPI_MCA_mtl": "ofi", "FI_CXI_RX_MATCH_MODE": "hybrid",
        "FI_CXI_DEFAULT_CQ_SIZE": "131072", "FI_MR_CACHE_MONITOR": "kdreg2"}),
    "mpich": (MPICH, {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp",
        "FI_PSM2_DEBUG": "0", "MPIR_CVAR_NOLOCAL": "0", "FI_PROVIDER_PATH": "/opt/lib"}),
    "intel-mpi": (("--fact", "mpi=intel-mpi"), {"I_MPI_ROOT": "/opt/impi",
        "I_MPI_FABRICS": "shm:ofi", "I_MPI_PMI_LIBRARY": "/usr/lib/libpmi2.so",
        "FI_PROVIDER": "tcp;ofi_rxm", "I_MPI_DEBUG": "5"}),
    "cray-mpich": ((*SITE, *CRAY), {"MPICH_GPU_SUPPORT_ENABLED": "1",
        "MPICH_OFI_NIC_POLICY": "GPU", "MPICH_OFI_NIC_VERBOSE": "2",
        "FI_CXI_RDZV_THRESHOLD": "16384", "MPICH_SMP_SINGLE_COPY_MODE": "XPMEM"}),
    "slurm": (("--fact", "mpi=mpich", "--fact", "launcher=srun", "--fact", "pmi=pmi2"),
        {"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_MPI_TYPE": "pmi2"}),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_environment_raises_no_alarm(name: str, asked: Any) -> None:
    words, env = HEALTHY[name]
    assert [one["rule"] for one in asked(Asked(words, env))] == []


def demo() -> Results:
    """Return the results of `make demo`: every median that it measured, on two loaded cores."""
    data = json.loads(gzip.decompress((CAPTURES / "demo-results.json.gz").read_bytes()))
    return Results(
        spec=noun.from_data(ResultsSpec, data["spec"]),
        measurements=tuple(noun.from_data(Measurement, one) for one in data["measurements"]),
    )


DEMO = demo()
ARMS = (DEMO.spec.baseline, str(DEMO.spec.null), *DEMO.spec.challengers)


def rules_of(results: Results, arm: str) -> list[str]:
    evidence = merged(of_results(results, arm), of_nodes(results, arm))
    if evidence.variables is not None:
        evidence = merged(evidence, of_spelling(evidence.variables, KNOWLEDGE))
    evidence = merged(evidence, implied(evidence))
    findings = diagnose(KNOWLEDGE, evidence)
    return [one.rule.id for one in findings if one.outcome.answer is Answer.YES]


@pytest.mark.parametrize("arm", ARMS)
def test_results_of_the_demo_raise_no_alarm(arm: str) -> None:
    assert rules_of(DEMO, arm) == []


def test_arms_on_different_paths_are_said_to_be_and_why_one_is_slow() -> None:
    intra, inter = path_words.differences(DEMO)
    assert "openmpi-ofi took tcp" in intra
    assert "a difference of speed between these is none of their MPIs" in intra
    assert "openmpi-lnx took lnx" in inter
    assert path_words.differences(keep(DEMO, lambda m: m.case.transport == "shm")) == ()


def test_arms_over_different_interfaces_are_said_to_be() -> None:
    """Nobody asked for it: one of two arms on a path sends over another interface."""
    apart = seen(DEMO, "mpich", tx_bytes={"lo": 10**9, "eth0": 10**5, "hsn0": 10**9})
    said = " ".join(path_words.differences(keep(apart, lambda m: m.case.transport == "tcp")))
    assert "the same path over different interfaces of the nodes: " in said
    assert "mpich over hsn0" in said
    assert "mpich over eth0" not in said


def test_launches_that_fell_back_are_named_first() -> None:
    wrong = Check(name="path", state=State.BAD, reason="wrong-transport", evidence="tcp, not shm")
    assert fallbacks(DEMO) == ()
    results = changed(
        DEMO, lambda one: replace(one, checks=(wrong,)), lambda one: one.arm == "mpich"
    )
    said = fallbacks(results)
    assert {text.partition(",")[0] for text in said} == {"mpich"}
    assert all("took another path than they were told to" in text for text in said)
    assert all(text.endswith("tcp, not shm") for text in said)
    evidence = of_results(results, "mpich")
    diagnosis = Diagnosis(evidence=evidence, findings=(), fallbacks=said)
    assert text_of(diagnosis, 96).startswith("Launches did not take the path that was asked for:")


# --- what nodes tell ------------------------------------------------------------------------


def seen(results: Results, arm: str, **rank: Any) -> Results:
    """Return results whose ranks of an arm say something else of themselves."""

    def of(one: Measurement) -> Measurement:
        return output(ranks=tuple(replace(other, **rank) for other in one.output.ranks))(one)

    return changed(results, of, lambda one: one.arm == arm)


def named(results: Results) -> Results:
    return changed(results, lambda one: replace(one, env={**one.env, "FI_TCP_IFACE": "hsn0"}))


def test_an_interface_of_the_nodes_is_there_whatever_this_machine_has() -> None:
    """The traffic used hsn0 of the nodes; the machine that asks has none."""
    sent = seen(DEMO, "mpich", tx_bytes={"lo": 1, "eth0": 1, "hsn0": 10**9})
    assert "K66" not in rules_of(named(sent), "mpich")
    assert rules_of(named(DEMO), "mpich") == ["K66"]


def test_a_core_that_others_use_is_the_first_finding() -> None:
    busy = seen(DEMO, "mpich", disturbance=Disturbance(wall_s=1.0, other_load=0.5))
    assert rules_of(busy, "mpich")[0] == "K83"
    assert "so they did of" not in of_cores(busy, "mpich").origins["fact core-shared"]
    base = DEMO.spec.baseline
    both = seen(busy, base, disturbance=Disturbance(wall_s=1.0, other_load=0.6))
    assert f"so they did of {base}" in of_cores(both, "mpich").origins["fact core-shared"]
    assert "so they did of" not in of_cores(both, base).origins["fact core-shared"]
    quiet = seen(DEMO, "mpich", disturbance=Disturbance(wall_s=1.0, other_load=0.02))
    assert "K83" not in rules_of(quiet, "mpich")


def test_doctor_keeps_to_the_width_of_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_results(DEMO, tmp_path / "results")
    assert "Arms took different paths" in stackproof("doctor", "--results", folder).stdout
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--results", str(folder)])
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 70


# --- spelling -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "slip"),
    [
        ("FI_PROVIDERS", "FI_PROVIDER", True), ("FI_PROVDER", "FI_PROVIDER", True),
        ("FI_PROVIEDR", "FI_PROVIDER", True), ("FI_PROXIDER", "FI_PROVIDER", True),
        ("FI_PROVIDER", "FI_PROVIDER", False), ("FI_PROVIDER_PATH", "FI_PROVIDER", False),
        ("FI_PSM3_X", "FI_PSM2_X", False), ("AB", "AC", False),
    ],
)  # fmt: skip
def test_one_slip_of_the_hand(one: str, other: str, slip: bool) -> None:
    assert one_slip(one, other) is slip


def test_no_known_name_is_one_slip_from_another_family_of_names() -> None:
    names = {name for setting in KNOWLEDGE.settings for name in setting.names}
    evidence = of_spelling(dict.fromkeys(names, "x"), KNOWLEDGE)
    assert evidence.facts["names-misspelt"] is False


def slowed(results: Results, arm: str, times: float) -> Results:
    """Return results on one path whose arm is so many times slower."""

    def slow(one: Measurement) -> Measurement:
        series = tuple(
            replace(
                each,
                values=tuple(
                    value * times if each.benchmark == "latency" else value / times
                    for value in each.values
                ),
            )
            for each in one.output.series
        )
        return replace(one, output=replace(one.output, series=series))

    kept = keep(results, lambda one: one.case.transport == "shm")
    return changed(kept, slow, lambda one: one.arm == arm)


def test_an_unexplained_slow_arm_is_told_with_the_ratio_of_compare_and_the_next_commands(
    tmp_path: Path,
) -> None:
    folder = write_results(slowed(DEMO, "mpich", 6), tmp_path / "results")
    text = stackproof("doctor", "--results", folder, "--arm", "mpich").stdout
    assert "No known problem is there" not in text
    assert f"$stackproofreport{folder}" in "".join(text.split())
    assert "$ stackproof doctor IMAGE --log slow.log" in text
    (line,) = re.findall(r"mpich: lowest ratio to intel-mpi (0\.\d+) \(", text)
    comparison = compare(load_results(folder))
    ratios = [
        cell.ratio
        for panel in comparison.panels
        for judgement in panel.judgements
        for cell in judgement.cells
        if judgement.arm == "mpich" and cell.ratio is not None
    ]
    assert line == ratio_text(min(ratios))
    assert line in stackproof("compare", folder).stdout


def test_results_without_a_slow_arm_name_none() -> None:
    assert slower_arms(compare(keep(DEMO, lambda one: one.block <= 1)), "nobody") == ()
