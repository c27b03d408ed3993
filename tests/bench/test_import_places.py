"""Where imported tables were measured: headings against the user and each other, worlds, quotes.

The numbers of this page are invented.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from refusals import refusal
from stackproof import cli
from stackproof.bench.import_outputs import (
    Imported,
    OutputFile,
    Remark,
    import_outputs,
    summarise,
)
from stackproof.bench.import_places import Distribution, ImportSetup
from stackproof.bench.programs import stray_output, tables
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.results.case import Locality

COVERS = ("bench/import_places.py",)

INTRA = ImportSetup(name="x", locality=Locality.INTRA, memory=BufferPlace.HOST)
INTER = replace(INTRA, locality=Locality.INTER)
DEVICE = replace(INTER, memory=BufferPlace.DEVICE)
RATE = "# OSU MPI Multiple Bandwidth / Message Rate Test v7.4\n"
BANDWIDTH = "# OSU MPI-CUDA Bandwidth Test v7.3\n"
ALLREDUCE = "# OSU MPI Allreduce Latency Test v7.4\n"


def table(title: str, *, column: str = "Bandwidth (MB/s)", heading: str = "", to: int = 23) -> str:
    rows = "".join(f"{2**k:<10}{1.5 + k:>20.2f}\n" for k in range(to))
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
    caught = refusal(imported, setup, **files)
    assert caught.reason is Reason.INVALID_VALUE
    return "\n".join(problem.message for problem in caught.problems)


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
        ("DEVICE", "HOST", DEVICE, "on `DEVICE` and `HOST`, and --memory"),
        ("HOST", "DEVICE", INTER, "on `DEVICE` and `HOST`, and --memory"),
        ("MANAGED", "MANAGED", DEVICE, "on `MANAGED`"),
        ("MANAGED", "MANAGED", INTER, "on `MANAGED`"),
        ("HOST", "HOST", DEVICE, "on `HOST`, and --memory says `device`"),
        ("DEVICE", "DEVICE", INTER, "on `DEVICE`, and --memory says `host`"),
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
    assert "on `MANAGED`" in refused(DEVICE, a=table(managed))


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
        import_outputs(
            [OutputFile(arm="b", name="b.txt", text=other)], setup, imported(setup, a=one).results
        )


def test_a_collective_needs_its_ranks() -> None:
    text = table(ALLREDUCE, column="Avg Latency(us)")
    assert "does not say how many ranks" in refused(INTRA, a=text)
    assert places(imported(replace(INTRA, ranks=4), a=text)) == ["1x4"]


# --- IMB ------------------------------------------------------------------------------------

RULE = "#----------------------------------------------------------------\n"
BANNER = RULE + "#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part\n" + RULE


def section(name: str, processes: int, waiting: int = 0) -> str:
    more = f"# ( {waiting} additional processes waiting in MPI_Barrier)\n" if waiting else ""
    times = not name.startswith("Ping")
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
    (found,) = tables.read(text).tables
    (plain,) = tables.read(PLAIN).tables
    assert [row.values for row in found.rows] == [row.values for row in plain.rows]
    assert (found.reason, found.faults) == ("", ())


def test_an_answer_below_a_quote_is_another_table() -> None:
    """A quoted table and the answer's own are not put together."""
    quoted = "".join(f"> {line}\n" for line in PLAIN.splitlines()[:12])
    found = tables.read(f"Anna wrote:\n{quoted}\nHere it is\n{PLAIN}").tables
    assert [len(one.rows) for one in found] == [10, 23]
    mixed = tables.read(quoted + "\n".join(PLAIN.splitlines()[12:])).tables
    assert [len(one.rows) for one in mixed] == [10]


@pytest.mark.parametrize("version", ["7.0-lrbison3", "7.5.1", "7.2+git.1"])
def test_versions_of_forks_are_versions(version: str) -> None:
    (found,) = tables.read(PLAIN.replace("v7.4", f"v{version}")).tables
    assert (found.title, found.version) == ("MPI Bandwidth", version)


def test_a_number_is_no_label() -> None:
    assert stray_output.split_label("1024      12.50") == ("", "1024      12.50")
    assert stray_output.split_label("2: 1024  12.50") == ("2:", "1024  12.50")


# --- several sizes of world in one log ------------------------------------------------------


def kinds(found: Imported) -> list[tuple[str, str]]:
    return [(one.case.benchmarks[0], one.case.placement.name) for one in found.results.measurements]


def osu(title: str, column: str, *, version: str = "7.4", heading: str = "", to: int = 23) -> str:
    head = f"\n# OSU MPI {title} Test v{version}\n"
    return table(head, column=column, heading=heading, to=to)


