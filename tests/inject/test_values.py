"""Values that programs hand to MPI: the shipped table, faults in one, and what is said of programs."""

from __future__ import annotations

import itertools

import pytest

from elflab import Lab
from injectlab import USES_MPICH, judged, uses_mpich
from stackproof.core import document
from stackproof.core.errors import Reason, StackproofError
from stackproof.inject.effects.check import compiled_of
from stackproof.inject.effects.known_releases import load_releases
from stackproof.inject.model import Cause, Effect, Finding, InjectionVerdict, Judgement
from stackproof.inject.values import find, parse_values
from stackproof.linking.elf import telling

GOOD = """
sources:
  mpich: {title: a header, url: "https://example.org/mpi.h"}
groups:
  sizes: [mpi_type_size]
constants:
  - value: 0x54000003
    rows:
      - {of: mpich, releases: "..3.4.3", harmless-in: [sizes]}
      - {of: mpich, releases: "4.0.2..", is: MPI_ERRORS_ABORT}
"""


def parsed(text):
    return parse_values(document.parse(text, file="values.yaml"))


def test_a_table():
    (known,) = parsed(GOOD)
    assert known.meaning("mpich", "4.1").name == "MPI_ERRORS_ABORT"
    assert known.meaning("mpich", "3.4.3").name == ""
    assert known.meaning("mpich", "3.4.3").harmless == {"mpi_type_size"}
    assert known.meaning("mpich", "4.0.1") is None
    assert known.meaning("mpich", "") is None
    assert known.meaning("intel-mpi", "2021.13") is None


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("of: mpich", "of: nothing", Reason.INVALID_VALUE),
        ('"4.0.2.."', '"4.0.2"', Reason.INVALID_VALUE),
        ("is: MPI", "is: mpi", Reason.INVALID_VALUE),
        ("value: 0x54000003", "value: many", Reason.WRONG_TYPE),
        ("rows:", "rowes:", Reason.UNKNOWN_KEY),
    ],
)
def test_faults(old, new, reason):
    with pytest.raises(StackproofError) as caught:
        parsed(GOOD.replace(old, new))
    assert reason in {problem.reason for problem in caught.value.problems}


def test_the_shipped_table():
    """Code is searched for what the table knows of, and no release has two rows."""
    values = load_releases().values
    assert {one.value for one in values if not one.functions} == telling.HANDLES
    assert {
        name for one in values for name in one.functions
    } == telling.FUNCTIONS.keys() - telling.NAMES.keys()
    for known in values:
        for family in {one.family for one in known.meanings}:
            rows = [one for one in known.meanings if one.family == family]
            ends = sorted((one.first, one.last or (9999,)) for one in rows)
            assert all(one[1] < two[0] for one, two in itertools.pairwise(ends)), known


@pytest.mark.parametrize(
    ("value", "function", "maker", "name"),
    [
        (0x54000003, "", ("mpich", "3.4.3"), ""),
        (0x54000003, "", ("intel-mpi", "2021.13"), ""),
        (0x54000003, "", ("intel-mpi", "2021.14"), "MPI_ERRORS_ABORT"),
        (2, "mpi_comm_split_type", ("mpich", "3.4.3"), "MPIX_COMM_TYPE_NEIGHBORHOOD"),
        (2, "mpi_comm_split_type", ("mpich", "5.0.2"), "MPI_COMM_TYPE_HW_GUIDED"),
        (3, "mpi_comm_split_type", ("intel-mpi", "2021.13"), "MPI_COMM_TYPE_HW_GUIDED"),
        (3, "mpi_comm_split_type", ("intel-mpi", "2021.14.2"), "MPI_COMM_TYPE_HW_UNGUIDED"),
        (13, "mpi_comm_split_type", ("openmpi", "4.1.4"), ""),
        (0x4C00024C, "", ("mpich", "5.0.0"), "MPIX_BFLOAT16"),
        (0x4C00024C, "", ("intel-mpi", "2021.18.1"), ""),
        (0x4C000247, "", ("intel-mpi", "2021.18.1"), "MPIX_C_BF16"),
    ],
)
def test_what_releases_mean(value, function, maker, name):
    assert find(load_releases().values, value, function).meaning(*maker).name == name


WORKS, UNKNOWN, FAILS = InjectionVerdict.WORKS, InjectionVerdict.UNKNOWN, InjectionVerdict.FAILS
EVERY = ("MPI_Init", "MPI_Recv", "MPI_Type_size", "MPI_Allreduce", "MPI_Accumulate", "MPI_Comm_split_type",
         "MPI_Comm_set_errhandler", "MPI_Get_version", "MPI_Buffer_attach", "PMPI_Init", "MPII_Win_get_attr")  # fmt: skip
