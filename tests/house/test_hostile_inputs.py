"""Every reader of files that a user names: too big, too deep, without end, or nobody's.

Each gives a clear error within bounded memory (RLIMIT_AS) and processor time (RLIMIT_CPU).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hostilefiles

pytestmark = pytest.mark.battery

_TESTS = str(Path(hostilefiles.__file__).parent)
_MEMORY = 4 << 30
_CPU_S = 120
_WALL_S = 400
# Exit codes of an error that a user can do something about: not 0, and not 1, which is a bug.
_CLEAR = {2, 3, 4, 6, 7, 8, 9}

VERBS = {
    "plan": ("plan", "{}"),
    "check": ("check", "{}"),
    "site": ("site", "check", "{}"),
    "import": ("import", "-o", "out", "--placement", "intra-node", "{}"),
    "log": ("doctor", "--log", "{}"),
    "environment": ("doctor", "--env", "{}"),
    "image": ("inspect", "{}"),
    "run": ("run", "{}", "--", "true"),
    "program": ("inject", "check", "--with", "/usr", "{}"),
    "archive": ("inject", "check", "--with", "/usr", "--root", "docker-archive:{}", "/bin/true"),
    "layout": ("inject", "check", "--with", "/usr", "--root", "oci:{}", "/bin/true"),
    "squashfs": ("inject", "check", "--with", "/usr", "--root", "sif:{}", "/bin/true"),
}


def _limited(argv: list[str], folder: Path) -> subprocess.Popen[str]:
    bounds = ("prlimit", f"--as={_MEMORY}", f"--cpu={_CPU_S}", "--")
    return subprocess.Popen(
        [*bounds, sys.executable, *argv],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "STACKPROOF_CACHE": str(folder / "cache"), "PYTHONPATH": _TESTS},
    )


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_waits_for_a_file_or_reads_it_without_end(verb, tmp_path):
    pipe, sparse, deep = (tmp_path / name for name in ("pipe.json", "sparse.yaml", "deep.json"))
    os.mkfifo(pipe)
    with sparse.open("wb") as stream:
        stream.truncate(1 << 40)
    deep.write_text("[" * 100_000)
    started = {
        path: _limited(["-m", "stackproof", *(word.format(path) for word in VERBS[verb])], tmp_path)
        for path in (pipe, sparse, deep, Path("/dev/zero"))
    }
    for path, process in started.items():
        said = process.communicate(timeout=_WALL_S)[1]
        assert "Traceback" not in said, (path, said)
        clear = {*_CLEAR, 0} if (verb, path) == ("log", deep) else _CLEAR
        assert process.returncode in clear, (path, process.returncode, said)


def test_each_reader_ends_in_bounded_time_and_memory(tmp_path):
    process = _limited(["-c", "import hostilefiles; hostilefiles.main()"], tmp_path)
    said = process.communicate(timeout=_WALL_S)[0]
    found = dict(line.split("\t") for line in said.splitlines())
    assert found == {name: reason for name, (_, reason) in hostilefiles.CASES.items()}
    assert process.returncode == 0
