"""A kept answer about a job is for the places that were searched: files may come to them, and go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from elflab import Lab
from injectlab import found_in, mpich, uses_mpich
from need import need
from stackproof.core.errors import Reason, StackproofError
from stackproof.inject.effects import job, job_judge
from stackproof.inject.effects.job_key import JobCase, MountedImage

DEEP = "sw/stack/mpich-5.0.2/lib"
"""Where `stackproof install` puts the libraries of an MPI below its prefix, `sw`."""
FAILS = (Reason.INJECTION_FAILS,)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Return a program that asks for `libmpich.so.12`, and an installed MPICH to be injected."""
    need("gcc")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    lab = Lab(tmp_path)
    mpich(lab, "own", "libmpich.so.12", defines=["MPI_Get_count"])
    lab.library("late/libhelper.so.1", defines=["help"])
    needs = ["own/lib/libmpich.so.12", "late/libhelper.so.1"]
    flags = found_in(lab, "own/lib", "late")
    calls = ("MPI_Init", "MPI_Get_count")
    uses_mpich(lab, calls, name="bin/solver", needs=needs, flags=flags)
    mpich(lab, "sw/stack/mpich-5.0.2", defines=["MPI_Get_count"])
    mpich(lab, "broken")
    return lab


def case_of(lab: Lab, *library_path: str) -> JobCase:
    environment = {"LD_LIBRARY_PATH": ":".join(map(lab.path, library_path))}
    injected = MountedImage(lab.path("sw"), lab.path("sw"))
    return JobCase((), injected, environment, programs=[lab.path("bin/solver")])


def answer(case: JobCase) -> tuple[object, ...]:
    """Return the folders that a job gets in front, links as one word; the reason if it is refused."""
    try:
        folders = job.change(case).all.prepend["LD_LIBRARY_PATH"]
    except StackproofError as error:
        return (error.reason,)
    return tuple("links" if ".links" in folder else folder for folder in folders)


def test_a_link_comes_and_goes_and_comes(lab: Lab) -> None:
    case, folder, link = case_of(lab), lab.path(DEEP), Path(lab.path(DEEP), "libmpich.so.12")
    for _ in range(2):
        assert answer(case) == ("links", folder)
        link.symlink_to("libmpi.so.12")
        assert answer(case) == (folder,)
        link.unlink()


def _broken_file(lab: Lab) -> None:
    Path(lab.path("broken/lib/libmpi.so.12")).rename(lab.path(f"{DEEP}/libmpi.so.12"))


def _linked_folder(lab: Lab) -> None:
    Path(lab.path(DEEP)).rename(lab.path("moved"))
    Path(lab.path(DEEP)).symlink_to(lab.path("broken/lib"))


def _linked_above(lab: Lab) -> None:
    Path(lab.path("sw/stack")).rename(lab.path("moved"))
    Path(lab.path("sw/stack")).symlink_to("../moved")
    Path(lab.path("broken/lib/libmpi.so.12")).rename(lab.path(f"{DEEP}/libmpi.so.12"))


def _gone_library(lab: Lab) -> None:
    Path(lab.path("late/libhelper.so.1")).unlink()


def _earlier_library(lab: Lab) -> None:
    Path(lab.path("early")).mkdir(exist_ok=True)
    Path(lab.path("early/libhelper.so.1")).write_text("no library, and the loader ends at it")


@pytest.mark.parametrize("early", ["a folder", "nothing"])
@pytest.mark.parametrize(
    "change", [_broken_file, _linked_folder, _linked_above, _gone_library, _earlier_library]
)
def test_what_changes_where_the_loader_looks_is_judged_again(
    lab: Lab, change: Callable[[Lab], None], early: str
) -> None:
    if early == "a folder":
        Path(lab.path("early")).mkdir()
    case = case_of(lab, "early")
    assert answer(case) == ("links", lab.path(DEEP))
    change(lab)
    assert answer(case) == FAILS


def test_another_file_of_the_same_program_is_judged_again(lab: Lab) -> None:
    case = case_of(lab)
    assert answer(case) == ("links", lab.path(DEEP))
    Path(lab.path(f"{DEEP}/libmpi.so.12")).unlink()
    assert answer(case) == (Reason.NO_MPI,)
    mpich(lab, "sw/stack/mpich-5.0.2", defines=["MPI_Get_count"])
    assert answer(case) == ("links", lab.path(DEEP))


def test_what_stays_is_judged_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that nobody looks for may come to any folder but that of what is injected."""
    case, judged, examine = case_of(lab, "early", "late"), [], job_judge.examine
    monkeypatch.setattr(job_judge, "examine", lambda *words: judged.append(1) or examine(*words))
    for name in ("late/other.txt", "own/lib/libother.so.1", "bin/solver.log"):
        answer(case)
        Path(lab.path(name)).touch()
    answer(case)
    assert len(judged) == 1


def test_links_are_those_of_the_last_answer(lab: Lab) -> None:
    case = case_of(lab)
    answer(case)
    link = Path(job.links_folder(case), "libmpich.so.12")
    link.unlink()
    link.symlink_to("/elsewhere")
    assert answer(case) == ("links", lab.path(DEEP))
    assert str(link.readlink()) == lab.path(f"{DEEP}/libmpi.so.12")


def test_a_link_that_leads_out_of_an_image_is_followed(lab: Lab) -> None:
    """Of an image itself nothing is looked at again: its files have other numbers in each mount."""
    Path(lab.path("image")).mkdir()
    Path(lab.path("image/out.so")).symlink_to(lab.path("late/libhelper.so.1"))
    view = job_judge.WatchedView({}, [lab.path("image")])
    for name in ("image/out.so", "image/none.so", "image"):
        view.look(lab.path(name))
    assert [*view.searched] == [lab.path("late/libhelper.so.1")]
