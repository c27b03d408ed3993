"""What `plan` and `plan --explain` say of recipes for Spack, word for word.

After a wanted change write them again:
STACKPROOF_WRITE_GOLDEN=1 python -m pytest tests/build/test_plan_golden.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stackproof import cli

GOLDEN = Path(__file__).parents[1] / "golden" / "plan"
DOCUMENTS = Path(__file__).parents[1] / "documents"

_V2 = ("stackinator/recipes/v2-everything", "--site", "stackinator/clusters/fjord")
_OWN = ("spack/everything.yaml", "--site", "spack/fjord.yaml")
_DEBUG = (*_OWN, "--choose", "build=debug", "--choose", "mpi=default")
_BARE = (*_OWN, "--choose", "build=plain", "--choose", "mpi=none")
_ARM = ("--fact", "architecture=aarch64")
CASES = {
    "v2-everything": (*_V2, *_ARM),
    "v2-everything-packages": (*_V2, *_ARM, "--explain", "packages"),
    "v2-everything-network": (*_V2, *_ARM, "--explain", "environments.intel.network"),
    "v2-everything-facts": (*_V2, *_ARM, "--explain", "facts"),
    "v3-system-gcc": (
        "stackinator/recipes/v3-system-gcc", "--site", "stackinator/clusters/fjord", *_ARM,
    ),
    "own-debug": _DEBUG,
    "own-debug-environments": (*_DEBUG, "--explain", "environments"),
    "own-debug-packages": (*_DEBUG, "--explain", "packages"),
    "own-debug-facts": (*_DEBUG, "--explain", "facts"),
    "own-bare-environments": (*_BARE, "--explain", "environments"),
    "own-bare-environments-json": (*_BARE, "--explain", "environments", "--json"),
    "own-image": (*_BARE, "--explain", "image"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_output(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DOCUMENTS)
    monkeypatch.setattr("os.confstr", lambda _: "glibc 2.36")  # of the machine that would compile
    with pytest.raises(SystemExit) as stopped:
        cli.main(["plan", *CASES[name]])
    found = capsys.readouterr()
    text = f"$ stackproof plan {' '.join(CASES[name])}\n{found.out}--- notes\n{found.err}"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("STACKPROOF_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert stopped.value.code == 0, found.err
    assert text == file.read_text()


def test_there_is_a_golden_for_each_case_and_no_other() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(CASES)
