"""What the cases of `slurm_matrix.py` expect of tasks, of refusals, and of everybody else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from slurm_site import Ended, Site, expect, names


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
