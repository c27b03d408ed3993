"""`stackproof inject artefact`: a network-stack artefact made, and the levels that it fits at."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

from stackproof.core import noun
from stackproof.inject.cli.words import EXIT_CODES, VERDICT_WORDS, show_variables
from stackproof.inject.effects import artefact as artefacts
from stackproof.inject.effects.artefact import Made, Ranked
from stackproof.inject.levels import Level, safest
from stackproof.inject.model import Finding, worst
from stackproof.inject.options import ArtefactOptions


def run_artefact(asked: ArtefactOptions) -> int:
    """Make an artefact, and print what is in it."""
    artefact, made = artefacts.make(asked)
    output = os.path.abspath(asked.output.rstrip("/"))
    if asked.json:
        variants = [noun.to_data(one) for one in made]
        data = {"output": output, "place": artefact.place, "variants": variants}
        print(json.dumps(data, indent=1, ensure_ascii=False))
        return 0
    print(f"made {output}, for {artefact.place} in containers")
    for one in made:
        print("\n".join(_said(one)))
    return 0


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


def show_levels(
    found: Ranked, reasons: Callable[[Sequence[Finding]], list[str]], *, as_json: bool
) -> int:
    """Print at which levels programs work with an artefact, the safest one first.

    The exit code is that of the best level of the program for which that is the worst.
    """
    if as_json:
        programs = {
            path: [noun.to_data(one) for one in levels] for path, levels in found.programs.items()
        }
        data = {"variant": found.variant.folder, "programs": programs}
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        print(f"{found.artefact.name}, variant {found.variant.folder}")
        for path, levels in found.programs.items():
            print("\n".join(_levels(path, levels, reasons)))
    best = tuple(levels[0].verdict for levels in found.programs.values())
    return int(EXIT_CODES[worst(best)])


def _levels(
    path: str, found: Sequence[Level], reasons: Callable[[Sequence[Finding]], list[str]]
) -> list[str]:
    best = safest(found)
    lines = [f"{path}: {'inject at the level of ' + best.name if best else 'no level works'}"]
    for number, level in enumerate(found, 1):
        lines.append(f"{number}. {level.name}: {VERDICT_WORDS[level.verdict]}; {level.why}")
        lines += [f"  {line}" for line in show_variables(level.environment)]
        lines += reasons(level.findings)
    return lines
