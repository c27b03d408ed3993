"""`stackproof completion SHELL`: the tree of commands to completions, by scripts in `assets/`.

A script of a shell holds everything: verbs, options, what they can be and the names of what comes
with stackproof, so that a press of the key starts no program but for the labels of images, which
change: those of the repository, and those of registries as they were last listed. All three do the
same: walk the words to the command, then complete a value, an option, or an argument by its kind.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Mapping, Sequence

from stackproof.cli import commandtree
from stackproof.cli.commandtree import Argument, DocumentedCommand
from stackproof.cli.options import ScriptOptions
from stackproof.core.effects import shipped

_FOLDERS = ("DIR", "FOLDER")
_IMAGES = ("IMAGE", "LABEL")
_FILES = (
    "FILE", "IMAGE", "PROGRAM", "RESULTS", "PLACE", "PREFIX", "SPEC", "PATH", "PLUGIN", "FACTS",
)  # fmt: skip
Names = Mapping[str, Sequence[str]]
"""Names by kind: `SITE` and `RECIPE`."""


def run(options: ScriptOptions) -> int:
    """Print the script, with the verbs and the names of this installation."""
    print(SHELLS[options.shell](commandtree.load(), names()), end="")
    return 0


def names() -> dict[str, tuple[str, ...]]:
    """Return the names of what comes with stackproof, by the word that stands for one in help."""
    return {"SITE": shipped.names("sites"), "RECIPE": shipped.names("recipes")}


def kind_of(argument: Argument, names: Names) -> str:
    """Return the kinds that complete a value, with blanks: words, @file, @dir, @label, @remote."""
    if argument.complete:
        return argument.complete
    words = list(argument.choices)
    if not words:
        for kind, known in names.items():
            if kind in argument.value:
                words += [*known, "@file"]
    if not words and any(word in argument.value for word in _FILES):
        words = ["@file"]
    if not words and any(word in argument.value for word in _FOLDERS):
        words = ["@dir"]
    if "::" in argument.value:
        words.append("@remote")
    elif not argument.choices and any(word in argument.value for word in _IMAGES):
        words.append("@label")
    return " ".join(words)


def bash(tree: DocumentedCommand, names: Names) -> str:
    """Return the script for bash."""
    return _script("bash").replace("@TABLES@", _tables(tree, names))


def zsh(tree: DocumentedCommand, names: Names) -> str:
    """Return the script for zsh, to be sourced, or a file `_stackproof` below $fpath."""
    return _script("zsh").replace("@TABLES@", _tables(tree, names))


def fish(tree: DocumentedCommand, names: Names) -> str:
    """Return the script for fish."""
    lines, valued = [], []
    for command in tree.all():
        key = "/".join(command.words)
        lines += [f"    case {_quoted(f'commands:{key}')}"]
        lines += [_said(one.words[-1], one.text) for one in command.commands]
        lines += [f"    case {_quoted(f'options:{key}')}"]
        lines += [_said(name, one.text) for one in command.options for name in one.names]
        for one in command.options:
            if one.value:
                cases = " ".join(_quoted(f"value:{key}:{name}") for name in one.names)
                valued.append(cases)
                lines += [f"    case {cases}", f"        __stackproof_kinds {kind_of(one, names)}"]
        if not command.commands:
            lines += [f"    case {_quoted(f'arguments:{key}')}"]
            lines += [f"        __stackproof_kinds {_arguments(command, names)}"]
    script = _script("fish").replace("@CASES@", "\n".join(lines))
    return script.replace("@VALUES@", " ".join(valued))


def _script(shell: str) -> str:
    file = importlib.resources.files("stackproof.cli") / "assets" / f"completion.{shell}"
    return file.read_text(encoding="utf-8")


def _said(word: str, text: str) -> str:
    return f"        printf '%s\\t%s\\n' {_quoted(word)} {_quoted(text)}"


def _arguments(command: DocumentedCommand, names: Names) -> str:
    kinds = " ".join(kind_of(one, names) for one in command.positionals if not one.rest)
    found = dict.fromkeys(kinds.split())
    if "@file" in found:  # folders are among files
        found.pop("@dir", None)
    return " ".join(found)


def _tables(tree: DocumentedCommand, names: Names) -> str:
    """Return assignments to the associative arrays that the scripts look things up in.

    zsh takes quotes in a key for a part of it; keys have nothing to quote.
    """
    lines = []
    for command in tree.all():
        at = "/".join(command.words) or "."
        below = " ".join(one.words[-1] for one in command.commands)
        if below:
            lines.append(f"_stackproof_commands[{at}]={_quoted(below)}")
        options = " ".join(name for one in command.options for name in one.names)
        lines.append(f"_stackproof_options[{at}]={_quoted(options)}")
        for one in command.options:
            kinds = _quoted(kind_of(one, names))
            keys = [f"{at}:{name}" for name in one.names if one.value]
            lines += [f"_stackproof_values[{key}]={kinds}" for key in keys]
        if not command.commands:
            found = _quoted(_arguments(command, names))
            lines.append(f"_stackproof_arguments[{at}]={found}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "").replace("'", "") + "'"


SHELLS: Mapping[str, Callable[[DocumentedCommand, Names], str]] = {
    "bash": bash, "zsh": zsh, "fish": fish,
}  # fmt: skip
"""The shells that have a completion."""
