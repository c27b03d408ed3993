"""Cases of public reports, where a folder with them is at hand: each is answered as it should be.

The folder is no part of the project. STACKPROOF_PUBLIC_CASES names it; what is right for its cases
stands in public-cases.yaml, and tests/doctor/corpus has most of the logs in own words.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from need import PUBLIC_CASES, need
from stackproof.doctor.answer import MOST_LINES

ASKED: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("public-cases.yaml").read_text(encoding="utf-8")
)
FOLDER = Path(os.environ.get(PUBLIC_CASES, "/nowhere"))
FOUND = sorted(path.parent for path in FOLDER.glob("*/expected.txt"))
MPIS = ("mpich", "openmpi", "intel-mpi")
COLUMNS = 100


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("network", "bubblewrap", "mksquashfs", "gcc", "root")
    folder = tmp_path_factory.mktemp("images")
    for name in MPIS:
        done = asked(f"stackproof build {name}", folder)
        assert done.returncode == 0, done.stderr
    return folder


def asked(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell line in a folder, with this stackproof on PATH."""
    program = folder / ".bin" / "stackproof"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m stackproof "$@"\n')
    program.chmod(0o755)
    kept = ("HOME", "STACKPROOF_CACHE")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    path = f"{program.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    return subprocess.run(
        ["sh", "-ec", line], cwd=folder, env={**env, "PATH": path, "NO_COLOR": "1"},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def test_every_case_has_an_answer() -> None:
    need("public-cases")
    assert {path.name[:2] for path in FOUND} <= {*ASKED}


@pytest.mark.parametrize("number", ASKED)
def test_a_case_is_answered(number: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    need("public-cases")
    case = ASKED[number]
    source = next((path for path in FOUND if path.name.startswith(f"{number}-")), None)
    if source is None:
        pytest.skip(f"{FOLDER} has no case {number}")
    folder = tmp_path / source.name
    shutil.copytree(source, folder)
    if "images" in case:
        made: Path = request.getfixturevalue("images")
        for name in MPIS:
            (folder / f"{name}.squashfs").symlink_to(made / f"{name}.squashfs")
    done = asked(case["run"], folder)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == case.get("code", 0), said
    assert [words for words in case["says"] if words not in said] == [], said
    if case["run"].startswith("stackproof doctor"):
        lines = done.stdout.splitlines()
        assert len(lines) <= MOST_LINES * case["run"].count("stackproof doctor")
        assert max(map(len, lines)) <= COLUMNS
