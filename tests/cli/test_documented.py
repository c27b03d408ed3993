"""Every command line of README and of the pages is one that the parser takes, or says why not."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

import documented
from documented import ROOT, Line
from stackproof import cli
from stackproof.host import shipped

LINES = [line for page in documented.pages() for line in documented.lines_of(page)]
SITES = set(shipped.names("sites"))


def test_there_are_command_lines_on_the_pages() -> None:
    assert len(LINES) > 100
    assert {"README.md", "docs/tutorial/first-verdict.md"} <= {line.page for line in LINES}
    assert all(line.commands for line in LINES)


def parsed(words: list[str]) -> argparse.Namespace:
    """Return what the parser makes of a command line; `…` and `X...` stand for any words."""
    words = [word.removesuffix("...") for word in words if word != "…"]
    return cli.build_parser(words[1], alone=True).parse_args(words[1:])


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.place)
def test_the_parser_takes_it(line: Line, capsys: pytest.CaptureFixture[str]) -> None:
    for words in line.commands:
        if "…" in words:
            assert words[1] in cli.VERBS
            continue
        try:
            args = parsed(words)
        except SystemExit:
            pytest.fail(f"{line.place}: {line.text}\n{capsys.readouterr().err}")
        site = getattr(args, "site", None)
        if isinstance(site, str) and re.fullmatch("[a-z][a-z0-9-]*", site):
            assert site in SITES, line.place
        recipe = getattr(args, "recipe", None)
        if isinstance(recipe, str) and recipe.startswith("recipes/"):
            assert (ROOT / recipe).is_file(), line.place
        elif isinstance(recipe, str) and re.fullmatch("(spack/)?[a-z0-9.-]+", recipe):
            known = {*shipped.names("recipes"), *_named_on(line.page)}
            assert recipe in known, line.place


def _named_on(page: str) -> set[str]:
    """Return the files that a page tells its reader to write, or that stand for his own."""
    text = (ROOT / page).read_text()
    return set(re.findall(r"[a-z0-9-]+\.yaml", text))


def test_a_page_that_is_not_run_says_who_looks_after_it() -> None:
    """A reason that names a test names one that is there."""
    for line in LINES:
        for name in re.findall(r"(?:tests|docs)/[\w/-]+\.(?:py|md)", line.reason):
            assert (ROOT / name).is_file(), f"{line.place}: {name}"


def test_blocks_marks_and_continued_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documented, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "Text\n\n    stackproof check a \\\n        --json | head  # why\n    what it prints\n\n"
        "<!-- not run: because -->\n\n    stackproof plan b\n\n    stackproof plan c\n\nText `d`\n\n"
        "    stackproof plan e\n\n```sh\n$ stackproof plan f && stackproof plan g > h\n```\n\n"
        "```yaml\nstackproof: no command\n```\n"
    )
    lines = documented.lines_of(page)
    assert [(line.number, line.reason) for line in lines] == [
        (3, ""), (9, "because"), (11, "because"), (15, ""), (18, ""),
    ]  # fmt: skip
    assert lines[0].commands == [["stackproof", "check", "a", "--json"]]
    assert lines[4].commands == [["stackproof", "plan", "f"], ["stackproof", "plan", "g"]]
