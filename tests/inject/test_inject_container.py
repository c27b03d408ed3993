"""`inject container`: one definition in several forms, and a real container that gets it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from eessilab import EVERY, USES_MPICH, Eessi, inject
from need import need
from stackproof.core.errors import ExitCode
from stackproof.inject.container import Containing, render_edf
from stackproof.linking.effects.view import RootView


@pytest.fixture
def lab(tmp_path: Path) -> Eessi:
    """A root folder with a program, its MPI in /opt, and the C library."""
    need("gcc")
    lab = Eessi(tmp_path)
    app = lab.program(
        "root/bin/app",
        needs=["eessi/lib/libmpi.so.12"],
        calls=["MPI_Init"],
        declarations=USES_MPICH,
        flags=["-Wl,--enable-new-dtags,-rpath,/opt/lib"],
    )
    root = tmp_path / "root"
    shutil.copytree(tmp_path / "eessi" / "lib", root / "opt" / "lib")
    listed = subprocess.run(["ldd", app], capture_output=True, text=True, timeout=60, check=True)
    libc = next(line.split()[2] for line in listed.stdout.splitlines() if "libc.so.6" in line)
    loader = RootView().elf(RootView().look(app)).interpreter
    for path in (libc, loader):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    for name in ("proc", "dev", "sys", "tmp"):
        (root / name).mkdir()
    return lab


def words(lab, prefix="host", form="podman"):
    root = lab.path("root")
    return ("container", "/bin/app", "--root", root, "--with", lab.path(prefix), "--form", form)


def test_options(lab, capsys):
    host = lab.path("host")
    for form, bind in (("podman", "volume"), ("docker", "volume"), ("apptainer", "bind")):
        code, out, err = inject(capsys, *words(lab, form=form))
        assert (code, err) == (ExitCode.DONE, "")
        assert shlex.split(out) == [
            f"--{bind}={host}:{host}:ro",
            f"--env=LD_LIBRARY_PATH={host}/lib",
        ]


def test_runtimes_of_the_field(lab, capsys):
    """Every form says the same: one folder at its own path, one variable."""
    host = lab.path("host")
    code, out, err = inject(capsys, *words(lab, form="edf"))
    assert (code, err) == (ExitCode.DONE, "")
    assert tomllib.loads(out) == {
        "mounts": [f"{host}:{host}:ro"],
        "env": {"LD_LIBRARY_PATH": f"{host}/lib"},
    }
    assert shlex.split(inject(capsys, *words(lab, form="enroot"))[1]) == [
        f"--mount={host}:{host}:none:x-create=auto,rbind,ro",
        f"--env=LD_LIBRARY_PATH={host}/lib",
    ]
    assert shlex.split(inject(capsys, *words(lab, form="ch-run"))[1]) == [
        f"--bind={host}:{host}",
        f"--set-env=LD_LIBRARY_PATH={host}/lib",
    ]


def test_texts_of_an_edf():
    odd = 'a "b" \\ $HOME'
    text = render_edf(Containing(binds={"/b": "/a"}, environment={"A.B": odd}))
    assert tomllib.loads(text)["env"] == {"A.B": odd.replace("$", "$$")}
    assert tomllib.loads(render_edf(Containing(binds={"/b": "/a"}))) == {"mounts": ["/a:/b:ro"]}


def test_a_cdi_file(lab, capsys, tmp_path):
    place = tmp_path / "mpi.json"
    assert inject(capsys, *words(lab, form="cdi"), "-o", place)[0] == ExitCode.DONE
    data = json.loads(place.read_text())
    (device,) = data["devices"]
    host = lab.path("host")
    assert data["kind"] == "stackproof.org/mpi"
    assert device["containerEdits"]["env"] == [f"LD_LIBRARY_PATH={host}/lib"]
    (mount,) = device["containerEdits"]["mounts"]
    assert (mount["hostPath"], mount["containerPath"]) == (host, host)
    assert "ro" in mount["options"]


def test_a_container_gets_it(lab, capsys):
    """The same bind and variables, made by bubblewrap: the program takes the new MPI."""
    need("bubblewrap")
    out = inject(capsys, *words(lab))[1]
    options = []
    for word in shlex.split(out):
        name, _, value = word.partition("=")
        if name == "--volume":
            source, place, _ = value.split(":")
            options += ["--ro-bind", source, place]
        else:
            options += ["--setenv", *value.split("=", 1)]
    start = ["bwrap", "--unshare-all", "--bind", lab.path("root"), "/"]

    def answer(*more):
        argv = [*start, *more, "/bin/app"]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout

    assert "answer MPI_Init eessi/lib/libmpi.so.12\n" in answer()
    assert "answer MPI_Init host/lib/libmpi.so.12\n" in answer(*options)


def test_what_fails_is_refused(lab, capsys):
    lab.mpi("gone", defines=[name for name in EVERY if name != "MPI_Init"])
    code, out, err = inject(capsys, *words(lab, "gone"))
    assert (code, out) == (ExitCode.WORSE, "")
    assert "MPI_Init" in err


def test_links_are_not_for_binds(lab, capsys):
    """Another name needs a link, which no bind makes: it is said, and nothing is written."""
    lab.library("named/lib/libmpich.so.12", defines=EVERY)
    code, out, err = inject(capsys, *words(lab, "named"))
    assert (code, out) == (ExitCode.STEPS, "")
    assert "links" in err


def test_paths_that_no_option_can_hold(lab, capsys):
    lab.mpi("a,b")
    code, out, err = inject(capsys, *words(lab, "a,b"))
    assert (code, out) == (ExitCode.INVALID, "")
    assert "a,b" in err
