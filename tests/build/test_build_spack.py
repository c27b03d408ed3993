"""`build` of Spack stacks as a user meets it: everything that goes wrong on the way, and after it.

A small program stands in the place of Spack (`fakespack.py`); the real one is in test_spack.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fakespack
from clusters import wait_until
from fakespack import Folder
from need import need

COVERS = (
    "build/engines/spack/buildplan.py",
    "build/engines/spack/effects/folders.py",
    "build/engines/spack/effects/progress.py",
)


def begin(folder: Folder) -> subprocess.Popen[str]:
    return subprocess.Popen(
        folder.argv(), cwd=folder.path, env=folder.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def files_in(folder: Folder) -> set[str]:
    known = {"cache", "other", "small", "site", "spack", "packages"}
    return {path.name for path in folder.path.iterdir()} - known


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    need("bubblewrap", "mksquashfs", "gcc")
    return fakespack.make(tmp_path)


@pytest.mark.battery
def test_build_and_again(folder: Folder) -> None:
    made = json.loads(folder.build("--json").stdout)
    assert files_in(folder) == {
        "small.site.lock.json", "small.squashfs", "small.squashfs.sha256",
    }  # fmt: skip
    assert made["steps_run"] == 7
    again = folder.build()
    assert "nothing to do" in again.stderr
    assert made["sha256"] in again.stdout


@pytest.mark.battery
def test_a_broken_package_shows_its_first_error_and_is_built_once_it_is_mended(
    folder: Folder,
) -> None:
    folder.write("good", "broken")
    done = folder.build(ok=5)
    assert "first.c:3:1: error: expected ';'" in done.stderr
    assert "`broken@1.0` was not installed" in done.stderr
    assert files_in(folder) == {"small.site.lock.json"}
    (kept,) = (path for home in folder.builds for path in home.glob("logs/broken-1.0-*.log"))
    assert "checking for gcc" in kept.read_text()
    # The store has the other package; only the broken one is tried again.
    folder.build(ok=5)
    assert "[+] " in running_log(folder)
    folder.write("good")
    folder.build()
    assert "small.squashfs" in files_in(folder)


@pytest.mark.battery
def test_no_space_in_a_build_says_where_and_what_to_do(folder: Folder) -> None:
    folder.write("full")
    done = folder.build(ok=4)
    assert "GB are free" in done.stderr
    assert "--build-dir" in done.stderr
    assert "small.squashfs" not in files_in(folder)


@pytest.mark.battery
def test_more_memory_than_there_is(folder: Folder) -> None:
    giants = ("cuda", "llvm", "rust", "trilinos", "py-torch", "py-tensorflow", "nvhpc")
    if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") > 100e9:
        pytest.skip("this machine has memory for seven giants")
    folder.write(*giants)
    done = folder.build("--in-memory", "yes", ok=4)
    assert "the build may need 113 GB" in done.stderr
    assert "GB of memory are free" in done.stderr
    assert "--in-memory=no" in done.stderr
    assert files_in(folder) == {"small.site.lock.json"}
    folder.build("--in-memory", "auto")
    assert "small.squashfs" in files_in(folder)


@pytest.mark.battery
def test_an_entry_of_a_cache_that_was_changed_after_it_was_signed(folder: Folder) -> None:
    folder.write("good", "forged")
    done = folder.build(ok=5)
    assert "changed after they were signed" in done.stderr
    assert "forged@1.0" in done.stderr
    assert files_in(folder) == {"small.site.lock.json"}
    folder.build()


@pytest.mark.battery
def test_an_entry_of_a_cache_whose_key_is_not_known_is_told_of(folder: Folder) -> None:
    folder.write("strange")
    done = folder.build()
    assert "ABCDEF0123" in done.stderr
    assert "public_key" in done.stderr


def test_no_solution_leaves_no_lock(folder: Folder) -> None:
    folder.write("unsolvable")
    done = folder.build(ok=5)
    assert "there is no such package" in done.stderr
    assert files_in(folder) == set()


@pytest.mark.parametrize("commit", ["v9.9.9", "0123456789abcdef0123456789abcdef01234567"])
def test_a_clone_that_lacks_the_commit(folder: Folder, commit: str) -> None:
    folder.write("good", commit=commit)
    done = folder.build(ok=3)
    assert commit in done.stderr
    assert "v1.1.0" in done.stderr
    assert files_in(folder) == set()


@pytest.mark.battery
def test_a_lock_that_does_not_match(folder: Folder) -> None:
    folder.build("--stop-after", "lock")
    before = (folder.path / "small.site.lock.json").read_bytes()
    folder.write("good", "more")
    done = folder.build("--locked", ok=3)
    assert "--update" in done.stderr
    assert (folder.path / "small.site.lock.json").read_bytes() == before
    (folder.path / "small.site.lock.json").write_text("{")
    folder.build(ok=3)
    assert files_in(folder) == {"small.site.lock.json"}


@pytest.mark.battery
def test_each_site_has_a_lock_of_its_own(folder: Folder) -> None:
    """They are alike in all that conditions ask for, and have not the same for Spack."""
    shutil.copytree(folder.path / "site", folder.path / "twin")
    packages = folder.path / "twin" / "packages.yaml"
    packages.write_text(packages.read_text().replace("12.2.0", "12.3.0"))
    lock, twin = ("--stop-after", "lock"), ("--site", folder.path / "twin")
    first = folder.build(*lock).stdout.strip()
    second = folder.build(*twin, *lock).stdout.strip()
    assert [Path(one).name for one in (first, second)] == [
        "small.site.lock.json", "small.twin.lock.json",
    ]  # fmt: skip
    assert folder.build("--locked", *lock).stdout.strip() == first
    assert folder.build("--locked", *twin, *lock).stdout.strip() == second
    # One without a site's name counts where the site has none, if it answers.
    general = folder.path / "small.lock.json"
    Path(first).rename(general)
    assert folder.build("--locked", *lock).stdout.strip() == str(general)
    Path(second).unlink()
    assert str(general) in folder.build("--locked", *twin, *lock, ok=3).stderr


@pytest.mark.battery
def test_a_hook_cannot_write_outside_of_its_build(folder: Folder) -> None:
    for target in ("/usr/stolen", "/build/spack/stolen", "/sys/stolen"):
        folder.write("good", hook=f"#!/bin/sh\nset -e\necho x > {target}\n")
        done = folder.build(ok=5)
        assert "post-install" in done.stderr
        assert "small.squashfs" not in files_in(folder)
    # Elsewhere it writes into memory of its own: the machine's files are not to be seen there.
    outside = folder.path / "stolen"
    hook = f"#!/bin/sh\nset -e\nmkdir -p {folder.path}\necho x > {outside}\necho x > /etc/stolen\n"
    folder.write("good", hook=hook)
    folder.build()
    assert not outside.exists()
    assert not Path("/etc/stolen").exists()


@pytest.mark.battery
def test_two_builds_of_one_recipe_at_once(folder: Folder) -> None:
    folder.write("good", "slow")
    folder.build("--stop-after", "lock")
    both = [begin(folder), begin(folder)]
    ended = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("another build of this plan is running" in err for _, err in ended) == 1
    assert len({out.split()[-1] for out, _ in ended}) == 1


@pytest.mark.battery
def test_what_is_cut_short_is_continued(folder: Folder) -> None:
    """However hard it ends: what was installed stays, and the image is the same in the end."""
    folder.write("good", "slow", "tail")
    whole = folder.build(STACKPROOF_CACHE=str(folder.path / "other")).stdout.split()[-1]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        cache = folder.path / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        (folder.path / "small.squashfs").unlink()
        process = begin(folder)
        assert wait_until(lambda: "Installing slow" in running_log(folder), 60)
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
        assert process.returncode == (-number if number == signal.SIGKILL else 130), said
        assert "small.squashfs" not in files_in(folder)
        assert wait_until(lambda: not in_sandbox(folder), 20)
        done = folder.build()
        assert "[+] " in running_log(folder)
        assert done.stdout.split()[-1] == whole


def running_log(folder: Folder) -> str:
    found = [home / "logs" / "install-tools-1.log" for home in folder.builds]
    return "".join(path.read_text() for path in found if path.exists())


def in_sandbox(folder: Folder) -> bool:
    """Return whether a process of the build is left."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(folder.path / "cache") in entry.read_bytes():
                return True
        except OSError:
            continue
    return False


@pytest.mark.battery
def test_a_job_is_for_spack_and_options_of_a_job_need_one(folder: Folder) -> None:
    assert "--on slurm" in folder.build("--nodes", "2", ok=2).stderr
    done = folder.build("--on", "slurm", "--srun-option", "nodes=2", ok=2)
    assert "`nodes`" in done.stderr
    done = folder.build("--on", "slurm", "--in-memory", "yes", ok=2)
    assert "--build-dir" in done.stderr
    wheel = folder.path / "wheel.yaml"
    wheel.write_text("name: wheel\nmpi: {family: mpich}\n")
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", "build", str(wheel), "--on", "slurm"],
        capture_output=True, text=True, check=False, cwd=folder.path,
    )  # fmt: skip
    assert (done.returncode, "engine: spack" in done.stderr) == (2, True)
