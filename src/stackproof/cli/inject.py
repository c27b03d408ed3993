"""`stackproof inject`: whether programs work with another MPI, before anything is run."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stackproof import harmless, noun
from stackproof.cli import inject_target
from stackproof.cli.inject_words import EXIT_CODES, VERDICT_WORDS
from stackproof.errors import Location, Reason, StackproofError, fail
from stackproof.host import files, injectplace, roots, scripts
from stackproof.host.elfview import HostView
from stackproof.host.injectplace import Place
from stackproof.inject import (
    Finding,
    Judgement,
    Question,
    Replacement,
    Verdict,
    find_replacement,
    judge,
    starting,
    tree,
    worst,
)
from stackproof.inject.manifest import MergedView, describe
from stackproof.loader import FileView, Machine, Setting


def run_check(args: argparse.Namespace) -> int:
    """Print a judgement for every program; the exit code is that of the worst one."""
    launcher = injectplace.launcher_kind(args.launcher, starting.OFFERS) if args.launcher else ""
    question = Question(
        machine=_machine(args),
        setting=_setting(args),
        launcher=launcher,
        launcher_file=os.path.abspath(args.launcher) if os.path.isfile(args.launcher) else "",
        namespaces=args.namespaces,
        releases=injectplace.load_releases,
    )
    question = inject_target.asked_of(args, question)
    args.programs = args.programs or [_command(args.root)]
    if args.upgrade:
        return _upgrade(args, question)
    if injectplace.is_artefact(args.replacement):
        from stackproof.cli import inject_artefact  # noqa: PLC0415 - few are artefacts

        return inject_artefact.run_levels(args, question, _reasons)
    named = _judge_named(args, args.replacement, question)
    judgements = [judgement for _, judgement in named]
    verdict = worst(tuple(judgement.verdict for judgement in judgements))
    if args.json:
        data = {"verdict": verdict, "programs": [noun.to_data(one) for one in judgements]}
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        tree_too = args.tree or len(judgements) == 1
        for place, one in named:
            print(
                _text(one, place=place, tree_too=tree_too),
                end="\n\n" if one is not judgements[-1] else "\n",
            )
        print(_how_to_mount(args, judgements), end="")
        if len(judgements) > 1:
            print(f"\n{_summary(judgements)}")
    return int(EXIT_CODES[verdict])


def run_manifest(args: argparse.Namespace) -> int:
    """Write the manifest of a place."""
    place = injectplace.load_place(args.place, args.root)
    if place.manifest is not None:
        raise fail(Reason.USAGE, f"`{args.place}` is a manifest already")
    view = place.view(args.root)
    programs: tuple[str, ...] = ()
    try:
        programs = injectplace.programs_of(place, view)
    except StackproofError as error:
        if error.reason is not Reason.NO_MPI:
            raise
    path = place.prefix or place.path
    if place.image:
        with contextlib.suppress(StackproofError):  # it has no MPI, or several
            path = injectplace.mpi_of(place, view)
    manifest = describe(view, path, programs, machine=_machine(args), setting=_setting(args))
    text = noun.to_json(manifest, indent=None)
    if args.output:
        files.write(args.output, text)
        print(
            f"{args.output}: {len(manifest.files)} files, {len(manifest.programs)} programs, "
            f"MPI: {', '.join(mpi.family for mpi in manifest.mpis) or 'none'}",
            file=sys.stderr,
        )
    else:
        print(text, end="")
    return 0


def run_container(args: argparse.Namespace) -> int:
    """Write the definition that puts a replacement into a container."""
    from stackproof.cli import inject_apply, inject_hook  # noqa: PLC0415 - not for `check`
    from stackproof.inject.containing import FORMS, HOOKS, plan_containing  # noqa: PLC0415

    question = Question(
        machine=_machine(args),
        setting=_setting(args),
        releases=injectplace.load_releases,
    )
    if args.form in HOOKS or injectplace.is_artefact(args.replacement):
        return inject_hook.run_hook(args, question)
    prefix = injectplace.load_prefix(args.replacement)
    judgements = _judge_all(args, args.replacement, question)
    inject_apply.refuse(args, judgements)
    text = FORMS[args.form](plan_containing(judgements, {prefix.path: prefix.path}))
    if args.output:
        files.write(args.output, text)
    else:
        print(text, end="")
    return 0


def _machine(args: argparse.Namespace) -> Machine:
    here = injectplace.this_machine()
    return Machine(architecture=here.architecture, level=args.isa or here.level)


def _setting(args: argparse.Namespace, image: Mapping[str, str] | None = None) -> Setting:
    """Return how programs are started: by an image's variables, or those of the command line."""
    told = {**(image or {}), **_environment(args.env)}
    if args.library_path:
        told["LD_LIBRARY_PATH"] = args.library_path
    audit = tuple(filter(None, told.get("LD_AUDIT", "").split(":")))
    return replace(injectplace.setting_of(told), audit=audit)


