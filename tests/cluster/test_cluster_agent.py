"""The program that starts commands on the nodes of a cluster, in the place of ssh."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from clusters import program, told
from need import need
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("runtime")]


def test_the_agent_runs_the_words_of_the_launcher_on_the_node():
    state = cluster_up.up(ClusterSpec())
    done = program(state, "-x", "node2", "hostname;", "echo", "$COLOUR", "'a  b'", COLOUR="red")
    assert done.stdout == "node2\nred a  b\n"
    assert done.returncode == 0
    assert program(state, "node1", "exit", "7").returncode == 7
    assert program(state, "node1", "echo", "$TMPDIR", TMPDIR="/var/x").stdout == "/tmp\n"
    assert len(shlex.split(state.agent)) == 1


def test_a_node_that_is_not_there_is_255_as_with_ssh():
    state = cluster_up.up(ClusterSpec(nodes=1))
    done = program(state, "node2", "true")
    assert done.returncode == 255
    assert "node2" in done.stderr


def test_the_agent_works_on_the_head_only():
    state = cluster_up.up(ClusterSpec(nodes=1))
    done = subprocess.run(
        [state.agent, "node1", "true"], stderr=subprocess.PIPE, text=True, timeout=600, check=False
    )
    assert done.returncode == 255
    assert "not the head" in done.stderr


def test_the_agent_mounts_images_on_the_node_only(tmp_path):
    need("mksquashfs", "root")
    folder, image = tmp_path / "source", tmp_path / "image.squashfs"
    folder.mkdir()
    (folder / "word").write_text("from the image\n")
    subprocess.run(
        ["mksquashfs", folder, image, "-quiet", "-no-progress"],
        stdout=subprocess.DEVNULL, timeout=600, check=True,
    )  # fmt: skip
    state = cluster_up.up(ClusterSpec(shared=(str(tmp_path),)))
    mounts = f"{image}:/user-word"
    done = program(state, "node1", "cat /user-word/word; hostname", STACKPROOF_MOUNTS=mounts)
    assert done.stdout == "from the image\nnode1\n", done.stderr
    assert "/user-word" not in told(state, "node1", "cat", "/proc/mounts")
    missing = program(state, "node1", "true", STACKPROOF_MOUNTS=f"{image}.not:/mnt")
    assert missing.returncode == 6
