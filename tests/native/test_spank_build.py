"""The Slurm plug-in as a file: built against the headers of any release, and what it asks of Slurm."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from need import need

SPANK = Path(__file__).parents[2] / "native" / "spank"
BUILD = SPANK / "build-against"
_HEADERS = os.environ.get("STACKPROOF_SLURM_HEADERS")
"""A folder of folders, each with slurm/spank.h and the like of one release of Slurm."""

_CALLBACKS = {
    "slurm_spank_exit", "slurm_spank_init", "slurm_spank_init_post_opt", "slurm_spank_task_init",
    "slurm_spank_task_init_privileged",
}  # fmt: skip
_NAMES = {"plugin_name", "plugin_type", "plugin_version", "spank_plugin_version"}
# Each in every release from 22.05 on: spank.h.
_ASKED_OF_SLURM = {
    "slurm_error", "slurm_info", "spank_context", "spank_get_item", "spank_option_register",
    "spank_setenv", "spank_unsetenv",
}  # fmt: skip


def _releases() -> list[Path]:
    folders = sorted(Path(_HEADERS).iterdir()) if _HEADERS else []
    return [Path("/usr/include"), *folders]


def _run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.fspath(word) for word in argv],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
    )


def _symbols(plugin: Path, kind: str) -> set[str]:
    said = _run("nm", "--dynamic", f"--{kind}", plugin).stdout
    return {line.split()[-1].partition("@")[0] for line in said.splitlines()}


@pytest.mark.battery
@pytest.mark.parametrize("headers", _releases(), ids=lambda path: path.name)
def test_building_against_a_release(headers, tmp_path):
    """Without a warning; STACKPROOF_SLURM_HEADERS names more releases than the installed one."""
    need("meson", "gcc", "slurm-headers")
    done = _run(BUILD, headers, tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-4000:]
    plugin = tmp_path / "stackproof_spank.so"
    assert _symbols(plugin, "defined-only") == _CALLBACKS | _NAMES
    asked = {name for name in _symbols(plugin, "undefined-only") if re.match("slurm|spank", name)}
    assert asked == _ASKED_OF_SLURM
    said = _run("readelf", "--wide", "--dynamic", "--program-headers", plugin).stdout
    assert re.findall(r"Shared library: \[([^\]]+)\]", said) == ["libc.so.6"]
    assert "RPATH" not in said
    assert "RUNPATH" not in said
    assert "GNU_RELRO" in said
    assert _version(plugin) == _wanted(headers)


def _wanted(headers: Path) -> int:
    text = (headers / "slurm" / "slurm_version.h").read_text()
    found = re.search(r"^#define SLURM_VERSION_NUMBER (0x\w+)", text, re.MULTILINE)
    assert found
    return int(found[1], 16)


def _version(plugin: Path) -> int:
    """Return what Slurm compares with its own version, of which two parts of three must agree.

    The file cannot be loaded here: what it asks of Slurm is in Slurm's programs alone.
    """
    symbols = _run("nm", "--dynamic", plugin).stdout
    found = re.search(r"^(\w+) \w plugin_version$", symbols, re.MULTILINE)
    assert found
    address = int(found[1], 16)
    for line in _run("readelf", "--wide", "--segments", plugin).stdout.splitlines():
        if words := re.findall(r"^  LOAD +(\w+) (\w+) \w+ (\w+)", line):
            offset, start, size = (int(word, 16) for word in words[0])
            if start <= address < start + size:
                at = address - start + offset
                return int.from_bytes(plugin.read_bytes()[at : at + 4], "little")
    raise AssertionError("no segment holds the version")


def test_headers_that_are_not_there(tmp_path):
    need("meson", "gcc")
    done = _run(BUILD, tmp_path / "none", tmp_path / "output")
    assert done.returncode != 0
    assert "none" in done.stderr
    assert not (tmp_path / "output").exists()


@pytest.mark.battery
def test_headers_that_cannot_be_compiled(tmp_path):
    need("meson", "gcc")
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "spank.h").write_text("#error this release is too old\n")
    done = _run(BUILD, tmp_path, tmp_path / "output")
    assert done.returncode == 1
    assert not (tmp_path / "output").exists()


def _clone(folder: Path, *tags: str) -> Path:
    """Return a repository with the headers as Slurm's sources have them."""
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    (folder / "slurm").mkdir(parents=True)
    for name in ("spank.h", "slurm_errno.h"):
        (folder / "slurm" / name).write_text(f"/* {name} */\n")
    (folder / "slurm" / "slurm_version.h.in").write_text("#undef SLURM_VERSION_NUMBER\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "a"],
        *(["tag", tag] for tag in tags),
    ):
        done = _run(*git, *words)
        assert done.returncode == 0, done.stderr
    return folder


def test_headers_from_sources(tmp_path):
    tags = ["slurm-22-05-11-1", "slurm-23-08-0-0rc1"]
    clone = _clone(tmp_path / "clone", *tags)
    done = _run(SPANK / "headers-of", clone, tmp_path / "headers", *tags)
    assert (done.returncode, done.stderr) == (0, "")
    for release, number in (("22.05", 0x16050B), ("23.08", 0x170800)):
        assert _wanted(tmp_path / "headers" / release) == number
        assert (
            tmp_path / "headers" / release / "slurm" / "spank.h"
        ).read_text() == "/* spank.h */\n"
    done = _run(SPANK / "headers-of", clone, tmp_path / "headers", "v1.0")
    assert done.returncode == 1
    assert "`v1.0` is not the tag of a release" in done.stderr
    assert (
        _run(SPANK / "headers-of", clone, tmp_path / "headers", "slurm-24-11-0-1").returncode != 0
    )


@pytest.mark.parametrize(
    ("program", "words"),
    [("build-against", "HEADERS OUTPUT"), ("headers-of", "CLONE FOLDER TAG...")],
)
def test_usage(program, words):
    done = _run(SPANK / program)
    assert done.returncode == 2
    assert f"native/spank/{program} {words}" in done.stderr


def test_it_is_installed_where_slurm_looks(built, tmp_path):
    """Debian's Slurm does not look into LIBDIR/slurm; a node that lacks a `required` file drains."""
    need("slurm", "slurm-headers")
    library = subprocess.run(
        ["sh", "-c", "LC_ALL=C ldd $(command -v srun)"], check=True, capture_output=True, text=True
    ).stdout
    folder = next(
        Path(line.split()[2]).parent for line in library.splitlines() if "libslurmfull" in line
    )
    subprocess.run(
        ["meson", "install", "-C", built], env={**os.environ, "DESTDIR": str(tmp_path)}, check=True,
        stdout=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip
    assert (tmp_path / folder.relative_to("/") / "stackproof_spank.so").is_file()
