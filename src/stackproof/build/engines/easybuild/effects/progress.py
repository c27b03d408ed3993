"""A running EasyBuild: its lines to events, its failure to an error that shows the cause."""

from __future__ import annotations

from pathlib import Path

from stackproof.build.effects.workspace import Installing, Workspace
from stackproof.build.engines.easybuild import events
from stackproof.build.engines.spack import output as spack_output
from stackproof.build.plan import Step
from stackproof.core.command import Command, Completed
from stackproof.core.effects import files
from stackproof.core.effects import run as core_run
from stackproof.core.effects.run import run
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor

_SHOWN = 10
_LONGEST = 400


def install(job: Installing, monitor: Monitor) -> None:
    """Run EasyBuild and tell a monitor how far it is.

    Raises `StackproofError` when it fails: the reason is that of EasyBuild's exit code, with the
    lines around the first error and the path of its log.
    """

    def watch(line: str) -> None:
        found = events.event(line)
        if found is not None and found.get("event") == "step":
            text = f"{found.get('module', '')}: {found.get('step', '')}"
            monitor(Event(what="progress", name=job.step.name, text=text))

    done = run(job.command, log=job.log, watch=watch)
    if done.returncode not in job.command.ok or done.timed_out:
        raise _failure(job.command, done, job.step, job.log, job.space)


def _failure(
    command: Command, done: Completed, step: Step, log: Path, space: Workspace
) -> StackproofError:
    found = events.failure(done.stdout.decode(errors="replace"))
    if found is None:
        return core_run.failure(command, done, log=log)
    kept = log
    shown: tuple[str, ...] = ()
    path = space.on_host(found.log, "/nonexistent") if found.log else None
    if path is not None:
        content = path.read_bytes()
        kept = space.logs / f"{step.name}.easybuild.log"
        files.write(kept, content)
        # EasyBuild's own lines begin so; an error of a compiler is in what it ran.
        text = content.decode(errors="replace")
        text = text.partition("\nCallstack:\n")[0]
        lines = [line for line in text.splitlines() if line and not line.startswith("== ")]
        shown = spack_output.first_error("\n".join(lines)) or tuple(lines[-_SHOWN:])
    full = any("No space left on device" in line for line in (found.message, *shown))
    where = f" in step `{found.step}`" if found.step else ""
    again = f"stackproof shell {space.home.name}"
    return fail(
        Reason.DISK_FULL if full else found.reason,
        f"EasyBuild failed{where} of `{step.name}`: {found.message[:_LONGEST]}",
        detail="\n".join(shown) or None,
        hint=f"the whole log is in `{kept}`; `{again}` opens the sandbox as it was; what was "
        "finished is kept, and the same command goes on from there",
    )
