"""Where a bench is tried for real: images on two nodes, and one that fails as it is told.

One MPICH image serves all arms, so that whatever differs is what was planted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from need import need

ROOT = Path(__file__).resolve().parents[1]
CLUSTER = "test-bench"
WRAPPER = """#!/bin/sh
# Stands in the place of the benchmark program and fails as $FAULT says.
real=/user-environment/benchmarks/real-bench
# A rank that has ended stays a zombie until all who can write to its launcher are gone.
busy='while read -r pid name state rest <"/proc/$1/stat" && [ "$state" != Z ]; do :; done'
case ${FAULT:-none} in
crash) case ${PMI_RANK:-0} in 1) kill -SEGV $$ ;; esac; exec $real "$@" ;;
hang) [ "${PMI_RANK:-0}" = 1 ] && exec sleep 600; exec $real "$@" ;;
garbage) echo 'Segmentation fault (not really)'; echo '{"record": "start"'; exit 0 ;;
cut) $real "$@" | head -n 4; exit 0 ;;
alone) exec env -u PMI_FD -u PMI_RANK -u PMI_SIZE -u PMI_PORT -u PMI_ID $real "$@" ;;
shy) [ -z "${MPIR_CVAR_DEBUG_SUMMARY:-}" ] || exit 3; exec $real "$@" ;;
flip) STACKPROOF_WRONGBYTE_SIZE=4096 LD_PRELOAD=$FLIP exec $real "$@" ;;
flip-once)  # one rank of the first launch that checks all bytes, and of no other
    case "${PMI_RANK:-0} $*" in 1*"--check all"*)
        mkdir "$ONCE" 2>/dev/null && STACKPROOF_WRONGBYTE_SIZE=4096 LD_PRELOAD=$FLIP exec $real "$@"
    esac ;;
flip-timed)  # every launch that is timed, and not the one before them that checks all bytes
    case "$*" in *"--check sample"*)
        STACKPROOF_WRONGBYTE_SIZE=4096 LD_PRELOAD=$FLIP exec $real "$@"
    esac ;;
busy)  # a loop on the CPU of every rank that is timed, which gets most of it
    case "$*" in *"--check sample"*)
        nice -n -5 sh -c "$busy" busy-loop $$ 2>/dev/null &
    esac ;;
jump)  # the clock of rank 1 in every launch that is timed
    case "$*" in *"--check sample"*)
        export STACKPROOF_JUMP_RANK=1 STACKPROOF_JUMP_BARRIER=12 STACKPROOF_JUMP_NS=300000
        LD_PRELOAD=$JUMP exec $real "$@"
    esac ;;
crash-once)  # the first launch that is timed
    case "${PMI_RANK:-0} $*" in 1*"--check sample"*) mkdir "$ONCE" 2>/dev/null && kill -SEGV $$ ;; esac
esac
exec $real "$@"
"""


def stackproof(
    *words: object, cwd: Path, ok: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[str]:
    """Run a verb in a folder; it ends with one of the codes."""
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", *map(str, words)],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=1500,
    )  # fmt: skip
    assert done.returncode in ok, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def stopped(
    *words: str, cwd: Path, at: str, do: Callable[[subprocess.Popen[str]], object]
) -> tuple[int, list[str]]:
    """Run a verb, do something when a line on standard error starts so; return code and lines."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stackproof", *words],
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = []
    assert process.stderr is not None
    with process:
        for line in process.stderr:
            said.append(line)
            if line.startswith(at):
                do(process)
        return process.wait(timeout=600), said


