"""Options that are declared once: an option of a class of this file is seen everywhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from refusals import refused
from stackproof.cli import commandtree, completing
from stackproof.core.cli import parsing
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.options import Options, argument, flag, option, part, required


class ToySiteOptions(Options):
    """Where toys are made."""

    site: str | None = option("SITE", "where; default: here")
    jobs: int | None = option("N", "hands at once", least=1)


class ToyOptions(Options, run="toy:run", text="make a toy", short="make toys"):
    """A toy, and how it is made."""

    name: str = argument("NAME", "what it is called")
    parts: tuple[str, ...] = argument("FILE", "what it is made of", default=())
    place: ToySiteOptions = part(ToySiteOptions, "where", "most toys do not care")
    to: str = required("DIR", "where it goes", words="-t --to")
    colours: tuple[str, ...] = option("COLOUR", "one of its colours", words="--colour")
    size: float = option("CM", "how large it is", default=5.0)
    shape: str = option(("round", "square"), "its shape", default="round")
    picture: str | None = option("FILE", "a drawing of it", output="report")
    pair: tuple[str, ...] = option("OLD NEW", "exchange a part")
    check: str | None = option("SHA256", "compare it", bare="")
    label: str | None = option("TEXT", "what is written on it", complete="@label")
    quick: bool = flag("in a hurry", excludes="slow")
    slow: bool = flag("with care")
    secret: bool = flag("")
    json: bool = flag("print as JSON")
    inside: int = 7


def toy_parser() -> parsing.Parser:
    parser = parsing.Parser(prog="stackproof")
    parsing.declare_actions(parsing.add_actions(parser), {"toy": ToyOptions})
    return parser


def asked(*words: str) -> ToyOptions:
    args = toy_parser().parse_args(["toy", *words])
    assert args.run == "toy:run"
    return parsing.value_of(args.options, args)


def test_a_value_has_what_was_said_and_defaults():
    plain = asked("bear", "--to", "box")
    assert plain == ToyOptions(name="bear", to="box")
    assert (plain.parts, plain.place, plain.inside) == ((), ToySiteOptions(), 7)
    assert (plain.size, plain.shape, plain.check, plain.quick) == (5.0, "round", None, False)
    full = asked(
        "bear", "arm", "leg", "-t", "box", "--colour", "red", "--colour", "blue", "--jobs", "3",
        "--pair", "arm", "leg", "--size", "2.5", "--check", "--secret", "--site", "home",
    )  # fmt: skip
    assert full == ToyOptions(
        name="bear", parts=("arm", "leg"), to="box", colours=("red", "blue"), size=2.5, check="",
        place=ToySiteOptions(jobs=3, site="home"), pair=("arm", "leg"), secret=True,
    )  # fmt: skip
    assert asked("bear", "--to", "box", "--check", "abc").check == "abc"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bear"], "`-t/--to` must be given"),
        (["bear", "-t", "x", "--jobs", "0"], "`--jobs` must be a whole number from 1 on, not `0`"),
        (["bear", "-t", "x", "--size", "big"], "`--size` must be a number, not `big`"),
        (["bear", "-t", "x", "--shape", "rond"], "`--shape` cannot be `rond`"),
        (["bear", "-t", "x", "--slow", "--quick"], "`--quick` and `--slow` exclude each other"),
        (["bear", "-t", "x", "--sise", "3"], "unknown option `--sise`"),
    ],
)
def test_a_wrong_command_line_is_refused(words, message):
    with refused(Reason.USAGE) as caught:
        asked(*words)
    assert caught.value.problems[0].message == message


class PickOptions(Options, run="toy:pick", text="pick one"):
    """One of two."""

    first: str | None = option("NAME", "the first", must=True)
    second: str | None = option("NAME", "the second", excludes="first")
    rest: tuple[str, ...] = argument("COMMAND", "what to run", rest=True)


def test_one_of_some_must_be_given():
    parser = parsing.Parser(prog="pick")
    parsing.declare(parser, PickOptions)
    with pytest.raises(StackproofError, match="one of `--first`, `--second` must be given"):
        parser.parse_args([])
    args = parser.parse_args(["--second", "x", "ls", "-l"])
    assert parsing.value_of(PickOptions, args) == PickOptions(second="x", rest=("ls", "-l"))


class WrapOptions(Options, run="toy:wrap", text="run a command"):
    """A command, and options that may also stand behind the place."""

    place: str = argument("PLACE", "where")
    views: tuple[str, ...] = option("VIEW", "what it sees", words="--view")
    rest: tuple[str, ...] = argument("COMMAND", "what to run", rest=True, must=True, between=True)


def wrapped(*words: str) -> WrapOptions:
    parser = parsing.Parser(prog="wrap")
    parsing.declare(parser, WrapOptions)
    args = parser.parse_args(list(words))
    parsing.finish(args)
    return parsing.value_of(WrapOptions, args)


def test_options_may_stand_between_an_argument_and_a_command():
    plain = WrapOptions(place="x", rest=("ls", "-l", "--", "a"))
    assert wrapped("x", "--", "ls", "-l", "--", "a") == plain
    assert wrapped("x", "ls", "-l", "--", "a") == plain
    both = wrapped("--view", "a", "x", "--view", "b", "--", "--view")
    assert both == WrapOptions(place="x", views=("a", "b"), rest=("--view",))


@pytest.mark.parametrize("words", [["x"], ["x", "--"], ["x", "--view", "a"]])
def test_a_command_must_be_given(words):
    with pytest.raises(StackproofError, match="say what to run: -- COMMAND"):
        wrapped(*words)


def test_help_between_is_that_of_the_command(capsys):
    with pytest.raises(SystemExit):
        wrapped("x", "--help")
    assert capsys.readouterr().out.startswith("usage: wrap")


def test_help_and_reference_show_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    command = commandtree.of_parser(toy_parser()).commands[0]
    shown = {one.title: one for one in command.options}
    assert command.text == "make a toy"
    assert shown["--size CM"].text == "how large it is (default: 5.0)"
    assert shown["--shape {round,square}"].choices == ("round", "square")
    assert shown["-t, --to DIR"].required
    assert shown["--colour COLOUR"].many
    assert shown["--picture FILE"].output == "report"
    assert "--secret" not in shown
    assert command.usage == "stackproof toy [OPTION…] -t DIR NAME [FILE …]"
    text = toy_parser().format_help()
    assert "make toys" in text


def test_completion_offers_it():
    tree = commandtree.of_parser(toy_parser())
    options = {one.names[-1]: one for one in tree.commands[0].options}
    names = {"SITE": ("lumi-c",)}
    assert completing.kind_of(options["--shape"], names) == "round square"
    assert completing.kind_of(options["--site"], names) == "lumi-c @file"
    assert completing.kind_of(options["--to"], names) == "@dir"
    assert completing.kind_of(options["--label"], names) == "@label"
    script = completing.bash(tree, names)
    assert "_stackproof_values[toy:--shape]='round square'" in script


def test_a_value_is_never_changed_and_has_no_other_field():
    toy = ToyOptions(name="bear", to="box")
    with pytest.raises(AttributeError, match="name of ToyOptions cannot be changed"):
        toy.name = "cat"  # type: ignore[misc]
    assert toy.changed(size=1.0).changed(size=5.0) == toy != toy.changed(size=1.0)
    assert hash(toy) == hash(ToyOptions(name="bear", to="box"))
    assert "ToyOptions(name='bear', parts=()" in repr(toy)
    with pytest.raises(TypeError, match="ToyOptions has no field colour"):
        ToyOptions(name="bear", to="box", colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="ToyOptions needs name, to"):
        ToyOptions()  # type: ignore[call-arg]


def test_what_was_given_is_named_as_it_is_written():
    toy = ToyOptions(
        name="bear", to="box", colours=("red",), place=ToySiteOptions(jobs=1), quick=True
    )
    assert toy.given() == ("NAME", "--jobs", "--to", "--colour", "--quick")


def test_an_empty_text_is_not_given():
    assert ToyOptions(name="bear", to="box", label="").given() == ("NAME", "--to")


def test_a_wrong_word_in_a_declaration_is_told_at_once():
    with pytest.raises(TypeError, match="an option has no fact `chioces`"):
        option("NAME", "a name", chioces=("a",))  # type: ignore[call-arg]


def test_declaring_imports_nothing():
    script = (
        "import sys, __future__; before = set(sys.modules); import stackproof.core.options\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.split() == ["stackproof", "stackproof.core", "stackproof.core.options"]
