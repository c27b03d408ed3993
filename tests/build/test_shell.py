"""`shell`: in the sandbox of a build, with its environment, after it failed or succeeded."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import fakespack
from fakespack import Folder
from need import need
from stackproof.core.cli.examples import OUTPUTS

COVERS = ("build/cli/shell.py", "build/effects/inside.py", "build/effects/shell.py")


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Folder, str]:
    """Return a folder with a build of which a package failed, and what the build said."""
    need("bubblewrap", "mksquashfs", "gcc")
    folder = fakespack.make(tmp_path_factory.mktemp("failed"))
    folder.write("good", "broken")
    done = stackproof(folder, "build", folder.recipe, "--site", folder.path / "site",
                      "--in-memory", "no")  # fmt: skip
    assert done.returncode == 5, done.stderr
    return folder, done.stderr


def stackproof(folder: Folder, *words: object, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stackproof", *map(str, words)], cwd=folder.path,
        env={**os.environ, "STACKPROOF_CACHE": str(folder.path / "cache")}, input=given,
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def home_of(folder: Folder) -> Path:
    """Return the folder of the build that failed; the one that made the lock is there as well."""
    (home,) = (path for path in folder.builds if (path / "logs/install-tools-1.log").exists())
    return home


@pytest.mark.battery
def test_the_command_that_a_failure_names_repeats_it(failed: tuple[Folder, str]) -> None:
    folder, said = failed
    found = re.search(r"repeat it with `stackproof (shell [^`]+)`", said)
    assert found is not None
    done = stackproof(folder, *shlex.split(found[1]))
    assert done.returncode == 1
    assert "Installing broken-1.0" in done.stdout


def test_a_shell_of_its_own(failed: tuple[Folder, str]) -> None:
    folder, _ = failed
    done = stackproof(folder, "shell", "small", given="pwd\necho $SPACK_USER_CACHE_PATH\nexit 7\n")
    assert done.returncode == 7
    assert done.stdout.splitlines() == ["/build/environments", "/build/cache"]


def test_the_output_that_help_shows(failed: tuple[Folder, str]) -> None:
    folder, _ = failed
    line, *text = OUTPUTS["shell"]
    assert line.endswith(" -- pwd")
    assert stackproof(folder, "shell", "small", "--", "pwd").stdout.splitlines() == text


def test_what_it_sees(failed: tuple[Folder, str]) -> None:
    folder, _ = failed
    script = f"ls /user-environment; touch /user-environment/mark; ls {folder.path}; id -u"
    done = stackproof(folder, "shell", "small", "--", "sh", "-c", script)
    assert "linux-x-y" in done.stdout
    assert (home_of(folder) / "store" / "mark").exists()
    assert "No such file" in done.stderr
    assert "lo:" in network(folder)
    assert network(folder).count(":") == 1


def network(folder: Folder, *options: str) -> str:
    return stackproof(folder, "shell", "small", *options, "--", "tail", "-n+3",
                      "/proc/net/dev").stdout  # fmt: skip


def test_the_network_is_asked_for_before_or_after_the_name(failed: tuple[Folder, str]) -> None:
    folder, _ = failed
    words = ("--", "readlink", "/proc/self/ns/net")
    here = os.readlink("/proc/self/ns/net")
    after = stackproof(folder, "shell", "small", "--network", *words).stdout.strip()
    before = stackproof(folder, "shell", "--network", "small", *words).stdout.strip()
    without = stackproof(folder, "shell", "small", *words).stdout.strip()
    assert (before, after) == (here, here)
    assert without != here


@pytest.mark.battery
def test_exit_codes(failed: tuple[Folder, str]) -> None:
    folder, _ = failed
    assert stackproof(folder, "shell", "small", "--", "false").returncode == 1
    assert stackproof(folder, "shell", "small", "--", "no-such-program").returncode == 127
    wrong = stackproof(folder, "shell", "small", "--netwrok", "--", "true")
    assert (wrong.returncode, "`--netwrok`" in wrong.stderr) == (2, True)
    none = stackproof(folder, "shell", "other")
    assert none.returncode == 3
    assert home_of(folder).name in none.stderr


@pytest.mark.battery
def test_a_build_by_the_start_of_its_id_and_by_its_folder(failed: tuple[Folder, str]) -> None:
    folder, _ = failed
    home = home_of(folder)
    number = home.name.rpartition("-")[2]
    for name in (home.name, number, number[:5], home):
        assert stackproof(folder, "shell", name, "--", "true").returncode == 0
    assert stackproof(folder, "shell", number[:2], "--", "true").returncode == 3


@pytest.mark.battery
def test_a_finished_build_by_its_image(tmp_path: Path) -> None:
    need("bubblewrap", "mksquashfs", "gcc")
    folder = fakespack.make(tmp_path)
    built = ("build", folder.recipe, "--site", folder.path / "site")
    assert stackproof(folder, *built, "--in-memory", "no").returncode == 0
    image = folder.path / "small.squashfs"
    done = stackproof(folder, "shell", image, "--", "ls", "/user-environment/meta")
    assert "env.json" in done.stdout.split()
    # Once its tree is gone it says why.
    subprocess.run(["rm", "-r", *(str(home / "store") for home in folder.builds
                    if (home / "store").exists())], check=True)  # fmt: skip
    gone = stackproof(folder, "shell", image, "--", "true")
    assert gone.returncode == 3
    assert "--in-memory=no" in gone.stderr


@pytest.mark.battery
def test_several_builds_of_one_name(failed: tuple[Folder, str], tmp_path: Path) -> None:
    del failed
    folder = fakespack.make(tmp_path)
    built = ("build", folder.recipe, "--site", folder.path / "site", "--in-memory", "no")
    for packages in (("broken",), ("broken", "good")):
        folder.write(*packages)
        assert stackproof(folder, *built).returncode == 5
    done = stackproof(folder, "shell", "small", "--", "true")
    assert done.returncode == 2
    assert all(home.name in done.stderr for home in folder.builds if list(home.glob("logs/i*")))


def test_a_build_is_named_by_the_beginning_of_its_id(failed: tuple[Folder, str]) -> None:
    """As in the example of its help: `stackproof shell mpich-e252`."""
    folder, _ = failed
    name, _, number = home_of(folder).name.rpartition("-")
    for words in (f"{name}-{number[:4]}", f"{name}-{number[:8]}"):
        assert stackproof(folder, "shell", words, "--", "true").returncode == 0, words
    for words in (number[:3], f"{name}-{number[1:5]}", "x" + name, f"{name}-{number}0"):
        done = stackproof(folder, "shell", words, "--", "true")
        assert done.returncode == 3, words
        assert f"there is no build `{words}`" in done.stderr
