"""SECURITY.md is short, and each guarantee stands beside a test that is there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def _guarantees() -> ModuleType:
    spec = importlib.util.spec_from_file_location("guarantees", ROOT / "tools" / "guarantees.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_guarantee_has_a_sentence_and_tests():
    tool = _guarantees()
    guarantees = tool.load_guarantees()
    assert {section for section, _ in guarantees} == {*tool.SECTIONS}
    assert len(guarantees) > 60
    page = (ROOT / "docs" / "reference" / "guarantees.md").read_text()
    assert [title for _, title in guarantees if f"**{title}**" not in page] == []
    bare = [title for (_, title), (text, _) in guarantees.items() if not text]
    assert all(len(title.split()) > 4 for title in bare)


def test_every_guarantee_about_foreign_content_says_what_was_tried():
    attacked = ("Foreign trees", "Folders of several users")
    silent = [
        title
        for (section, title), (text, _) in _guarantees().load_guarantees().items()
        if section in attacked and "Tried" not in text
    ]
    assert silent == []


def test_the_page_for_officers_is_short_and_whole():
    text = (ROOT / "SECURITY.md").read_text()
    assert len(text) < 8_000
    assert re.findall(r"^## (.*)", text, flags=re.MULTILINE) == [
        "Adversaries",
        "What runs with which rights",
        "What the promises need",
        "What is not defended",
        "What was reviewed and fixed",
        "Reporting",
    ]
