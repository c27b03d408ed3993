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

from eessilab import EVERY, USES_MPICH, Eessi, inject
from elflab import run
from need import need
from stackproof.core import noun
from stackproof.core.errors import ExitCode, Reason, StackproofError
from stackproof.inject.effects import staging, versions
from stackproof.inject.effects.staging import Injection
from stackproof.linking.effects.view import this_machine

COVERS = ("inject/cli/apply.py", "inject/options.py", "inject/effects/apply.py")


@pytest.fixture
def eessi(tmp_path: Path) -> Eessi:
    need("gcc", "patchelf")
    return Eessi(tmp_path)


def applied(capsys, eessi, prefix, *words):
    return inject(
        capsys, "apply", eessi.app, "--with", eessi.path(prefix), "--eessi", eessi.software, *words
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
        timeout=600,
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
    outcome = run(eessi.program("opener", opens=True), str(private / "libfabric" / "libgood-fi.so"))
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
    """A library that no machine has by itself, as some have a libfabric, is gone."""
    gone = eessi.library("lost/lib/libnowhere.so.1", defines=["nowhere"])
    eessi.library("lost/lib/libmpi.so.12", defines=EVERY, imports=["nowhere"], needs=[gone])
    os.unlink(gone)
    code, _, err = applied(capsys, eessi, "lost")
    assert code == ExitCode.WORSE
    assert "`libnowhere.so.1` is not found" in err
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
    """What is read after the switch has the last word: a library is lost, and all goes back."""
    applied(capsys, eessi, "host")
    commit = staging.commit

    def lose(keep: versions.Keep, folder: str, record: Injection) -> staging.Staged:
        staged = commit(keep, folder, record)
        os.unlink(os.path.join(keep.path(staged.folder), "lib/libmpi.so.12"))
        return staged

    monkeypatch.setattr(staging, "commit", lose)
    code, _, err = applied(capsys, eessi, "newer")
    assert code == ExitCode.WORSE
    assert "eessi/lib/libmpi.so.12` for `libmpi.so.12`" in err
    assert eessi.loaded()[0].answers["MPI_Init"] == "host/lib/libmpi.so.12"


def test_what_is_missing_is_named(eessi):
    eessi.library("odd/libstackproof-odd.so.1", defines=["odd"])
    app = eessi.program("odd/app", needs=["odd/libstackproof-odd.so.1"], calls=["odd"])
    os.unlink(eessi.path("odd/libstackproof-odd.so.1"))
    with pytest.raises(StackproofError) as error:
        staging.load_again(app, this_machine())
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
    monkeypatch.setattr(versions, "_LOCK_S", 0.1)
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


@pytest.mark.battery
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
        _, err = process.communicate(timeout=600)
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


def test_a_newer_c_library_is_refused(eessi, capsys):
    """The C library is never copied: programs keep EESSI's, which lacks the version."""
    script = "GLIBC_2.99 { global: fresh; local: *; };\n"
    eessi.library("fake/libc.so.6", defines=["fresh"], script=script)
    eessi.library(
        "fresh/lib/libmpi.so.12", defines=EVERY, imports=["fresh"], needs=["fake/libc.so.6"]
    )
    code, _, err = applied(capsys, eessi, "fresh")
    assert code == ExitCode.WORSE
    assert "GLIBC_2.99" in err
    assert not os.path.lexists(eessi.place)


def test_what_is_not_decided(eessi, capsys):
    """A function that is missing, and perhaps never called: only who accepts that goes on."""
    every = [*EVERY, "MPI_Get_version"]
    eessi.library("eessi/lib/libmpi.so.12", defines=[*every, "MPI_Session_init"])
    eessi.mpi("host", defines=every)
    eessi.app = eessi.program(
        "eessi/bin/guarded",
        needs=["eessi/lib/libmpi.so.12"],
        calls=["MPI_Init", "MPI_Get_version"],
        declarations=USES_MPICH
        + "void MPI_Session_init(void); void never(void) { MPI_Session_init(); }\n",
        flags=[f"-Wl,--disable-new-dtags,-rpath,{eessi.place}/lib:{eessi.path('eessi/lib')}"],
    )
    code, _, err = applied(capsys, eessi, "host")
    assert code == ExitCode.UNKNOWN, err
    assert not os.path.lexists(eessi.place)
    assert applied(capsys, eessi, "host", "--accept-unknown")[0] == ExitCode.DONE
    assert eessi.loaded()[0].answers["MPI_Init"] == "host/lib/libmpi.so.12"


def test_no_space(eessi, capsys):
    """What was half copied is removed, and what was there stays."""
    need("root")
    assert applied(capsys, eessi, "host")[0] == ExitCode.DONE
    eessi.library("large/lib/libmpi.so.12", defines=EVERY, data=[("filler", 1 << 20)])
    small = eessi.folder / "small"
    small.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", small]
    if subprocess.run(argv, check=False, timeout=600, capture_output=True).returncode:
        pytest.skip("root may not mount here")
    try:
        place = small / "rpath_overrides" / "MPICH" / "system"
        eessi.app = eessi.program(
            "small-app",
            needs=["eessi/lib/libmpi.so.12"],
            calls=["MPI_Init"],
            declarations=USES_MPICH,
            flags=[f"-Wl,--disable-new-dtags,-rpath,{place}/lib:{eessi.path('eessi/lib')}"],
        )
        eessi.software = small
        assert applied(capsys, eessi, "large")[0] == ExitCode.NOT_POSSIBLE
        assert sorted(path.name for path in (place.parent / ".stackproof").iterdir()) == ["lock"]
        assert eessi.loaded()[0].answers["MPI_Init"] == "eessi/lib/libmpi.so.12"
    finally:
        subprocess.run(["umount", small], check=True, timeout=600)


def test_undo_where_the_version_before_is_gone(eessi, capsys):
    """A link to nothing is no version: programs would fall back without a word."""
    for prefix in ("host", "newer"):
        assert applied(capsys, eessi, prefix)[0] == ExitCode.DONE
    (first,) = eessi.overrides.glob(".stackproof/system.1")
    shutil.rmtree(first)
    code, _, err = inject(capsys, "undo", eessi.place)
    assert code == ExitCode.INVALID
    assert "is gone" in err
    assert eessi.loaded()[0].answers["MPI_Init"] == "newer/lib/libmpi.so.12"


def test_other_users_may_enter_whatever_the_umask(eessi, capsys):
    before = os.umask(0o077)
    try:
        assert applied(capsys, eessi, "host")[0] == ExitCode.DONE
    finally:
        os.umask(before)
    made = [eessi.overrides.parent, *eessi.overrides.parent.rglob("*")]
    folders = [path for path in made if path.is_dir()]
    assert len(folders) > 3
    assert [path for path in folders if path.stat().st_mode & 0o055 != 0o055] == []
    files = [path for path in made if path.is_file() and ".so" in path.name]
    assert [path for path in files if path.stat().st_mode & 0o044 != 0o044] == []


def test_parts_that_name_no_folder_for_their_main_library(eessi, capsys):
    """Intel's libmpifort has no DT_RUNPATH: the copies lie in one folder, and find each other."""
    eessi.mpi("intel", inner=False)
    eessi.library(
        "intel/lib/libmpifort.so.12", defines=["mpi_init_"], needs=["intel/lib/libmpi.so.12"]
    )
    code, _, err = applied(capsys, eessi, "intel")
    assert (code, err) == (ExitCode.DONE, "")
    assert eessi.loaded()[0].answers["MPI_Init"] == "intel/lib/libmpi.so.12"