@pytest.fixture(scope="session")
def bench_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the image, an image that fails on demand, and preloads."""
    need("network", "bubblewrap", "mksquashfs", "netns", "gcc", "root")
    folder = tmp_path_factory.mktemp("bench")
    shutil.copy(ROOT / "recipes" / "mpich.yaml", folder)
    stackproof("build", "mpich.yaml", cwd=folder)
    _faulty_image(folder)
    for name in ("slowsend", "wrongbyte", "jumpclock"):
        source = ROOT / "tests" / "csrc" / f"{name}.c"
        compiler = ("mpicc", "-shared", "-fPIC", "-O1", "-o", f"{name}.so", source)
        stackproof("run", "mpich.squashfs", "--", *compiler, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def room(bench_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A module's own folder with the same files, and a cluster of two nodes that is up."""
    folder = tmp_path_factory.mktemp("room")
    shutil.copytree(bench_folder, folder, copy_function=os.link, dirs_exist_ok=True)
    try:
        stackproof(
            "cluster", "up", "--nodes", "2", "--rate", "2gbit", "--name", CLUSTER, cwd=folder
        )
        yield folder
    finally:
        stackproof("cluster", "down", "--name", CLUSTER, cwd=folder)


def _faulty_image(folder: Path) -> None:
    def run(*argv: str) -> None:
        subprocess.run(argv, cwd=folder, check=True, capture_output=True)

    run("unsquashfs", "-no-progress", "-d", "tree", "mpich.squashfs")
    bench = folder / "tree" / "benchmarks"
    (bench / "stackproof-bench").rename(bench / "real-bench")
    (bench / "stackproof-bench").write_text(WRAPPER)
    (bench / "stackproof-bench").chmod(0o755)
    run("mksquashfs", "tree", "faulty.squashfs", "-comp", "lz4", "-no-progress", "-quiet")
    shutil.rmtree(folder / "tree")


def write_spec(folder: Path, name: str, **changes: object) -> str:
    """Write a small specification with changes, and return the name of its file."""
    spec = {
        "baseline": {"name": "base", "image": "mpich.squashfs"},
        "null-arm": False,
        "benchmarks": ["latency"],
        "sizes": [8, 4096],
        "placements": ["intra-node"],
        "launches": 1,
        "samples": 5,
        "seconds-per-size": 0.005,
        "timeout": 20,
        "cluster": CLUSTER,
        **changes,
    }
    (folder / f"{name}.yaml").write_text(json.dumps(spec))
    return f"{name}.yaml"


SHORT = {
    "null-arm": False, "placements": ["intra-node"], "launches": 1, "benchmarks": ["latency"],
    "sizes": [8, 65536], "samples": 3, "seconds-per-size": 0.003, "timeout": 30,
}  # fmt: skip
"""What two ranks of each arm are measured by where that they run is what is asked."""


def measured(folder: Path, **changes: object) -> Path:
    """Measure a short specification with changes; return the folder of its results."""
    (folder / "spec.yaml").write_text(json.dumps({**SHORT, **changes}))
    stackproof("bench", "spec.yaml", "-o", "out", "--no-verdict", cwd=folder)
    return folder / "out"


def launched(results: Path) -> Iterator[dict[str, Any]]:
    """Yield the launches of a results folder that count; no check of these is bad."""
    for path in sorted((results / "launches").glob("?????-*.json")):
        if "-failed" in path.name:  # made again: a machine under load is slow
            continue
        launch = json.loads(path.read_text())
        assert all(check["state"] != "bad" for check in launch["checks"]), launch["checks"]
        yield launch


def mapped(results: Path, word: str = "/libmpi.so") -> dict[str, set[str]]:
    """Return the libraries that ranks of each arm had loaded, by their own word."""
    found: dict[str, set[str]] = {}
    for launch in launched(results):
        names = {one for rank in launch["output"]["ranks"] for one in rank["libraries"]}
        found.setdefault(launch["arm"], set()).update(name for name in names if word in name)
    return found


def verdicts(comparison: dict[str, object], arm: str) -> dict[tuple[str, str, int], str]:
    """Return an arm's verdicts by placement, benchmark and size."""
    found = {}
    for panel in comparison["panels"]:  # type: ignore[attr-defined]
        for judgement in panel["judgements"]:
            if judgement["arm"] == arm:
                curve = panel["curve"]
                for cell in judgement["cells"]:
                    found[curve["placement"], curve["benchmark"], cell["size"]] = cell["verdict"]
    return found
