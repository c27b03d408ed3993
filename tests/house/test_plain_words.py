"""The counts of plain words: each kind is seen where it is planted, and a count only falls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from housefiles import ROOT, tool

WORDS = tool("plain_words")
MISSPELT = {"recieve": "receive", "anew": "again"}
LONG = " ".join(["word"] * 31)
MODULES = {
    "docstring": [
        '"""Return what a user gets."""',
        '"""What a user gets."""',
        'def get_it() -> None:\n    """Say whether it is there."""',
        'class Thing:\n    """How it is done."""',
    ],
    "function": ["def words() -> None: ...", "def parse(text: str) -> str: ..."],
    "name": [
        "found = 1",
        "for one in (): ...",
        "def get_it(asked: int) -> None: ...",
        "x = [said for said in ()]",
        "with open('f') as told: ...",
        "wanted: int = 1",
    ],
    "spelling": ["# to recieve it", '"""Build it anew."""'],
    "exit": ['x = "it ends with 6"', 'x = f"{y} ended with 8: see"'],
}
PAGES = {
    "sentence": [f"{LONG}.", f"Short.\nAnd {LONG}.", f"- {LONG}", f"1. It [{LONG}](x.md)."],
    "headless": [
        "What it builds is an image.",
        "- who signs it pushes it.",
        "And which it is varies.",
    ],
    "spelling": ["It may *recieve* this.", "Built\nanew."],
    "exit": ["It ends with 6.", "It ends with `8` there.", "Both end with exit code 3."],
}
GOOD_MODULES = [
    '"""Return the whatever."""\n\n\ndef get_it(match: int) -> int:\n    """Return it."""\n',
    "def main() -> None: ...\ndef _words() -> None: ...\nclass Thing:\n    def words(self) -> None: ...",
    "x = thing.found\nprint(one)",
    'x = "it ends with a word, and recieve is data"',
    "x = 1  # the key `recieve`",
]
GOOD_PAGES = [
    f"Text.\n\n    {LONG}\n",
    f"| {LONG} |\n",
    f"```\n{LONG}\nends with 6\n```\n",
    f"<!-- {LONG} -->\n",
    f"# {LONG}\n",
    f"It is `{LONG}` and nothing else.",
    "One sentence of five words. " * 9,
    "What is it? What differs:\n\nAsk what it is. Whatever it is, go on.",
    "It ends with a full stop. Use `recieve`.",
    f"- {' '.join(['word'] * 20)}\n- {' '.join(['word'] * 20)}\n",
]


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in MODULES.items() for text in texts]
)
def test_a_planted_text_of_a_module_is_counted(kind, text):
    assert [place.kind for place in WORDS.check_python(text, "a.py", MISSPELT)] == [kind]


@pytest.mark.parametrize("text", GOOD_MODULES)
def test_a_good_module_counts_nothing(text):
    assert list(WORDS.check_python(text, "a.py", MISSPELT)) == []


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in PAGES.items() for text in texts]
)
def test_a_planted_text_of_a_page_is_counted(kind, text):
    assert [place.kind for place in WORDS.check_page(text, "a.md", MISSPELT)] == [kind]


@pytest.mark.parametrize("text", GOOD_PAGES)
def test_a_good_page_counts_nothing(text):
    assert list(WORDS.check_page(text, "a.md", MISSPELT)) == []


def test_the_line_of_a_place_is_that_of_its_sentence():
    page = f"<!-- a\nb -->\n\nOne `a\nb` is\nshort. Then\n{LONG}.\n"
    assert [place.line for place in WORDS.check_page(page, "a.md", {})] == [6]


def test_folders_are_rooms_and_kinds_of_pages():
    files = {
        "src/stackproof/bench/effects/modules.py": "src/stackproof/bench",
        "docs/how-to/a.md": "docs/how-to",
        "docs/index.md": "docs",
        "README.md": "README.md",
    }
    assert [WORDS.Place("name", file, 1, "").folder for file in files] == list(files.values())


def project(root: Path, text: str) -> None:
    for folder in ("src/stackproof/bench", "docs"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "src/stackproof/bench/a.py").write_text(text)
    (root / "README.md").write_text("It is here.\n")


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Return a project with two names of a kind, and its counts written."""
    project(tmp_path, "found = one = 1\n")
    monkeypatch.setattr(WORDS, "COUNTS", tmp_path / "counts.json")
    monkeypatch.setattr(WORDS.check_project, "__defaults__", (tmp_path,))
    assert WORDS.main(["--update"]) == 0
    assert json.loads((tmp_path / "counts.json").read_text()) == {
        "name": {"src/stackproof/bench": 2}
    }
    return tmp_path


def test_a_count_that_grew_fails_with_its_places(counted, capsys):
    project(counted, "found = one = 1\ntold = 2\n")
    before = (counted / "counts.json").read_text()
    assert WORDS.main(["--update"]) == 1
    told = capsys.readouterr().err
    assert "name: src/stackproof/bench has 3, before 2:" in told
    assert "src/stackproof/bench/a.py:2: told" in told
    assert (counted / "counts.json").read_text() == before
    project(counted, "found = one = 1\n\ndef words() -> None: ...\n")
    assert WORDS.main([]) == 1
    assert "function: src/stackproof/bench has 1, before 0:" in capsys.readouterr().err


def test_only_places_of_changed_files_are_shown():
    folder = "src/stackproof/bench"
    places = [WORDS.Place("name", f"{folder}/{file}.py", 1, "found") for file in "ab"]
    changed = frozenset({f"{folder}/b.py", "README.md"})
    assert len(list(WORDS.grown(places, {}))) == 3
    assert len(list(WORDS.grown(places, {}, frozenset({"README.md"})))) == 3
    assert list(WORDS.grown(places, {}, changed))[1:] == [f"  {folder}/b.py:1: found"]


def test_a_count_that_fell_is_a_sentence_until_it_is_written(counted, capsys):
    project(counted, "found = 1\n")
    assert WORDS.main([]) == 0
    assert "counts fell" in capsys.readouterr().out
    assert WORDS.main(["--update"]) == 0
    assert WORDS.main([]) == 0
    assert capsys.readouterr().out == ""
    project(counted, "found = one = 1\n")
    assert WORDS.main([]) == 1


def test_the_lists_are_whole():
    rows = [
        line.split(maxsplit=1)[0]
        for line in (ROOT / "tools" / "misspelt.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    words = WORDS.read_misspelt((ROOT / "tools" / "misspelt.txt").read_text())
    assert len(rows) == len(words) > 100
    assert not {*words} & {*words.values()}
    counts = json.loads((ROOT / "tools" / "plain_words.json").read_text())
    assert {"docstring", "function", "name", "sentence"} <= set(counts)


def test_lint_runs_it():
    lint = (ROOT / "noxfile.py").read_text().partition("def lint(")[2].partition("@nox.session")[0]
    assert "tools/plain_words.py" in lint
