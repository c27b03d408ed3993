"""Scripts that import mpi4py: the extension that their interpreter would load, by files alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elflab import Lab
from injectlab import USES_MPICH, USES_OPENMPI, causes, links_made, mpich, openmpi
from need import need
from stackproof.inject import python_script
from stackproof.inject.effects import check, python_modules
from stackproof.inject.model import Cause, InjectionVerdict
from stackproof.inject.options import CheckOptions, ProgramOptions
from stackproof.inject.python_script import opened_by

WORKS, UNKNOWN = InjectionVerdict.WORKS, InjectionVerdict.UNKNOWN
STEPS, FAILS = InjectionVerdict.STEPS, InjectionVerdict.FAILS
MODULES = {
    "MPI.mpich.cpython-311-x86_64-linux-gnu.so": USES_MPICH,
    "MPI.openmpi.cpython-311-x86_64-linux-gnu.so": USES_OPENMPI,
}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    need("gcc")
    lab = Lab(tmp_path)
    mpich(lab, "mpich")
    openmpi(lab, "openmpi")
    return lab


def module(lab: Lab, folder: str, *names: str) -> None:
    for name in names or MODULES:
        code = next((text for key, text in MODULES.items() if key[:6] == name[:6]), USES_MPICH)
        place = Path(lab.path(f"{folder}/mpi4py/{name}"))
        place.parent.mkdir(parents=True, exist_ok=True)
        text = f"{code}int MPI_Init(void); int start(void) {{ return MPI_Init(); }}\n"
        needs = "openmpi/lib/libmpi.so.40" if code == USES_OPENMPI else "mpich/lib/libmpi.so.12"
        source = lab._source(text, "c")
        lab._gcc("-shared", "-fPIC", source, *lab._linked([needs]), place)


def python(lab: Lab, prefix: str) -> str:
    """Make an interpreter, a program that calls no MPI; return its path."""
    place = Path(lab.path(f"{prefix}/bin/python3.11"))
    place.parent.mkdir(parents=True, exist_ok=True)
    (place.parents[1] / "lib" / "python3.11").mkdir(parents=True, exist_ok=True)
    lab._gcc(lab._source("int main(void) { return 0; }\n", "c"), place)
    (place.parent / "python3").symlink_to("python3.11")
    return str(place.parent / "python3")


def script(lab: Lab, text: str, name: str = "script") -> str:
    place = Path(lab.path(name))
    place.write_text(text)
    place.chmod(0o755)
    return str(place)


def judged(lab: Lab, program: str, target: str = "mpich", *env: str):
    of = ProgramOptions(programs=(program,), env=env)
    question = check.question_of(of, CheckOptions())
    return [one for _, one in check.judge_named(of, lab.path(target), question)]


USES = "#!{0}\nfrom mpi4py import MPI\n"


@pytest.mark.parametrize(
    ("place", "names", "verdict"),
    [
        ("own/lib/python3.11/site-packages", (), WORKS),
        ("own/lib/python3/dist-packages", (), WORKS),
        ("own/local/lib/python3.11/dist-packages", ("MPI.cpython-311-x86_64-linux-gnu.so",), WORKS),
        ("own/lib64/python3.11/site-packages", ("MPI.mpich.abi3.so",), WORKS),
        ("own/lib/python3.11/site-packages", ("MPI.openmpi.abi3.so",), FAILS),
        ("own/lib/python3.12/site-packages", (), UNKNOWN),
        ("else", (), UNKNOWN),
    ],
)
def test_where_an_interpreter_has_it(lab: Lab, place, names, verdict) -> None:
    interpreter = python(lab, "own")
    module(lab, place, *names)
    (found,) = judged(lab, script(lab, USES.format(interpreter)))
    assert found.verdict is verdict, found.findings
    assert any("mpi4py" in one.message for one in found.findings)


@pytest.mark.parametrize(
    ("target", "family"), [("mpich", "mpich"), ("openmpi", "openmpi")], ids=["mpich", "openmpi"]
)
def test_the_alternative_that_fits_counts(lab: Lab, target, family) -> None:
    interpreter = python(lab, "own")
    module(lab, "own/lib/python3.11/site-packages")
    program = script(lab, USES.format(interpreter))
    for place in (program, lab.path("own")):
        (found,) = judged(lab, place, target)
        assert found.verdict is WORKS
        (told,) = [one for one in found.findings if "of 2 for different MPIs" in one.message]
        assert f"MPI.{family}." in told.message


@pytest.mark.parametrize("system", ["true", "false"])
def test_a_virtual_environment(lab: Lab, system) -> None:
    base = python(lab, "base")
    module(lab, "base/lib/python3.11/site-packages")
    place = Path(lab.path("venv/bin"))
    place.mkdir(parents=True)
    (place / "python3").symlink_to(base)
    cfg = f"home = {os.path.dirname(base)}\ninclude-system-site-packages = {system}\n"
    (place.parent / "pyvenv.cfg").write_text(cfg)
    program = script(lab, USES.format(place / "python3"))
    assert [one.verdict for one in judged(lab, program)] == [WORKS if system == "true" else UNKNOWN]
    module(lab, "venv/lib/python3.11/site-packages")
    (found,) = judged(lab, program)
    assert found.verdict is WORKS
    assert any("/venv/lib" in one.provider for one in found.findings)


@pytest.mark.parametrize(
    ("lines", "env"),
    [
        ("exec {python} -u {script}", "PYTHONPATH={place}"),
        ("PYTHONPATH={place}\nexec taskset -c 0 {python} -X dev -m mpi4py {script}", "A=b"),
        ("PATH={bin}:$PATH\nexport PYTHONPATH={place}\nexec python3 {script}", "A=b"),
        ("exec {script}", "PYTHONPATH={place}"),
    ],
)
def test_started_by_a_shell(lab: Lab, lines, env) -> None:
    interpreter = python(lab, "own")
    module(lab, "place")
    inner = script(lab, USES.format(interpreter), "inner.py")
    words = {"python": interpreter, "script": inner, "place": lab.path("place")}
    words["bin"] = os.path.dirname(interpreter)
    lines, env = lines.format(**words), env.format(**words)
    (found,) = judged(lab, script(lab, f"#!/bin/sh\n{lines}\n"), "mpich", env)
    assert found.verdict is WORKS, found.findings


def test_a_shim_of_pyenv(lab: Lab) -> None:
    real = python(lab, "root/versions/3.11.7")
    module(lab, "root/versions/3.11.7/lib/python3.11/site-packages")
    Path(lab.path("root/shims")).mkdir()
    shim = script(lab, "#!/bin/sh\nexec pyenv exec python3\n", "root/shims/python3")
    Path(lab.path("root/version")).write_text("3.11.7\n")
    (found,) = judged(lab, script(lab, USES.format(shim)))
    assert (found.verdict, causes(found)) == (UNKNOWN, {Cause.HOST})
    (told,) = found.findings
    assert "shim of pyenv" in told.message
    assert real in told.remedy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import mpi4py", True),
        ("import os, mpi4py.MPI as m", True),
        ("def f():\n    from mpi4py import MPI", True),
        ("from mpi4py.futures import MPIPoolExecutor", True),
        ("from .mpi4py import MPI", False),
        ("import mpi4pyx", False),
        ("x = 'import mpi4py'", False),
        ("import mpi4py(", False),
    ],
)
def test_what_imports_it(text, expected) -> None:
    assert python_script.imports(text, "mpi4py") is expected


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("/a/MPI.mpich.abi3.so", "/a/MPI"),
        ("/a/MPI.cpython-311-x86_64-linux-gnu.so", "/a/MPI"),
        ("/a/MPI.so", "/a/MPI"),
        ("/a/libmpi.so", ""),
        ("/a/program", ""),
        ("/a/plugin.so.1", ""),
    ],
)
def test_names_of_extensions(name, module) -> None:
    assert python_modules.alternative_of(name) == module


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("python3", "-u", "/s.py", "x"), "/s.py"),
        (("python3", "-W", "error", "-X", "dev", "/s.py"), "/s.py"),
        (("python3", "-m", "mpi4py", "/s.py"), "/s.py"),
        (("python3", "-m", "pytest", "/s.py"), ""),
        (("python3", "-c", "import mpi4py"), ""),
        (("python3", "s.py"), ""),
        (("python3",), ""),
    ],
)
def test_the_script_of_a_command_line(words, expected) -> None:
    assert python_modules.script_in(words) == expected


# --------------------------------------------------------------------------------------------------
# Scripts that open an MPI with ctypes: which one, and what an injection makes of it.


@pytest.mark.parametrize(
    ("text", "opens"),
    [
        ("import ctypes\nctypes.CDLL('a', mode=ctypes.RTLD_GLOBAL)", ("a",)),
        ("from ctypes import CDLL, cdll\nCDLL(None)\nCDLL('a')\ncdll.LoadLibrary('b')", ("a", "b")),
        ("import ctypes, ctypes.util\nctypes.CDLL(ctypes.util.find_library('mpi'))\nctypes.CDLL('a')", ()),
        ("import ctypes\nctypes.CDLL('lib' + 'mpi.so')", ()),
        ("import ctypes\nctypes.CDLL('a')\nctypes.cdll['b']", ()),
        ("import ctypes\nctypes.CDLL('a')\nctypes.cdll.b", ()),
        ("import ctypes\nopens = ctypes.CDLL\nopens('b')\nctypes.CDLL('a')", ()),
        ("from ctypes import CDLL, PyDLL as P\nP('b')\nCDLL('a')", ()),
        ("import ctypes, mpi4py\nctypes.CDLL('a')", ()),
        ("import ctypes\nfrom . import b\nctypes.CDLL('a')", ()),
        ("import ctypes, os\nctypes.CDLL('a')\nos.execv('b', ['b'])", ()),
        ("import ctypes\nctypes.CDLL('a')\nexec('b')", ()),
        ("ctypes.CDLL('a'", ()),
        ("CDLL('a')\0", ()),
        ("-" * 60_000 + "1", ()),
        ("'\\d'\nctypes.CDLL(name='a')", ()),
    ],
)  # fmt: skip
def test_what_a_script_opens(text: str, opens: tuple[str, ...]) -> None:
    assert opened_by(text) == opens


SCRIPT = """#!{python}
import ctypes

