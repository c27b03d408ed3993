"""The parser of every verb: short usage, defaults and examples in help, and what was meant.

A wrong command line ends as every other failure does: with a reason, the usage of the verb that
was meant, and a guess at what was mistyped. This is imported before every command of a user, so it
imports argparse and nothing else.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os

from stackproof.core.options import OptionPart

TYPE_CHECKING = False  # `typing` takes longer to import than to parse a command line
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, NoReturn, TypeVar

    from stackproof.core.errors import StackproofError
    from stackproof.core.options import OptionField, Options

    Declared = TypeVar("Declared", bound=Options)

BEFORE_THE_VERB = ("--debug", "-V", "--version")
_NUMBERS = {int: "a whole number", float: "a number"}


class HelpFormatter(argparse.HelpFormatter):
    """Help as wide as the terminal, found without `shutil`, which is slow to import.

    argparse makes one for every option, also where no help is asked for.
    """

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, width=_columns() - 2)

    def _get_help_string(self, action: argparse.Action) -> str:
        return help_of(action)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """Return the values as they are shown: alternatives as words, an enumeration's too."""
        if action.choices is not None and action.metavar is None and action.nargs is None:
            return f"{{{','.join(map(str, action.choices))}}}"
        return super()._format_args(action, default_metavar)


