"""Plan to image: runs any plan, step by step, and continues where an earlier run stopped.

Where that happens, and what a command sees of the machine, is in `build/effects/workspace.py`. One
build of a plan runs at a time; a second one waits and then finds everything done.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import field

from stackproof.build import pip_answers
from stackproof.build.effects import inside, workspace
from stackproof.build.effects.pip import index_command, with_python
from stackproof.build.effects.workspace import BuildSetup, Installing, Workspace
from stackproof.build.plan import IMAGE_FILE, Plan, Step
from stackproof.build.stack import Artefact
from stackproof.core import noun
from stackproof.core.command import Command, Completed
from stackproof.core.effects import cache_folder, cache_kinds, downloads, files
from stackproof.core.effects.run import Runner, check, failure, run
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value, replace

FINISHED = "finished"
"""The file in a build folder that lists the ids of the steps its image is made of."""
IMAGE_LIST = "images"
"""The file in a build folder that lists the digests of the images it made."""
LAST_COMMAND = "last-command.json"
"""The file in a build folder that holds the command that ran last, with its sandbox."""


class Built(Value):
    """A finished build: the image in the cache, its digest, and how many steps had to run."""

    path: Path
    sha256: str
    size: int
    ran: int
    plan_id: str

    @property
    def home(self) -> Path:
        """Return the build folder."""
        return self.path.parent.parent


class _Work(Value):
    """A plan that is being run."""

    plan: Plan
    monitor: Monitor
    setup: BuildSetup
    space: Workspace
    trees: dict[str, Path] = field(default_factory=dict)


def execute(plan: Plan, monitor: Monitor, *, setup: BuildSetup | None = None) -> Built:
    """Run the steps of a plan that are not done yet and return the image.

    Raises `StackproofError`: BUILD_FAILED with log and replay script, DIGEST_MISMATCH, DISK_FULL,
    TOOL_MISSING, NO_NETWORK. Nothing half-written is taken for finished: a step counts once its
    mark is there, and its outputs are removed before it runs again, unless it resumes.
    """
    with _working(plan, monitor, setup or BuildSetup()) as work:
        image = work.space.out / IMAGE_FILE
        ran = _finish(work, image)
        if not inside.is_file(image, work.space.out):
            raise fail(Reason.BUILD_FAILED, f"`{image}` is no file", hint="remove it, build again")
        digest = files.sha256(image)
        listed = _listed(work.space.home / IMAGE_LIST)
        if digest not in listed:
            files.write(work.space.home / IMAGE_LIST, "\n".join((*listed, digest)) + "\n")
        return Built(
            path=image,
            sha256=digest,
            size=image.stat().st_size,
            ran=ran,
            plan_id=plan.id,
        )


def perform(
    plan: Plan,
    monitor: Monitor,
    *,
    setup: BuildSetup | None = None,
    read: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """Run a plan that makes no image, always from its start, and return files below `BUILD`.

    Files of `read` that were not made are left out. Raises what `execute` raises.
    """
    with _working(plan, monitor, setup or BuildSetup()) as work:
        _clear(work.space)
        _run_steps(work)
        build = work.space.build
        made = [path for path in read if inside.is_file(build / path, build)]
        found = {path: (build / path).read_bytes() for path in made}
        _clear(work.space)
        files.remove(work.space.home / LAST_COMMAND)
        return found


def _clear(space: Workspace) -> None:
    for part in (space.store, space.build, space.tree / "done"):
        files.remove(part)


@contextmanager
def _working(plan: Plan, monitor: Monitor, setup: BuildSetup) -> Iterator[_Work]:
    home = workspace.home(plan)
    cache_kinds.in_use()
    with setup.explained(plan), workspace.exclusive(home, monitor):
        space = workspace.workspace(plan, setup)
        try:
            yield _Work(plan=plan, monitor=monitor, setup=setup, space=space)
        except StackproofError as error:
            if error.reason is not Reason.DISK_FULL:
                raise
            full = _explain_full(error, space, movable=setup.movable)
            if space.in_memory:
                files.remove(space.tree)
            raise full from error


def _explain_full(error: StackproofError, space: Workspace, *, movable: bool) -> StackproofError:
    """Return what a build that ran out of space tells its user: where, and what to do."""
    free = workspace.free_bytes(space.tree) / 1e9
    place = "memory (`/dev/shm`)" if space.in_memory else f"`{space.tree}`"
    other = (
        "name a folder on a larger file system with --build-dir"
        if movable
        else "set STACKPROOF_CACHE to a folder on a larger file system"
    )
    advice = (
        "build on disk with --in-memory=no, or give /dev/shm more space; packages that were "
        "finished come from the package cache"
        if space.in_memory
        else f"free space, after which the build continues where it stopped, or {other}"
    )
    return fail(
        Reason.DISK_FULL,
        f"no space left for the build in {place}: {free:.1f} GB are free",
        detail=_said_full(error.problems[0].detail),
        hint=advice,
    )


def _said_full(detail: str | None) -> str | None:
    """Return the line of a program's output that says it, as a rest of its trace says nothing."""
    lines = (detail or "").splitlines()
    said = [line for line in lines if "No space left" in line or "Disk quota" in line]
    return said[-1].strip() if said else detail


