"""Artefacts made of what is installed, and the levels at which programs work with one."""

from __future__ import annotations

import os
from collections.abc import Mapping

from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value, replace
from stackproof.inject.artefact import ArtefactRequest
from stackproof.inject.attempt import Question
from stackproof.inject.effects import artefact as artefacts
from stackproof.inject.effects import named
from stackproof.inject.effects.artefact import Made, ReadArtefact
from stackproof.inject.effects.check import machine_of
from stackproof.inject.hook_manifest import Compact
from stackproof.inject.levels import (
    ArtefactMetadata,
    Level,
    Variant,
    check_name,
    check_release,
    choose_variant,
    rank,
)
from stackproof.inject.options import ArtefactOptions, ProgramOptions

ARTEFACT_FOLDER = "/opt/stackproof"


class Chosen(Value):
    """A variant of an artefact, and the level that it is injected at, empty for any."""

    held: ReadArtefact
    variant: Variant
    level: str = ""

    @property
    def folder(self) -> str:
        """Return the folder of the variant, where its artefact was read."""
        return self.held.folder(self.variant)

    @property
    def compact(self) -> Compact:
        """Return what hooks are told of the variant."""
        return self.held.compacts[self.variant.folder]

    @property
    def environment(self) -> Mapping[str, str]:
        """Return what must be set at the level."""
        return self.compact.environment.get(self.level, {})

    @property
    def replaces(self) -> Mapping[str, str]:
        """Return the files that are put in place at the level, by the names that they replace."""
        return {one.name: one.file for one in self.compact.replaces if one.level == self.level}


class Ranked(Value):
    """A variant of an artefact, and each program's levels with it, the safest first."""

    artefact: ArtefactMetadata
    variant: Variant
    programs: dict[str, tuple[Level, ...]]


def make(options: ArtefactOptions) -> tuple[ArtefactMetadata, tuple[Made, ...]]:
    """Make an artefact and return it, with what is in each variant; raises `StackproofError`."""
    output = os.path.abspath(options.output.rstrip("/"))
    stem = os.path.basename(output).removesuffix(".squashfs")
    name = check_name(options.name or stem)
    releases = [check_release(text) for text in options.shs]
    if len(set(releases)) != len(releases) or len(releases) not in {0, len(options.prefixes)}:
        raise fail(Reason.USAGE, "name one `--shs` for every prefix, and each of them once")
    if not releases and len(options.prefixes) > 1:
        raise fail(Reason.USAGE, "several prefixes are variants: name a `--shs` for each")
    place = _place(options.place or f"{ARTEFACT_FOLDER}/{name}")
    machine = machine_of(options.isa)
    made: list[Made] = []
    with artefacts.staging(output) as folder:
        for number, text in enumerate(options.prefixes):
            shs = releases[number] if releases else ""
            below = f"shs-{shs}" if shs else "default"
            wish = ArtefactRequest(
                name=name, place=f"{place}/{below}", tag="0" * 8, machine=machine, shs=shs
            )
            source = named.load_place(text)
            made.append(artefacts.make_variant(source, wish, os.path.join(folder, below)))
        artefact = ArtefactMetadata(
            name=name, place=place, variants=tuple(one.variant for one in made)
        )
        artefacts.publish(artefact, folder, output)
    return artefact, tuple(made)


def _place(text: str) -> str:
    normal = os.path.normpath(text)
    if not normal.startswith("/") or normal == "/" or set(normal) & set(" \t:,"):
        raise fail(
            Reason.USAGE,
            f"`{text}` cannot be the place of an artefact",
            hint="an absolute path without spaces, `:` and `,`, for example /opt/stackproof/net",
        )
    return normal


def choose(held: ReadArtefact, shs: str, level: str = "", *, any_level: bool = False) -> Chosen:
    """Return the variant for a release, or for this machine, and the level to inject at.

    That is the wanted one, or the highest that there is. Raises `StackproofError` (USAGE) for one
    that the artefact has not.
    """
    found = Chosen(
        held=held, variant=choose_variant(held.artefact, shs, artefacts.own_libcxi()), level=level
    )
    have = tuple(dict.fromkeys(one.level for one in found.compact.replaces))
    if any_level or level in have:
        return found
    if level:
        raise fail(
            Reason.USAGE,
            f"`{found.compact.name}` has no level `{level}`",
            hint=f"it has: {', '.join(have)}",
        )
    return replace(found, level=next(n for n in ("mpi", "libfabric", "libcxi") if n in have))


def ranked(replacement: str, shs: str, of: ProgramOptions, question: Question) -> Ranked:
    """Return at which levels programs work with an artefact; raises as reading them does."""
    held = artefacts.load(replacement)
    found = choose(held, shs, any_level=True)
    programs = {}
    for text in of.programs:
        place = named.load_place(text, of.root)
        more = dict(held.place.binds) or ({held.place.path: held.place.path})
        view = place.view(of.root, more if of.root != "/" or held.place.binds else None)
        for path in named.programs_of(place, view):
            levels = rank(view, path, found.folder, found.variant, found.compact, question)
            programs[path] = tuple(levels)
    return Ranked(artefact=held.artefact, variant=found.variant, programs=programs)