class Parser(argparse.ArgumentParser):
    """A parser that says what was meant; abbreviated options are refused, as scripts outlive them.

    Raises `StackproofError` (USAGE) where argparse would end the process.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("formatter_class", HelpFormatter)
        options.setdefault("allow_abbrev", False)
        self._usage: str | None = None
        self.overview = ""
        self._given: Sequence[str] = ()
        super().__init__(*args, **options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add one: of a `*` argparse says that it must be given, unless it has a default."""
        if options.get("nargs") == "*":
            options.setdefault("default", [])
        return super().add_argument(*names, **options)

    @property
    def usage(self) -> str:
        """The call of the command, on one line; in help all options follow anyway."""
        return self._usage or short_usage(self).replace("%", "%%")

    @usage.setter
    def usage(self, text: str | None) -> None:
        """Set it by hand; None is the short one again."""
        self._usage = text

    def add_subparsers(self, **options: Any) -> Any:
        """Add subparsers; how they are called begins as this parser is called."""
        return super().add_subparsers(**{"prog": self.prog, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what is left over is refused by the parser that it was meant for."""
        self._given = list(args or ())
        found, extras = super().parse_known_args(args, namespace)
        if extras:
            raise self.wrong(*self._left_over(extras))
        return found, extras

    def require_first(self, values: Mapping[str, Any]) -> str:
        """Return the first argument; raises `StackproofError` (USAGE) where it is behind `--`."""
        first = next(action for action in self._actions if not action.option_strings)
        before = [*itertools.takewhile(lambda word: word != "--", self._given)]
        if "--" in self._given and values[first.dest] not in before:
            name = metavar_of(first).partition("[")[0]
            hint = f"write `{self.prog} {name} -- {_joined(self._given[len(before) + 1 :])}`; "
            raise self.wrong(f"no {name} stands before `--`", hint)
        return str(values[first.dest])

    def error(self, message: str) -> NoReturn:
        """Raise `StackproofError` (USAGE) for what argparse found to be wrong.

        A mistyped option is named first: what argparse misses then is often its value.
        """
        unknown = self._unknown_options(self._given)
        raise self.wrong(*(self._left_over(unknown) if unknown else (_plain(message), "")))

    def wrong(self, message: str, hint: str = "") -> StackproofError:
        """Return the error of a command line for this parser."""
        from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - for failures only

        usage = self._usage or short_usage(self)
        return fail(
            Reason.USAGE,
            message,
            detail=f"usage: {usage}",
            hint=f"{hint}`{self.prog} --help` says more",
        )

    def format_help(self) -> str:
        """Return the help, with examples at its end; an `overview` stands in the place of both."""
        if self.overview:
            return self.overview
        from stackproof.core.cli.examples import EXAMPLES, OUTPUTS  # noqa: PLC0415 - for help only

        name = self.prog.partition(" ")[2]
        if name not in EXAMPLES:  # one with actions shows the first of them
            name = next((words for words in EXAMPLES if words.startswith(f"{name} ")), name)
        examples, output = EXAMPLES.get(name, ()), OUTPUTS.get(name, ())
        everyday = {"-h", *(word for line, _ in examples for word in line.split())}
        for group in self._action_groups:  # options that the examples use come first
            group._group_actions.sort(key=lambda action: everyday.isdisjoint(action.option_strings))  # noqa: SLF001
        text = super().format_help()
        if not examples:
            return text
        # A command stays whole, to be copied, with what it does above it.
        lines = []
        for line, words in examples:
            lines += [*([f"  # {words}"] if words else []), f"  {line}"]
        shown = ["", "output:", *(f"  {line}".rstrip() for line in output)] if output else []
        return "\n".join([text.rstrip("\n"), "", "examples:", *lines, *shown, ""])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from stackproof.core.errors import did_you_mean  # noqa: PLC0415 - for failures only

        names = list(map(str, action.choices))
        guess = did_you_mean(str(value), names)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the only way to know
            from stackproof.core.cli import habits  # noqa: PLC0415 - for failures only

            kind, verb = str(action.metavar or "choice").lower(), self.prog.partition(" ")[2]
            below = {} if verb else {name: _actions(one) for name, one in action.choices.items()}
            habit = habits.replace_word(verb, str(value), names) or habits.add_verb(value, below)
            hint = habit or f"{guess}{kind}s are: {', '.join(names)}; "
            raise self.wrong(f"`{value}` is no {kind} of {self.prog}", hint)
        message = f"{_named(action)} cannot be `{value}`"
        raise self.wrong(message, f"{guess}it is one of: {', '.join(names)}; ")

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        kind = self._registry_get("type", action.type, action.type)
        try:
            return kind(text)
        except (TypeError, ValueError, argparse.ArgumentTypeError) as error:
            said = isinstance(error, argparse.ArgumentTypeError) and str(error)
            form = said or f"must be {_NUMBERS.get(kind, 'of another form')}"
            raise self.wrong(f"{_named(action)} {form}, not `{text}`") from None

    def _unknown_options(self, words: Iterable[str]) -> list[str]:
        """Return the words that look like options and are none, as far as options can stand."""
        if any(action.nargs in {argparse.REMAINDER, argparse.PARSER} for action in self._actions):
            return []
        before = itertools.takewhile(lambda word: word != "--", words)
        return [
            word
            for word in before
            if word.startswith("--") and word.partition("=")[0] not in self._option_string_actions
        ]

    def _left_over(self, words: Sequence[str]) -> tuple[str, str]:
        """Return a message for words that nothing takes, and a hint."""
        from stackproof.core.cli import habits  # noqa: PLC0415 - for failures only
        from stackproof.core.errors import did_you_mean  # noqa: PLC0415 - for failures only

        before = {*itertools.takewhile(lambda word: word != "--", self._given)}
        left = (word for word in words if word in before and word.startswith("-") and word != "-")
        options = [word.partition("=")[0] for word in left]
        verb = self.prog.partition(" ")[2]
        if not options:
            further = next((word for word in words if word != "--"), "--")
            several = [] if any(word.startswith("-") for word in self._given) else self._given
            hint = habits.replace_words(verb, several) or self._list_hint(further)
            return f"`{further}` is one argument too many", hint
        option = options[0]
        if option in BEFORE_THE_VERB:
            return f"`{option}` stands before the verb", f"write `stackproof {option} …`; "
        known = [name for name in self._option_string_actions if name.startswith("--")]
        habit = habits.replace_word(verb, option, known)
        return f"unknown option `{option}`", habit or did_you_mean(option, known)

    def _list_hint(self, further: str) -> str:
        """Return how a command is called that takes a list, where several words were given."""
        if all("[," not in metavar_of(one) for one in self._actions if not one.option_strings):
            return ""
        words = [word for word in self._given if word != "--"]
        first = words[0] if words.index(further) == 1 else "IMAGE"
        if "--" in self._given or not (os.path.isfile(further) or further.endswith(".squashfs")):
            command = _joined(words[words.index(further) :])
            return f"a command is run by `stackproof run {_joined([first])} -- {command}`; "
        return f"several are one word, with commas: `{_joined([f'{first},{further}'])}`; "


def _joined(words: Sequence[str]) -> str:
    import shlex  # noqa: PLC0415 - for failures only

    return shlex.join(words)


def _actions(parser: argparse.ArgumentParser) -> list[str]:
    """Return the actions of a verb."""
    tables = (act.choices for act in parser._actions if act.nargs == argparse.PARSER)  # noqa: SLF001
    return [str(name) for table in tables for name in table or ()]


def short_usage(parser: argparse.ArgumentParser) -> str:
    """Return the call of a command on one line: options that must be, and arguments."""
    words = [parser.prog]
    shown = [one for one in parser._actions if one.help != argparse.SUPPRESS]  # noqa: SLF001
    options = [one for one in shown if one.option_strings]
    if any(not one.required and one.dest != "help" for one in options):
        words.append("[OPTION…]")
    words += [_given_as(one) for one in options if one.required]
    for group in parser._mutually_exclusive_groups:  # noqa: SLF001
        if group.required:
            words.append(f"({' | '.join(map(_given_as, group._group_actions))})")  # noqa: SLF001
    return " ".join([*words, *(_usage_of(one) for one in shown if not one.option_strings)])


def _given_as(option: argparse.Action) -> str:
    """Return the option as it is written: a switch has no value."""
    name = option.option_strings[0]
    return name if option.nargs == 0 else f"{name} {metavar_of(option)}"


def _usage_of(action: argparse.Action) -> str:
    name = metavar_of(action)
    if action.nargs == "?":
        return f"[{name}]"
    if action.nargs in {"*", argparse.REMAINDER}:
        return f"[{name} …]"
    return f"{name} [{name} …]" if action.nargs == "+" else name


def metavar_of(action: argparse.Action) -> str:
    """Return the name of an option's value, or of an argument."""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is not None:
        return action.metavar
    if action.choices is not None:
        return f"{{{','.join(map(str, action.choices))}}}"
    return action.dest.upper() if action.option_strings else action.dest


def help_of(action: argparse.Action) -> str:
    """Return the help of an option, with its default where the text does not say one."""
    text = action.help or ""
    if not action.option_strings or action.nargs == 0 or "default" in text:
        return text
    if action.default in (None, "", argparse.SUPPRESS) or isinstance(action.default, list):
        return text
    return f"{text} (default: %(default)s)"


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def declare(parser: argparse.ArgumentParser, kind: type[Options]) -> None:
    """Make a parser that of a command, by what the class of its options declares."""
    facts = kind.command_facts
    parser.usage = facts.get("usage")
    parser.epilog = facts.get("epilog")
    parser.set_defaults(run=facts["run"], options=kind, parser=parser)
    add_options(parser, kind)


def add_actions(parser: argparse.ArgumentParser) -> Any:
    """Return the argparse object that takes the commands below a verb."""
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")


def declare_actions(actions: Any, kinds: Mapping[str, type[Options]]) -> None:
    """Add commands below a verb, by what the classes of their options declare."""
    for name, kind in kinds.items():
        text = kind.command_facts["text"]
        short = kind.command_facts.get("short", text)
        declare(actions.add_parser(name, help=short, description=text), kind)


def add_options(
    parser: argparse.ArgumentParser, kind: type[Options], *, arguments: bool = True
) -> None:
    """Add what a class declares, its parts where these stand; without `arguments` options alone."""
    excluded = {
        field.facts["excludes"]
        for _, field in kind.option_fields.values()
        if field is not None and not isinstance(field, OptionPart) and "excludes" in field.facts
    }
    groups: dict[str, Any] = {}
    titled: dict[str, Any] = {}
    for name, (type_name, field) in kind.option_fields.items():
        if isinstance(field, OptionPart):
            group = parser.add_argument_group(field.title, field.about) if field.title else parser
            add_options(group, field.kind, arguments=arguments)  # type: ignore[arg-type] # alike
        elif field is not None and (arguments or not field.positional):
            title = field.facts.get("group", "")
            if title and title not in titled:
                titled[title] = parser.add_argument_group(title)
            first = field.facts.get("excludes", name if name in excluded else "")
            if first and first not in groups:
                must = field.facts.get("must", False)
                groups[first] = parser.add_mutually_exclusive_group(required=must)
            _add_option(groups.get(first) or titled.get(title, parser), name, type_name, field)


def _add_option(parser: argparse.ArgumentParser, name: str, kind: str, field: OptionField) -> None:
    """Add one argument; its `complete` is kept for the tree of commands."""
    facts = field.facts
    keys: dict[str, Any] = {"help": field.text or argparse.SUPPRESS}
    if not field.positional:
        keys |= {"dest": name, "required": field.required}
    if kind == "bool":
        keys["action"] = "store_true"
    else:
        keys |= _values_of(kind, field)
    action = parser.add_argument(*(field.words(name) or (name,)), **keys)
    action.complete = facts.get("complete", "")  # type: ignore[attr-defined]
    if "output" in facts:
        outputs = parser.get_default("outputs") or ()
        parser.set_defaults(outputs=(*outputs, (name, facts["output"])))


_READ = {"int": int, "float": float}


def _values_of(kind: str, field: OptionField) -> dict[str, Any]:
    """Return the number of values, their type and their name for argparse."""
    facts, many = field.facts, kind.startswith("tuple[")
    keys: dict[str, Any] = {"choices": facts.get("choices")}
    if isinstance(field.value, tuple):
        keys["choices"] = field.value
    else:
        names = field.value.split()
        keys["metavar"] = tuple(names) if len(names) > 1 else field.value
        keys |= {"nargs": len(names)} if len(names) > 1 else {}
    if "rest" in facts:
        keys["nargs"] = argparse.REMAINDER
    elif field.positional and not field.required:
        keys["nargs"] = "*" if many else "?"
    elif field.positional:
        keys |= {"nargs": "+"} if many else {}
    elif many and "nargs" not in keys:
        keys["action"] = "append"
    if "bare" in facts:
        keys |= {"nargs": "?", "const": facts["bare"]}
    if "rest" not in facts and not (field.positional and field.required):
        default = field.default(kind)
        # argparse takes a value that is its default for one that was not given, in groups.
        default = argparse.SUPPRESS if default == "" else default
        keys["default"] = list(default) if isinstance(default, tuple) else default
    if "least" in facts:
        keys["type"] = functools.partial(_at_least, facts["least"])
    elif (word := kind.partition(" ")[0]) in _READ:
        keys["type"] = _READ[word]
    return keys


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least} on")
    return int(text)


def finish(args: argparse.Namespace) -> None:
    """Take a command apart from what stands before it; raises `StackproofError` (USAGE)."""
    for name, (_, field) in args.options.option_fields.items():
        # What is neither a must nor behind a `--`, as of `shell`, its verb takes apart.
        if isinstance(field, OptionPart) or not field or not {"must", "between"} & {*field.facts}:
            continue
        if "rest" not in field.facts:
            continue
        words = getattr(args, name)
        first = args.parser.require_first(vars(args)) if field.facts.get("between") else ""
        if words[:1] == ["--"]:
            del words[0]
        elif field.facts.get("between") and words and words[0].startswith("-"):
            words = _take_between(args, words)
        setattr(args, name, words)
        if not words and "must" in field.facts:
            image = _joined([first])
            hint = f"`stackproof run {image} -- COMMAND`; a shell: `stackproof start {image}`; "
            raise args.parser.wrong("say what to run: -- COMMAND", hint if first else "")


def _take_between(args: argparse.Namespace, words: list[str]) -> list[str]:
    """Read the options that stand between the arguments and `--`; return what stands behind it.

    argparse cannot do this by itself: it takes away a `--` that belongs to the command.
    """
    if "--" not in words and words[0] != "-h" and not words[0].startswith("--"):
        first = args.parser.require_first(vars(args))
        command = "COMMAND" if os.path.isfile(first) else _joined([first, *words])
        hint = f"IMAGE stands before `--`, and the command behind it: `IMAGE -- {command}`; "
        raise args.parser.wrong(f"unknown option `{words[0]}`", hint)
    at = words.index("--") if "--" in words else len(words)
    behind = Parser(prog=args.parser.prog, usage=args.parser.usage, add_help=False)
    behind.add_argument("-h", "--help", action="store_true")
    add_options(behind, args.options, arguments=False)
    behind.parse_args(words[:at], namespace=args)
    if args.help:
        args.parser.print_help()
        raise SystemExit(0)
    return words[at + 1 :]


def value_of(kind: type[Declared], args: argparse.Namespace) -> Declared:
    """Return the options of a command from what was parsed; raises as their `refuse` does."""
    values: dict[str, Any] = {}
    for name, (_, field) in kind.option_fields.items():
        if isinstance(field, OptionPart):
            values[name] = value_of(field.kind, args)
        elif hasattr(args, name):
            values[name] = _frozen(getattr(args, name))
    made = kind(**values)
    made.refuse()
    return made


def _named(action: argparse.Action) -> str:
    return f"`{'/'.join(action.option_strings)}`" if action.option_strings else metavar_of(action)


# How argparse begins what it has to say of one argument, and what it calls several.
_OF_ONE = "argument "
_REQUIRED = "the following arguments are required: "
_ONE_REQUIRED = "one of the arguments "


def _plain(message: str) -> str:
    """Return a message of argparse as ours are; what is not known stays as it is."""
    if message.startswith(_REQUIRED):
        missing = message.removeprefix(_REQUIRED).split(", ")
        return f"{', '.join(_quoted(word) for word in missing)} must be given"
    if message.startswith(_ONE_REQUIRED):
        words = message.removeprefix(_ONE_REQUIRED).removesuffix(" is required").split()
        return f"one of {', '.join(map(_quoted, words))} must be given"
    if not message.startswith(_OF_ONE):
        return message
    name, _, text = message.removeprefix(_OF_ONE).partition(": ")
    text = text.replace("expected one argument", "needs a value")
    text = text.replace("expected at least one argument", "needs at least one value")
    if text.startswith("not allowed with argument "):
        other = text.removeprefix("not allowed with argument ")
        return f"{_quoted(name)} and {_quoted(other)} exclude each other"
    if text.startswith("ignored explicit argument"):
        text = "takes no value"
    return f"{_quoted(name)} {text}"


def _quoted(word: str) -> str:
    return f"`{word}`" if word.startswith("-") else word


def _columns() -> int:
    """Return the columns of the terminal, as `shutil.get_terminal_size` does."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size().columns or 80
    except OSError:  # no terminal
        return 80
