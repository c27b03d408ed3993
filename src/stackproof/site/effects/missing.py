"""`site probe --missing`: a site file, and what this machine says that it does not state."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from stackproof.core.effects import shipped
from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value
from stackproof.site import missing
from stackproof.site.capture import PARTITION, read_capture
from stackproof.site.effects import probe
from stackproof.site.missing import Asking, OtherFact, Part
from stackproof.site.model import Site, from_document, overlay, parse_site

# What schedulers set where the tasks and the scripts of a job run. A shell of `salloc` on a login
# node has SLURM_JOB_ID and not the first of these (https://slurm.schedmd.com/srun.html).
_IN_A_JOB = ("SLURMD_NODENAME", "PBS_ENVIRONMENT", "FLUX_TASK_RANK")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


class MissingOptions(Value):
    """What is asked for a file; None is found out, `capture_file` stands for another machine."""

    site_file: str
    part: str | None = None
    partition: str | None = None
    capture_file: str | None = None


class MissingFacts(Value):
    """What a site file does not state, with `lines` to paste, and the command that comes next.

    `differs` is stated otherwise than the machine says, `not_found` what the machine did not tell.
    """

    SCHEMA: ClassVar[str] = "stackproof/missing-facts/1"

    file: str
    lines: str
    host: str | None = None
    facts: tuple[str, ...] = ()
    differs: tuple[OtherFact, ...] = ()
    not_found: tuple[str, ...] = ()
    next: str = ""


def find_missing(options: MissingOptions) -> MissingFacts:
    """Return what this machine says that a site file, or a shipped site, does not state.

    Raises `StackproofError` with all problems of the file, USAGE for a partition that is not told.
    """
    file = options.site_file
    named = f"./{file}" if file.endswith((".yaml", ".yml")) and os.sep not in file else file
    document = probe.read_site_file(named)
    site = parse_site(document, own=probe.own_source(named))
    found = read_capture(
        probe.captured(options.capture_file), name=site.name, preferred=_preferred(site)
    )
    part = _part(options, found, os.environ)
    asking = Asking(
        part=part,
        partition="" if part is Part.LOGIN else _partition(options, site, os.environ),
        host=None if options.capture_file else _host(),
    )
    unstated = missing.find_unstated(document.data, found, asking)
    pasted = overlay(unstated.document, document.data)
    whole = from_document(pasted, file=file)
    return MissingFacts(
        file=_own_file(file),
        lines=missing.render_lines(unstated.document, document.data),
        host=asking.host,
        facts=unstated.facts,
        differs=unstated.differs,
        not_found=missing.not_found(whole, asking),
        next=_next(whole, asking, options),
    )


def _own_file(site_file: str) -> str:
    """Return the file of a person's own: a shipped site is copied first."""
    return f"{site_file}.yaml" if site_file in shipped.names("sites") else site_file


def _host() -> str | None:
    name = os.uname().nodename
    return name if _HOST.fullmatch(name) else None


def _preferred(site: Site) -> dict[str, str]:
    """Return the versions that a site states, of software that may be there in several."""
    stated: dict[str, Any] = {name: one.version for name, one in site.externals.items()}
    if site.vendor_mpi is not None:
        stated.setdefault(site.vendor_mpi.family, site.vendor_mpi.version)
    return {name: version for name, version in stated.items() if version}


def _part(options: MissingOptions, found: Site, env: Mapping[str, str]) -> Part:
    if options.part is not None:
        return Part(options.part)
    if options.capture_file is not None or found.scheduler is None:
        return Part.BOTH
    return Part.NODE if any(name in env for name in _IN_A_JOB) else Part.LOGIN


def _partition(options: MissingOptions, site: Site, env: Mapping[str, str]) -> str:
    """Return what kind of node this is: as is told, the only one, or named like its queue."""
    names = tuple(site.partitions)
    if options.partition is not None:
        return options.partition
    queue = env.get("SLURM_JOB_PARTITION") or env.get("PBS_QUEUE") or ""
    if len(names) == 1:
        return names[0]
    if queue in names:
        return queue
    if not names:
        return queue if re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_-]*", queue) else PARTITION
    raise fail(
        Reason.USAGE,
        f"`{options.site_file}` has several partitions, and nobody says which this node is of",
        hint=f"--partition NAME, one of: {', '.join(names)}",
    )


def _next(site: Site, asking: Asking, options: MissingOptions) -> str:
    if asking.part is Part.LOGIN:
        return f"in a job: {missing.next_command(site, _own_file(options.site_file), 'NAME')}"
    file = _own_file(options.site_file)
    return f"stackproof check RECIPE --site {file if os.sep in file else f'./{file}'}"
