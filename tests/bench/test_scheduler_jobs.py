"""Benches inside jobs of Flux and of PBS with PALS, by stand-ins for their launchers.

Neither scheduler can be had where these tests run. The stand-ins take the command lines that the
documentation of `flux run` and of PALS's `mpiexec` has, refuse any other word, and start real ranks
with MPICH's launcher, each with the variable that tells a task its number.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchroom import SHORT, launched
from mpitrees import Trees
from need import need
from refusals import refusal
from stackproof.core.errors import Reason
from stackproof.launch.effects import scheduler_job

pytestmark = pytest.mark.machine
HOST = os.uname().nodename
_RANKS = r"""
ranks = []
for number in range(count):
    ranks += [":"] * bool(ranks) + ["-n", "1", "env", RANK + "=" + str(number), *words]
argv = [MPIEXEC, "-launcher", "fork", *ranks]
done = subprocess.run(
    [MPIEXEC, *(["-prepend-rank"] if label else []), *argv[1:]], stdout=subprocess.PIPE, text=True
)
sys.stdout.write(re.sub(r"(?m)^\[(\d+)\] ", r"\1: ", done.stdout) if label else done.stdout)
sys.exit(done.returncode)
"""
FLUX = """#!{python}
import re, subprocess, sys
MPIEXEC, HOST, RANK = {mpiexec!r}, {host!r}, "FLUX_TASK_RANK"
if sys.argv[1:] == ["hostlist", "--expand", "local"]:
    sys.exit(print(HOST))
assert sys.argv[1] == "run"
words, shell, label, count = sys.argv[2:], {{}}, False, 0
while words[0].startswith("-"):
    word = words.pop(0)
    if word == "-o":
        name, _, value = words.pop(0).partition("=")
        shell[name] = value
    elif word.startswith("--ntasks="):
        count = int(word.partition("=")[2])
    elif word == "--label-io":
        label = True
    else:
        assert word in ("--nodes=1", "--exclusive", "--requires=hosts:" + HOST), word
assert shell.pop("exit-on-error") == ""
assert shell == dict.fromkeys(("cpu-affinity", "gpu-affinity", "mpibind"), "off"), shell
"""
PALS = """#!{python}
import re, subprocess, sys
MPIEXEC, HOST, RANK = {mpiexec!r}, {host!r}, "PALS_RANKID"
words, label, count = sys.argv[1:], False, 0
while words[0].startswith("-"):
    word = words.pop(0)
    if word in ("--envall", "-l"):
        label = label or word == "-l"
        continue
    value = words.pop(0)
    if word == "-n":
        count = int(value)
    else:
        assert (word, value) in (("--ppn", "2"), ("--hosts", HOST), ("--cpu-bind", "none")), word
"""


@pytest.fixture
def tools(trees: Trees, tmp_path: Path) -> Path:
    need("network", "gcc")
    mpich = trees["mpich"].prefix
    words = {"python": sys.executable, "mpiexec": f"{mpich}/bin/mpiexec", "host": HOST}
    for name, text in (("flux", FLUX), ("mpiexec", PALS)):
        path = tmp_path / "tools" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(**words) + _RANKS)
        path.chmod(0o755)
    return path.parent


def told(tools: Path, scheduler: str) -> dict[str, str]:
    """Return the environment inside of a job."""
    (tools / "nodes").write_text(f"{HOST}\n{HOST}\n")
    own = {
        "flux": {"FLUX_URI": "local:///run/flux/local", "FLUX_JOB_ID": "f1"},
        "pals": {"PBS_NODEFILE": str(tools / "nodes"), "PBS_JOBID": "7.pbs"},
    }[scheduler]
    env = {name: text for name, text in os.environ.items() if not name.startswith("SLURM_")}
    return {**env, **own, "PATH": f"{tools}:{os.environ['PATH']}"}


@pytest.mark.parametrize("scheduler", ["flux", "pals"])
def test_a_bench_inside_a_job(
    tools: Path, trees: Trees, tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = {"name": "host", "prefix": str(trees["mpich"].prefix), "env": {"MARK": "yes"}}
    spec = {**SHORT, "baseline": host, "on": "allocation"}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    env = told(tools, scheduler)

    def bench(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stackproof", "bench", "spec.yaml", *words], cwd=tmp_path,
            env=env, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    done = bench("-o", "out", "--no-verdict")
    assert done.returncode == 0, done.stderr
    (timed,) = (one for one in launched(tmp_path / "out") if one["block"] == 1)
    assert timed["argv"][0] == str(tools / ("flux" if scheduler == "flux" else "mpiexec"))
    assert timed["host_facts"]["launcher"] == scheduler
    assert timed["host_facts"]["job"] in {"f1", "7.pbs"}
    assert "MARK=yes" in timed["argv"]
    assert len(timed["output"]["ranks"]) == 2
    # What its launcher cannot do is said before anything starts.
    spec["placements"] = ["inter-node"]
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    done = bench("-o", "more", "--no-verdict")
    assert done.returncode != 0
    assert "node" in done.stderr
    spec["placements"], spec["baseline"]["launcher"] = ["intra-node"], "mpirun"
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    done = bench("-o", "other", "--no-verdict")
    assert "unsupported" in done.stderr
    assert f"starts ranks by {scheduler}" in done.stderr


def test_tasks_mount_images_and_bind_memory(
    tools: Path, bench_folder: Path, tmp_path: Path
) -> None:
    spec = {
        **SHORT, "baseline": {"name": "image", "image": str(bench_folder / "mpich.squashfs")},
        "on": "allocation", "placements": [{"shape": "1x2", "by": "core", "membind": True}],
    }  # fmt: skip
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", "bench", "spec.yaml", "-o", "out", "--no-verdict"],
        cwd=tmp_path, env=told(tools, "flux"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (timed,) = (one for one in launched(tmp_path / "out") if one["block"] == 1)
    assert timed["case"]["placement"]["name"] == "1x2-by-core-membind"
    assert timed["host_facts"]["image"] == "mounted by the tasks"
    asked = [rank["numa"] for rank in timed["case"]["placement"]["ranks"]]
    assert [rank["membind"] for rank in timed["output"]["ranks"]] == asked
    numa = ",".join(map(str, asked))
    assert f"--memory {numa} --mounts " in " ".join(timed["argv"])
    assert len(timed["output"]["ranks"]) == 2


def test_jobs_that_tell_no_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLUX_URI", "PBS_NODEFILE"):
        monkeypatch.delenv(name, raising=False)
    assert scheduler_job.enter() is None
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    assert refusal(scheduler_job.enter).reason is Reason.TOOL_MISSING
    (tmp_path / "mpiexec").write_text("#!/bin/sh\n")
    (tmp_path / "mpiexec").chmod(0o755)
    (tmp_path / "nodes").write_text("")
    assert refusal(scheduler_job.enter).reason is Reason.INVALID_VALUE
    (tmp_path / "nodes").write_text("b\na\nb\n")
    found = scheduler_job.enter()
    assert found is not None
    assert (found.launcher, found.nodes) == ("pals", ("a", "b"))
    (tmp_path / "flux").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "flux").chmod(0o755)
    monkeypatch.setenv("FLUX_URI", "local:///none")
    assert refusal(scheduler_job.enter).reason is Reason.JOB_FAILED
