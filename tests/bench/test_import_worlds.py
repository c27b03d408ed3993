"""A log of tests with several sizes of world is imported whole; numbers of this page are invented."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import cli
from stackproof.bench import import_notes
from stackproof.bench.import_notes import Remark
from stackproof.bench.import_outputs import Imported, ImportSetup, OutputFile, import_outputs
from stackproof.bench.likeness import Distribution
from stackproof.core.errors import StackproofError
from stackproof.core.value import replace
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.results.case import Locality

INTRA = ImportSetup(name="x", locality=Locality.INTRA, memory=BufferPlace.HOST)
INTER = replace(INTRA, locality=Locality.INTER, limit=25000.0)
RULE = "#---------------------------------------------------\n"


def imported(setup: ImportSetup, text: str) -> Imported:
    return import_outputs([OutputFile(arm="a", name="a.txt", text=text)], setup)


def places(found: Imported) -> list[tuple[str, str]]:
    return [(one.case.benchmarks[0], one.case.placement.name) for one in found.results.measurements]


def osu(title: str, column: str, *, version: str = "7.4", heading: str = "", to: int = 23) -> str:
    rows = "".join(f"{2**k:<10}{1.5 + k:>20.2f}\n" for k in range(to))
    return f"\n# OSU MPI {title} Test v{version}\n{heading}# Size      {column}\n{rows}"


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


def imb(name: str, processes: int, waiting: int = 0) -> str:
    more = f"# ( {waiting} additional processes waiting in MPI_Barrier)\n" if waiting else ""
    pair = name.startswith("Ping")
    columns = "t[usec]   Mbytes/sec" if pair else "t_min[usec]  t_max[usec]  t_avg[usec]"
    rows = "".join(
        f"{size:>13}{1000:>13}{1.5:>13.2f}{size / 1.5:>13.2f}"
        + ("" if pair else f"{2:>13.2f}") + "\n"
        for size in (0, *(2**k for k in range(23)))
    )  # fmt: skip
    heading = f"# Benchmarking {name} \n# #processes = {processes} \n{more}"
    return f"\n{RULE}{heading}{RULE}       #bytes #repetitions  {columns}\n{rows}"


BANNERS = (
    "#    Intel (R) MPI Benchmarks 4.1 Update 1, MPI-1 part    \n",
    "#    Intel (R) MPI Benchmarks 2018, MPI-1 part    \n",
    "#    Intel (R) MPI Benchmarks 2019 Update 6, MPI-1 part    \n",
    "#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part\n",
)


def imb_log(banner: str, call: str = "") -> str:
    return f"{RULE}{banner}{RULE}{call}" + "".join(
        (imb("PingPong", 2, 6), imb("Allreduce", 2, 6), imb("Allreduce", 4, 4), imb("Allreduce", 8))
    )


@pytest.mark.parametrize("version", ["5.3", "5.9", "7.1", "7.5"])
@pytest.mark.parametrize(("nodes", "all_ranks"), [(2, "2x256"), (4, "4x128"), (16, "16x32")])
def test_pairs_and_collectives_of_osu_are_one_import(
    version: str, nodes: int, all_ranks: str
) -> None:
    found = imported(replace(INTER, ranks=512, nodes=nodes), osu_log(version))
    assert places(found) == [
        ("latency", "inter-node"), ("bandwidth", "inter-node"),
        ("allreduce", all_ranks), ("alltoall", all_ranks),
    ]  # fmt: skip
    assert [one.output.world_size for one in found.results.measurements] == [2, 2, 512, 512]
    assert found.notes == ()
    inside = imported(replace(INTRA, ranks=96), osu_log(version))
    assert {name for _, name in places(inside)} == {"intra-node", "1x96"}


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
    setup = replace(INTER, nodes=2, distribution=distribution)
    found = imported(setup, imb_log(banner))
    assert [name for _, name in places(found)] == names
    assert found.notes == ()
    # The limit of the link is none of what stays within a node.
    assert set(found.results.spec.limits) == {
        one.case.placement.name
        for one in found.results.measurements
        if one.case.placement.locality is Locality.INTER
    }
    assert [one.output.world_size for one in found.results.measurements] == [2, 2, 4, 8]


def test_a_part_of_the_ranks_that_fills_no_node_has_a_name_of_its_own() -> None:
    text = f"{BANNERS[3]}{imb('Allreduce', 4, 2)}"
    setup = replace(INTER, nodes=2, distribution=Distribution.BLOCK)
    (one,) = imported(setup, text).results.measurements
    assert one.case.placement.name == "4-on-2"
    assert [rank.node for rank in one.case.placement.ranks] == ["node1"] * 3 + ["node2"]


def test_a_map_of_imb_deals_ranks_anew() -> None:
    setup = replace(INTER, nodes=2, distribution=Distribution.BLOCK)
    found = imported(setup, imb_log(BANNERS[3], "# IMB-MPI1 -map 4x2 \n"))
    assert [name for _, name in places(found)] == ["2x4"]
    assert "`-map`" in found.notes[0]


def test_runs_of_fewer_ranks_in_one_log_keep_their_number() -> None:
    """A run of 2 processes and one of 512, IMB's and OSU's, are one log."""
    pairs = osu("Multiple Bandwidth / Message Rate", "MB/s   Messages/s", heading="PAIRS").replace(
        "PAIRS", "# [ pairs: 1 ] [ window size: 64 ]\n"
    )
    pairs = "".join(
        f"{line}{3:>20.2f}\n" if line[:1].isdigit() else f"{line}\n" for line in pairs.splitlines()
    )
    text = f"{BANNERS[2]}{imb('PingPong', 2)}{imb('Allreduce', 512)}{pairs}{osu_log('7.5')}"
    found = imported(replace(INTER, ranks=512, nodes=4), text)
    assert [name for _, name in places(found)] == [
        "inter-node", "4x128", "inter-node", "inter-node", "inter-node", "4x128", "4x128",
    ]  # fmt: skip
    assert found.notes == ()


def test_more_processes_than_there_were_are_refused_at_their_line() -> None:
    with pytest.raises(StackproofError) as caught:
        imported(replace(INTER, ranks=4, nodes=2), imb_log(BANNERS[0]))
    (problem,) = caught.value.problems
    assert "its heading says 8 processes, more than --ranks 4; so with 3 more" in problem.message
    assert (problem.where.file, problem.where.line) == ("a.txt", 6)


def test_how_many_nodes_fewer_ranks_were_on_is_not_guessed() -> None:
    text = f"{BANNERS[2]}{imb('Allreduce', 64)}{osu_log('7.5')}"
    found = imported(replace(INTER, ranks=512, nodes=4), text)
    assert [name for _, name in places(found)] == ["inter-node", "inter-node", "4x128", "4x128"]
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
        (BANNERS[3] + imb("Reduce", 2), "no benchmark here measures this"),
        (BANNERS[3] + imb("Bcast", 2).replace("t_min[usec]", "t_ovrl[usec]"), "are not those of"),
        (
            BANNERS[3] + imb("PingPong", 4).replace("PingPong", "Biband").replace(
                "t[usec]   Mbytes/sec", "Mbytes/sec Msg/sec").replace("1.50", "   1"),
            "left out",
        ),
        (
            BANNERS[0] + f"{RULE}# Benchmarking Biband \n# #processes = 2 \n{RULE}"
            f"  #bytes #repetitions Mbytes/sec Msg/sec\n{8:>13}{10:>13}{1.5:>13.2f}{15:>13}\n",
            "before release 2018 they were 2^20",
        ),
        (
            BANNERS[3] + f"{RULE}# Benchmarking Biband \n# #processes = 4 \n{RULE}"
            f"  #bytes #repetitions Mbytes/sec Msg/sec\n{8:>13}{10:>13}{1.5:>13.2f}{15:>13}\n",
            "it adds up all pairs",
        ),
    ],
)  # fmt: skip
def test_what_is_left_out_says_why(text: str, words: str) -> None:
    found = imported(INTRA, text + osu("Latency", "Avg Latency(us)"))
    assert any(words in note for note in found.notes), found.notes
    assert found.results.measurements[-1].usable


def test_lost_marks_of_headings_are_read() -> None:
    text = osu("Latency", "Latency (us)", version="7.3", heading="# Datatype: MPI_CHAR.\n")
    (one,) = imported(INTRA, text.replace("# ", "")).results.measurements
    assert len(one.output.series) == 23
    assert one.host_facts["datatype"] == "MPI_CHAR"


def test_twenty_tables_with_the_same_fault_are_one_note() -> None:
    broken = osu("Latency", "Avg Latency(us)").replace("18.50", "18,50").replace("19.50", "19,50")
    found = imported(INTRA, broken * 20 + osu("Sum Latency", "Avg Latency(us)") * 5)
    assert len(found.notes) <= 5, found.notes
    assert any("the same at 39 more places, to line" in note for note in found.notes)


def test_notes_name_files_and_a_few_titles() -> None:
    remarks = [
        Remark(file=f"{n % 2}.txt", line=n, text=f"has {n} rows: `row {n}`", subject=f"T{n}")
        for n in range(10)
    ]
    (note,) = import_notes.summarise(remarks)
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
