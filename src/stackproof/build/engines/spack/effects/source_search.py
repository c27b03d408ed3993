"""Sources of the operating system that fit packages of Spack: looked for, accepted and kept."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from stackproof.build.effects import builders, locking, source_mirror, stacks
from stackproof.build.effects.loaded import Loaded
from stackproof.build.engines.spack import locks
from stackproof.build.engines.spack import os_sources as spack_os_sources
from stackproof.build.engines.spack.effects import accepted_sources, os_sources
from stackproof.build.engines.spack.effects import build as spack_build
from stackproof.build.engines.spack.effects.os_sources import Archive, SourcePackage
from stackproof.build.engines.spack.effects.packages import Packages
from stackproof.build.engines.spack.stack import Caches, OsSource, SpackLock
from stackproof.build.options import SourceOptions
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Monitor
from stackproof.core.value import Value, replace

_LISTED = 6


# What becomes a line of apt's list of archives.
_FORMS = {
    "url": re.compile(r"(https?|file)://[^\s\[\]#]+"),
    "suite": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"),
    "keyring": re.compile(r"[^\s\[\]#,]+"),
}


class FoundSource(Value):
    """A source package that fits a package of Spack; `accepted` is None for upstream's own file."""

    name: str
    package: SourcePackage
    path: Path
    accepted: OsSource | None = None


class Accepted(Value):
    """What was found for a recipe, and why the rest was not; `changed`: more is accepted now."""

    loaded: Loaded
    found: tuple[FoundSource, ...]
    left_out: tuple[Problem, ...]
    changed: bool


def accept(options: SourceOptions, monitor: Monitor) -> Accepted:
    """Accept sources; nothing is written when a package that was named cannot be had.

    Raises `StackproofError`: UNSUPPORTED for a recipe that is not for Spack, LOCK_MISMATCH where
    neither packages nor a lock say what is needed, TOOL_MISSING without an archive, and all that
    is wrong with named packages at once.
    """
    loaded = stacks.load_recipe(options.recipe)
    if loaded.stack.engine != "spack":
        raise fail(
            Reason.UNSUPPORTED,
            f"`{loaded.path}` is not for Spack",
            hint="wheels need no sources; a recipe with `engine: easybuild` says itself from where "
            "they are: `sources: [debian-trixie]`",
        )
    lock, _ = locking.find(builders.of(loaded), loaded)
    if not options.packages and lock is None:
        raise fail(
            Reason.LOCK_MISMATCH,
            "without a lock it is not known which packages are needed",
            hint="name packages, or make the lock: stackproof build --stop-after lock",
        )
    archive = _archive(options)
    archive.update(monitor)
    search = _Search(loaded, lock, archive, _target(loaded, options.to), monitor)
    if options.packages:
        found = search.named(options.packages)
        left_out: list[Problem] = []
    else:
        assert lock is not None  # noqa: S101 - refused above
        found, left_out = search.locked(lock)
    before = accepted_sources.load(loaded.os_sources_path)
    new = {one.name: one.accepted for one in found if one.accepted is not None}
    kept = {source.name: source for source in before}
    accepted_sources.save(loaded.os_sources_path, tuple({**kept, **new}.values()))
    return Accepted(
        loaded=loaded,
        found=tuple(found),
        left_out=tuple(left_out),
        changed={**kept, **new} != kept,
    )


def _archive(asked: SourceOptions) -> Archive:
    """Return the archive that is meant: what is not said is this system's."""
    given = {"url": asked.archive, "suite": asked.suite, "keyring": asked.keyring}
    said = {key: value for key, value in given.items() if value}
    for key, value in said.items():
        if not _FORMS[key].fullmatch(value):
            raise fail(Reason.USAGE, f"`{value[:80]}` can be no {key} of an archive")
    if "keyring" in said:
        said["keyring"] = str(Path(said["keyring"]).resolve())
    if len(said) == len(given):
        return Archive(**said)
    own = os_sources.system_archive()
    if own is not None:
        return replace(own, **said)
    raise fail(
        Reason.TOOL_MISSING,
        "it is not known from which archive the packages of this system are",
        hint="run `apt-get update` once as root, or name --archive, --suite and --keyring",
    )


def _target(loaded: Loaded, folder: str | None) -> Path:
    if folder:
        return source_mirror.prepare(Path(folder))
    cache = spack_build.own_caches(loaded.stack, loaded.given_caches or Caches()).source_cache
    return Path(str(cache))


