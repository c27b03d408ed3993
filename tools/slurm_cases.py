"""The cases of `slurm_matrix.py`: every command that starts jobs, and their table.

Each case uses a cluster and raises `Wrong` where it is not as its first sentence says. That nothing
is left is checked behind each of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

import slurm_endings
import slurm_refusals
import slurm_share
import slurm_trust
from slurm_expect import all_saw, nobody_else, one, refused
from slurm_site import Ended, Site, expect, names, output_of, read_seen

Case = Callable[[Site], None]


def srun(site: Site) -> None:
    """Two tasks a node see the image, through at most one loop device a node; nobody else does."""
    tasks = 2 * site.nodes
    words = ("srun", "-N", str(site.nodes), "--ntasks-per-node=2", f"--image={one(site)}")
    with site.held(*words, site.seen, tasks=tasks) as (hold, process):
        loops = site.loops()
        expect(1 <= len(loops) <= site.nodes, f"loop devices: {loops}")
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


def labels(site: Site) -> None:
    """A label stands for an image; a job keeps the one that it was submitted with."""
    folder = site.folder / "alice" / "repository"
    own = {"STACKPROOF_REPOSITORY": str(folder)}

    def add(name: str, *words: str) -> None:
        ended = site.run(
            site.program, "image", "add", "mpi/1:v1@here%any", one(site, name), *words,
            user="alice", env=own,
        )  # fmt: skip
        expect(ended.code == 0, ended.err)

    try:
        add("one")
        all_saw(site.srun("--image=mpi/1:v1", site.seen, env=own), "one", tasks=site.nodes)
        placed = site.srun("--image=mpi/1:v1:/mnt/one", site.seen, env=own)
        all_saw(placed, "one", tasks=site.nodes)
        refused(site.srun("--image=mpj", site.seen, env=own), "did you mean `mpi`?")
        job, out = site.batch(site.seen, "--hold", "--image=mpi/1", env=own)
        add("two", "--force")
        site.run("scontrol", "release", job, user="alice")
        site.await_job(job, "COMPLETED")
        expect(names(read_seen(out.read_text())) == {"one"}, out.read_text())
        all_saw(site.srun("--image=mpi/1", site.seen, env=own), "two", tasks=site.nodes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sbatch_directive(site: Site) -> None:
    """A `#SBATCH --image` in the script counts, and the command line overrules it."""
    script = f"#SBATCH --image={one(site)}\n{site.seen}"
    for words, wanted in (((), "one"), ((f"--image={one(site, 'two')}",), "two")):
        job, out = site.batch(script, *words)
        site.await_job(job, "COMPLETED")
        expect(names(read_seen(out.read_text())) == {wanted}, out.read_text())


def export_none(site: Site) -> None:
    """Images reach jobs and steps that take no variables along; those of their views do not."""
    for option, step in (("--export=NONE", ""), ("--export=ALL", "srun --export=NONE ")):
        job, out = site.batch(f"{step}{site.seen}", "-N1", f"--image={one(site)}", option)
        site.await_job(job, "COMPLETED")
        found = [(item.names, item.views) for item in read_seen(out.read_text())]
        expect(found == [("one", "")], f"{option} {step}: {found}")


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


def start_session(site: Site) -> None:
    """So is what a shell of `stackproof start` has mounted; outside of it nothing is left of it."""
    steps = f"srun -N{site.nodes} -n{site.nodes}"
    lines = (
        f"{steps} {site.seen}",
        f"{steps} --image={one(site, 'two')} {site.seen}",
        f"salloc -N1 sh -c '{site.seen}; srun {site.seen}'",
    )
    change = "setpriv --reuid=alice --regid=alice --init-groups --"
    text = "".join(f"{change} {line}\n" for line in lines)
    start = (site.program, "start", one(site))
    ended = site.run(*start, user=None, text=text, env={"SHELL": "/bin/sh"})
    expect(ended.code == 0, f"it ended with {ended.code}: {ended.err}")
    found = sorted((item.names, item.views) for item in ended.seen)
    wanted = [("one", "one-default")] * (site.nodes + 2) + [("two", "two-default")] * site.nodes
    expect(found == wanted, f"{found}")
    all_saw(site.srun(site.seen), "-", tasks=site.nodes, views="")


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
    quick = ("--benchmarks", "allreduce", "--sizes", "8", "--samples", "2")
    count = ("--expect-ranks", str(site.nodes))
    words = ("--mpi=pmi2", f"--image={image}", "--transport=tcp", program, *quick, *count)
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
        expect(2 <= len(loops) <= 2 * site.nodes, f"loop devices: {loops}")
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


def overlap(site: Site) -> None:
    """Steps that share nodes have each their own image, and one from another shell has none."""
    hold = site.hold()
    step = f"srun --overlap -N{site.nodes} -n{site.nodes}"
    script = (
        f"export HOLD={hold.folder}; {step} {site.seen} & "
        f"{step} --image={one(site, 'two')} {site.seen} & wait"
    )
    job, out = site.batch(script, f"--image={one(site)}")
    hold.await_tasks(2 * site.nodes)
    expect(2 <= len(site.loops()) <= 2 * site.nodes + 1, f"loop devices: {site.loops()}")
    nobody_else(site)
    into = ("--jobid", job, "--overlap")
    all_saw(site.srun(*into, site.seen), "-", tasks=site.nodes, views="")
    other = site.srun(*into, f"--image={one(site, 'two')}", site.seen)
    all_saw(other, "two", tasks=site.nodes, views="two-default")
    hold.go()
    site.await_job(job, "COMPLETED")
    found = sorted((item.names, item.views) for item in read_seen(out.read_text()))
    wanted = [(name, f"{name}-default") for name in ("one", "two") for _ in site.node_names]
    expect(found == wanted, f"{found}: {out.read_text()}")


def many_steps(site: Site) -> None:
    """Twelve steps that begin at once, each with an image of its own, do not disturb each other."""
    images = ("one", "two") * 6
    lines = [
        f"srun --overlap -N1 -n1 -r{number % site.nodes} --image={one(site, name)} {site.seen} &"
        for number, name in enumerate(images)
    ]
    job, out = site.batch("\n".join([*lines, "wait"]))
    site.await_job(job, "COMPLETED")
    found = sorted(item.names for item in read_seen(out.read_text()))
    expect(found == sorted(images), f"{found}: {out.read_text()}")


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


CASES: dict[str, Case] = {
    function.__name__.replace("_", " "): function
    for function in (
        srun, sbatch, labels, slurm_trust.signed_images, slurm_share.shared_images,
        sbatch_directive, export_none, salloc, salloc_mpirun, mpi_srun,
        login_session, start_session, two_images, two_users, overlap, many_steps, array, het_job,
        slurm_endings.requeued, slurm_endings.cancelled, slurm_endings.crashing,
        slurm_endings.srun_killed, slurm_endings.slurmd_killed, slurm_endings.slurmstepd_killed,
        slurm_endings.node_lost, slurm_refusals.variables, slurm_refusals.bad_syntax,
        slurm_refusals.bad_image, slurm_refusals.not_on_the_node,
        slurm_refusals.mount_point_missing, slurm_refusals.private_image,
        slurm_refusals.unchecked_lists,
    )
}  # fmt: skip