DECLARED = """
void MPI_Comm_set_errhandler(int, int), MPI_Comm_split_type(int, int, int), MPI_Type_size(int, int *);
void MPI_Allreduce(int *, int *, int, int, int, int), MPI_Accumulate(int *, int, int, int);
int MPI_Get_version(void);
"""
HANDED = {
    "abort": "MPI_Comm_set_errhandler(0x44000000, 0x54000003);",
    "sum": "MPI_Allreduce(0, 0, 1, 0x4c00024c, 0x58000003, 7);",
    "size": "int size; MPI_Type_size(0x4c00024c, &size);",
    "intel": "int size; MPI_Type_size(0x4c000247, &size);",
    "half": "MPI_Allreduce(0, 0, 1, 0x4c000246, 0x58000003, 7);",
    "brain": "MPI_Allreduce(0, 0, 1, 0x4c000247, 0x58000003, 7);",
    "half_far": "MPI_Accumulate(0, 1, 0x4c000246, 0);",
    "guided": "MPI_Comm_split_type(7, 2, 0);",
    "asks": "if (MPI_Get_version() > 3) MPI_Comm_set_errhandler(0, 0x54000003);",
}
CODE = {name: f"{DECLARED}void hand(void) {{ {code} }}\n" for name, code in HANDED.items()} | {
    "chosen": f"{DECLARED}int kind = 3; void hand(void) {{ MPI_Comm_split_type(7, kind, 0); }}\n",
    "either": f"{DECLARED}int option; void hand(void) {{"
    " MPI_Comm_set_errhandler(0, option ? 0x54000003 : 0x54000001); }\n",
    "table": "int handlers[] = {0x54000001, 0x54000003};\n",
    "data": "int types[] = {0x4c000405, 0x4c00024c};\n",
    "data_asks": "int types[] = {0x4c000405, 0x4c00024c}; int MPI_Get_version(void);\n"
    "void ask(void) { MPI_Get_version(); }\n",
}


def mpi(lab: Lab, release: str, *more: str) -> str:
    folder = f"mpi-{release}{len(more)}"
    texts = [f'\\0""{release}', "PMI_FD", *more]
    lab.library(f"{folder}/lib/libmpi.so.12", defines=EVERY, texts=texts)
    return lab.path(folder)


def said_of(lab: Lab, code: str, built: str, target: str, *more: str) -> Judgement:
    folder = f"{mpi(lab, built)}/lib"
    program = uses_mpich(lab, own=folder, flags=(), declarations=CODE[code])
    return judged(lab, program, mpi(lab, target, *more), library_path=(folder,))


def of_constants(found: Judgement) -> list[Finding]:
    return [one for one in found.findings if one.cause is Cause.CONSTANTS]


@pytest.mark.parametrize(
    ("code", "built", "target", "verdict"),
    [
        ("abort", "5.0.2", "4.0.3", WORKS),
        ("abort", "5.0.2", "4.0.2", FAILS),
        ("abort", "5.0.2", "3.4.3", FAILS),
        ("abort", "2021.19.0", "3.4.3", FAILS),
        ("abort", "2021.19.0", "2021.13.1", WORKS),
        ("table", "2021.19.0", "2021.13.1", UNKNOWN),
        ("table", "2021.19.0", "2021.14.2", WORKS),
        ("data", "5.0.2", "4.9.1", UNKNOWN),
        ("asks", "5.0.2", "3.4.3", UNKNOWN),
        ("guided", "5.0.2", "4.0.2", WORKS),
        ("guided", "5.0.2", "3.4.3", FAILS),
        ("guided", "5.0.2", "2021.13.1", FAILS),
        ("guided", "3.4.3", "2021.13.1", WORKS),
        ("chosen", "5.0.2", "4.3.2", WORKS),
        ("chosen", "5.0.2", "3.4.3", UNKNOWN),
        ("either", "5.0.2", "4.3.2", WORKS),
        ("either", "5.0.2", "3.4.3", UNKNOWN),
        ("sum", "5.0.2", "5.0.0", WORKS),
        ("sum", "5.0.2", "4.2.3", FAILS),
        ("sum", "5.0.2", "2021.18.1", FAILS),
        ("size", "5.0.2", "4.2.3", WORKS),
        ("intel", "2021.19.0", "2021.13.1", WORKS),
        ("intel", "2021.19.0", "5.0.2", FAILS),
        ("half", "5.0.2", "3.4.3", WORKS),
        ("half", "5.0.2", "4.0.3", FAILS),
        ("half", "5.0.2", "4.2.3", WORKS),
        ("half_far", "5.0.2", "3.4.3", WORKS),
        ("half_far", "5.0.2", "4.2.3", FAILS),
        ("brain", "2021.19.0", "2021.13.1", UNKNOWN),
        ("brain", "2021.13.1", "2021.13.1", WORKS),
        ("brain", "2021.13.1", "2021.18.1", WORKS),
        ("data", "5.0.2", "5.0.1", WORKS),
        ("data", "5.0.2", "4.2.3", UNKNOWN),
    ],
)
def test_programs(lab, code, built, target, verdict):
    found = said_of(lab, code, built, target)
    assert found.verdict is verdict, found.findings
    assert bool(of_constants(found)) is (verdict is not WORKS)


