"""The cases of `slurm_matrix.py`.

Each uses a cluster and raises `Wrong` where it is not as its first sentence says. That nothing is
left is checked behind each of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from slurm_site import Ended, Site, expect, names, output_of, read_seen

Case = Callable[[Site], None]


def all_saw(ended: Ended, image: str, *, tasks: int, views: str | None = None) -> None:
    """Expect that a command ended well and that all of its tasks saw the same."""
    expect(ended.code == 0, f"it ended with {ended.code}: {ended.err.strip()}")
    seen = ended.seen
    expect(len(seen) == tasks, f"{len(seen)} of {tasks} tasks: {ended.out} {ended.err}")
    expect(names(seen) == {image}, f"the tasks saw {names(seen)}")
    if views is not None:
        expect({item.views for item in seen} == {views}, f"views: {seen}")


def refused(ended: Ended, *words: str) -> None:
    """Expect that nothing ran, and that the user was told what, with these words."""
    expect(ended.code != 0, "it was accepted")
    expect(not ended.seen, f"a task ran: {ended.out}")
    for word in words:
        expect(word in ended.err, f"`{word}` was not said: {ended.err.strip()}")


COMMANDS = ("srun", "sbatch", "salloc")


def at_submission(site: Site, *words: str, said: str, commands: Sequence[str] = COMMANDS) -> None:
    """Expect that commands refuse options before anything is queued."""
    script = site.folder / "empty.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    before = site.run("squeue", "-h", "-t", "all", user=None).out.count("\n")
    for command in commands:
        last = str(script) if command == "sbatch" else site.seen
        refused(site.run(command, "-N1", *words, last, user="alice"), said)
    after = site.run("squeue", "-h", "-t", "all", user=None).out.count("\n")
    expect(before == after, f"{commands} queued a job")


def nobody_else(site: Site) -> None:
    """Expect that neither root of any node, nor the head, nor another user's job sees an image."""
    for node in (None, *site.node_names):
        found = site.run(site.seen, user=None, node=node).seen
        expect(names(found) == {"-"}, f"{node or 'the head'} sees {found}")
    for pid in (line.split()[0] for line in site.mounts()):
        try:
            uid = os.stat(f"/proc/{pid}").st_uid
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        expect(uid != 0, f"the mount is seen by process {pid} ({name}) of root")


def one(site: Site, name: str = "one") -> str:
    """Return the path of an image of all."""
    return str(site.folder / f"{name}.squashfs")


# --------------------------------------------------------------------------------------- commands


def srun(site: Site) -> None:
    """Two tasks a node see the image, through one loop device a node; nobody else does."""
    tasks = 2 * site.nodes
    words = ("srun", "-N", str(site.nodes), "--ntasks-per-node=2", f"--image={one(site)}")
    with site.held(*words, site.seen, tasks=tasks) as (hold, process):
        loops = site.loops()
        expect(len(loops) == site.nodes, f"loop devices: {loops}")
        nobody_else(site)
        all_saw(site.srun(site.seen, user="bob"), "-", tasks=site.nodes)
        hold.go()
        all_saw(output_of(process), "one", tasks=tasks, views="one-default")


def sbatch(site: Site) -> None:
    """The script and the steps in it see the image; a step may take another one, or none."""
    steps = (
        site.seen,
        f"srun {site.seen}",
        f"cd / && srun {site.seen}",
        f"srun -n1 -N1 --image={one(site, 'two')} {site.seen}",
        f"srun -n1 -N1 --image=none {site.seen}",
        f"srun -n1 -N1 --view=other {site.seen}",
        f"SRUN_STACKPROOF_IMAGE={one(site, 'two')} srun -n1 -N1 {site.seen}",
    )
    job, out = site.batch("\n".join(steps), f"--image={one(site)}")
    site.await_job(job, "COMPLETED")
    found = [(item.names, item.views) for item in read_seen(out.read_text())]
    wanted = [("one", "one-default")] * (1 + 2 * site.nodes)
    wanted += [("two", "two-default")] * 2 + [("-", ""), ("one", "one-other")]
    expect(sorted(found) == sorted(wanted), f"{found}: {out.read_text()}")


def sbatch_directive(site: Site) -> None:
    """A `#SBATCH --image` in the script counts, and the command line overrules it."""
    script = f"#SBATCH --image={one(site)}\n{site.seen}"
    for words, wanted in (((), "one"), ((f"--image={one(site, 'two')}",), "two")):
        job, out = site.batch(script, *words)
        site.await_job(job, "COMPLETED")
        expect(names(read_seen(out.read_text())) == {wanted}, out.read_text())