def _finish(work: _Work, image: Path) -> int:
    """Run what is missing for the image; return how many steps that were."""
    finished = work.space.home / FINISHED
    wanted = [step.id for step in work.plan.steps]
    if image.exists() and set(wanted) <= set(_listed(finished)):
        for number, step in enumerate(work.plan.steps, 1):
            work.monitor(_event("skipped", step, number, work.plan))
        return 0
    files.remove(finished)
    if not image.exists():
        files.remove(work.space.mark(_image_step(work.plan)))
    ran = _run_steps(work)
    files.write(finished, "\n".join(wanted) + "\n")
    if work.space.in_memory:
        files.remove(work.space.tree)  # memory is wanted elsewhere, and the image is there
    return ran


def is_finished(plan: Plan) -> bool:
    """Return whether the image of a plan is there already, so that nothing of it has to be run."""
    folder = workspace.home(plan)
    image = folder / "out" / IMAGE_FILE
    return image.exists() and {step.id for step in plan.steps} <= set(_listed(folder / FINISHED))


def _listed(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return []


def _image_step(plan: Plan) -> Step:
    return next((step for step in plan.steps if step.name == "image"), plan.steps[-1])


def _run_steps(work: _Work) -> int:
    ran = 0
    _clone(work)
    for number, step in enumerate(work.plan.steps, 1):
        mark = work.space.mark(step)
        if mark.exists():
            work.monitor(_event("skipped", step, number, work.plan))
            continue
        if _restored(step, work):
            work.monitor(_event("skipped", step, number, work.plan))
            files.write(mark, "")
            continue
        work.monitor(_event("started", step, number, work.plan))
        started = time.monotonic()
        _run_step(step, work)
        if work.setup.indices:
            work.setup.indices.keep(work.space.build)
        if work.setup.kept:
            from stackproof.build.effects import step_cache  # noqa: PLC0415 - only source builds keep results

            step_cache.keep(step, work.space, work.setup.kept)
        files.write(mark, "")
        ran += 1
        seconds = time.monotonic() - started
        work.monitor(replace(_event("done", step, number, work.plan), seconds=seconds))
    return ran


def _restored(step: Step, work: _Work) -> bool:
    """Put a step's kept result into the store; return whether there was one."""
    if not work.setup.kept:
        return False
    from stackproof.build.effects import step_cache  # noqa: PLC0415 - only source builds keep results

    return step_cache.restore(step, work.space, work.setup.kept)


def deliver(built: Built, target: Path) -> bool:
    """Copy the image to `target` in one piece; return False when it was there already.

    Raises `StackproofError` (DISK_FULL, NOT_PERMITTED); the old file stays as it was then.
    """
    if _is_there(built, target):
        return False
    files.copy(built.path, target)
    return True


def _is_there(built: Built, target: Path) -> bool:
    return (
        target.is_file()
        and target.stat().st_size == built.size
        and files.sha256(target) == built.sha256
    )


def _event(what: str, step: Step, number: int, plan: Plan) -> Event:
    return Event(
        what=what, name=step.name, text=step.description, done=number, total=len(plan.steps)
    )


def _clone(work: _Work) -> None:
    """Have the trees of all repositories of the plan: every step of it sees them."""
    for step in work.plan.steps:
        for clone in step.clones:
            if clone.folder not in work.trees:
                from stackproof.build.effects import git  # noqa: PLC0415 - few plans have clones

                work.trees[clone.folder] = git.tree(
                    clone.url, clone.commit, work.monitor, prepare=work.setup.prepare
                )


def _run_step(step: Step, work: _Work) -> None:
    for artefact in step.fetch:
        if work.setup.fetch_command is None:
            raise TypeError(f"nothing is said to download {artefact.filename}")
        fetch(artefact, work.setup.fetch_command, work.monitor)
    workspace.prepare(step, work.space, work.setup)
    box = workspace.sandbox(step, work.plan, work.space, work.setup, work.trees)
    given = workspace.environment(step, work.setup)
    for number, command in enumerate(step.commands, 1):
        env = given.then(work.setup.environment).then(command.env)
        ready = with_python(replace(command, sandbox=box, env=env))
        log = work.space.logs / f"{step.name}-{number}.log"
        _run_command(step, ready, log, work)


def _run_command(step: Step, command: Command, log: Path, work: _Work) -> None:
    """Run one command of a step; what it was is kept for `stackproof shell`."""
    kept = work.space.home / LAST_COMMAND
    files.write(kept, noun.to_json(command))
    if not (step.reports and work.setup.install):
        check(command, log=log)
        return
    mount = work.plan.mount
    installing = Installing(step=step, command=command, log=log, space=work.space, mount=mount)
    work.setup.install(installing, work.monitor)


def fetch(
    artefact: Artefact,
    fetch_command: Callable[[Artefact, str], Command],
    monitor: Monitor,
    *,
    runner: Runner = run,
) -> Path:
    """Return a locked file in the cache, downloaded if need be; its digest is always checked.

    Raises `StackproofError` (DIGEST_MISMATCH) for a file that is not the locked one: it is
    removed, and nothing is built from it. NO_NETWORK when it cannot be had.
    """
    target = workspace.download_path(artefact.sha256, artefact.filename)
    if target.exists():
        if files.sha256(target) == artefact.sha256:
            cache_folder.used(target.parent)
            return target
        files.remove(target)  # torn or tampered with: the download below brings it again
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=target.parent))
    except OSError as error:
        raise files.translate(error, target) from error
    try:
        with downloads.downloading(artefact.filename, monitor) as download:
            command = index_command(fetch_command(artefact, str(folder)))
            done = downloads.run_watched(command, folder, runner, download.at)
            if done.returncode != 0:
                raise _fetch_failure(command, artefact, done)
            got = next((path for path in folder.iterdir() if path.name == artefact.filename), None)
            if got is None:
                raise _other_file(artefact, [path.name for path in folder.iterdir()])
            digest = files.sha256(got)
            if digest != artefact.sha256:
                raise _wrong_digest(artefact, digest)
            download.at(got.stat().st_size)
        os.replace(got, target)
    finally:
        files.remove(folder)
    return target


