"""Markers of tests to the page of guarantees: each sentence with the tests that hold it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARKER = "guarantee"
INTRO = (
    "Each sentence stands beside a test that fails when it is false. `nox -s attacks` runs all "
    "attacks, as root and again as a user; `make test-all` runs them with smaller numbers. "
    "[SECURITY.md](../../SECURITY.md) says what is not defended."
)
SECTIONS = {
    "Foreign trees": "The adversary made an image, a pack, a container, a layer, an RPM or a pack "
    "of Guix. One module takes all of them apart ([why](../decisions/010-foreign-trees.md)).",
    "Folders of several users": "The adversary may write to a folder that you use: a team's "
    "repository, the folder around a prefix, `/tmp`, `/dev/shm`, a cache. They plant names before, "
    "and exchange them while you work.",
    "Registries": "The adversary runs a registry, or a server that it names, or sits on the wire.",
    "Signatures": "The adversary may move tags, write an index, has a key for something else, or "
    "makes a certificate.",
    "The sandbox of build steps": "The adversary is what is built: sources, their build systems, "
    "packages, and recipes that name them. "
    "[What a step can reach](../explanation/build-sandbox.md) is listed.",
    "The mount helper": "The adversary is a user without rights who may start "
    "`stackproof-mount`. They choose arguments, environment, descriptors, limits, signals and "
    "their moment, and the content of every file that they may write to, while it runs. "
    "[How it works](../explanation/mount-helper.md).",
    "The hook for containers": "The adversary made the image, or starts containers: they choose "
    "files, links, annotations and environment. "
    "[How it is used](../how-to/containers-on-slingshot.md).",
    "The plug-in for Slurm": "The adversary is a user who submits jobs. "
    "[How it is installed](../how-to/slurm-plug-in.md).",
    "What others wrote": "The adversary sent a file, a log or an image.",
}


def page() -> str:
    """Return the page; raises `ValueError` for a section that is not in `SECTIONS`."""
    parts = ["# What is guaranteed, and what was tried against it", INTRO]
    guarantees = load_guarantees()
    if unknown := {section for section, _ in guarantees} - {*SECTIONS}:
        raise ValueError(f"SECTIONS in {__file__} lacks {sorted(unknown)}")
    for section, intro in SECTIONS.items():
        parts.append(f"## {section}\n\n{intro}")
        parts.append(
            "\n".join(
                f"- {_sentence(title, text)} ({', '.join(f'`{test}`' for test in tests)})"
                for (other, title), (text, tests) in guarantees.items()
                if other == section
            )
        )
    return "\n\n".join(parts) + "\n"


def load_guarantees() -> dict[tuple[str, str], tuple[str, list[str]]]:
    """Return the text and the tests of each guarantee, by its section and title."""
    result: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if f"mark.{MARKER}(" not in source:
            continue
        for test, words in _markers(ast.parse(source)):
            section, title, *rest = words
            text, tests = result.setdefault((section, title), ("", []))
            tests.append(f"{path.name}::{test}" if test else path.name)
            result[section, title] = (" ".join((text, *rest)).strip(), tests)
    return result


def _markers(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of a test, empty for a whole file, and the words of each marker on it."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                yield from ((node.name, words) for words in _words(decorator))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            yield from (("", words) for words in _words(node.value))


def _words(tree: ast.expr) -> Iterator[list[str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{MARKER}":
            yield [str(ast.literal_eval(word)) for word in node.args]


def _sentence(title: str, text: str) -> str:
    """Return a guarantee whose title may be the beginning of its sentence."""
    text = text.rstrip(".") or ""
    return f"**{title}**{'' if text[:1] in ',:;' else ' '}{text}".rstrip()
