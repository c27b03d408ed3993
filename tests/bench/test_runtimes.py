"""Command lines of runtimes of containers, as their documentation has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.bench import runtimes
from stackproof.bench.effects import container_rank
from stackproof.bench.runtimes.apptainer import Apptainer
from stackproof.bench.runtimes.podman import Podman
from stackproof.bench.runtimes.sarus import Sarus
from stackproof.bench.runtimes.start import ContainerStart
from stackproof.core.errors import Reason, StackproofError

START = ContainerStart(
    image="localhost/mpi:1", binds={"/in": "/out", "/same": "/same"},
    environment={"LD_LIBRARY_PATH": "/opt/mpi/lib"}, options=("--device=/dev/cxi0",),
)  # fmt: skip


@pytest.mark.parametrize("name", runtimes.REGISTRY)
def test_every_runtime_ends_with_the_image_and_has_all_that_is_asked(name: str) -> None:
    runtime = runtimes.get(name)
    words = runtime.words(START)
    assert runtime.name == name == words[0]
    assert words[-1] == START.image
    assert words.index("--device=/dev/cxi0") < len(words) - 1
    assert "--env=LD_LIBRARY_PATH=/opt/mpi/lib" in words
    for place, source in START.binds.items():
        assert any(place in word and source in word and "r" in word for word in words)


def test_as_the_documentations_have_them() -> None:
    podman = Podman().words(START)
    assert podman[:3] == ("podman", "run", "--rm")
    assert {"--network=host", "--pid=host", "--ipc=host", "--volume=/out:/in:ro"} <= {*podman}
    assert "--env=PMI_*" in podman
    assert Apptainer().words(START)[:4] == (
        "apptainer", "exec", "--sharens", "--bind=/out:/in:ro"
    )  # fmt: skip
    assert Sarus().words(START)[:3] == (
        "sarus", "run", "--mount=type=bind,source=/out,destination=/in,readonly"
    )  # fmt: skip
    assert Podman().archive("x", "/a.tar")[:2] == ("podman", "save")
    assert Apptainer().archive("x", "/a") == Sarus().archive("x", "/a") == ()


def test_an_unknown_runtime() -> None:
    with pytest.raises(StackproofError) as caught:
        runtimes.get("chroot")
    assert caught.value.reason is Reason.UNSUPPORTED


def test_a_rank_hands_on_what_it_was_told() -> None:
    assert container_rank.words({}) == []
    assert container_rank.words({"PMI_FD": "7", "PMIX_SERVER_TMPDIR": "/tmp/p"}) == [
        "--preserve-fds=1", "--volume=/tmp/p:/tmp/p"
    ]  # fmt: skip


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
