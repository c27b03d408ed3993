"""The rules of the house on pages: links lead somewhere, decisions are numbered, all are found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from housefiles import ROOT, name

WORDS = "docs/explanation/words.md"


def links(text: str) -> Iterator[str]:
    without_code = re.sub(r"(`+).+?\1", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code):
        if not target.startswith(("http:", "https:", "#", "mailto:")):
            yield target.partition("#")[0]


def test_links_between_pages_lead_somewhere():
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    broken = [
        f"{name(page)}: {target}"
        for page in pages
        for target in links(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_words_are_few_and_linked_where_they_are_used_first():
    rows = re.findall(r"^\| [a-z ]+ \| .+ \|$", (ROOT / WORDS).read_text(), re.MULTILINE)
    assert len(rows) - 1 <= 15  # below the head
    for page in ("README.md", "docs/tutorial/first-verdict.md", "docs/how-to/read-a-report.md"):
        targets = links((ROOT / page).read_text())
        assert (ROOT / WORDS) in [((ROOT / page).parent / target).resolve() for target in targets]


def test_decisions_are_numbered_without_a_gap():
    numbers = sorted(int(path.name[:3]) for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 6


def test_every_page_can_be_found_from_the_index():
    docs = ROOT / "docs"
    found: set[Path] = set()
    left = [docs / "index.md"]
    while left:
        page = left.pop()
        if page not in found and page.suffix == ".md":
            found.add(page)
            left += [(page.parent / target).resolve() for target in links(page.read_text())]
    assert sorted(name(page) for page in set(docs.rglob("*.md")) - found) == []
