"""The chains that are shipped for machines with Slingshot: each is checked and planned on its sites."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stackproof import cli
from stackproof.core.effects import shipped

RECIPES = shipped.root("recipes")
_NIC = ("cassini-headers", "cxi-driver", "libnl", "libcxi", "json-c")
# Recipe and site, and what is built there of which release.
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "eessi-cpu": (
        ("eessi-openmpi", "--site", "olivia-cpu"),
        (*_NIC, "libfabric/2.1.0-GCC-12.3.0", "PRRTE", "OpenMPI/5.0.7-GCC-12.3.0", "OSU"),
    ),
    "eessi-gh200": (
        ("eessi-openmpi", "--site", "olivia-gh200"),
        (*_NIC, "libfabric/2.1.0-GCC-12.3.0-CUDA-12.1.1", "PRRTE",
         "OpenMPI/5.0.7-GCC-12.3.0-CUDA-12.1.1", "OSU"),
    ),
    "openmpi-cpu": (
        ("slingshot-openmpi", "--site", "lumi-c"),
        (*_NIC, "xpmem", "libfabric/2.5.1", "hwloc", "libevent", "PMIx", "PRRTE", "OpenMPI/5.0.10",
         "OSU"),
    ),
    "openmpi-cuda": (
        ("slingshot-openmpi", "--site", "helios-gpu"),
        (*_NIC, "xpmem", "libfabric/2.5.1-CUDA-12.8", "hwloc", "libevent", "PMIx", "PRRTE",
         "OpenMPI/5.0.10-CUDA-12.8", "OSU"),
    ),
    "openmpi-rocm": (
        ("slingshot-openmpi", "--site", "lumi-g"),
        (*_NIC, "xpmem", "libfabric/2.5.1-ROCm-6.0.3", "hwloc", "libevent", "PMIx", "PRRTE",
         "OpenMPI/5.0.10-ROCm-6.0.3", "OSU"),
    ),
    "mpich-cpu": (
        ("slingshot-mpich", "--site", "lumi-c"),
        (*_NIC, "xpmem", "libfabric/2.5.1", "hwloc", "MPICH/4.3.2", "OSU"),
    ),
    "container-cpu": (
        ("container-mpich", "--site", "alps-zen2"),
        ("xpmem", "libfabric/1.22.0", "hwloc", "MPICH/4.3.1", "OSU"),
    ),
    "container-cuda": (
        ("container-mpich", "--site", "alps-gh200"),
        ("xpmem", "libfabric/1.22.0-CUDA-12.8.1", "hwloc", "MPICH/4.3.1-CUDA-12.8.1", "OSU"),
    ),
    "container-debian": (
        ("container-mpich-debian",), ("libfabric/2.1.0", "hwloc/2.9.0", "MPICH/4.0.2"),
    ),
    "plain-mpich": (("mpich-ofi",), ("libfabric/2.1.0", "hwloc/2.9.0", "MPICH/4.0.2")),
    "plain-openmpi": (("openmpi-lnx",), ("libfabric/2.1.0", "OpenMPI/5.0.7")),
    "gpu-cuda": (
        ("openmpi-gpu", "--fact", "gpu=cuda"),
        ("libfabric/2.1.0-CUDA-12.9", "OpenMPI/5.0.7-CUDA-12.9"),
    ),
    "gpu-rocm": (
        ("openmpi-gpu", "--fact", "gpu=rocm"),
        ("libfabric/2.1.0-ROCm-5.2.3", "OpenMPI/5.0.7-ROCm-5.2.3"),
    ),
    "infiniband": (
        ("openmpi-ucx",), ("libfabric/2.1.0", "hwloc/2.9.0", "UCX/1.13.1", "OpenMPI/5.0.7"),
    ),
}  # fmt: skip

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def stackproof(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Call:
    """Return a function that runs a verb with --json, which must end well, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> dict[str, Any]:
        with pytest.raises(SystemExit) as stop:
            cli.main([*words, "--json"])
        found = capsys.readouterr()
        assert stop.value.code == 0, found.err
        told: dict[str, Any] = json.loads(found.out)
        return told

    return run


@pytest.mark.parametrize("name", CASES)
def test_a_chain_is_planned_for_its_site(name: str, stackproof: Call) -> None:
    words, expected = CASES[name]
    modules = [one["module"] for one in stackproof("plan", *words)["lock"]["components"]]
    assert len(modules) == len(expected), modules
    for module, wanted in zip(modules, expected, strict=True):
        assert module == wanted if "/" in wanted else module.startswith(wanted), modules


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("slingshot-openmpi", "slingshot-mpich"),
        ("openmpi-lnx", "mpich-ofi"),
        ("openmpi-lnx", "openmpi-ucx"),
    ],
)
def test_two_mpis_stand_on_one_libfabric(one: str, other: str, stackproof: Call) -> None:
    """It is compiled once: the step has one id in both, and so has everything below it."""
    ids = []
    for recipe in (one, other):
        steps = {step["name"]: step["id"] for step in stackproof("plan", recipe)["steps"]}
        ids.append(
            {name: id_ for name, id_ in steps.items() if name.startswith(("libf", "libcxi"))}
        )
    assert ids[0]
    assert ids[0] == ids[1]


def test_the_example_of_a_paper_is_planned(stackproof: Call) -> None:
    """A recipe of version 1 of Stackinator's language, for a cluster that has its Cray MPICH."""
    site = str(RECIPES / "stackinator" / "sites" / "hohgant.yaml")
    told = stackproof("plan", str(RECIPES / "stackinator" / "arbor-dev"), "--site", site)
    text = json.dumps(told)
    assert "cray-mpich@8.1.18.4 +cuda" in text
    assert "nvhpc@22.7" in text
    assert "osu-micro-benchmarks@5.9%nvhpc" in text


def test_each_says_what_was_built_and_what_was_not() -> None:
    """In the comment at its head, with a date; a chain that compiles nothing has nothing to say."""
    own = [RECIPES / f"{words[0]}.yaml" for words, _ in CASES.values()]
    for path in {*own, RECIPES / "cray-mpich.yaml", RECIPES / "stackinator/arbor-dev/config.yaml"}:
        lines = path.read_text(encoding="utf-8").splitlines()
        end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
        head = " ".join(line.removeprefix("#").strip() for line in lines[:end])
        assert "built" in head.lower(), path
        assert "2026" in head, path
