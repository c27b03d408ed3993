"""Reading what a job printed: labels, boxes, long and hostile logs, and what they betray."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowing import KNOWLEDGE
from stackproof.core import limits
from stackproof.doctor.answer import MOST_LINES, text_of
from stackproof.doctor.conditions import Answer, evaluate
from stackproof.doctor.diagnosis import Diagnosis
from stackproof.doctor.effects.collect import DoctorOptions, said
from stackproof.doctor.effects.logs import logs_of
from stackproof.doctor.evidence.log import of_log
from stackproof.doctor.evidence.variables import names_in, of_variables
from stackproof.doctor.log import grammar
from stackproof.doctor.log.extract import LogExtract, LogReader
from stackproof.doctor.log.lines import plain
from stackproof.doctor.log.patterns import search, words_of
from stackproof.doctor.log.story import story_of
from stackproof.doctor.rules import diagnose
from stackproof.knowledge.evidence import Evidence, merged, redacted

MIB = 1 << 20
ABORT = "Abort(15) on node 3 (rank 3 in comm 0): Fatal error in PMPI_Init: Other MPI error"


@pytest.mark.parametrize(
    ("line", "text", "rank"),
    [
        ("0: starts\n3: disk on fire", "disk on fire", 3),
        ("3: disk on fire", "disk on fire", None),
        ("3: Test command: srun --label a\n3: 0: starts\n3: 1: disk on fire", "disk on fire", 1),
        ("[1,4]<stderr>: disk on fire", "disk on fire", 4),
        ("[1,4]<stdout>:disk on fire", "disk on fire", 4),
        ("[prterun-n1-99@1,5]<stderr>: disk on fire", "disk on fire", 5),
        ("[0] starts\n[2] disk on fire", "disk on fire", 2),
        ("[3/40] disk on fire", "disk on fire", None),
        ("[rank2]: disk on fire", "disk on fire", 2),
        ("mpi-worker-7xk2p  | disk on fire", "disk on fire", None),
        ("[pod/mpi-worker-1/mpi] disk on fire", "disk on fire", None),
        ("2026-01-02T03:04:05.678Z disk on fire", "disk on fire", None),
        ("[1700000000.123456] [n1:19546:0]  disk on fire", "disk on fire", None),
        ("\x1b[1;31mdisk on fire\x1b[0m\r", "disk on fire", None),
        ("0: [n7:4712] starts\n1: [n7:4711] disk on fire", "disk on fire", 1),
        ("disk\0 on fire", "disk on fire", None),
    ],
)
def test_labels_are_taken_off(line: str, text: str, rank: int | None) -> None:
    *_, last = plain(line).lines
    assert (last.text, last.rank) == (text, rank)


def test_the_first_end_is_told_with_its_rank_and_the_bottom_of_its_stack() -> None:
    text = f"step 1\n{ABORT}, error stack:\nMPI_Init(8).....:\nhook(9): OFI thing went wrong\n"
    story = story_of(Evidence(logs={"job.out": text}))
    first, bottom = story.shown[:2]
    assert (first.line, first.rank, first.component) == (2, 3, "MPICH")
    assert bottom.text.endswith("OFI thing went wrong")
    assert story.first_failed == first


def test_a_call_after_the_start_is_told_with_the_rank_that_made_it() -> None:
    """Its frames may have `init` in their names, and the sender is named as well."""
    text = (
        "Abort(336762382) on node 1 (rank 1 in comm 0): Fatal error in internal_Recv: Message "
        "truncated, error stack:\nMPIDIG_recv_type_init(74): Message from rank 0 and tag 0 "
        "truncated; 80 bytes received but buffer size is 8000\n"
    )
    story = story_of(Evidence(logs={"job.out": text}))
    assert story.stage == "run"
    assert [event.rank for event in story.events] == [1, None]
    assert story_of(Evidence(logs={"job.out": text.replace("_Recv", "_Init")})).stage == "start"


@pytest.mark.parametrize(
    ("line", "mpi"),
    [
        ("MPIDI_NM_mpi_init_hook(689): OFI addrinfo() failed", "intel-mpi"),
        ("MPIDI_OFI_mpi_init_hook(1061): OFI addrinfo() failed", "intel-mpi"),
        ("find_provider(170).........: OFI fi_getinfo() failure", "mpich"),
        ("(/build/impi/_buildspace/release/../../src/mpid/ch4/src/ch4_comm.h)", "intel-mpi"),
        ("/opt/intel/oneapi/mpi/2021.4.0//lib/release/libmpi.so.12(+0x1c)", "intel-mpi"),
        ("/opt/mpich-4.2/lib/libmpi.so.12(+0x1c)", "mpich"),
    ],
)
def test_who_speaks_in_words_of_mpich(line: str, mpi: str) -> None:
    text = f"{ABORT}, error stack:\n{line}\n"
    evidence = merged(Evidence(logs={"x": text}), of_log(text, "x"))
    assert evidence.facts["mpi"] == mpi
    assert story_of(evidence).fatal[0].component == {"mpich": "MPICH"}.get(mpi, "Intel MPI")


def test_a_box_is_said_at_once() -> None:
    rule = "-" * 70
    text = f"{rule}\nThe flux capacitor was not able to\nreach 88 miles.\n\nHost: n1\n{rule}\n"
    (event,) = story_of(Evidence(logs={"x": text})).fatal
    assert event.text == "The flux capacitor was not able to reach 88 miles."


@pytest.mark.parametrize(
    ("line", "fact", "value"),
    [
        ("[n1:7] OPAL ERROR: Timeout in file x.c at line 1", "mpi", "openmpi"),
        ("MPIR_Init_thread(170): failed", "mpi", "mpich"),
        ("MPI VERSION    : CRAY MPICH version 8.1.28.29 (ANL base 3.4a2)", "mpi", "cray-mpich"),
        ("[0] MPI startup(): Intel(R) MPI Library, Version 2021.10", "mpi", "intel-mpi"),
        ("[mvapich_rank_0] aborting", "mpi", "mvapich"),
        ("srun: error: n1: task 3: Exited with exit code 1", "launcher", "srun"),
        ("[mpiexec@n1] Launch failed", "launcher", "mpiexec"),
        ("libfabric:1:170:cxi:core:cxip_domain():1<warn> no", "provider", "cxi"),
        (
            "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT",
            "ended",
            "hang",
        ),
        ("srun: error: Node failure on n7", "ended", "node-lost"),
        ("slurmstepd: error: Detected 2 oom_kill events in StepId=1.0", "ended", "killed"),
        ("[n1:7] Signal: Segmentation fault (11)", "signal", ("11",)),
    ],
)
def test_a_log_betrays_what_nobody_need_type(line: str, fact: str, value: object) -> None:
    assert of_log(f"{line}\n", "job.err").facts[fact] == value


def test_versions_are_read() -> None:
    found = of_log("MPI VERSION    : CRAY MPICH version 8.1.28.29 (ANL base 3.4a2)\n", "x")
    assert found.versions["cray-mpich"] == "8.1.28"
    assert of_log("Open MPI v4.1.5, package: x\n", "x").versions["openmpi"] == "4.1.5"


@pytest.mark.parametrize(
    "line",
    ["Hello from 0 (comm size: 1)", "0 / 1", "process 0 of 1", "I am rank 0 of 1", "world size = 1",
     "Running on 1 MPI process", "rank 0 out of 1 processors", "Rank 0 of 1 on node a",
     "1: I am 0 out of 1", "I am rank 0 and the size is 1"],
)  # fmt: skip
def test_ranks_that_are_alone_say_so_in_words_of_any_program(line: str) -> None:
    assert of_log(f"{line}\n" * 3, "x").facts["worlds"] == 3.0
    assert "worlds" not in of_log(f"{line}\n", "x").facts


def test_a_program_that_goes_on_did_not_fail() -> None:
    box = "-" * 70 + "\nA requested component was not found, or was unable to be opened.\n\n"
    box += "Framework: pml\nComponent: ucx\n" + "-" * 70 + "\n"
    evidence = of_log(box + "# OSU MPI Latency Test\n1     2.5\n2     2.6\n", "x")
    assert evidence.facts["went-on"] is True
    assert of_log(box, "x").facts["went-on"] is False
    died = box + "1     2.5\nsrun: error: n1: task 0: Aborted\n"
    assert of_log(died, "x").facts["went-on"] is False


ASKED = "libfabric:7:1:core:core:fi_getinfo_():1300"
BY_BTL = "[n1:7] mca: bml: Using tcp btl for send to [[1,1],1] on node n2"
BY_TCP = "libfabric provider: tcp;ofi_rxm - eth0"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("Open MPI's OFI driver detected multiple equidistant NICs from the current process,", "K201"),
        (f"{ASKED}<warn> fi_getinfo: provider cxi output empty list\n{BY_BTL}", "K202"),
        (f"{ASKED}<info> fi_getinfo: provider cxi returned -61 (No data available)\n{BY_TCP}", "K202"),
    ],
)  # fmt: skip
def test_a_slow_way_is_named_though_the_program_goes_on(line: str, rule: str) -> None:
    text = f"{line}\n# OSU MPI Latency Test\n1     82.5\n2     82.6\n"
    evidence = merged(of_log(text, "x"), Evidence(logs={"x": text}))
    assert evidence.facts["went-on"] is True
    fired = [
        one.rule.id for one in diagnose(KNOWLEDGE, evidence) if one.outcome.answer is Answer.YES
    ]
    assert fired[:1] == [rule]


def test_cxi_that_answers_another_question_is_no_slow_way() -> None:
    """libfabric asks a provider several times; the last word is the provider that is used."""
    text = (
        f"{ASKED}<info> fi_getinfo: provider cxi returned -61\n"
        "libfabric provider: cxi - cxi0\n# OSU MPI Latency Test\n1     2.5\n2     2.6\n"
    )
    evidence = merged(of_log(text, "x"), Evidence(logs={"x": text}))
    assert not any(one.outcome.answer is Answer.YES for one in diagnose(KNOWLEDGE, evidence))


# --- length, and hostile content ------------------------------------------------------------


@pytest.mark.battery
def test_of_a_long_log_the_complaint_in_the_middle_is_kept_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    filler = "".join(f"step {number} energy {number * 3}\n" for number in range(200_000))
    path.write_text(f"{filler}{ABORT}\n{filler}")
    started = time.process_time()
    kept = logs_of(str(path))
    assert time.process_time() - started < 20
    assert len(kept.text) <= limits.LOG_KEPT.bytes
    number = kept.numbers[kept.text.split("\n").index(ABORT)]
    assert number == 200_001
    evidence = Evidence(logs={"x": kept.text}, line_numbers={"x": kept.numbers})
    assert story_of(evidence).first.line == number  # type: ignore[union-attr]


@pytest.mark.battery
@pytest.mark.parametrize(
    "piece",
    [b"x" * MIB, b"\n" * MIB, b"\0\xff\xfe\x1b[31m" * (MIB // 8), b"error " * (MIB // 6),
     b"\r" * MIB, b"x\r" * (MIB // 2), b"error\r" * (MIB // 6), b"error a\r\r\n" * (MIB // 10),
     b"error 1\n" * (MIB // 8), b"-" * 70 + b"\n", b"0: " * (MIB // 3), b"[1,1]<stdout>:" * 9999],
)  # fmt: skip
def test_a_hostile_log_is_harmless(piece: bytes) -> None:
    reader = LogReader()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        reader.feed(piece)
    kept = reader.extract()
    assert len(kept.text) <= limits.LOG_KEPT.bytes
    evidence = merged(
        Evidence(logs={"x": kept.text}, line_numbers={"x": kept.numbers}), of_log(kept.text, "x")
    )
    text = text_of(Diagnosis(evidence=evidence, findings=diagnose(KNOWLEDGE, evidence)), 96)
    assert "\x1b" not in text
    assert len(text.split("\n")) <= MOST_LINES
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10 < 200


BAR = b"".join(b"\r %d%% |####    | %d/100 [00:01<00:02, 9.1MB/s]" % (n, n) for n in range(100))
FULL = b"ERROR: [Errno 28] No space left on device"


def _read(*pieces: bytes) -> LogExtract:
    reader = LogReader()
    for piece in pieces:
        reader.feed(piece)
    return reader.extract()


@pytest.mark.parametrize(
    "log",
    [BAR * 999 + b"\r" + FULL + b"\n",  # megabytes, and the end is what is shown
     BAR * 500 + b"\r" + FULL + b"\r" + BAR * 500 + b"\x1b[K\r\x1b[?25h\n",  # written over
     b"\x1b[2K\r" + FULL + b"\r\n", b"ok\n" * 400_000 + BAR * 999 + FULL + BAR + b"\n",
     BAR * 999 + b"\r" + FULL],
)  # fmt: skip
def test_what_a_progress_bar_ends_with_or_writes_over_is_found(log: bytes) -> None:
    kept = _read(*(log[start : start + MIB] for start in range(0, len(log), MIB)))
    assert len(kept.text) < limits.LOG_KEPT.bytes
    told = story_of(Evidence(logs={"x": redacted(kept.text)}, line_numbers={"x": kept.numbers}))
    assert told.first is not None
    assert FULL.decode() in told.first.text
    assert told.first.line == log.count(b"\n") + (not log.endswith(b"\n"))


def test_a_bar_is_shown_as_a_terminal_shows_it_last() -> None:
    text = _read(b"begin\r\n" + BAR + b"\nend\r\r\n").text
    assert [line.text.strip() for line in plain(text).lines] == [
        "begin", "99% |####    | 99/100 [00:01<00:02, 9.1MB/s]", "end"
    ]  # fmt: skip
    assert [line.number for line in plain("a\rb\nc").lines] == [1, 1, 2]


@pytest.mark.parametrize("size", [900, 5000, 3 * MIB])
def test_of_a_long_line_both_ends_are_kept(size: int) -> None:
    line = b"srun: error: " + b"a word " * (size // 7) + b"Cannot allocate memory"
    for log in (line + b"\n", b"x\n" * 400_000 + line + b"\n" + b"y\n" * 400_000):
        kept = _read(*(log[start : start + MIB] for start in range(0, len(log), MIB)))
        found = next(one.text for one in plain(kept.text).lines if "srun" in one.text)
        assert found.startswith("srun: error: a word")
        assert found.endswith("Cannot allocate memory")
        assert len(found) <= limits.LINE_KEPT.bytes


def test_no_secret_stays_where_its_name_goes_with_the_middle() -> None:
    for filler in range(300, 400):
        text = _read(b"a " * (filler // 2) + b"--password hunter2secret " + b"b " * 450).text
        assert "hunter2" not in redacted(text)
    cut = redacted("a " * 600 + "PASSWORD=hunter2 end")
    assert "hunter2" not in cut
    assert cut.endswith(" end")
    assert redacted(cut) == cut


@given(st.binary(max_size=200), st.integers(0, 200))
def test_where_a_log_is_cut_into_pieces_is_no_matter(log: bytes, place: int) -> None:
    assert _read(log[:place], log[place:]) == _read(log)


@pytest.mark.battery
def test_every_form_of_a_line_is_looked_for_without_walking_back() -> None:
    """A line of the greatest length that almost fits costs milliseconds."""
    hostile = [("error " * 200)[:1000], ("a(1)" * 250), ("[" * 1000), (" .:" * 333), ("'" * 1000)]
    started = time.process_time()
    for text in hostile:
        for pattern in (grammar.FATAL, grammar.COMPLAINT, grammar.DEAD, grammar.PROGRESS):
            pattern.search(text)
        plain(text)
    assert time.process_time() - started < 2


# --- patterns -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("not enough slots", "there are not\n  enough slots", True),
        ("not enough slots", "not enoughslots", False),
        ("(a|b)? ?name", "my name", True),
        # Without a limit each blank would be the start of a look through all of them.
        ("not enough", f"not\n{' ' * 79}enough", True),
        ("not enough", f"not{' ' * 81}enough", False),
        ("(not)? *enough$", f"not{' ' * 500_000}?", False),
        # The cheap look for words must never hide what the pattern itself would find.
        ("cannot open shared object file|=> not found", "libx.so => not found", True),
        ("(?:a|b){1,3}(foo)?bar", "aabar", True),
        ("(?!no)(?:failed|refused)?here|x", "here", True),
    ],
    ids=["break", "none", "maybe", "page", "pages", "walk", "words", "short", "absent"],
)
def test_a_space_of_a_pattern_fits_a_line_break(pattern: str, text: str, fits: bool) -> None:
    assert any(search(pattern, text)) is fits


def test_a_column_of_numbers_is_no_row_of_a_table() -> None:
    rows = "1\n" * 30_000
    assert "wrong-bytes" not in of_log(f"{rows}Fail\n", "x").facts
    assert of_log(f"{rows}1 2.5 \t 3.1  Fail \n", "x").facts["wrong-bytes"] == 1.0


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("disk full", ("disk",)),
        # Words of a group that must be there, and rather a rare one than what all complaints have.
        (r"(mount|\w+_ns)\b.{0,80}(denied|refused)", ("denied", "refused")),
        ("(fails )?x.{3}(abcd|ef)", ()),
        ("(?!never)(?<=ever)x(?P<name>error)", ("error",)),
        ("failed to psec|[a(|]bcdef", ("psec", "bcdef")),
        ("(a|b)c.{0,160}fullness|quota exceeded", ("fullness", "exceeded")),
        ("x+y?|longer", ()),
        (r"[Ss]ignal:? 7\b", ("ignal",)),
    ],
)
def test_words_that_must_stand_there(pattern: str, words: tuple[str, ...]) -> None:
    assert words_of(pattern) == words


# --- variables ------------------------------------------------------------------------------


def test_lists_of_providers_are_read_as_their_reader_does() -> None:
    assert names_in("^psm3,TCP") == (True, ("psm3", "tcp"))
    assert names_in("tcp;ofi_rxm") == (False, ("tcp", "ofi_rxm"))


@pytest.mark.parametrize(
    ("fabric", "mpi", "value", "fires"),
    [
        ("slingshot-11", "openmpi", "psm2", True), ("slingshot-11", "openmpi", "^psm2", False),
        ("slingshot-11", "openmpi", "psm2,cxi", False), ("infiniband", "openmpi", "cxi", True),
        ("slingshot-11", "mpich", "psm2", False), ("none", "openmpi", "psm2", False),
    ],
)  # fmt: skip
def test_a_list_of_the_mpi_itself(fabric: str, mpi: str, value: str, fires: bool) -> None:
    evidence = Evidence(
        facts={"fabric": fabric, "mpi": mpi}, variables={"OMPI_MCA_mtl_ofi_provider_include": value}
    )
    assert of_variables(evidence, KNOWLEDGE).facts.get("own-provider-list", False) is fires


def test_a_variable_that_a_release_does_not_read() -> None:
    name = {"MPIR_CVAR_OFI_USE_PROVIDER": "sockets"}
    facts = {"mpi": "mpich"}
    for version, gone in (("4.1.1", True), ("3.2", False)):
        evidence = Evidence(facts=facts, versions={"mpich": version}, variables=name)
        assert of_variables(evidence, KNOWLEDGE).facts["names-no-longer-read"] is gone


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [("FI_CXI_DEFAULT_CQ_SIZE", "64K", False), ("FI_MR_CACHE_MAX_SIZE", "1GiB", False),
     ("FI_CXI_DEFAULT_CQ_SIZE", "65536", True), ("FI_PROVIDER", "tcp", True),
     ("MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE", "2g", False),
     ("UCX_RNDV_THRESH", "16k", True), ("UCX_RNDV_THRESH", "8KB", True),
     ("UCX_RNDV_THRESH", "8KiB", False), ("UCX_RC_TIMEOUT", "10ms", True),
     ("OMPI_MCA_btl_tcp_eager_limit", "64k", True), ("OMPI_MCA_btl_sm_max_send_size", "1MiB", True),
     ("OMPI_MCA_btl_sm_max_send_size", "1t", False), ("SLURM_MEM_PER_NODE", "64G", True)],
)  # fmt: skip
def test_a_suffix_counts_where_its_reader_knows_it(name: str, value: str, read: bool) -> None:
    found = of_variables(Evidence(variables={name: value}), KNOWLEDGE)
    assert found.facts["suffix-not-read"] is not read
    assert (f"{name}={value}: " in found.origin("fact", "suffix-not-read")) is not read


@pytest.mark.parametrize(
    ("rule", "name", "fires", "silent"),
    [("K85", "FI_CXI_DEFAULT_CQ_SIZE", ("64", "64K", " 1023", "1M", "512 entries"),
      ("0", "1024", "1024K", "131072", "0x40000", "")),
     ("K86", "FI_CXI_RDZV_THRESHOLD", ("16K", "2047", "0", "16777216", "8M", "1000000B"),
      ("2048", "16384", "16384B", "999999", "0x4000"))],
)  # fmt: skip
def test_a_size_is_what_libfabric_reads_of_it(
    rule: str, name: str, fires: Sequence[str], silent: Sequence[str]
) -> None:
    when = next(one.when for one in KNOWLEDGE.rules if one.id == rule)
    for values, answer in ((fires, Answer.YES), (silent, Answer.NO)):
        for value in values:
            found = evaluate(when, Evidence(variables={name: value}), KNOWLEDGE.newest)
            assert found.answer is answer, value


def test_facts_have_the_type_that_their_readers_ask_for() -> None:
    words = ("worlds=2", "signal=11", "slurm-pmix=4,5", "memlock-kib=64.5", "container=true")
    told = said(DoctorOptions(facts=(*words, "node=gh200", "uses=probe,rma")), KNOWLEDGE).facts
    assert told == {
        "worlds": 2.0, "signal": ("11",), "slurm-pmix": ("4", "5"), "memlock-kib": 64.5,
        "container": True, "node": "gh200", "uses": ("probe", "rma"),
    }  # fmt: skip


LOGS = Path(__file__).parents[1] / "captures" / "doctor"
USUAL = (
    "srun: error: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    "module imported from /opt/app", "format not supported, text is written", "12 results reported",
    "wifi_on=1", "exported 3 variables", "keys are sorted", "HTML5 is supported", "a step was aborted",
)  # fmt: skip


@pytest.mark.parametrize("text", ["", *(path.name for path in sorted(LOGS.glob("*.log")))])
def test_a_part_of_a_word_is_no_evidence(text: str) -> None:
    """What every program may print tells of no MPI, whatever was known before."""
    before = (LOGS / text).read_text(errors="replace") if text else ""
    facts, more = (
        of_log(before + words, "log").facts for words in ("", "\n" + "\n".join(USUAL) + "\n")
    )
    assert more.get("mpi") == facts.get("mpi")
    assert more.get("provider") == facts.get("provider")


LISTINGS = {
    "mpichversion": "MPICH Device:       ch4:ucx ofi\nMPICH error checking: enabled",
    "MPIR_CVAR_DEBUG_SUMMARY": (
        "tag_bits: 30\n===============================\n==== Various sizes and limits ====\n"
        "sizeof(MPIDI_per_vci_t): 128\nMPICH 5.0.2 -  - Fri Sep 25 20:45:26 UTC 2026\n"
        "error checking    : enabled\nthread CS         : per-vci\n"
        "==== data structure summary ====\nsizeof(MPIR_Comm): 1832\n"
        "================================"
    ),
    "mpivars": (
        "\tMPIR_CVAR_REQUEST_ERR_FATAL     =0\tSCOPE_LOCAL\tNo-object\tMPI_INT\t"
        "VERBOSITY_USER_BASIC\tThe default MPI_ERRS_ARE_FATAL error handler will dump a error stack\n"
        "error   - throw an error"
    ),
    "ompi_info -a": (
        '            MCA mca base: parameter "mca_base_component_show_load_errors" (current value: '
        '"all", data source: default)\n                          Whether to abort when a specified '
        "component isn't found or cannot be loaded\n  MPI parameter check: runtime\n"
        "   mpirun default --prefix: no\n FT MPI support: error checking yes"
    ),
    "select": "[n1:7] select: init returned failure for component ofi",
    "fi_info -e": "# FI_HMEM_DISABLE_P2P: Boolean (0/1, on/off, true/false, yes/no)\n"
    "# FI_SOCKETS_CONN_TIMEOUT: Integer\n# sockets: retries before reporting as failure",
    "ucx_info -cf": (
        "#\n# syntax:    [FATAL|ERROR|WARN|DIAG|INFO]\nUCX_LOG_LEVEL_TRIGGER=FATAL\n#\n"
        "# If non-empty, send mail notification for fatal errors.\nUCX_LOG_LEVEL=WARN"
    ),
    "UCX_LOG_LEVEL": "[1700000000.1] [n1:5:0] sys.c:453 UCX DEBUG failed to open "
    "/proc/sys/kernel/yama/ptrace_scope: No such file or directory",
    "FI_LOG_LEVEL": "libfabric:7:core:core:ofi_reg_dl_prov():648<debug> dlopen(x): cannot open",
    "mpiexec -verbose": (
        "[mpiexec@n1] Timeout set to -1 (-1 means infinite)\n\n" + "=" * 98 + "\n"
        "mpiexec options:\n----------------\n  Base path: /opt/mpich/bin/"
    ),
    "I_MPI_HYDRA_DEBUG": (
        "[mpiexec@n1] Launch arguments: /opt/bin//hydra_bstrap_proxy --upstream-host n1\n"
        " -----------------------------------------\n            Topology parameters\n"
        " -----------------------------------------\n Topology restricted    : no"
    ),
    "scontrol": "   StdErr=/p/u/job-error.err\nMessageTimeout          = 10 sec\n"
    "   ErrorFile=/p/u/job.err MailType=INVALID_DEPEND,BEGIN,END,FAIL",
    "sbatch": "#SBATCH --error=job.%j.err\n#SBATCH --error job.err\nsteps: --error=err.%t",
    "counters": "RX errors 0  dropped 0\nerrors: 0\nfailed = 0\nInvalid count : 0\nerrors = 0",
    "states": 'error-correction: on\nabort on error: false\naborted: no\nerror string: "none"',
    "places": "Logging errors to /tmp/x/error.log\nError output: stderr\nError handler: default",
    "words": "Success (no error)\ntest finished with no errors\nTimeout (s): 300\ntimeout set to 60",
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_setting_by_the_name_of_an_error_is_no_complaint(name: str) -> None:
    evidence = Evidence(logs={"job.log": f"starts\n{LISTINGS[name]}\n"})
    assert [event.text for event in story_of(evidence).events] == []
    evidence = merged(of_log(evidence.logs["job.log"], "job.log"), evidence)
    fires = [
        one.rule.id for one in diagnose(KNOWLEDGE, evidence) if one.outcome.answer is Answer.YES
    ]
    assert fires == []


@pytest.mark.parametrize(
    "line",
    [
        "error code: 13", "failed: 3", "# ERROR: broken", "foo.c:12: error: bar", "read error",
        "connect timeout after 30 s", "app: write error on file /x/error.log", "status: failed",
        "cannot open error.log", "unknown option --error", "Timeout: exceeded 5 s", "error: no disk",
        "   error = Connection refused", "srun: error: Unable to create step",
    ],
)  # fmt: skip
def test_an_error_is_a_complaint(line: str) -> None:
    (event, *_) = story_of(Evidence(logs={"job.log": f"{line}\n"})).events
    assert event.text == line.strip()
