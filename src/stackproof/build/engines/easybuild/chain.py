"""What a stack is to hold, to easyconfigs in build order: the chain from the NIC to the benchmarks.

Pure: the catalogue of components says what each of them needs, `selection.py` which of them a
request means, `easyconfig.py` writes the texts.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stackproof.build.engines.easybuild.components import (
    PREFIX,
    PROVIDER,
    PROVIDERS,
    Catalogue,
    ChainRequest,
    Gpu,
    Option,
    OwnFile,
    Toolchain,
)
from stackproof.build.engines.easybuild.selection import (
    GFORTRAN,
    SelectedComponent,
    Selection,
    select,
)
from stackproof.build.engines.easybuild.wishes import check_wishes
from stackproof.build.stack import Digest, OtherPlace, SourceFile
from stackproof.core.errors import Location, StackproofError
from stackproof.core.value import Value, replace

# ------------------ Parameters to the text of an easyconfig: a Python file that EasyBuild executes
# Values are written as Python literals, so that no text ends early or becomes code. EasyBuild puts
# its own values into texts for `%(name)s`; texts that are not meant so are written with `%%`.
# Source: "Writing easyconfig files", https://docs.easybuild.io/writing-easyconfig-files/.

_WIDTH = 100
# `resolve_template` in easybuild-framework fills in what an odd number of `%` stands before.
_TEMPLATE = re.compile(r"(?<!%)%++(?=\(\w+\)\w)")


class Constant(Value, kw_only=False):
    """A name that EasyBuild defines, such as `SYSTEM`."""

    name: str


class Template(Value, kw_only=False):
    """A text in which EasyBuild fills in `%(installdir)s` and the like."""

    text: str


SYSTEM = Constant("SYSTEM")
EXTERNAL_MODULE = Constant("EXTERNAL_MODULE")


def render(parameters: Mapping[str, Any]) -> str:
    """Return the text of an easyconfig with these parameters, in their order.

    Parameters that are empty (None, "", [], {}) are left out.
    """
    lines = []
    for name, value in parameters.items():
        if value is None or value in ("", [], (), {}):
            continue
        if not name.isidentifier():
            raise ValueError(f"{name!r} is no name of a parameter")
        lines.append(f"{name} = {_fitted(value)}")
    return "\n".join(lines) + "\n"


def literal(value: Any) -> str:
    """Return a value as Python has it, on one line."""
    if isinstance(value, Constant):
        return value.name
    if isinstance(value, Template):
        return repr(value.text)
    if isinstance(value, str):
        return repr(_TEMPLATE.sub(lambda found: found[0] * 2, value))
    if isinstance(value, int):
        return repr(value)
    return _collection(value)


def _collection(value: Any) -> str:
    match value:
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case tuple():
            inner = ", ".join(map(literal, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case Mapping():
            return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    raise TypeError(f"no literal for {type(value).__name__}")


def _fitted(value: Any) -> str:
    """Return a value with an item a line where one line would be too long."""
    line = literal(value)
    if len(line) <= _WIDTH or not isinstance(value, list | Mapping):
        return line
    if isinstance(value, list):
        items = [f"    {literal(item)}," for item in value]
        return "\n".join(["[", *items, "]"])
    items = [f"    {literal(key)}: {literal(item)}," for key, item in value.items()]
    return "\n".join(["{", *items, "}"])


_PLACE = re.compile(r"\{([a-z0-9-]+)\}")
_SUFFIXES = {Gpu.CUDA: "CUDA", Gpu.ROCM: "ROCm"}
_WRAPPED = "SystemCompilerGCC"
_SYSTEM = "system"
_KEPT = (
    """missing=; kept() { grep -Eq "^$2" "$3" || missing="${missing:+$missing, }$1"; }; CALLS"""
    """[ -z "$missing" ] || { echo "error: configure left out what was asked for: $missing" """
    """>&2; exit 1; } && """
)


class Easyconfig(Value):
    """One component as EasyBuild builds it.

    `component` is the catalogue's name, `name` EasyBuild's; `filename` is what EasyBuild expects
    the text in, `module` the full name of the module that it makes (`libfabric/2.1.0`). `needs`
    are the modules of this chain that it is built on. `providers` are those of a libfabric.
    """

    component: str
    name: str
    version: str
    filename: str
    text: str
    module: str
    sources: tuple[SourceFile, ...] = ()
    needs: tuple[str, ...] = ()
    licence: str = ""
    providers: tuple[str, ...] = ()


class LeftOut(Value):
    """A component that others build into such a chain, and why this one does not."""

    component: str
    reason: str


class Chain(Value):
    """Easyconfigs in build order, and what a user should know about them.

    `metadata` is the text of the file that `--external-modules-metadata` names, empty when no
    component of the machine has a module. `tools` are programs that builds run besides compiler
    and make (`autoreconf`), `headers` header files that they take from the machine.
    """

    easyconfigs: tuple[Easyconfig, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    metadata: str = ""
    tools: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


def chain(
    request: ChainRequest, catalogue: Catalogue, where: Callable[..., Location] | None = None
) -> Chain:
    """Return the easyconfigs of a request.

    `where` gives the place of a key of the recipe that the request is from, as `Document.where`
    does. Raises `StackproofError` with every problem of the request.
    """
    found = select(request, catalogue, where)
    check_wishes(found)
    if found.problems:
        raise StackproofError(*found.problems)
    built = [part for part in found.parts.values() if part.source is not None]
    easyconfigs = [_easyconfig(found, part) for part in built]
    if request.toolchain.name == _WRAPPED:
        easyconfigs.insert(0, _compiler(request.toolchain))
    for part in built:
        for note in _texts(found, part, part.component.notes):
            found.note(note)
    compilers = request.toolchain.compilers
    ours = compilers is None or compilers.fortran == GFORTRAN
    tools = [one for part in built for one in _tools(found, part) if ours or one != GFORTRAN]
    headers = [text for part in built for text in _texts(found, part, found.build(part).headers)]
    return Chain(
        easyconfigs=tuple(easyconfigs),
        left_out=tuple(_left_out(found, built)),
        notes=tuple(found.notes),
        metadata=_metadata(found),
        tools=tuple(dict.fromkeys(tools)),
        headers=tuple(dict.fromkeys(headers)),
    )


def _tools(found: Selection, part: SelectedComponent) -> tuple[str, ...]:
    prepared = part.source.tools if part.source else ()
    return (*found.build(part).tools, *prepared)


def _texts(found: Selection, part: SelectedComponent, options: tuple[Option, ...]) -> Iterator[str]:
    return (one.text for one in options if found.holds(one.when, part.version))


def _left_out(found: Selection, built: list[SelectedComponent]) -> Iterator[LeftOut]:
    seen: set[str] = set()
    for part in built:
        for one in part.component.left_out:
            away = one.component not in found.parts and one.component not in seen
            if away and found.holds(one.when, part.version, one.component):
                seen.add(one.component)
                yield LeftOut(component=one.component, reason=one.reason)


# --- names ----------------------------------------------------------------------------------


def _suffix(found: Selection, part: SelectedComponent) -> str:
    """Return EasyBuild's `versionsuffix`: builds for accelerators differ by it."""
    gpu, at = found.request.gpu, found.request.gpu_at
    if gpu is Gpu.NONE or at is None or not part.component.by_gpu:
        return ""
    return f"-{_SUFFIXES[gpu]}-{at.version}"


