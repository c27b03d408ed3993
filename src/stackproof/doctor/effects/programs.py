"""Asking programs of a stack and of this machine what they are."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from stackproof.core import limits
from stackproof.core.command import Command
from stackproof.core.effects import run
from stackproof.core.effects.run import Runner
from stackproof.core.errors import StackproofError
from stackproof.doctor.evidence.programs import MACHINE, NVIDIA_VERSION, STACK, Reply, read_answers
from stackproof.knowledge.evidence import Evidence

_TIMEOUT_S = 20.0
_NOT_FOUND = 127


def ask(image: str | None, runner: Runner = run.run) -> Evidence:
    """Return what the programs of an image (or of this shell) and of this machine say.

    A program that is not there, does not end in 20 s or cannot be started tells nothing.
    """
    inside = (sys.executable, "-P", "-m", "stackproof", "run", image, "--") if image else ()
    commands: dict[str, tuple[str, ...]] = {
        **{name: (*inside, *argv) for name, argv in STACK.items()},
        **MACHINE,
    }
    there = {name: argv for name, argv in commands.items() if shutil.which(argv[0])}
    with ThreadPoolExecutor(max_workers=4) as pool:
        found = pool.map(lambda argv: _ask(argv, runner), there.values())
    replies: Mapping[str, Reply] = {
        name: reply for name, reply in zip(there, found, strict=True) if reply is not None
    }
    return read_answers(replies)


def driver() -> Evidence:
    """Return what a file of NVIDIA's driver says; nothing is run."""
    return read_answers({}, _driver())


def _ask(argv: tuple[str, ...], runner: Runner) -> Reply | None:
    try:
        done = runner(Command(argv=argv, timeout_s=_TIMEOUT_S))
    except StackproofError:
        return None
    if done.timed_out or done.returncode == _NOT_FOUND:
        return None
    text = (done.stdout or done.stderr)[: limits.ANSWER.bytes].decode(errors="replace")
    return Reply(text=text, returncode=done.returncode)


def _driver() -> str:
    try:
        with open(NVIDIA_VERSION, encoding="utf-8", errors="replace") as stream:
            return stream.read(4096)
    except OSError:
        return ""
