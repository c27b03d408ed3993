"""`stackproof inject`: whether programs work with another MPI, before anything is run."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stackproof import noun
from stackproof.cli import inject_apply, inject_artefact, inject_hook, inject_prove, inject_target
from stackproof.cli.inject_apply import EXIT_CODES, VERDICT_WORDS
from stackproof.errors import Reason, StackproofError, fail
from stackproof.host import artefacting, files, injectplace, roots
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
from stackproof.inject.containing import FORMS, HOOKS, plan_containing
from stackproof.inject.manifest import MergedView, describe
from stackproof.loader import FileView, Machine, Setting
from stackproof.loader.machine import LEVELS

_PLACE = (
    "a program, a folder of programs, IMAGE[:MOUNT], a container's image (oci:DIR[:TAG], an "
    "archive of `podman save`, a SIF file), or a manifest"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's actions and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "say whether programs work with another MPI (or libfabric), and how"
    check = actions.add_parser("check", help=text, description=text, allow_abbrev=False)
    text = f"{_PLACE}; left out: the command of the image that --root names"
    check.add_argument("programs", metavar="PROGRAM", nargs="*", help=text)
    target = check.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--with",
        dest="replacement",
        metavar="PREFIX",
        help="what is to be injected: an MPI's prefix, a folder of libraries, one library, "
        "IMAGE[:MOUNT], a manifest, or an artefact, of which every level is judged",
    )
    target.add_argument(
        "--upgrade",
        nargs=2,
        metavar=("OLD", "NEW"),
        help="say which programs work with OLD and no longer with NEW",
    )
    check.add_argument(
        "--launcher",
        metavar="NAME|FILE",
        default="",
        help=f"what starts the ranks: {', '.join(starting.OFFERS)}, or an mpiexec file",
    )
    check.add_argument(
        "--namespaces",
        choices=starting.NAMESPACES,
        default="none",
        help="which ranks share a user namespace, in containers without root",
    )
    check.add_argument("--tree", action="store_true", help="show who loads what, for every program")
    check.add_argument("--json", action="store_true", help="print the judgements as JSON")
    _add_setting(check)
    inject_artefact.add_variant(check)
    inject_target.add_target(check)
    check.set_defaults(run=run_check)

    text = "write what an MPI or programs provide and need, for checks on another machine"
    manifest = actions.add_parser("manifest", help=text, description=text, allow_abbrev=False)
    manifest.add_argument("place", metavar="PLACE", help=f"an MPI's prefix, {_PLACE}")
    manifest.add_argument("-o", "--output", metavar="FILE", help="the file; left out: print it")
    _add_setting(manifest)
    manifest.set_defaults(run=run_manifest)

    text = "write what puts another MPI into a container, for programs in it"
    container = actions.add_parser("container", help=text, description=text, allow_abbrev=False)
    _configure_container(container)
    text = "put another MPI under programs: into EESSI's override folder, or by start scripts"
    apply = actions.add_parser("apply", help=text, description=text, allow_abbrev=False)
    inject_apply.configure_apply(apply)
    text = "make an artefact of libfabric, libcxi, xpmem or an MPI, to be injected anywhere"
    artefact = actions.add_parser("artefact", help=text, description=text, allow_abbrev=False)
    inject_artefact.configure_artefact(artefact)
    inject_prove.add_to(actions)
    text = "put back what was there before the last `inject apply`"
    undo = actions.add_parser("undo", help=text, description=text, allow_abbrev=False)
    inject_apply.configure_undo(undo)


def _configure_container(container: argparse.ArgumentParser) -> None:
    container.add_argument("programs", metavar="PROGRAM", nargs="+", help="programs in the root")
    container.add_argument(
        "--with", dest="replacement", metavar="PREFIX", required=True, help="the MPI's prefix"
    )
    container.add_argument(
        "--form",
        choices=(*FORMS, *HOOKS),
        required=True,
        help="options of a tool, a CDI file, or a hook, which needs an artefact as PREFIX",
    )
    container.add_argument(
        "--accept-unknown", action="store_true", help="go on when the check cannot tell"
    )
    container.add_argument("-o", "--output", metavar="FILE", help="the file; left out: print it")
    _add_setting(container)
    inject_hook.configure_hook(container)
    container.set_defaults(run=run_container)


def _add_setting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--library-path",
        metavar="DIRS",
        default="",
        help="LD_LIBRARY_PATH that the programs are started with, without an injection",
    )
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a variable that they are started with: LD_LIBRARY_PATH, LD_PRELOAD or LD_AUDIT",
    )
    parser.add_argument(
        "--root",
        metavar="DIR|IMAGE",
        default="/",
        help="root of the programs: a folder, oci:DIR[:TAG], an archive of `podman save`, or a "
        "SIF file",
    )
    parser.add_argument(
        "--isa",
        choices=LEVELS,
        help="level of the processors that programs will run on; left out: this machine's",
    )


def run_check(args: argparse.Namespace) -> int:
    """Print a judgement for every program; the exit code is that of the worst one."""
    launcher = injectplace.launcher_kind(args.launcher, starting.OFFERS) if args.launcher else ""
    question = Question(
        machine=_machine(args),
        setting=_setting(args),
        launcher=launcher,
        namespaces=args.namespaces,
        releases=injectplace.load_releases,
    )
    question = inject_target.asked_of(args, question)
    args.programs = args.programs or [_command(args.root)]
    if args.upgrade:
        return _upgrade(args, question)
    if artefacting.is_artefact(args.replacement):
        return inject_artefact.run_levels(args, question, _reasons)
    judgements = _judge_all(args, args.replacement, question)
    verdict = worst(tuple(judgement.verdict for judgement in judgements))
    if args.json:
        data = {"verdict": verdict, "programs": [noun.to_data(one) for one in judgements]}
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        blocks = [_text(one, tree_too=args.tree or len(judgements) == 1) for one in judgements]
        print("\n\n".join(blocks))
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
    question = Question(
        machine=_machine(args),
        setting=_setting(args),
        releases=injectplace.load_releases,
    )
    if args.form in HOOKS or artefacting.is_artefact(args.replacement):
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
    """Return the judgements of all programs that some places hold.

    The processor is that of the manifest of the replacement, unless it is told.
    """
    other = injectplace.load_place(wanted)
    if other.manifest is not None and args.isa is None:
        question = replace(question, machine=other.manifest.machine)
    found = []
    for text in args.programs:
        place = injectplace.load_place(text, args.root)
        view, replacement = _joined(place, other, args.root)
        own = view if isinstance(view, HostView) else place.view(args.root)
        paths = injectplace.programs_of(place, own)
        asked = question if place.manifest else _started(args, place, question)
        asked = inject_target.asked_in(place, args.root, asked)
        view = inject_target.seen_there(view, place, args.root, asked)
        found += [judge(view, path, replacement, asked) for path in paths]
    return found


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
    before = _judge_all(args, old, question)
    after = _judge_all(args, new, question)
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
            head = f"{one.program}: {was} with {old}, {is_now} with {new}"
            print("\n".join(map(_harmless, [head, *_reasons(two.findings)])))
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


def _text(judgement: Judgement, *, tree_too: bool) -> str:
    """Return a judgement for people."""
    lines = [f"{judgement.program}: {VERDICT_WORDS[judgement.verdict]}"]
    lines.append(f"  with {judgement.replacement}" + _family(judgement))
    for name, value in judgement.environment.items():
        lines.append(f"  {name}={shlex.quote(value)}")
    lines += _reasons(judgement.findings)
    if tree_too:
        lines += ["", tree.render(judgement.tree)]
    return "\n".join(map(_harmless, "\n".join(lines).split("\n")))


def _family(judgement: Judgement) -> str:
    if not judgement.family:
        return " (no MPI)"
    return f" ({judgement.family}; the program is of the {judgement.abi or 'unknown'} ABI)"


def _reasons(findings: Sequence[Finding]) -> list[str]:
    return [_harmless(line) for finding in findings for line in _reason(finding)]


def _reason(finding: Finding) -> list[str]:
    before = " (without the injection too)" if finding.before else ""
    lines = [f"  {finding.effect}: {finding.message}{before} [{finding.cause}]"]
    if finding.file:
        lines.append(f"    --> {finding.file}")
    if finding.remedy:
        lines.append(f"    hint: {finding.remedy}")
    return lines


def _harmless(line: str) -> str:
    """Return a line without what a terminal would obey: names are the files', not ours."""
    return "".join(character if character.isprintable() else "?" for character in line)
