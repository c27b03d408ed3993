"""`inject apply` and `undo` on compiled programs and MPIs, with the real loader as the judge."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elflab import Lab, run
from need import need
from stackproof import cli, noun
from stackproof.errors import ExitCode, Reason, StackproofError
from stackproof.host import injecting
from stackproof.host.elfview import HostView
from stackproof.host.injecting import Injection

USES_MPICH = "void MPI_Recv(int); void use(void) { MPI_Recv(0x4c000405); MPI_Recv(0x4c00080b); }\n"
EVERY = ["MPI_Init", "MPI_Recv", "MPI_Get_count", "MPII_Win_get_attr"]


class Eessi(Lab):
    """A program with EESSI's DT_RPATH and a loader of its own, its MPI, and MPIs of the host.

    `host` and `newer` have an inner library in a folder of their own, found by a DT_RUNPATH.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.software = folder / "host_injections" / "2025.06" / "software" / "linux" / "x"
        self.software.mkdir(parents=True)
        self.overrides = self.software / "rpath_overrides" / "MPICH"
        self.place = self.overrides / "system"
        self.library("eessi/lib/libz.so.1", defines=["inflate"])
        self.library("eessi/lib/libmpi.so.12", defines=EVERY)
        self.mpi("host")
        self.mpi("newer")
        usual = HostView().elf(HostView().look(self.program("any"))).interpreter
        compat = folder / "compat" / "lib64" / os.path.basename(usual)
        compat.parent.mkdir(parents=True)
        shutil.copy(usual, compat)
        folders = f"{self.place}/lib:{self.place}/lib64:{self.path('eessi/lib')}"
        self.app = self.program(
            "eessi/bin/app",
            needs=["eessi/lib/libmpi.so.12", "eessi/lib/libz.so.1"],
            calls=["MPI_Init", "MPI_Get_count", "inflate"],
            declarations=USES_MPICH,
            flags=[f"-Wl,--disable-new-dtags,-rpath,{folders}", f"-Wl,--dynamic-linker,{compat}"],
        )

    def mpi(self, name, *, defines=EVERY, inner=True):
        needs = []
        if inner:
            self.library(f"{name}/lib/inner/libz.so.1", defines=["inflate", "more"])
            self.library(f"{name}/lib/inner/libfabric.so.1", defines=["fi_getinfo"])
            needs = [f"{name}/lib/inner/libz.so.1", f"{name}/lib/inner/libfabric.so.1"]
        self.library(
            f"{name}/lib/libmpi.so.12",
            defines=defines,
            imports=["fi_getinfo"] if inner else [],
            needs=needs,
            flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner"],
        )

    def loaded(self):
        """Return the outcome and the loaded files by name."""
        outcome = run(self.app)
        assert outcome.done, outcome.error
        return outcome, {os.path.basename(path): path for path in outcome.loaded}


@pytest.fixture
def eessi(tmp_path: Path) -> Eessi:
    need("gcc", "patchelf")
    return Eessi(tmp_path)


