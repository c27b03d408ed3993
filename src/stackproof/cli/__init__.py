"""The command line: one file per verb; the only place that prints and exits.

`--version` and `--help` import nothing but argparse: verbs are imported when they are called.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence

import stackproof

# verb -> (module below stackproof.cli, one line of help). One row per verb, in the order of use.
VERBS: dict[str, tuple[str, str]] = {
    "check": ("check", "say whether a recipe is valid, with every problem at once"),
    "plan": ("plan", "show the resolved stack and every step of its build"),
    "build": ("build", "build a recipe into a SquashFS image"),
    "inspect": ("inspect", "show what an image holds"),
    "run": ("run", "run a command with images mounted"),
    "start": ("start", "start a shell with an image mounted"),
    "cluster": ("cluster", "start or stop a cluster of network namespaces on this machine"),
    "bench": ("bench", "run benchmarks: baseline and challengers, interleaved"),
    "compare": ("compare", "judge measured results: PASS, FAIL or INCONCLUSIVE"),
    "report": ("report", "write the report of measured results as one HTML file"),
    "site": ("site", "show, check or probe what a machine offers"),
}


def build_parser(verb: str | None = None) -> argparse.ArgumentParser:
    """Return the parser; only `verb` gets its options (all verbs when it is `*`)."""
    parser = argparse.ArgumentParser(
        prog="stackproof",
        description="Define, build, deploy and prove MPI stacks.",
        epilog="exit codes: 0 done, 1 bug, 2 usage, 3 invalid document, 4 not possible here, "
        "5 build failed, 6 image or mount failed, 7 job failed, 8 verdict FAIL, 130 interrupted",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=stackproof.__version__)
    parser.add_argument("--debug", action="store_true", help="show a traceback for every error")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name, (module, text) in VERBS.items():
        sub = subparsers.add_parser(name, help=text, description=text, allow_abbrev=False)
        if verb in {name, "*"}:
            importlib.import_module(f"stackproof.cli.{module}").configure(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(_main(sys.argv[1:] if argv is None else list(argv)))


def _main(argv: list[str]) -> int:
    verb = next((word for word in argv if not word.startswith("-")), None)
    parser = build_parser(verb if verb in VERBS else None)
    args = parser.parse_args(argv)
    if args.verb is None:
        parser.print_help(sys.stderr)
        return 2
    # SIGTERM unwinds like Ctrl-C, so that nothing half-written stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from stackproof.errors import ExitCode, StackproofError  # noqa: PLC0415 - not for --version

    try:
        return int(args.run(args))
    except StackproofError as error:
        if args.debug:
            raise
        print(error, file=sys.stderr)
        return int(error.reason.exit_code)
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader (`| head`) has gone; say nothing, and keep Python's exit from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.DONE)
    except Exception as error:  # the last net: everything else is a bug of ours
        if args.debug:
            raise
        print(
            f"error: this is a bug in stackproof: {type(error).__name__}: {error}\n"
            "hint: run the same command with --debug before the verb and report what it prints",
            file=sys.stderr,
        )
        return int(ExitCode.BUG)
