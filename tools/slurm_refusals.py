"""Cases of `slurm_matrix.py`: options and variables, what is refused, and hostile users."""

from __future__ import annotations

import os
import shutil

from slurm_expect import all_saw, at_submission, one, refused
from slurm_site import Ended, Site, expect, names, read_seen


def variables(site: Site) -> None:
    """Variables stand for the options of each command; options overrule them."""
    env = {"SRUN_STACKPROOF_IMAGE": one(site), "SRUN_STACKPROOF_VIEW": "other"}
    all_saw(site.srun(site.seen, env=env), "one", tasks=site.nodes, views="one-other")
    other = site.srun(f"--image={one(site, 'two')}", site.seen, env=env)
    all_saw(other, "two", tasks=site.nodes, views="two-default")
    all_saw(site.srun("--image=none", site.seen, env=env), "-", tasks=site.nodes, views="")
    env = {"SALLOC_STACKPROOF_IMAGE": one(site)}
    found = site.run("salloc", "-N1", "srun", site.seen, user="alice", env=env)
    all_saw(found, "one", tasks=1, views="one-default")
    script = site.folder / "job.sh"
    script.write_text(f"#!/bin/sh\n{site.seen}\n")
    env = {"SBATCH_STACKPROOF_IMAGE": one(site), "SRUN_STACKPROOF_IMAGE": one(site, "two")}
    done = site.run("sbatch", "--parsable", "-o", "vars", str(script), user="alice", env=env)
    site.await_job(done.out.strip(), "COMPLETED")
    out = (site.folder / "alice" / "vars").read_text()
    expect(names(read_seen(out)) == {"one"}, out)
    bad = site.srun(site.seen, env={"SRUN_STACKPROOF_IMAGE": "a,,b"})
    refused(bad, "SRUN_STACKPROOF_IMAGE")


def bad_syntax(site: Site) -> None:
    """What is no list of images is refused at submission."""
    at_submission(site, "--image=a.squashfs,,b", said="an entry is empty")
    batch = ("sbatch",)
    at_submission(site, "--image=a.squashfs:/usr", said="system path", commands=batch)
    at_submission(site, f"--image={one(site)}", "--view=", said="--view", commands=batch)
    at_submission(site, "--view=default", said="there is no image", commands=batch)


def bad_image(site: Site) -> None:
    """An image that cannot be, and a view that is not in it, are refused at submission."""
    text = site.folder / "text.squashfs"
    text.write_text("no image\n" * 100)
    cut = site.folder / "cut.squashfs"
    shutil.copy(one(site), cut)
    os.truncate(cut, 300)
    at_submission(site, "--image=/nonesuch.squashfs", said="there is no image")
    batch = ("sbatch",)
    at_submission(site, f"--image={text}", said="not a usable SquashFS image", commands=batch)
    at_submission(site, f"--image={cut}", said="cut off", commands=batch)
    image = f"--image={one(site)}"
    at_submission(site, image, "--view=nonesuch", said="nonesuch", commands=batch)
    at_submission(site, image, "--transport=pigeon", said="pigeon", commands=batch)


def not_on_the_node(site: Site) -> None:
    """A file that only the login node has fails each task, with a message; no node is lost."""
    own = "/tmp/own.squashfs"  # noqa: S108 - each node, and the head, has a /tmp of its own
    site.run("cp", one(site), own, user=None)
    try:
        refused(site.srun(f"--image={own}", site.seen), own, "shared file system")
        job, out = site.batch(site.seen, f"--image={own}")
        site.await_job(job, "FAILED")
        expect(own in out.read_text(), f"the output of the job: {out.read_text()}")
        away = ("--image=/nonesuch:/mnt/one", "--view=none", site.seen)
        refused(site.srun(*away), "is not on this machine", "shared file system")
    finally:
        site.run("rm", own, user=None)


def mount_point_missing(site: Site) -> None:
    """A mount point that is not permitted, or not there, fails each task with a message."""
    refused(site.srun(f"--image={one(site)}:/srv/x", site.seen), "not a mount point of this")
    words = (f"--image={one(site)}:/mnt/one/inside", site.seen)
    refused(site.srun(*words), "/mnt/one/inside")


# ----------------------------------------------------------------------------------- hostile users


def _raw(site: Site, mounts: str, *, user: str = "bob") -> Ended:
    """Send a mount list to the nodes as a user whose srun has no plug-in to check it."""
    folder = site.folder / "bare"
    if not folder.exists():
        folder.mkdir()
        text = site.run("cat", "/etc/slurm/slurm.conf", user=None).out
        lines = [line for line in text.splitlines() if not line.startswith("PlugStackConfig")]
        (folder / "empty.conf").write_text("")
        (folder / "slurm.conf").write_text(
            "\n".join([*lines, f"PlugStackConfig={folder}/empty.conf", ""])
        )
    count = str(site.nodes)
    return site.run(
        "env", f"SLURM_CONF={folder}/slurm.conf", f"SLURM_STACKPROOF_MOUNTS={mounts}",
        "srun", "-N", count, "-n", count, site.seen, user=user,
    )  # fmt: skip


def private_image(site: Site) -> None:
    """Another user's private image is refused, on the login node and on the node itself."""
    private = site.folder / "alice" / "private.squashfs"
    shutil.copy(one(site), private)
    os.chown(private, os.stat(private.parent).st_uid, os.stat(private.parent).st_gid)
    private.chmod(0o600)
    all_saw(site.srun(f"--image={private}:/mnt/one", site.seen), "one", tasks=site.nodes)
    words = (f"--image={private}:/mnt/one", "--view=none", site.seen)
    refused(site.srun(*words, user="bob"), "Permission denied")
    refused(_raw(site, f"{private}:/mnt/one"), "Permission denied")
    # Only root may read it, and root's group: neither counts.
    os.chown(private, 0, 0)
    private.chmod(0o640)
    refused(_raw(site, f"{private}:/mnt/one"), "Permission denied")


def unchecked_lists(site: Site) -> None:
    """What no plug-in has checked at submission is checked on the node."""
    image = one(site)
    all_saw(_raw(site, f"{image}:/mnt/one"), "one", tasks=site.nodes)
    for mounts, said in (
        (f"{image}:/etc", "system path"),
        (f"{image}:/", "system path"),
        (f"{image}:/mnt/one/../../etc", "part"),
        (f"{image}:/home/bob", "not a mount point of this site"),
        (f"{image}", "mount point"),
        ("one.squashfs:/mnt/one", "not an absolute path"),
        (f"{image}:/mnt/one,{image}:/mnt/one", "/mnt/one"),
        (f"{site.folder}/seen.sh:/mnt/one", "not a usable SquashFS image"),
        ("/dev/zero:/mnt/one", "not a regular file"),
        (",".join([f"{image}:/mnt/one/{number}" for number in range(1000)]), ""),
        ("x" * 130_000, ""),
        ("\x01\x02:/mnt/one", ""),
    ):
        ended = _raw(site, mounts)
        refused(ended, "stackproof", said)
