"""The builder of Guix's stacks: Guix asked for a pack, or one that was made elsewhere read."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from stackproof.build.effects import builders, executor, stacks
from stackproof.build.effects.builders import Reading, Solving
from stackproof.build.effects.loaded import Loaded
from stackproof.build.effects.workspace import BuildSetup
from stackproof.build.engine import Findings
from stackproof.build.engines.guix import engine as guix_engine
from stackproof.build.engines.guix import locking, scheme
from stackproof.build.engines.guix.effects import packs
from stackproof.build.engines.guix.engine import ENGINE, PACK, parse_guix_recipe
from stackproof.build.engines.guix.stack import GuixLock, GuixStack, StoreItem
from stackproof.build.options import BuildOptions
from stackproof.build.plan import Plan
from stackproof.core import limits
from stackproof.core.command import Bind, Command, EnvPatch
from stackproof.core.effects import files, outputs
from stackproof.core.effects.foreign.tree import ForeignTree
from stackproof.core.effects.run import check
from stackproof.core.errors import Location, Problem, Reason, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.image.container.effects import layers
from stackproof.linking import elf
from stackproof.linking.effects.view import FileSource

_PLACES = ("~/.config/guix/current/bin", "/usr/local/bin", "/run/current-system/profile/bin")
"""Where `guix pull` and the installers put guix (GNU Guix Reference Manual, "Installation")."""
_PASSED = re.compile(r"GUIX_\w+|XDG_\w+|(GIT_)?SSL_\w+|(https?|ftp|all|no)_proxy", re.IGNORECASE)


class GuixBuilder(builders.MirrorlessBuilder):
    """See `Builder`."""

    engine = ENGINE
    lock_kind = GuixLock
    solving = Solving.STEPS
    swap = staticmethod(guix_engine.swap)
    refused: Mapping[str, Problem] = {
        "mirror": Problem(
            reason=Reason.USAGE,
            message="`--mirror` is for sources, and Guix has its own ways to them",
            hint="name a pack that was made where Guix reaches them: --from PACK",
        ),
        "on": builders.NO_NODES,
        "build-dir": builders.build_dir_problem("a pack", "it is unpacked"),
        "mirror create": Problem(
            reason=Reason.UNSUPPORTED,
            message="a mirror holds sources, and those of this recipe are Guix's",
            hint="bring the pack along, for `build --from PACK`",
        ),
        "containerfile": Problem(
            reason=Reason.UNSUPPORTED,
            message="a Containerfile cannot make a store of Guix",
            hint="`guix pack --format=docker` makes a container of the same manifest",
        ),
    }

    def load(self, reading: Reading) -> Loaded:
        """See `Builder`."""
        composed = reading.require_file()
        facts = stacks.build_facts(reading.options, composed)
        stack = parse_guix_recipe(composed.document, facts)
        return Loaded(
            path=reading.path,
            document=composed.document,
            composed=composed,
            stack=stack,
            given_caches=Path(reading.options.rpms) if reading.options.rpms else None,
            notes=stacks.undecided(composed),
            variant=stacks.variant_of_architecture(composed, stack.architecture),
        )

    def check(self, loaded: Loaded, lock: GuixLock | None, *, whole: bool) -> Findings:
        """See `Builder`; who has neither Guix nor a pack is told, and a build says what to do."""
        if not whole or lock is not None or loaded.given_caches or _find_guix():
            return Findings()
        message = "this machine has no `guix`, and no pack is named"
        hint = "a build writes what Guix needs elsewhere, and takes the pack: --from PACK"
        return Findings(notes=(Problem(reason=Reason.TOOL_MISSING, message=message, hint=hint),))

    def solve(self, loaded: Loaded, options: BuildOptions, monitor: Monitor) -> GuixLock:
        """See `Builder`: the pack is made, or taken, and read."""
        del options
        stack: GuixStack = loaded.stack
        pack = _obtain_pack(loaded, monitor)
        name = os.fsencode(pack.name).decode("utf-8", "backslashreplace")
        sha256 = files.sha256(pack)
        monitor(Event(what="started", name="resolve", text=f"the store in {name}"))
        place, store = packs.unpack_pack(pack, sha256)
        with packs.open_tree(place) as tree:
            profile = f"{packs.STORE}/{locking.profile_item(store.items)}"
            text = tree.read(f"{profile}/manifest", limits.IMAGE_MEMBER).decode(errors="replace")
            lock = locking.make_lock(
                stack,
                StoreItem(filename=name, name=stack.name, version=stack.version, sha256=sha256),
                store.items,
                scheme.profile_of(text),
                lambda folder: _list_names(tree, folder),
            )
            _check_machine(tree, lock, stack.architecture)
        monitor(Event(what="done", name="resolve", text=f"{len(lock.items)} items, {lock.mpi}"))
        return lock

    def setup(
        self, loaded: Loaded, lock: GuixLock, plan: Plan, options: BuildOptions, monitor: Monitor
    ) -> BuildSetup:
        """See `Builder`; the pack is asked for again where the cache has lost it."""
        del options
        if loaded.given_caches:
            _check_digest(loaded.given_caches, lock)
        if executor.is_finished(plan):
            return BuildSetup(movable=False)
        unpacked = packs.in_cache(lock.pack.sha256)
        if unpacked is None:
            pack = _obtain_pack(loaded, monitor)
            _check_digest(pack, lock)
            unpacked = packs.unpack_pack(pack, lock.pack.sha256)
        place, store = unpacked
        if store.items != lock.items:
            raise fail(
                Reason.LOCK_MISMATCH,
                "the lock names other items than the pack has",
                where=Location(file=str(loaded.lock_path)),
                hint="make a new lock with `stackproof build --update`",
            )
        bind = Bind(source=str(place / packs.STORE), target=f"{PACK}/{lock.pack.sha256}")
        return BuildSetup(binds=(bind,), movable=False)


BUILDER = GuixBuilder()


def _find_guix() -> str | None:
    """Return the path of guix, None where this machine has none that is found."""
    places = os.pathsep.join(os.path.expanduser(place) for place in _PLACES)
    return shutil.which("guix") or shutil.which("guix", path=places)


def _list_names(tree: ForeignTree, folder: str) -> Collection[str]:
    path = f"{packs.STORE}/{folder}"
    return tree.names(path) if tree.is_folder(path) else ()


def _check_digest(pack: Path, lock: GuixLock) -> None:
    """Raise `StackproofError` (DIGEST_MISMATCH) for another pack than the one that was locked."""
    layers.whole(os.fspath(pack))
    sha256 = files.sha256(pack)
    if sha256 != lock.pack.sha256:
        raise fail(
            Reason.DIGEST_MISMATCH,
            f"`{pack.name}` is not the pack that was locked",
            detail=f"locked sha256 {lock.pack.sha256}\nfound  sha256 {sha256}",
            hint="find out why before you make a new lock with `stackproof build --update`",
        )


def _check_machine(tree: ForeignTree, lock: GuixLock, architecture: str) -> None:
    """Raise `StackproofError` (INVALID_VALUE) for an MPI of another machine than the stack's."""
    folder = f"{packs.STORE}/{lock.mpi}/lib"
    name = next(name for name in tree.names(folder) if name.startswith(locking.LIBRARY))
    with os.fdopen(tree.open(f"{folder}/{name}"), "rb") as stream:
        state = os.fstat(stream.fileno())
        library = elf.read(FileSource(name, stream.fileno(), state.st_size))
    if library.machine != architecture:
        raise fail(
            Reason.INVALID_VALUE,
            f"`{lock.mpi}` is for {library.machine}, and the stack for {architecture}",
            hint=f"make the pack with `--system={scheme.SYSTEMS[architecture]}`",
        )


