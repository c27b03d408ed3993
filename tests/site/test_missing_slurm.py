"""`site probe --missing` on a login node and in a job of a real Slurm, and the page that says how."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import documented
from need import need
from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.cluster.slurm import SlurmSpec
from stackproof.core.document import parse
from stackproof.site import model
from stackproof.site.model import Site, parse_site

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("runtime")]

PAGE = documented.ROOT / "docs" / "how-to" / "first-day.md"


@pytest.fixture
def machine(tmp_path):
    need("slurm", "netns")
    name = f"asked-{os.getpid()}"
    yield up.up(ClusterSpec(name=name, shared=(str(tmp_path),), slurm=SlurmSpec()))
    up.down(name)


def on_login(state: ClusterState, folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        cluster_model.enter_argv(state, None, ("env", f"--chdir={folder}", "bash", "-c", line)),
        env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip


def told(state: ClusterState, folder: Path, line: str) -> str:
    done = on_login(state, folder, line)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def paste(state: ClusterState, folder: Path, line: str, file: Path) -> None:
    """Put into a site file what a command says is missing, as a person does."""
    lines = parse(told(state, folder, line) or "{}", file="lines").data
    data = model.overlay(lines, parse(file.read_text(), file=file.name).data)
    file.write_text(json.dumps(data))


def read(file: Path) -> Site:
    return parse_site(parse(file.read_text(), file=file.name))


def test_the_page_from_its_first_line_to_its_last(machine, tmp_path):
    """Every line that is not marked, in order; the job is the one that the login node named."""
    lines = sorted(
        (
            line
            for line in (*documented.lines_of(PAGE), *documented.others_of(PAGE))
            if not line.reason
        ),
        key=lambda line: line.number,
    )
    file = tmp_path / "my-machine.yaml"
    file.write_text("name: my-machine\n")  # as `echo` does on the page
    said = {}
    for line in lines:
        said[line.text] = told(machine, tmp_path, line.text)
        if line.text.startswith("srun"):
            paste(machine, tmp_path, line.text, file)
    following = "srun -N1 -n1 stackproof site probe --missing my-machine.yaml"
    assert "# is there" in said[following]
    assert read(file).limits.process_vm_readv is not None
    assert told(machine, tmp_path, following) == ""
    assert said["stackproof check openmpi --site ./my-machine.yaml"] == "openmpi: valid\n"


def test_each_fact_says_which_machine_was_asked(machine, tmp_path):
    file = tmp_path / "two.yaml"
    file.write_text("# mine\nname: two  # and I say so\n")
    paste(machine, tmp_path, "stackproof site probe --missing two.yaml", file)
    site = read(file)
    head = told(machine, tmp_path, "hostname").strip()
    assert site.scheduler
    assert (site.scheduler.type, len(site.scheduler.queues)) == ("slurm", 1)
    assert {"pmi2", "pmix"} <= set(site.launchers["srun"].pmi)
    assert (site.partitions, site.kernel) == ({}, None)
    assert {source.host for source in site.sources.values()} == {head}
    line = "srun -N1 -n1 -w node2 stackproof site probe --missing two.yaml"
    paste(machine, tmp_path, line, file)
    site = read(file)
    queue = site.scheduler.queues[0] if site.scheduler else ""
    assert site.partitions[queue].microarchitecture
    assert site.partitions[queue].architecture == os.uname().machine
    assert site.limits.process_vm_readv is not None
    (source,) = site.sources_of("limits.process-vm-readv")
    assert (source.host, source.kind) == ("node2", "command")
    assert [one.host for one in site.sources_of("launchers.srun.pmi")] == [head]


def test_an_srun_that_answers_by_standard_error_alone(machine, tmp_path):
    """As Slurm did before 22; and one whose other answers are endless, and in no language we read."""
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "srun"
    fake.write_text(
        "#!/bin/sh\ncase $1 in\n"
        "--mpi=list) echo 'srun: MPI types are...' >&2; echo 'srun: cray_shasta' >&2; echo 'srun: pmi2' >&2;;\n"
        "--version) echo slurm 20.11.9; head -c 30000000 /dev/zero | tr '\\0' x;;\nesac\n"
    )
    fake.chmod(0o755)
    line = f"PATH={tools}:$PATH LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8 stackproof site probe --missing odd.yaml"
    (tmp_path / "odd.yaml").write_text("name: odd\n")
    paste(machine, tmp_path, line, tmp_path / "odd.yaml")
    site = read(tmp_path / "odd.yaml")
    assert site.launchers["srun"].pmi == ("cray_shasta", "pmi2")
    assert site.launchers["srun"].version == "20.11.9"
    assert (tmp_path / "odd.yaml").stat().st_size < 50_000
