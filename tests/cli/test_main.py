"""The command line as a whole: exit codes, and who is told what where."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.build import options as build_options
from stackproof.core.errors import ExitCode, Problem, Reason, StackproofError, fail
from stackproof.core.options import Options

COVERS = (
    "__init__.py",
    "__main__.py",
)


@pytest.fixture(autouse=True)
def signals_as_they_were():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class NoOptions(Options, run="build.cli.check:run"):
    """What a verb without options is asked for."""


@pytest.fixture
def verb(monkeypatch):
    """Return a function that makes its argument the verb `check`."""

    def install(action: Callable[[Options], int]) -> None:
        module = types.ModuleType("stackproof.build.cli.check")
        module.run = action  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "stackproof.build.cli.check", module)
        monkeypatch.setattr(build_options, "RecipeCheckOptions", NoOptions)

    return install


def exit_code(*argv: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def raises(error: BaseException) -> Callable[[Options], int]:
    def action(_: Options) -> int:
        raise error

    return action


def program(*argv: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": env, **options}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "stackproof", *argv], timeout=600, check=False, **given
    )


def test_version_imports_no_library():
    script = (
        "import sys\nfrom stackproof import cli\n"
        "try:\n    cli.main(['--version'])\nexcept SystemExit:\n    pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    heavy = {"numpy", "yaml", "jsonschema", "msgspec", "subprocess"}
    assert not heavy & set(done.stdout.splitlines()[1].split())


def test_help_names_every_verb_on_one_screen(capsys):
    assert exit_code("--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 40
    assert max(map(len, lines)) <= 80
    shown = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    assert shown == [[name, text] for name, (_, text) in cli.VERBS.items()]
    assert [line[:-1] for line in lines if line.endswith(":")] == [*cli.GROUPS]


def test_pages_and_completions_have_the_groups_of_help(capsys):
    docs = Path(__file__).parents[2] / "docs"
    titles = [title.capitalize() for title in cli.GROUPS]
    page = (docs / "reference" / "commands.md").read_text()
    assert re.findall("^## (.*)", page, re.MULTILINE) == titles
    assert re.findall("^### stackproof (.*)", page, re.MULTILINE) == [*cli.VERBS]
    manual = (docs / "man" / "stackproof.1").read_text()
    assert re.findall('^.SS "(.*)"', manual, re.MULTILINE) == titles
    assert re.findall(r"^.BR stackproof\\-(\S+)", manual, re.MULTILINE) == [*cli.VERBS]
    assert exit_code("completion", "bash") == 0
    assert f"_stackproof_commands[.]='{' '.join(cli.VERBS)}'" in capsys.readouterr().out


def test_no_verb_shows_help_on_standard_error(capsys):
    assert exit_code() == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "VERB --help" in captured.err


@pytest.mark.parametrize("code", [0, 8, ExitCode.JOB])
def test_the_exit_code_of_a_verb(verb, code):
    verb(lambda _: code)
    assert exit_code("check") == code


@pytest.mark.parametrize("reason", Reason)
def test_the_reason_decides_the_exit_code(verb, capsys, reason):
    verb(raises(fail(reason, "what", hint="do")))
    assert exit_code("check") == reason.exit_code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"error: what [{reason}]\nhint: do\n")


def test_all_problems_are_shown(verb, capsys):
    problems = [Problem(reason=Reason.UNKNOWN_KEY, message=word) for word in ("one", "two")]
    verb(raises(StackproofError(*problems)))
    assert exit_code("check") == ExitCode.INVALID
    assert capsys.readouterr().err == "error: one [unknown-key]\nerror: two [unknown-key]\n"


def test_debug_adds_the_traceback_and_keeps_the_exit_code(verb, capsys):
    verb(raises(fail(Reason.NO_FUSE, "what")))
    assert exit_code("--debug", "check") == ExitCode.NOT_POSSIBLE
    text = capsys.readouterr().err
    assert "Traceback" in text
    assert text.endswith("error: what [no-fuse]\n")


def test_an_interrupt(verb, capsys):
    verb(raises(KeyboardInterrupt()))
    assert exit_code("check") == ExitCode.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.battery
def test_sigterm_unwinds_like_an_interrupt(verb):
    unwound = []

    def action(_: Options) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            unwound.append("yes")
        return 0

    verb(action)
    assert exit_code("check") == ExitCode.INTERRUPTED
    assert unwound == ["yes"]


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("x"), OSError(errno.EIO, "x"), RecursionError()]
)
def test_everything_else_is_a_bug_of_ours(verb, capsys, error):
    verb(raises(error))
    assert exit_code("check") == ExitCode.BUG
    text = capsys.readouterr().err
    assert "Traceback" not in text
    assert "--debug" in text
    exit_code("--debug", "check")
    assert "Traceback" in capsys.readouterr().err


def test_no_space_is_no_bug(verb, capsys):
    verb(raises(OSError(errno.ENOSPC, "no space", "/some/file")))
    assert exit_code("check") == Reason.DISK_FULL.exit_code
    assert "/some/file" in capsys.readouterr().err


def test_a_working_folder_that_is_gone_is_no_bug(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    script = 'rmdir "$1"; exec "$2" -m stackproof check mpich.yaml'
    argv = ["sh", "-c", script, "sh", folder, sys.executable]
    done = subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == Reason.FILE_MISSING.exit_code
    assert "the folder that this was started in is there no more [file-missing]" in done.stderr


def test_a_reader_that_has_gone_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stream:
        done = program("--help", stdout=stream)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("code", [0, 8])
def test_a_reader_that_has_gone_does_not_hide_the_verdict(code):
    script = (
        "import sys, types\nfrom stackproof import cli\n"
        f"def run(_):\n    print('x')\n    return {code}\n"
        "module = types.ModuleType('m')\n"
        "from stackproof.build import options\n"
        "from stackproof.core.options import Options\n"
        "class NoOptions(Options, run='build.cli.check:run'): pass\n"
        "options.RecipeCheckOptions = NoOptions\n"
        "module.run = run\n"
        "sys.modules['stackproof.build.cli.check'] = module\n"
        "cli.main(['check'])"
    )
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stream:
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=stream, stderr=subprocess.PIPE, check=False,
            env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, b"")


def test_output_that_nothing_can_take():
    with open("/dev/full", "wb") as stream:
        done = program("--help", stdout=stream)
    assert done.returncode == Reason.DISK_FULL.exit_code
    assert b"standard output" in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_the_installed_program_is_the_same():
    scripts = importlib.metadata.entry_points(group="console_scripts", name="stackproof")
    assert [script.load() for script in scripts] == [cli.main]


def test_help_is_as_wide_as_the_terminal(capsys, monkeypatch):
    widths = {}
    for columns in ("60", "200", "none", "0"):
        monkeypatch.setenv("COLUMNS", columns)
        assert exit_code("run", "--help") == 0
        lines = capsys.readouterr().out.splitlines()
        # How to call it is written by hand, on one line, and an example is there to be copied.
        widths[columns] = max(
            len(line) for line in lines[1:] if not line.startswith("  stackproof ")
        )
    assert widths["60"] <= 58 < 100 < widths["200"]
    assert widths["none"] == widths["0"] <= 200


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (["run", "stack.squash", "--", "true"], "stack.squashfs"),
        (["run", "stack.squash:/x,other.squashfs", "--", "true"], "stack.squashfs"),
        (["compare", "resluts"], "results"),
        (["plan", "./recpe.yaml"], "./recipe.yaml"),
        (
            ["inject", "check", "recipe.yaml", "--with={here}/stack.sqashfs"],
            "{here}/stack.squashfs",
        ),
        (["report", "none-of-these"], None),
        (["image", "rm", "stack.squash"], None),
        (["compare", "results/stack"], None),
        (["compare", "bad.yam"], None),
    ],
)
def test_a_similar_file_is_named_where_a_path_leads_nowhere(
    words: list[str],
    guess: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("stack.squashfs", "recipe.yaml", "bad.yaml\nhint: x", "bad.yaml\u202e"):
        (tmp_path / name).write_text("")
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STACKPROOF_REPOSITORY", str(tmp_path / "repository"))
    with pytest.raises(SystemExit) as stop:
        cli.main([word.format(here=tmp_path) for word in words])
    errors = capsys.readouterr().err
    assert stop.value.code in {3, 6}
    if guess is None:
        assert "did you mean" not in errors
    else:
        assert f"hint: did you mean `{guess.format(here=tmp_path)}`? " in errors
