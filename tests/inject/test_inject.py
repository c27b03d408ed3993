"""`stackproof inject`: exit codes, output, upgrades, wrong input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from elflab import Lab
from images import MOUNT, make_image
from injectlab import uses_mpich
from need import need
from stackproof import cli
from stackproof.core.errors import ExitCode

COVERS = (
    "inject/cli/check.py",
    "inject/cli/words.py",
    "inject/effects/check.py",
    "inject/effects/scripts.py",
    "inject/levels.py",
)

USES_MPICH = "void MPI_Recv(int); void use(void) { MPI_Recv(0x4c000405); MPI_Recv(0x4c00080b); }\n"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A program for MPICH, and MPIs: `new` works, `gone` lacks a function, `named` has a name."""
    need("gcc")
    lab = Lab(tmp_path)
    every = ["MPI_Init", "MPI_Recv", "MPI_Get_count", "MPII_Win_get_attr"]
    for folder, name, defines in (
        ("old", "libmpi.so.12", every),
        ("new", "libmpi.so.12", every),
        ("gone", "libmpi.so.12", [f for f in every if f != "MPI_Get_count"]),
        ("named", "libmpich.so.12", every),
    ):
        lab.library(f"{folder}/lib/{name}", defines=defines, texts=["PMI_FD"])
    uses_mpich(lab, ["MPI_Init", "MPI_Get_count"], name="programs/bin/app", flags=())
    uses_mpich(lab, name="programs/bin/small", flags=())
    lab.program("programs/bin/other")
    (tmp_path / "programs" / "readme").write_text("no program\n")
    return lab


def inject(capsys, *words):
    """Return exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["inject", *map(str, words)])
    output = capsys.readouterr()
    return stop.value.code, output.out, output.err


def test_works(lab, capsys):
    app = lab.path("programs/bin/app")
    code, out, err = inject(capsys, "check", app, "--with", lab.path("new"), "--tree")
    assert (code, err) == (ExitCode.DONE, "")
    assert out.startswith(f"{app}: works\n")
    assert f"LD_LIBRARY_PATH={lab.path('new/lib')}\n" in out
    assert "libmpi.so.12 => " in out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--with", "new"], ExitCode.DONE),
        (["--with", "named"], ExitCode.STEPS),
        (["--with", "new", "--launcher", "srun:cray_shasta"], ExitCode.UNKNOWN),
        (["--with", "gone"], ExitCode.WORSE),
        (["--with", "new", "--launcher", "prte"], ExitCode.WORSE),
    ],
)
def test_exit_codes(lab, capsys, words, code):
    words = [lab.path(word) if word in {"new", "gone", "named"} else word for word in words]
    assert inject(capsys, "check", lab.path("programs/bin/app"), *words)[0] == code


def test_reasons_name_file_symbol_and_remedy(lab, capsys):
    app = lab.path("programs/bin/app")
    code, out, _ = inject(capsys, "check", app, "--with", lab.path("gone"), "--json")
    data = json.loads(out)
    assert code == ExitCode.WORSE
    assert data["verdict"] == "fails"
    (finding,) = data["programs"][0]["findings"]
    assert finding["cause"] == "symbol-missing"
    assert finding["symbols"] == ["MPI_Get_count"]
    assert finding["file"] == app
    assert finding["remedy"]


def test_a_folder(lab, capsys):
    """Only what calls MPI counts, and the worst verdict decides."""
    folder = lab.path("programs")
    code, out, _ = inject(capsys, "check", folder, "--with", lab.path("gone"))
    assert code == ExitCode.WORSE
    assert out.rstrip().endswith("2 programs: 1 works, 1 fails")
    assert "bin/other" not in out


def test_libraries_of_an_mpi_are_no_programs(lab, capsys):
    """Also those without a SONAME, as Intel MPI has some."""
    lab.library("programs/lib/libmpi_ilp64.so.4.1", imports=["MPI_Init"], soname="")
    _, out, _ = inject(capsys, "check", lab.path("programs"), "--with", lab.path("new"))
    assert out.rstrip().endswith("2 programs: 2 works")


def test_upgrade(lab, capsys):
    new, gone = lab.path("new"), lab.path("gone")
    words = ("check", lab.path("programs"), "--upgrade", new, gone)
    code, out, _ = inject(capsys, *words)
    assert code == ExitCode.WORSE
    assert "1 of 2 programs get worse" in out
    assert "MPI_Get_count" in out
    back = ("check", lab.path("programs"), "--upgrade", gone, new)
    assert inject(capsys, *back)[0] == ExitCode.DONE
    data = json.loads(inject(capsys, *words, "--json")[1])
    assert [pair["new"]["program"] for pair in data["worse"]] == [lab.path("programs/bin/app")]


def test_an_image(lab, capsys, tmp_path, monkeypatch):
    """An image that does not say where it is mounted must be told; links stay inside."""
    need("mksquashfs")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    image = tmp_path / "new.squashfs"
    subprocess.run(
        ["mksquashfs", lab.path("new"), image, "-quiet", "-no-progress"],
        check=True,
        stdout=subprocess.PIPE,
    )
    app = lab.path("programs/bin/app")
    code, _, err = inject(capsys, "check", app, "--with", image)
    assert code == ExitCode.IMAGE
    assert "where" in err
    code, out, _ = inject(capsys, "check", app, "--with", f"{image}:/opt/mpi")
    assert code == ExitCode.DONE
    assert "LD_LIBRARY_PATH=/opt/mpi/lib\n" in out
    unpacked = list((tmp_path / "cache" / "trees").iterdir())
    assert len(unpacked) == 1
    assert inject(capsys, "check", app, "--with", f"{image}:/opt/mpi")[0] == ExitCode.DONE
    assert list((tmp_path / "cache" / "trees").iterdir()) == unpacked


def test_an_image_is_mounted_before_it_is_put_under_programs(lab, capsys, tmp_path, monkeypatch):
    need("mksquashfs")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    image = make_image(tmp_path / "a.squashfs")
    app = lab.path("programs/bin/app")
    code, _, err = inject(capsys, "apply", app, "--with", image, "--wrapper", tmp_path / "w")
    assert code == ExitCode.INVALID
    assert f"`stackproof start {image}`, and there name {MOUNT}/mpich" in err


def test_a_root_folder(lab, capsys, tmp_path):
    """A program in a container's root sees that root, and the prefix that is bound into it."""
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(lab.path("programs/bin/app"), root / "bin" / "app")
    for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"):
        if os.path.exists(path):
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), root / path[1:])
    words = ("check", root / "bin" / "app", "--with", lab.path("new"), "--root", root)
    code, out, _ = inject(capsys, *words)
    assert code == ExitCode.WORSE
    assert "`libc.so.6` is not found" in out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["check", "/nowhere", "--with", "/usr"], ExitCode.INVALID),
        (["check", "{app}", "--with", "/nowhere"], ExitCode.INVALID),
        (["check", "{app}", "--with", "{tmp}/programs"], ExitCode.INVALID),
        (["check", "{tmp}/programs/readme", "--with", "{tmp}/new"], ExitCode.INVALID),
        (["check", "{tmp}/old", "--with", "{tmp}/new"], ExitCode.INVALID),
        (["check", "{app}"], ExitCode.USAGE),
        (["check", "{app}", "--with", "{tmp}/new", "--launcher", "nonsense"], ExitCode.INVALID),
        ([], ExitCode.USAGE),
    ],
)
def test_wrong_input(lab, capsys, tmp_path, words, code):
    values = {"app": lab.path("programs/bin/app"), "tmp": tmp_path}
    found, out, err = inject(capsys, *(word.format(**values) for word in words))
    assert found == code
    assert out == ""
    assert err


