"""Words of other tools on our command line: each gets the line that does it here."""

from __future__ import annotations

import shlex

import pytest

import inprocess
from stackproof import cli
from stackproof.cli import commandtree
from stackproof.core.cli import habits
from stackproof.core.errors import ExitCode

LINES = [line for line in habits.HABITS.values() if not line.startswith("*")]


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_is_proposed_parses(line):
    argv = shlex.split(line.partition(" > ")[0])
    if argv != ["--version"]:
        assert cli.build_parser(argv[0], alone=True).parse_args(argv).verb == argv[0]


def test_a_word_of_ours_is_no_habit():
    words = [word for text in habits.HABITS for word in text.split(", ")]
    assert not {*words} & {command.title.partition(" ")[2] for command in commandtree.load().all()}
    assert len({*words}) == len(words)


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        ("exec a.squashfs ls", "write `stackproof run IMAGE -- COMMAND`; "),
        ("list", "`stackproof image ls`"),
        ("spec mpich", "write `stackproof plan RECIPE`; "),
        ("validate x", "write `stackproof check RECIPE`; "),
        ("help concretize", "write `stackproof plan RECIPE`; "),
        # an action without its verb
        ("pull mpich/5", "write `stackproof image pull`; "),
        ("up", "write `stackproof cluster up`; "),
        ("probe", "write `stackproof site probe`; "),
        ("undo", "write `stackproof inject undo`; "),
        # an action under another name
        ("image search", "write `stackproof image find`; "),
        ("image build", "write `stackproof build RECIPE`; "),
        ("image create", "write `stackproof image add`; "),
        ("cluster start", "write `stackproof cluster up`; "),
        # options
        ("build --dry-run mpich", "write `stackproof plan RECIPE`"),
        ("build -r mpich -s alps", "write `stackproof build RECIPE`"),
        ("build mpich -s alps", "write `stackproof build --site`; "),
        ("build -j 4 mpich", "write `stackproof build --jobs`; "),
        ("start -v default a.squashfs", "write `stackproof start --view`; "),
        ("bench -n 4", "write `stackproof bench --ranks`; "),
        # several words
        ("bench a.squashfs b c", "`stackproof bench --quick --baseline a.squashfs --challenger b "),
        ("compare a b", "`compare` takes results: first `stackproof bench --quick --baseline a "),
    ],
)
def test_a_habit_gets_the_line(argv, hint):
    done = inprocess.stackproof(*argv.split())
    assert done.returncode == ExitCode.USAGE
    said = done.stderr.splitlines()[-1]
    assert said.startswith("hint: ")
    assert hint in said
    assert "did you mean" not in said
    assert "s are: " not in said


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["compare", "a", "b;c"], "stackproof compare a --beside 'b;c'"),
        (["bench", "a", "b;c"], "stackproof bench --quick --baseline a --challenger 'b;c'"),
        (["start", "a", "b;c.squashfs"], "'a,b;c.squashfs'"),
        (["run", "b;c", "--"], "stackproof run 'b;c' -- COMMAND"),
        (["check", "b;c.py"], "stackproof run IMAGE -- python3 'b;c.py'"),
    ],
)
def test_names_of_files_are_words_of_a_shell_in_the_line(argv, line, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b;c").mkdir()
    (tmp_path / "b;c.py").write_text("import os\n")
    assert f"`{line}`" in inprocess.stackproof(*argv, cwd=tmp_path).stderr


def test_results_are_compared_beside_others(tmp_path):
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
    done = inprocess.stackproof("compare", "new", "old", cwd=tmp_path)
    assert "write `stackproof compare new --beside old`" in done.stderr
    done = inprocess.stackproof("compare", "new", "nosuch", cwd=tmp_path)
    assert "write `stackproof compare new --beside nosuch`" in done.stderr