def inject(capsys, *words):
    """Return exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["inject", *map(str, words)])
    output = capsys.readouterr()
    return stop.value.code, output.out, output.err


def applied(capsys, eessi, prefix, *words):
    return inject(
        capsys,
        "apply",
        eessi.app,
        "--with",
        eessi.path(prefix),
        "--eessi",
        eessi.software,
        *words,
    )


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_fills_an_override(eessi, capsys):
    """The MPI and what it needs come from the override; names of others are not taken over."""
    outcome, before = eessi.loaded()
    assert outcome.answers["MPI_Init"] == "eessi/lib/libmpi.so.12"
    code, out, err = applied(capsys, eessi, "host")
    assert (code, err) == (ExitCode.DONE, ""), err
    assert f"made {eessi.place}\n" in out
    outcome, after = eessi.loaded()
    assert outcome.answers["MPI_Init"] == "host/lib/libmpi.so.12"
    assert after["libmpi.so.12"] == f"{eessi.place}/lib/libmpi.so.12"
    assert after["libfabric.so.1"] == f"{eessi.place}/lib/private/libfabric.so.1"
    assert after["libz.so.1"] == before["libz.so.1"]
    assert outcome.answers["inflate"] == "eessi/lib/libz.so.1"


def test_copies_have_a_dt_rpath_and_no_absolute_needs(eessi, capsys):
    assert applied(capsys, eessi, "host")[0] == ExitCode.DONE
    shown = subprocess.run(
        ["readelf", "-d", f"{eessi.place}/lib/libmpi.so.12"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert "(RPATH)" in shown
    assert "(RUNPATH)" not in shown
    assert "[/" not in shown


def test_it_does_not_depend_on_the_prefix(eessi, capsys):
    assert applied(capsys, eessi, "host")[0] == ExitCode.DONE
    shutil.rmtree(eessi.path("host"))
    assert eessi.loaded()[0].answers["MPI_Init"] == "host/lib/libmpi.so.12"


def test_plug_ins_move_with_the_library_that_opens_them(eessi, capsys):
    """libfabric looks beside itself; a plug-in that lacks something stays behind, and it is said."""
    flags = ["-Wl,--enable-new-dtags,-rpath,$ORIGIN/..:$ORIGIN"]
    eessi.library("host/lib/inner/libverbs.so.1", defines=["verbs"])
    fabric = "host/lib/inner/libfabric"
    eessi.library(f"{fabric}/libgood-fi.so", needs=["host/lib/inner/libverbs.so.1"], flags=flags)
    eessi.library("host/lib/inner/libgone.so.1", defines=["gone"])
    eessi.library(f"{fabric}/libbad-fi.so", needs=["host/lib/inner/libgone.so.1"], flags=flags)
    os.unlink(eessi.path("host/lib/inner/libgone.so.1"))
    code, out, err = applied(capsys, eessi, "host")
    assert code == ExitCode.DONE, err
    assert "left behind: libbad-fi.so: `libgone.so.1` not found" in out
    private = eessi.place / "lib" / "private"
    assert [path.name for path in (private / "libfabric").iterdir()] == ["libgood-fi.so"]
    shutil.rmtree(eessi.path("host"))
    outcome = run(eessi.app, str(private / "libfabric" / "libgood-fi.so"))
    assert outcome.opened == (True,)


def test_undo_goes_back_one_by_one(eessi, capsys):
    for prefix in ("host", "newer"):
        assert applied(capsys, eessi, prefix)[0] == ExitCode.DONE
    for expected in ("host", "eessi"):
        assert inject(capsys, "undo", eessi.place)[0] == ExitCode.DONE
        assert eessi.loaded()[0].answers["MPI_Init"] == f"{expected}/lib/libmpi.so.12"
    assert not os.path.lexists(eessi.place)
    assert inject(capsys, "undo", eessi.place)[0] == ExitCode.INVALID


def test_the_same_again_changes_nothing(eessi, capsys):
    applied(capsys, eessi, "host")
    before = tree(eessi.overrides)
    code, out, _ = applied(capsys, eessi, "host")
    assert code == ExitCode.DONE
    assert "nothing was changed" in out
    assert tree(eessi.overrides) == before


def test_dry_run_changes_nothing(eessi, capsys):
    code, out, _ = applied(capsys, eessi, "host", "--dry-run", "--json")
    data = json.loads(out)
    assert code == ExitCode.DONE
    assert data["dry-run"] is True
    assert data["place"] == str(eessi.place)
    assert [line.split(" ")[0] for line in data["files"]] == [
        "lib/libmpi.so.12",
        "lib/private/libfabric.so.1",
        "lib/private/libz.so.1",
    ]
    assert tree(eessi.software) == []


def test_a_folder_made_by_hand_comes_back(eessi, capsys):
    """A real folder is exchanged for the link in one step, and back."""
    (eessi.place / "lib").mkdir(parents=True)
    (eessi.place / "lib" / "note").write_text("by hand\n")
    assert applied(capsys, eessi, "host")[0] == ExitCode.DONE
    assert eessi.place.is_symlink()
    assert inject(capsys, "undo", eessi.place)[0] == ExitCode.DONE
    assert not eessi.place.is_symlink()
    assert (eessi.place / "lib" / "note").read_text() == "by hand\n"


def test_a_link_made_by_hand_comes_back(eessi, capsys):
    other = eessi.folder / "by-hand"
    other.mkdir()
    eessi.overrides.mkdir(parents=True)
    eessi.place.symlink_to(other)
    assert applied(capsys, eessi, "host")[0] == ExitCode.DONE
    assert inject(capsys, "undo", eessi.place)[0] == ExitCode.DONE
    assert os.readlink(eessi.place) == str(other)


def test_another_name_gets_a_link(eessi, capsys):
    """Debian's MPICH is libmpich.so.12; the program asks for libmpi.so.12."""
    eessi.library("named/lib/libmpich.so.12", defines=EVERY)
    assert applied(capsys, eessi, "named")[0] == ExitCode.DONE
    assert eessi.loaded()[0].answers["MPI_Init"] == "named/lib/libmpich.so.12"


