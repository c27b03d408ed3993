"""What programs say of themselves, to evidence: libfabric's, Open MPI's, MPICH's and Slurm's tools.

A text that cannot be understood tells nothing, never an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping

from stackproof.core.value import Value
from stackproof.knowledge.evidence import Evidence, FactValue
from stackproof.mpi import families
from stackproof.mpi.families.record import InfoProgram, MpiFamily

_INFO = {family.info.argv: family for family in families.REGISTRY.values() if family.info}
STACK = {
    "fi_info --version": ("fi_info", "--version"),
    "fi_info -l": ("fi_info", "-l"),
    **{" ".join(argv): argv for argv in _INFO},
}
"""Programs of a stack, run inside an image when there is one."""

MACHINE = {
    "scontrol show config": ("scontrol", "show", "config"),
    "srun --mpi=list": ("srun", "--mpi=list"),
    "pkg-config fuse": ("pkg-config", "--exists", "fuse"),
    "pkg-config fuse3": ("pkg-config", "--exists", "fuse3"),
}
"""Programs of the machine."""

NVIDIA_VERSION = "/proc/driver/nvidia/version"
"""The file in which NVIDIA's driver says its version."""


class Reply(Value):
    """What a program printed, and its exit code; standard error where there was nothing else."""

    text: str
    returncode: int


class _Piece(Value, kw_only=False):
    kind: str
    name: str
    value: FactValue


def read_answers(replies: Mapping[str, Reply], driver: str = "") -> Evidence:
    """Return what programs said; `driver` is the text of `NVIDIA_VERSION`.

    Keys are those of `STACK` and `MACHINE`; a program that is not there has none.
    """
    versions: dict[str, str] = {}
    facts: dict[str, FactValue] = {}
    origins: dict[str, str] = {}
    pieces = [(name, piece) for name, reply in replies.items() for piece in _READERS[name](reply)]
    pieces += [(NVIDIA_VERSION, piece) for piece in _driver(driver)]
    for origin, piece in pieces:
        if piece.kind == "version":
            versions[piece.name] = str(piece.value)
        else:
            facts[piece.name] = piece.value
        origins[f"{piece.kind} {piece.name}"] = origin
    return Evidence(versions=versions, facts=facts, origins=origins)


def _found(pattern: str, text: str, component: str) -> Iterator[_Piece]:
    match = re.search(pattern, text, re.MULTILINE)
    if match:
        yield _Piece("version", component, match[1])


def _fi_version(reply: Reply) -> Iterator[_Piece]:
    yield from _found(r"^libfabric: (\d[\w.]*)$", reply.text, "libfabric")


def _fi_providers(reply: Reply) -> Iterator[_Piece]:
    """Read `NAME:` and an indented version for each provider."""
    names = re.findall(r"^([a-z][\w;+]*):\s*$", reply.text, re.MULTILINE)
    if reply.returncode == 0 and names:
        yield _Piece("fact", "cxi-provider", "cxi" in names)


def _info(family: MpiFamily, program: InfoProgram, reply: Reply) -> Iterator[_Piece]:
    """Read which release of a family a program is of."""
    match = program.version.search(reply.text)
    foreign = program.foreign and program.foreign in reply.text.upper()
    if reply.returncode == 0 and match and not foreign:
        if match[1]:
            yield _Piece("version", family.name, match[1])
        yield _Piece("fact", "mpi", family.name)
        if program.ofi:
            yield _Piece("fact", "ofi-support", program.ofi in f"\n{reply.text}")


def _scontrol(reply: Reply) -> Iterator[_Piece]:
    if reply.returncode != 0:
        return
    yield from _found(r"^SLURM_VERSION\s*= (\d[\w.]*)$", reply.text, "slurm")
    match = re.search(r"^SwitchParameters\s*= (.*)$", reply.text, re.MULTILINE)
    if "SLURM_VERSION" in reply.text:
        yield _Piece("fact", "scheduler", "slurm")
        words = re.split(r"[,\s]+", match[1]) if match else []
        yield _Piece("fact", "single-node-vni", any(w.startswith("single_node_vni") for w in words))


def _mpi_list(reply: Reply) -> Iterator[_Piece]:
    """Read `pmix_v4` as a word; Slurm 22.05 has one more line, `specific pmix plugin versions`."""
    majors = sorted(set(re.findall(r"\bpmix_v(\d+)\b", reply.text)))
    if reply.returncode == 0 and majors:
        yield _Piece("fact", "slurm-pmix", tuple(majors))


def _fuse2(reply: Reply) -> Iterator[_Piece]:
    yield _Piece("fact", "fuse2", reply.returncode == 0)


def _fuse3(reply: Reply) -> Iterator[_Piece]:
    yield _Piece("fact", "fuse3", reply.returncode == 0)


def _driver(text: str) -> Iterator[_Piece]:
    yield from _found(r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", text, "nvidia-driver")


_READERS: dict[str, Callable[[Reply], Iterator[_Piece]]] = {
    "fi_info --version": _fi_version,
    "fi_info -l": _fi_providers,
    **{
        " ".join(argv): functools.partial(_info, family, family.info)
        for argv, family in _INFO.items()
        if family.info
    },
    "scontrol show config": _scontrol,
    "srun --mpi=list": _mpi_list,
    "pkg-config fuse": _fuse2,
    "pkg-config fuse3": _fuse3,
}
