"""What programs say of themselves, to evidence: libfabric's, Open MPI's, MPICH's and Slurm's tools.

A text that cannot be understood tells nothing, never an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

from stackproof.core.value import Value
from stackproof.knowledge.evidence import Evidence, Pieces, merged
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


def read_answers(replies: Mapping[str, Reply], driver: str = "") -> Evidence:
    """Return what programs said; `driver` is the text of `NVIDIA_VERSION`.

    Keys are those of `STACK` and `MACHINE`; a program that is not there has none.
    """
    evidence = Evidence()
    for name, reply in (*replies.items(), (NVIDIA_VERSION, Reply(text=driver, returncode=0))):
        pieces = Pieces(name)
        _READERS[name](reply, pieces)
        evidence = merged(evidence, pieces.evidence())
    return evidence


def _release(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None


def _fi_version(reply: Reply, pieces: Pieces) -> None:
    pieces.version("libfabric", _release(r"^libfabric: (\d[\w.]*)$", reply.text))


def _fi_providers(reply: Reply, pieces: Pieces) -> None:
    """Read `NAME:` and an indented version for each provider."""
    names = re.findall(r"^([a-z][\w;+]*):\s*$", reply.text, re.MULTILINE)
    if reply.returncode == 0 and names:
        pieces.fact("cxi-provider", "cxi" in names)


def _info(family: MpiFamily, program: InfoProgram, reply: Reply, pieces: Pieces) -> None:
    """Read which release of a family a program is of."""
    match = program.version.search(reply.text)
    foreign = program.foreign and program.foreign in reply.text.upper()
    if reply.returncode == 0 and match and not foreign:
        pieces.version(family.name, match[1])
        pieces.fact("mpi", family.name)
        if program.ofi:
            pieces.fact("ofi-support", program.ofi in f"\n{reply.text}")


def _scontrol(reply: Reply, pieces: Pieces) -> None:
    if reply.returncode != 0:
        return
    pieces.version("slurm", _release(r"^SLURM_VERSION\s*= (\d[\w.]*)$", reply.text))
    match = re.search(r"^SwitchParameters\s*= (.*)$", reply.text, re.MULTILINE)
    if "SLURM_VERSION" in reply.text:
        pieces.fact("scheduler", "slurm")
        words = re.split(r"[,\s]+", match[1]) if match else []
        pieces.fact("single-node-vni", any(w.startswith("single_node_vni") for w in words))


def _mpi_list(reply: Reply, pieces: Pieces) -> None:
    """Read `pmix_v4` as a word; Slurm 22.05 has one more line, `specific pmix plugin versions`."""
    majors = sorted(set(re.findall(r"\bpmix_v(\d+)\b", reply.text)))
    if reply.returncode == 0 and majors:
        pieces.fact("slurm-pmix", tuple(majors))


def _driver(reply: Reply, pieces: Pieces) -> None:
    release = _release(r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", reply.text)
    pieces.version("nvidia-driver", release)


_READERS: dict[str, Callable[[Reply, Pieces], None]] = {
    "fi_info --version": _fi_version,
    "fi_info -l": _fi_providers,
    **{
        " ".join(argv): functools.partial(_info, family, family.info)
        for argv, family in _INFO.items()
        if family.info
    },
    "scontrol show config": _scontrol,
    "srun --mpi=list": _mpi_list,
    "pkg-config fuse": lambda reply, pieces: pieces.fact("fuse2", reply.returncode == 0),
    "pkg-config fuse3": lambda reply, pieces: pieces.fact("fuse3", reply.returncode == 0),
    NVIDIA_VERSION: _driver,
}
