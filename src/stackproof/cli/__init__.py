"""The command line: the table of verbs, and the one place that exits.

Verbs are imported when they are called, and argparse where there is something to parse: most of the
time of `--version` and of a plain `run` would be its own.
"""

from __future__ import annotations

import errno
import importlib
import itertools
import os
import sys

import stackproof
from stackproof.core.cli import streams
from stackproof.core.effects.locale import forget_coercion

TYPE_CHECKING = False  # `typing` takes longer to import than most verbs need
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from stackproof.core.cli.parsing import Parser
    from stackproof.core.errors import StackproofError

# group -> its verbs -> (where a verb is declared, one line of help), in the order of use:
# MODULE:NAME of the class of its options, or of a table with the classes of its actions. Help,
# pages, man pages and completions have this order.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "build": {
        "recipe": (
            "recipe.options:ACTIONS",
            "list the recipes that come with stackproof, or show one",
        ),
        "check": ("build.options:RecipeCheckOptions", "find every problem of a recipe at once"),
        "plan": (
            "build.options:PlanOptions",
            "show the resolved stack and every step of its build",
        ),
        "build": ("build.options:BuildRequest", "build a recipe into a SquashFS image"),
        "shell": ("build.options:BuildShellOptions", "open a shell in the sandbox of a build"),
        "mirror": (
            "build.options:MIRROR_ACTIONS",
            "take the sources of Spack stacks to machines without internet",
        ),
    },
    "run and share": {
        "run": ("mount.options:RunOptions", "run a command with images mounted"),
        "start": ("mount.options:StartOptions", "start a shell with an image mounted"),
        "activate": (
            "mount.options:ActivateOptions",
            "print what a job must mount and set to see images",
        ),
        "inspect": ("mount.options:InspectOptions", "show what an image holds"),
        "image": ("share.options:ACTIONS", "keep, pull, push and sign images by label"),
        "pack": (
            "pack.options:PackOptions",
            "make a pack: a stack that runs where nothing is installed",
        ),
        "install": ("pack.options:InstallOptions", "install an image at a prefix, with a way back"),
    },
    "measure": {
        "bench": (
            "bench.options:BenchOptions",
            "run benchmarks: baseline and challengers, interleaved",
        ),
        "compare": (
            "report.options:CompareRequest",
            "judge measured results: PASS, FAIL or INCONCLUSIVE",
        ),
        "report": (
            "report.options:ReportRequest",
            "write the report of measured results as one HTML file",
        ),
        "import": (
            "bench.options:ImportOptions",
            "turn outputs of OSU or IMB into results to report on",
        ),
    },
    "diagnose and inject": {
        "doctor": (
            "doctor.options:DoctorRequest",
            "find known problems of a stack, a machine or results",
        ),
        "explain": (
            "doctor.options:ExplainOptions",
            "explain a setting or a known problem",
        ),
        "inject": (
            "inject.options:ACTIONS",
            "put another MPI under programs: check, apply, prove, undo",
        ),
    },
    "site and cluster": {
        "site": ("site.options:ACTIONS", "show, check or probe what a machine offers"),
        "cluster": ("cluster.options:ACTIONS", "start, use or stop a cluster on this machine"),
        "completion": (
            "cli.options:ScriptOptions",
            "print what completes command lines in a shell",
        ),
    },
}
VERBS = {name: row for verbs in GROUPS.values() for name, row in verbs.items()}

# verb -> what adds further actions to it: rooms above the verb's own.
_FURTHER_ACTIONS: dict[str, tuple[str, ...]] = {
    "inject": ("prove.options:ACTIONS",),
    "site": ("launch.options:SITE_ACTIONS",),
    "image": (
        "mount.options:IMAGE_ACTIONS",
        "build.options:IMAGE_ACTIONS",
        "share.options:REMOTE_ACTIONS",
        "report.options:ACTIONS",
    ),
}

_USAGE = "stackproof [--debug] VERB …"
# Verbs whose words may be those of another program.
_BECOME_OTHERS = frozenset({"run", "start", "shell"})


def overview() -> str:
    """Return the help of `stackproof` itself: one screen of 40 lines and 80 columns."""
    lines = [f"usage: {_USAGE}", ""]
    for title, verbs in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<10}  {text}" for name, (_, text) in verbs.items()), ""]
    return "\n".join([
        *lines,
        "help on one verb, with examples: stackproof VERB --help",
        "options before the verb: -V, --version (-VV: more); --debug: show tracebacks",
        "exit codes: 0 done, 2 usage, 8 verdict FAIL, 9 no decision; all: man stackproof",
        "",
    ])  # fmt: skip


