"""Plan to image: runs any plan, step by step, and continues where an earlier run stopped.

A build folder in the cache is named after the plan's id, so that it can only ever hold the
results of exactly these steps:

    store/   bound at the mount point in the sandbox: what becomes the image
    out/     the finished image and its facts (`image.json`)
    logs/    the output of every command, with a script that repeats it
    done/    one empty file per finished step

One build of a plan runs at a time; a second one waits and then finds everything done.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import installer

from stackproof.command import Bind, Command, Completed, EnvPatch, Sandbox
from stackproof.engines import REGISTRY as ENGINES
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.host import files, wheel_worker
from stackproof.host.run import Runner, check, failure, run
from stackproof.ids import short
from stackproof.monitor import Event, Monitor
from stackproof.plan import DOWNLOADS, IMAGE_FILE, OUT, PYTHON, TOOLS, Plan, Step
from stackproof.stack import Artefact, Lock, Stack

# What a build may see of the host: compilers, their headers and libraries, and nothing else.
_HOST_FOLDERS = (
    "/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/nsswitch.conf", "/etc/passwd", "/etc/group",
)  # fmt: skip
_MERGED_FOLDERS = ("/bin", "/sbin", "/lib", "/lib64")
# How pip finds the index: the user's settings for it, and nothing else of his environment.
_INDEX_VARIABLES = (
    *(f"PIP_{name}" for name in ("INDEX_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST", "FIND_LINKS",
                                 "NO_INDEX", "CERT", "CLIENT_CERT", "PROXY", "CONFIG_FILE",
                                 "CACHE_DIR", "KEYRING_PROVIDER")),
    *(f"{name}_proxy" for name in ("http", "https", "all", "no")),
    *(f"{name}_PROXY" for name in ("HTTP", "HTTPS", "ALL", "NO")),
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A finished build: the image in the cache, its digest, and how many steps had to run."""

    path: Path
    sha256: str
    size: int
    ran: int
    plan_id: str


def lock_stack(stack: Stack, *, runner: Runner = run) -> Lock:
    """Ask the engine for the exact files of a stack; needs the package index."""
    engine = ENGINES[stack.engine]
    return engine.read_lock(stack, runner(_for_index(engine.lock_command(stack))))


def execute(plan: Plan, engine: str, monitor: Monitor) -> Built:
    """Run the steps of a plan that are not done yet and return the image.

    Raises `StackproofError`: BUILD_FAILED with log and replay script, DIGEST_MISMATCH, DISK_FULL,
    TOOL_MISSING, NO_NETWORK. Nothing half-written is taken for finished: a step counts once its
    mark is there, and its outputs are removed before it runs again.
    """
    folder = files.cache_home() / "builds" / f"{plan.name}-{short(plan.id)}"
    with _exclusive(folder, monitor):
        image = folder / "out" / IMAGE_FILE
        ran = 0
        for number, step in enumerate(plan.steps, 1):
            mark = folder / "done" / step.id
            if mark.exists() and (step is not plan.steps[-1] or image.exists()):
                monitor(_event("skipped", step, number, plan))
                continue
            monitor(_event("started", step, number, plan))
            started = time.monotonic()
            _run_step(step, plan, folder, engine, monitor)
            files.write(mark, "")
            ran += 1
            seconds = time.monotonic() - started
            monitor(replace(_event("done", step, number, plan), seconds=seconds))
        return Built(
            path=image,
            sha256=files.sha256(image),
            size=image.stat().st_size,
            ran=ran,
            plan_id=plan.id,
        )


