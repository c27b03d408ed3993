"""Files of other programs: what is known not to work in them is said with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

import inprocess
from stackproof.build.effects import other_files as effects_other_files

SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\n{header}\n\n{step}\n"
BUILD = "FROM debian:12\nRUN cd openmpi-5.0.8 \\\n && ./configure {words} && make\n"


@pytest.mark.parametrize(
    ("header", "step", "told"),
    [
        ("#SBATCH --environment=flow", "srun --environment=flow ./a", "`srun --environment=flow` in line 5"),
        ("#SBATCH --environment flow.toml", "time srun -n 2 --environment=b ./a", "enters a container again"),
        ("#SBATCH -N 2 --environment=flow", "srun ./a", "where `srun` and what it needs"),
        ("#SBATCH --environment=flow", "srun -n 2 \\\n  --environment=flow ./a", "in line 5"),
        ("#SBATCH --environment=flow", "python a.py", "the whole script into the container"),
        ("#SBATCH --uenv=flow", "srun --environment=flow ./a", ""),
        ("##SBATCH --environment=flow", "srun --environment=flow ./a", ""),
        ("#SBATCH --comment=x # --environment=flow", "srun --environment=flow ./a", ""),
    ],
)  # fmt: skip
def test_an_environment_for_a_whole_script(header: str, step: str, told: str) -> None:
    found = [
        *effects_other_files.judge_batch(SCRIPT.format(header=header, step=step), "job.sh", None)
    ]
    assert len(found) == bool(told)
    assert told in "".join(map(str, found))
    assert all(str(problem.where) == "job.sh:3:1" for problem in found)


@pytest.mark.parametrize(
    ("words", "fabric", "told"),
    [
        ("--with-ucx=/usr --without-ofi", "slingshot-11", "`--without-ofi`"),
        ("--with-ucx", None, "`--with-ucx`"),
        ("--with-ofi=no", "slingshot-11", "`--with-ofi=no`"),
        ("--with-device=ch4:ucx", "slingshot-11", "`--with-device=ch4:ucx`"),
        ("spack install openmpi fabrics=cma,ucx", "slingshot-11", "`fabrics=cma,ucx`"),
        ("spack install openmpi fabrics=ucx,ofi", "slingshot-11", ""),
        ("--with-ucx --with-ofi=/usr", "slingshot-11", ""),
        ("--without-ofi", "infiniband", ""),
        ("--prefix=/usr", "slingshot-11", ""),
    ],
)
def test_an_mpi_without_libfabric(words: str, fabric: str | None, told: str) -> None:
    found = [
        *effects_other_files.judge_containerfile(BUILD.format(words=words), "Dockerfile", fabric)
    ]
    assert len(found) == bool(told)
    assert told in "".join(map(str, found))
    assert all(str(problem.where) == "Dockerfile:2:1" for problem in found)


def test_ucx_of_a_library_that_is_no_mpi() -> None:
    text = "FROM a\nRUN cd ucc && ./configure --with-ucx=/usr\nRUN cd mpich && ./configure\n"
    assert not [*effects_other_files.judge_containerfile(text, "Dockerfile", None)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('image = "a"\n[annotations]\ncom.hooks.cxi.enabled = "true"\n', ""),
        (
            'image = "a"\n[annotations]\ncom.hooks.cxi.enabled = true\n',
            "`com.hooks.cxi.enabled` in",
        ),
        ('image = "a"\n[env]\nFI_LOG = 1\n', 'write it in quotes: `FI_LOG = "1"`'),
        ('image = "a\n', "not TOML"),
    ],
)
def test_an_environment_definition(text: str, told: str) -> None:
    found = "".join(map(str, effects_other_files.judge_edf(text, "a.toml", None)))
    assert told in found
    assert bool(found) == bool(told)
    assert "not TOML" not in found or "--> a.toml:1:" in found


def test_check_reads_them_for_a_site(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(BUILD.format(words="--without-ofi"))
    for site, count in (("alps-gh200", 2), ("local", 1), ("nowhere", 2)):
        done = inprocess.stackproof("check", tmp_path, "--site", site)
        assert (done.returncode, done.stderr.count("error: ")) == (3, count), done.stderr
    assert effects_other_files.problems(str(tmp_path / "missing"), None) == ()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("OpenMPI", "begin with `stackproof recipe show openmpi-"),
        ("MPICH", "begin with `stackproof recipe show mpich-ofi`"),
        ("UCX", "begin with `stackproof recipe show openmpi-ucx`,"),
        ("libfabric", "begin with `stackproof recipe show libfabric`,"),
        ("HDF5", "begin with one of `stackproof recipe ls`"),
    ],
)
def test_an_easyconfig_leads_to_the_recipe_of_its_name(
    name: str, hint: str, tmp_path: Path
) -> None:
    (tmp_path / "a.eb").write_text(f"name = '{name}'\nversion = '5.0.3'\ntoolchain = SYSTEM\n")
    for path in (tmp_path, tmp_path / "a.eb"):
        done = inprocess.stackproof("check", path)
        assert hint in done.stderr
        assert name == "libfabric" or "show libfabric" not in done.stderr


@pytest.mark.parametrize("mpi", ["cray-mpich", "mpich", "openmpi"])
def test_a_file_of_spack_leads_to_the_recipe_of_its_mpi(mpi: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"spack:\n  specs: [hdf5 ^{mpi}@8]\n")
    done = inprocess.stackproof("check", tmp_path / "a.yaml")
    assert f"`stackproof recipe show spack/{mpi}`" in done.stderr
