"""Where a build happens: its folders, its lock, and the closed view that its commands get.

A build folder in the cache is named after the id of the image step, so that it can only ever hold
the results of exactly the steps that lead to this image:

    out/       the finished image
    finished   the ids of the steps it is made of
    logs/      the output of every command, with a script that repeats it
    origin     the lock of the recipe that it was built for last
    tree       the path of the tree, when that is elsewhere (in memory, or where the user wants it)

The tree is all that a build can lose and make again. It lies in the build folder, or in memory:

    store/     bound at the mount point in the sandbox: what becomes the image
    build/     bound at `plan.BUILD`: sources, configuration, the caches of the engine
    done/      one empty file per finished step
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from msgspec import field

from stackproof.build.effects import inside, visible
from stackproof.build.plan import BUILD, DOWNLOADS, OUT, Plan, Step
from stackproof.build.stack import Artefact
from stackproof.core import ids, limits
from stackproof.core.command import Bind, Command, EnvPatch, Sandbox
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.foreign import folder as folders
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.ids import short
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value

_NETWORK_VARIABLES = (
    *(f"{name}_proxy" for name in ("http", "https", "ftp", "all", "no")),
    *(f"{name}_PROXY" for name in ("HTTP", "HTTPS", "FTP", "ALL", "NO")),
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO",
)  # fmt: skip
LOCKS = (".lock", ".shell")
"""Files in a build folder that are held while something is built there, or a shell is in it."""
_ORIGIN = "origin"
BELONGS = "belongs"
"""The file in a tree that lies elsewhere which names its build folder."""
MEMORY = Path("/dev/shm")  # noqa: S108 - checked below: a folder of one's own, nobody else's link
HOME = "/tmp/home"  # noqa: S108 - in the sandbox's own /tmp
"""The home folder inside the sandbox: empty, in memory, gone with the command."""


class Indices(Value):
    """What an engine finds out about cloned repositories: the same for every build that has them.

    `folder` below the build holds files named `<kind>/<name>-…` for each repository; those of the
    `names` are kept in `kept` and are there again in the next build.
    """

    folder: str
    kept: Path
    names: tuple[str, ...]

    def restore(self, build: Path) -> None:
        """Put kept files where the engine looks for them, unless some are there."""
        target = inside.place(build, self.folder)
        if target.exists():
            return
        for path in self.kept.glob("*/[!.]*"):  # the others are being written
            place = target / path.relative_to(self.kept)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)

    def keep(self, build: Path) -> None:
        """Keep those files of the named repositories that are not kept yet."""
        source = build / self.folder
        for name in self.names:
            for path in source.glob(f"*/{name}-*"):
                target = self.kept / path.relative_to(source)
                if not target.exists() and inside.is_file(path, build):
                    files.copy(path, target)


class BuildSetup(Value):
    """What a build on this machine has besides its plan; no id depends on it.

    `blobs` says where the bytes of files known by their digest lie. `build_files` are written
    below `plan.BUILD` before a step (local settings such as mirrors), `binds` are added to the
    sandbox, `environment` to every command. `tree` is the folder for the build tree, None for
    the build folder in the cache. `network` lets installations use the network: packages come from
    a cache that is not a folder. `passed` are variables of the user that steps with the network
    get as well. `kept` is a folder in which results of steps that report are kept for other builds.
    `origin` names what is built, so that later builds of the same take the place of this one.
    `fetch_command` is what downloads a locked file into a folder, `install` what runs a command of
    a step that reports, `prepare` what is made of a cloned repository once. `explained` is around
    the whole build and may tell an error better. Without `movable` the tree lies in the cache only.
    """

    blobs: Mapping[str, Path] = field(default_factory=dict)
    build_files: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[Bind, ...] = ()
    environment: EnvPatch = field(default_factory=EnvPatch)
    tree: Path | None = None
    network: bool = False
    passed: tuple[str, ...] = ()
    indices: Indices | None = None
    kept: Path | None = None
    origin: str = ""
    movable: bool = True
    fetch_command: Callable[[Artefact, str], Command] | None = None
    install: Callable[[Installing, Monitor], None] | None = None
    prepare: Callable[[Path], object] | None = None
    explained: Callable[[Plan], AbstractContextManager[None]] = lambda _: nullcontext()


class Workspace(Value):
    """The folders of one build."""

    home: Path
    tree: Path

    @property
    def store(self) -> Path:
        """Return what becomes the image."""
        return self.tree / "store"

    @property
    def build(self) -> Path:
        """Return what the sandbox has at `plan.BUILD`."""
        return self.tree / "build"

    @property
    def unfinished(self) -> Path:
        """Return where files are written that no image may have half, if the build is killed."""
        return self.tree / "unfinished"

    @property
    def out(self) -> Path:
        """Return where the image is made."""
        return self.home / "out"

    @property
    def logs(self) -> Path:
        """Return the folder of the commands' outputs."""
        return self.home / "logs"

    def mark(self, step: Step) -> Path:
        """Return the file that says that a step is finished."""
        return self.tree / "done" / step.id

    @property
    def in_memory(self) -> bool:
        """Return whether the tree lies in memory."""
        return self.tree.is_relative_to(MEMORY)

    def on_host(self, path: str, mount: str) -> Path | None:
        """Return where a file of the sandbox lies on this machine; None for one elsewhere."""
        for seen, outside in (
            (f"{BUILD}/store", self.store),
            (OUT, self.out),
            (BUILD, self.build),
            (mount, self.store),
        ):
            if path.startswith(f"{seen}/"):
                found = outside / path[len(seen) :].lstrip("/")
                return found if inside.is_file(found, outside) else None
        return None


