"""The catalogue of components that chains are made of: versions, sources, digests, options.

One YAML file a component, in `components/` beside this module. A file that lacks a source, a
digest or a licence, or names what is not there, is refused with every problem at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import field

from stackproof.build.engines.spack.conflicts import Conflict
from stackproof.build.stack import Digest, OsPackage, SourceFile
from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Problem, StackproofError
from stackproof.core.value import Value
from stackproof.core.versions import ANY, Versions, versions
from stackproof.mpi import families

PREFIX = "prefix"
PROVIDERS = "providers"
PROVIDER = "{provider}"
_ROOT = re.compile(r"\{([a-z0-9-]+)\}")
_VERSION = re.compile(r"[0-9][0-9A-Za-z]*(?:[.-][0-9A-Za-z]+)*")


class When(Value):
    """In which chains an entry counts; what is not given does not matter.

    `providers` are all to be in libfabric, `lacks` none of them; `gpu` is one of `none`, `cuda`,
    `rocm`, `no-cuda`; `versions` are those of the component itself; `flag` is one of `FLAGS` or
    its opposite (`no-xpmem`).
    """

    providers: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    gpu: str = ""
    versions: Versions = ANY
    flag: str = ""


ALWAYS = When()
_MPIS = tuple(name for name, family in families.REGISTRY.items() if family.chain)
FLAGS = ("xpmem", "libcxi-tools", "bundled", "ucx", "ucc", "gfortran", *_MPIS)
"""What a request switches on besides providers and accelerators; an MPI by its name.

