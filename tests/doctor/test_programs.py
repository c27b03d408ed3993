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


def test_libfabric_tells_its_version_and_providers() -> None:
    assert told("fi_info --version").versions == {"libfabric": "2.1.0"}
    assert told("fi_info -l").facts == {"cxi-provider": True}
    without = SAID["fi_info -l"].replace("cxi:", "shm:")
    assert told("fi_info -l", without).facts == {"cxi-provider": False}
    assert told("fi_info -l", "", 61) == Evidence()


def test_open_mpi_tells_whether_it_knows_libfabric() -> None:
    found = told("ompi_info --parsable")
    assert found.versions == {"openmpi": "5.0.11"}
    assert found.facts == {"mpi": "openmpi", "ofi-support": True}
    assert found.origin("fact", "ofi-support") == "ompi_info --parsable"
    without = SAID["ompi_info --parsable"].replace("mca:mtl:ofi", "mca:mtl:psm2")
    assert told("ompi_info --parsable", without).facts["ofi-support"] is False


def test_mpich_is_not_crays() -> None:
    assert told("mpichversion").versions == {"mpich": "5.0.2"}
    cray = "MPICH Version:      3.4\nMPICH CC: gcc -D_CRAY_OFI -D_CRAY_CH4\n"
    assert told("mpichversion", cray) == Evidence()


def test_mvapich_is_not_mpich() -> None:
    assert told("mpiname -a").versions == {"mvapich": "4.1"}
    assert told("mpiname -a").facts == {"mpi": "mvapich"}
    assert told("mpiname -a", "MVAPICH2 2.3.7 Wed ch3:mrail\n").versions == {"mvapich": "2.3.7"}
    assert told("mpichversion", "MVAPICH Version:      4.1\n") == Evidence()


def test_slurm_tells_whether_one_node_gets_a_number() -> None:
    found = told("scontrol show config")
    assert found.versions == {"slurm": "23.02.7"}
    assert found.facts == {"scheduler": "slurm", "single-node-vni": True}
    plain = SAID["scontrol show config"].replace(",single_node_vni", "")
    assert told("scontrol show config", plain).facts["single-node-vni"] is False
    assert told("scontrol show config", "slurm_load_ctl_conf error", 1) == Evidence()


def test_slurm_tells_which_pmix_it_has() -> None:
    assert told("srun --mpi=list").facts == {"slurm-pmix": ("3", "4")}
    assert told("srun --mpi=list", "MPI plugin types are...\n\tnone\n") == Evidence()
    assert told("srun --mpi=list", code=1) == Evidence()


def test_what_is_there_for_compiling_is_an_exit_code() -> None:
    assert told("pkg-config fuse", code=1).facts == {"fuse2": False}
    assert told("pkg-config fuse3").facts == {"fuse3": True}


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
