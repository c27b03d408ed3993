"""Scripts that run before a program: what they put first, and what is then said of an injection."""

from __future__ import annotations

from pathlib import Path

import pytest

from elflab import Lab, run
from injectlab import mpich, uses_mpich
from stackproof.inject.effects import check
from stackproof.inject.model import Cause, InjectionVerdict
from stackproof.inject.options import CheckOptions, ProgramOptions
from stackproof.inject.startup import follow
from stackproof.linking.effects.view import RootView

# `etc/ldpaths` of R 4.2 as Debian 12 has it, without its comments.
LDPATHS = """: ${JAVA_HOME=/usr/lib/jvm/default-java}
: ${R_JAVA_LD_LIBRARY_PATH=${JAVA_HOME}/lib/server}
if test -n "SYSTEM"; then
: ${R_LD_LIBRARY_PATH=${R_HOME}/lib:SYSTEM}
else
: ${R_LD_LIBRARY_PATH=${R_HOME}/lib}
fi
if test -n "${R_JAVA_LD_LIBRARY_PATH}"; then
  R_LD_LIBRARY_PATH="${R_LD_LIBRARY_PATH}:${R_JAVA_LD_LIBRARY_PATH}"
fi
if test -z "${LD_LIBRARY_PATH}"; then
  LD_LIBRARY_PATH="${R_LD_LIBRARY_PATH}"
else
  LD_LIBRARY_PATH="${R_LD_LIBRARY_PATH}:${LD_LIBRARY_PATH}"
fi
export LD_LIBRARY_PATH
"""


def followed(text, known=None, **files):
    texts = {"/opt/start.sh": text, **{f"/opt/{name}": more for name, more in files.items()}}
    return follow("/opt/start.sh", lambda path: texts.get(path, ""), known)


@pytest.mark.parametrize(
    ("text", "first", "anew"),
    [
        ("export LD_LIBRARY_PATH=/a:/b:$LD_LIBRARY_PATH", ("/a", "/b"), False),
        ("LD_LIBRARY_PATH=/a${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; export X", ("/a",), False),
        ("LD_LIBRARY_PATH=/a${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}", ("/a",), False),
        ("X=/x\nexport LD_LIBRARY_PATH=$X/lib:$LD_LIBRARY_PATH", ("/x/lib",), False),
        ("export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/a", (), False),
        ("export LD_LIBRARY_PATH=/a", ("/a",), True),
        ("export LD_LIBRARY_PATH=$(where)/lib:/b:$LD_LIBRARY_PATH", ("/b",), False),
        ("export LD_LIBRARY_PATH=$NOBODY_KNOWS/lib:$LD_LIBRARY_PATH", (), False),
        ('H=$(dirname "$0")\nLD_LIBRARY_PATH=$H/lib:$LD_LIBRARY_PATH', ("/opt/lib",), False),
        ("LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH\nLD_LIBRARY_PATH=/b:$LD_LIBRARY_PATH",
         ("/b", "/a"), False),
        ("# LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH", (), False),
        (". /opt/more", ("/more",), False),
    ],
)  # fmt: skip
def test_folders(text, first, anew):
    found = followed(text, more="LD_LIBRARY_PATH=/more:$LD_LIBRARY_PATH")
    assert (found.first, found.anew) == (first, anew)


def test_the_script_of_r():
    found = followed(LDPATHS.replace("SYSTEM", "/usr/lib/x"), {"R_HOME": "/usr/lib/R"})
    java = "/usr/lib/jvm/default-java/lib/server"
    assert found.first == ("/usr/lib/R/lib", "/usr/lib/x", java)
    assert not found.anew


def test_scripts_without_end():
    assert followed(". /opt/start.sh\n" * 3).first == ()


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """A program whose MPI is found by LD_LIBRARY_PATH, and two MPIs."""
    for name in ("system", "new"):
        mpich(lab, name)
    uses_mpich(lab, name="env/bin/program", own="system/lib", flags=())
    return lab


def checked(lab, program):
    of = ProgramOptions(programs=(lab.path(program),))
    question = check.question_of(of, CheckOptions())
    ((_, found),) = check.judge_named(of, lab.path("new"), question)
    return found


