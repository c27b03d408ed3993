"""Headings that contradict what the user says, or each other; files of many processes; quotes."""

from __future__ import annotations

import pytest

from stackproof.bench.import_adding import add
from stackproof.bench.import_outputs import Imported, ImportSetup, OutputFile, import_outputs
from stackproof.bench.programs import osu, stray_output
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.results.case import Locality

INTRA = ImportSetup(name="x", locality=Locality.INTRA, memory=BufferPlace.HOST)
INTER = replace(INTRA, locality=Locality.INTER)
DEVICE = replace(INTER, memory=BufferPlace.DEVICE)
RATE = "# OSU MPI Multiple Bandwidth / Message Rate Test v7.4\n"
BANDWIDTH = "# OSU MPI-CUDA Bandwidth Test v7.3\n"
ALLREDUCE = "# OSU MPI Allreduce Latency Test v7.4\n"


def table(
    title: str, *, column: str = "Bandwidth (MB/s)", heading: str = "", factor: float = 2.0
) -> str:
    rows = "".join(f"{2**k:<10}{factor * 2**k:>20.2f}\n" for k in range(23))
    return f"{title}{heading}# Size      {column}\n{rows}"


def pairs(number: int, window: int = 64, factor: float = 2.0) -> str:
    heading = f"# [ pairs: {number} ] [ window size: {window} ]\n"
    rows = "".join(f"{2**k:<10}{factor * 2**k:>20.2f}{factor:>20.2f}\n" for k in range(23))
    return f"{RATE}{heading}# Size                  MB/s        Messages/s\n{rows}"


def buffers(send: str, receive: str) -> str:
    return f"# Send Buffer on {send} ({send[0]}) and Receive Buffer on {receive} ({receive[0]})\n"


def imported(setup: ImportSetup, **files: str) -> Imported:
    found = [OutputFile(arm=arm.rstrip("_"), name=f"{arm}.txt", text=files[arm]) for arm in files]
    return import_outputs(found, setup)


def refused(setup: ImportSetup, **files: str) -> str:
    with pytest.raises(StackproofError) as caught:
        imported(setup, **files)
    assert caught.value.reason is Reason.INVALID_VALUE
    return "\n".join(problem.message for problem in caught.value.problems)


def places(found: Imported) -> list[str]:
    return [one.case.placement.name for one in found.results.measurements]


def test_pairs_are_ranks() -> None:
    assert "64 processes, more than --ranks 2" in refused(replace(INTRA, ranks=2), a=pairs(32))
    (one,) = imported(INTRA, a=pairs(4)).results.measurements
    assert (one.case.placement.name, one.output.world_size) == ("1x8", 8)
    assert "2 to 64 nodes" in refused(INTER, a=pairs(32))
    assert places(imported(replace(INTER, nodes=2), a=pairs(32))) == ["2x32"]


def test_pairs_and_windows_of_arms_are_never_compared_unlike() -> None:
    found = imported(INTRA, a=pairs(1), b=pairs(32))
    assert places(found) == ["intra-node", "1x64"]  # two placements: nothing is compared
    assert "the window is 64" in refused(INTRA, a=pairs(2), b=pairs(2, window=16))
    assert "(`a`)" in refused(INTRA, a=pairs(2), a_=pairs(2, window=16))


@pytest.mark.parametrize(
    ("send", "receive", "setup", "words"),
    [
        ("DEVICE", "HOST", DEVICE, "one buffer is on the host"),
        ("HOST", "DEVICE", INTER, "one buffer is on the host"),
        ("MANAGED", "MANAGED", DEVICE, "managed memory"),
        ("MANAGED", "MANAGED", INTER, "managed memory"),
        ("HOST", "HOST", DEVICE, "on the host"),
        ("DEVICE", "DEVICE", INTER, "on the device"),
    ],
)
def test_buffers_that_are_elsewhere(
    send: str, receive: str, setup: ImportSetup, words: str
) -> None:
    assert words in refused(setup, a=table(BANDWIDTH, heading=buffers(send, receive)))


def test_buffers_on_the_device_are_taken_and_managed_titles_are_not() -> None:
    text = table(BANDWIDTH, heading=buffers("DEVICE", "DEVICE"))
    assert places(imported(DEVICE, a=text)) == ["inter-node-device"]
    managed = BANDWIDTH.replace("CUDA", "CUDA MANAGED")
    assert "managed memory" in refused(DEVICE, a=table(managed))


def test_datatypes_of_arms_must_be_the_same() -> None:
    setup = replace(INTRA, ranks=4)
    column = "Avg Latency(us)"
    one = table(ALLREDUCE, column=column, heading="# Datatype: MPI_INT.\n")
    other = table(ALLREDUCE, column=column, heading="# Datatype: MPI_FLOAT.\n")
    said = refused(setup, a=one, b=other)
    assert "the datatype is MPI_INT in a.txt, line 1 and MPI_FLOAT in b.txt" in said
    # What an older release does not print is no contradiction.
    silent = table(ALLREDUCE, column=column)
    assert imported(setup, a=one, b=silent).tables == 2
    with pytest.raises(StackproofError, match="datatype"):
        add(imported(setup, a=one).results, imported(setup, b=other).results)


def test_a_collective_needs_its_ranks() -> None:
    text = table(ALLREDUCE, column="Avg Latency(us)")
    assert "does not say how many ranks" in refused(INTRA, a=text)
    assert places(imported(replace(INTRA, ranks=4), a=text)) == ["1x4"]


