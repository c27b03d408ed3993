"""A program and an artefact to the levels at which it could be injected, the safest one first.

What changes least comes first among levels with one verdict: a plug-in beside those that libfabric
has already, the library that talks to the driver, libfabric, the MPI.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value, replace
from stackproof.inject.attempt import Question
from stackproof.inject.findings.libraries import fault_of
from stackproof.inject.hook_manifest import Compact
from stackproof.inject.judge import judge
from stackproof.inject.model import Cause, Effect, Finding, InjectionVerdict, verdict_of
from stackproof.inject.releases import number_of
from stackproof.inject.replacement import find_replacement
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader import FileView, MappedObject, load_program

# -------------------- An artefact as it describes itself, and which of its variants fits a machine

LEVELS = ("provider", "libcxi", "libfabric", "mpi")
"""Where an artefact can be injected, the level that touches least first."""

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Variant(Value):
    """One variant as its artefact describes it: a folder, a release of SHS, what it offers.

    `libcxi` is the newest version node of the libcxi that it is made with; empty without one.
    """

    folder: str
    shs: str = ""
    libcxi: str = ""
    levels: tuple[str, ...] = ()


class ArtefactMetadata(Value):
    """What an artefact says of itself."""

    SCHEMA: ClassVar[str] = "stackproof/artefact/1"

    name: str
    place: str
    variants: tuple[Variant, ...]


def check_name(text: str) -> str:
    """Return a name that can be a folder; raises `StackproofError` (USAGE)."""
    if _NAME.fullmatch(text):
        return text
    raise fail(
        Reason.USAGE,
        f"`{text}` is no name of an artefact",
        hint="letters, digits, `.`, `_` and `-`, for example net-1",
    )


def check_release(text: str) -> str:
    """Return a release of the Slingshot host software; raises `StackproofError` (USAGE)."""
    if _RELEASE.fullmatch(text):
        return text
    raise fail(Reason.USAGE, f"`{text}` is no release", hint="for example: --shs 12.0.2")


def choose_variant(artefact: ArtefactMetadata, shs: str, node: str) -> Variant:
    """Return the variant for a release of SHS, or for the newest node of a machine's own libcxi.

    A libcxi that is newer than the driver asks it for what it does not know, so that the newest one
    that is not newer than the machine's own fits. Raises `StackproofError` (USAGE) when none does,
    or when nothing says which.
    """
    names = ", ".join(one.shs or one.folder for one in artefact.variants)
    if shs:
        for one in artefact.variants:
            if shs in {one.shs, one.folder}:
                return one
        raise fail(Reason.USAGE, f"there is no variant for SHS {shs}", hint=f"there are: {names}")
    if len(artefact.variants) == 1:
        return artefact.variants[0]
    fits = [one for one in artefact.variants if node and _number(one.libcxi) <= _number(node)]
    if not fits:
        why = f"none is as old as `{node}`" if node else "this machine has no libcxi of its own"
        raise fail(
            Reason.USAGE,
            f"which variant of `{artefact.name}` fits is not known: {why}",
            hint=f"name it: --shs, one of {names}",
        )
    return max(fits, key=lambda one: (_number(one.libcxi), _number(one.shs)))


def _number(text: str) -> tuple[int, ...]:
    """Return the numbers of a node or a release, for comparing."""
    return tuple(map(int, re.findall(r"\d+", text)))


def newest_node(elf: ElfFile, kind: str) -> str:
    """Return the newest version node of a kind (`LIBCXI`) that a library defines."""
    nodes = [one.name for one in elf.version_definitions if one.name.startswith(f"{kind}_")]
    return max(nodes, key=_number, default="")


_ORDER = [*InjectionVerdict]
_WHY = {
    "provider": "adds a plug-in to the program's own libfabric; nothing is replaced",
    "libcxi": "replaces the library that talks to the network's driver, and nothing above it",
    "libfabric": "replaces libfabric; the program keeps its MPI",
    "mpi": "replaces the MPI with all that is below it",
}


class Level(Value):
    """A level, whether the program works when it is injected there, and with which variables."""

    name: str
    why: str
    verdict: InjectionVerdict
    environment: Mapping[str, str]
    findings: tuple[Finding, ...]


def rank(
    view: FileView,
    program: str,
    folder: str,
    variant: Variant,
    compact: Compact,
    question: Question,
) -> tuple[Level, ...]:
    """Return all levels of a variant that lies in a folder of the view, the safest one first.

    Raises `StackproofError` when the program itself cannot be read.
    """
    found = []
    for name in variant.levels:
        if name == "provider":
            found.append(_plug_in(view, program, folder, compact, question))
        else:
            level = _replaced(view, program, folder, name, question)
            if name == "mpi":  # what an MPI must be told of its new place
                level = _told(level, environment_in(compact, folder))
            found.append(level)
    return tuple(sorted(found, key=lambda one: (_ORDER.index(one.verdict), LEVELS.index(one.name))))


def environment_in(compact: Compact, folder: str) -> dict[str, str]:
    """Return what an MPI must be told, for the folder in which the artefact lies now."""
    old = compact.place
    return {
        name: folder + value[len(old) :] if value.startswith(f"{old}/") else value
        for name, value in compact.environment.get("mpi", {}).items()
    }


def _replaced(view: FileView, program: str, folder: str, name: str, question: Question) -> Level:
    """Return what replacing the libraries of one level does."""
    found = find_replacement(view, posixpath.join(folder, name))
    judgement = judge(view, program, replace(found, prefix=folder), question)
    return Level(
        name=name,
        why=_WHY[name],
        verdict=judgement.verdict,
        environment=judgement.environment,
        findings=judgement.findings,
    )


def _told(level: Level, environment: Mapping[str, str]) -> Level:
    """Return a level with what an MPI must be told, which is of the artefact's own making."""
    words = " ".join(f"{name}={value}" for name, value in environment.items())
    findings = tuple(
        replace(one, remedy=words) if one.cause is Cause.RELOCATED else one
        for one in level.findings
    )
    return replace(level, environment={**level.environment, **environment}, findings=findings)


