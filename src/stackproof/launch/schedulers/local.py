"""Nothing is handed in: the job is a program of this machine, and has run when it ends.

As `local` its nodes are this machine, or a cluster on it; as `allocation` those of the job that it
runs in already, by salloc or somebody's own batch script.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from stackproof.core.command import Command
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.launch.schedulers.job import JobRequest, Query


class Local:
    """Whoever asks does the work, here and now."""

    queues = False

    def __init__(self, name: str) -> None:
        self.name = name

    def script(self, request: JobRequest) -> str:
        """Return a script that runs the command; options and arrays need a scheduler."""
        problems = [f"the option `{name}` needs a scheduler" for name in request.options]
        problems += ["several allocations need a scheduler"] if request.elements else []
        if problems:
            raise StackproofError(
                *(
                    Problem(reason=Reason.INVALID_VALUE, message=text, hint="say `--on slurm`")
                    for text in problems
                )
            )
        return (
            "#!/bin/sh\n"
            f"cd {shlex.quote(request.folder)} || exit\n"
            f"exec {shlex.join(request.command)}\n"
        )

    def submit(self, request: JobRequest, script: str, environment: Mapping[str, str]) -> Command:
        """Return the command that runs the script to its end."""
        del request, environment
        return Command(argv=("sh", script))

    def job_id(self, stdout: bytes) -> str | None:
        """Return a name that stands for the run that has ended."""
        del stdout
        return self.name

    def queries(self, job: str) -> tuple[Query, ...]:
        """Return nothing: there is no job that somebody could be asked about."""
        del job
        return ()

    def cancel_argv(self, job: str) -> tuple[str, ...]:
        """Return nothing: what has run cannot be ended."""
        del job
        return ()
