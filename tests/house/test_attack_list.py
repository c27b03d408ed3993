"""The list of attacks holds: each is there, has its marker, and there are enough of them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import attacks
import everybody
from need import as_unprivileged, need

TESTS = Path(__file__).parents[1]
# Here a user tries each attack a few times, in `nox -s attacks` as often as root does.
_FEW = {"STACKPROOF_TREES": "20", "STACKPROOF_FUZZ_CASES": "25"}
# Whole verbs, and what only root can: these take long, and run as a user in `nox -s attacks`.
_LEFT_OUT = {
    "build/test_build_spack.py", "build/test_cache.py",
    "cluster/test_cluster_cli.py", "cluster/test_cluster_exec.py", "doctor/test_doctor.py",
    "house/test_hostile_inputs.py", "house/test_kill_attacks.py", "house/test_tree_attacks.py",
    "mount/test_activate_cli.py", "mount/test_inspect.py", "mount/test_run_cli.py",
}  # fmt: skip


def test_every_attack_that_is_named_is_there():
    missing = []
    for name in (name for names in attacks.NAMED.values() for name in names):
        file, _, test = name.partition("::")
        module = ast.parse((TESTS / file).read_text())
        if test not in {node.name for node in module.body if isinstance(node, ast.FunctionDef)}:
            missing.append(name)
    assert missing == []


def _files() -> list[str]:
    """Return the files that hold attacks, below tests/."""
    found = [p for p in TESTS.rglob("test_*.py") if any(word in p.name for word in attacks.FILES)]
    files = {p.relative_to(TESTS).as_posix() for p in found}
    return sorted(
        files | {name.partition("::")[0] for names in attacks.NAMED.values() for name in names}
    )


@pytest.mark.battery
def test_there_are_attacks_on_everything_that_has_rights_or_reads():
    """As pytest collects them: parametrized ones count for each case, in at least eight rooms."""
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "attack",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*argv, *(str(TESTS / file) for file in _files())],
        cwd=TESTS.parent, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    cases = [line for line in done.stdout.splitlines() if "::" in line]
    assert done.returncode == 0, done.stdout
    assert len(cases) >= 250
    assert len(attacks.NAMED) >= 8
    marked = {case.removeprefix("tests/").partition("[")[0] for case in cases}
    assert {name for names in attacks.NAMED.values() for name in names} <= marked


@pytest.mark.battery
def test_attacks_on_what_a_user_runs_as_a_user():
    """The suite runs as root where it can; here what needs no root runs as a user without rights."""
    need("root", "unprivileged-user", "unprivileged-userns", "bubblewrap", "gcc")
    files = [f for f in _files() if not f.startswith(("native/", "cli/")) and f not in _LEFT_OUT]
    with tempfile.TemporaryDirectory() as folder:  # all folders above one of pytest's are root's
        home, private = Path(folder, "home"), Path(folder, "python")
        for part, mode in ((Path(folder), 0o755), (home, 0o777), (private, 0o755)):
            part.mkdir(exist_ok=True)
            part.chmod(mode)
        python, _ = everybody.python(private)
        argv = [python, "-m", "pytest", "-q", "-m", "attack", "-p", "no:cacheprovider"]
        argv.append("--hypothesis-profile=few")
        done = subprocess.run(
            # By env(1): the first program after setpriv(1) may still be found with root's rights.
            as_unprivileged(["env", *argv, *(str(TESTS / file) for file in files)]),
            cwd=TESTS.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, env={
                **os.environ, **_FEW, "HOME": str(home), "TMPDIR": str(home),
                "PYTHONDONTWRITEBYTECODE": "1", "STACKPROOF_MUST_WORK": "",
                "STACKPROOF_TESTS_CACHE": "",  # root's, where the battery has set it
            },
        )  # fmt: skip
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-6000:]
    assert passed is not None
    assert int(passed[1]) >= 120