def _plug_in(
    view: FileView, program: str, folder: str, compact: Compact, question: Question
) -> Level:
    """Return what adding plug-ins to the program's libfabric does."""
    place = posixpath.join(folder, "provider")
    closure = load_program(view, program, machine=question.machine, setting=question.setting)
    fabric = closure.named("libfabric.so.1")
    findings: list[Finding] = []
    if fabric is None:
        findings.append(
            Finding(
                cause=Cause.NOT_INJECTED,
                effect=Effect.FAILS,
                message="the program loads no libfabric that could open plug-ins",
                file=program,
                remedy="inject at another level",
            )
        )
    else:
        findings += _age(fabric, compact)
        paths = [posixpath.join(place, name) for name in view.listing(place)]
        faults = {path: fault_of(closure, path, fabric.number) for path in paths}
        effect = Effect.FAILS if all(faults.values()) else Effect.NOTE
        findings += [
            Finding(
                cause=Cause.PLUGIN,
                effect=effect,
                message=f"the program cannot open `{path}`: {why}",
                file=path,
                provider=fabric.path,
            )
            for path, why in faults.items()
            if why
        ]
    return Level(
        name="provider",
        why=_WHY["provider"],
        verdict=verdict_of(tuple(findings)),
        environment={"FI_PROVIDER_PATH": place},
        findings=tuple(findings),
    )


def _age(fabric: MappedObject, compact: Compact) -> Iterator[Finding]:
    """Yield that plug-ins are of a newer libfabric: they may use what the older one has not."""
    own = newest_node(fabric.elf, "FABRIC")
    built = max(compact.provides.get("libfabric.so.1", ()), key=number_of, default="")
    if number_of(built) > number_of(own):
        yield Finding(
            cause=Cause.PLUGIN,
            effect=Effect.CANNOT_TELL,
            message=f"the plug-ins are of a libfabric with {built}, the program's has "
            f"{own or 'no versions'}",
            file=fabric.path,
            version=built,
            remedy="inject libfabric itself, which came with them",
        )


def safest(levels: Sequence[Level]) -> Level | None:
    """Return the level to take: the first one, unless even that fails."""
    return levels[0] if levels and levels[0].verdict is not InjectionVerdict.FAILS else None