class Installing(Value):
    """A command of a step that reports: where its output is kept, and the build it is part of."""

    step: Step
    command: Command
    log: Path
    space: Workspace
    mount: str


def builds_home() -> Path:
    """Return the folder that holds all build folders."""
    return cache_kinds.home("builds")


def home(plan: Plan) -> Path:
    """Return the build folder of a plan, named after the step that makes its image."""
    last = next((step for step in plan.steps if step.name == "image"), plan.steps[-1])
    return builds_home() / f"{plan.name}-{short(last.id)}"


def workspace(plan: Plan, setup: BuildSetup) -> Workspace:
    """Return the folders of a plan's build; the tree is where it was left, if it is still there.

    A build that is to be somewhere else than its unfinished tree starts again there, and the old
    tree is removed: what was built comes from the caches. Builds of one plan with different caches
    do not wait for each other, so they have trees of their own.
    """
    folder = home(plan)
    own = short(ids.digest(os.fsencode(folder)))
    wanted = setup.tree / f"{folder.name}-{own}" if setup.tree else folder
    pointer = folder / "tree"
    old = find(folder).tree
    if old != wanted and os.path.lexists(pointer):
        if build_of(old) == folder:
            files.remove(old)
        files.remove(pointer)
    if wanted != folder:
        for part in ("store", "build", "unfinished", "done"):
            files.remove(folder / part)
        files.write(pointer, str(wanted))
    if setup.origin:
        files.write(folder / _ORIGIN, setup.origin)
    with suppress(OSError):
        os.utime(folder)
    return Workspace(home=folder, tree=wanted)


def find(folder: Path) -> Workspace:
    """Return the folders of a build by its build folder, which is its tree unless a file says."""
    return Workspace(home=folder, tree=_pointed(folder / "tree") or folder)


def _pointed(pointer: Path) -> Path | None:
    """Return the path in a file; None where none can be read."""
    try:
        text = files.read_bounded(pointer, limits.SMALL_RECORD).decode()
    except (StackproofError, UnicodeDecodeError):
        return None
    return Path(text) if os.path.isabs(text) and "\0" not in text else None


def build_of(tree: Path) -> Path | None:
    """Return the build folder that a tree elsewhere belongs to, None where that is not known."""
    folder = _pointed(tree / BELONGS)
    return folder if folder is not None and folder.is_dir() else None


def origin_of(folder: Path) -> str:
    """Return what a build folder was last used for, empty where it does not say."""
    try:
        return (folder / _ORIGIN).read_text(encoding="utf-8")
    except OSError:
        return ""


def memory_name() -> Path:
    """Return the path of that folder, where anybody may have put something."""
    return MEMORY / f"stackproof-{os.geteuid()}"


def memory_folder() -> Path:
    """Return the folder for build trees in memory: this user's own, and nobody else may look in.

    Raises `StackproofError` (NOT_PERMITTED) when somebody else has put something there.
    """
    return folders.private_folder(
        memory_name(), hint="remove it, or build on disk with --in-memory=no"
    )


@contextmanager
def exclusive(folder: Path, monitor: Monitor) -> Iterator[None]:
    """Hold the build folder's lock; the kernel lets go of it however the holder ends.

    Meanwhile files and folders get the same modes whatever the user's umask is: they are part of
    the image.
    """
    old_mask = os.umask(0o022)
    try:
        with locked(folder, monitor, "another build of this plan is running"):
            yield
    finally:
        os.umask(old_mask)