def _full_version(found: Selection, part: SelectedComponent) -> str:
    """Return a version as EasyBuild's module names have it.

    Source: `det_full_ec_version` in easybuild-framework's `easybuild/tools/module_naming_scheme`.
    """
    made = _toolchain(found.request.toolchain)
    middle = f"-{made['name']}-{made['version']}" if made else ""
    return f"{part.version}{middle}{_suffix(found, part)}"


def _toolchain(toolchain: Toolchain) -> dict[str, str]:
    """Return what an easyconfig names as its toolchain, empty for the system's compiler."""
    if toolchain.name == _SYSTEM or toolchain.compilers:
        return {}
    name = "GCC" if toolchain.name == _WRAPPED else toolchain.name
    return {"name": name, "version": toolchain.version}


def _module(found: Selection, part: SelectedComponent) -> str:
    return f"{part.component.software}/{_full_version(found, part)}"


# --- one easyconfig -------------------------------------------------------------------------


def _compiler(toolchain: Toolchain) -> Easyconfig:
    """Return the easyconfig that makes a module of the system's compiler."""
    text = render(
        {
            "easyblock": _WRAPPED,
            "name": "GCC",
            "version": toolchain.version,
            "homepage": "https://gcc.gnu.org/",
            "description": "The GNU compilers of the system.",
            "toolchain": SYSTEM,
            "moduleclass": "compiler",
        }
    )
    return Easyconfig(
        component="gcc",
        name="GCC",
        version=toolchain.version,
        filename=f"GCC-{toolchain.version}.eb",
        text=text,
        module=f"GCC/{toolchain.version}",
        licence="GPL-3.0-or-later WITH GCC-exception-3.1",
    )