`gfortran` holds where that compiles Fortran.
"""


class Option(Value):
    """A configure option, or a command.

    `{libcxi}` stands for where that component is, `{prefix}` for where this one goes,
    `{providers}` for the options that give libfabric the providers that were asked for.
    """

    text: str
    when: When = ALWAYS


class Need(Value):
    """A component that another one is built on.

    `option` is written when it is there, `otherwise` when it is not; `search` are folders that the
    linker looks into while building, and nothing at run time. An `optional` one is only
    taken from the machine; `missing` tells the user what is lost without it. `versions` are those
    that work. With `module`, EasyBuild's own code for the component asks for its module, so that
    one of the machine must have one.
    """

    component: str
    when: When = ALWAYS
    versions: Versions = ANY
    option: str = ""
    otherwise: str = ""
    search: str = ""
    optional: bool = False
    missing: str = ""
    module: bool = False


class ReleaseSource(Value):
    """A way to obtain a release: its kind (`upstream`, `debian-trixie`), and what it lacks.

    `prepare` are commands before configure, `tools` the programs that they run.
    """

    origin: str
    file: SourceFile
    prepare: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Release(Value):
    """A version of a component and where it comes from, the best way first."""

    version: str
    sources: tuple[ReleaseSource, ...]


class Omission(Value):
    """A component that is left out, and why."""

    component: str
    when: When
    reason: str


class KeptFeature(Value):
    """A feature that configure must have taken: a line of `file` begins with `line` then.

    `{provider}` in `feature`, and `{PROVIDER}` in `line`, stand for every provider in turn.
    """

    feature: str
    line: str
    file: str = "config.log"
    when: When = ALWAYS


class Build(Value):
    """How EasyBuild builds a component, in the chains that `when` names.

    `easyblock` is empty where EasyBuild has one of its own for the name. `parameters` are
    parameters of an easyconfig as they are. `prepare` are commands before configure, after those of
    the source. `commands` replace configure and make; `copy` are pairs of patterns and the folder
    they go to. `kept` is looked for after configure: without it nothing is compiled.
    """

    when: When = ALWAYS
    easyblock: str = ""
    prepare: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
    commands: tuple[Option, ...] = ()
    copy: tuple[tuple[tuple[str, ...], str], ...] = ()
    files: tuple[Option, ...] = ()
    folders: tuple[Option, ...] = ()
    checks: tuple[Option, ...] = ()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    headers: tuple[Option, ...] = ()
    kept: tuple[KeptFeature, ...] = ()


class Component(Value):
    """One component of the catalogue.

    `name` is ours, `software` is EasyBuild's, from which modules and variables are named. One
    without releases is of the machine alone, and `hint` says how to have it. `providers` are the
    libfabric providers that this catalogue can build, `by_gpu` that builds differ by accelerator,
    `conflicts` modules that may not be loaded with its own, besides others of the same name.
    """

    name: str
    software: str
    title: str
    homepage: str
    licence: str
    builds: tuple[Build, ...]
    releases: tuple[Release, ...]
    needs: tuple[Need, ...]
    left_out: tuple[Omission, ...]
    notes: tuple[Option, ...]
    providers: Mapping[str, Versions]
    hint: str
    group: str = "lib"
    by_gpu: bool = False
    conflicts: tuple[str, ...] = ()

    @property
    def root(self) -> str:
        """Return the variable that a module of EasyBuild keeps the installation's folder in.

        Source: `convert_name` in easybuild-framework's `easybuild/tools/filetools.py`.
        """
        plain = self.software.replace("+", "plus").replace("-", "min").replace(".", "")
        return f"EBROOT{plain.upper()}"


class Catalogue(Value):
    """Every component by name, and which versions are known not to work together."""

    components: Mapping[str, Component]
    conflicts: tuple[Conflict, ...] = ()


def parse_catalogue(
    provenance: Document,
    files: Sequence[Document],
    conflicts: tuple[Conflict, ...] = (),
) -> Catalogue:
    """Return the catalogue of some documents.

    `provenance` says who states the digests. Raises `StackproofError` with every problem.
    """
    found = [*documents.problems(provenance, "component-provenance")]
    for document in files:
        found += documents.problems(document, "component")
    if not found:
        found = [*_lint(provenance, files)]
    if found:
        raise StackproofError(*found)
    people = provenance.data["provenance"]
    known = [_component(document.data, people) for document in files]
    return Catalogue(components={one.name: one for one in known}, conflicts=conflicts)


def _component(data: Mapping[str, Any], people: Mapping[str, Any]) -> Component:
    return documents.shaped(
        Component,
        data,
        software=data.get("software", data["name"]),
        builds=tuple(_build(entry) for entry in _builds(data)),
        releases=tuple(_release(entry, people) for entry in data.get("releases", ())),
        needs=tuple(_need(entry) for entry in data.get("needs", ())),
        left_out=tuple(
            Omission(component=entry["component"], when=_when(entry), reason=_line(entry["reason"]))
            for entry in data.get("left-out", ())
        ),
        notes=_options(data.get("notes", ())),
        providers={name: versions(text) for name, text in data.get("providers", {}).items()},
        hint=_line(data.get("hint", "")),
    )


def _line(text: str) -> str:
    return " ".join(text.split())


def _when(entry: Mapping[str, Any]) -> When:
    when = entry.get("when", {})
    return documents.shaped(When, when, versions=versions(when.get("versions", ":")))


def _options(entries: Sequence[Any]) -> tuple[Option, ...]:
    return tuple(
        Option(text=_line(entry))
        if isinstance(entry, str)
        else Option(text=_line(entry["text"]), when=_when(entry))
        for entry in entries
    )


def _need(entry: Mapping[str, Any]) -> Need:
    return documents.shaped(
        Need,
        entry,
        when=_when(entry),
        versions=versions(entry.get("versions", ":")),
        missing=_line(entry.get("missing", "")),
    )


def _builds(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    several: Sequence[Mapping[str, Any]] = data.get("builds", ())
    return several or [data.get("build", {})]


_LISTS_OF_OPTIONS = ("options", "commands", "files", "folders", "checks", "headers")


def _build(data: Mapping[str, Any]) -> Build:
    return documents.shaped(
        Build,
        data,
        when=_when(data),
        prepare=tuple(_line(command) for command in data.get("prepare", ())),
        copy=tuple((tuple(entry["files"]), entry["to"]) for entry in data.get("copy", ())),
        paths={name: tuple(folders) for name, folders in data.get("paths", {}).items()},
        kept=tuple(
            documents.shaped(KeptFeature, entry, when=_when(entry))
            for entry in data.get("kept", ())
        ),
        **{name: _options(data.get(name, ())) for name in _LISTS_OF_OPTIONS},
    )


def _release(entry: Mapping[str, Any], people: Mapping[str, Any]) -> Release:
    return Release(
        version=entry["version"],
        sources=tuple(_source(source, people) for source in entry["sources"]),
    )


def _source(entry: Mapping[str, Any], people: Mapping[str, Any]) -> ReleaseSource:
    package = entry.get("package")
    return ReleaseSource(
        origin=entry["origin"],
        file=SourceFile(
            filename=entry["file"],
            accepted=tuple(
                Digest(sha256=sha256, provenance=", ".join(people[who]["title"] for who in named))
                for sha256, named in entry["digests"].items()
            ),
            address=entry.get("address", ""),
            commit=entry.get("commit", ""),
            os_package=OsPackage(
                name=package["name"],
                version=package["version"],
                suite=entry["origin"].partition("-")[2],
            )
            if package
            else None,
        ),
        prepare=tuple(_line(command) for command in entry.get("prepare", ())),
        tools=tuple(entry.get("tools", ())),
    )


# --- lint -----------------------------------------------------------------------------------


def _lint(provenance: Document, files: Sequence[Document]) -> Iterator[Problem]:
    """Yield what a schema cannot see."""
    names = [document.data["name"] for document in files]
    people = provenance.data["provenance"]
    used: set[str] = set()
    for document in files:
        data = document.data
        if names.count(data["name"]) > 1:
            yield _bad(document, ("name",), f"there are two components `{data['name']}`")
        if not data.get("releases") and not data.get("hint"):
            yield _bad(document, (), "it has neither releases nor a hint how to have it")
        if "build" in data and "builds" in data:
            yield _bad(document, ("builds",), "there is either one `build` or several `builds`")
        yield from _references(document, frozenset(names))
        for index, release in enumerate(data.get("releases", ())):
            yield from _release_lint(document, index, release)
        for path, who in _stated(document):
            used.add(who)
            if who not in people:
                yield _bad(document, path, f"`{who}` is no provenance")
    for who in people:
        if who not in used:
            yield _bad(provenance, ("provenance", who), f"no digest is from `{who}`")


def _stated(document: Document) -> Iterator[tuple[documents.Path, str]]:
    """Yield who states digests, and where."""
    for index, release in enumerate(document.data.get("releases", ())):
        for number, source in enumerate(release["sources"]):
            for sha256, named in source["digests"].items():
                for who in named:
                    yield ("releases", index, "sources", number, "digests", sha256), who


def _references(document: Document, names: frozenset[str]) -> Iterator[Problem]:
    """Yield components that are named and are not there."""
    data = document.data
    for section in ("needs", "left-out"):
        for index, entry in enumerate(data.get(section, ())):
            if section == "needs" and entry["component"] not in names:
                yield _bad(
                    document, (section, index, "component"), f"no component `{entry['component']}`"
                )
            for path, text in _ranges(entry, (section, index)):
                if not versions(text).known:
                    yield _bad(document, path, f"`{text}` is no range of versions")
    reachable = {PREFIX, PROVIDERS, *(entry["component"] for entry in data.get("needs", ()))}
    for build in _builds(data):
        listed = [
            entry for name in ("prepare", "options", "commands") for entry in build.get(name, ())
        ]
        texts = [entry if isinstance(entry, str) else entry["text"] for entry in listed]
        for name in _ROOT.findall(" ".join(texts)):
            if name not in reachable:
                yield _bad(document, ("name",), f"`{{{name}}}` is not among the needs")


def _ranges(entry: Mapping[str, Any], path: documents.Path) -> Iterator[tuple[documents.Path, str]]:
    if "versions" in entry:
        yield (*path, "versions"), entry["versions"]
    if "versions" in entry.get("when", {}):
        yield (*path, "when", "versions"), entry["when"]["versions"]


def _release_lint(document: Document, index: int, release: Mapping[str, Any]) -> Iterator[Problem]:
    before = [one["version"] for one in document.data["releases"][:index]]
    where = ("releases", index, "version")
    if not _VERSION.fullmatch(release["version"]):
        yield _bad(document, where, f"`{release['version']}` is no version")
    if release["version"] in before:
        yield _bad(document, where, f"version {release['version']} stands twice")
    for number, source in enumerate(release["sources"]):
        yield from _source_lint(document, ("releases", index, "sources", number), source)


def _source_lint(
    document: Document, path: documents.Path, source: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield why a source does not say enough to be fetched and checked."""
    ways = [key for key in ("address", "package") if key in source]
    if len(ways) != 1:
        yield _bad(document, path, "a source has either an `address` or a `package`")
    if ("package" in source) != source["origin"].startswith("debian-"):
        yield _bad(document, path, "a `package` is of an origin `debian-SUITE`, and only there")
    if "commit" in source and not source["file"].endswith(".tar"):
        yield _bad(document, (*path, "file"), "a packed commit is a `.tar`")
    if source.get("tools") and not source.get("prepare"):
        yield _bad(document, (*path, "tools"), "tools without commands that run them")


def _bad(document: Document, path: documents.Path, message: str) -> Problem:
    hint = "every entry has sources with digests and who states them, a licence and known names"
    return document.problem(path, message, hint)