def _judge_all(args: argparse.Namespace, wanted: str, question: Question) -> list[Judgement]:
    """Return the judgements of all programs that some places hold, as `_judge_named` does."""
    return [judgement for _, judgement in _judge_named(args, wanted, question)]


def _judge_named(
    args: argparse.Namespace, wanted: str, question: Question
) -> list[tuple[str, Judgement]]:
    """Return the judgements of all programs that some places hold, with the place as it was named.

    The processor is that of the manifest of the replacement, unless it is told. Of several places
    one that holds no program is told and left out. Raises `StackproofError` (NO_MPI) where none
    does.
    """
    other = injectplace.load_place(wanted)
    if other.manifest is not None and args.isa is None:
        question = replace(question, machine=other.manifest.machine)
    found: list[tuple[str, Judgement]] = []
    empty: list[str] = []
    for text in args.programs:
        place = injectplace.load_program(text, args.root)
        view, replacement = _joined(place, other, args.root)
        own = view if isinstance(view, HostView) else place.view(args.root)
        try:
            paths = injectplace.programs_of(place, own)
        except StackproofError as error:
            if error.reason is not Reason.NO_MPI:
                raise
            empty.append(text)
            continue
        asked = question if place.manifest else _started(args, place, question)
        asked = inject_target.asked_in(place, args.root, asked)
        view = inject_target.seen_there(view, place, args.root, asked)
        for path in paths:
            program = _run_by(own, path, place, args.root)
            one = judge(view, program, replacement, asked)
            found.append((text, one if program == path else scripts.of_script(one, path)))
        _tell_skipped(own)
    if not found:
        raise fail(
            Reason.NO_MPI,
            f"nothing in {', '.join(f'`{text}`' for text in empty)} calls MPI",
            where=Location(file=empty[0]),
            hint="name a program, or a folder or an image that holds some",
        )
    for text in empty:
        print(f"note: nothing in `{text}` calls MPI, so it is left out", file=sys.stderr)
    args.programs = [text for text in args.programs if text not in empty]
    return found


def _run_by(view: FileView, path: str, place: Place, root: str) -> str:
    """Return the program that runs a script, else the path itself."""
    if not isinstance(view, HostView):
        return path
    here = root == "/" and not place.image
    paths = os.environ if here else place.root(root).config.environment
    return scripts.program_of(view, path, paths.get("PATH", "/usr/bin:/bin").split(":"))


def _tell_skipped(view: FileView) -> None:
    """Print which files of a folder could not be looked at."""
    for path in view.skipped if isinstance(view, HostView) else ():
        shown = harmless.line(path.encode(errors="backslashreplace").decode())
        print(f"note: the name of `{shown}` is not UTF-8, so it is left out", file=sys.stderr)


def _how_to_mount(args: argparse.Namespace, judgements: Sequence[Judgement]) -> str:
    """Return what must be mounted for the judgements to hold, empty where all is in place."""
    if all(one.verdict is Verdict.FAILS for one in judgements) or args.root != "/":
        return ""
    image = _is_squashed(args.replacement)
    own = next((text for text in args.programs if _is_squashed(text)), "")
    if own:
        start = f"stackproof run {own} --inject {args.replacement}"
    elif image:
        start = f"stackproof run {args.replacement}"
    else:
        return ""
    both = bool(own) and image
    what = "both images are" if both else f"`{args.replacement if image else own}` is"
    return f"\nthis holds where {what} mounted: {start} -- COMMAND\n"


def _is_squashed(text: str) -> bool:
    return roots.is_squashfs(text.partition(":")[0])


def _command(root: str) -> str:
    """Return the program that a container's image starts; raises `StackproofError` (USAGE)."""
    words = roots.load_root(root).config.command
    if not words:
        raise fail(
            Reason.USAGE,
            "no program was named" if root == "/" else f"`{root}` has no command of its own",
            hint="name programs: stackproof inject check PROGRAM … --with PREFIX",
        )
    return words[0]