def _easyconfig(found: Selection, part: SelectedComponent) -> Easyconfig:
    component = part.component
    source = _source(found, part)
    patches = tuple(map(_own, found.request.patches.get(component.name, ())))
    full = _full_version(found, part)
    return Easyconfig(
        component=component.name,
        name=component.software,
        version=part.version,
        filename=f"{component.software}-{full}.eb",
        text=render(_parameters(found, part, source, patches)),
        module=f"{component.software}/{full}",
        sources=(source, *patches),
        needs=tuple(_module(found, one) for one in _needed(found, part) if one.source is not None),
        licence=component.licence,
        providers=found.request.providers if component.providers else (),
    )


def _source(found: Selection, part: SelectedComponent) -> SourceFile:
    """Return what a component is built from: the file of the recipe, else of the catalogue."""
    own = found.request.source_files.get(part.component.name)
    if own is not None:
        return _own(own)
    if part.source is None:
        return SourceFile(filename="")
    file = part.source.file
    return replace(file, elsewhere=tuple(_elsewhere(found, part, file)))


def _elsewhere(found: Selection, part: SelectedComponent, file: SourceFile) -> Iterator[OtherPlace]:
    """Yield where else the recipe allows to take the same file from, the best first."""
    sources = [
        source
        for release in part.component.releases
        for source in release.sources
        if release.version == part.version
    ]
    for origin in found.request.origins:
        for source in sources:
            other = source.file
            if source.origin == origin and other != file and other.accepted == file.accepted:
                yield OtherPlace(
                    filename=other.filename, address=other.address, os_package=other.os_package
                )


def _own(file: OwnFile) -> SourceFile:
    accepted = (Digest(sha256=file.sha256, provenance="the recipe"),)
    return SourceFile(filename=file.filename, accepted=accepted, address=file.address)


def _parameters(
    found: Selection,
    part: SelectedComponent,
    source: SourceFile,
    patches: tuple[SourceFile, ...] = (),
) -> dict[str, Any]:
    component, build = part.component, found.build(part)
    made = _toolchain(found.request.toolchain)
    sums = [digest.sha256 for digest in source.accepted]
    fill = _filler(found)
    checks = {
        "files": [fill(text) for text in _texts(found, part, build.files)],
        "dirs": [fill(text) for text in _texts(found, part, build.folders)],
    }
    return {
        "easyblock": build.easyblock,
        "name": component.software,
        "version": part.version,
        "versionsuffix": _suffix(found, part),
        "homepage": component.homepage,
        "description": component.title,
        "toolchain": made or SYSTEM,
        "toolchainopts": {"pic": True} if made else {},
        **_obtained(source),
        "patches": [one.filename for one in patches],
        "checksums": [
            sums[0] if len(sums) == 1 else tuple(sums),
            *(one.accepted[0].sha256 for one in patches),
        ],
        "dependencies": _dependencies(found, part),
        **_steps(found, part),
        **build.parameters,
        "sanity_check_paths": checks if any(checks.values()) else {},
        "sanity_check_commands": [fill(text) for text in _texts(found, part, build.checks)],
        **_module_conflicts(component.conflicts),
        "modextrapaths": {name: list(folders) for name, folders in build.paths.items()},
        "moduleclass": component.group,
    }


def _module_conflicts(names: tuple[str, ...]) -> dict[str, str]:
    """Return what a module file says of others, in both languages of module files."""
    quoted = ", ".join(f'"{name}"' for name in names)
    return {
        "modluafooter": f"conflict({quoted})" if names else "",
        "modtclfooter": f"conflict {' '.join(names)}" if names else "",
    }


