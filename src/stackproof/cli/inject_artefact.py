"""`stackproof inject artefact`: a network-stack artefact made, and the levels that it fits at."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Callable, Sequence

from stackproof import noun
from stackproof.cli import inject_apply
from stackproof.cli.arguments import choices
from stackproof.cli.inject_words import EXIT_CODES, VERDICT_WORDS
from stackproof.errors import Reason, fail
from stackproof.host import artefacting, files, injectplace
from stackproof.host.artefacting import Held, Made
from stackproof.inject import Finding, Question, worst
from stackproof.inject.artefact import Wish
from stackproof.inject.compact import Compact
from stackproof.inject.levels import Level, rank, safest
from stackproof.inject.variants import (
    Artefact,
    Variant,
    check_name,
    check_release,
    choose_variant,
)


def run_artefact(args: argparse.Namespace) -> int:
    """Make an artefact, and print what is in it."""
    output = os.path.abspath(args.output.rstrip("/"))
    stem = os.path.basename(output).removesuffix(".squashfs")
    name = check_name(args.name or stem, "an artefact")
    releases = [check_release(text) for text in args.shs]
    if len(set(releases)) != len(releases) or len(releases) not in {0, len(args.prefixes)}:
        raise fail(Reason.USAGE, "name one `--shs` for every prefix, and each of them once")
    if not releases and len(args.prefixes) > 1:
        raise fail(Reason.USAGE, "several prefixes are variants: name a `--shs` for each")
    place = _place(args.place or f"{choices.ARTEFACT_FOLDER}/{name}")
    machine = inject_apply.machine_of(args)
    folder = artefacting.staging(output)
    made: list[Made] = []
    try:
        for number, text in enumerate(args.prefixes):
            shs = releases[number] if releases else ""
            below = f"shs-{shs}" if shs else "default"
            wish = Wish(name=name, place=f"{place}/{below}", tag="0" * 8, machine=machine, shs=shs)
            source = injectplace.load_place(text)
            made.append(artefacting.make_variant(source, wish, os.path.join(folder, below)))
        artefact = Artefact(name=name, place=place, variants=tuple(one.variant for one in made))
        artefacting.publish(artefact, folder, output)
    finally:
        files.remove(folder)
    if args.json:
        data = {"output": output, "place": place, "variants": [noun.to_data(one) for one in made]}
        print(json.dumps(data, indent=1, ensure_ascii=False))
        return 0
    print(f"made {output}, for {place} in containers")
    for one in made:
        print("\n".join(_said(one)))
    return 0


def _place(text: str) -> str:
    normal = os.path.normpath(text)
    if not normal.startswith("/") or normal == "/" or set(normal) & set(" \t:,"):
        raise fail(
            Reason.USAGE,
            f"`{text}` cannot be the place of an artefact",
            hint="an absolute path without spaces, `:` and `,`, for example /opt/stackproof/net",
        )
    return normal


def _said(made: Made) -> list[str]:
    variant = made.variant
    about = f", libcxi up to {variant.libcxi}" if variant.libcxi else ""
    lines = [f"  {variant.folder}: at the level of {', '.join(variant.levels)}{about}"]
    lines += [f"    {path}" for path in made.files]
    for level, values in made.compact.environment.items():
        lines += [
            f"    in containers, for {level}: {name}={value}" for name, value in values.items()
        ]
    if made.left:
        lines.append(f"    not taken, as they are the machine's: {', '.join(made.left)}")
    lines += [f"    plug-in left behind: {text}" for text in made.without]
    return lines


def chosen(held: Held, shs: str) -> Variant:
    """Return the variant for a release, or for this machine; raises `StackproofError` (USAGE)."""
    return choose_variant(held.artefact, shs, artefacting.own_libcxi())


def run_levels(
    args: argparse.Namespace, question: Question, reasons: Callable[[Sequence[Finding]], list[str]]
) -> int:
    """Print at which levels programs work with an artefact, the safest one first.

    The exit code is that of the best level of the program for which that is the worst.
    """
    held = artefacting.load(args.replacement)
    variant = chosen(held, args.shs)
    compact = held.compacts[variant.folder]
    ranked = {}
    for text in args.programs:
        place = injectplace.load_place(text, args.root)
        if place.manifest is not None:
            raise fail(
                Reason.UNSUPPORTED,
                f"`{text}` is a manifest, which does not say what is in folders of artefacts",
                hint="check the program itself",
            )
        more = dict(held.place.binds) or ({held.place.path: held.place.path})
        view = place.view(args.root, more if args.root != "/" or held.place.binds else None)
        for path in injectplace.programs_of(place, view):
            folder = held.folder(variant)
            ranked[path] = rank(view, path, folder, variant, compact, question)
    if args.json:
        programs = {path: [noun.to_data(one) for one in found] for path, found in ranked.items()}
        data = {"variant": variant.folder, "programs": programs}
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        print(f"{held.artefact.name}, variant {variant.folder}")
        for path, found in ranked.items():
            print("\n".join(_levels(path, found, reasons)))
    return int(EXIT_CODES[worst(tuple(found[0].verdict for found in ranked.values()))])


def _levels(
    path: str, found: Sequence[Level], reasons: Callable[[Sequence[Finding]], list[str]]
) -> list[str]:
    best = safest(found)
    lines = [f"{path}: {'inject at the level of ' + best.name if best else 'no level works'}"]
    for number, level in enumerate(found, 1):
        lines.append(f"{number}. {level.name}: {VERDICT_WORDS[level.verdict]}; {level.why}")
        values = level.environment.items()
        lines += [f"  {name}={shlex.quote(value)}" for name, value in values]
        lines += reasons(level.findings)
    return lines


def level_of(compact: Compact, wanted: str) -> str:
    """Return the level that a hook injects at: the wanted one, or the highest that there is.

    Raises `StackproofError` (USAGE) for one that the artefact has not.
    """
    have = tuple(dict.fromkeys(one.level for one in compact.replaces))
    if wanted and wanted not in have:
        raise fail(
            Reason.USAGE,
            f"`{compact.name}` has no level `{wanted}`",
            hint=f"it has: {', '.join(have)}",
        )
    return wanted or next(name for name in ("mpi", "libfabric", "libcxi") if name in have)
