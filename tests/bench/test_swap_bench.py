"""A recipe measured as it is and swapped: seed 002's question, by one option."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from benchroom import ROOT, stackproof
from need import need
from pythonpage import programs
from stackproof.bench.effects.request import RecipeWords, build_recipes, recipe_of
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.build.effects import images
from stackproof.compare.effects.results import load_results
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor

COVERS = ("bench/effects/request.py", "build/effects/images.py")


@pytest.mark.machine
def test_one_option_measures_open_mpi_and_mpich(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program of the page on Python, and what the command makes of its results."""
    need("network", "bubblewrap", "mksquashfs", "gcc", "root")
    for name in ("openmpi.yaml", "openmpi.lock.json"):
        shutil.copy(ROOT / "recipes" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    few = programs()["Swap"].replace("quick=True", 'quick=True, sizes="8", launches=1')
    exec(compile(few, "swap.py", "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out
    assert "--with mpi=mpich@5.0.2: rebuild: Open MPI and MPICH have different ABIs" in said
    assert "openmpi-with-mpich-5.0.2.squashfs" in said
    results = load_results("swapped")
    assert results.spec.equal
    found = {name: arm.mpi["family"] for name, arm in results.spec.arms.items()}
    assert found == {
        "openmpi": "openmpi",
        "openmpi-again": "openmpi",
        "openmpi-with-mpich-5.0.2": "mpich",
    }
    assert all(one.usable for one in results.measurements)
    recipe = results.spec.arms["openmpi-with-mpich-5.0.2"].recipe
    assert '"family": "mpich"' in recipe
    # The same by the command: nothing is built or measured again; one launch decides nothing.
    again = ("bench", "--baseline", "openmpi.yaml", "--swap", "mpi=mpich@5.0.2", "--quick")
    words = ("--sizes", "8", "--launches", "1", "--placement", "intra-node", "-o", "swapped")
    done = stackproof(*again, *words, "--json", cwd=tmp_path, ok=(9,))
    verdicts = json.loads(done.stdout)["verdicts"]
    assert verdicts[0]["sentence"].startswith("Equal or not is open: ")
    stackproof("report", "swapped", "-o", "report.html", cwd=tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "openmpi-with-mpich-5.0.2" in page
    assert "Equal or not is open" in page


def test_which_arms_are_recipes(tmp_path: Path) -> None:
    for name in ("a.yaml", "mpich", "a.squashfs"):
        (tmp_path / name).write_text("")
    names = {name: recipe_of(Arm(image=f"{tmp_path}/{name}"), tmp_path) for name in
             ("a.yaml", "mpich", "a.squashfs", "openmpi", "none", "spack/mpich")}  # fmt: skip
    assert names == {
        "a.yaml": f"{tmp_path}/a.yaml",
        "mpich": "",  # a file of this name
        "a.squashfs": "",
        "openmpi": "openmpi",
        "none": "",
        "spack/mpich": "spack/mpich",
    }
    assert recipe_of(Arm(prefix="/opt/mpi"), tmp_path) == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (RecipeWords(swap=("mpi=mpich",)), "the baseline is none"),
        (RecipeWords(all=("mpi=mpich",)), "no arm is one"),
        (RecipeWords(with_patch=("mpi=x.patch",)), "no arm is one"),
    ],
)
def test_words_without_a_recipe_to_change(tmp_path: Path, words: RecipeWords, said: str) -> None:
    spec = BenchSpec(baseline=Arm(image=os.fspath(tmp_path / "a.squashfs")))
    with pytest.raises(StackproofError, match=said) as caught:
        build_recipes(spec, words, null_monitor, tmp_path)
    assert caught.value.reason is Reason.USAGE
    assert build_recipes(spec, RecipeWords(), null_monitor, tmp_path) == spec


def test_arms_that_cannot_be_are_told_together_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: object) -> Path:
        raise AssertionError("built")

    monkeypatch.setattr(images, "make_image", build)
    spec = BenchSpec(
        baseline=Arm(image=f"{tmp_path}/mpich"),
        challengers=(Arm(image=f"{tmp_path}/none.squashfs"), Arm(prefix="/opt/mpi")),
    )
    with pytest.raises(StackproofError) as caught:
        build_recipes(spec, RecipeWords(swap=("mpi=nothing",)), null_monitor, tmp_path)
    told = [problem.message for problem in caught.value.problems]
    assert told == [f"there is no image `{tmp_path}/none.squashfs`", "there is no MPI `nothing`"]


def test_arms_without_an_image_stay_what_they_are_beside_a_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = iter(("first", "second"))
    monkeypatch.setattr(images, "make_image", lambda *_: tmp_path / next(made))
    prefix = Arm(prefix="/opt/mpi")
    spec = BenchSpec(baseline=Arm(image=f"{tmp_path}/mpich"), challengers=(prefix,))
    found = build_recipes(spec, RecipeWords(swap=("mpi=openmpi",)), null_monitor, tmp_path)
    assert found.baseline.image == f"{tmp_path}/first"
    assert found.challengers[0] == prefix
    assert found.challengers[1].image == f"{tmp_path}/second"
    assert found.equal


def test_a_results_folder_keeps_its_arms(tmp_path: Path) -> None:
    words = ("bench", "--resume", "results", "--swap", "mpi=mpich")
    assert "cannot be added" in stackproof(*words, cwd=tmp_path, ok=(2, 3)).stderr


def test_a_dry_run_with_a_recipe_tells_first_that_images_are_built(tmp_path: Path) -> None:
    words = ("bench", "--baseline", "mpich", "--swap", "mpi=nothing", "--dry-run")
    said = stackproof(*words, cwd=tmp_path, ok=(2, 3, 11)).stderr
    assert "note: a plan needs the recipes' images: those that are missing are built first" in said
    assert said.index("note: a plan") < said.index("there is no MPI `nothing`")
