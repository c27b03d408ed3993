"""Progress as people see it: on a terminal one line that lives, in a log one line for each piece."""

from __future__ import annotations

import io

import pytest

from stackproof import cli
from stackproof.core.cli import progress
from stackproof.core.monitor import Event


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    progress._OPEN.clear()
    return screen


def piece(what: str, **more: object) -> Event:
    given = {"name": "block 2/10", "text": "openmpi, intra-node, stackproof-bench", "done": 18,
             "total": 88, "left_s": 700.0, **more}  # fmt: skip
    return Event(what=what, **given)  # type: ignore[arg-type]


def test_in_a_log_each_piece_has_a_line_with_what_is_left(capsys):
    monitor = progress.monitor()
    monitor(piece("progress"))
    assert capsys.readouterr().err == ""
    monitor(piece("piece", seconds=5.43))
    assert capsys.readouterr().err == (
        "ok [18/88] block 2/10  openmpi, intra-node, stackproof-bench  5.4 s  about 12 min left\n"
    )


def test_what_is_left_may_be_of_a_part(capsys):
    progress.monitor()(piece("piece", left_of="of this block"))
    assert capsys.readouterr().err.endswith("  about 12 min left of this block\n")


def test_where_nothing_is_left_none_is_said(capsys):
    progress.monitor()(piece("piece", seconds=1.0, left_s=0.0, left_of="of this block"))
    assert capsys.readouterr().err.endswith("stackproof-bench  1.0 s\n")


def test_on_a_terminal_one_line_says_what_is_left_however_narrow(monkeypatch):
    terminal = on_terminal(monkeypatch)
    monitor = progress.monitor()
    monitor(piece("progress", text="a-very-long-name-of-an-arm " * 4))
    monitor(piece("piece"))
    said = terminal.getvalue()
    assert "\n" not in said
    assert len(said) < 80
    assert said.endswith("0:00  about 12 min left")
    assert "…" in said


def test_an_error_has_a_line_of_its_own(monkeypatch):
    terminal = on_terminal(monkeypatch)

    def interrupted(_: list[str]) -> int:
        progress.monitor()(piece("progress"))
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli._main(["bench"]) == 130
    lines = terminal.getvalue().splitlines()
    assert lines[0].endswith("left")
    assert lines[1].startswith("error: interrupted")


def test_a_line_that_has_ended_is_not_ended_again(monkeypatch):
    terminal = on_terminal(monkeypatch)
    monitor = progress.monitor()
    monitor(piece("progress"))
    monitor(piece("done", left_s=None))
    progress.end_line()
    assert terminal.getvalue().count("\n") == 1