def test_a_value_that_no_call_is_seen_to_get(lab):
    """IMB has types of the newest Intel MPI, asks for the version, and runs with all of them."""
    found = said_of(lab, "data_asks", "5.0.2", "4.2.3")
    assert found.verdict is WORKS
    assert [one.effect for one in of_constants(found)] == [Effect.NOTE]


@pytest.mark.parametrize(
    ("code", "target", "verdict"),
    [
        ("PART(-2)", "4.2.3", WORKS),
        ("PART(-2)", "4.1.3", FAILS),
        ("PART(&done)", "4.2.3", WORKS),
        ("PART(&done)", "4.1.3", UNKNOWN),
        ("(done ? PART(-2) : PART(&done))", "4.1.3", FAILS),
        ("PART((done ? -2 : (long)&done))", "4.1.3", UNKNOWN),
    ],
)
@pytest.mark.parametrize("asks", [False, True], ids=["", "asks"])
def test_a_constant_that_a_library_passes_on(lab, code, target, verdict, asks):
    """The program hands it to a function of another file, which hands it to MPI."""
    own, new = mpi(lab, "5.0.2"), mpi(lab, target)
    part, program = lab.path("libpart.so"), lab.path("program")
    text = "int MPI_Buffer_attach(void *, int), MPI_Get_version(void); int ASK"
    text += "int attach(void *buffer) { return MPI_Buffer_attach(buffer, 0); }\n"
    ask = "ask(void) { return MPI_Get_version(); }\n" if asks else "nothing;\n"
    source = lab._source(text.replace("ASK", ask), "c")
    lab._gcc("-shared", "-fPIC", "-O2", source, f"{own}/lib/libmpi.so.12", part)
    call = code.replace("PART(", "attach((void *)")
    start = f"int MPI_Init(void), attach(void *); int done; int main(void) {{ MPI_Init(); return {call}; }}"
    source = lab._source(USES_MPICH + start, "c")
    lab._gcc("-O2", source, part, f"{own}/lib/libmpi.so.12", program)
    found = judged(lab, program, new, library_path=(f"{own}/lib",))
    expected = UNKNOWN if asks and verdict is FAILS else verdict
    assert found.verdict is expected, found.findings
    told = of_constants(found)
    assert bool(told) is (verdict is not WORKS)
    for one in told:
        shown = code != "PART(&done)" and not code.startswith("PART((done")
        assert (one.file, one.symbols) == (program if shown else part, ("MPI_BUFFER_AUTOMATIC",))
        assert ("by `attach` of" if shown else "does not show") in one.message


