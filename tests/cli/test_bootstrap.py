"""`tools/bootstrap` in a folder of its own, with fake programs on PATH: nothing is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the script itself uses, and nothing of what it looks for.
_TOOLS = ("dirname", "env", "cat", "sha256sum", "sort", "rm")

Run = Callable[..., tuple[subprocess.CompletedProcess[str], list[str]]]


@pytest.fixture
def bootstrap(tmp_path: Path) -> Run:
    """Return a function that runs the script and returns how it ended and what apt was asked."""
    checkout, path, log = tmp_path / "checkout", tmp_path / "bin", tmp_path / "log"
    (checkout / "tools").mkdir(parents=True)
    path.mkdir()
    shutil.copy(ROOT / "tools" / "bootstrap", checkout / "tools")
    shutil.copy(ROOT / "pyproject.toml", checkout)

    def fake(name: str, script: str) -> None:
        (path / name).write_text(f"#!/bin/bash\n{script}\n")
        (path / name).chmod(0o755)

    for name in _TOOLS:
        found = shutil.which(name)
        assert found
        (path / name).symlink_to(found)
    fake("apt-get", f'echo "$DEBIAN_FRONTEND $*" >> {log}')
    fake("id", "echo 0")
    # Python 3.11 with pip; its environments hold a Python that does nothing.
    fake(
        "python3",
        'case "$*" in "-m venv .venv") '
        f"{shutil.which('mkdir')} -p .venv/bin; "
        f"printf '#!/bin/bash\\necho pip \"$@\" >> {log}\\n' > .venv/bin/python; "
        f"{shutil.which('chmod')} +x .venv/bin/python;; --version) echo Python 3.11.0;; esac",
    )

    def run(
        word: str, *, fakes: dict[str, str] | None = None, without: tuple[str, ...] = (), **env: str
    ) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        log.unlink(missing_ok=True)
        for name, script in (fakes or {}).items():
            fake(name, script)
        for name in without:
            (path / name).unlink()
        done = subprocess.run(
            ["/bin/bash", checkout / "tools" / "bootstrap", word],
            env={"PATH": os.fspath(path), **env},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        lines = log.read_text().splitlines() if log.exists() else []
        return done, [line for line in lines if line not in {"pip -c ", "pip -c"}]

    return run


def test_what_is_missing_is_installed_once(bootstrap: Run) -> None:
    done, log = bootstrap("demo")
    assert done.returncode == 0, done.stderr
    update, install, pip = log
    assert update.startswith("noninteractive")
    assert update.split()[-1] == "update"
    assert {
        "--yes",
        "--no-install-recommends",
        "bubblewrap",
        "squashfs-tools",
        "squashfuse",
        "gcc",
        "libc6-dev",
    } <= set(install.split())
    assert "chromium" not in install
    assert pip.endswith("--editable .")


def test_the_second_time_nothing_is_installed(bootstrap: Run) -> None:
    lists = " ".join(
        re.findall(
            r"^[A-Z_]+=\(([^)]*)\)", (ROOT / "tools" / "bootstrap").read_text(), re.MULTILINE
        )
    )
    everything = dict.fromkeys(re.findall(r"([\w-]+):[\w-]+", lists), "exit 0")
    assert {"bwrap", "slurmctld", "rpmbuild"} <= set(everything)
    lmod = {"LMOD_CMD": "/bin/sh"}  # any program that is there
    done, log = bootstrap("test", fakes=everything, **lmod)
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in log] == [".[test,lint]"]
    for word in ("test", "demo"):
        assert bootstrap(word, **lmod)[1] == []


def test_lmod_is_no_program_on_path(bootstrap: Run) -> None:
    _, log = bootstrap("demo", LMOD_CMD="/nonexistent/lmod")
    assert "lmod" in log[1].split()
    _, log = bootstrap("demo", LMOD_CMD="/bin/sh")
    assert "lmod" not in log[1].split()


def test_a_browser_is_no_condition(bootstrap: Run) -> None:
    fails = 'case "$*" in *chromium*) exit 100;; esac'
    done, log = bootstrap("test", fakes={"apt-get": fails})
    assert done.returncode == 0, done.stderr
    assert "browser" in done.stderr
    assert log[-1].endswith(".[test,lint]")


def test_slurm_is_no_condition(bootstrap: Run) -> None:
    fails = 'case "$*" in *libslurm-dev*) exit 100;; esac'
    done, log = bootstrap("test", fakes={"apt-get": fails, "gcc": "exit 1"})
    assert done.returncode == 0, done.stderr
    assert "Slurm" in done.stderr
    assert log[-1].endswith(".[test,lint]")


def test_clang_is_no_condition(bootstrap: Run) -> None:
    fails = 'case "$*" in *clang*) exit 100;; esac'
    done, log = bootstrap("test", fakes={"apt-get": fails})
    assert done.returncode == 0, done.stderr
    assert "clang" in done.stderr
    assert log[-1].endswith(".[test,lint]")


def test_packages_are_no_condition(bootstrap: Run) -> None:
    fails = 'case "$*" in *debhelper*) exit 100;; esac'
    done, log = bootstrap("test", fakes={"apt-get": fails})
    assert done.returncode == 0, done.stderr
    assert "debhelper" in done.stderr
    assert log[-1].endswith(".[test,lint]")


def test_the_library_of_the_sanitizers_is_that_of_clang(bootstrap: Run) -> None:
    clang = '[ "$1" = -dumpversion ] && echo 14.0.6 || exit 1'
    done, log = bootstrap("test", fakes={"clang": clang})
    assert done.returncode == 0, done.stderr
    assert any("libclang-rt-14-dev" in line for line in log)


def test_sudo_where_there_is_no_root(bootstrap: Run) -> None:
    done, log = bootstrap("demo", fakes={"id": "echo 1000", "sudo": 'exec "$@"'})
    assert done.returncode == 0, done.stderr
    assert len(log) == 3


@pytest.mark.parametrize(
    ("fakes", "without", "env", "words"),
    [
        ({"id": "echo 1000"}, (), {}, ["bubblewrap", "administrator"]),
        ({}, ("apt-get",), {}, ["bubblewrap"]),
        ({}, (), {"PYTHON": "python9"}, ["python9", "3.11"]),
        ({"python3": 'case "$*" in --version) echo Python 3.9.2;; *) exit 1;; esac'}, (), {}, ["3.9.2", "3.11"]),
        ({"python3": 'case "$*" in "-m venv .venv") exit 1;; esac'}, (), {}, ["python3-venv"]),
    ],
    ids=["no-root", "no-apt", "no-python", "old-python", "no-venv"],
)  # fmt: skip
def test_what_cannot_be_helped_is_said(
    bootstrap: Run,
    fakes: dict[str, str],
    without: tuple[str, ...],
    env: dict[str, str],
    words: list[str],
) -> None:
    done, _ = bootstrap("demo", fakes=fakes, without=without, **env)
    assert done.returncode == 4
    assert "error: " in done.stderr
    assert "hint: " in done.stderr
    assert all(word in done.stderr for word in words)


def test_apt_can_be_kept_out(bootstrap: Run) -> None:
    done, log = bootstrap("test", STACKPROOF_NO_APT="1")
    assert done.returncode == 0, done.stderr
    assert len(log) == 1
    assert "bubblewrap" in done.stderr


def test_usage(bootstrap: Run) -> None:
    assert bootstrap("nonsense")[0].returncode == 4
