"""`stackproof site`, as a user calls it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import terminals
from stackproof.cli import main
from stackproof.core import noun
from stackproof.core.effects import shipped
from stackproof.site.capture import Capture
from stackproof.site.model import Site

COVERS = (
    "site/cli/site.py",
    "site/options.py",
)

CAPTURES = Path(__file__).parents[1] / "captures" / "probe"


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["site", *argv])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def test_list(capsys):
    code, out, err = call(capsys, "ls")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["SITE", "ARCHITECTURE", "FABRIC", "DESCRIPTION"]
    names = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert names == sorted(shipped.names("sites"))
    assert any(line.startswith("lumi-g ") and "slingshot-11" in line for line in lines)


def test_list_json(capsys):
    _, out, _ = call(capsys, "ls", "--json")
    sites = {entry["name"]: entry for entry in json.loads(out)}
    assert sites["alps-gh200"]["architecture"] == "aarch64"
    assert sites["local"]["fabric"] == ""


def test_show_names_the_source_of_every_fact(capsys):
    code, out, _ = call(capsys, "show", "olivia-gh200")
    assert code == 0
    facts, _, sources = out.partition("\n\n")
    rows = [line.split("  ") for line in facts.splitlines()[2:]]
    begun = [row for row in rows if row[0].strip()]  # the others are what had no room
    assert all(len([cell for cell in row if cell.strip()]) == 3 for row in begun)
    assert "vendor-mpi.version" in facts
    assert "MPI at Warp Speed" in sources


@pytest.mark.parametrize("site", shipped.names("sites"))
def test_no_line_is_wider_than_a_terminal(capsys, site):
    """But for the sake of a word that has no room, as an address or a path may have none."""
    for line in call(capsys, "show", site)[1].splitlines():
        assert len(line) <= 100 or max(map(len, line.split())) > 40, line


def on_terminal(columns: int, *argv: str, **environment: str) -> str:
    """Return what a terminal of so many columns is told."""
    env = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), **environment}
    code, text = terminals.shown([sys.executable, "-m", "stackproof", "site", *argv], env)
    assert code == 0
    return text


@pytest.mark.parametrize("columns", [40, 60, 100, 200])
def test_a_table_fits_the_terminal_and_loses_nothing(capsys, columns):
    shown = on_terminal(columns, "show", "lumi-c", NO_COLOR="1")
    facts, _, _ = shown.partition("\n\n")
    lines = facts.splitlines()[1:]
    assert max(map(len, lines)) <= columns
    starts = [lines[0].index(head) for head in ("FACT", "VALUE", "SOURCE")]
    names, values, sources = (
        "".join(line[start:end].strip() for line in lines)
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    )
    assert "externals.slingshot-host-software.version" in names
    assert "HPE Slingshot 200 Gb/s NIC (Cassini)".replace(" ", "") in values.replace(" ", "")
    wide = call(capsys, "show", "lumi-c")[1].partition("\n\n")[0].split()
    assert sorted("".join(wide)) == sorted("".join(facts.split()))
    assert sources.endswith("cug2025")


def test_heads_are_bold_on_a_terminal_that_may_show_it():
    bold = on_terminal(100, "ls", NO_COLOR="")
    assert bold.startswith("\x1b[1mSITE ")
    assert bold.count("\x1b") == 2
    plain = on_terminal(100, "ls", NO_COLOR="1")
    assert plain == bold.replace("\x1b[1m", "").replace("\x1b[0m", "")


def test_show_json_is_the_noun(capsys):
    _, out, _ = call(capsys, "show", "adastra", "--json")
    assert noun.from_json(Site, out).launchers["srun"].pmi == ("pmi2",)


def test_show_local_is_probed(capsys):
    _, out, _ = call(capsys, "show", "local")
    assert "/proc/sys/kernel/osrelease" in out


def test_probe_json(capsys):
    code, out, _ = call(capsys, "probe", "--json")
    assert code == 0
    assert noun.from_json(Site, out).kernel


def test_a_capture_is_read_elsewhere(capsys, tmp_path):
    code, out, _ = call(capsys, "probe", "--capture")
    assert code == 0
    file = tmp_path / "here.json"
    file.write_text(out)
    assert noun.from_json(Capture, out).taken
    _, here, _ = call(capsys, "probe", "--from", str(file), "--json")
    _, there, _ = call(
        capsys, "probe", "--from", str(CAPTURES / "constructed-slingshot.json"), "--json"
    )
    assert (
        noun.from_json(Site, here).fabric.type != "slingshot-11" or Path("/sys/class/cxi").exists()
    )
    assert noun.from_json(Site, there).fabric.type == "slingshot-11"


def test_probe_yaml_is_a_valid_site_file(capsys, tmp_path):
    _, out, _ = call(capsys, "probe", "--yaml")
    file = tmp_path / "mine.yaml"
    file.write_text(out)
    code, out, err = call(capsys, "check", str(file))
    assert (code, out) == (0, "")
    assert "valid" in err


_TYPED = """name: typed
partitions: {gpu: {nodes: 5, architecture: aarch64}}
fabric: {type: slingshot-11}
externals: {libfabric: {version: "1.22.0"}}
limits: {}
"""


def test_a_file_of_ones_own_needs_no_sources(capsys, tmp_path):
    site = tmp_path / "typed.yaml"
    site.write_text(_TYPED)
    os.utime(site, (1750000000, 1750000000))
    code, out, err = call(capsys, "check", str(site))
    assert (code, out) == (0, "")
    note, valid = err.splitlines()
    assert "this machine, 2025-06-15" in note
    assert valid.endswith("valid (4 facts, 1 sources)")
    _, out, _ = call(capsys, "show", str(site), "--json")
    assert json.loads(out)["facts"]["fabric"] == ["own"]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("name: typed", "name: typed\nsources: {a: {title: b}}", "no source is given"),
        ("name: typed", "name: typed\nfacts: {os: a}", "`os`"),
        ("nodes: 5", "nodes: many", "nodes"),
        ("fabric:", "fabrik:", "fabrik"),
    ],
)
def test_what_else_is_wrong_without_sources_is_told(capsys, tmp_path, old, new, error):
    site = tmp_path / "typed.yaml"
    site.write_text(_TYPED.replace(old, new))
    code, _, err = call(capsys, "check", str(site))
    assert code == 3
    assert error in err


def test_check_tells_every_problem_with_its_place(capsys, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("name: x\nfabrik: {}\npartitions: {a: {nodes: two}}\n")
    code, out, err = call(capsys, "check", str(file))
    assert (code, out) == (3, "")
    assert f"--> {file}:2:1" in err
    assert f"--> {file}:3:25" in err
    assert "did you mean `fabric`?" in err


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], 2),
        (["show", "lumi-x"], 3),
        (["check", "/no/such/file.yaml"], 3),
        (["probe", "--from", "/no/such/file.json"], 3),
        (["probe", "--capture", "--yaml"], 2),
    ],
)
def test_failures(capsys, argv, code):
    found, out, err = call(capsys, *argv)
    assert (found, out) == (code, "")
    assert "error: " in err


def test_the_text_of_a_site_comes_through_a_pipe_and_without_a_mark(capsys, tmp_path):
    text = "name: mine\npartitions: {default: {}}\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8-sig")
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    for path in (tmp_path / "mine.yaml", f"/proc/self/fd/{reader}"):
        assert call(capsys, "show", "--yaml", str(path))[:2] == (0, text)
    os.close(reader)


def test_what_nobody_named_is_not_waited_for(capsys, tmp_path, monkeypatch):
    """A pipe takes the place of a file after the look at it, and `/proc` has files that wait."""
    os.mkfifo(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").symlink_to("/proc/self/environ")
    (tmp_path / "c.yaml").write_text("name: c\npartitions: {default: {}}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    assert "there are: ./c.yaml, adastra, " in call(capsys, "check", "login.txt")[2]


def test_a_capture_file_of_another_kind(capsys, tmp_path):
    file = tmp_path / "x.json"
    file.write_text('{"schema": "stackproof/site/1"}')
    code, _, err = call(capsys, "probe", "--from", str(file))
    assert code == 3
    assert "not a capture of a machine [" in err
    assert "\nhint: " in err


def test_a_site_file_without_its_folder_is_pointed_to(capsys, tmp_path, monkeypatch):
    (tmp_path / "my-machine.yaml").write_text("name: my-machine\n")
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capsys, "show", "my-machine")
    assert code == 3
    assert "hint: the file here is `./my-machine.yaml`; there are: " in err
    assert "the file here" not in call(capsys, "show", "my-other")[2]
    (tmp_path / "my-machine.yaml").write_text("name: my-machine\npartitions: {default: {}}\n")
    (tmp_path / "recipe.yaml").write_text("name: a\nmpi: {name: mpich}\n")
    assert "there are: ./my-machine.yaml, adastra, " in call(capsys, "check", "login.txt")[2]
    (tmp_path / "hello.c").write_text("#include <mpi.h>\n")
    assert "this is C or C++ source, not a site" in call(capsys, "check", "hello.c")[2]
