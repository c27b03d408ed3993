"""Command lines of runtimes of containers, as their documentation has them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from refusals import refusal
from stackproof.bench import runtimes
from stackproof.bench.effects.kinds import container_rank
from stackproof.bench.runtimes import ContainerStart, ImageSource
from stackproof.core.errors import Reason
from stackproof.core.value import replace

START = ContainerStart(
    image="/images/mpi.sqsh", binds={"/in": "/out", "/same": "/same"},
    environment={"LD_LIBRARY_PATH": "/opt/mpi/lib"}, options=("--device=/dev/cxi0",),
)  # fmt: skip

# As their documentation has them; the docstrings of their functions name it.
WORDS = {
    "apptainer": "apptainer exec --sharens --bind=/out:/in:ro --bind=/same:/same:ro"
    " --env=LD_LIBRARY_PATH=/opt/mpi/lib --device=/dev/cxi0 /images/mpi.sqsh",
    "singularity": "singularity exec --bind=/out:/in:ro --bind=/same:/same:ro"
    " --env=LD_LIBRARY_PATH=/opt/mpi/lib --device=/dev/cxi0 /images/mpi.sqsh",
    "sarus": "sarus run --mount=type=bind,source=/out,destination=/in,readonly"
    " --mount=type=bind,source=/same,destination=/same,readonly"
    " --env=LD_LIBRARY_PATH=/opt/mpi/lib --device=/dev/cxi0 /images/mpi.sqsh",
    "enroot": "enroot start --mount=/out:/in:none:x-create=auto,rbind,ro"
    " --mount=/same:/same:none:x-create=auto,rbind,ro"
    " --env=LD_LIBRARY_PATH=/opt/mpi/lib --device=/dev/cxi0 /images/mpi.sqsh",
    "pyxis": "--container-image=/images/mpi.sqsh --container-mounts=/out:/in:ro,/same:/same:ro"
    " --no-container-mount-home --no-container-entrypoint --device=/dev/cxi0",
    "edf": "--environment={file} --device=/dev/cxi0",
}
EDF = """image = "/images/mpi.sqsh"
workdir = "/"
mounts = ["/out:/in:ro", "/same:/same:ro"]
entrypoint = false
writable = false

[env]
LD_LIBRARY_PATH = "/opt/mpi/lib"
"""


@pytest.mark.parametrize("name", runtimes.REGISTRY)
def test_every_runtime_keeps_what_it_promises(name: str) -> None:
    runtime = runtimes.get(name)
    words, text = runtime.words(START), runtime.file(START)
    assert runtime.sources
    assert runtime.gpu
    assert runtime.settings.startswith("`options`")
    assert ("{file}" in " ".join(words)) is bool(text)
    if not runtime.in_steps:
        assert (words[0], words[-1]) == (runtime.program, START.image)
        assert words.index("--device=/dev/cxi0") < len(words) - 1
        assert "--env=LD_LIBRARY_PATH=/opt/mpi/lib" in words
    told = (*words, text)
    for place, source in START.binds.items():
        assert any(place in word and source in word and "r" in word for word in told)


@pytest.mark.parametrize("name", sorted({*runtimes.REGISTRY} - {"podman"}))
def test_as_the_documentations_have_them(name: str) -> None:
    runtime = runtimes.get(name)
    assert " ".join(runtime.words(START)) == WORDS[name]
    assert runtime.in_steps is (name in {"pyxis", "edf"})
    assert runtime.archive == ()


def test_podman() -> None:
    hooked = replace(START, hooks="/hooks", annotations={"stackproof.inject": "mpi"})
    podman = runtimes.get("podman")
    words = podman.words(hooked)
    assert words[:3] == ("podman", "run", "--rm")
    assert {"--network=host", "--pid=host", "--ipc=host", "--volume=/out:/in:ro"} <= {*words}
    assert {"--env=PMI_*", "--hooks-dir=/hooks", "--annotation=stackproof.inject=mpi"} <= {*words}
    assert not any("hooks" in word or "annotation" in word for word in podman.words(START))
    assert podman.archive[:2] == ("podman", "save")


def test_an_environment_file_is_toml() -> None:
    file = runtimes.get("edf").file
    assert file(START) == EDF
    odd = replace(
        START,
        image='a"b',
        environment={"A.B": "x$HOME\\\n"},
        annotations={"stackproof.inject": "m"},
    )
    data = tomllib.loads(file(odd))
    assert data["image"] == 'a"b'
    assert data["env"] == {"A.B": "x$$HOME\\\n"}  # `$$` is how a dollar is written there
    assert data["annotations"] == {"stackproof": {"inject": "m"}}  # dots part tables, as of hooks
    assert "mounts" not in tomllib.loads(file(ContainerStart(image="x")))
    pyxis = runtimes.get("pyxis").words(ContainerStart(image="x"))
    assert "container-mounts" not in " ".join(pyxis)


def test_what_starts_an_image() -> None:
    assert runtimes.starting(ImageSource.SIF) == ("apptainer", "singularity")
    assert "podman" in runtimes.starting(ImageSource.OCI)
    assert {*runtimes.starting(ImageSource.SQUASHFS)} >= {"enroot", "pyxis", "edf", "apptainer"}
    for source in ImageSource:
        assert runtimes.starting(source)


def test_an_unknown_runtime() -> None:
    assert refusal(runtimes.get, "chroot").reason is Reason.UNSUPPORTED


def test_a_rank_hands_on_what_it_was_told() -> None:
    assert container_rank.words({}) == []
    assert container_rank.words({"PMI_FD": "7", "PMIX_SERVER_TMPDIR": "/tmp/p"}) == [
        "--preserve-fds=1", "--volume=/tmp/p:/tmp/p"
    ]  # fmt: skip


ONE = "0::{place}\n"
BOTH = "3:cpuset:/job\n2:cpu,cpuacct:{place}\n1:name=systemd:/x\n0::/other\n"


@pytest.mark.parametrize("groups", [ONE, BOTH])
def test_a_container_s_control_group_is_beside_its_rank(groups: str) -> None:
    """The second version of control groups, and both: then the first has the CPUs."""
    assert container_rank.beside(groups.format(place="/")) == ["--cgroup-parent=/"]
    assert container_rank.beside(groups.format(place="/slurm/job_1")) == []
    assert container_rank.beside("") == []


def test_a_rank_s_open_file_is_number_three(tmp_path: Path) -> None:
    """A program in the place of podman tells what it got."""
    fake = tmp_path / "podman"
    fake.write_text('#!/bin/sh\necho "$PMI_FD $*"\necho "root ${I_MPI_ROOT:-unset}"\ncat <&3\n')
    fake.chmod(0o755)
    (tmp_path / "told").write_text("from the launcher\n")
    with (tmp_path / "told").open() as stream:
        done = subprocess.run(
            [sys.executable, "-I", "-S", container_rank.__file__, "--unset", "I_MPI_ROOT",
             fake, "run", "--rm", "image", "program"],
            env={"PMI_FD": str(stream.fileno()), "I_MPI_ROOT": "/x", "PATH": "/usr/bin:/bin"},
            pass_fds=(stream.fileno(),), capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout.splitlines() == [
        "3 run --preserve-fds=1 --rm image program", "root unset", "from the launcher"
    ]  # fmt: skip
    gone = subprocess.run(
        [sys.executable, "-I", "-S", container_rank.__file__, tmp_path / "gone", "run"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert gone.returncode == 127
    assert "command-not-found" in gone.stderr
