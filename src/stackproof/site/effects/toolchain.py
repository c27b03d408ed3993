"""What this machine compiles with, and as what machine it runs."""

from __future__ import annotations

import os
import re
import shutil

from stackproof.core.command import Command
from stackproof.core.effects.run import check
from stackproof.core.effects.sandbox import package_hint
from stackproof.core.errors import Reason, fail


def architecture() -> str:
    """Return the machine's name as `uname -m` gives it."""
    return os.uname().machine


def processor() -> str:
    """Return how Spack calls this machine's processor, such as `zen3`; empty without archspec.

    That is what Spack itself asks (https://github.com/archspec/archspec), and here part of the
    extra `spack`.
    """
    try:
        from archspec import cpu  # noqa: PLC0415 - only where it is asked for; takes 60 ms
    except ImportError:
        return ""
    return str(cpu.host().name)


def processor_facts(wanted: str) -> dict[str, str]:
    """Return `microarchitecture` of this machine, nothing where it is none of that architecture."""
    name = processor() if wanted == architecture() else ""
    return {"microarchitecture": name} if name else {}


def compiler() -> str:
    """Return the system C compiler as `gcc 12.2.0 (Debian 12.2.0-14)`.

    It decides the bytes of compiled programs, so it is part of a stack's facts. Raises
    `StackproofError` (TOOL_MISSING) when there is none.
    """
    if shutil.which("gcc") is None:
        raise fail(
            Reason.TOOL_MISSING,
            "the MPI compiler wrappers need a C compiler, and `gcc` is not installed",
            hint=package_hint("gcc"),
        )
    line = check(Command(argv=("gcc", "--version"), timeout_s=20)).stdout.decode().splitlines()[0]
    match = re.match(r"gcc \(([^)]*)\) (\S+)", line)
    return f"gcc {match[2]} ({match[1]})" if match else line


def packer() -> str:
    """Return what packs images here as `mksquashfs 4.5.1`, empty where it is not installed."""
    if shutil.which("mksquashfs") is None:
        return ""  # said where an image is to be packed
    said = check(Command(argv=("mksquashfs", "-version"), timeout_s=20)).stdout.decode()
    match = re.match(r"mksquashfs version (\S+)", said)
    return f"mksquashfs {match[1]}" if match else ""


def build_facts() -> dict[str, str]:
    """Return the facts of this machine that enter a stack built on it, and decide its bytes."""
    facts = {"architecture": architecture(), "compiler": compiler(), "packer": packer()}
    return {name: value for name, value in facts.items() if value}