def deliver(built: Built, target: Path) -> bool:
    """Copy the image to `target` in one piece; return False when it was there already.

    Raises `StackproofError` (DISK_FULL, NOT_PERMITTED); the old file stays as it was then.
    """
    if _is_there(built, target):
        return False
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        os.close(handle)
        shutil.copyfile(built.path, temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError as error:
        raise files.translate(error, target) from error
    finally:
        if temporary:
            files.remove(temporary)
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


@contextmanager
def _exclusive(folder: Path, monitor: Monitor) -> Iterator[None]:
    """Hold the build folder's lock; the kernel lets go of it however the holder ends.

    Meanwhile files and folders get the same modes whatever the user's umask is: they are part of
    the image.
    """
    old_mask = os.umask(0o022)
    try:
        with _locked(folder, monitor):
            yield
    finally:
        os.umask(old_mask)


@contextmanager
def _locked(folder: Path, monitor: Monitor) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise files.translate(error, folder) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            monitor(Event(what="note", name="wait", text="another build of this plan is running"))
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _run_step(step: Step, plan: Plan, folder: Path, engine: str, monitor: Monitor) -> None:
    store = folder / "store"
    store.mkdir(exist_ok=True)
    for output in step.outputs:
        files.remove(store / output)
    if step.name == "image":
        files.remove(folder / "out")
    (folder / "out").mkdir(exist_ok=True)
    for artefact in step.fetch:
        fetch(artefact, engine, monitor)
    for path, text in step.files.items():
        mode = 0o755 if path in step.executable else 0o644
        files.write(store / path, text, mode=mode)
    box = _sandbox(plan, folder, step.fetch)
    for number, command in enumerate(step.commands, 1):
        log = folder / "logs" / f"{step.name}-{number}.log"
        check(_with_python(replace(command, sandbox=box)), log=log)


def _with_python(command: Command) -> Command:
    return replace(
        command, argv=tuple(sys.executable if word == PYTHON else word for word in command.argv)
    )


def _for_index(command: Command) -> Command:
    """Return a command that talks to the package index as the user has set it."""
    given = {name: os.environ[name] for name in _INDEX_VARIABLES if name in os.environ}
    return replace(_with_python(command), env=command.env.then(EnvPatch(set=given)))


def _sandbox(plan: Plan, folder: Path, fetched: tuple[Artefact, ...]) -> Sandbox:
    """Return the closed view in which every build command runs (layout: `plan.LAYOUT`)."""
    there = [path for path in _HOST_FOLDERS if os.path.exists(path)]
    binds = [Bind(source=path, target=path) for path in there]
    links = {}
    for path in _MERGED_FOLDERS:
        if os.path.islink(path):
            links[path] = os.readlink(path)
        elif os.path.isdir(path):
            binds.append(Bind(source=path, target=path))
    binds += _python_binds()
    package = Path(installer.__file__).parent
    binds += [
        Bind(source=str(package), target=f"{TOOLS}/installer"),
        Bind(source=wheel_worker.__file__, target=f"{TOOLS}/wheel_worker.py"),
        Bind(source=str(folder / "store"), target=plan.mount, writable=True),
        Bind(source=str(folder / "out"), target=OUT, writable=True),
    ]
    binds += [
        Bind(source=str(_download(artefact)), target=f"{DOWNLOADS}/{artefact.filename}")
        for artefact in fetched
    ]
    return Sandbox(binds=tuple(binds), links=links)


def _python_binds() -> list[Bind]:
    """Return the binds that make `sys.executable` run: its own tree and its virtual environment."""
    real = os.path.realpath(sys.executable)
    roots = {sys.base_prefix, os.path.dirname(os.path.dirname(real)), sys.prefix}
    libraries = sysconfig.get_config_var("LIBDIR")
    if libraries:
        roots.add(str(libraries))
    outer = sorted(root for root in roots if not root.startswith("/usr/") and root != "/usr")
    return [Bind(source=root, target=root) for root in outer]


def _download(artefact: Artefact) -> Path:
    return files.cache_home() / "downloads" / artefact.sha256 / artefact.filename


def fetch(artefact: Artefact, engine: str, monitor: Monitor, *, runner: Runner = run) -> Path:
    """Return a locked file in the cache, downloaded if need be; its digest is always checked.

    Raises `StackproofError` (DIGEST_MISMATCH) for a file that is not the locked one: it is
    removed, and nothing is built from it. NO_NETWORK when it cannot be had.
    """
    target = _download(artefact)
    if target.exists():
        if files.sha256(target) == artefact.sha256:
            return target
        files.remove(target)  # torn or tampered with: the download below brings it anew
    monitor(Event(what="note", name="download", text=artefact.filename))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=target.parent))
    except OSError as error:
        raise files.translate(error, target) from error
    try:
        command = _for_index(ENGINES[engine].fetch_command(artefact, str(folder)))
        done = runner(command)
        if done.returncode != 0:
            raise _fetch_failure(command, artefact, done)
        got = next((path for path in folder.iterdir() if path.name == artefact.filename), None)
        if got is None:
            raise _other_file(artefact, [path.name for path in folder.iterdir()])
        digest = files.sha256(got)
        if digest != artefact.sha256:
            raise _wrong_digest(artefact, digest)
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
