"""Cases of `slurm_matrix.py`: jobs that end badly, or begin twice."""

from __future__ import annotations

import subprocess

from slurm_expect import one
from slurm_site import Site, expect, names, read_seen

KILL_SLURMD = "kill -KILL $(cat /var/spool/slurmd/slurmd.pid)"


def requeued(site: Site) -> None:
    """A job that is put back into the queue sees its image the second time too."""
    hold = site.hold()
    script = f'[ -n "$SLURM_RESTART_COUNT" ] || export HOLD={hold.folder}; srun {site.seen}'
    words = ("--requeue", "--open-mode=append", f"--image={one(site)}")
    job, out = site.batch(script, *words)
    hold.await_tasks(site.nodes)
    site.run("scontrol", "requeue", job, user="alice")
    # A requeued job waits for two minutes by itself.
    site.await_job(job, "PENDING")
    site.run("scontrol", "update", f"JobId={job}", "StartTime=now", user=None)
    site.await_job(job, "COMPLETED")
    found = [(item.names, item.views) for item in read_seen(out.read_text())]
    expect(found == [("one", "one-default")] * 2 * site.nodes, f"{found}: {out.read_text()}")


def cancelled(site: Site) -> None:
    """A cancelled batch job with a step takes its mounts with it."""
    hold = site.hold()
    script = f"HOLD={hold.folder} srun {site.seen}"
    job, out = site.batch(script, f"--image={one(site)}")
    hold.await_tasks(site.nodes)
    expect(1 <= len(site.loops()) <= site.nodes + 1, f"loop devices: {site.loops()}")
    site.run("scancel", job, user="alice")
    site.await_job(job, "CANCELLED")
    seen = read_seen(out.read_text())
    expect((len(seen), names(seen)) == (site.nodes, {"one"}), out.read_text())


def crashing(site: Site) -> None:
    """Tasks that crash, and are killed, take their mounts with them."""
    for signal in ("SEGV", "KILL"):
        # Into a file: srun drops what the tasks of a step have said that it ends by force.
        script = f"{site.seen} >crashing.$SLURM_PROCID; kill -{signal} $$"
        ended = site.srun("-K0", f"--image={one(site)}", "sh", "-c", script)
        expect(ended.code != 0, "it ended well")
        files = sorted((site.folder / "alice").glob("crashing.*"))
        seen = [line for file in files for line in read_seen(file.read_text())]
        expect(len(seen) == site.nodes and names(seen) == {"one"}, f"{seen}")
        for file in files:
            file.unlink()


def srun_killed(site: Site) -> None:
    """A step whose srun is killed with its tasks left behind leaves nothing."""
    count = str(site.nodes)
    words = ("srun", "-N", count, "-n", count, f"--image={one(site)}", site.seen)
    with site.held(*words, tasks=site.nodes) as (_, process):
        victims = site.below(process, "srun")
        expect(victims, "there is no srun")
        subprocess.run(["kill", "-KILL", *victims], check=True)  # noqa: S603, S607 - process numbers found above
        process.wait(timeout=30)
        site.run("scancel", "-u", "alice", user=None)


def slurmd_killed(site: Site) -> None:
    """A job goes on without the slurmd of a node, and nothing is left when it is back."""
    hold = site.hold()
    job, out = site.batch(f"HOLD={hold.folder} srun {site.seen}", f"--image={one(site)}")
    hold.await_tasks(site.nodes)
    node = site.node_names[-1]
    site.run("sh", "-c", KILL_SLURMD, user=None, node=node)
    expect(1 <= len(site.loops()) <= site.nodes + 1, f"loop devices: {site.loops()}")
    site.run("slurmd", user=None, node=node)
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
        subprocess.run(["kill", "-KILL", *victims], check=True)  # noqa: S603, S607 - process numbers found above
        hold.go()
        process.kill()


def node_lost(site: Site) -> None:
    """A node that is gone has left nothing."""
    node = site.node_names[-1]
    count = str(site.nodes)
    words = ("srun", "-N", count, "-n", count, f"--image={one(site)}", site.seen)
    with site.held(*words, tasks=site.nodes):
        site.kill(node)
        expect(len(site.loops()) <= site.nodes - 1, f"loop devices: {site.loops()}")
        site.run("scancel", "-u", "alice", user=None)
    site.settle()
    site.renew()