def squashed(lab: Lab, folder: str, mount: str) -> str:
    """Return an image of a folder that says nothing of itself, with a mount point."""
    need("mksquashfs")
    image = f"{lab.path(folder)}.squashfs"
    argv = ["mksquashfs", lab.path(folder), image, "-noappend", "-no-progress", "-quiet"]
    subprocess.run(argv, check=True, timeout=600, capture_output=True)
    return f"{image}:{mount}"


def test_what_must_be_mounted_is_said(lab, capsys):
    app = lab.path("programs/bin/app")
    new = squashed(lab, "new", "/user-new")
    code, out, _ = inject(capsys, "check", app, "--with", new)
    assert code == ExitCode.DONE
    assert out.endswith(f"`{new}` is mounted: stackproof run {new} -- mpiexec -n 2 {app}\n")
    programs = squashed(lab, "programs", "/user-programs")
    code, out, _ = inject(capsys, "check", programs, "--with", lab.path("new"))
    assert f"/user-programs/bin/app in {programs}: works" in out
    assert f"`{programs}` is mounted: stackproof run {programs} --inject " in out
    assert "both images are mounted" in inject(capsys, "check", programs, "--with", new)[1]
    assert "this holds" not in inject(capsys, "check", app, "--with", lab.path("new"))[1]
    assert "this holds" not in inject(capsys, "check", app, "--with", lab.path("gone"))[1]


def test_one_line_starts_what_needs_a_link(lab, capsys):
    """The line with an image is that of `run`, and that with a folder is that of `inject apply`."""
    app, prefix = lab.path("programs/bin/app"), lab.path("named")
    link = f"ln -s libmpich.so.12 {prefix}/lib/libmpi.so.12"
    code, out, _ = inject(capsys, "check", app, "--with", prefix)
    assert (code, f"hint: {link}\n" in out) == (ExitCode.STEPS, True)
    assert "stackproof-aliases" not in out
    assert f"stackproof inject apply {app} --with {prefix} --wrapper DIR\n" in out
    image = squashed(lab, "named", "/user-named")
    code, out, _ = inject(capsys, "check", app, "--with", image)
    assert (code, "stackproof-aliases" in out) == (ExitCode.STEPS, False)
    assert "LD_LIBRARY_PATH=DIR:/user-named/lib\n" in out
    assert f"stackproof run {image} --inject {image} -- mpiexec -n 2 {app}\n" in out
    subprocess.run(["/bin/sh", "-c", link], check=True, timeout=600)
    assert inject(capsys, "check", app, "--with", prefix)[0] == ExitCode.DONE