def test_a_place_behind_a_link(eessi, capsys, tmp_path):
    """EESSI's host_injections is a link to a folder of the site."""
    real = tmp_path / "opt-eessi"
    (tmp_path / "host_injections").rename(real)
    (tmp_path / "host_injections").symlink_to(real)
    code, out, err = applied(capsys, eessi, "host")
    assert code == ExitCode.DONE, err
    assert f"made {real}/" in out
    assert eessi.loaded()[0].answers["MPI_Init"] == "host/lib/libmpi.so.12"


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_what_check_refuses_is_refused(eessi, capsys, dry):
    """A function is missing: the program keeps what it had, and nothing is left behind."""
    applied(capsys, eessi, "host")
    before = tree(eessi.overrides)
    eessi.mpi("gone", defines=[name for name in EVERY if name != "MPI_Get_count"])
    code, _, err = applied(capsys, eessi, "gone", *dry)
    assert code == ExitCode.WORSE
    assert "MPI_Get_count" in err
    assert tree(eessi.overrides) == before
    assert eessi.loaded()[0].answers["MPI_Init"] == "host/lib/libmpi.so.12"


def test_an_incomplete_stack_is_refused(eessi, capsys):
    os.unlink(eessi.path("host/lib/inner/libfabric.so.1"))
    code, _, err = applied(capsys, eessi, "host")
    assert code == ExitCode.WORSE
    assert "`libfabric.so.1` is not found" in err
    assert tree(eessi.software) == []


def test_a_need_by_path_is_refused(eessi, capsys):
    eessi.library("odd/lib/inner/libodd.so.1", defines=["odd"], soname="")
    place = eessi.path("odd/lib/inner/libodd.so.1")
    eessi.library("odd/lib/libmpi.so.12", defines=EVERY, imports=["odd"], needs=[place])
    code, _, err = applied(capsys, eessi, "odd")
    assert code == ExitCode.WORSE
    assert place in err


def test_two_files_of_one_name_are_refused(eessi, capsys):
    """Each of two libraries of the MPI finds its own libfabric: one process would have both."""
    eessi.library("host/lib/other/libfabric.so.1", defines=["fi_getinfo"])
    eessi.library(
        "host/lib/libmpifort.so.12",
        imports=["fi_getinfo"],
        needs=["host/lib/other/libfabric.so.1"],
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN/other"],
    )
    code, _, err = applied(capsys, eessi, "host")
    assert code == ExitCode.WORSE
    assert "both are `libfabric.so.1`" in err


def test_the_program_must_look_there(eessi, capsys):
    code, _, err = applied(capsys, eessi, "host", "--compiler", "GCC")
    assert code == ExitCode.INVALID
    assert "system-GCC/lib" in err
    assert str(eessi.place) in err
    assert tree(eessi.software) == []