def write(lab, name, text):
    path = Path(lab.path(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_without_a_script(lab):
    assert checked(lab, "env/bin/program").verdict is InjectionVerdict.WORKS


def test_a_script_that_puts_folders_first(lab):
    """LD_LIBRARY_PATH of the injection comes too late there; LD_PRELOAD does not."""
    program, system = lab.path("env/bin/program"), lab.path("system/lib")
    script = write(
        lab, "wrapped", f'#!/bin/sh\nLD_LIBRARY_PATH={system}:$LD_LIBRARY_PATH\n'
        f'export LD_LIBRARY_PATH\nexec {program} "$@"\n',
    )  # fmt: skip
    found = checked(lab, "wrapped")
    assert found.verdict is InjectionVerdict.STEPS
    assert found.way.name == "preload"
    assert any(one.cause is Cause.HOST and system in one.message for one in found.findings)
    real = run(script, env=dict(found.environment))
    assert real.answers == {"MPI_Init": "new/lib/libmpi.so.12"}
    late = {"LD_LIBRARY_PATH": found.environment["LD_LIBRARY_PATH"]}
    assert run(script, env=late).answers == {"MPI_Init": "system/lib/libmpi.so.12"}


def test_a_script_that_forgets_the_folders(lab):
    program, system = lab.path("env/bin/program"), lab.path("system/lib")
    text = f"#!/bin/bash\nexport LD_LIBRARY_PATH={system}\nexec {program}\n"
    script = write(lab, "wrapped", text)
    found = checked(lab, "wrapped")
    assert (found.verdict, found.way.name) == (InjectionVerdict.STEPS, "preload")
    real = run(script, env=dict(found.environment))
    assert real.answers == {"MPI_Init": "new/lib/libmpi.so.12"}
    write(lab, "wrapped", text.replace("export", '[ -n "$X" ] && export'))
    assert checked(lab, "wrapped").verdict is InjectionVerdict.UNKNOWN


@pytest.mark.parametrize(
    "lines",
    [
        "unset LD_LIBRARY_PATH\nexec PROGRAM", "exec env -u LD_LIBRARY_PATH PROGRAM",
        'env -i X=1 PROGRAM "$@"\nexit $?',
    ],
)  # fmt: skip
def test_a_script_that_takes_the_folders_away(lab, lines):
    """What the system has is found then, or nothing."""
    program = uses_mpich(
        lab,
        name="env/bin/program",
        own="system/lib",
        flags=[f"-Wl,--enable-new-dtags,-rpath,{lab.path('system/lib')}"],
    )
    script = write(lab, "wrapped", f"#!/bin/sh\n{lines.replace('PROGRAM', program)}\n")
    found = checked(lab, "wrapped")
    answers = run(script, env=dict(found.environment)).answers
    taken = answers == {"MPI_Init": "new/lib/libmpi.so.12"}
    assert (found.verdict, taken) == (InjectionVerdict.STEPS, found.way.name == "preload")
    assert taken or found.way.name == "rpath"
    late = {"LD_LIBRARY_PATH": found.environment.get("LD_LIBRARY_PATH", "")}
    assert run(script, env=late).answers == {"MPI_Init": "system/lib/libmpi.so.12"}


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("FOLDER/libmpi.so.12", InjectionVerdict.FAILS),
        ("FOLDER/libmpi.so.12:$LD_PRELOAD", InjectionVerdict.FAILS),
        ('"$(ls FOLDER/libmpi.so.* | head -1)"', InjectionVerdict.UNKNOWN),
        ("$NOBODY_KNOWS", InjectionVerdict.UNKNOWN),
        ("/usr/lib/libnowhere.so", InjectionVerdict.WORKS),
    ],
)
def test_a_script_that_preloads(lab, value, verdict):
    program, value = lab.path("env/bin/program"), value.replace("FOLDER", lab.path("system/lib"))
    script = write(lab, "wrapped", f"#!/bin/sh\nexport LD_PRELOAD={value}\nexec {program}\n")
    found = checked(lab, "wrapped")
    assert found.verdict is verdict
    if verdict is not InjectionVerdict.UNKNOWN:
        taken = run(script, env=dict(found.environment)).answers["MPI_Init"].startswith("new")
        assert taken is (verdict is InjectionVerdict.WORKS)


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("exec taskset -c 0,1 nice -n 1 /p", "/p"),
        ("taskset 0x3 /p --flag", "/p"),
        ("exec numactl -N 0 --membind=1 -C 0-3 --localalloc /p", "/p"),
        ("numactl --membind 0 -- /p", "/p"),
        ("exec nice -10 ionice -c2 -n 0 /p", "/p"),
        ("exec /usr/bin/time -v -o log stdbuf -oL -e 0 /p x", "/p"),
        ("timeout -k 5 --signal=KILL 10m setarch x86_64 -R /p\nexit $?", "/p"),
        ("setarch -R /p\nrc=$?\nexit $rc", "/p"),
        ("exec env -u X A=b chrt -f 10 nohup setsid -w /p", "/p"),
        ("exec -a other -c /p", "/p"),
        ("timeout 5 /bin/curl x\nexec /p", "/p"),
        ("timeout 5 /bin/curl x\n./other", ""),
        ("if test -e x; then nice /p; fi", ""),
        ("exec numactl $OPTIONS /p", "\1"),
        ("echo taskset /p", ""),
    ],
)
def test_tools_that_start_the_program(line, program):
    assert followed(line).program == program