def test_an_image_without_programs_does_not_end_the_others(lab, capsys):
    app = lab.path("programs/bin/app")
    empty = squashed(lab, "empty", "/user-programs") if lab.program("empty/bin/other") else ""
    words = ("--upgrade", lab.path("old"), lab.path("gone"))
    code, out, err = inject(capsys, "check", empty, app, *words)
    assert code == ExitCode.WORSE
    assert f"{app}: works with" in out
    assert err == f"note: nothing in `{empty}` calls MPI, so it is left out\n"
    code, out, err = inject(capsys, "check", empty, *words)
    assert (code, out) == (ExitCode.INVALID, "")
    assert f"nothing in `{empty}` calls MPI" in err
    code, out, err = inject(capsys, "check", empty, app, "--with", lab.path("new"))
    assert (code, err.count("left out")) == (ExitCode.DONE, 1)


def test_a_program_is_named_as_a_shell_finds_it(lab, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{lab.path('programs/bin')}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    code, out, _ = inject(capsys, "check", "app", "--with", lab.path("new"))
    assert code == ExitCode.DONE
    assert out.startswith(f"{lab.path('programs/bin/app')}: works\n")
    (tmp_path / "app").mkdir()  # what lies here is meant first
    assert inject(capsys, "check", "app", "--with", lab.path("new"))[0] == ExitCode.INVALID


@pytest.mark.parametrize(
    ("line", "program", "verdict"),
    [
        ("#!/bin/sh", "/bin/sh", "cannot-tell"),
        ("#! {app} -x", "{app}", "works"),
        ("#!/usr/bin/env app", "{app}", "works"),
        ("#!/usr/bin/env -S WORD=1 app -y", "{app}", "works"),
        ("#!/usr/bin/env -S -u WORD app", "{app}", "works"),
        ("#!/usr/bin/env -vS -iuWORD -- app", "{app}", "works"),
        ("#!/usr/bin/env -Sapp -u WORD", "{app}", "works"),
        ("#!/usr/bin/env --split-string=--unset=WORD app", "{app}", "works"),
        ("#!/usr/bin/env -S --unset WORD -a name app", "{app}", "works"),
        ("#!/usr/bin/env -S -C {folder} bin/app", "{app}", "works"),
        ("#!/usr/bin/env -S PATH={folder}/bin app", "{app}", "works"),
        ("#!/usr/bin/env -S -u app", "/usr/bin/env", "cannot-tell"),
        ("#!{tmp}/other", "{app}", "works"),
    ],
)
def test_a_script_is_what_runs_it(lab, capsys, monkeypatch, tmp_path, line, program, verdict):
    monkeypatch.setenv("PATH", f"{lab.path('programs/bin')}:{os.environ['PATH']}")
    folder = lab.path("programs")
    words = {"app": lab.path("programs/bin/app"), "tmp": tmp_path, "folder": folder}
    (tmp_path / "other").write_text(f"#!{words['app']}\n")
    script = tmp_path / "script"
    script.write_text(line.format(**words) + "\n")
    _, out, _ = inject(capsys, "check", script, "--with", lab.path("new"), "--json")
    (found,) = json.loads(out)["programs"]
    assert (found["program"], found["verdict"]) == (str(script), verdict)
    (told,) = [one for one in found["findings"] if one["cause"] == "host"]
    assert told["provider"] == program.format(**words)
    assert told["file"] == str(script)


def test_a_script_that_runs_itself(lab, capsys, tmp_path):
    script = tmp_path / "script"
    script.write_text(f"#!{script}\n")
    code, _, err = inject(capsys, "check", script, "--with", lab.path("new"))
    assert code == ExitCode.INVALID
    assert "without end" in err


def test_a_name_makes_no_line_of_its_own(lab, capsys):
    """Of a program, of a library that it asks for, of a folder."""
    lab.library("odd/libodd.so", defines=["odd"], soname="libodd\nforged.so")
    uses_mpich(
        lab,
        name="more/bin/app\nforged: works",
        needs=["old/lib/libmpi.so.12", "odd/libodd.so"],
        flags=(),
    )
    for words in (["more"], ["more/bin/app\nforged: works"], ["more", "--tree"]):
        places = [lab.path(words[0]), *words[1:]]
        _, out, _ = inject(capsys, "check", *places, "--with", lab.path("new"))
        assert "forged" in out
        assert [line for line in out.splitlines() if line.startswith(("forged", "lib"))] == []