def _obtain_pack(loaded: Loaded, monitor: Monitor) -> Path:
    """Return the pack that was named, or that Guix makes; what Guix reads lies by the recipe.

    Raises `StackproofError`: FILE_MISSING, TOOL_MISSING without either, BUILD_FAILED.
    """
    given: Path | None = loaded.given_caches
    if given is not None:
        layers.whole(os.fspath(given))
        return given
    stack: GuixStack = loaded.stack
    lock = loaded.new_lock_path
    folder = lock.with_name(f"{lock.name.removesuffix('.lock.json')}.guix")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.translate(error, folder) from error
    for name, text in scheme.render_files(stack).items():
        outputs.write(folder / name, text, "guix")
    guix = _find_guix()
    argv = scheme.pack_argv(stack, guix or "guix", f"{folder}/")
    if guix is None:
        raise fail(
            Reason.TOOL_MISSING,
            f"this machine has no `guix`: what it reads is written to `{folder}`",
            hint=f"where Guix is, run `{shlex.join(argv)}`; then bring the file that it names, "
            "and build with --from FILE",
        )
    monitor(Event(what="started", name="guix", text=shlex.join(argv)))
    passed = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
    home = os.path.expanduser("~")
    done = check(Command(argv=argv, env=EnvPatch(set={**passed, "HOME": home})))
    words = done.stdout.decode(errors="replace").split()
    if not words or not os.path.isabs(words[-1]):
        raise fail(
            Reason.BUILD_FAILED,
            "guix did not say where its pack is",
            detail=done.stdout.decode(errors="replace")[-1000:] or None,
            hint="run its command by hand, and build with --from FILE",
        )
    monitor(Event(what="done", name="guix", text=words[-1]))
    layers.whole(words[-1])
    return Path(words[-1])
