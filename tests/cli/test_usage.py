"""What a mistyped command line is told, and what help says."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys

import pytest

import documented
import inprocess
import stackproof
from stackproof import cli
from stackproof.cli import commandtree
from stackproof.core import document
from stackproof.core.cli.examples import EXAMPLES, OUTPUTS
from stackproof.core.errors import ExitCode, Reason, StackproofError, did_you_mean
from stackproof.mpi.transports import Setup
from stackproof.mpi.transports.cxi import need_cxi
from stackproof.results.case import Placement, Rank

TREE = commandtree.load()
COMMANDS = {" ".join(command.words): command for command in TREE.all()}
LEAVES = {name: command for name, command in COMMANDS.items() if not command.commands}

BASE = f"registry.example.org/debian:12@sha256:{'0' * 64}"
MINE = """
name: mine
sources: {us: {title: our machine, kind: document, date: "2026-11-01"}}
partitions: {node: {nodes: 2}}
facts: {partitions.node.nodes: us}
"""


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert isinstance(caught.value.code, int)
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


@pytest.mark.parametrize(
    ("argv", "message", "guess", "usage"),
    [
        (["bulid"], "`bulid` is no verb", "build", "stackproof [--debug] VERB"),
        (["build", "--ouput", "x", "r.yaml"], "unknown option `--ouput`", "--output", "build"),
        (["build", "--out", "x", "r.yaml"], "unknown option `--out`", "--output", "build"),
        (["build", "--ouput=x", "r.yaml"], "unknown option `--ouput`", "--output", "build"),
        (["build", "--ouput"], "unknown option `--ouput`", "--output", "build"),
        (["inject", "chekc"], "`chekc` is no action", "check", "inject ACTION"),
        (["inject", "check", "x", "--lancher", "y"], "`--lancher`", "--launcher", "inject check"),
        (["help", "biuld"], "`biuld` is no verb", "build", "VERB"),
        (
            ["import", "--placement", "internode", "-o", "x", "f"],
            "`--placement` cannot be `internode`", "inter-node", "-o FOLDER",
        ),
        (["run", "a.squashfs", "--vieu", "x", "--", "true"], "`--vieu`", "--view", "-- COMMAND"),
    ],
)  # fmt: skip
def test_what_was_meant(capsys, argv, message, guess, usage):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (ExitCode.USAGE, "")
    first, second, hint = err.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert first.endswith("[usage]")
    assert second.startswith("  | usage: stackproof ")
    assert usage in second
    assert f"did you mean `{guess}`?" in hint


@pytest.mark.parametrize("verb", ["recipe", "site", "cluster", "image"])
def test_a_renamed_action_is_named(capsys, verb):
    code, _, err = run(capsys, verb, "list")
    assert code == ExitCode.USAGE
    assert f"write `stackproof {verb} ls`; " in err
    assert f"{verb} ls" in LEAVES
    assert "write" not in run(capsys, "inject", "list")[2]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["build"], "RECIPE must be given"),
        (["pack"], "error: IMAGE|RECIPE must be given"),
        (["build", "a", "b"], "`b` is one argument too many"),
        (["start", "a", "b"], "`b` is one argument too many"),
        (["cluster", "exec", "node1", "--", "true"], "`node1` is a node"),
        (["build", "a", "-o"], "`-o/--output` needs a value"),
        (["build", "--jobs", "x", "r"], "`--jobs` must be a whole number from 1 on, not `x`"),
        (["bench", "r", "--seed", "x"], "`--seed` must be a whole number, not `x`"),
        (["build", "--json=x", "r"], "`--json` takes no value"),
        (["build", "r", "--matrix", "--choose", "a=b"], "`--choose` and `--matrix` exclude each"),
        (["inject", "check", "x"], "one of `--with`, `--upgrade` must be given"),
        (["build", "--debug", "r"], "`--debug` stands before the verb"),
        (["import", "f"], "`-o/--output`, `--placement` must be given"),
        (["--nonsense"], "`--nonsense`"),
        (["check", "--vers"], "`--vers`"),
    ],
)
def test_in_words(capsys, argv, message):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (ExitCode.USAGE, "")
    assert message in err.splitlines()[0]


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["start", "a.squashfs", "b.squashfs"], "one word, with commas: `a.squashfs,b.squashfs`"),
        (["start", "a.squashfs", "--", "true"], "`stackproof run a.squashfs -- true`"),
        (["start", "a.squashfs", "true"], "`stackproof run a.squashfs -- true`"),
        (["start", "a.squashfs", "--no-view", "--", "ls", "-l"], "`stackproof run IMAGE -- ls -l`"),
        (["run", "--", "mpiexec", "-n", "2", "./a"], "`stackproof run IMAGE -- mpiexec -n 2 ./a`"),
        (["run", "--", "a b"], "`stackproof run IMAGE -- 'a b'`"),
        (["run", "--view", "a.squashfs", "--", "ls"], "`stackproof run IMAGE -- ls`"),
        (["run", "mpiexec", "-n", "2", "./a"], "`IMAGE -- mpiexec -n 2 ./a`"),
        (
            ["run", "a.squashfs"],
            "`stackproof run a.squashfs -- COMMAND`; a shell: `stackproof start",
        ),
        (["run", "a.squashfs", "--"], "`stackproof run a.squashfs -- COMMAND`"),
        (["activate", "a.squashfs", "b.squashfs"], "with commas: `a.squashfs,b.squashfs`"),
        (["status"], "`echo $STACKPROOF_MOUNTED` shows what is mounted"),
        (["pull", "a/1:v1"], "write `stackproof image pull`"),
        (["cluster", "exec", "node1", "--", "true"], "cluster exec --on node1 -- …"),
    ],
)
def test_what_was_meant_is_said(capsys, argv, hint):
    code, _, err = run(capsys, *argv)
    assert code == ExitCode.USAGE
    assert hint in err.splitlines()[-1]
    assert "commas" not in run(capsys, "build", "a", "b")[2]  # that takes one
    assert "commas" not in run(capsys, "bench", "a", "b")[2]  # lists are values of options there


def test_a_program_named_like_no_node_is_a_command(capsys, tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for program in ("env", "nodejs", "head"):
        code, _, err = run(capsys, "cluster", "exec", "--", program, "--", "x")
        assert (code, "is not up" in err) == (ExitCode.NOT_POSSIBLE, True)


def test_a_hint_that_every_verb_gives_says_which_have_its_option():
    """`bench` and others, whose nodes are there, have no `--site`."""
    two = Placement(name="two", ranks=(Rank(node="a"), Rank(node="b")))
    setup = Setup(family="openmpi", version="5.0.8", placement=two, fabric="ethernet")
    with pytest.raises(StackproofError) as caught:
        need_cxi("cxi", setup)
    hint = caught.value.problems[0].hint or ""
    verbs, named = hint.partition(" have `--site")[::2]
    assert named
    found = re.findall("`(\\w+)`", verbs.partition("this one")[2])
    assert found == ["run", "start", "activate"]
    for verb in found:
        assert any("--site" in option.names for option in COMMANDS[verb].options)


@pytest.mark.parametrize("argv", [["help"], ["--help"], ["-h"], ["--help", "run"]])
def test_help_of_all(capsys, argv):
    code, out, err = run(capsys, *argv)
    assert (code, err) == (0, "")
    assert all(f"\n  {name} " in out for name in cli.VERBS)
    if "run" not in argv:  # it fits a screen
        assert len(out.splitlines()) <= 48
        assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(capsys, name):
    words = name.split()
    code, out, err = run(capsys, "help", *words)
    assert (code, err) == (0, "")
    assert out == run(capsys, *words, "--help")[1]
    assert out.startswith(f"usage: stackproof {name}" if words else "usage: stackproof")
    # Neither Python's words for values nor argparse's for what is hidden.
    for word in ("==SUPPRESS==", "<Locality", "None)", "default: False", "default: []"):
        assert word not in out


def test_version(capsys):
    assert run(capsys, "-V") == run(capsys, "--version") == (0, f"{stackproof.__version__}\n", "")
    assert importlib.metadata.version("stackproof") == stackproof.__version__
    out = run(capsys, "-VV")[1]
    for part in (stackproof.__version__, sys.executable, os.path.dirname(stackproof.__file__)):
        assert part in out


@pytest.mark.parametrize(
    "argv",
    [
        ["build", "--json", "--nonsense"],
        ["build", "nowhere.yaml", "--json"],
        ["inspect", "nowhere.squashfs", "--json"],
        ["compare", "nowhere", "--json"],
        ["bench", "nowhere.yaml", "--json"],
        ["site", "show", "nowhere", "--json"],
        ["plan", "nowhere.yaml", "--json"],
        ["check", "nowhere.yaml", "--json"],
        ["explain", "nonsense-setting", "--json"],
        ["inject", "check", "nowhere", "--with", "nowhere", "--json"],
        ["activate", "nowhere.squashfs", "--json"],
        ["doctor", "nowhere.squashfs", "--json"],
        ["cluster", "status", "--name", "no_name!", "--json"],
    ],
)
def test_json_errors(capsys, argv):
    code, out, err = run(capsys, *argv)
    data = json.loads(out)
    problems = document.problems(document.parse(out, file="stdout"), "problems")
    assert not problems
    assert data["exit_code"] == code > 0
    first = data["problems"][0]
    assert Reason(first["reason"]).exit_code == code
    assert f"error: {first['message']} [{first['reason']}]" in err


def test_the_json_of_another_program_is_not_ours(capsys):
    assert run(capsys, "run", "nowhere.squashfs", "--", "prog", "--json")[1] == ""


@pytest.mark.parametrize(
    ("word", "guess"),
    [("--ouput", "--output"), ("--out", "--output"), ("--xyz", ""), ("", "")],
)
def test_guesses(word, guess):
    names = ("--output", "--in-memory")
    assert did_you_mean(word, names) == (f"did you mean `{guess}`? " if guess else "")


@pytest.mark.parametrize(
    ("environment", "marks"),
    [
        ({"PYTHONIOENCODING": "ascii"}, b"..."),
        ({"PYTHONIOENCODING": "iso-8859-1"}, b"..."),
        ({"PYTHONIOENCODING": "utf-8"}, "…".encode()),
        ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, b"..."),
    ],
)
def test_every_locale_can_show_help(environment, marks):
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", "run", "--help"], capture_output=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert marks in done.stdout


def test_json_in_any_encoding(tmp_path):
    name = "nöt ●🙂.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", "check", name, "--json"], capture_output=True,
        check=False, cwd=tmp_path, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert name in json.loads(done.stdout)["problems"][0]["message"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed):
    """A stream that is closed is none of the files that are opened later."""
    line = f'exec "{sys.executable}" -m stackproof site ls {closed}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("name", [*LEAVES, ""])
def test_examples_parse(name):
    """Every command has examples, they are of that command, and its parser takes them."""
    shown = COMMANDS[name].examples
    assert shown
    for line, words in shown:
        assert words
        argv = shlex.split(line)
        assert argv[0] == "stackproof"
        assert argv[1 : 1 + len(name.split())] == name.split()
        if argv[1] != "help":
            verb = argv[1]
            assert cli.build_parser(verb, alone=True).parse_args(argv[1:]).verb == verb


def test_options_that_examples_use_come_first_in_help(capsys):
    text = run(capsys, "bench", "--help")[1]
    shown = re.findall(r"^  (?:-\w \w+, )?(--[a-z-]+)", text, re.MULTILINE)
    assert {"--baseline", "--challenger", "--quick", "--until-decided", "--dry-run"} <= {
        *shown[:12]
    }
    assert "--seed" not in shown[:8]


def test_there_are_examples_of_no_other_commands():
    assert set(EXAMPLES) == {*LEAVES, ""}


def test_every_command_shows_an_output(capsys):
    """One with actions shows that of its first action."""
    assert set(OUTPUTS) == set(LEAVES)
    for name in filter(None, COMMANDS):
        text = run(capsys, *name.split(), "--help")[1]
        (shown,) = re.findall(r"\nexamples:\n.*\n\noutput:\n  \$ (.*)\n  \S", text, re.DOTALL)
        assert shown.startswith(f"stackproof {name}")


@pytest.mark.parametrize("name", OUTPUTS)
def test_help_shows_an_output(capsys, name):
    """Its line is of the command and parses; it is short, and stands in help and in the page."""
    line, *text = OUTPUTS[name]
    assert line.startswith(f"$ stackproof {name} ") or line == f"$ stackproof {name}"
    argv = shlex.split(line.partition(" <<< ")[0])[2:]  # what a shell is given to read
    assert cli.build_parser(argv[0], alone=True).parse_args(argv).verb == argv[0]
    assert 0 < len(text) <= 12
    code, shown, _ = run(capsys, *name.split(), "--help")
    assert code == ExitCode.DONE
    assert shown.rstrip().endswith("\n".join(f"  {row}".rstrip() for row in OUTPUTS[name]))
    page = (documented.ROOT / "docs" / "reference" / "commands.md").read_text()
    assert "\n".join(f"    {row}".rstrip() for row in OUTPUTS[name]) in page


@pytest.mark.parametrize(
    "name",
    [
        "check", "plan", "recipe ls", "recipe show", "explain", "site ls", "site show",
        "site check", "site probe", "site spack-config", "completion", "image containerfile",
        "image edf",
    ],
)  # fmt: skip
def test_an_output_has_the_shape_of_today(tmp_path, name):
    line, *text = OUTPUTS[name]
    (tmp_path / "mine.yaml").write_text(MINE)
    words = shlex.split(line.replace("NAME@sha256:DIGEST", BASE))[2:]
    done = inprocess.stackproof(*words, cwd=tmp_path)
    text = [row.replace("NAME@sha256:DIGEST", BASE) for row in text]
    assert documented.is_like(text, done.stderr + done.stdout)


def test_the_shape_of_an_output():
    text = ["a 12  5 MB", "…", "at /data/x 0123456789ab"]
    assert documented.is_like(text, "a 7 6 MB\nx\n\nat /tmp/y ba9876543210\n")
    assert documented.is_like(text, "a 7 6 MB\nat /tmp/y ba9876543210")
    assert not documented.is_like(text, "a 7 6 MB\nx")
    assert not documented.is_like(text, "a 7 6 MB\nat /tmp/y ba9876543210\nmore")
    assert not documented.is_like(text, "a 7 6 GB\nat /tmp/y ba9876543210")


# Where nothing is done without the option, and its text leaves no doubt of it.
ABSENT = {
    "--mirror", "--explain", "--stop-after", "--build-dir", "--cluster", "--inject", "--transport",
    "--plugstack", "--on", "--seed", "--site", "--program", "--results", "--launcher", "--ranks",
    "--quick", "--log", "--family", "--compiler", "--accelerator", "--expect", "--from",
    "--topology", "--tree", "--beside", "--label", "--namespace",
}  # fmt: skip


def test_every_option_with_a_value_says_what_it_is_without():
    """By a default, by what is done, or because it may be given several times or must be given."""
    said = ("default", "left out", "without", "may be given", "may be repeated", "once for each")
    bare = [
        (name, option.names[-1])
        for name, command in LEAVES.items()
        for option in command.options
        if option.value
        and not option.many
        and not option.required
        and not any(word in option.text for word in said)
        and option.names[-1] not in ABSENT
    ]
    assert bare == []
