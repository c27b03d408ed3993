"""Print how thin the verbs are: who takes an `argparse.Namespace`, and what could be elsewhere.

    python tools/thin_verbs.py

None but those that turn it into options may take the `Namespace`: the function of a command takes a
value of the class that declares them. The second figure is the part of the lines of functions in
verbs that do none of what verbs are for: print, and word what is printed (a function that returns
text, or data for `--json`, and stands in a `print` or in another such function); what their options
declare counts as theirs. The rest is logic that no program could call. What all verbs stand on, the
parser and the standard streams, is no verb: `core/cli` and the table in `cli/__init__`.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

from stackproof.cli import build_parser

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "stackproof"
# These turn the `Namespace` into options; they belong to no verb.
OF_ALL_VERBS = frozenset(
    {
        "cli:_claim_outputs", "core.cli.parsing:finish", "core.cli.parsing:_take_between",
        "core.cli.parsing:value_of",
    }
)  # fmt: skip

# What is printed: text, lines, or what becomes JSON.
_TEXT = re.compile(
    r"(str|(Iterator|Iterable|Sequence|list|tuple)\[str.*\]|(dict|Mapping)\[str, .*\]|Any)"
)

# What a command was asked for.
_OF_COMMANDS = re.compile(r"(Options|Request)$")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def verbs() -> list[Path]:
    """Return the modules of all verbs."""
    return sorted(path for path in PACKAGE.rglob("*.py") if "cli" in path.parts)


def name(path: Path) -> str:
    """Return a module's name below the package."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def functions(path: Path) -> Iterator[_Function]:
    """Yield the functions of a module and the methods of its classes, those inside with them."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in [
        *body,
        *(inner for one in body if isinstance(one, ast.ClassDef) for inner in one.body),
    ]:
        if isinstance(node, _Function):
            yield node


def entries(parser: argparse.ArgumentParser | None = None) -> set[str]:
    """Return the functions, as `module:name`, that the parsers of all commands name."""
    parser = parser or build_parser("*")
    named = parser.get_default("run")
    found = {named} if named else set()
    for action in parser._actions:  # noqa: SLF001 - argparse shows its commands nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                found |= entries(command)
    return found


def of_namespace() -> set[str]:
    """Return the functions, as `module:name`, that take an `argparse.Namespace`."""
    return _taking(re.compile("Namespace"))


def of_options() -> set[str]:
    """Return the functions, as `module:name`, that take what a command was asked for."""
    return _taking(_OF_COMMANDS)


def _taking(kind: re.Pattern[str]) -> set[str]:
    return {
        f"{name(path)}:{function.name}"
        for path in verbs()
        for function in functions(path)
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if argument.annotation is not None and kind.search(ast.unparse(argument.annotation))
    }


def speaks(function: _Function) -> bool:
    """Return whether a function prints, declares arguments or turns them into options."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                return True
            case ast.Call(func=ast.Attribute(attr="add_argument" | "add_parser" | "set_defaults")):
                return True
            case ast.Call(func=ast.Attribute(attr="write", value=to)) if "std" in ast.unparse(to):
                return True
            case ast.arg(annotation=ast.expr() as of) if _OF_COMMANDS.search(ast.unparse(of)):
                return True
    return False


def wording(every: list[_Function]) -> set[str]:
    """Return the functions of a module that word what is printed, as text or as data."""
    said = {
        word
        for function in every
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).split(".")[-1] in {"print", "write"}
        for word in _named(call)
    }
    found: set[str] = set()
    while more := {
        function.name
        for function in every
        if function.name in said - found and function.returns is not None
        and _TEXT.fullmatch(ast.unparse(function.returns))
    }:  # fmt: skip
        found |= more
        said |= {word for one in every if one.name in more for word in _named(one)}
    return found


def _named(node: ast.AST) -> Iterator[str]:
    """Yield the functions that are named below a node."""
    yield from (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def lines() -> tuple[int, int]:
    """Return the lines of functions in verbs and of their options, and what could be elsewhere."""
    total = sum(
        (node.end_lineno or 0) - node.lineno + 1
        for path in PACKAGE.glob("*/options.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    silent = 0
    for path in verbs():
        if name(path) == "cli" or name(path).startswith("core."):
            continue
        every = list(functions(path))
        worded = wording(every)
        for function in every:
            count = (function.end_lineno or 0) - function.lineno + 1
            total += count
            silent += 0 if speaks(function) or function.name in worded else count
    return total, silent


def main() -> None:
    """Print the figures."""
    beyond = of_namespace() - OF_ALL_VERBS
    print(f"{len(beyond)} functions of verbs take a Namespace:")
    print("".join(f"  {one}\n" for one in sorted(beyond)), end="")
    total, silent = lines()
    print(
        f"{silent} of {total} lines of functions in verbs neither print nor declare arguments "
        f"({silent / total:.0%})"
    )


if __name__ == "__main__":
    main()
