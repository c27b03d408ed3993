"""Print how thin the verbs are: who takes an `argparse.Namespace`, and what could be elsewhere.

    python tools/thin_verbs.py

Of each command one function may take the `Namespace`: the one that its parser names, which turns it
into options. Behind it everything is typed. The second figure is the part of the lines of functions
in `cli/` that neither print nor declare arguments: logic that no program could call.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

from stackproof.cli import build_parser

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "stackproof"
# These make the `Namespace`, or turn any into options; they belong to no verb.
OF_ALL_VERBS = frozenset({"cli:_parse", "cli:_claim_outputs", "core.cli.parsing:read"})

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
    return {
        f"{name(path)}:{function.name}"
        for path in verbs()
        for function in functions(path)
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if argument.annotation is not None and "Namespace" in ast.unparse(argument.annotation)
    }


def beyond_entries() -> set[str]:
    """Return the functions that take a `Namespace` although no parser names them."""
    return of_namespace() - entries() - OF_ALL_VERBS


def speaks(function: _Function) -> bool:
    """Return whether a function prints or declares arguments."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                return True
            case ast.Call(func=ast.Attribute(attr="add_argument" | "add_parser" | "set_defaults")):
                return True
            case ast.Call(func=ast.Attribute(attr="write", value=to)) if "std" in ast.unparse(to):
                return True
    return False


def lines() -> tuple[int, int]:
    """Return the lines of functions in `cli/`, and those that neither print nor declare."""
    every = [
        ((function.end_lineno or 0) - function.lineno + 1, speaks(function))
        for path in verbs()
        for function in functions(path)
    ]
    return sum(count for count, _ in every), sum(count for count, said in every if not said)


def main() -> None:
    """Print the figures."""
    taking, beyond = of_namespace(), beyond_entries()
    print(
        f"{len(taking)} functions take a Namespace, {len(beyond)} of them are no entry of a verb:"
    )
    print("".join(f"  {one}\n" for one in sorted(beyond)), end="")
    total, silent = lines()
    print(
        f"{silent} of {total} lines of functions in cli/ neither print nor declare arguments "
        f"({silent / total:.0%})"
    )


if __name__ == "__main__":
    main()
