"""A job that ran and was slow, as its user sees it: a log without a complaint, and an environment."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from doctoring import fired
from inprocess import stackproof
from knowing import KNOWLEDGE
from stackproof.doctor.conditions import Answer, evaluate
from stackproof.doctor.evidence.variables import mpi_on_path, of_another_host
from stackproof.knowledge.evidence import Evidence, FactValue

RAN = "step 1 t=12.3\nstep 2 t=24.9\nstep 3 t=37.0\n"
OB1 = (
    "[nid001234:7] select: component ob1 selected\n[nid001234:7] btl: tcp: Using interface: hsn0\n"
)
ELSEWHERE = (
    "PATH=/user-environment/openmpi-5.0.6/bin:/usr/bin\nOMPI_MCA_btl_tcp_if_include=hsn0\n"
    "SLURM_JOB_NODELIST=nid[001234-001235]\n"
)


def written(folder: Path, **texts: str) -> list[Path]:
    paths = [folder / name.replace("_", ".") for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    return paths


@pytest.mark.parametrize(
    "line",
    [
        OB1,
        "[n:7] mtl_ofi_component.c:362: mtl:ofi:prov: tcp;ofi_rxm\n",
        "[n:7] mca: bml: Using tcp btl for send to [[1,1],1] on node n2\n",
        "libfabric provider: tcp;ofi_rxm - hsn0\n",
        # A hole, as a file system leaves it of a writer whose node was lost.
        "\0" * 70_000 + "\n[n:7] mtl_ofi_component.c:362: mtl:ofi:prov: tcp\n",
    ],
    ids=["ob1", "mtl", "btl", "provider", "behind a hole"],
)
def test_tcp_on_slingshot_is_the_first_finding(tmp_path: Path, line: str) -> None:
    (log,) = written(tmp_path, job_log=line + RAN)
    first, *_ = fired("--log", log, "--site", "lumi-c")
    assert first["rule"] == "K203"


def test_settings_for_tcp_are_found_without_a_log(tmp_path: Path) -> None:
    (env,) = written(tmp_path, job_env="OMPI_MCA_pml=ob1\nOMPI_MCA_btl=self,vader,tcp\n")
    first, *_ = fired("--env", env, "--site", "lumi-c")
    assert first["rule"] == "K203"


def test_a_job_of_another_host_is_not_held_against_this_machine(tmp_path: Path) -> None:
    log, env = written(tmp_path, job_log=OB1 + RAN, job_env=ELSEWHERE)
    assert fired("--log", log, "--env", env) == []
    out = stackproof("doctor", "--log", log, "--env", env).stdout
    assert "what joins the nodes: a site" in out.replace("\n      ", " ")


def test_the_mpi_on_the_path_is_believed_before_the_sites(tmp_path: Path) -> None:
    (env,) = written(tmp_path, job_env=ELSEWHERE + "FI_PROVIDER=tcp\nOMPI_MCA_pml=cm\n")
    findings = fired("--env", env, "--site", "lumi-c")
    assert findings[0]["rule"] == "K79"
    assert "names-not-read" not in {one["name"] for one in findings}


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/user-environment/openmpi-5.0.6/bin", ("openmpi", "5.0.6")),
        ("/usr/bin:/apps/MPICH/4.3.1-GCC/bin", ("mpich", "4.3.1")),
        ("/apps/mpich/4.3/bin:/apps/openmpi/5.0.8/bin", ("mpich", "4.3")),
        ("/opt/cray/pe/mpich/8.1.29/ofi/gnu/9.1/bin", None),
        ("/apps/openmpi/bin:/opt/openmpix-5/bin", None),
        ("", None),
    ],
)
def test_the_mpi_of_a_search_path(path: str, known: tuple[str, str] | None) -> None:
    evidence = mpi_on_path({"PATH": path})
    family = evidence.facts.get("mpi")
    assert (family and (family, evidence.versions[str(family)])) == known


@pytest.mark.parametrize(
    ("variables", "elsewhere"),
    [
        ({"HOSTNAME": "node1"}, True),
        ({"HOSTNAME": "me.example.org"}, False),
        ({"HOSTNAME": "login1", "SLURMD_NODENAME": "me"}, False),
        ({"SLURM_JOB_NODELIST": "me[1-2]"}, True),
        ({"SLURM_JOB_NODELIST": "a,me,b"}, False),
        ({"SLURM_JOB_NODELIST": "some"}, True),
        ({}, False),
    ],
)
def test_whether_a_job_ran_on_another_host(variables: dict[str, str], elsewhere: bool) -> None:
    assert of_another_host(variables, "me") is elsewhere


def test_ranks_that_are_alone_by_a_setting_of_slurm(tmp_path: Path) -> None:
    log, env = written(
        tmp_path, job_log="x\n" + "rank 0 of 1\n" * 3, job_env="SLURM_MPI_TYPE=none\n"
    )
    first, second, *_ = fired("--log", log, "--env", env)
    assert [first["rule"], second["rule"]] == ["K204", "K25"]
    assert first["line"] == second["line"] == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b" \n\n\t\n", "is empty"),
        (bytes(5000), "is empty"),
        (bytes(range(256)) * 20, "is not text"),
    ],
)
def test_a_log_that_says_nothing_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(content)
    done = stackproof("doctor", "--log", log)
    assert (done.returncode, done.stdout) == (3, "")
    assert words in done.stderr


@pytest.mark.parametrize("line", ["²", "9" * 5000, "-1", "", "x"])
def test_an_origin_that_names_no_line_has_none(line: str) -> None:
    """It may come from the bundle of somebody else."""
    evidence = Evidence(
        facts={"worlds": 3.0},
        logs={"job.log": "x"},
        origins={"fact worlds": f"job.log:{line}: rank 0 of 1"},
    )
    outcome = evaluate({"above": {"worlds": 1}}, evidence, {})
    assert (outcome.answer, outcome.place) == (Answer.YES, None)


@pytest.mark.battery
def test_a_long_path_takes_no_long_time() -> None:
    path = f"/openmpi-{'1' * 1_000_000}x"
    begin = time.process_time()
    assert mpi_on_path({"PATH": path}).facts == {}
    assert time.process_time() - begin < 2


def test_a_log_in_the_place_of_an_image_is_told_its_option(tmp_path: Path) -> None:
    (log,) = written(tmp_path, job_log=RAN)
    done = stackproof("doctor", log)
    assert done.returncode == 6
    assert f"--log {log}" in done.stderr


RULES = {rule.id: rule for rule in KNOWLEDGE.rules}
UCX = {"OMPI_MCA_pml": "ucx"}
CM = {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi"}
INTEL = {"I_MPI_FABRICS": "ofi"}


@pytest.mark.parametrize(
    ("variables", "facts", "left_out"),
    [
        ({"OMPI_MCA_btl": "tcp,self"}, {}, True),
        ({"OMPI_MCA_btl": "^vader"}, {}, True),
        ({"OMPI_MCA_btl": "self,sm,tcp"}, {}, False),
        ({"OMPI_MCA_btl": "vader,tcp,self"}, {}, False),
        ({"OMPI_MCA_btl": "^openib"}, {}, False),
        ({"OMPI_MCA_btl": "tcp,self"}, {"mpi": "mpich"}, False),
        ({"OMPI_MCA_btl": "tcp,self"}, {"placement": ("inter-node",)}, False),
        ({"OMPI_MCA_btl": "tcp,self"}, {"placement": ("intra-node",)}, True),
        ({"OMPI_MCA_btl": "tcp,self"}, {"placement": ("inter-node", "intra-node")}, False),
        ({**UCX, "OMPI_MCA_btl": "tcp,self"}, {}, False),
        ({**UCX, "UCX_TLS": "tcp,self"}, {}, True),
        ({**UCX, "UCX_TLS": "^posix"}, {}, True),
        ({**UCX, "UCX_TLS": "rc_x,sm,self"}, {}, False),
        ({**UCX, "UCX_TLS": "^ud"}, {}, False),
        ({"UCX_TLS": "tcp,self"}, {}, False),  # ob1 asks no UCX
        ({**CM, "FI_PROVIDER": "tcp"}, {}, True),
        ({**CM, "FI_PROVIDER": "lnx"}, {}, False),
        ({"FI_PROVIDER": "tcp"}, {}, False),  # shared memory of the MPI itself
        ({**INTEL, "FI_PROVIDER": "tcp"}, {"mpi": "intel-mpi"}, True),
        ({**INTEL, "FI_PROVIDER": "tcp"}, {}, True),
        ({**INTEL, "I_MPI_OFI_PROVIDER": "shm"}, {"mpi": "intel-mpi"}, False),
        (INTEL, {"mpi": "intel-mpi", "fabric": "none"}, True),
        (INTEL, {"mpi": "intel-mpi", "fabric": "infiniband"}, False),
        ({"I_MPI_FABRICS": "shm:ofi", "FI_PROVIDER": "tcp"}, {}, False),
        ({"MPIR_CVAR_NOLOCAL": "1"}, {"mpi": "mpich"}, True),
        ({"MVP_NOLOCAL": "yes"}, {"mpi": "mvapich"}, True),
        ({"MPIR_CVAR_NOLOCAL": "0"}, {}, False),
        ({"MPIR_CVAR_NOLOCAL": "1"}, {"mpi": "intel-mpi"}, False),  # which has its own
    ],
)
def test_settings_that_leave_out_shared_memory_are_a_cause(
    variables: dict[str, str], facts: dict[str, FactValue], left_out: bool
) -> None:
    evidence = Evidence(variables=variables, facts=facts)
    answer = evaluate(RULES["K245"].when, evidence, KNOWLEDGE.newest).answer
    assert (answer is Answer.YES) is left_out


def test_open_mpi_4_has_no_shared_memory_by_the_name_sm() -> None:
    for release, left_out in (("4.1.6", True), ("5.0.11", False)):
        evidence = Evidence(
            versions={"openmpi": release}, variables={"OMPI_MCA_btl": "sm,tcp,self"}
        )
        answer = evaluate(RULES["K245"].when, evidence, KNOWLEDGE.newest).answer
        assert (answer is Answer.YES) is left_out


def test_the_remedy_names_the_variable_that_is_set(tmp_path: Path) -> None:
    log, env = written(tmp_path, job_log=RAN, job_env="MPIR_CVAR_NOLOCAL=1\nLANG=C\n")
    text = stackproof("doctor", "--log", log, "--env", env).stdout
    assert "kept from shared memory" in text
    assert "$ unset MPIR_CVAR_NOLOCAL   # MPICH\n" in text
    assert "OMPI_MCA" not in text
