"""`site probe --complete`: a site file, what this machine says, and the file with both."""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from stackproof.core import document as documents
from stackproof.core import limits
from stackproof.core.editing import edited
from stackproof.core.effects import files, shipped
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value
from stackproof.site import completion
from stackproof.site.capture import PARTITION, Capture, read_capture
from stackproof.site.completion import Asking, OtherFact, Part
from stackproof.site.effects import probe
from stackproof.site.model import Site, parse_site

# What schedulers set where the tasks and the scripts of a job run. A shell of `salloc` on a login
# node has SLURM_JOB_ID and not the first of these (https://slurm.schedmd.com/srun.html).
_IN_A_JOB = ("SLURMD_NODENAME", "PBS_ENVIRONMENT", "FLUX_TASK_RANK")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
# How alike two names are of which one is a typo: a letter of seven is wrong, left out or too many.
_TYPO = 0.85


class CompletionOptions(Value):
    """What is completed by whom; None is found out, `capture_file` stands for another machine."""

    site_file: str
    part: str | None = None
    partition: str | None = None
    capture_file: str | None = None
    json: bool = False


class CompletedSite(Value):
    """What was done to a site file, what was not found, and the commands that come next.

    `begun_as` says what a file begins with that was not there.
    """

    SCHEMA: ClassVar[str] = "stackproof/completed-site/2"

    file: str
    written: bool
    begun_as: str | None = None
    host: str | None = None
    added: tuple[str, ...] = ()
    renewed: tuple[OtherFact, ...] = ()
    kept: tuple[OtherFact, ...] = ()
    missing: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


def complete_file(
    options: CompletionOptions, environment: Mapping[str, str] | None = None
) -> CompletedSite:
    """Write what this machine says into a site file; what a person stated stays as it is.

    A file that is not there begins as the shipped site of its name, or with its name alone. Who
    completes the same file on another node at the same time waits. Raises `StackproofError` with
    all problems of the file, USAGE for a partition that is not told, NOT_PERMITTED.
    """
    path = Path(os.path.realpath(options.site_file))
    if path.suffix not in {".yaml", ".yml"}:
        raise fail(
            Reason.USAGE,
            f"`{options.site_file}` is not the name of a site file",
            hint=f"name a file of your own, as {path.name}.yaml; it begins as the shipped site",
        )
    taken = probe.captured(options.capture_file)
    busy = fail(
        Reason.BUSY,
        f"somebody else completes `{options.site_file}` and does not end",
        hint="wait for the others, then run this again",
    )
    env = os.environ if environment is None else environment
    lock = path.with_name(f".{path.name}.lock")
    with files.locked(lock, seconds=60, mode=0o600, busy=busy):
        try:
            return _complete(path, options, taken, env)
        finally:
            lock.unlink(missing_ok=True)


def _complete(
    path: Path, options: CompletionOptions, taken: Capture, env: Mapping[str, str]
) -> CompletedSite:
    text, begun_as = _text(path)
    before = parse_site(documents.parse(text, file=options.site_file))
    preferred = _preferred(before)
    found = read_capture(taken, name=before.name, preferred=preferred)
    asking = Asking(
        part=_part(options, found, env),
        partition="",
        host=None if options.capture_file else _host(),
    )
    if asking.part is not Part.LOGIN:
        asking = Asking(
            part=asking.part,
            partition=_partition(options, before, env),
            host=asking.host,
        )
    data = documents.parse(text, file=options.site_file).data
    result = completion.complete(data, found, asking)
    new = edited(text, result.changes, file=options.site_file)
    site = parse_site(documents.parse(new, file=options.site_file))
    written = new != text or begun_as is not None
    if written:
        files.write(path, new, mode=_mode(path))
    return CompletedSite(
        file=options.site_file,
        written=written,
        begun_as=begun_as,
        host=asking.host,
        added=result.added,
        renewed=result.renewed,
        kept=result.kept,
        missing=completion.not_found(site, asking),
        next=_next(site, asking, options.site_file),
    )


def _text(path: Path) -> tuple[str, str | None]:
    """Return the text of a site file, and what one begins with that is not there.

    A name that is almost that of another site is taken for a typo.
    """
    if path.exists():
        return files.read_bounded(path, limits.DOCUMENT).decode("utf-8-sig", "strict"), None
    name = path.stem
    known = shipped.names("sites")
    if name in known:
        begun_as = f"the shipped site `{name}`"
        return shipped.find("sites", name).read_text(encoding="utf-8"), begun_as
    if not _NAME.fullmatch(name):
        raise fail(
            Reason.USAGE,
            f"`{name}` cannot be the name of a site",
            hint="lower-case letters, digits and `-`, as in my-machine.yaml",
            where=Location(file=os.fspath(path)),
        )
    beside = (one.stem for one in path.parent.glob("*.y*ml"))
    close = difflib.get_close_matches(name, (*beside, *known), n=1, cutoff=_TYPO)
    if close:
        raise fail(
            Reason.FILE_MISSING,
            f"there is no `{path.name}`, and no shipped site of this name",
            hint=f"did you mean `{close[0]}{path.suffix}`? Another site begins with a file that "
            f"says its name: echo 'name: {name}' > {path.name}",
            where=Location(file=os.fspath(path)),
        )
    return f"name: {name}\n", "its name alone"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644


def _host() -> str | None:
    name = os.uname().nodename
    return name if _HOST.fullmatch(name) else None


def _preferred(site: Site) -> dict[str, str]:
    """Return the versions that a site states, of software that may be there in several."""
    stated: dict[str, Any] = {name: one.version for name, one in site.externals.items()}
    if site.vendor_mpi is not None:
        stated.setdefault(site.vendor_mpi.family, site.vendor_mpi.version)
    return {name: version for name, version in stated.items() if version}


def _part(options: CompletionOptions, found: Site, env: Mapping[str, str]) -> Part:
    if options.part is not None:
        return Part(options.part)
    if options.capture_file is not None or found.scheduler is None:
        return Part.BOTH
    return Part.NODE if any(name in env for name in _IN_A_JOB) else Part.LOGIN


def _partition(options: CompletionOptions, site: Site, env: Mapping[str, str]) -> str:
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


def _next(site: Site, asking: Asking, file: str) -> tuple[str, ...]:
    left = completion.unasked(site, asking)
    lines = []
    if "login" in left:
        lines.append(f"on a login node: {completion.command(file)}")
    lines += [
        f"in a job: {completion.next_command(site, file, name)}" for name in left if name != "login"
    ]
    if not lines:
        lines.append(f"stackproof check RECIPE --site {file if os.sep in file else f'./{file}'}")
    return tuple(lines)