@contextmanager
def locked(folder: Path, monitor: Monitor, busy: str) -> Iterator[None]:
    """Hold a folder's lock file; say `busy` when somebody else has it, and wait."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:  # no folder can be made there, as in /proc
            said = f"no folder can be made at `{folder}`"
            hint = "set STACKPROOF_CACHE to a folder that you may write to"
            raise fail(Reason.NOT_PERMITTED, said, hint=hint) from error
        except OSError as error:
            raise files.translate(error, folder) from error
        try:
            handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:  # deleted in between
            continue
        except OSError as error:
            raise files.translate(error, folder) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                monitor(Event(what="note", name="wait", text=busy))
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_there(handle, folder / ".lock"):
                yield
                return
        finally:
            os.close(handle)


def hold_for_shell(folder: Path) -> None:
    """Keep a build folder from being deleted as long as the program lives that this one becomes."""
    with suppress(OSError):
        handle = os.open(folder / LOCKS[1], os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        fcntl.flock(handle, fcntl.LOCK_SH)
        os.set_inheritable(handle, True)


def _is_there(handle: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path: while we waited it may have gone."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), there)


def prepare(step: Step, space: Workspace, setup: BuildSetup) -> None:
    """Put the files of a step where its commands look for them.

    Raises `StackproofError`: FILE_MISSING for a file that is only known by its digest,
    DIGEST_MISMATCH for one that has changed since it was read, DISK_FULL, NOT_PERMITTED.
    """
    _make_folders(space)
    if not step.resumes:
        for output in step.outputs:
            files.remove(inside.place(space.store, output))
    if step.name == "image":
        files.remove(space.out)
        space.out.mkdir()
    if setup.indices and step.inputs:  # they must be newer than what the first step lays out
        setup.indices.restore(space.build)
    given = ((space.store, step.files), (space.build, {**step.build_files, **setup.build_files}))
    for root, texts in given:
        for path, text in texts.items():
            mode = 0o755 if path in step.executable else 0o644
            files.write(inside.place(root, path), text, mode=mode, beside=space.unfinished)
    for path, copy in step.copies.items():
        area, _, rest = path.partition("/")
        target = inside.place({"store": space.store, "build": space.build}[area], rest)
        mode = 0o755 if copy.executable else 0o644
        files.write(target, _blob(setup, copy.sha256), mode=mode, beside=space.unfinished)


def _make_folders(space: Workspace) -> None:
    """Make what is missing of the folders; a tree elsewhere says which build it belongs to.

    Nobody else may look in: a step can make programs that would run with its user's rights.
    """
    files.remove(space.unfinished)
    try:
        for folder in (space.store, space.build, space.out, space.unfinished):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (space.home, space.tree):
            folder.chmod(0o700)
    except OSError as error:
        raise files.translate(error, folder) from error
    if space.tree != space.home and build_of(space.tree) is None:
        files.write(space.tree / BELONGS, str(space.home))


def _blob(setup: BuildSetup, sha256: str) -> bytes:
    path = setup.blobs.get(sha256)
    if path is None:
        raise fail(Reason.FILE_MISSING, f"no file with the digest {sha256} is at hand")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise files.translate(error, path) from error
    if ids.digest(content) != sha256:
        raise fail(
            Reason.DIGEST_MISMATCH,
            f"`{path}` changed after the recipe was read",
            where=Location(file=str(path)),
            hint="run the command again",
        )
    return content


def sandbox(
    step: Step, plan: Plan, space: Workspace, setup: BuildSetup, clones: Mapping[str, Path]
) -> Sandbox:
    """Return the closed view in which a step's commands run (layout: `plan.LAYOUT`).

    `clones` maps the folders of repositories below `plan.BUILD` to their trees on this machine;
    nobody can write into them.
    """
    binds, links = visible.system(network=_online(step, setup))
    binds += [Bind(source=str(space.build), target=BUILD, writable=True)]
    binds += [Bind(source=str(path), target=f"{BUILD}/{folder}") for folder, path in clones.items()]
    binds += visible.tools()
    binds += [
        Bind(source=str(space.store), target=plan.mount, writable=True),
        Bind(source=str(space.store), target=f"{BUILD}/store", writable=True),
        Bind(source=str(space.out), target=OUT, writable=True),
    ]
    binds += [
        Bind(source=str(download_path(artefact.sha256, artefact.filename)),
             target=f"{DOWNLOADS}/{artefact.filename}")
        for artefact in step.fetch
    ]  # fmt: skip
    binds += setup.binds
    inside.check_mount_points(binds, space.build, BUILD)
    return Sandbox(
        binds=tuple(binds),
        links=links,
        scratch=("/tmp", HOME),  # noqa: S108 - private, inside the sandbox
        network=_online(step, setup),
    )


def _online(step: Step, setup: BuildSetup) -> bool:
    return step.network or (setup.network and bool(step.reports))


def download_path(sha256: str, filename: str) -> Path:
    """Return where a downloaded file lies in the cache."""
    return cache_kinds.home("downloads") / sha256 / filename


def environment(step: Step, setup: BuildSetup) -> EnvPatch:
    """Return what a step's commands have in their environment before their own settings."""
    names = (*_NETWORK_VARIABLES, *setup.passed) if _online(step, setup) else ()
    given = {name: os.environ[name] for name in names if name in os.environ}
    given["HOME"] = HOME
    if step.makes_program:
        given["MAKEFLAGS"] = f"-j{available_cores()}"
    if step.reports:
        given["PYTHONUNBUFFERED"] = "1"  # else its progress would come in blocks, late
    return EnvPatch(set=given)


def available_cores() -> int:
    """Return how many cores this process may use (a job's share of a node, not the node)."""
    return len(os.sched_getaffinity(0))


def free_bytes(folder: Path) -> int:
    """Return how much can be written below a folder, or below its nearest parent that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