def export_none(site: Site) -> None:
    """Images reach a job that takes no variables along; those of their views do not."""
    job, out = site.batch(site.seen, f"--image={one(site)}", "--export=NONE")
    site.await_job(job, "COMPLETED")
    found = [(item.names, item.views) for item in read_seen(out.read_text())]
    expect(found == [("one", "")], f"{found}")


def salloc(site: Site) -> None:
    """The shell of salloc sees nothing; the steps that it starts see the image and its views."""
    script = f"{site.seen}; srun -N{site.nodes} -n{site.nodes} {site.seen}"
    words = ("salloc", "-N", str(site.nodes), f"--image={one(site)}", "--view=other")
    found = site.run(*words, "sh", "-c", script, user="alice")
    expect(found.code == 0, found.err)
    steps = [(item.names, item.views) for item in found.seen if item.host != "head"]
    shell = [(item.names, item.views) for item in found.seen if item.host == "head"]
    expect(steps == [("one", "one-other")] * site.nodes, f"{found.seen}")
    expect(shell == [("-", "")], f"the shell: {shell}")


def session(site: Site, *words: str) -> Ended:
    """Run a command of alice in a session that has image `one` mounted."""
    change = ("setpriv", "--reuid=alice", "--regid=alice", "--init-groups", "--")
    return site.run(site.program, "run", one(site), "--", *change, *words, user=None)


def login_session(site: Site) -> None:
    """What a session has mounted is carried into its jobs; an option overrules it."""
    count = str(site.nodes)
    start = ("srun", "-N", count, "-n", count)
    all_saw(session(site, *start, site.seen), "one", tasks=site.nodes, views="one-default")
    other = session(site, *start, f"--image={one(site, 'two')}", site.seen)
    all_saw(other, "two", tasks=site.nodes, views="two-default")
    all_saw(session(site, *start, "--image=none", site.seen), "-", tasks=site.nodes, views="")
    view = session(site, *start, "--view=other", site.seen)
    all_saw(view, "one", tasks=site.nodes, views="one-other")


def salloc_mpirun(site: Site) -> None:
    """The mpirun of an image, in a session and an allocation, starts ranks that see the image."""
    image = site.folder / "mpi.squashfs"
    expect(image.exists(), "there is no MPI image (--mpi-image)")
    change = ("setpriv", "--reuid=alice", "--regid=alice", "--init-groups", "--")
    count = str(site.nodes)
    words = ("salloc", "-N", count, "-n", count, "mpirun", "-n", count, site.seen)
    ended = site.run(site.program, "run", str(image), "--", *change, *words, user=None)
    all_saw(ended, "mpi", tasks=site.nodes)
    expect(len({item.host for item in ended.seen}) == site.nodes, f"{ended.seen}")
    expect([item.rank for item in ended.seen] == list(range(site.nodes)), f"{ended.seen}")


def mpi_srun(site: Site) -> None:
    """A program of the image's MPI, started by srun, finds all of its ranks."""
    image = site.folder / "mpi.squashfs"
    expect(image.exists(), "there is no MPI image (--mpi-image)")
    program = "/mnt/mpi/benchmarks/stackproof-bench"
    words = ("--mpi=pmi2", f"--image={image}", "--transport=tcp", program, "--list")
    ended = site.srun(*words)
    expect(ended.code == 0, f"{ended.code}: {ended.out[-300:]} {ended.err[-300:]}")


def two_images(site: Site) -> None:
    """Two images of one job, at two mount points."""
    words = (f"--image={one(site)},{one(site, 'two')}", "--view=one:other,two:default")
    all_saw(site.srun(*words, site.seen), "one+two", tasks=site.nodes, views="one-othertwo-default")


def two_users(site: Site) -> None:
    """Two users with two images on the same nodes at the same time see their own one."""
    count = str(site.nodes)
    start = ("srun", "-N", count, "-n", count)
    with (
        site.held(*start, f"--image={one(site)}", site.seen, tasks=site.nodes) as (_, first),
        site.held(
            *start, f"--image={one(site, 'two')}", site.seen, tasks=site.nodes, user="bob"
        ) as (hold, second),
    ):
        loops = site.loops()
        expect(len(loops) == 2 * site.nodes, f"loop devices: {loops}")
        nobody_else(site)
        hold.go()
        all_saw(output_of(second), "two", tasks=site.nodes, views="two-default")
        expect(first.poll() is None, "the other job ended with it")
        # Written before it began to wait; read when it has ended.
        _let_go(site)
        all_saw(output_of(first), "one", tasks=site.nodes, views="one-default")


