"""Scripts of Python that open an MPI with ctypes: which one, and what an injection makes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elflab import Lab
from injectlab import causes, links_made, mpich
from need import need
from stackproof.inject.effects import check
from stackproof.inject.model import Cause, InjectionVerdict
from stackproof.inject.options import CheckOptions, ProgramOptions
from stackproof.inject.python_script import opened_by


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
        ("libmpi.so.12", InjectionVerdict.WORKS),
        ("libmpich.so.12", InjectionVerdict.STEPS),
        ("OLD/libmpi.so.12", InjectionVerdict.FAILS),
        ("libmpi.so.40", InjectionVerdict.FAILS),
        ("libnone.so.1", InjectionVerdict.UNKNOWN),
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
    assert (Cause.OPENED_LATER in causes(found)) is (verdict in WORKS)
    done = subprocess.run(
        [str(path)], env=links_made(lab, found), capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert (done.stdout == "new/lib/libmpi.so.12\n") is (verdict in WORKS)


WORKS = {InjectionVerdict.WORKS, InjectionVerdict.STEPS}
