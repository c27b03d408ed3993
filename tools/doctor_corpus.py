"""Score `stackproof doctor` on logs whose cause is known.

python tools/doctor_corpus.py [--mapping FILE] [--family NAME] [FOLDER...]

A folder holds `FAMILY/NAME.txt`: a head in YAML, `---`, the log. For each family it prints how
many cases ended how, then each case that is not right, and answers that are too large. Without
a folder it takes `tests/doctor/corpus/open` and `held`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from stackproof import cli
from stackproof.core.errors import ExitCode
from stackproof.core.value import Value

CORPUS = Path(__file__).parents[1] / "tests" / "doctor" / "corpus"
PARTS = ("open", "held")
LINES, COLUMNS = 12, 100
HARMLESS = "harmless"  # the severity of a known line that does no harm: no alarm, no cause
SPEAKER = "speaker and stage only"  # the certainty of who spoke first: an alarm, and no cause


class End(StrEnum):
    """How a case ended."""

    RIGHT = "right"
    OTHER = "other"
    QUOTED = "silent, quoted"
    SILENT = "silent"


class Case(Value):
    """A log, and what doctor should say of it."""

    family: str
    name: str
    cause: str
    also: tuple[str, ...]
    quote: str
    words: tuple[str, ...]
    log: str


class Said(Value):
    """What doctor said of a log: the rules that fire, the worst first, and its answer as text."""

    findings: tuple[Mapping[str, Any], ...]
    text: str


class Score(Value):
    """How a case ended, which rule came first, and what is wrong with the form of the answer."""

    case: Case
    end: End
    first: str
    unquoted: bool
    too_large: bool


def load_case(path: Path) -> Case:
    """Return the case of a file."""
    # As bytes: a carriage return is no end of a line.
    head, mark, log = path.read_bytes().decode().partition("\n---\n")
    if not mark:
        raise ValueError(f"{path}: no line `---` between head and log")
    keys = yaml.safe_load(head)
    return Case(
        family=path.parent.name,
        name=path.stem,
        cause=keys["cause"],
        also=tuple(keys.get("also", ())),
        quote=keys.get("quote", ""),
        words=tuple(keys.get("args", ())),
        log=log,
    )


def load_cases(folders: Iterable[Path]) -> list[Case]:
    """Return the cases of folders, by family and name."""
    files = (file for folder in folders for file in folder.glob("*/*.txt"))
    return [load_case(file) for file in sorted(files, key=lambda file: file.parts[-2:])]


def load_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a file."""
    keys = yaml.safe_load(path.read_text())
    return dict(keys or {})


def run_doctor(case: Case, folder: Path) -> Said:
    """Return the answer to a case, asked in this process once for text and once as JSON."""
    log = folder / "job.log"
    log.write_text(case.log)
    words = ["doctor", "--log", str(log), "--env", str(CORPUS / "nowhere.env"), *case.words]
    if "--site" not in words:
        words += ["--site", str(CORPUS / "nowhere.yaml")]
    answer = json.loads(_printed([*words, "--json"]))
    fired = (
        each
        for each in answer["findings"]
        if each["answer"] == "fires" and each["severity"] != HARMLESS
    )
    return Said(findings=tuple(fired), text=_printed(words))


def _printed(words: Sequence[str]) -> str:
    """Return the output of a command line; raise when it fails."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            cli.main(list(words))
        except SystemExit as ended:
            if ended.code not in (None, ExitCode.DONE, ExitCode.UNKNOWN):
                raise RuntimeError(f"{' '.join(words)}\n{error.getvalue()}") from ended
    return out.getvalue()


def judge(
    case: Case, said: Said, causes: Mapping[str, Any], mapping: Mapping[str, Sequence[str]]
) -> Score:
    """Return the score of a case."""
    wanted = (case.cause, *case.also)
    quoted = squeezed(case.quote) in squeezed(said.text)
    first = said.findings[0] if said.findings else None
    if first is None or first.get("certainty") == SPEAKER:
        is_right = first is None if case.cause == "healthy" else "unknown" in wanted and quoted
        end = End.RIGHT if is_right else End.QUOTED if quoted else End.SILENT
    else:
        is_right = any(_tells(first, cause, causes, mapping) for cause in wanted)
        end = End.RIGHT if is_right else End.OTHER
    lines = said.text.rstrip("\n").splitlines()
    return Score(
        case=case,
        end=end,
        first="" if first is None else f"{first['rule']} {first['name']}",
        unquoted=not quoted,
        too_large=len(lines) > LINES or any(len(line) > COLUMNS for line in lines),
    )


def _tells(
    finding: Mapping[str, Any],
    cause: str,
    causes: Mapping[str, Any],
    mapping: Mapping[str, Sequence[str]],
) -> bool:
    """Tell a cause by the rule of a finding, and by a word of its remedy."""
    words = causes[cause]["words"]
    text = json.dumps(finding).casefold()
    named = any(str(word).casefold() in text for word in words)
    mapped = mapping.get(finding["rule"])
    return named if mapped is None else named and cause in mapped


def squeezed(text: str) -> str:
    """Return a text without blanks and frames of boxes, so that wrapping is no matter."""
    return re.sub(r"[\s│|]", "", text)


def score_all(cases: Iterable[Case], mapping: Mapping[str, Sequence[str]]) -> list[Score]:
    """Return the scores of cases."""
    causes = load_yaml(CORPUS / "causes.yaml")
    with tempfile.TemporaryDirectory() as folder:
        return [judge(case, run_doctor(case, Path(folder)), causes, mapping) for case in cases]


def render(scores: Sequence[Score]) -> str:
    """Return the table by family, the misses, and what is wrong with the form of answers."""
    families = sorted({score.case.family for score in scores})
    width = max(len(family) for family in [*families, "all"])
    lines = ["  ".join([f"{'family':{width}}", *(f"{end:>14}" for end in End), "   cases"])]
    for family in [*families, "all"]:
        these = [score for score in scores if family in (score.case.family, "all")]
        ends = Counter(score.end for score in these)
        cells = (f"{ends[end]:>14}" for end in End)
        lines.append("  ".join([f"{family:{width}}", *cells, f"{len(these):8}"]))
    lines.append("")
    for score in scores:
        if score.end is not End.RIGHT:
            path = f"{score.case.family}/{score.case.name}"
            lines.append(f"{score.end}: {path}: wanted {score.case.cause}; {score.first or 'none'}")
    large = [score for score in scores if score.too_large]
    bare = [score for score in scores if score.unquoted and score.case.cause != "healthy"]
    lines += [
        "",
        f"answers that do not fit into {LINES} lines of {COLUMNS} columns: {len(large)}",
        f"answers without the line that matters: {len(bare)}",
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the scores of the folders named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--mapping", type=Path, default=CORPUS / "rules-to-causes.yaml")
    parser.add_argument("--family", help="cases of one family only")
    options = parser.parse_args()
    folders = options.folders or [CORPUS / part for part in PARTS]
    cases = [case for case in load_cases(folders) if options.family in (None, case.family)]
    os.environ["NO_COLOR"] = "1"
    print(render(score_all(cases, load_yaml(options.mapping))))


if __name__ == "__main__":
    main()
