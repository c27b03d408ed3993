"""`stackproof compare RESULTS`: judge measured results; exit code 0 is PASS, 8 FAIL, 9 neither."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from stackproof.compare.compare import compare
from stackproof.compare.effects.results import load_results
from stackproof.compare.margins import parse_margins
from stackproof.compare.model import CompareOptions, Comparison, Verdict
from stackproof.core import harmless
from stackproof.core.cli import streams
from stackproof.core.errors import ExitCode, Reason, fail
from stackproof.report.beside import beside_text
from stackproof.report.headline import describe_next
from stackproof.report.options import CompareRequest
from stackproof.report.render import render_json, terminal_verdicts
from stackproof.report.terminal import WIDTH
from stackproof.results.model import Results

_CODES = {
    Verdict.PASS: ExitCode.DONE,
    Verdict.FAIL: ExitCode.WORSE,
    Verdict.INCONCLUSIVE: ExitCode.UNKNOWN,
}
_WORST = (ExitCode.DONE, ExitCode.UNKNOWN, ExitCode.WORSE, Reason.NOT_TRUSTED.exit_code)
_RED, _GREEN, _YELLOW, _PLAIN = "\x1b[1;31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"
_COLOURS = {
    "PASS": _GREEN, "pass": _GREEN, "FAIL": _RED, "INCONCLUSIVE": _YELLOW, "?": _YELLOW,
    "slow?": _YELLOW,
}  # fmt: skip
# A cell of a table, or a verdict at the end of a line.
_WORD = re.compile(
    r"\d+\.\d\d (?:pass|FAIL|slow\?|\?)(?=~?(?: |$))"
    r"|(?<=: )(?:PASS|FAIL|INCONCLUSIVE)(?=$|, (?:no )?tail [a-z]+$)"
)


def run(asked: CompareRequest) -> int:
    """Judge and print."""
    judging = asked.judging
    options = CompareOptions(
        margins=parse_margins(judging.margin), minimum_launches=judging.minimum_launches
    )
    if asked.beside and asked.json:
        raise fail(
            Reason.USAGE,
            "`--beside` and `--json` exclude each other",
            hint="print each of the two results with --json",
        )
    if asked.beside:
        code = judge_beside((asked.results, asked.beside), options)
    else:
        code = judge(Path(asked.results), as_json=asked.json, options=options, brief=not asked.all)
    return required(code) if asked.require_pass else code


def judge(
    folder: Path,
    *,
    as_json: bool = False,
    options: CompareOptions | None = None,
    brief: bool = True,
) -> int:
    """Judge a results folder, print the verdicts to standard output and return the exit code.

    Standard error gets the next command.
    """
    comparison = load_and_compare(folder, options)
    if as_json:
        sys.stdout.write(render_json(comparison))
        return exit_code(comparison)
    print_verdicts(comparison, brief=brief)
    code = exit_code(comparison)
    if code != Reason.NOT_TRUSTED.exit_code:
        sys.stdout.flush()
        following = harmless.line(describe_next(comparison, str(folder)))
        print(f"next: {following}", file=sys.stderr)
        if brief:
            more = harmless.line(f"stackproof compare {shlex.quote(str(folder))} --all")
            print(f"all numbers and notes: {more}", file=sys.stderr)
    return code


def judge_beside(folders: tuple[str, str], options: CompareOptions) -> int:
    """Print the ratios of two results folders beside each other; return the worse exit code."""
    one, other = (load_and_compare(Path(name), options) for name in folders)
    sys.stdout.write(beside_text(one, other, folders))
    return max(exit_code(one), exit_code(other), key=_WORST.index)


def load_and_compare(folder: Path, options: CompareOptions | None = None) -> Comparison:
    """Return the comparison of a results folder; files that cannot be read go to stderr."""
    results: Results = load_results(folder)
    for problem in results.problems:
        print(problem.worded("warning"), file=sys.stderr)
    return compare(results, options)


def exit_code(comparison: Comparison) -> int:
    """Return 0 for PASS, 8 for FAIL, and 9 where it cannot be told or the null arm fails.

    Results that are not what they say are 7. That is said aloud on standard error.
    """
    return doubt_code(comparison) or int(_CODES[comparison.verdict])


def doubt_code(comparison: Comparison) -> int:
    """Return 7 for results that are not what they say, with an error on stderr, else 0."""
    trust = comparison.integrity
    if trust is None or trust.trusted:
        return int(ExitCode.DONE)
    kinds = ", ".join(dict.fromkeys(one.kind for one in trust.doubts))
    untrue = fail(
        Reason.NOT_TRUSTED,
        f"these results cannot be trusted ({kinds}), so there is no verdict",
        hint="measure again, or take the folder as `stackproof bench` left it",
    )
    print(untrue, file=sys.stderr)
    return int(Reason.NOT_TRUSTED.exit_code)


def required(code: int) -> int:
    """Return the exit code with `--require-pass`: what cannot be told has failed too."""
    return int(ExitCode.WORSE if code == ExitCode.UNKNOWN else code)


def print_verdicts(comparison: Comparison, *, brief: bool) -> None:
    """Print verdict tables: in colour on a terminal, as plain text anywhere else."""
    if sys.stdout.isatty():
        width = min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH)
        text = terminal_verdicts(comparison, width, brief=brief)
        coloured = text if os.environ.get("NO_COLOR") else _coloured(text)
        streams.unguarded(sys.stdout).write(coloured)
    else:
        sys.stdout.write(terminal_verdicts(comparison, brief=brief))


def _coloured(text: str) -> str:
    """Return text with its verdicts in colour; the words stay as they are."""
    lines = text.split("\n")
    return "\n".join(
        f"{_RED}{line}{_PLAIN}"
        if line.startswith("warning: ")
        else _WORD.sub(lambda found: f"{_COLOURS[found[0].split()[-1]]}{found[0]}{_PLAIN}", line)
        for line in lines
    )