def osu_log(version: str) -> str:
    """Return two tests of two ranks and two collectives of all, in the words of a release."""
    column = "Avg Latency(us)" if version.startswith("7") else "Latency (us)"
    alltoall = "Alltoall" if version.startswith("5") else "All-to-All Personalized Exchange"
    return "".join((
        osu("Latency", column, version=version),
        osu("Bandwidth", "Bandwidth (MB/s)", version=version),
        osu("Allreduce Latency", "Avg Latency(us)", version=version, to=21),
        osu(f"{alltoall} Latency", "Avg Latency(us)", version=version, to=21),
    ))  # fmt: skip


BANNERS = (
    "#    Intel (R) MPI Benchmarks 4.1 Update 1, MPI-1 part    \n",
    "#    Intel (R) MPI Benchmarks 2019 Update 6, MPI-1 part    \n",
    "#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part\n",
)


def imb_log(banner: str, call: str = "") -> str:
    return f"{RULE}{banner}{RULE}{call}" + "".join(
        (
            section("PingPong", 2, 6),
            section("Allreduce", 2, 6),
            section("Allreduce", 4, 4),
            section("Allreduce", 8),
        )
    )


@pytest.mark.parametrize("version", ["5.3", "5.9", "7.1", "7.5"])
@pytest.mark.parametrize(("nodes", "all_ranks"), [(2, "2x256"), (4, "4x128"), (16, "16x32")])
def test_pairs_and_collectives_of_osu_are_one_import(
    version: str, nodes: int, all_ranks: str
) -> None:
    found = imported(replace(INTER, ranks=512, nodes=nodes), a=osu_log(version))
    assert kinds(found) == [
        ("latency", "inter-node"), ("bandwidth", "inter-node"),
        ("allreduce", all_ranks), ("alltoall", all_ranks),
    ]  # fmt: skip
    assert [one.output.world_size for one in found.results.measurements] == [2, 2, 512, 512]
    assert found.notes == ()
    inside = imported(replace(INTRA, ranks=96), a=osu_log(version))
    assert {name for _, name in kinds(inside)} == {"intra-node", "1x96"}


@pytest.mark.parametrize("banner", BANNERS)
@pytest.mark.parametrize(
    ("distribution", "names"),
    [
        (Distribution.BLOCK, ["intra-node", "intra-node", "1x4", "2x4"]),
        (Distribution.CYCLIC, ["inter-node", "inter-node", "2x2", "2x4"]),
    ],
)
def test_imb_with_processes_that_wait_is_imported_whole(
    banner: str, distribution: Distribution, names: list[str]
) -> None:
    setup = replace(INTER, nodes=2, distribution=distribution, limit=25000.0)
    found = imported(setup, a=imb_log(banner))
    assert [name for _, name in kinds(found)] == names
    assert found.notes == ()
    # The limit of the link is none of what stays within a node.
    assert set(found.results.spec.limits) == {
        one.case.placement.name
        for one in found.results.measurements
        if one.case.placement.locality is Locality.INTER
    }
    assert [one.output.world_size for one in found.results.measurements] == [2, 2, 4, 8]


def test_a_part_of_the_ranks_that_fills_no_node_has_a_name_of_its_own() -> None:
    text = f"{BANNERS[2]}{section('Allreduce', 4, 2)}"
    setup = replace(INTER, nodes=2, distribution=Distribution.BLOCK)
    (one,) = imported(setup, a=text).results.measurements
    assert one.case.placement.name == "4-on-2"
    assert [rank.node for rank in one.case.placement.ranks] == ["node1"] * 3 + ["node2"]


def test_a_map_of_imb_deals_ranks_anew() -> None:
    setup = replace(INTER, nodes=2, distribution=Distribution.BLOCK)
    found = imported(setup, a=imb_log(BANNERS[2], "# IMB-MPI1 -map 4x2 \n"))
    assert [name for _, name in kinds(found)] == ["2x4"]
    assert "`-map`" in found.notes[0]


def test_runs_of_fewer_ranks_in_one_log_keep_their_number() -> None:
    """A run of 2 processes and one of 512, IMB's and OSU's, are one log."""
    pairs = osu("Multiple Bandwidth / Message Rate", "MB/s   Messages/s", heading="PAIRS").replace(
        "PAIRS", "# [ pairs: 1 ] [ window size: 64 ]\n"
    )
    pairs = "".join(
        f"{line}{3:>20.2f}\n" if line[:1].isdigit() else f"{line}\n" for line in pairs.splitlines()
    )
    text = f"{BANNERS[1]}{section('PingPong', 2)}{section('Allreduce', 512)}{pairs}{osu_log('7.5')}"
    found = imported(replace(INTER, ranks=512, nodes=4), a=text)
    assert [name for _, name in kinds(found)] == [
        "inter-node", "4x128", "inter-node", "inter-node", "inter-node", "4x128", "4x128",
    ]  # fmt: skip
    assert found.notes == ()


