"""The entry point of a pack's program, compiled and run: environment, place, loader, endings."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from need import as_unprivileged, need
from packs import INTERPRETER, entry_point, out
from stackproof.core.command import EnvPatch
from stackproof.pack.model import ROOT

SH = Path("/bin/sh")
ENV = Path("/usr/bin/env")

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="loader of x86_64")


def told(entry: Path, **before: str) -> dict[str, str]:
    done = out(entry, env=before)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_the_environment_is_changed_as_a_patch_says(tmp_path: Path) -> None:
    need("gcc")
    patch = EnvPatch(
        set={"HOME_OF_IT": f"{ROOT}/share:{ROOT}/more", "PLAIN": "a=b"},
        unset=("GONE", "NOT_THERE"),
        prepend={"PATH": (f"{ROOT}/bin", "/second"), "NEW": ("x",)},
        append={"LATE": ("z",)},
    )
    entry = entry_point(tmp_path / "pack", ENV, env=patch)
    top = tmp_path / "pack"
    found = told(entry, GONE="1", PATH="/usr/bin", LATE="y", KEPT="k", PLAIN="old", GONER="2")
    assert found == {
        "HOME_OF_IT": f"{top}/share:{top}/more",
        "PLAIN": "a=b",
        "PATH": f"{top}/bin:/second:/usr/bin",
        "NEW": "x",
        "LATE": "y:z",
        "KEPT": "k",
        "GONER": "2",
    }
    assert told(entry, **found) == found  # started by another one, it adds nothing
    other = {**found, "PATH": f"/other:{found['PATH']}"}
    assert told(entry, **other)["PATH"] == f"{top}/bin:/second:/other:{found['PATH']}"
    assert told(entry)["PATH"] == f"{top}/bin:/second"


def test_what_the_pack_has_to_spare_comes_last_where_the_machine_lacks_it(tmp_path: Path) -> None:
    """By its name, or by a version of it; a machine that has all takes away what another added."""
    need("gcc")
    explain = {"STACKPROOF_PACK_EXPLAIN": "1"}
    has, older = {"libc.so.6": ("GLIBC_2.2.5",)}, {"libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.99")}
    lacks = {"libc.so.6": (), "libnone.so.1": ("X",)}
    for name, spare, said in (
        ("older", older, "no libc.so.6 with GLIBC_2.99\n"),
        ("lacks", lacks, "no libnone.so.1\n"),
    ):
        entry = entry_point(tmp_path / name, ENV, spare=spare)
        folder = f"{tmp_path}/{name}/lib/spare"
        assert told(entry) == {"LD_LIBRARY_PATH": folder}
        for before in ("/mine", f"/mine:{folder}"):
            assert told(entry, LD_LIBRARY_PATH=before) == {"LD_LIBRARY_PATH": f"/mine:{folder}"}
        done = out(entry, env=explain)
        assert f"RDMA by the libraries in {folder}, as this machine has {said}" in done.stderr
    entry = entry_point(tmp_path / "has", ENV, spare=has)
    folder = f"{tmp_path}/has/lib/spare"
    assert "RDMA by the libraries of this machine\n" in out(entry, env=explain).stderr
    for before, kept in ((f"/a:{folder}:/b", "/a:/b"), (f"/a:{folder}x", f"/a:{folder}x")):
        assert told(entry, LD_LIBRARY_PATH=before) == {"LD_LIBRARY_PATH": kept}
    assert told(entry) == told(entry, LD_LIBRARY_PATH=folder) == {}
    assert "RDMA" not in out(entry_point(tmp_path / "none", ENV), env=explain).stderr


@pytest.mark.parametrize("name", ["a blank and 'quotes'", "x" * 200 + "/" + "y" * 200, "ünïcode"])
def test_it_finds_the_pack_wherever_that_lies(tmp_path: Path, name: str) -> None:
    need("gcc")
    top = tmp_path / name
    entry = entry_point(top, ENV, env=EnvPatch(set={"TOP": ROOT}))
    link = tmp_path / "link"
    link.symlink_to(entry)
    again = tmp_path / "again"
    again.symlink_to("link")
    assert {told(one)["TOP"] for one in (entry, link, again)} == {str(top)}
    done = out("./env", cwd=entry.parent, env={})
    assert f"TOP={top}\n" in done.stdout
    done = out("env", cwd=tmp_path, env={"PATH": str(entry.parent)})
    assert f"TOP={top}\n" in done.stdout


def test_it_finds_the_pack_without_proc(tmp_path: Path) -> None:
    need("gcc", "bubblewrap")
    entry_point(tmp_path / "root/pack", ENV, env=EnvPatch(set={"TOP": ROOT}))
    os.symlink("pack/bin/env", tmp_path / "root/link")
    for word in ("/pack/bin/env", "/link"):
        done = out("bwrap", "--bind", tmp_path / "root", "/", "--chdir", "/pack", word)
        assert "TOP=/pack\n" in done.stdout, done.stderr
    done = out("bwrap", "--bind", tmp_path / "root", "/", "--chdir", "/pack/real", "../bin/env")
    assert "TOP=/pack/real/..\n" in done.stdout, done.stderr


def test_arguments_and_the_name_come_as_they_were_given(tmp_path: Path) -> None:
    need("gcc")
    entry = entry_point(tmp_path, SH)
    words = ["", "a b", "*", "--", "-x", "ü"]
    done = out(entry, "-c", 'printf "%s|" "$@"', "name", *words)
    assert done.stdout == "".join(f"{word}|" for word in words)
    assert out(entry, "-c", "echo $0").stdout == f"{entry}\n"


def test_a_launcher_is_told_the_entry_points_own_path(tmp_path: Path) -> None:
    need("gcc")
    entry = entry_point(tmp_path / "pack", SH, launcher=True)
    link = tmp_path / "mpirun"
    link.symlink_to(entry)
    assert out(link, "-c", "echo $0").stdout == f"{entry.parent}/mpirun\n"


def test_an_interpreter_gets_its_script(tmp_path: Path) -> None:
    need("gcc")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/script").write_text('echo "$0" "$@"')
    told_name, script = f"{ROOT}/bin/interpreter", f"{ROOT}/script"
    entry = entry_point(tmp_path / "pack", SH, name=told_name, arguments=("-e", script))
    assert out(entry, "one", "two").stdout == f"{tmp_path}/pack/script one two\n"


@pytest.mark.battery
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSEGV])
def test_signals_reach_the_program_and_are_its_end(tmp_path: Path, number: signal.Signals) -> None:
    need("gcc")
    entry = entry_point(tmp_path, SH)
    done = out(entry, "-c", f"kill -{int(number)} $$")
    assert done.returncode == -number
    with subprocess.Popen([entry, "-c", "echo up; read x"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout
        process.stdout.readline()
        assert os.path.realpath(f"/proc/{process.pid}/exe") == str(tmp_path / "real/sh")
        process.send_signal(number)
        assert process.wait(timeout=600) == -number


def test_the_exit_code_is_the_programs(tmp_path: Path) -> None:
    need("gcc")
    assert out(entry_point(tmp_path, SH), "-c", "exit 77").returncode == 77


def test_an_older_c_library_makes_the_packs_own_loader_start_it(tmp_path: Path) -> None:
    need("gcc")
    explain = {"STACKPROOF_PACK_EXPLAIN": "1"}
    fits = entry_point(tmp_path / "fits", SH, floor=17)
    done = out(fits, "-c", "readlink /proc/$$/exe", env={**os.environ, **explain})
    assert done.stdout == f"{tmp_path}/fits/real/sh\n"
    assert "tier 0" in done.stderr
    assert f"loader of this machine, {INTERPRETER}" in done.stderr
    old = entry_point(tmp_path / "old", SH, floor=98)
    done = out(old, "-c", 'readlink /proc/$$/exe; echo "$0" "$1"', env={**os.environ, **explain})
    assert done.stdout.splitlines()[0] == f"{tmp_path}/old/glibc/ld-linux-x86-64.so.2"
    assert "needs GLIBC_2.98, and this machine has GLIBC_2." in done.stderr
    assert "loader of the pack, as this machine's C library is older" in done.stderr
    assert out(old, "-c", "kill -SEGV $$").returncode == -signal.SIGSEGV


def test_without_a_loader_of_its_own_it_says_why_it_cannot_start(tmp_path: Path) -> None:
    need("gcc")
    entry = entry_point(tmp_path, SH, floor=98)
    content = entry.read_bytes()
    entry.write_bytes(content.replace(b"\0Lglibc/", b"\0lglibc/"))
    done = out(entry)
    assert done.returncode == 126
    assert "this machine's C library is older" in done.stderr
    assert "hint: " in done.stderr


def test_a_pack_that_is_not_whole_is_told_in_a_sentence(tmp_path: Path) -> None:
    need("gcc")
    entry = entry_point(tmp_path, SH)
    (tmp_path / "real/sh").unlink()
    done = out(entry)
    assert (done.returncode, "not whole" in done.stderr) == (126, True)
    (tmp_path / "real/sh").write_bytes(b"")
    (tmp_path / "real/sh").chmod(0o644)
    done = out(entry)
    assert (done.returncode, "noexec" in done.stderr) == (126, True)
    head = bytearray(SH.resolve().read_bytes()[:4096])
    head[18] = 243  # e_machine: RISC-V
    (tmp_path / "real/sh").write_bytes(head)
    (tmp_path / "real/sh").chmod(0o755)
    done = out(entry)
    assert (done.returncode, "another kind of machine" in done.stderr) == (126, True)


def test_it_does_not_run_with_more_rights_than_its_user(tmp_path: Path) -> None:
    need("gcc", "root", "unprivileged-user")
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    entry = entry_point(tmp_path, SH)
    entry.chmod(0o4755)
    done = out(*as_unprivileged([str(entry), "-c", "id -u"]))
    assert (done.returncode, done.stdout) == (126, "")
    assert "more rights" in done.stderr


def test_an_entry_point_without_a_table_says_so(tmp_path: Path) -> None:
    need("gcc")
    from stackproof.pack.effects.entry_files import template  # noqa: PLC0415

    entry = tmp_path / "entry"
    entry.write_bytes(template())
    entry.chmod(0o755)
    done = out(entry)
    assert (done.returncode, "no entry point yet" in done.stderr) == (126, True)


def test_it_is_small_and_needs_no_library(tmp_path: Path) -> None:
    need("gcc", "bubblewrap")
    entry = entry_point(tmp_path / "root", SH)
    assert entry.stat().st_size < 32 << 10
    shutil.rmtree(tmp_path / "root/glibc")
    done = out("bwrap", "--bind", tmp_path / "root", "/", "/bin/sh")
    assert done.returncode == 126
    assert "not whole" in done.stderr
