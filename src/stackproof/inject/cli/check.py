"""`stackproof inject`: whether programs work with another MPI, before anything is run."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence

from stackproof.core import harmless, mountlist, noun
from stackproof.core.effects import files
from stackproof.image.container.effects import roots
from stackproof.inject import tree
from stackproof.inject.attempt import Question
from stackproof.inject.cli.words import EXIT_CODES, KEEPS, VERDICT_WORDS, show_variables, words_of
from stackproof.inject.effects import check
from stackproof.inject.effects import named as inject_named
from stackproof.inject.model import (
    Cause,
    Finding,
    InjectionVerdict,
    Judgement,
    has_mpi_inside,
    worst,
)
from stackproof.inject.options import ContainerRequest, InjectCheckOptions, ProgramOptions
from stackproof.inject.ways import ANY_FOLDER
from stackproof.share.effects import naming


def run_check(asked: InjectCheckOptions) -> int:
    """Print a judgement for every program; the exit code is that of the worst one."""
    of, question = asked.started, check.question_of(asked.started, asked.place)
    of = check.with_command(of)
    if asked.upgrade:
        return _upgrade(of, asked.upgrade, question, as_json=asked.json)
    if inject_named.is_artefact(asked.replacement):
        from stackproof.inject.cli import artefact as cli_artefact  # noqa: PLC0415 - few are artefacts
        from stackproof.inject.effects import artefact  # noqa: PLC0415

        ranked = artefact.ranked(asked.replacement, asked.shs, of, question)
        return cli_artefact.show_levels(ranked, _reasons, as_json=asked.json)
    named = check.judge_named(of, asked.replacement, question, _note)
    if asked.json:
        verdict = worst(tuple(judgement.verdict for _, judgement in named))
        data = {"verdict": verdict, "programs": [noun.to_data(one) for _, one in named]}
        print(json.dumps(data, indent=1, ensure_ascii=False))
        return int(EXIT_CODES[verdict])
    return _show(named, of.root, asked.replacement, tree_too=asked.tree)


def _show(
    named: Sequence[tuple[str, Judgement]], root: str, replacement: str, *, tree_too: bool
) -> int:
    """Print judgements for people and return the exit code."""
    judgements = [judgement for _, judgement in named]
    for place, one in named:
        print(
            _text(one, place=place, tree_too=tree_too),
            end="\n\n" if one is not judgements[-1] else "\n",
        )
    print(_how_to_start(named, root, replacement), end="")
    if len(judgements) > 1:
        print(f"\n{_summary(judgements)}")
    return int(EXIT_CODES[worst(tuple(judgement.verdict for judgement in judgements))])


def run_container(asked: ContainerRequest) -> int:
    """Write the definition that puts a replacement into a container."""
    from stackproof.inject.effects import container  # noqa: PLC0415 - not for `check`

    output = asked.container.output
    text = container.definition(asked.container.started, asked.container, _say)
    if output:
        files.write(output, text)
    else:
        print(text, end="")
    return 0


def _how_to_start(named: Sequence[tuple[str, Judgement]], root: str, replacement: str) -> str:
    """Return the line that starts programs as they were judged; empty where none is needed."""
    if all(each.verdict is InjectionVerdict.FAILS for _, each in named) or root != "/":
        return ""
    image = _is_squashed(replacement)
    own = next((text for text, _ in named if _is_squashed(text)), "")
    ways = [judgement.way for _, judgement in named]
    if not own and any(way.rpath or way.links for way in ways if way.rpath or not image):
        words = ["stackproof", "inject", "apply", *dict.fromkeys(text for text, _ in named)]
        line = shlex.join([*words, "--with", replacement, "--wrapper", ANY_FOLDER])
        return "" if image else f"\nto have all that done, in scripts that start it: {line}\n"
    if not (own or image):
        return ""
    start = ["stackproof", "run", own or replacement]
    if own or any(way.links or way.preload for way in ways):  # which `run` makes and sets
        start += ["--inject", replacement]
    both = bool(own) and image
    what = "both images are" if both else f"`{replacement if image else own}` is"
    line = shlex.join([*start, "--", *_command(named)])
    return f"\nthis holds where {what} mounted: {line}\n"


def _command(named: Sequence[tuple[str, Judgement]]) -> list[str]:
    """Return the words that start the one program that was judged, else those that stand for it."""
    (place, judgement), *others = named
    if others or judgement.verdict is InjectionVerdict.UNKNOWN:
        return ["COMMAND"]
    launcher = ["mpiexec", "-n", "2"] if judgement.family else []
    return [*launcher, judgement.program if os.path.isdir(place) or _is_squashed(place) else place]


def _is_squashed(text: str) -> bool:
    return roots.is_squashfs(mountlist.split(naming.text_of(text))[0])


def _upgrade(
    of: ProgramOptions, releases: Sequence[str], question: Question, *, as_json: bool
) -> int:
    """Print which programs get worse; the exit code says whether any fails that did not."""
    old, new = releases
    named = check.judge_named(of, old, question, _note)
    before = [judgement for _, judgement in named]
    places = {place for place, _ in named}
    same = of.changed(programs=tuple(text for text in of.programs if text in places))
    after = [judgement for _, judgement in check.judge_named(same, new, question, _note)]
    titles = {id(judgement): _title(place, judgement) for place, judgement in named}
    order = list(EXIT_CODES)
    pairs = list(zip(before, after, strict=True))
    worse = [pair for pair in pairs if order.index(pair[1].verdict) > order.index(pair[0].verdict)]
    if as_json:
        data = {
            "verdict": worst(tuple(pair[1].verdict for pair in worse)),
            "worse": [{"old": noun.to_data(a), "new": noun.to_data(b)} for a, b in worse],
            "same-or-better": [b.program for a, b in pairs if (a, b) not in worse],
        }
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        for one, two in worse:
            was, is_now = words_of(one), words_of(two)
            head = f"{titles[id(one)]}: {was} with {old}, {is_now} with {new}"
            print("\n".join([harmless.line(head), *_reasons(two.findings)]))
        both = sum(a.verdict is b.verdict is InjectionVerdict.FAILS for a, b in pairs)
        more = f"; {both} fail with both" if both else ""
        print(f"{len(worse)} of {len(pairs)} programs get worse from {old} to {new}{more}")
    return int(EXIT_CODES[worst(tuple(pair[1].verdict for pair in worse))])


def _summary(judgements: Sequence[Judgement]) -> str:
    counts = Counter(map(words_of, judgements))
    shown = [f"{counts[words]} {words}" for words in (*VERDICT_WORDS.values(), KEEPS)]
    kinds = ", ".join(text for text in shown if not text.startswith("0 "))
    return f"{len(judgements)} programs: {kinds}"


def _title(place: str, judgement: Judgement) -> str:
    """Return a program's path, and the image that has it: images share their mount points."""
    return judgement.program + (f" in {place}" if _is_squashed(place) else "")


