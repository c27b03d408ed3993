"""`stackproof import` as a user calls it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from stackproof import cli

COVERS = ("bench/cli/import_.py", "bench/effects/import_files.py")

TABLE = (
    "# OSU MPI Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n"
    + "".join(f"{2**k:<10}{1.5 + k:>20.2f}\n" for k in range(23))
)


def run(*argv: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in argv])
    return int(stop.value.code or 0)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    path = tmp_path / "latency.txt"
    path.write_text(TABLE)
    return path


def test_files_become_results_that_report_takes(
    output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    assert run("import", f"vendor={output}", f"ours={output}", "--placement", "inter-node",
               "--site", "lumi-g", "-o", folder) == 0  # fmt: skip
    assert "2 of 2 tables" in capsys.readouterr().out
    spec = json.loads((folder / "bench.json").read_text())
    assert (spec["baseline"], spec["challengers"]) == ("vendor", ["ours"])
    assert spec["limits"]["inter-node"]["MB/s"] == 25000
    assert run("report", folder, "-o", tmp_path / "report.html") == 0
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_a_folder_that_is_there_is_not_touched(output: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    assert run("import", output, "--placement", "intra-node", "-o", tmp_path) == 2


@pytest.mark.parametrize("text", ["", "\0\xff garbage", "# OSU MPI Latency Test v7.4\n"])
def test_files_without_results_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="latin-1")
    folder = tmp_path / "r"
    assert run("import", path, "--placement", "inter-node", "-o", folder) == 3
    assert not folder.exists()


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("import", tmp_path / "no.txt", "--placement", "inter-node", "-o", tmp_path / "r") == 3
    )
    assert "no.txt" in capsys.readouterr().err


def test_standard_input_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = io.TextIOWrapper(io.BytesIO(TABLE.encode()))
    monkeypatch.setattr("sys.stdin", text)
    assert run("import", "theirs=-", "--placement", "intra-node", "-o", tmp_path / "r") == 0
    assert "1 of 1 tables" in capsys.readouterr().out
    spec = json.loads((tmp_path / "r" / "bench.json").read_text())
    assert (spec["baseline"], spec["challengers"], spec["launches"]) == ("theirs", [], 1)


def test_paths_are_added_one_after_the_other(
    output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, other = tmp_path / "results", tmp_path / "other.txt"
    other.write_text(TABLE.replace("1.50", "2.50"))
    first = ("import", output, "--arm", "vendor", "--transport", "cxi", "-o", folder)
    second = ("import", other, "--arm", "openmpi", "--transport", "lnx", "-o", folder, "--add")
    assert run(*first, "--placement", "inter-node") == 0
    assert run(*second, "--placement", "inter-node") == 0
    assert run(*second, "--placement", "inter-node") == 3  # once is enough
    assert "among the launches" in capsys.readouterr().err
    assert sorted(path.name for path in (folder / "launches").iterdir()) == [
        "0001.json", "0002.json",
    ]  # fmt: skip
    assert run("report", folder, "-o", tmp_path / "report.html") == 0
    lines = (tmp_path / "report-transports.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 23
    assert any(",openmpi,lnx,timed,1,2.5,2.5,2.5,1.66667,0.6," in line for line in lines)


INTER = ("--placement", "inter-node")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((*INTER, "--arm", ""), 2), ((*INTER, "--ranks", "2000000"), 2),
        ((*INTER, "--nodes", "1"), 2), ((*INTER, "--ranks", "1"), 2),
        (("--placement", "somewhere"), 2), ((), 2),
        ((*INTER, "--add"), 3),  # to results that are there
    ],
)  # fmt: skip
def test_words_that_cannot_be(
    output: Path, tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    assert run("import", output, "-o", tmp_path / "r", *words) == code
    assert not (tmp_path / "r").exists()
