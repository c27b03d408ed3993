"""Tables and times as people read them."""

from __future__ import annotations

import time

import pytest

from stackproof.core.cli import streams


def test_columns_are_as_wide_as_their_widest_cell(capsys):
    streams.print_table(("A", "LONG HEAD"), [("wide cell", "x"), ("", "y\x1b[2J")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["A          LONG HEAD", "wide cell  x"]
    assert "\x1b" not in lines[2]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "now"), (59, "now"), (61, "1 min ago"), (7300, "2 h ago"), (40 * 86400, "40 d ago")],
)
def test_how_long_ago(seconds, text):
    assert streams.ago_text(time.time() - seconds) == text
