"""Downloads say how many bytes have come while they run, and have one line when they are there."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading
import time
from pathlib import Path

import pytest

from servers import QuietServer
from stackproof.build.effects.executor import fetch
from stackproof.build.engines.easybuild.effects.sources import SourceFinder
from stackproof.build.engines.wheel import engine as wheel_engine
from stackproof.build.stack import Artefact, Digest, SourceFile
from stackproof.core.cli import progress
from stackproof.core.command import Command, Completed
from stackproof.core.effects.run import Runner
from stackproof.core.monitor import Event, null_monitor

COVERS = ("core/effects/downloads.py",)

PART, PARTS = b"x" * 100_000, 4
WHOLE = PART * PARTS
NAME = "x-1-py3-none-any.whl"
WHEEL = Artefact(name="x", version="1", filename=NAME, sha256=hashlib.sha256(WHOLE).hexdigest())


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))


def slow_pip(pause: float = 0.4, code: int = 0) -> Runner:
    """Return what writes as pip does: a file of its own that grows, then the one in its place."""

    def runner(command: Command, *, log: Path | None = None) -> Completed:
        del log
        ours = Path(command.env.set["TMPDIR"], "pip-unpack-1")
        ours.mkdir()
        for _ in range(PARTS):
            with (ours / NAME).open("ab") as stream:
                stream.write(PART)
            time.sleep(pause)
        if code == 0:
            Path(command.argv[command.argv.index("--dest") + 1], NAME).write_bytes(WHOLE)
        return Completed(argv=command.argv, returncode=code, stdout=b"", stderr=b"", seconds=0)

    return runner


def check_told(events: list[Event], name: str, suffix: str) -> None:
    assert {event.name for event in events} == {"download"}
    assert [event.what for event in events] == [
        "started", *["progress"] * (len(events) - 2), "piece",
    ]  # fmt: skip
    rate = re.compile(r", \d+\.\d kB/s(, .* left)?$")
    assert any(rate.search(event.text) for event in events[1:-1])
    texts = [rate.sub("", event.text) for event in events[1:-1]]
    some = {f"{name}  {part}00.0 kB{suffix}" for part in range(1, PARTS)}
    assert some & set(texts)
    assert texts == sorted(texts)
    assert events[-1].text == f"{name}  400.0 kB"
    assert (events[-1].seconds or 0) > 1


@pytest.mark.battery
def test_bytes_that_pip_has_are_told_while_they_come():
    events: list[Event] = []
    path = fetch(WHEEL, wheel_engine.fetch_command, events.append, runner=slow_pip())
    check_told(events, NAME, "")
    assert path.read_bytes() == WHOLE
    assert not [one for one in path.parent.iterdir() if one != path]


@pytest.mark.battery
def test_in_a_log_a_file_has_one_line_and_none_when_it_failed(capsys):
    with pytest.raises(Exception, match="pip"):
        fetch(WHEEL, wheel_engine.fetch_command, progress.monitor(), runner=slow_pip(0.1, code=1))
    assert capsys.readouterr().err == ""
    fetch(WHEEL, wheel_engine.fetch_command, progress.monitor(), runner=slow_pip(0.1))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ok download  {NAME}  400.0 kB  0.")
    fetch(WHEEL, wheel_engine.fetch_command, progress.monitor(), runner=slow_pip(0.1))
    assert capsys.readouterr().err == ""  # it is there


class _Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(WHOLE)))
        self.end_headers()
        for _ in range(PARTS):
            self.wfile.write(PART)
            time.sleep(0.4)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.battery
def test_of_how_many_is_told_where_the_server_says_it():
    accepted = (Digest(sha256=WHEEL.sha256, provenance="the project"),)
    events: list[Event] = []
    with QuietServer(("127.0.0.1", 0), _Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/two-1.0.tar.gz"
        wanted = SourceFile(filename="two-1.0.tar.gz", accepted=accepted, address=address)
        got = SourceFinder((), events.append).obtain(wanted)
        server.shutdown()
    check_told(events, address, " of 400.0 kB")
    assert SourceFinder((), null_monitor).obtain(wanted) == got
