"""Nothing that others wrote reaches a terminal or a log as something that it obeys."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import terminals
from stackproof.core import harmless
from stackproof.core.errors import Location, Problem, Reason

pytestmark = [
    pytest.mark.guarantee(
        "What others wrote",
        "Nothing of it reaches a terminal or a log as something that it obeys.",
        "Control characters and marks of direction are replaced where text is written, and a "
        "message that quotes several lines stays one. In CSV no name is a formula. Tried: "
        "hostile names in every place where a verb prints one.",
    ),
]

COVERS = ("core/cli/streams.py",)

# Clear the screen, set a title, have the terminal answer, C1, direction, a line of its own.
EVIL = "na\x1b[2J\x1b]0;PWN\x07\x9b31m\u202e\rme"
OBEYED = [chr(number) for number in (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2028)]

JOINERS = "\u200c\u200d"
UNSEEN = [
    chr(number) for number in range(sys.maxunicode) if unicodedata.category(chr(number)) == "Cf"
]

VERBS = {
    "check": ["check", "{folder}/recipe.yaml"],
    "check-name": ["check", f"{{folder}}/{EVIL}.yaml"],
    "check-missing": ["check", f"{{folder}}/gone{EVIL}"],
    "plan": ["plan", "{folder}/recipe.yaml"],
    "build": ["build", "{folder}/recipe.yaml"],
    "build-spec": ["build", f"mpich@{EVIL}"],
    "explain-word": ["explain", EVIL],
    "site": ["site", "show", f"{{folder}}/{EVIL}"],
    "site-file": ["site", "show", "{folder}/site.yaml"],
    "image-ls": ["image", "ls", f"{{folder}}/{EVIL}.squashfs"],
    "inspect": ["inspect", f"{{folder}}/{EVIL}.squashfs"],
    "run": ["run", f"{{folder}}/{EVIL}.squashfs", "--", "true"],
    "run-command": ["run", "none", "--", f"no{EVIL}"],
    "activate": ["activate", f"{{folder}}/{EVIL}.squashfs:/x"],
    "start": ["start", f"{{folder}}/{EVIL}.squashfs"],
    "verb": [EVIL],
    "option": ["check", f"--{EVIL}"],
    "shell": ["shell", EVIL],
    "cluster": ["cluster", "exec", "--name", f"x{EVIL}", "--", "true"],
    "cluster-down": ["cluster", "down", "--name", EVIL],
    "bench": ["bench", "{folder}/bench.yaml", "--dry-run"],
    "bench-file": ["bench", f"{{folder}}/{EVIL}.yaml"],
    "compare": ["compare", f"{{folder}}/{EVIL}"],
    "report": ["report", f"{{folder}}/{EVIL}"],
    "import": ["import", f"{{folder}}/{EVIL}"],
    "doctor-log": ["doctor", "{folder}/job.log"],
    "recipe": ["recipe", "show", EVIL],
    "inject": ["inject", "check", f"{{folder}}/{EVIL}", "--mpi", f"/{EVIL}"],
    "mirror": ["mirror", "create", f"{{folder}}/{EVIL}.yaml"],
    "image-prune": ["image", "prune", EVIL],
    "image-label": ["image", "ls", EVIL],
    "image-add": ["image", "add", EVIL, f"{{folder}}/{EVIL}.squashfs"],
    "image-rm": ["image", "rm", EVIL],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    quoted = json.dumps(EVIL)
    text = f"schema: stackproof/recipe/1\nname: {quoted}\n{quoted}: 1\nmpi: {{{quoted}: x}}\n"
    for name in ("recipe.yaml", f"{EVIL}.yaml", "site.yaml", "bench.yaml"):
        (tmp_path / name).write_text(text)
    (tmp_path / f"{EVIL}.squashfs").write_text("hsqs")
    (tmp_path / "job.log").write_text(f"cxil_map: write error {EVIL}\n{EVIL} Bus error\n")
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8",
            "STACKPROOF_CACHE": str(folder / "cache")}  # fmt: skip


@pytest.mark.parametrize("json_too", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("verb", VERBS)
def test_names_of_others_in_what_verbs_say(folder, verb, json_too):
    words = [word.replace("{folder}", str(folder)) for word in VERBS[verb]]
    if json_too:
        words.insert(1, "--json")
    argv = [sys.executable, "-m", "stackproof", *words]
    done = subprocess.run(
        argv, env=environment(folder), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=600, check=False,
    )  # fmt: skip
    said = (done.stdout + done.stderr).decode(errors="surrogateescape")
    assert said
    assert [character for character in said if character in OBEYED] == []


def test_a_terminal_gets_our_own_signs_only(folder):
    argv = [sys.executable, "-m", "stackproof", "check", str(folder / "recipe.yaml")]
    code, said = terminals.shown(argv, {**environment(folder), "TERM": "xterm"}, errors=True)
    assert code == 3
    assert "PWN" in said
    assert [character for character in said if character in OBEYED] == []


def test_a_problem_is_one_entry_whatever_it_quotes():
    forged = "x\nerror: all is well [bug]\nhint: run this"
    problem = Problem(
        reason=Reason.USAGE, message=forged, hint=forged, detail=forged, where=Location(file=forged)
    )
    lines = str(problem).split("\n")
    assert [line for line in lines if line.startswith(("error", "hint"))] == [
        "error: x", "hint: x",
    ]  # fmt: skip
    assert str(Problem(reason=Reason.USAGE, message=EVIL)).isprintable()


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "   @"])
def test_no_cell_is_a_formula(begin):
    made = harmless.cell(f"{begin}HYPERLINK(1)")
    buffer = io.StringIO()
    csv.writer(buffer).writerow([made, harmless.cell(-1.5), harmless.cell(None), "a-b"])
    assert made == f"'{begin}HYPERLINK(1)"
    assert next(csv.reader(io.StringIO(buffer.getvalue(), newline="")))[1:] == ["-1.5", "", "a-b"]


IGNORABLE = [
    chr(number)
    for number in (
        0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2065, 0x2800, 0x3164,
        *range(0xFE00, 0xFE10), 0xFFA0, *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE01F0),
    )
]  # fmt: skip


@pytest.mark.parametrize("clean", [harmless.text, harmless.line])
def test_what_shows_nothing_is_shown(clean):
    """Fillers, selectors of variants, tags: whole texts are hidden in them."""
    for character in IGNORABLE:
        assert clean(f"a{character}b") == "a?b", hex(ord(character))
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "rm -rf")
    assert clean(f"ok{hidden}") == "ok??????"
    assert clean("Grüße, 日本語 한국어 ⠁ é") == "Grüße, 日本語 한국어 ⠁ é"


def test_what_nobody_sees_is_shown():
    """Every format character of Unicode, but the two that join and part letters of words."""
    assert len(UNSEEN) > 150
    kept = {character for character in UNSEEN if character in harmless.text(f"a{character}b")}
    assert kept == set(JOINERS)
    for character in {*UNSEEN, *IGNORABLE, "\u2028", "\x9b"} - kept:
        assert harmless.text(f"a{character}b") == "a?b"
        shown = harmless.json_text(json.dumps([character], ensure_ascii=False))
        assert shown.isascii()
        assert json.loads(shown) == [character]