@pytest.mark.parametrize(
    "words",
    [
        ["--accelerator", "CUDA-12.6.0"],
        ["--compiler", "../GCC"],
        ["--compiler", "GCC", "--accelerator", "cuda"],
    ],
)
def test_names_of_folders(eessi, capsys, words):
    assert applied(capsys, eessi, "host", *words)[0] == ExitCode.USAGE


def test_what_the_loader_does_not_take_is_undone(eessi, capsys, monkeypatch):
    """The loader has the last word: were it to disagree with the model, all goes back."""
    applied(capsys, eessi, "host")
    monkeypatch.setattr(injecting, "trace", lambda *_: {"libmpi.so.12": "/elsewhere/libmpi.so.12"})
    code, _, err = applied(capsys, eessi, "newer")
    assert code == ExitCode.WORSE
    assert "/elsewhere/libmpi.so.12" in err
    assert eessi.loaded()[0].answers["MPI_Init"] == "host/lib/libmpi.so.12"


def test_the_trace_names_what_is_missing(eessi):
    eessi.library("odd/libstackproof-odd.so.1", defines=["odd"])
    app = eessi.program("odd/app", needs=["odd/libstackproof-odd.so.1"], calls=["odd"])
    os.unlink(eessi.path("odd/libstackproof-odd.so.1"))
    interpreter = HostView().elf(HostView().look(app)).interpreter
    with pytest.raises(StackproofError) as error:
        injecting.trace(interpreter, app)
    assert error.value.reason is Reason.INJECTION_FAILS
    assert "libstackproof-odd.so.1" in str(error.value)


def test_leftovers_of_a_stop_are_removed(eessi, capsys):
    """A stop while filling, or between two renames, leaves nothing that counts."""
    keep = eessi.overrides / ".stackproof"
    (keep / "staging.system" / "lib").mkdir(parents=True)
    (keep / "system.found.7").symlink_to("nowhere")
    (keep / "staging.link.system").symlink_to("nowhere")
    assert applied(capsys, eessi, "host")[0] == ExitCode.DONE
    assert sorted(path.name for path in keep.iterdir()) == ["lock", "system.1"]