def _text(judgement: Judgement, *, place: str, tree_too: bool) -> str:
    """Return a judgement for people; `place` is what was named for the program."""
    lines = [f"{_title(place, judgement)}: {words_of(judgement)}"]
    lines.append(f"  with {judgement.replacement}" + _family(judgement))
    environment = {} if has_mpi_inside(judgement) else judgement.environment
    lines += [f"  {line}" for line in show_variables(environment)]
    lines += _reasons(judgement.findings)
    if tree_too:
        lines += ["", *tree.render(judgement.tree)]
    return "\n".join(map(harmless.line, lines))


def _family(judgement: Judgement) -> str:
    if not judgement.family:
        return " (no MPI)"
    return f" ({judgement.family}; the program is of the {judgement.abi or 'unknown'} ABI)"


def _reasons(findings: Sequence[Finding]) -> list[str]:
    return [harmless.line(line) for finding in findings for line in _reason(finding)]


def _reason(finding: Finding) -> list[str]:
    before = " (without the injection too)" if finding.before else ""
    effect = "keeps" if finding.cause is Cause.STATIC else finding.effect
    lines = [f"  {effect}: {finding.message}{before} [{finding.cause}]"]
    if finding.file:
        lines.append(f"    --> {finding.file}")
    if finding.remedy:
        lines.append(f"    hint: {finding.remedy}")
    return lines


def _note(text: str) -> None:
    _say(f"note: {text}")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
