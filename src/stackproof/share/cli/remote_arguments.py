"""Arguments of the actions of `image` that speak with a registry."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

_REMOTE = "[NS::]LABEL"
_WHOLE = "NS::LABEL"


def add_to(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the actions."""
    _add_reading(actions)
    _add_writing(actions)


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    words: Mapping[str, tuple[str, str]],
) -> argparse.ArgumentParser:
    """Add an action: its words, with what they stand for and help, and what all of them take."""
    parser = actions.add_parser(name, help=text, description=text)
    for word, (shown, explained) in words.items():
        optional = {"nargs": "?", "default": ""} if word == "label" and name == "find" else {}
        parser.add_argument(word, metavar=shown, help=explained, **optional)  # type: ignore[arg-type]
    parser.add_argument(
        "--registry", metavar="ADDRESS", default="",
        help="the registry, such as registry.example.org/images (default: STACKPROOF_REGISTRY)",
    )  # fmt: skip
    parser.add_argument(
        "--ca",
        metavar="FILE",
        default="",
        help="certificate authorities to believe as well (default: the system's alone)",
    )
    parser.add_argument(
        "--token", metavar="PATH", default="", help="a file with a token, or a folder with a file "
        "TOKEN (default: what `podman login` or `docker login` keep)",
    )  # fmt: skip
    parser.add_argument(
        "--username", metavar="NAME", default="", help="whose token it is (default: your login)"
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    parser.set_defaults(run=f"share.cli.remote:run_{name}")
    return parser


def _add_reading(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    any_label = (_REMOTE, "a label, or its first parts; the namespace is `deploy` if left out")
    find = _action(actions, "find", "list the images of a registry", {"label": any_label})
    asked = find.add_mutually_exclusive_group()
    asked.add_argument(
        "--fresh", action="store_true", help="ask for every tag, and believe no list"
    )
    asked.add_argument(
        "--known", action="store_true", help="ask nobody: what it had when it was last listed from "
        "here; without a label, of all namespaces",
    )  # fmt: skip
    find.add_argument("--names", action="store_true", help="print the labels alone, one a line")

    pull = _action(
        actions, "pull", "bring an image of a registry into your repository",
        {"label": (_REMOTE, "a label that means one image, an id or a digest")},
    )  # fmt: skip
    pull.add_argument(
        "--force", action="store_true", help="give the label to this image though another has it"
    )
    _action(
        actions, "history", "list the images that a label of a registry has been of",
        {"label": (_WHOLE, "a label that means one image")},
    )  # fmt: skip


def _add_writing(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    taken = "take the label from another image, which `history` keeps"
    push = _action(
        actions, "push", "put an image into a registry, with its meta",
        {
            "image": ("IMAGE", "an image file, or a label of your repository"),
            "label": (_WHOLE, "where to; of an image with a label `NS::` is enough"),
        },
    )  # fmt: skip
    push.add_argument("--force", action="store_true", help=taken)
    copy = _action(
        actions, "copy", "give an image of a registry a label in another namespace",
        {
            "source": (_WHOLE, "a label that means one image"),
            "target": (_WHOLE, "where to; parts that are left out are the source's"),
        },
    )  # fmt: skip
    copy.add_argument("--force", action="store_true", help=taken)
    delete = _action(
        actions, "delete", "delete an image of a registry, with all that is attached to it",
        {"label": (_WHOLE, "the label, in full")},
    )  # fmt: skip
    delete.add_argument(
        "--force", action="store_true", help="also where the image has further labels: they go, too"
    )
    rollback = _action(
        actions, "rollback", "make a label of a registry that of a former image again",
        {"label": (_WHOLE, "the label, in full")},
    )  # fmt: skip
    rollback.add_argument(
        "--to", metavar="ID", default="",
        help="an id, a digest or a time of `history` (default: the image before)",
    )  # fmt: skip
