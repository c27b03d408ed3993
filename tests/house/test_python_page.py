"""The programs of the page on Python, run as they stand there; tests/bench has the one that measures."""

from __future__ import annotations

import pytest

from pythonpage import programs
from stackproof.core.errors import Reason
from synthetic import SIZES, Noise, Plan, simulate, write_results

PROGRAMS = programs()


def run(name: str) -> None:
    exec(compile(PROGRAMS[name], f"{name}.py", "exec"), {"__name__": "__main__"})


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_program_is_short():
    assert set(PROGRAMS) >= {"Measure", "Judge", "Diagnose"}
    assert all(len(text.splitlines()) <= 25 for text in PROGRAMS.values())


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "PASS"), (1.5, "FAIL")])
def test_judge(here, capsys, factor, verdict):
    slower = {("inter-node", "latency"): dict.fromkeys(SIZES, factor)}
    quiet = Noise(launch=0.003, size=0.003, block=0.02)
    sizes = (8, 1024, 65536)
    plan = Plan(challengers=("mpich",), sizes=sizes, noise=quiet, slower={"mpich": slower})
    write_results(simulate(plan), here / "results")
    run("Judge")
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("mpich ")]
    assert [line.split()[1] for line in said] == [verdict]
    assert (here / "report.html").read_text().startswith("<!doctype html>")


def test_diagnose(here, capsys):
    (here / "job.env").write_text("OMPI_MCA_opal_common_ofi_provider_include=shm+cxi:lnx\n")
    run("Diagnose")
    said = capsys.readouterr().out
    assert "K01 " in said
    assert "=shm+cxi:lnx (job.env)" in said
    assert "remedy: " in said


def test_what_goes_wrong_has_a_reason(here):
    with pytest.raises(SystemExit) as stop:
        run("Diagnose")
    assert str(stop.value.code).startswith(f"{Reason.FILE_MISSING}: ")
    assert list(here.iterdir()) == []
