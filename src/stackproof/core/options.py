"""The options of a command, declared once: what they are, how they are said, what help tells.

A class names what a command takes, a field each, in the order of its help:

    class InstallOptions(Options, run="pack.cli.install:run"):
        image: str | None = argument("IMAGE", "an image file, or its label", default=None)
        to: str = required("PREFIX", "the folder that it is found at")
        undo: bool = flag("let PREFIX be what it was before its version")

The annotation is the type: `bool` is a switch, `int` and `float` are read as such, and a tuple is
an option that may be given several times, or an argument that takes several words.
`core/cli/parsing.py` makes arguments of argparse of it, and of these come completions, man pages
and the reference. The verb gets a value of the class, and a program makes one to call what a verb
calls.

Whoever asks for help waits for this: it is data, and imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than to parse a command line
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar, Self, TypedDict, Unpack, dataclass_transform

    class OptionFacts(TypedDict, total=False):
        """What else there is to say of an option.

        `words` is how it is written, such as `-o --output`, where that is not the field's name with
        `--`. `excludes` is the field of the first of some options that exclude each other; where
        that one says `must`, one of them has to be given. `bare` is the value of an option that is
        given without one, `least` the smallest number. `rest` takes all further words as they are,
        but for a `--` before them; with `must` there has to be one, and with `between` options may
        stand before the `--`.
        `group` is a title that the option stands under in help, `topic` a word that `given` takes.
        `output` is a kind of `core/effects/outputs.py`, `complete` what completes a value, as of
        `kind_of` in `cli/completing.py`.
        """

        words: str
        default: object
        choices: tuple[str | int, ...]
        excludes: str
        must: bool
        bare: str
        group: str
        least: int
        rest: bool
        between: bool
        output: str
        topic: str
        complete: str

else:

    def dataclass_transform(**_: object) -> object:
        """Return a decorator that changes nothing: only a type checker reads it."""
        return lambda kind: kind


_FACTS = {
    "bare", "between", "choices", "complete", "default", "excludes", "group", "least", "must",
    "output", "rest", "topic", "words",
}  # fmt: skip


class OptionField:
    """What is declared of a field; `value` is what its value is called, or all that it can be."""

    __slots__ = ("facts", "positional", "required", "text", "value")

    def __init__(self, value: str | tuple[str | int, ...], text: str, facts: OptionFacts) -> None:
        if wrong := facts.keys() - _FACTS:
            raise TypeError(f"an option has no fact `{wrong.pop()}`")
        self.value = value
        self.text = text
        self.facts = facts
        self.positional = False
        self.required = False

    def words(self, name: str) -> tuple[str, ...]:
        """Return the spelling of the option in a field; empty for an argument."""
        if self.positional:
            return ()
        return tuple(self.facts.get("words", f"--{name.replace('_', '-')}").split())

    def default(self, kind: str) -> object:
        """Return the value where the option is not given, by the type of its field."""
        plain = False if kind == "bool" else () if kind.startswith("tuple[") else None
        return self.facts.get("default", plain)


class OptionPart:
    """Options of another class among those of one; with a title they stand under it in help."""

    __slots__ = ("about", "kind", "required", "title")

    def __init__(self, kind: type[Options], title: str, about: str | None) -> None:
        self.kind = kind
        self.title = title
        self.about = about
        self.required: bool = any(one and one.required for _, one in kind.option_fields.values())

    def default(self, _: str) -> Options:
        """Return the part of which nothing is given."""
        return self.kind()


def option(
    value: str | tuple[str | int, ...], text: str, **facts: Unpack[OptionFacts]
) -> Any:  # what a field is, its annotation says
    """Declare an option; without a `text` it is in no help."""
    return OptionField(value, text, facts)


def required(value: str | tuple[str | int, ...], text: str, **facts: Unpack[OptionFacts]) -> Any:
    """Declare an option that must be given."""
    declared = OptionField(value, text, facts)
    declared.required = True
    return declared


def flag(text: str, **facts: Unpack[OptionFacts]) -> Any:
    """Declare a switch."""
    return OptionField("", text, facts)


def argument(value: str, text: str, **facts: Unpack[OptionFacts]) -> Any:
    """Declare an argument; one without a default must be given."""
    declared = OptionField(value, text, facts)
    declared.positional = True
    declared.required = "default" not in facts
    return declared


def part(kind: type[Options], title: str = "", about: str | None = None) -> Any:
    """Declare a field whose value has the options of another class."""
    return OptionPart(kind, title, about)


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(required, argument)
)
class Options:
    """What a command is asked for: a value that nobody changes. See the module.

    A class says of its command which function does it (`run`, as MODULE:FUNCTION below the
    package), what it does (`text`; `short` where the list of actions has fewer words), how it is
    called where that is not plain (`usage`), and what help ends with.
    """

    option_fields: ClassVar[Mapping[str, tuple[str, OptionField | OptionPart | None]]] = {}
    command_facts: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **facts: str) -> None:
        cls.command_facts = {**cls.command_facts, **facts}
        own: dict[str, tuple[str, OptionField | OptionPart | None]] = {}
        for name, kind in cls.__annotations__.items():
            field = cls.__dict__.get(name)
            own[name] = (kind, field if isinstance(field, OptionField | OptionPart) else None)
            if isinstance(field, OptionField | OptionPart):
                delattr(cls, name)
                if not field.required:
                    setattr(cls, name, field.default(kind))
        cls.option_fields = {**cls.option_fields, **own}

    def __init__(self, **values: Any) -> None:
        if wrong := [name for name in values if name not in self.option_fields]:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(wrong)}")
        self.__dict__.update(values)
        if missing := [name for name in self.option_fields if not hasattr(self, name)]:
            raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of {type(self).__name__} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values().items()))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._values().items())
        return f"{type(self).__name__}({said})"

    def changed(self, **values: Any) -> Self:
        """Return the same with other values."""
        return type(self)(**{**self._values(), **values})

    def refuse(self) -> None:
        """Raise `StackproofError` (USAGE) for what does not go together, before a verb begins."""

    def given(self, *topics: str) -> tuple[str, ...]:
        """Return the spellings of what has another value than its default: `--jobs`, `SPEC`.

        With topics only what is of one of them. An empty text says nothing.
        """
        found: list[str] = []
        for name, (_, field) in self.option_fields.items():
            value = getattr(self, name)
            if isinstance(field, OptionPart):
                found += value.given(*topics)
            elif not field or (topics and field.facts.get("topic") not in topics):
                continue
            elif field.required or value not in (getattr(type(self), name), ""):
                found.append((field.words(name) or (str(field.value),))[-1])
        return tuple(found)

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.option_fields}


WAIT_FOR_QUIET = option(
    "TIME", "where this machine is busy, wait until it is quiet, at most so long, such as 30m or "
    "1h (default: say what to expect, and begin)",
)  # fmt: skip
REQUIRE_PASS = flag(
    "exit with 8 unless the verdict is PASS: INCONCLUSIVE, otherwise 9, counts as FAIL"
)