@pytest.mark.parametrize(
    "line",
    [
        "exec taskset -c 0 nice -n 1 PROGRAM",
        "timeout -k 5 100 env -u NOTHING A=b stdbuf -oL PROGRAM",
        "exec setarch -R nohup PROGRAM",
        "time -p nice -1 PROGRAM\nexit $?",
    ],
)
def test_a_script_with_tools(lab, line):
    program = lab.path("env/bin/program")
    script = write(lab, "wrapped", f"#!/bin/bash\n{line.replace('PROGRAM', program)}\n")
    found = checked(lab, "wrapped")
    assert found.verdict is InjectionVerdict.WORKS
    assert run(script, env=dict(found.environment)).answers == {"MPI_Init": "new/lib/libmpi.so.12"}


def test_folders_behind_come_before_a_runpath(lab):
    found = followed('export LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH:/b\nexec /p "$@"')
    assert (found.first, found.last, found.program) == (("/a",), ("/b",), "/p")
    assert followed('X=1 LD_LIBRARY_PATH=/a /bin/p "$@"').first == ("/a",)
    assert followed('cd /x || exit 1\n/bin/p "$@"\nexit $?').program == "/bin/p"


def test_scripts_that_start_each_other(lab):
    for one, two in (("a", "b"), ("b", "a")):
        write(lab, one, f"#!/bin/sh\nexec {lab.path(two)}\n")
    assert checked(lab, "a").verdict is not InjectionVerdict.WORKS


def test_an_environment_of_conda(lab):
    """Its activation runs before the program."""
    write(lab, "env/conda-meta/history", "")
    assert checked(lab, "env/bin/program").way.name == "library-path"
    text = f"export LD_LIBRARY_PATH={lab.path('system/lib')}:$LD_LIBRARY_PATH\n"
    write(lab, "env/etc/conda/activate.d/mpi.sh", text)
    assert checked(lab, "env/bin/program").way.name == "preload"


@pytest.mark.parametrize("how", ["linked", "not linked"])
def test_a_module_of_r(lab, how):
    """R puts its own folders and the system's before those of LD_LIBRARY_PATH."""
    home = Path(lab.path("lib/R"))
    write(lab, "lib/R/etc/ldpaths", LDPATHS.replace("SYSTEM", lab.path("system/lib")))
    lab.library("lib/R/lib/libR.so", defines=["R_registerRoutines"])
    needs = ["system/lib/libmpi.so.12", *(["lib/R/lib/libR.so"] if how == "linked" else [])]
    lab.library(
        "lib/R/library/Rmpi/libs/Rmpi.so", needs=needs, imports=["MPI_Init", "R_registerRoutines"],
        soname="", flags=[f"-Wl,--enable-new-dtags,-rpath,{home / 'lib'}"],
    )  # fmt: skip
    found = checked(lab, "lib/R/library/Rmpi/libs/Rmpi.so")
    assert found.way.name == "preload"
    assert any(one.cause is Cause.HOST and "ldpaths" in one.message for one in found.findings)


def test_what_is_no_script_of_a_shell(lab):
    write(lab, "python", "#!/usr/bin/env python3\nLD_LIBRARY_PATH=/a\n")
    assert check.started_by(RootView(), lab.path("python")) is None
    assert check.started_by(RootView(), lab.path("env/bin/program")) is None


def test_scripts_that_never_end_are_followed_for_a_while():
    itself = follow("/x/s", lambda _: ". /x/s\n" * 9)
    assert len(itself.scripts) == 64
    assert itself.program == ""
    grown = follow("/x/s", lambda _: "A=aaaa\n" + "A=$A$A\n" * 40 + "exec /x/p  # $A\n")
    assert len(grown.variables["A"]) == 1 << 16
    assert grown.program == "/x/p"


@pytest.mark.parametrize("start", ["<<EOF", "<<-'EOF'", '<< "EOF" > /dev/null'])
def test_lines_of_a_document_are_no_commands(start: str) -> None:
    text = f"cat {start}\nexport LD_LIBRARY_PATH=/wrong\nexec /wrong\n\tEOF\nEOF\nexec /p\n"
    assert followed(text).program == "/p"
    assert followed(text).first == ()


def test_a_shift_is_no_document() -> None:
    assert followed("A=$((1<<B))\nexec /p\n").program == "/p"


def test_of_two_programs_none_is_told() -> None:
    choice = 'if [ "$1" = x ]; then\nexec /a\nfi\nexec /p\n'
    assert not followed(choice).program.startswith("/")
    assert followed(choice.replace("/a", "/p")).program == "/p"
    assert followed("exec /p\nexec /never\n").program == "/p"
