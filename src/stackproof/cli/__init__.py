"""The command line: one file per verb; the only place that prints and exits.

`--version` and `--help` import nothing but argparse: verbs are imported when they are called.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import itertools
import os
import signal
import sys
from collections.abc import Sequence

import stackproof
from stackproof.host.userlocale import forget_coercion

# verb -> (module below stackproof.cli, one line of help). One row per verb, in the order of use.
VERBS: dict[str, tuple[str, str]] = {
    "check": ("check", "say whether a recipe is valid, with every problem at once"),
    "plan": ("plan", "show the resolved stack and every step of its build"),
    "build": ("build", "build a recipe into a SquashFS image"),
    "convert": ("convert", "turn Stackinator recipes into one recipe for all their targets"),
    "mirror": ("mirror", "bring the sources of Spack stacks to machines without internet"),
    "shell": ("shell", "open a shell in the sandbox of a build"),
    "inspect": ("inspect", "show what an image holds"),
    "run": ("run", "run a command with images mounted"),
    "start": ("start", "start a shell with an image mounted"),
    "activate": ("activate", "print what a job must mount and set to see images"),
    "cluster": ("cluster", "start, use or stop a cluster on this machine, with Slurm or without"),
    "bench": ("bench", "run benchmarks: baseline and challengers, interleaved"),
    "compare": ("compare", "judge measured results: PASS, FAIL or INCONCLUSIVE"),
    "report": ("report", "write the report of measured results as one HTML file"),
    "import": ("import_", "turn outputs of OSU or IMB into results to report on"),
    "doctor": ("doctor", "find known problems of a stack, a machine or results"),
    "explain": ("explain", "say what is known of a setting, a problem or a curve's shape"),
    "inject": ("inject", "say whether programs work with another MPI, before they run"),
    "image": ("image", "write a recipe for container builders"),
    "site": ("site", "show, check or probe what a machine offers"),
}


class HelpFormatter(argparse.HelpFormatter):
    """Help as wide as the terminal, found without `shutil`, which is slow to import.

    argparse makes one for every option, also where no help is asked for.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """Return the columns of the terminal, as `shutil.get_terminal_size` does."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size().columns or 80
    except OSError:  # no terminal
        return 80


def build_parser(verb: str | None = None, *, alone: bool = False) -> argparse.ArgumentParser:
    """Return the parser; only `verb` gets its options (all verbs when it is `*`).

    With `alone` the parser knows no other verb.
    """
    parser = argparse.ArgumentParser(
        prog="stackproof",
        description="Define, build, deploy and prove MPI stacks.",
        epilog="exit codes: 0 done, 1 bug, 2 usage, 3 invalid document, 4 not possible here, "
        "5 build failed, 6 image or mount failed, 7 job failed, 8 verdict FAIL, "
        "9 cannot be told, 10 works with further steps, 130 interrupted",
        allow_abbrev=False,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=stackproof.__version__)
    parser.add_argument("--debug", action="store_true", help="show a traceback for every error")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name, (module, text) in VERBS.items():
        if alone and name != verb:
            continue
        sub = subparsers.add_parser(
            name, help=text, description=text, allow_abbrev=False, formatter_class=HelpFormatter
        )
        if verb in {name, "*"}:
            importlib.import_module(f"stackproof.cli.{module}").configure(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
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
        problem, code = _explain(error)
        print(problem, file=sys.stderr)
    return code


def _run(argv: list[str]) -> int:
    try:
        args = _parse(argv)
    except SystemExit as stop:  # argparse: help, version or wrong usage
        return stop.code if isinstance(stop.code, int) else 0
    # SIGTERM unwinds like Ctrl-C, so that nothing half-written stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return int(args.run(args))


def _parse(argv: list[str]) -> argparse.Namespace:
    before = list(itertools.takewhile(lambda word: word.startswith("-"), argv))
    verb = next(iter(argv[len(before) :]), None)
    known = verb in VERBS
    # With `--help` before the verb, help on all of them is asked for.
    alone = known and set(before) <= {"--debug"}
    parser = build_parser(verb if known else None, alone=alone)
    args = parser.parse_args(argv)
    if args.verb is None:
        parser.print_help(sys.stderr)
        sys.exit(2)
    return args


def _explain(error: BaseException) -> tuple[str, int]:
    """Return what a user is told of an error, and the exit code."""
    from stackproof.errors import ExitCode, StackproofError  # noqa: PLC0415 - not for --version

    if isinstance(error, StackproofError):
        return str(error), error.reason.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "error: interrupted", ExitCode.INTERRUPTED
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        from stackproof.host import files  # noqa: PLC0415 - not for --version

        if error.filename is None:
            _abandon_stdout()
        full = files.translate(error, error.filename or "standard output")
        return str(full), full.reason.exit_code
    return (
        f"error: this is a bug in stackproof: {type(error).__name__}: {error}\n"
        "hint: run the same command with --debug before the verb and report what it prints"
    ), ExitCode.BUG


def _abandon_stdout() -> None:
    """Keep Python's own exit from trying again to write what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