def test_pairs_of_ranks_are_two_whatever_else_ran_in_the_job() -> None:
    text = table("# OSU MPI Bandwidth Test v7.4\n")
    text += table(ALLREDUCE, column="Avg Latency(us)")
    assert places(imported(replace(INTRA, ranks=8), a=text)) == ["intra-node", "1x8"]


# --- IMB ------------------------------------------------------------------------------------

RULE = "#----------------------------------------------------------------\n"
BANNER = RULE + "#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part\n" + RULE


def section(name: str, processes: int, waiting: int, factor: float = 1.0) -> str:
    more = f"# ( {waiting} additional processes waiting in MPI_Barrier)\n" if waiting else ""
    times = name == "Allreduce"
    columns = "t_min[usec]  t_max[usec]  t_avg[usec]" if times else "t[usec]   Mbytes/sec"
    rows = "".join(
        f"{size:>13}{1000:>13}" + "".join(
            f"{value:>13.2f}" for value in ((1, 2, 1.5) if times else (1.5, size / 1.5))
        ) + "\n"
        for size in (0, *(2**k for k in range(23)))
    )  # fmt: skip
    heading = f"# Benchmarking {name} \n# #processes = {processes} \n{more}"
    return f"\n{RULE}{heading}{RULE}       #bytes #repetitions  {columns}\n{rows}"


MANY = BANNER + section("PingPong", 2, 6) + "".join(
    section("Allreduce", n, 8 - n) for n in (2, 4, 8)
)  # fmt: skip


@pytest.mark.parametrize("ranks", [None, 8])
def test_a_file_of_2_4_8_processes_is_read_whole(ranks: int | None) -> None:
    found = imported(replace(INTRA, ranks=ranks), a=MANY, b=MANY)
    assert places(found)[:4] == ["intra-node", "intra-node", "1x4", "1x8"]
    assert [one.block for one in found.results.measurements] == [1] * 8
    assert found.results.spec.arms["a"].transport == "intra-node: auto, 1x4: auto, 1x8: auto"


def test_other_ranks_than_the_heading_says_are_refused() -> None:
    said = refused(replace(INTRA, ranks=4), a=MANY)
    assert "8 processes, more than --ranks 4; so with 3 more tables" in said


def test_where_a_part_of_the_processes_of_two_nodes_was_is_not_guessed() -> None:
    found = imported(replace(INTER, nodes=2), a=MANY)
    assert places(found) == ["2x4"]
    (note,) = found.notes
    assert note.startswith("a.txt:6: PingPong: only a part of its processes took part")
    assert note.endswith("the same at 2 more places, to line 68: Allreduce")
    alone = imported(replace(INTER, nodes=8), a=MANY)  # a rank on each node
    assert places(alone) == ["inter-node", "inter-node", "4x1", "8x1"]


# --- labels and quotes ----------------------------------------------------------------------

PLAIN = table("# OSU MPI Bandwidth Test v7.4\n")


@pytest.mark.parametrize(
    "label",
    [
        # As Open MPI 5.0.11 printed them.
        "[Sun Nov 22 10:24:4{} 2026]<stdout>: ", "[Sun Nov 22 10:24:4{} 2026][1,0]<stdout>: ",
        "[1,0]<stdout>: ", "[1,0][vm:7483]<stdout>: ", "[prterun-vm-7491@1,0]<stdout>: ",
        "[0]<stdout>: ",
        # As Open MPI 4 writes them, orte/mca/iof/base/iof_base_output.c.
        "Sun Nov 22 10:24:4{} 2026<stdout>:", "Sun Nov  2 10:24:4{} 2026[1,0]<stdout>:",
        # As people quote.
        "> ", ">", "> > ", "> [1,0]<stdout>: ",
    ],
)  # fmt: skip
def test_labels_and_quotes_are_taken_off(label: str) -> None:
    text = "".join(
        f"{label.format(number % 10)}{line}\n" for number, line in enumerate(PLAIN.splitlines())
    )
    (found,) = osu.read(text).tables
    (plain,) = osu.read(PLAIN).tables
    assert [row.values for row in found.rows] == [row.values for row in plain.rows]
    assert (found.reason, found.faults) == ("", ())


def test_an_answer_below_a_quote_is_another_table() -> None:
    """A quoted table and the answer's own are not put together."""
    quoted = "".join(f"> {line}\n" for line in PLAIN.splitlines()[:12])
    found = osu.read(f"Anna wrote:\n{quoted}\nHere it is\n{PLAIN}").tables
    assert [len(one.rows) for one in found] == [10, 23]
    mixed = osu.read(quoted + "\n".join(PLAIN.splitlines()[12:])).tables
    assert [len(one.rows) for one in mixed] == [10]


@pytest.mark.parametrize("version", ["7.0-lrbison3", "7.5.1", "7.2+git.1"])
def test_versions_of_forks_are_versions(version: str) -> None:
    (found,) = osu.read(PLAIN.replace("v7.4", f"v{version}")).tables
    assert (found.title, found.version) == ("MPI Bandwidth", version)


def test_a_number_is_no_label() -> None:
    assert stray_output.split_label("1024      12.50") == ("", "1024      12.50")
    assert stray_output.split_label("2: 1024  12.50") == ("2:", "1024  12.50")