mpi = ctypes.CDLL({name!r}, mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init.restype = ctypes.c_char_p
print(mpi.MPI_Init().decode())
"""


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("libmpi.so.12", WORKS),
        ("libmpich.so.12", STEPS),
        ("OLD/libmpi.so.12", FAILS),
        ("libmpi.so.40", FAILS),
        ("libnone.so.1", UNKNOWN),
    ],
)
@pytest.mark.parametrize("how", ["itself", "by a shell"])
def test_a_script_with_an_mpi(
    tmp_path: Path, name: str, verdict: InjectionVerdict, how: str
) -> None:
    need("gcc")
    lab = Lab(tmp_path)
    for folder in ("old", "new"):
        mpich(lab, folder)
    path = tmp_path / "script"
    named = name.replace("OLD", lab.path("old/lib"))
    path.write_text(SCRIPT.format(python=sys.executable, name=named))
    path.chmod(0o755)
    if how == "by a shell":
        shell = tmp_path / "start"
        shell.write_text(f'#!/bin/sh\nexec {path} "$@"\n')
        shell.chmod(0o755)
        path = shell
    question = check.question_of(ProgramOptions(), CheckOptions())
    of = ProgramOptions(programs=(str(path),))
    ((_, found),) = check.judge_named(of, lab.path("new"), question)
    assert found.verdict is verdict
    assert (Cause.OPENED_LATER in causes(found)) is (verdict in {WORKS, STEPS})
    done = subprocess.run(
        [str(path)], env=links_made(lab, found), capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert (done.stdout == "new/lib/libmpi.so.12\n") is (verdict in {WORKS, STEPS})