def _obtained(source: SourceFile) -> dict[str, Any]:
    """Return where EasyBuild may get the file from by itself, if it may."""
    if not source.address or source.commit:
        return {"sources": [source.filename]}
    folder, name = posixpath.split(source.address)
    renamed = {"filename": source.filename, "download_filename": name}
    return {
        "source_urls": [folder],
        "sources": [source.filename if name == source.filename else renamed],
    }


def _steps(found: Selection, part: SelectedComponent) -> dict[str, Any]:
    """Return what is done with the sources: configure and make, or commands and copies."""
    build, fill = found.build(part), _filler(found)
    prepare = (*(part.source.prepare if part.source else ()), *build.prepare)
    own = found.request.options.get(part.component.name, ())
    options = [*found.need_options(part), *_texts(found, part, build.options), *own]
    commands = " && ".join(_texts(found, part, build.commands))
    searched = [need.search for need in part.component.needs if found.there(part, need)]
    folders = ":".join(text for text in searched if text)
    search = f"export LIBRARY_PATH={folders}:$LIBRARY_PATH && " if folders else ""
    return {
        "preconfigopts": fill("".join(f"{command} && " for command in prepare) + search),
        "configopts": fill(" ".join(options)),
        "prebuildopts": fill(_kept(found, part) + search),
        "preinstallopts": fill(search),
        "cmds_map": [(".*", fill(search + commands))] if commands else [],
        "files_to_copy": [(list(one.files), one.to) for one in build.copy],
    }


def _kept(found: Selection, part: SelectedComponent) -> str:
    """Return commands that fail where configure went on without what was asked for.

    All that is missing is named at once; the text is for a shell, before `make`.
    """
    calls = []
    for one in found.build(part).kept:
        if found.holds(one.when, part.version):
            for name in found.request.providers if PROVIDER in one.feature else ("",):
                feature = one.feature.replace(PROVIDER, name)
                line = one.line.replace(PROVIDER.upper(), name.upper())
                calls.append(f"kept '{feature}' '{line}' {one.file}; ")
    return _KEPT.replace("CALLS", "".join(calls)) if calls else ""


def _filler(found: Selection) -> Callable[[str], Template | str]:
    """Return what puts folders into a text: variables of installations, paths of the machine."""
    # The providers that take no folder; that of cxi is libcxi's, that of verbs may be rdma-core's.
    places = " ".join(
        need.option
        for part in found.parts.values()
        for need in part.component.needs
        if part.component.providers and found.there(part, need)
    )
    providers = " ".join(
        f"--enable-{one}" for one in found.request.providers if f"--enable-{one}=" not in places
    )

    def where(match: re.Match[str]) -> str:
        name = match[1]
        if name == PREFIX:
            return "%(installdir)s"
        if name == PROVIDERS:
            return providers
        part = found.parts[name]
        return part.external.prefix if part.external else f"${part.component.root}"

    def fill(text: str) -> Template | str:
        return Template(_PLACE.sub(where, text)) if text else ""

    return fill


def _needed(found: Selection, part: SelectedComponent) -> Iterator[SelectedComponent]:
    for need in part.component.needs:
        if found.there(part, need):
            yield found.parts[need.component]


def _dependencies(found: Selection, part: SelectedComponent) -> list[tuple[Any, ...]]:
    """Return the dependencies as EasyBuild has them; a plain path of the machine is none."""
    listed: list[tuple[Any, ...]] = []
    for one in _needed(found, part):
        if one.external is None:
            suffix = _suffix(found, one)
            name = one.component.software
            listed.append((name, one.version, suffix) if suffix else (name, one.version))
        elif one.external.module:
            listed.append((one.external.module, EXTERNAL_MODULE))
    return listed


def _metadata(found: Selection) -> str:
    """Return what EasyBuild is told of the machine's modules, in the format of INI files.

    Source: "Using external modules", https://docs.easybuild.io/using-external-modules/.
    """
    sections: Mapping[str, SelectedComponent] = {
        part.external.module: part
        for part in found.parts.values()
        if part.external and part.external.module
    }
    return "\n".join(
        f"[{module}]\nname = {part.component.software}\nversion = {part.version}\n"
        f"prefix = {part.external.prefix if part.external else ''}\n"
        for module, part in sorted(sections.items())
    )