def _fetch_failure(command: Command, artefact: Artefact, done: Completed) -> StackproofError:
    text = done.stderr.decode(errors="replace")
    if "Retrying (Retry(" in text or "Failed to establish" in text:
        return fail(
            Reason.NO_NETWORK,
            f"`{artefact.filename}` cannot be downloaded: the package index does not answer",
            hint="connect to a network or set pip's index; downloads done so far are kept",
        )
    if "DO NOT MATCH THE HASHES" in text:
        found = [line.split()[-1] for line in text.splitlines() if line.strip().startswith("Got ")]
        return _wrong_digest(artefact, found[-1] if found else "another")
    if "No matching distribution found" in text:
        return fail(
            Reason.NO_NETWORK,
            f"`{artefact.filename}` cannot be downloaded: pip finds none where it looks",
            detail=text.strip(),
            hint=pip_answers.nowhere(text)
            or "set pip's index, or PIP_FIND_LINKS to a folder that has it",
        )
    return failure(command, done, log=None)


def _wrong_digest(artefact: Artefact, digest: str) -> StackproofError:
    return StackproofError(
        Problem(
            reason=Reason.DIGEST_MISMATCH,
            message=f"`{artefact.filename}` is not the file that was locked",
            detail=f"locked     sha256 {artefact.sha256}\ndownloaded sha256 {digest}",
            hint="the index serves another file under this name: find out why before you "
            "make a new lock with `stackproof build --update`",
            where=Location(file=artefact.filename),
        )
    )


def _other_file(artefact: Artefact, names: list[str]) -> StackproofError:
    return fail(
        Reason.DIGEST_MISMATCH,
        f"the index no longer serves `{artefact.filename}`, it serves {', '.join(names) or 'none'}",
        hint="make a new lock with `stackproof build --update`",
    )
