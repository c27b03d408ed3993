"""Every command with its arguments, as values: pages, man pages and completions are made of it."""

from __future__ import annotations

import argparse

from stackproof import cli
from stackproof.core.cli.examples import EXAMPLES, OUTPUTS
from stackproof.core.cli.parsing import help_of, metavar_of, short_usage
from stackproof.core.value import Value


class Argument(Value):
    """An option, or a positional argument, which has no `names`.

    `value` is how its value is called, empty for a switch; `choices` are all values it can have.
    `output` is the kind of the file that it names and the command writes, `complete` what completes
    it where that does not follow from all this.
    """

    names: tuple[str, ...] = ()
    value: str = ""
    text: str = ""
    choices: tuple[str, ...] = ()
    many: bool = False
    rest: bool = False
    required: bool = False
    output: str = ""
    complete: str = ""

    @property
    def title(self) -> str:
        """The option as it is written: `-o, --output FILE`."""
        return " ".join(filter(None, [", ".join(self.names), self.value]))


class DocumentedCommand(Value):
    """A command: `words` after `stackproof`, what it does, and the commands below it.

    `run` names the function that does it: `MODULE:FUNCTION` below `stackproof.cli`. `group` is the
    group of verbs that a verb stands in, `output` a command line with the lines that it prints.
    """

    words: tuple[str, ...]
    text: str
    usage: str
    positionals: tuple[Argument, ...] = ()
    options: tuple[Argument, ...] = ()
    epilog: str = ""
    run: str = ""
    group: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    output: tuple[str, ...] = ()
    commands: tuple[DocumentedCommand, ...] = ()

    @property
    def title(self) -> str:
        """The command as it is typed."""
        return " ".join(("stackproof", *self.words))

    def all(self) -> tuple[DocumentedCommand, ...]:
        """Return this command and all below it."""
        return (self, *(one for command in self.commands for one in command.all()))


def load() -> DocumentedCommand:
    """Return the whole tree, from the parsers of all verbs."""
    return of_parser(cli.build_parser("*"))


def of_parser(parser: argparse.ArgumentParser) -> DocumentedCommand:
    """Return the tree of a parser."""
    return _command(parser, ())


_GROUP_OF = {verb: title for title, verbs in cli.GROUPS.items() for verb in verbs}


def _command(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> DocumentedCommand:
    below: list[DocumentedCommand] = []
    positionals: list[Argument] = []
    options: list[Argument] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to look inside
        if action.help == argparse.SUPPRESS:
            continue
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            below += [_command(one, (*words, name)) for name, one in action.choices.items()]
            positionals.append(Argument(value=metavar_of(action), choices=tuple(action.choices)))
        else:
            (options if action.option_strings else positionals).append(_argument(action, parser))
    return DocumentedCommand(
        words=words,
        text=" ".join((parser.description or "").split()),
        usage=parser.usage % {"prog": parser.prog} if parser.usage else short_usage(parser),
        positionals=tuple(positionals),
        options=tuple(options),
        epilog=" ".join((parser.epilog or "").split()),
        run=parser.get_default("run") or "",
        group=_GROUP_OF.get(" ".join(words), ""),
        examples=EXAMPLES.get(" ".join(words), ()),
        output=OUTPUTS.get(" ".join(words), ()),
        commands=tuple(below),
    )


def _argument(action: argparse.Action, parser: argparse.ArgumentParser) -> Argument:
    text = help_of(action)
    groups = [one for one in parser._mutually_exclusive_groups if one.required]  # noqa: SLF001
    one_of = [one for group in groups for one in group._group_actions]  # noqa: SLF001
    value = "" if action.nargs == 0 else metavar_of(action)
    return Argument(
        names=tuple(action.option_strings),
        value=value,
        text=" ".join((text % {"prog": parser.prog, **vars(action)}).split()),
        choices=tuple(map(str, action.choices or ())),
        many=action.nargs in {"*", "+"} or isinstance(action, argparse._AppendAction),  # noqa: SLF001
        rest=action.nargs == argparse.REMAINDER,
        required=action.required or action in one_of,
        output=dict(parser.get_default("outputs") or ()).get(action.dest, ""),
        complete=getattr(action, "complete", ""),
    )