SPLIT = "void MPI_Comm_split_type(int, int, int), MPI_Comm_set_errhandler(int, int);\n"
HIDES = {
    "shared": "void hand(void) { MPI_Comm_split_type(7, 1, 0); }",
    "heap": "int *kinds; void hand(void) { MPI_Comm_split_type(7, kinds[3], 0); }",
    "given": "void hand(int kind) { MPI_Comm_split_type(7, kind, 0); }",
    "passed": "static void go(int kind) { MPI_Comm_split_type(7, kind, 0); }"
    "void hand(void) { go(1); }",
    "twice": "static void go(int kind) { MPI_Comm_split_type(7, kind, 0); } int *kinds;"
    "void hand(void) { go(1); go(kinds[2]); }",
    "pointed": "static void go(int kind) { MPI_Comm_split_type(7, kind, 0); }"
    "void (*later)(int) = go; void hand(void) { go(1); }",
    "loop": "int next(int); void hand(int left) { int kind = 1; while (left--) {"
    "MPI_Comm_split_type(7, kind, 0); kind = left; } }",
    "table": "void (*split)(int, int, int) = MPI_Comm_split_type;"
    "void hand(int kind) { split(7, kind, 0); }",
    "address": "void hand(int kind) { void (*split)(int, int, int) = MPI_Comm_split_type;"
    "MPI_Comm_split_type(7, 1, 0); split(7, kind, 0); }",
    "asks": "int MPI_Get_version(void); int *kinds;"
    "void hand(void) { if (MPI_Get_version() > 3) MPI_Comm_split_type(7, kinds[3], 0); }",
    "handler": "int *kinds; void hand(void) { MPI_Comm_set_errhandler(7, kinds[3]); }",
}
_HIDDEN = {"heap", "given", "twice", "pointed", "loop", "table", "address", "asks"}


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
@pytest.mark.parametrize("code", HIDES)
def test_an_argument_that_does_not_show(lab, code, optimised):
    """A kind of split may be any that the header has; every way to hide one counts."""
    own, folder = mpi(lab, "5.0.2"), f"{mpi(lab, '5.0.2')}/lib"
    text = "int MPI_Init(void); int main(void) { return MPI_Init(); }\n"
    source = lab._source(USES_MPICH + SPLIT + HIDES[code] + "\n" + text, "c")
    program = lab.path("program")
    lab._gcc(optimised, source, f"{own}/lib/libmpi.so.12", f"-Wl,-rpath,{folder}",
             "-Wl,--unresolved-symbols=ignore-all", program)  # fmt: skip
    for target, lacks in (("5.0.2", False), ("5.0.1", False), ("4.2.3", False), ("3.4.3", True)):
        found = judged(lab, program, mpi(lab, target))
        hides = code in _HIDDEN and lacks
        assert (found.verdict is UNKNOWN) is hides, (target, found.findings)
        assert bool(of_constants(found)) is hides


@pytest.mark.parametrize(
    ("compiled", "flags", "verdict"),
    [
        (None, ["-Wl,-rpath,OWN"], WORKS),
        (None, [], UNKNOWN),
        ("mpich-3.4.3", [], WORKS),
        ("mpich-4.1", ["-Wl,-rpath,OWN"], UNKNOWN),
        ("intel-mpi-2021.10", ["-Wl,-rpath,OWN"], WORKS),
    ],
)
def test_the_release_that_compiled_a_program(lab, compiled, flags, verdict):
    """It is the one that its own paths lead to, or that the user names; else any release counts."""
    own = mpi(lab, "3.4.3")
    program = uses_mpich(
        lab,
        needs=[f"{own}/lib/libmpi.so.12"],
        flags=[flag.replace("OWN", f"{own}/lib") for flag in flags],
        declarations=SPLIT + HIDES["heap"],
    )
    new = mpi(lab, "3.4.3", "other")
    found = judged(lab, program, new, compiled=compiled_of(compiled or ""))
    assert found.verdict is verdict, found.findings


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mpich", Reason.USAGE),
        ("4.3.1", Reason.USAGE),
        ("-4", Reason.USAGE),
        ("some-mpi-4.3", Reason.UNSUPPORTED),
    ],
)
def test_what_is_no_release(text, reason):
    with pytest.raises(StackproofError) as caught:
        compiled_of(text)
    assert caught.value.reason is reason


def test_what_is_said(lab):
    (one,) = of_constants(said_of(lab, "abort", "5.0.2", "3.4.3"))
    assert one.symbols == ("MPI_ERRORS_ABORT",)
    assert "MPI_COMM_SET_ERRHANDLER" in one.message
    assert "MPICH 3.4.3 lacks it" in one.message
    assert "MPICH from 4.0.3 on" in one.remedy


@pytest.mark.parametrize(
    ("word", "release", "verdict"),
    [
        ("CRAY MPICH version", "8.1.30", FAILS),
        ("CRAY MPICH version", "9.0.1", UNKNOWN),
        ("MVAPICH Version", "4.1.0", UNKNOWN),
        ("MPICH Version", "4.1.0", WORKS),
    ],
)
def test_makers_of_the_same_abi(lab, word, release, verdict):
    """They count their releases each in its own way: 4.1.0 of one is not that of another."""
    found = said_of(lab, "abort", "5.0.2", release, word)
    assert found.verdict is verdict, found.findings