def test_one_at_a_time(eessi, capsys, monkeypatch):
    keep = eessi.overrides / ".stackproof"
    keep.mkdir(parents=True)
    monkeypatch.setattr(injecting, "_LOCK_S", 0.1)
    with open(keep / "lock", "w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert applied(capsys, eessi, "host")[0] == ExitCode.NOT_POSSIBLE
    assert applied(capsys, eessi, "host")[0] == ExitCode.DONE


def test_the_record(eessi, capsys):
    applied(capsys, eessi, "host")
    path = eessi.place / "injection.json"
    record = noun.from_json(Injection, path.read_text())
    assert record.prefix == eessi.path("host")
    assert set(record.sources) == {
        "lib/libmpi.so.12",
        "lib/private/libfabric.so.1",
        "lib/private/libz.so.1",
    }


def test_a_wrapper_sets_variables(eessi, capsys, tmp_path):
    """A program without a DT_RPATH is reached by a variable; what was set comes after it."""
    app = eessi.program(
        "plain/bin/app",
        needs=["eessi/lib/libmpi.so.12"],
        calls=["MPI_Init"],
        declarations=USES_MPICH,
    )
    place = tmp_path / "wrapped"
    words = ("apply", app, "--with", eessi.path("host"), "--wrapper", place)
    assert inject(capsys, *words, "--dry-run")[0] == ExitCode.DONE
    assert not os.path.lexists(place)
    assert inject(capsys, *words)[0] == ExitCode.DONE
    other = {"LD_LIBRARY_PATH": eessi.path("newer/lib")}
    outcome = run(str(place / "bin" / "app"), env=other)
    assert outcome.answers["MPI_Init"] == "host/lib/libmpi.so.12", outcome.error
    assert inject(capsys, "undo", place)[0] == ExitCode.DONE
    assert not os.path.lexists(place)


def test_a_wrapper_with_links(eessi, capsys, tmp_path):
    eessi.library("named/lib/libmpich.so.12", defines=EVERY)
    app = eessi.program(
        "plain/bin/app",
        needs=["eessi/lib/libmpi.so.12"],
        calls=["MPI_Init"],
        declarations=USES_MPICH,
    )
    place = tmp_path / "wrapped"
    words = ("apply", app, "--with", eessi.path("named"), "--wrapper", place)
    assert inject(capsys, *words)[0] == ExitCode.DONE
    outcome = run(str(place / "bin" / "app"))
    assert outcome.answers["MPI_Init"] == "named/lib/libmpich.so.12", outcome.error


def test_a_wrapper_for_a_dt_rpath(eessi, capsys, tmp_path):
    """EESSI's program looks into its DT_RPATH first: it takes a preload."""
    place = tmp_path / "wrapped"
    words = ("apply", eessi.app, "--with", eessi.path("host"), "--wrapper", place)
    assert inject(capsys, *words)[0] == ExitCode.DONE
    outcome = run(str(place / "bin" / "app"))
    assert outcome.answers["MPI_Init"] == "host/lib/libmpi.so.12", outcome.error


def test_a_wrapper_takes_nobodys_folder(eessi, capsys, tmp_path):
    place = tmp_path / "mine"
    place.mkdir()
    words = ("apply", eessi.app, "--with", eessi.path("host"), "--wrapper", place)
    assert inject(capsys, *words)[0] == ExitCode.USAGE
    assert tree(place) == []


def test_a_wrapper_with_a_copy(eessi, capsys, tmp_path):
    """No variable comes before a DT_RPATH for a library below the MPI: a copy gets another one."""
    eessi.library("own/libfabric.so.1", defines=["fi_getinfo"])
    eessi.library("own/libmpi.so.12", defines=EVERY, needs=["own/libfabric.so.1"])
    eessi.library("fabric/libfabric.so.1", defines=["fi_getinfo"])
    app = eessi.program(
        "bin/below",
        needs=["own/libmpi.so.12", "own/libfabric.so.1"],
        calls=["MPI_Init", "fi_getinfo"],
        declarations=USES_MPICH,
        flags=["-Wl,--disable-new-dtags,-rpath,$ORIGIN/../own"],
    )
    place = tmp_path / "wrapped"
    words = ("apply", app, "--with", eessi.path("fabric"), "--wrapper", place)
    code, _, err = inject(capsys, *words)
    assert code == ExitCode.DONE, err
    outcome = run(str(place / "bin" / "below"))
    assert outcome.answers["fi_getinfo"] == "fabric/libfabric.so.1", outcome.error
    assert outcome.answers["MPI_Init"] == "own/libmpi.so.12"
    assert run(app).answers["fi_getinfo"] == "own/libfabric.so.1"


def test_two_at_once(eessi):
    """Both end well, one after the other: each has a version of its own."""
    apply = [sys.executable, "-m", "stackproof", "inject", "apply", eessi.app]
    started = [
        subprocess.Popen(
            [*apply, "--eessi", eessi.software, "--with", eessi.path(prefix)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for prefix in ("host", "newer")
    ]
    for process in started:
        _, err = process.communicate(timeout=100)
        assert process.returncode == ExitCode.DONE, err
    names = sorted(path.name for path in (eessi.overrides / ".stackproof").iterdir())
    assert names == ["lock", "system.1", "system.2"]
    assert eessi.loaded()[0].answers["MPI_Init"] != "eessi/lib/libmpi.so.12"


def test_without_patchelf(eessi, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = applied(capsys, eessi, "host")
    assert code == ExitCode.NOT_POSSIBLE
    assert "apt-get install patchelf" in err
    assert sorted(path.name for path in (eessi.overrides / ".stackproof").iterdir()) == ["lock"]
