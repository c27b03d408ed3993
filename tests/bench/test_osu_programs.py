"""OSU's programs compiled for an arm from sources, run, read, and refused where they are wrong.

The sources are a stand-in (`tests/osustandin`), since OSU's own cannot be had from where tests get
what they need: programs that are configured, compiled and called as OSU's, and print as they do.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchroom import stackproof, write_spec
from need import installed_mpi, need
from refusals import refusal
from stackproof.bench.program_spec import Program
from stackproof.bench.programs import REGISTRY
from stackproof.bench.programs.osu import OSU_TESTS, OsuKind
from stackproof.bench.spec import parse_bench
from stackproof.build.effects import program_files
from stackproof.build.programs import ProgramWish, place_of, source_of
from stackproof.compare.effects.results import load_results
from stackproof.core.document import parse
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import State
from stackproof.results.metrics import CORE, METRICS, SOLVER

COVERS = ("bench/effects/compiled_programs.py",)

SOURCES = Path(__file__).parents[1] / "osustandin"
WANTED = ("latency", "bandwidth", "allreduce", "barrier", "put_latency")
PAIR = Placement(name="pair", ranks=(Rank(node="a"), Rank(node="a")))


def case(benchmark: str, **change: Any) -> Case:
    known = Case(
        program=OSU_TESTS[benchmark].program, benchmarks=(benchmark,), sizes=(8, 16, 32),
        placement=PAIR,
    )  # fmt: skip
    return replace(known, **change)


def osu(**more: object) -> dict[str, object]:
    return {"name": "OSU", "source": str(SOURCES), "benchmarks": list(WANTED), **more}


# --- what is asked and what is read ------------------------------------------------------------


def test_every_test_has_a_metric_and_every_metric_a_program() -> None:
    assert {*OSU_TESTS, *SOLVER} == set(METRICS)
    assert set(CORE) < set(OSU_TESTS)
    assert len({test.program for test in OSU_TESTS.values()}) == len(OSU_TESTS)
    assert all(REGISTRY[test.program].name == test.program for test in OSU_TESTS.values())
    for kind in OsuKind:
        assert any(test.kind is kind for test in OSU_TESTS.values())


@pytest.mark.parametrize(
    ("benchmark", "change", "words"),
    [
        ("latency", {}, "-m 8:32"),
        ("latency", {"memory": ("cuda", "cuda")}, "-m 8:32 -d cuda D D"),
        ("put_latency", {"memory": ("host", "rocm")}, "-m 8:32 -d rocm H D"),
        ("bandwidth", {"window": 16}, "-m 8:32 -W 16"),
        ("allreduce", {"memory": ("cuda", "cuda")}, "-m 8:32 -f -d cuda"),
        ("ibcast", {"options": ("-c", "-i", "7")}, "-m 8:32 -f -c -i 7"),
        ("barrier", {}, "-f"),
        ("cas_latency", {"sizes": (8,)}, ""),
    ],
)
def test_how_a_test_is_called(benchmark: str, change: dict[str, Any], words: str) -> None:
    asked = case(benchmark, **change)
    member = REGISTRY[asked.program]
    assert member.problems(asked) == ()
    assert " ".join(member.argv("x", asked)) == f"x {words}".strip()


@pytest.mark.parametrize(
    ("benchmark", "change", "words"),
    [
        ("latency", {"sizes": (8, 24)}, "24 does not follow"),
        ("latency", {"sizes": (0, 3)}, "3 does not follow"),
        ("latency", {"sizes": ()}, "no message size"),
        ("latency", {"benchmarks": ("bandwidth",)}, "`latency` and nothing else"),
        ("put_bw", {"placement": replace(PAIR, ranks=PAIR.ranks * 2)}, "two ranks"),
        ("allreduce", {"memory": ("host", "cuda")}, "two kinds of memory"),
        ("latency", {"memory": ("cuda", "rocm")}, "two kinds of memory"),
        ("latency", {"validate": True}, "`-c`"),
    ],
)
def test_what_a_test_cannot_do(benchmark: str, change: dict[str, Any], words: str) -> None:
    asked = case(benchmark, **change)
    program = OSU_TESTS[benchmark].program
    assert any(words in text for text in REGISTRY[program].problems(asked))


HEAD = "# OSU MPI Latency Test v{}\n"
FIVE = HEAD.format("5.9") + "# Size          Latency (us)\n"
SEVEN = HEAD.format("7.5") + (
    "# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)        Validation    P99 Tail Lat(us)\n"
)


def rows(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def read(text: str, benchmark: str = "latency", **change: Any) -> Any:
    asked = case(benchmark, **change)
    return REGISTRY[asked.program].parse(text.encode(), asked)


def test_columns_of_several_releases_are_read() -> None:
    old = read(FIVE + rows("8        1.25", "16       1.50", "32       2.00"))
    assert [one.values for one in old.series] == [(1.25,), (1.5,), (2.0,)]
    assert (old.program_version, old.complete, old.worlds) == ("5.9", True, 1)
    text = rows(*(f"{size:<10d}{size / 8:18.2f}{'Pass':>18}{9.0:18.2f}" for size in (8, 16, 32)))
    new = read(SEVEN + text)
    assert [one.values for one in new.series] == [(1.0,), (2.0,), (4.0,)]
    assert new.series[0].printed == {"Avg Latency(us)": 1.0, "P99 Tail Lat(us)": 9.0}
    assert new.series[0].validated == 8


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        (FIVE + rows("8        1.25", "16        nan", "32       2.00"), "not-a-number", "`nan`"),
        (FIVE + rows("8        1.25", "16        inf", "32       2.00"), "not-a-number", "`inf`"),
        (HEAD.format("9.0") + "# Size     Bandwidth (MB/s)\n" + rows("8        1.25"),
         "other-columns", "version 9.0 has no column"),
        ("# OSU MPI Bandwidth Test v7.4\n# Size     Bandwidth (MB/s)\n" + rows("8     1.25"),
         "other-program", "`MPI Bandwidth` is not what osu_latency prints"),
        (FIVE + rows("8        1.25", "16       1,500", "32       2.00"), "broken-row", "line 4"),
    ],
)  # fmt: skip
def test_what_is_no_result(text: str, reason: str, words: str) -> None:
    output = read(text)
    assert output.series == ()
    assert not output.complete
    assert words in output.refused[reason]


def test_a_failed_validation_is_no_result() -> None:
    lines = [f"{size:<10d}{1.0:18.2f}{'Fail':>18}{9.0:18.2f}" for size in (8, 16, 32)]
    output = read(SEVEN + rows(*lines))
    assert (output.validation_errors, output.series) == (1, ())


def test_a_table_that_was_cut_is_not_whole() -> None:
    output = read(FIVE + rows("8        1.25", "16       1.50"))
    assert not output.complete
    assert [one.size for one in output.series] == [8, 16]


def test_two_programs_that_are_alone_are_two_worlds() -> None:
    whole = FIVE + rows("8        1.25", "16       1.50", "32       2.00")
    output = read(whole + whole)
    assert (output.worlds, output.series, output.complete) == (2, (), False)


@pytest.mark.parametrize("text", ["", "\0\xff", "# OSU", "8 1.0\n" * 1000, "# Size\n"])
def test_anything_may_come(text: str) -> None:
    output = read(text)
    assert (output.series, output.complete) == ((), False)


@given(noise=st.binary(max_size=200), place=st.integers(0, 60))
def test_noise_changes_no_number(noise: bytes, place: int) -> None:
    """What stands in between is lost, or makes the table none; no number becomes another one."""
    whole = (FIVE + rows("8        1.25", "16       1.50", "32       2.00")).encode()
    asked = case("latency")
    output = REGISTRY[asked.program].parse(whole[:place] + noise + whole[place:], asked)
    if noise and not any(byte in b"0123456789.-\n\r" for byte in noise):
        right = {(8, 1.25), (16, 1.5), (32, 2.0)}
        assert {(one.size, one.values[0]) for one in output.series} <= right


# --- sources -----------------------------------------------------------------------------------


def archive(folder: Path, *, top: str = "osu-micro-benchmarks-7.4/") -> Path:
    path = folder / "osu.tar.gz"
    with tarfile.open(path, "w:gz") as target:
        for source in sorted(SOURCES.rglob("*")):
            if source.is_file():
                info = tarfile.TarInfo(f"{top}{source.relative_to(SOURCES)}")
                info.size = source.stat().st_size
                target.addfile(info, io.BytesIO(source.read_bytes()))
        outside = tarfile.TarInfo("../outside")
        outside.size = 1
        target.addfile(outside, io.BytesIO(b"x"))
        link = tarfile.TarInfo(f"{top}link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        target.addfile(link)
    return path


def test_an_archive_and_a_folder_hold_the_same(tmp_path: Path) -> None:
    path = archive(tmp_path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    folder = program_files.load_sources(ProgramWish(name="OSU", source=str(SOURCES)))
    packed = program_files.load_sources(
        Program(name="osu_latency", source=str(path), sha256=digest).sources
    )
    assert {name: packed[name] for name in folder} == dict(folder)
    assert set(packed) == set(folder)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("missing", Reason.FILE_MISSING),
        ("another", Reason.DIGEST_MISMATCH),
        ("folder", Reason.INVALID_VALUE),
        ("text", Reason.INVALID_VALUE),
        ("cut", Reason.INVALID_VALUE),
    ],
)
def test_sources_that_are_none(tmp_path: Path, what: str, reason: Reason) -> None:
    path = archive(tmp_path)
    if what == "text":
        path.write_text("no archive")
    elif what == "cut":
        path.write_bytes(path.read_bytes()[:300])
    named = {"missing": tmp_path / "none", "folder": SOURCES}.get(what, path)
    sha256 = "0" * 64 if what in {"another", "folder"} else ""
    caught = refusal(
        program_files.load_sources, ProgramWish(name="OSU", source=str(named), sha256=sha256)
    )
    assert caught.problems[0].reason is reason
    assert caught.problems[0].hint


def test_a_release_without_a_test_says_which_it_has() -> None:
    osu_wish = ProgramWish(name="OSU", source=str(SOURCES))
    source = source_of(osu_wish, program_files.load_sources(osu_wish))
    assert place_of("osu_bw", source, "there") == "c/mpi/pt2pt/standard/osu_bw"
    caught = refusal(place_of, "osu_ibcast", source, "there")
    assert "osu_put_latency" in (caught.problems[0].hint or "")
    assert "autoreconf" in (refusal(source_of, osu_wish, {"README": b""}).problems[0].hint or "")


def test_imb_is_compiled_by_its_makefile() -> None:
    content = {"Makefile": b"", "src_cpp/Makefile": b""}
    source = source_of(ProgramWish(name="IMB-MPI1", source="there"), content)
    assert source.commands[-1] == ("make", "IMB-MPI1", "CC={c}", "CXX={c++}")
    assert source.outputs == ("IMB-MPI1",)


# --- a specification ---------------------------------------------------------------------------


def spec_of(*programs: object, **more: object) -> Any:
    data = {"baseline": {"image": "a.squashfs"}, "programs": list(programs), **more}
    return parse_bench(parse(json.dumps(data), file="s.yaml"), folder="/there")


def test_osu_stands_for_a_program_for_each_benchmark() -> None:
    spec = spec_of("stackproof-bench", {"name": "OSU", "source": "osu.tar.gz", "options": ["-c"]},
                   benchmarks=["latency", "bcast"])  # fmt: skip
    names = [(one.name, one.benchmarks, one.source, one.options) for one in spec.programs]
    assert names[1:] == [
        ("osu_latency", ("latency",), "/there/osu.tar.gz", ("-c",)),
        ("osu_bcast", ("bcast",), "/there/osu.tar.gz", ("-c",)),
    ]
    assert len(spec_of({"name": "OSU", "source": "x"}).programs) == len(CORE)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "stackproof-bench", "source": "x"}, "`source` is not for `stackproof-bench`"),
        ({"name": "IMB-MPI1", "options": ["-c"]}, "`options` is not for `IMB-MPI1`"),
        ({"name": "IMB-MPI1", "sha256": "0" * 64}, "no archive"),
        ({"name": "IMB-MPI1", "benchmarks": ["put_bw"]}, "does not measure `put_bw`"),
    ],
)
def test_programs_that_cannot_be(entry: dict[str, object], words: str) -> None:
    caught = refusal(spec_of, entry)
    (problem,) = caught.problems
    assert words in problem.message
    assert problem.where is not None
    assert problem.where.line == 1


def test_osu_without_sources_is_for_arms_that_may_bring_it() -> None:
    for arm in "image", "pack":
        assert spec_of({"name": "OSU"}, baseline={arm: "a"}).programs[0].source == ""
    caught = refusal(spec_of, {"name": "OSU"}, challengers=[{"prefix": "/opt/mpich"}])
    assert "nothing says where they are" in caught.problems[0].message


# --- on a machine ------------------------------------------------------------------------------


@pytest.mark.battery
@pytest.mark.parametrize("release", ["5.9", "6.2", "7.4"])
def test_what_a_release_prints_is_read_for_an_image(room: Path, release: str) -> None:
    """Both programs of one arm; OSU's is compiled by the image's own wrapper, with it mounted."""
    tails = ["-z50"] if release.startswith("7") else []
    more = osu(configure=[f"--enable-standin-release={release}"], options=["-i", "9", "-c", *tails])
    spec = write_spec(room, f"osu{release}", programs=["stackproof-bench", more], sizes=[8, 16, 32])
    stackproof("bench", spec, "-o", f"osu{release}", "--no-verdict", cwd=room)
    results = load_results(str(room / f"osu{release}"))
    found = {one.case.program: one for one in results.measurements if one.block == 1}
    assert set(found) == {"stackproof-bench", *(OSU_TESTS[name].program for name in WANTED)}
    assert all(one.usable for one in found.values())
    latency = found["osu_latency"]
    assert latency.output.program_version == release
    assert [one.size for one in latency.output.series] == [8, 16, 32]
    checks = {check.name: check for check in latency.checks}
    assert checks["validation"].state is State.OK
    (barrier,) = found["osu_barrier"].output.series
    assert (
        barrier.printed["Min Latency(us)"] <= barrier.mean[0] <= barrier.printed["Max Latency(us)"]
    )
    assert barrier.values == (barrier.printed["Max Latency(us)"],)
    assert barrier.iterations == 9
    tail = found["osu_bw"].output.series[0].printed.get("P50 Tail BW(MB/s)")
    assert (tail is not None) is bool(tails)


@pytest.mark.battery
@pytest.mark.parametrize(
    ("env", "words", "code"),
    [
        ({"STANDIN_NAN": "16"}, "Avg Latency(us) is `-nan`", 7),
        ({"STANDIN_FAIL": "1"}, "received bytes were wrong", 7),
        ({"STANDIN_COLUMN": "Median(us)"}, "no heading that is known", 7),
        ({"STANDIN_TITLE": "MPI Bandwidth"}, "`MPI Bandwidth` is not what osu_latency prints", 7),
        ({"STANDIN_ENDS": "8"}, "the launcher exited with 9", 7),
    ],
)
def test_a_program_that_prints_nothing_of_use_ends_the_bench(
    room: Path, env: dict[str, str], words: str, code: int
) -> None:
    program = osu(benchmarks=["latency"], options=["-i", "3", "-c"])
    arm = {"name": "base", "image": "mpich.squashfs", "env": env}
    spec = write_spec(room, "bad", baseline=arm, programs=[program], sizes=[8, 16, 32])
    shutil.rmtree(room / "bad", ignore_errors=True)
    done = stackproof("bench", spec, "-o", "bad", "--no-verdict", cwd=room, ok=(code,))
    assert words in done.stderr, done.stderr


@pytest.mark.battery
def test_only_osus_programs_on_an_installed_mpi_and_an_image(room: Path) -> None:
    """Each is compiled by its own MPI's wrapper, from an archive with a digest."""
    packed = archive(room)
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    program = osu(source="osu.tar.gz", sha256=digest, benchmarks=["latency"], options=["-i", "9"])
    spec = write_spec(
        room, "both", programs=[program], sizes=[8, 16],
        baseline={"name": "host", "prefix": installed_mpi("mpich")},
        challengers=[{"name": "ours", "image": "mpich.squashfs"}],
    )  # fmt: skip
    stackproof("bench", spec, "-o", "both", "--no-verdict", cwd=room)
    timed = [one for one in load_results(str(room / "both")).measurements if one.block]
    assert {(one.arm, one.case.program) for one in timed} == {
        ("host", "osu_latency"), ("ours", "osu_latency")
    }  # fmt: skip
    assert all(one.usable for one in timed)
    programs = {next(word for word in one.argv if word.endswith("osu_latency")) for one in timed}
    assert len(programs) == 2
    (room / spec).write_text((room / spec).read_text().replace(digest, "0" * 64))
    done = stackproof("bench", spec, "-o", "other", cwd=room, ok=(5,))
    assert "not the archive that is meant" in done.stderr


@pytest.mark.battery
def test_what_does_not_compile_says_why(room: Path) -> None:
    need("gcc")
    broken = room / "broken"
    shutil.copytree(SOURCES, broken, dirs_exist_ok=True)
    (broken / "c" / "standin.h").write_text("#error this header is broken\n")
    program = osu(source=str(broken), benchmarks=["latency"])
    spec = write_spec(room, "broken", programs=[program], sizes=[8])
    done = stackproof("bench", spec, "-o", "none", cwd=room, ok=(5,))
    assert "make: ***" in done.stderr
    assert "error: base: " in done.stderr
    assert not (room / "none").exists()
