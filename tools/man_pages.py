"""The tree of commands to man pages, for `generate_reference.py`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from stackproof.cli.commandtree import DocumentedCommand


def man_page(command: DocumentedCommand, version: str) -> str:
    """Return the man page of a verb with all its actions, or of stackproof itself (man(7))."""
    name = "-".join(("stackproof", *command.words))
    parts = [
        f'.TH "{name.upper()}" "1" "" "stackproof {version}" "User Commands"',
        ".SH NAME",
        rf"{_roff(name)} \- {_roff(command.text)}",
        ".SH SYNOPSIS",
        *(
            f".B {_roff(one.usage)}\n.br"
            for one in (command.all() if command.words else (command,))
            if not one.commands or not command.words
        ),
    ]
    for one in command.all() if command.words else (command,):
        if one is not command:
            parts += [f'.SH "{_roff(" ".join(one.words)).upper()}"', _roff(_sentence(one.text))]
        parts += _man_arguments(one, nested=one is not command)
        parts += [".PP", _roff(one.epilog)] if one.epilog else []
        parts += _man_examples(one, nested=one is not command)
    if not command.words:
        parts += [".SH VERBS"]
        for group, verbs in itertools.groupby(command.commands, key=lambda verb: verb.group):
            parts += [f'.SS "{_roff(_sentence(group).rstrip("."))}"']
            for verb in verbs:
                name = rf".BR stackproof\-{_roff(verb.words[0])} (1)"
                parts += [".TP", name, _roff(_sentence(verb.text))]
    see = "" if not command.words else r".BR stackproof (1)" + "\n"
    parts += [".SH SEE ALSO", f"{see}The pages of the project, docs/reference/commands.md"]
    return "\n".join(parts) + "\n"


def _man_arguments(command: DocumentedCommand, *, nested: bool) -> Iterable[str]:
    shown = [*(() if command.commands else command.positionals), *command.options]
    if not shown:
        return
    yield '.SS "Arguments"' if nested else ".SH OPTIONS"
    for one in shown:
        yield from (".TP", f".B {_roff(one.title)}", _roff(_sentence(one.text)) or r"\&")


def _man_examples(command: DocumentedCommand, *, nested: bool) -> Iterable[str]:
    if not command.examples:
        return
    yield '.SS "Examples"' if nested else ".SH EXAMPLES"
    for line, words in command.examples:
        yield from (".TP", f".B {_roff(line)}", _roff(_sentence(words)) or r"\&")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text and not text.endswith(".") else text


def _roff(text: str) -> str:
    """Return text that roff prints as it is."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
