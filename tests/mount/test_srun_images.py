"""README's `srun --image` as it stands, for the MPI of each image: one world, with nothing added."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmroom import Room, built_in

pytestmark = pytest.mark.machine

CLUSTER = f"srun-images-{os.getpid()}"
ROOT = Path(__file__).resolve().parents[2]
MPIS = ("mpich", "openmpi", "intel-mpi")
PROGRAM = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank++;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d, sum %d\\n", rank, size, sum);
    return MPI_Finalize();
}
"""
TOGETHER = ["rank 1 of 2, sum 3", "rank 2 of 2, sum 3"]
ALONE = ["rank 1 of 1, sum 1"] * 2


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A cluster as `cluster up --slurm` makes it, and a folder for each MPI."""
    room = built_in(tmp_path_factory.mktemp("room"), CLUSTER, *MPIS)
    for name in MPIS:
        folder = room.folder / name
        folder.mkdir()
        (folder / "program.c").write_text(PROGRAM)
        # Intel's runtime has no compiler; its MPI has MPICH's binary interface.
        compiler = "openmpi" if name == "openmpi" else "mpich"
        argv = ("mpicc", "-o", folder / "program", folder / "program.c")
        room.run("run", f"{compiler}.squashfs", "--", *argv)
        (folder / "mpich.squashfs").hardlink_to(room.folder / f"{name}.squashfs")
    room.run("cluster", "up", "--slurm", "--name", CLUSTER, "--share", room.folder)
    yield room
    room.run("cluster", "down", "--name", CLUSTER)


def line() -> str:
    """Return README's line with a program."""
    (found,) = re.findall(
        r"^ +(srun --image=\S+ \./program)", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    return found


def ran(
    room: Room, name: str, *words: str, env: dict[str, str] | None = None
) -> tuple[list[str], str]:
    """Return the ranks' output and all other output, from the folder of an MPI."""
    argv = room.argv("cluster", "exec", "--name", CLUSTER, "--", *words)
    done = subprocess.run(
        argv, cwd=room.folder / name, env={**room.env, **(env or {})}, capture_output=True,
        text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return sorted(row for row in done.stdout.splitlines() if row.startswith("rank")), done.stderr


@pytest.mark.parametrize("name", MPIS)
def test_the_line_of_the_readme_is_one_world(room: Room, name: str) -> None:
    ranks, said = ran(room, name, "salloc", "--quiet", "-N2", "sh", "-c", line())
    assert ranks == TOGETHER
    assert "alone" not in said
    # As a job of its own, in a job's script with another image around, and in a session.
    command, *words = line().split()
    assert ran(room, name, command, "-N2", *words)[0] == TOGETHER
    other = room.folder / MPIS[(MPIS.index(name) + 1) % 3] / "mpich.squashfs"
    script = ("sbatch", "--wait", "-N2", f"--image={other}", "--output=out", "--wrap", line())
    ran(room, name, *script)
    out = (room.folder / name / "out").read_text().splitlines()
    assert sorted(row for row in out if row.startswith("rank")) == TOGETHER
    session = room.argv("run", "mpich.squashfs", "--")
    assert ran(room, name, *session, "srun", "-N2", "./program")[0] == TOGETHER


def test_ranks_place_themselves_on_their_node(room: Room) -> None:
    words = room.argv("site", "place", "1x1-by-core-membind", "--")
    argv = ("srun", "-N2", "--ntasks-per-node=1", "--image=mpich.squashfs", *words, "./program")
    assert ran(room, "mpich", *argv)[0] == TOGETHER


def test_who_has_chosen_is_told_and_obeyed(room: Room) -> None:
    ranks, said = ran(room, "mpich", "srun", "-N2", "--mpi=none", *line().split()[1:])
    assert ranks == ALONE
    assert "the MPI of the image is mpich, and srun runs with --mpi=none" in said
    assert "each rank will be alone [singletons]" in said
    assert "hint: say --mpi=pmi2" in said
    ranks, said = ran(room, "intel-mpi", "srun", "-N2", *line().split()[1:],
                      env={"SLURM_MPI_TYPE": "pmix"})  # fmt: skip
    assert ranks == TOGETHER
    assert "alone" not in said


def test_a_default_of_the_site_that_works_stays(room: Room) -> None:
    conf = "/etc/slurm/slurm.conf"
    room.slurm("sh", "-c", f"cp {conf} /etc/slurm/kept && echo MpiDefault=pmix >>{conf}")
    try:
        words = line().split()[1:-1]
        for name, kind in (("intel-mpi", "pmix"), ("openmpi", "pmix")):
            argv = ("srun", *words, "sh", "-c", "echo rank $SLURM_MPI_TYPE $SLURM_STACKPROOF_PMI.")
            assert ran(room, name, *argv)[0] == [f"rank {kind} ."]
    finally:
        room.slurm("cp", "/etc/slurm/kept", conf)


def test_a_program_without_mpi_keeps_its_input_and_exit_code(room: Room) -> None:
    argv = room.argv("cluster", "exec", "--name", CLUSTER, "--", *line().split()[:-1])
    done = subprocess.run(
        [*argv, "sh", "-c", "cat; exit 3"], cwd=room.folder / "mpich", env=room.env, input="through\n",
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "through\n")


def test_srun_keeps_its_name_and_an_empty_environment(room: Room) -> None:
    """Whoever looks for `srun` among processes finds it, though it has become itself once more."""
    words = " ".join(line().split()[1:-1])
    script = (
        f"env -i $(command -v srun) -N2 {words} "
        "/bin/sh -c ': >started; echo rank $SLURM_STACKPROOF_PMI.; /bin/sleep 1' & "
        "until test -e started || ! kill -0 $!; do sleep 0.1; done; "
        "echo rank $(cat /proc/$!/comm); wait $!"
    )
    assert ran(room, "mpich", "sh", "-c", script)[0] == ["rank .", "rank .", "rank srun"]
    bare = f"env -i $(command -v srun) -N2 {' '.join(line().split()[1:])}"
    assert ran(room, "mpich", "sh", "-c", bare)[0] == TOGETHER


def test_a_choice_for_an_image_ends_with_its_step(room: Room) -> None:
    """An srun within the step that has no image must find the site's default."""
    words = line().split()[1:-1]
    show = "echo rank ${SLURM_MPI_TYPE-unset} ${SLURM_STACKPROOF_PMI-unset}"
    assert ran(room, "mpich", "srun", "-N1", *words, "sh", "-c", show)[0] == ["rank unset unset"]
    argv = ("srun", "-N1", *words, "sh", "-c", show)
    assert ran(room, "mpich", *argv, env={"SLURM_MPI_TYPE": "pmi2"})[0] == ["rank pmi2 unset"]