def build_parser(verb: str | None = None, *, alone: bool = False) -> Parser:
    """Return the parser; only `verb` gets its options (all verbs when it is `*`).

    With `alone` the parser knows no other verb.
    """
    from stackproof.core.cli.parsing import Parser  # noqa: PLC0415 - see above

    parser = Parser(
        prog="stackproof",
        description="Define, build, deploy and prove MPI stacks.",
        epilog="exit codes: 0 done, 1 bug, 2 usage, 3 invalid document, 4 not possible here, "
        "5 build failed, 6 image or mount failed, 7 job failed, 8 verdict FAIL, "
        "9 no decision (INCONCLUSIVE), 10 works with further steps, 11 no work done, "
        "130 interrupted",
    )
    parser.usage = _USAGE
    parser.overview = overview()
    parser.add_argument(
        "-V", "--version", action="count", default=0,
        help="print the version and end; given twice (-VV), also Python and where stackproof is",
    )  # fmt: skip
    parser.add_argument("--debug", action="store_true", help="show a traceback for every error")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name, (place, text) in VERBS.items():
        if alone and name != verb:
            continue
        sub = subparsers.add_parser(name, help=text, description=text)
        if verb in {name, "*"}:
            _configure(sub, place, *_FURTHER_ACTIONS.get(name, ()))
    return parser


def _configure(parser: Parser, *places: str) -> None:
    """Add what a verb takes, as it is declared: its options, or its actions and theirs."""
    from stackproof.core.cli import parsing  # noqa: PLC0415 - see above

    actions: Any = None
    for place in places:
        module, _, name = place.partition(":")
        declared = getattr(importlib.import_module(f"stackproof.{module}"), name)
        if isinstance(declared, type):
            parsing.declare(parser, declared)
        else:
            actions = actions or parsing.add_actions(parser)
            parsing.declare_actions(actions, declared)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    streams.make_usable()
    forget_coercion()
    sys.exit(_main(sys.argv[1:] if argv is None else list(argv)))


def _main(argv: list[str]) -> int:
    """Return the exit code of a command line; everything that can go wrong becomes one here."""
    debug = "--debug" in itertools.takewhile(lambda word: word.startswith("-"), argv)
    code = 0
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (`| head`) has gone: nobody is left to tell
        _abandon_stdout()
    except BaseException as error:  # noqa: BLE001 - the last net
        if debug:
            import traceback  # noqa: PLC0415 - not for --version

            traceback.print_exc()
        failure = _guess_files(_explain(error), argv)
        code = failure.reason.exit_code
        _end_live_line()
        print(failure, file=sys.stderr)
        if _wants_json(argv):
            _print_json(failure)
    return code


def _run(argv: list[str]) -> int:
    if argv in (["--version"], ["-V"]):
        print(_version(1))
        return 0
    if argv[:1] == ["run"] and argv[2:3] == ["--"] and argv[3:] and not argv[1].startswith("-"):
        # Before every command of a user, and nothing to parse: `run IMAGE -- COMMAND`.
        from stackproof.mount.cli import run  # noqa: PLC0415 - see above

        return run.plain(argv[1], argv[3:])
    try:
        args = _parse(argv)
    except SystemExit as stop:  # argparse has printed help
        return stop.code if isinstance(stop.code, int) else 0
    if args.version:
        print(_version(args.version))
        return 0
    if args.verb is None:
        build_parser().print_help(sys.stderr)
        return 2
    if getattr(args, "json", False):
        streams.prepare_for_json()
    import signal  # noqa: PLC0415 - slow, and the kernel takes mounts away by itself

    from stackproof.core.cli import parsing  # noqa: PLC0415 - imported by who parsed

    # SIGTERM unwinds like Ctrl-C, so that nothing half-written stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if hasattr(args, "outputs"):
        _claim_outputs(args)
    module, _, function = args.run.partition(":")
    verb = importlib.import_module(f"stackproof.{module}")
    return int(getattr(verb, function)(parsing.value_of(args.options, args)))


def _parse(argv: list[str]) -> argparse.Namespace:
    before = list(itertools.takewhile(lambda word: word.startswith("-"), argv))
    verb = next(iter(argv[len(before) :]), None)
    if verb == "help":  # `help VERB` is `VERB --help`
        argv = [*argv[len(before) + 1 :], "--help"]
        return _parse(argv)
    known = verb in VERBS
    # With `--help` before the verb, help on all of them is asked for.
    alone = known and set(before) <= {"--debug"}
    # All verbs are configured where none is meant: the word may be an action of one of them.
    shown = verb if known or verb is None else "*"
    args = build_parser(shown, alone=alone).parse_args(argv)
    if hasattr(args, "options") and not args.version:
        from stackproof.core.cli import parsing  # noqa: PLC0415 - as in build_parser

        parsing.finish(args)
    return args