class _Search:
    """Looks for source packages, and brings those that fit."""

    def __init__(
        self,
        loaded: Loaded,
        lock: SpackLock | None,
        archive: Archive,
        target: Path,
        monitor: Monitor,
    ) -> None:
        clones = lock.clones if lock else spack_build.resolve_clones(loaded.stack, monitor)
        self._stack = loaded.stack
        self._packages = Packages(loaded.stack, loaded.blobs, clones, monitor)
        self._archive = archive
        self._target = target

    def named(self, words: tuple[str, ...]) -> list[FoundSource]:
        """Return what was found for packages of the command line; raises all problems at once."""
        found: list[FoundSource] = []
        problems: list[Problem] = []
        for word in dict.fromkeys(words):
            name, _, source = word.partition("=")
            try:
                found.append(self._one(name, (source,) if source else os_sources.spellings(name)))
            except StackproofError as error:
                problems += error.problems
        if problems:
            raise StackproofError(*problems)
        return [self._bring(one) for one in found]

    def locked(self, lock: SpackLock) -> tuple[list[FoundSource], list[Problem]]:
        """Return what was found for everything in a lock, and why the rest was not."""
        found: list[FoundSource] = []
        left_out: list[Problem] = []
        accepted = {source.name: source for source in self._stack.os_sources}
        for node in locks.everything(lock, self._stack.mount).values():
            if node.external:
                continue
            try:
                if node.namespace == spack_os_sources.NAMESPACE:
                    one = self._again(accepted[node.name])
                else:
                    one = self._for_node(node.name, node.version)
            except StackproofError as error:
                left_out += error.problems
            else:
                found += [self._bring(one)] if one else []
        return found, left_out

    def _for_node(self, name: str, version: str) -> FoundSource | None:
        """Return the source of a package of the lock; None when it has none, or it is there."""
        _, facts = self._packages.find(name)
        digest = facts.versions.get(version)
        if not digest or source_mirror.holds(self._target, digest):
            return None
        return self._one(name, os_sources.spellings(name), version)

    def _again(self, accepted: OsSource) -> FoundSource | None:
        """Return a source that was accepted before, unless it is there; it must be the same."""
        if source_mirror.holds(self._target, accepted.sha256):
            return None
        for package in self._archive.versions(accepted.source):
            if package.sha256 == accepted.sha256:
                return FoundSource(
                    name=accepted.name, package=package, path=Path(), accepted=accepted
                )
        raise fail(
            Reason.DIGEST_MISMATCH,
            f"{self._archive.url} {self._archive.suite} has not the accepted source of "
            f"{accepted.name} {accepted.version}",
            detail=f"accepted: {accepted.suite}, {accepted.source} {accepted.source_version}",
            hint="name its suite with --suite",
        )

    def _one(self, name: str, sources: tuple[str, ...], version: str | None = None) -> FoundSource:
        namespace, facts = self._packages.find(name)
        package = next(filter(None, (self._archive.find(source) for source in sources)), None)
        where = f"{self._archive.url} {self._archive.suite}"
        if package is None:
            raise fail(
                Reason.UNKNOWN_VERSION,
                f"{where} has no source package for `{name}`",
                hint=f"looked for: {', '.join(sources)}; another suite or archive may have it "
                "(--suite, --archive), or name the source package: PACKAGE=SOURCE",
            )
        upstream = package.upstream
        if version is not None and upstream != version:
            raise fail(
                Reason.UNKNOWN_VERSION,
                f"{where} has {name} {upstream}, the lock wants {version}",
                hint=f"accept it for a new lock: stackproof mirror add-os-sources RECIPE {name}",
            )
        if facts.complete and upstream not in facts.versions:
            known = difflib.get_close_matches(upstream, facts.versions, n=_LISTED, cutoff=0)
            raise fail(
                Reason.UNKNOWN_VERSION,
                f"{where} has {name} {upstream}, which Spack's package does not know",
                hint=f"it knows, among others, {', '.join(known)}; "
                "another suite may have one of them (--suite), or let the recipe's own package in "
                "`repo` know the version",
            )
        if facts.versions.get(upstream) == package.sha256:
            return FoundSource(name=name, package=package, path=Path())
        accepted = OsSource(
            name=name,
            version=upstream,
            sha256=package.sha256,
            url=package.url,
            suite=package.suite,
            source=package.name,
            source_version=package.version,
            dsc=package.dsc,
            extends=namespace,
            needs=spack_os_sources.TOOLS if facts.autotools else (),
        )
        return FoundSource(name=name, package=package, path=Path(), accepted=accepted)

    def _bring(self, found: FoundSource) -> FoundSource:
        """Return what was found with its file in the mirror."""
        tarball = self._archive.fetch(found.package)
        accepted = found.accepted
        if accepted is not None and accepted.needs and not os_sources.lacks_configure(tarball):
            accepted = replace(accepted, needs=())
        path = source_mirror.put(self._target, tarball, found.package.sha256)
        return replace(found, path=path, accepted=accepted)