def _started(args: argparse.Namespace, place: Place, question: Question) -> Question:
    """Return the question with the variables that a container's image sets for its programs."""
    return replace(question, setting=_setting(args, place.root(args.root).config.environment))


def _environment(words: Sequence[str]) -> dict[str, str]:
    """Return variables from NAME=VALUE; raises `StackproofError` (USAGE) for what is none."""
    wrong = next((word for word in words if "=" not in word), None)
    if wrong is not None:
        raise fail(Reason.USAGE, f"`{wrong}` is no NAME=VALUE")
    return dict(word.split("=", 1) for word in words)


def _joined(place: Place, other: Place, root: str) -> tuple[FileView, Replacement]:
    """Return the view that has both a program and what is to be injected."""
    target = other.prefix or other.path
    if place.manifest is None and other.manifest is None and not other.image:
        clash = sorted(place.binds.keys() & other.binds.keys())
        if clash and place.binds[clash[0]] != other.binds[clash[0]]:
            raise fail(
                Reason.MOUNT_POINT_CLASH,
                f"both images are for `{clash[0]}`",
                hint="name another mount point for one of them: IMAGE:/another/place",
            )
        more = dict(other.binds)
        if (root != "/" or place.image) and not other.binds:
            more[other.path] = other.path
        view = place.view(root, more)
        return view, find_replacement(view, target)
    above = other.view("/")
    prefix = find_replacement(above, injectplace.mpi_of(other, above)).prefix
    merged = MergedView(place.view(root), above, prefix)
    return merged, find_replacement(merged, prefix if other.image else target)


def _upgrade(args: argparse.Namespace, question: Question) -> int:
    """Print which programs get worse; the exit code says whether any fails that did not."""
    old, new = args.upgrade
    named = _judge_named(args, old, question)
    before = [judgement for _, judgement in named]
    after = _judge_all(args, new, question)
    titles = {id(judgement): _title(place, judgement) for place, judgement in named}
    order = list(EXIT_CODES)
    pairs = list(zip(before, after, strict=True))
    worse = [pair for pair in pairs if order.index(pair[1].verdict) > order.index(pair[0].verdict)]
    if args.json:
        data = {
            "verdict": worst(tuple(pair[1].verdict for pair in worse)),
            "worse": [{"old": noun.to_data(a), "new": noun.to_data(b)} for a, b in worse],
            "same-or-better": [b.program for a, b in pairs if (a, b) not in worse],
        }
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        for one, two in worse:
            was, is_now = VERDICT_WORDS[one.verdict], VERDICT_WORDS[two.verdict]
            head = f"{titles[id(one)]}: {was} with {old}, {is_now} with {new}"
            print("\n".join([harmless.line(head), *_reasons(two.findings)]))
        both = sum(a.verdict is b.verdict is Verdict.FAILS for a, b in pairs)
        more = f"; {both} fail with both" if both else ""
        print(f"{len(worse)} of {len(pairs)} programs get worse from {old} to {new}{more}")
    return int(EXIT_CODES[worst(tuple(pair[1].verdict for pair in worse))])


def _summary(judgements: Sequence[Judgement]) -> str:
    counts = [
        f"{sum(one.verdict is verdict for one in judgements)} {words}"
        for verdict, words in VERDICT_WORDS.items()
        if any(one.verdict is verdict for one in judgements)
    ]
    return f"{len(judgements)} programs: {', '.join(counts)}"


def _title(place: str, judgement: Judgement) -> str:
    """Return a program's path, and the image that has it: images share their mount points."""
    return judgement.program + (f" in {place}" if _is_squashed(place) else "")


def _text(judgement: Judgement, *, place: str, tree_too: bool) -> str:
    """Return a judgement for people; `place` is what was named for the program."""
    lines = [f"{_title(place, judgement)}: {VERDICT_WORDS[judgement.verdict]}"]
    lines.append(f"  with {judgement.replacement}" + _family(judgement))
    for name, value in judgement.environment.items():
        lines.append(f"  {name}={shlex.quote(value)}")
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
    lines = [f"  {finding.effect}: {finding.message}{before} [{finding.cause}]"]
    if finding.file:
        lines.append(f"    --> {finding.file}")
    if finding.remedy:
        lines.append(f"    hint: {finding.remedy}")
    return lines
