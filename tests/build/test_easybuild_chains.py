"""Every easyconfig of chains as machines have asked for them, and what users are told of them.

After a wanted change write them again:
STACKPROOF_WRITE_GOLDEN=1 python -m pytest tests/build/test_easybuild_chains.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from easybuildchains import REQUESTS
from stackproof.build.engines.easybuild.chain import Chain, chain
from stackproof.build.engines.easybuild.effects import builder

FOLDER = Path(__file__).parents[1] / "golden" / "easybuild"
CATALOGUE = builder.load()


def shown(made: Chain) -> str:
    """Return a chain as one text."""
    parts = [f"==== {one.filename} -> {one.module}\n{one.text}" for one in made.easyconfigs]
    parts.append(
        "==== left out\n" + "".join(f"{one.component}: {one.reason}\n" for one in made.left_out)
    )
    parts.append("==== notes\n" + "".join(f"{note}\n" for note in made.notes))
    parts.append(f"==== modules of the machine\n{made.metadata}")
    parts.append(f"==== tools\n{' '.join(made.tools)}\n==== headers\n{' '.join(made.headers)}\n")
    return "\n".join(parts)


@pytest.mark.parametrize("name", REQUESTS)
def test_chain(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    text = shown(chain(REQUESTS[name], CATALOGUE))
    if os.environ.get("STACKPROOF_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_no_text_is_left_over() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(REQUESTS)
