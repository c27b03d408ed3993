"""What programs print of themselves, as evidence."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.command import Command, Completed
from stackproof.core.errors import Reason, fail
from stackproof.core.noun import from_json, to_json
from stackproof.doctor.effects.machine import ask_programs
from stackproof.doctor.evidence.programs import MACHINE, STACK, Reply, read_answers
from stackproof.knowledge.evidence import Evidence

SAID = {
    "fi_info --version": "fi_info: 2.1.0\nlibfabric: 2.1.0\nlibfabric api: 2.1\n",
    "fi_info -l": "cxi:\n    version: 0.1\nofi_rxm:\n    version: 201.0\ntcp:\n    version: 201.0\n",
    "ompi_info --parsable": "package:Open MPI\nompi:version:full:5.0.11\n"
    'mca:mtl:ofi:version:"mca:2.1.0"\nmca:pml:cm:version:"mca:2.1.0"\n',
    "mpichversion": "MPICH Version:      5.0.2\nMPICH Device:       ch4:ucx ofi\n",
    "mpiname -a": "MVAPICH 4.1 Tue Apr 29 22:00:00 EST 2025 ch4:ofi\n",
    "scontrol show config": "SLURM_CONF              = /etc/slurm/slurm.conf\n"
    "SLURM_VERSION           = 23.02.7\nSwitchParameters        = vnis=32768-65535,single_node_vni\n",
    "srun --mpi=list": "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n"
    "specific pmix plugin versions available: pmix_v3,pmix_v4\n",
    "pkg-config fuse": "",
    "pkg-config fuse3": "",
}


def told(name: str, text: str | None = None, code: int = 0) -> Evidence:
    return read_answers({name: Reply(text=SAID[name] if text is None else text, returncode=code)})


def test_every_program_that_is_asked_is_read() -> None:
    assert {*SAID} == {*STACK, *MACHINE}


FI_INFO, OMPI, SCONTROL = "fi_info -l", "ompi_info --parsable", "scontrol show config"
OF_OMPI = {"openmpi": "5.0.11"}
OF_SLURM = {"slurm": "23.02.7"}


@pytest.mark.parametrize(
    ("name", "text", "versions", "facts"),
    [
        ("fi_info --version", None, {"libfabric": "2.1.0"}, {}),
        (FI_INFO, None, {}, {"cxi-provider": True}),
        (FI_INFO, SAID[FI_INFO].replace("cxi:", "shm:"), {}, {"cxi-provider": False}),
        (OMPI, None, OF_OMPI, {"mpi": "openmpi", "ofi-support": True}),
        (OMPI, SAID[OMPI].replace("mca:mtl:ofi", "mca:mtl:psm2"), OF_OMPI,
         {"mpi": "openmpi", "ofi-support": False}),
        ("mpichversion", None, {"mpich": "5.0.2"}, {"mpi": "mpich"}),
        # Cray's and MVAPICH's say it in MPICH's words.
        ("mpichversion", "MPICH Version:      3.4\nMPICH CC: gcc -D_CRAY_OFI -D_CRAY_CH4\n", {}, {}),
        ("mpichversion", "MVAPICH Version:      4.1\n", {}, {}),
        ("mpiname -a", None, {"mvapich": "4.1"}, {"mpi": "mvapich"}),
        ("mpiname -a", "MVAPICH2 2.3.7 Wed ch3:mrail\n", {"mvapich": "2.3.7"}, {"mpi": "mvapich"}),
        (SCONTROL, None, OF_SLURM, {"scheduler": "slurm", "single-node-vni": True}),
        (SCONTROL, SAID[SCONTROL].replace(",single_node_vni", ""), OF_SLURM,
         {"scheduler": "slurm", "single-node-vni": False}),
        ("srun --mpi=list", None, {}, {"slurm-pmix": ("3", "4")}),
        ("srun --mpi=list", "MPI plugin types are...\n\tnone\n", {}, {}),
        ("pkg-config fuse3", None, {}, {"fuse3": True}),
    ],
)  # fmt: skip
def test_a_program_tells_what_it_is(
    name: str, text: str | None, versions: dict[str, str], facts: dict[str, object]
) -> None:
    found = told(name, text)
    assert (found.versions, found.facts) == (versions, facts)
    assert set(found.origins.values()) <= {name}


@pytest.mark.parametrize("name", [FI_INFO, OMPI, "mpichversion", SCONTROL, "srun --mpi=list"])
def test_a_program_that_failed_tells_nothing(name: str) -> None:
    assert told(name, code=1) == Evidence()
    assert told("pkg-config fuse", code=1).facts == {"fuse2": False}


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:03:57 UTC 2025",
        "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release Build",
    ],
)
def test_nvidias_driver_tells_its_version(text: str) -> None:
    assert read_answers({}, text).versions == {"nvidia-driver": "580.65.06"}


@given(st.sampled_from(sorted(SAID)), st.text(), st.integers(0, 255))
def test_any_answer_is_read_without_an_error(name: str, text: str, code: int) -> None:
    evidence = told(name, text, code)
    assert from_json(Evidence, to_json(evidence)) == evidence


def test_programs_of_an_image_are_asked_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def runner(command: Command) -> Completed:
        asked.append(command.argv)
        if "ompi_info" in command.argv:
            return Completed(
                argv=command.argv, returncode=0, seconds=0.1,
                stdout=SAID["ompi_info --parsable"].encode(), stderr=b"",
            )  # fmt: skip
        if "fi_info" in command.argv:
            return Completed(argv=command.argv, returncode=127, seconds=0.1, stdout=b"", stderr=b"")
        raise fail(Reason.TOOL_MISSING, "not here")

    monkeypatch.setattr(shutil, "which", lambda name: None if name == "pkg-config" else name)
    found = ask_programs("my.squashfs", runner)
    assert found.versions == {"openmpi": "5.0.11"}
    inside = (sys.executable, "-P", "-m", "stackproof", "run", "my.squashfs", "--")
    assert (*inside, "mpichversion") in asked
    assert ("scontrol", "show", "config") in asked
    assert not any("pkg-config" in argv for argv in asked)


def test_a_program_that_hangs_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def runner(command: Command) -> Completed:
        return Completed(
            argv=command.argv, returncode=-9, seconds=20, stdout=b"libfabric: 2.1.0\n", stderr=b"",
            timed_out=True,
        )  # fmt: skip

    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert ask_programs(None, runner) == Evidence()


@pytest.mark.battery
def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fi_info", "ompi_info", "mpichversion", "scontrol", "srun", "pkg-config"):
        tool = tmp_path / name
        tool.write_text("#!/bin/sh\nexec sleep 60\n" if name == "fi_info" else "#!/bin/sh\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("stackproof.doctor.effects.machine._TIMEOUT_S", 0.5)
    before = time.monotonic()
    assert ask_programs(None).facts == {"fuse2": True, "fuse3": True}
    assert time.monotonic() - before < 30