def _let_go(site: Site) -> None:
    for folder in site.folder.glob("hold-*"):
        (folder / "go").touch()


def array(site: Site) -> None:
    """Each element of a job array has the image."""
    job, out = site.batch(site.seen, f"--image={one(site)}", "--array=1-3", "-N1", "-o", "array-%a")
    site.await_job(job, "COMPLETED")
    texts = [(out.parent / f"array-{number}").read_text() for number in (1, 2, 3)]
    expect(names(read_seen("".join(texts))) == {"one"}, f"{texts}")
    expect(len(read_seen("".join(texts))) == 3, f"{texts}")


def het_job(site: Site) -> None:
    """All components of a heterogeneous job see the image; two different lists are refused."""
    part = ("-N1", "-n1")
    ended = site.run(
        "srun", *part, f"--image={one(site)}", site.seen, ":", *part, site.seen, user="alice"
    )
    all_saw(ended, "one", tasks=2, views="one-default")
    both = site.run(
        "srun", *part, f"--image={one(site)}", site.seen,
        ":", *part, f"--image={one(site, 'two')}", site.seen, user="alice",
    )  # fmt: skip
    refused(both, "components")


# ----------------------------------------------------------------------------- jobs that end badly


def cancelled(site: Site) -> None:
    """A cancelled batch job with a step takes its mounts with it."""
    hold = site.hold()
    script = f"HOLD={hold.folder} srun {site.seen}"
    job, _ = site.batch(script, f"--image={one(site)}")
    hold.await_tasks(site.nodes)
    expect(len(site.loops()) == site.nodes + 1, f"loop devices: {site.loops()}")
    site.run("scancel", job, user="alice")
    site.await_job(job, "CANCELLED")


def crashing(site: Site) -> None:
    """Tasks that crash, and are killed, take their mounts with them."""
    for signal in ("SEGV", "KILL"):
        script = f"{site.seen}; kill -{signal} $$"
        ended = site.srun(f"--image={one(site)}", "sh", "-c", script)
        expect(ended.code != 0, "it ended well")
        expect(names(ended.seen) == {"one"}, f"{ended.seen}")


def slurmd_killed(site: Site) -> None:
    """A job goes on without the slurmd of a node, and nothing is left when it is back."""
    hold = site.hold()
    job, out = site.batch(f"HOLD={hold.folder} srun {site.seen}", f"--image={one(site)}")
    hold.await_tasks(site.nodes)
    node = site.node_names[-1]
    site.slurmd("kill", node)
    expect(len(site.loops()) == site.nodes + 1, f"loop devices: {site.loops()}")
    site.slurmd("restart", node)
    hold.go()
    site.await_job(job, "COMPLETED")
    seen = read_seen(out.read_text())
    expect((len(seen), names(seen)) == (site.nodes, {"one"}), out.read_text())


def slurmstepd_killed(site: Site) -> None:
    """A step whose slurmstepd is killed leaves no mount and no loop device."""
    count = str(site.nodes)
    words = ("srun", "-N", count, "-n", count, f"--image={one(site)}", site.seen)
    with site.held(*words, tasks=site.nodes) as (hold, process):
        # By number, from outside: only those of this cluster.
        victims = [text.split()[0] for text in site.processes() if text.endswith(" slurmstepd")]
        expect(len(victims) >= site.nodes, f"{victims}")
        subprocess.run(["kill", "-KILL", *victims], check=True)
        hold.go()
        process.kill()


def node_rebooted(site: Site) -> None:
    """A node that is gone has left nothing, and a job after its start sees its image there."""
    node = site.node_names[-1]
    count = str(site.nodes)
    words = ("srun", "-N", count, "-n", count, f"--image={one(site)}", site.seen)
    with site.held(*words, tasks=site.nodes):
        site.reboot(node)
        expect(len(site.loops()) <= site.nodes - 1, f"loop devices: {site.loops()}")
        site.run("scancel", "-u", "alice", user=None)
    site.settle()
    all_saw(site.srun(f"--image={one(site)}", site.seen), "one", tasks=site.nodes)


# --------------------------------------------------------------------------- options and variables


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


CASES: dict[str, Case] = {
    function.__name__.replace("_", " "): function
    for function in (
        srun, sbatch, sbatch_directive, export_none, salloc, salloc_mpirun, mpi_srun,
        login_session, two_images, two_users, array, het_job, cancelled, crashing, slurmd_killed,
        slurmstepd_killed, node_rebooted, variables, bad_syntax, bad_image, not_on_the_node,
        mount_point_missing, private_image, unchecked_lists,
    )
}  # fmt: skip
