"""The Slurm plug-in on a real cluster of two nodes: some of the cases of tools/slurm_matrix.py.

All of them, on more nodes, and those with an MPI in the image: `python tools/slurm_matrix.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from images import make_image
from nativebuild import built
from need import need

pytestmark = pytest.mark.machine

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from slurm_cases import CASES  # noqa: E402 - only now on the path
from slurm_site import Site, Wrong  # noqa: E402

_CHOICE = (
    "srun", "sbatch", "labels", "salloc", "login session", "two users", "cancelled", "crashing",
    "signed images", "shared images", "slurmd killed", "bad image", "not on the node", "private image", "unchecked lists",
)  # fmt: skip


def test_srun_has_images_on_a_cluster_as_it_stands(tmp_path):
    """README's line, with nothing prepared: no plug-in named, no mount point made, image in /tmp."""
    need("root", "slurm", "slurm-headers", "meson", "gcc", "netns", "kernel-mount", "mksquashfs")
    name = f"as-it-stands-{os.getpid()}"
    before = sorted(os.listdir("/"))

    def stackproof(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "stackproof", "cluster", words[0], "--name", name, *words[1:]]
        return subprocess.run(
            argv, cwd="/", capture_output=True, text=True, timeout=300, check=False
        )

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        image = make_image(Path(folder, "a.squashfs"))
        image.chmod(0o644)
        up = stackproof("up", "--slurm", "--user", "alice:42001")
        try:
            assert up.returncode == 0, up.stderr
            assert sorted(os.listdir("/")) == before, "the machine's root folder is as it was"
            again = stackproof("up", "--slurm", "--user", "alice:42001")
            assert again.returncode == 0, again.stderr
            assert "up already" in again.stderr
            job = (
                "exec", "--as", "alice", "--", "srun", "-N2", f"--image={image}",
                "sh", "-c", "echo $MPI_TINY && ls /user-environment/bin",
            )  # fmt: skip
            ran = stackproof(*job)
            assert ran.returncode == 0, ran.stderr
            assert ran.stdout.split().count("yes") == 2
            none = stackproof("exec", "--", "srun", "--image=/tmp/none.squashfs", "true")
            assert none.returncode != 0
            assert "put the image on what all share" in none.stderr
        finally:
            stackproof("down")


def test_the_plug_in_can_be_left_out():
    need("root", "slurm", "netns")
    name = f"without-{os.getpid()}"
    cluster = [sys.executable, "-m", "stackproof", "cluster"]
    up = [*cluster, "up", "--slurm", "--nodes=1", f"--name={name}", "--no-images"]
    subprocess.run(up, check=True, timeout=600, stdout=subprocess.DEVNULL)
    try:
        words = [*cluster, "exec", f"--name={name}", "--", "srun", "--help"]
        said = subprocess.run(words, check=True, timeout=600, capture_output=True, text=True)
        assert "--image" not in said.stdout
    finally:
        subprocess.run([*cluster, "down", f"--name={name}"], check=True, timeout=600)


def test_a_label_that_nothing_can_read_is_said_to_be_one(tmp_path):
    """The hint is not to build an image, which may be there: the program is what lacks."""
    need("root", "slurm", "slurm-headers", "meson", "gcc", "netns")
    plugin = built(tmp_path, "spank/stackproof_spank.so")
    name = f"unread-{os.getpid()}"
    cluster = [sys.executable, "-m", "stackproof", "cluster"]
    spank = f"{plugin}=stackproof=/nothing/stackproof"
    up = [*cluster, "up", "--slurm", "--nodes=1", f"--name={name}", "--spank", spank]
    subprocess.run([*up, f"--share={tmp_path}"], check=True, timeout=600, stdout=subprocess.DEVNULL)
    try:
        words = [*cluster, "exec", f"--name={name}", "--", "srun", "--image=mpich/5.0.2", "true"]
        done = subprocess.run(words, check=False, timeout=600, capture_output=True, text=True)
    finally:
        subprocess.run([*cluster, "down", f"--name={name}"], check=True, timeout=600)
    assert done.returncode != 0
    assert "there is no image `mpich/5.0.2`" in done.stderr
    assert "labels need stackproof: cannot start `/nothing/stackproof`" in done.stderr
    assert "init_post_opt() failed with rc=-1" in done.stderr  # the page explains this line


@pytest.fixture(scope="module")
def site(tmp_path_factory, for_everybody):
    need("root", "slurm", "netns", "kernel-mount", "mksquashfs")
    need("docker-registry", "ssh-keygen")
    python, _ = for_everybody
    native = tmp_path_factory.mktemp("native")
    plugin = built(native, "spank/stackproof_spank.so")
    built(native, "helper/stackproof-mount")  # which the site finds beside the plug-in
    folder = tmp_path_factory.mktemp("site")
    site = Site(folder, nodes=2, plugin=plugin, name=f"spank-{os.getpid()}", python=python)
    try:
        site.up()
        yield site
    finally:
        site.down()


@pytest.mark.guarantee(
    "The plug-in for Slurm",
    "A step that lacks its image does not run",
    ", if `plugstack.conf` says `required`. With `optional` Slurm passes over what the "
    "plug-in says.",
)
@pytest.mark.guarantee(
    "The plug-in for Slurm",
    "A site's `trust.conf` holds on the nodes",
    "as for the helper, whoever submits: it is the node's own file and the node's own "
    "records that count.",
)
@pytest.mark.guarantee(
    "The plug-in for Slurm",
    "What is mounted is seen by the tasks of the step.",
    "Each has a mount namespace of its own, made before Slurm gives up root's rights for "
    "it. Other jobs and daemons of the node see nothing. Nothing is left when the last "
    "task has ended, however it or slurmstepd ended.",
)
@pytest.mark.parametrize("name", _CHOICE)
def test_case(site, name):
    try:
        CASES[name](site)
    finally:
        site.settle()


def test_what_is_left_is_seen(site):
    """Nothing above would be worth anything otherwise."""
    image = f"{site.folder}/one.squashfs"

    def on_node(*words: str) -> str:
        done = site.run("srun", "-N1", "-n1", "-w", "node2", *words, user=None)
        assert done.code == 0, done.err
        return done.out.strip()

    on_node("mount", "-o", "loop", image, "/mnt/one")
    assert any(text.startswith("mount ") for text in site.leftovers())
    on_node("umount", "/mnt/one")
    device = on_node("losetup", "--find", "--show", image)
    assert site.leftovers() == [f"loop device {device.removeprefix('/dev/')} {image}"]
    on_node("losetup", "--detach", device)
    on_node("touch", "/tmp/left")
    with pytest.raises(Wrong, match="left: node2:/tmp/left"):
        site.settle()
    on_node("rm", "/tmp/left")
    site.settle()