def _claim_outputs(args: argparse.Namespace) -> None:
    """Refuse to replace what a command is not to write; follow links to what they lead to."""
    import re  # noqa: PLC0415 - for verbs that write files

    from stackproof.core.effects import outputs  # noqa: PLC0415

    for name, kind in args.outputs:
        target = getattr(args, name)
        if target:
            inputs = [
                part
                for other, value in vars(args).items()
                if other not in {name, "verb", "action", "run", "outputs"}
                for word in (value if isinstance(value, list) else [value])
                if isinstance(word, str)
                for part in (word, *re.split("[=,:]", word))
            ]
            setattr(args, name, outputs.claim(target, kind, inputs=inputs))


def _version(times: int) -> str:
    """Return the version; asked for twice, also what runs it and where it is."""
    if times == 1:
        return stackproof.__version__
    place = os.path.dirname(os.path.abspath(stackproof.__file__))
    python = sys.version.partition(" ")[0]
    return f"stackproof {stackproof.__version__}\n  in {place}\n  Python {python}, {sys.executable}"


def _explain(error: BaseException) -> StackproofError:
    """Return the error that a user reads for an exception."""
    from stackproof.core.errors import Reason, StackproofError, fail  # noqa: PLC0415 - not for --version

    if isinstance(error, StackproofError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return fail(Reason.INTERRUPTED, "interrupted")
    is_closed = isinstance(error, PermissionError) and bool(error.filename)
    if isinstance(error, OSError) and (is_closed or error.errno in {errno.ENOSPC, errno.EDQUOT}):
        from stackproof.core.effects import files  # noqa: PLC0415 - not for --version

        if error.filename is None:
            _abandon_stdout()
        return files.translate(error, error.filename or "standard output")
    if isinstance(error, FileNotFoundError) and _folder_is_gone():
        return fail(
            Reason.FILE_MISSING,
            "the folder that this was started in is there no more",
            hint="go to one that is (cd), and give the command again: what was finished is kept",
        )
    return fail(
        Reason.BUG,
        f"this is a bug in stackproof: {type(error).__name__}: {error}",
        hint="run the same command with --debug before the verb and report what it prints",
    )


def _guess_files(error: StackproofError, argv: Sequence[str]) -> StackproofError:
    """Add the file that was perhaps meant where a path of the command line leads nowhere."""
    from stackproof.core import errors  # noqa: PLC0415 - for failures only

    first, *others = error.problems
    missing = first.reason in {errors.Reason.FILE_MISSING, errors.Reason.IMAGE_MISSING}
    # Nothing is proposed for deletion.
    if not missing or "did you mean" in (first.hint or "") or "rm" in argv:
        return error
    import contextlib  # noqa: PLC0415 - for failures only
    import dataclasses  # noqa: PLC0415 - for failures only
    import re  # noqa: PLC0415 - for failures only

    parts = {part for word in argv for part in (word, *re.split("[=,:]", word)) if part}
    for path in sorted(parts):
        folder, slash, name = path.rpartition("/")
        spellings = {f"`{path}`", f"`{os.path.normpath(path)}`"}
        if not any(text in first.message for text in spellings):
            continue
        with contextlib.suppress(OSError):
            # Others may have named the files: one that is not plain on a line is never proposed.
            names = sorted(filter(str.isprintable, os.listdir(folder + slash or ".")))
            guess = "" if name in names else errors.did_you_mean(name, names)
            if guess and guess.split("`")[1] not in (first.hint or ""):
                hint = guess.replace("`", f"`{folder}{slash}", 1) + (first.hint or "")
                problem = dataclasses.replace(first, hint=hint)
                return errors.StackproofError(problem, *others)
    return error


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _wants_json(argv: Sequence[str]) -> bool:
    """Return True where a command line asks for JSON: also one that cannot be parsed."""
    words = list(itertools.takewhile(lambda word: word != "--", argv))
    verb = next((word for word in words if not word.startswith("-")), "")
    return "--json" in words and verb not in _BECOME_OTHERS


def _print_json(failure: StackproofError) -> None:
    """Print what went wrong where the data would have been."""
    import json  # noqa: PLC0415 - for failures only

    from stackproof.core.errors import problems_data  # noqa: PLC0415 - for failures only

    data = problems_data(failure.reason.exit_code, failure.problems)
    try:
        print(json.dumps(data, indent=1))
        sys.stdout.flush()
    except OSError:  # standard error has it already
        _abandon_stdout()


def _end_live_line() -> None:
    """Give an error a line of its own where progress stands on the terminal."""
    progress = sys.modules.get("stackproof.core.cli.progress")
    if progress is not None:
        progress.end_line()


def _abandon_stdout() -> None:
    """Keep Python's own exit from trying again to write what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
