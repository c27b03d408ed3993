"""Which definition every reference of a closure is bound to, and which find none.

The rules are those of `do_lookup_x` and `check_match` (glibc, elf/dl-lookup.c) and of
`_dl_check_map_versions` (elf/dl-version.c): the first object in the order of loading that defines
the name, with the version that is asked for; a library without versions is good for any version
(before glibc 2.41 only where the version is asked of another one); an unversioned reference takes
the oldest definition. A version node that a library does not define ends the program at once,
whether or not anything of it is used.
"""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.core.value import Value
from stackproof.linking.elf import HIDDEN, ElfFile, VersionNeed
from stackproof.linking.loader.closure import Closure
from stackproof.linking.loader.search import MappedObject

_FIRST_VERSION, _SECOND_VERSION = 2, 3


class MissingNode(Value):
    """A version node that `by` needs of `provider`, which has version nodes but not this one."""

    by: MappedObject
    provider: MappedObject
    need: VersionNeed


class Unbound(Value):
    """A strong reference that no object of the closure answers.

    `version` is empty for an unversioned one. `eager` says that the program ends at its start; else
    it ends when it first calls the function. `other_versions` are objects that define the name with
    another version.
    """

    by: MappedObject
    name: str
    version: str
    eager: bool
    other_versions: tuple[MappedObject, ...] = ()


class Scope:
    """The definitions of a closure, in the order in which the loader looks."""

    def __init__(self, closure: Closure, below: Scope | None = None) -> None:
        """Take in a closure; `below` is the scope of the same closure before it grew."""
        self._objects = closure.objects
        self._asserts = closure.searcher.interpreter.asserts_versions
        self._below = below
        known = len(below._objects) if below else 0  # noqa: SLF001 - of the same class
        self._first: dict[str, int] = {}
        for loaded in reversed(closure.objects[known:]):  # so that the first one is what stays
            self._first.update(dict.fromkeys(loaded.elf.exports, loaded.number))
        self._definitions = [_versions_of(loaded.elf) for loaded in closure.objects[known:]]
        if below:
            self._definitions = [*below._definitions, *self._definitions]  # noqa: SLF001

    def provider(self, name: str, need: VersionNeed | None = None) -> MappedObject | None:
        """Return the object that a reference is bound to, None when there is none.

        A library without a table of versions is good for any version. An older loader ends the
        program when it is the one that the version is asked of.
        """
        first = self._number(name)
        if first is None:
            return None
        for loaded in self._objects[first:]:
            if name not in loaded.elf.exports:
                continue
            if need is not None and not loaded.elf.version_table:
                own = need.library in loaded.names or need.library == loaded.elf.soname
                return None if own and self._asserts else loaded
            if self._fits(loaded, name, need):
                return loaded
        return None

    def _number(self, name: str) -> int | None:
        """Return the number of the first object that defines a name, in whatever version."""
        number = None if self._below is None else self._below._number(name)  # noqa: SLF001
        return self._first.get(name) if number is None else number

    def source_of_copy(self, name: str) -> MappedObject | None:
        """Return the library that the program copies a variable from, None when there is none."""
        for loaded in self._objects[1:]:
            if name in loaded.elf.exports:
                return loaded
        return None

    def all_with(self, name: str) -> tuple[MappedObject, ...]:
        """Return every object that defines a name, whatever the version."""
        first = self._number(name)
        if first is None:
            return ()
        return tuple(loaded for loaded in self._objects[first:] if name in loaded.elf.exports)

    def _fits(self, loaded: MappedObject, name: str, need: VersionNeed | None) -> bool:
        definitions = self._definitions[loaded.number]
        if not definitions:  # a library that defines no versions answers to every one
            return True
        elf = loaded.elf
        index = elf.exports[name] & ~HIDDEN
        if index < _SECOND_VERSION if need is None else definitions.get(index) == need.name:
            return True
        found = (elf.exports[name], *elf.more_exports.get(name, ()))
        if need is not None:
            return any(
                definitions.get(index & ~HIDDEN) == need.name
                or (not need.hidden and index & ~HIDDEN not in definitions and not index & HIDDEN)
                for index in found
            )
        # Without a version the oldest definition is taken, or the only default one.
        oldest = any(index & ~HIDDEN < _SECOND_VERSION for index in found)
        return oldest or sum(not index & HIDDEN for index in found) == 1


def _versions_of(elf: ElfFile) -> dict[int, str]:
    """Return the names of the version indexes that an object defines; the base one is none."""
    return {entry.number: entry.name for entry in elf.version_definitions if not entry.base}


def missing_nodes(closure: Closure, start: int = 0) -> tuple[MissingNode, ...]:
    """Return the version nodes that end the program when it is started.

    Only objects from number `start` on are looked at.
    """
    found = []
    defined: dict[int, frozenset[str]] = {}
    for loaded in closure.objects[start:]:
        for need in loaded.elf.version_needs:
            provider = closure.named(need.library)
            if provider is None or need.weak or not provider.elf.version_definitions:
                continue
            names = defined.get(provider.number)
            if names is None:
                names = frozenset(entry.name for entry in provider.elf.version_definitions)
                defined[provider.number] = names
            if need.name not in names:
                found.append(MissingNode(by=loaded, provider=provider, need=need))
    return tuple(found)


def unversioned_providers(closure: Closure) -> tuple[MissingNode, ...]:
    """Return the nodes that are asked of a library without any; the loader only warns of it."""
    found = []
    for loaded in closure.objects:
        for need in loaded.elf.version_needs:
            provider = closure.named(need.library)
            if provider is not None and not provider.elf.version_definitions:
                found.append(MissingNode(by=loaded, provider=provider, need=need))
    return tuple(found)


def unbound(closure: Closure, scope: Scope) -> Iterator[Unbound]:
    """Yield every strong reference of a closure that finds no definition."""
    for loaded in closure.objects:
        yield from unbound_of(loaded, scope)


def unbound_of(loaded: MappedObject, scope: Scope) -> Iterator[Unbound]:
    """Yield every strong reference of one object that finds no definition, copies included."""
    needs = {need.number: need for need in loaded.elf.version_needs}
    for wanted in loaded.elf.imports:
        if wanted.weak:
            continue
        need = needs.get(wanted.version)
        if scope.provider(wanted.name, need) is None:
            yield Unbound(
                by=loaded,
                name=wanted.name,
                version=need.name if need else "",
                eager=wanted.eager or loaded.elf.bind_now,
                other_versions=scope.all_with(wanted.name),
            )
    for copy in loaded.elf.copies:
        if scope.source_of_copy(copy.name) is None:
            yield Unbound(by=loaded, name=copy.name, version="", eager=True)