def test_how_many_nodes_fewer_ranks_were_on_is_not_guessed() -> None:
    text = f"{BANNERS[2]}{section('Allreduce', 64)}{osu_log('7.5')}"
    found = imported(replace(INTER, ranks=512, nodes=4), a=text)
    assert [name for _, name in kinds(found)] == ["inter-node", "inter-node", "4x128", "4x128"]
    (note,) = found.notes
    assert "fewer than --ranks" in note


# --- what is left out, and why --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# OSU MPI Put-to-nowhere Latency Test v7.4\n", "no row stands below its title"),
        ("# OSU MPI Bandwidth Test v7.4\nsrun: error\n", "no row stands below its title"),
        (osu("Sum Latency", "Avg Latency(us)"), "no benchmark here measures this"),
        (osu("Latency", "Overall(us)"), "its columns are not known: Size, Overall(us)"),
        (BANNERS[2] + section("Reduce", 2), "no benchmark here measures this"),
        (BANNERS[2] + section("Bcast", 2).replace("t_min[usec]", "t_ovrl[usec]"), "are not those of"),
        (
            BANNERS[2] + section("PingPong", 4).replace("PingPong", "Biband").replace(
                "t[usec]   Mbytes/sec", "Mbytes/sec Msg/sec").replace("1.50", "   1"),
            "left out",
        ),
        (
            BANNERS[0] + f"{RULE}# Benchmarking Biband \n# #processes = 2 \n{RULE}"
            f"  #bytes #repetitions Mbytes/sec Msg/sec\n{8:>13}{10:>13}{1.5:>13.2f}{15:>13}\n",
            "before release 2018 they were 2^20",
        ),
        (
            BANNERS[2] + f"{RULE}# Benchmarking Biband \n# #processes = 4 \n{RULE}"
            f"  #bytes #repetitions Mbytes/sec Msg/sec\n{8:>13}{10:>13}{1.5:>13.2f}{15:>13}\n",
            "it adds up all pairs",
        ),
    ],
)  # fmt: skip
def test_what_is_left_out_says_why(text: str, words: str) -> None:
    found = imported(INTRA, a=text + osu("Latency", "Avg Latency(us)"))
    assert any(words in note for note in found.notes), found.notes
    assert found.results.measurements[-1].usable


def test_lost_marks_of_headings_are_read() -> None:
    text = osu("Latency", "Latency (us)", version="7.3", heading="# Datatype: MPI_CHAR.\n")
    (one,) = imported(INTRA, a=text.replace("# ", "")).results.measurements
    assert len(one.output.series) == 23
    assert one.host_facts["datatype"] == "MPI_CHAR"


def test_twenty_tables_with_the_same_fault_are_one_note() -> None:
    broken = osu("Latency", "Avg Latency(us)").replace("18.50", "18,50").replace("19.50", "19,50")
    found = imported(INTRA, a=broken * 20 + osu("Sum Latency", "Avg Latency(us)") * 5)
    assert len(found.notes) <= 5, found.notes
    assert any("the same at 39 more places, to line" in note for note in found.notes)


def test_notes_name_files_and_a_few_titles() -> None:
    remarks = [
        Remark(file=f"{n % 2}.txt", line=n, text=f"has {n} rows: `row {n}`", subject=f"T{n}")
        for n in range(10)
    ]
    (note,) = summarise(remarks)
    assert note == (
        "0.txt:0: T0: has 0 rows: `row 0`; the same at 9 more places of 2 files, to 1.txt:9: "
        "T1, T2, T3, T4, T5, T6, …"
    )


def test_the_verb_takes_how_ranks_were_dealt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "imb.txt"
    log.write_text(imb_log(BANNERS[0]))
    words = ["import", str(log), "--placement", "inter-node", "--nodes", "2", "--ranks", "8"]
    for more, said in ((["--distribution", "block"], "4 of 4"), ([], "1 of 4")):
        with pytest.raises(SystemExit) as stop:
            cli.main([*words, *more, "-o", str(tmp_path / f"r{len(more)}")])
        assert not stop.value.code
        printed = capsys.readouterr()
        assert f"{said} tables" in printed.out
        assert ("`--distribution`" in printed.err) is not more or more
