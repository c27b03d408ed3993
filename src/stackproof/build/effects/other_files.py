"""What is known of a file or folder that other programs read: found before anybody rewrites it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping

from stackproof.core import limits
from stackproof.core.effects import documents, files
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.site.effects import probe

# --------------------------------------------------------------------------------------------------
# Files of other programs to what is known not to work in them, by their texts alone.
#
# Each judge takes a text and the file's name. What it does not understand it leaves out.

_SBATCH = re.compile(r"#SBATCH\b(?P<options>[^#]*)")
_STEP = re.compile(r"\s*(?:[\w.]+=\S*\s+|time\s+|exec\s+)*srun\b(?P<options>.*)")
_ENVIRONMENT = re.compile(r"(?<!\S)--environment(?:=|\s+)[\"']?(?P<name>[^\s\"']+)")
_ENTERED = "https://docs.cscs.ch/software/container-engine/known-issue/"


def judge_batch(text: str, file: str, _fabric: str | None) -> Iterator[Problem]:
    """Yield that a batch script enters a container as a whole, and again in each step.

    Source: "Why `--environment` as `#SBATCH` is discouraged" in CSCS's known issues.
    """
    whole, steps = None, []
    for number, line in _logical_lines(text):
        header = _SBATCH.match(line)
        match = header or _STEP.match(line)
        given = _ENVIRONMENT.search(match["options"]) if match else None
        if given and header:
            whole = (given["name"], Location(file=file, line=number, column=1))
        elif given:
            steps.append((given["name"], number))
    if whole is None:
        return
    name, place = whole
    message = f"`#SBATCH --environment={name}` puts the whole script into the container"
    hint = f"take `--environment` off the `#SBATCH` line and give it to each `srun`: {_ENTERED}"
    if steps:
        again, at = steps[0]
        message += f", and the `srun --environment={again}` in line {at} enters a container again"
        hint = f"leave it at `srun` alone: {_ENTERED}"
    elif "srun" in text:
        message += ", where `srun` and what it needs of the machine may be missing"
    yield Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint, where=place)


# How an MPI is told to do without libfabric: by its configure script, or by a variant of Spack.
_NO_LIBFABRIC = re.compile(
    r"--without-(?:ofi|libfabric)\b|--with-(?:ofi|libfabric)=no\b"
    r"|--with-device=ch4:ucx\b|\bnetmod=ucx\b|\bfabrics=(?![\w,]*ofi)[\w,]*ucx\b"
)
_WITH_UCX = re.compile(r"--with-ucx\b(?!=no)")
_LIBFABRIC = re.compile(r"libfabric|--with-ofi\b|ch4:ofi\b")
_MPI = re.compile(r"open-?mpi|\bompi|mpich|mvapich", re.IGNORECASE)
_UCX = "https://docs.cscs.ch/software/communication/libfabric/"


def judge_containerfile(text: str, file: str, fabric: str | None) -> Iterator[Problem]:
    """Yield each MPI that is built without libfabric, for Slingshot or an unknown fabric.

    Source: "What about UCX?" on CSCS's page on libfabric.
    """
    if fabric not in (None, "slingshot-11"):
        return
    for number, line in _logical_lines(text):
        match = _NO_LIBFABRIC.search(line) if _MPI.search(text) else None
        if match is None and _MPI.search(line) and not _LIBFABRIC.search(text):
            match = _WITH_UCX.search(line)  # its configure script looks for libfabric by itself
        if match is None or line.lstrip().startswith("#"):
            continue
        yield Problem(
            reason=Reason.INVALID_VALUE,
            message=f"`{match[0]}`: this MPI is built without libfabric, and UCX has no transport "
            "for Slingshot: between nodes it would take TCP",
            hint="build it with libfabric (`--with-ofi` for Open MPI, `--with-device=ch4:ofi` for "
            "MPICH), which the host's replaces: `stackproof image containerfile container-mpich` "
            f"writes such a file; {_UCX}",
            where=Location(file=file, line=number, column=1),
        )


_TOML_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)")


def judge_edf(text: str, file: str, _fabric: str | None) -> Iterator[Problem]:
    """Yield that an environment definition is no TOML, or has a switch that is no text."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        match = _TOML_PLACE.search(str(error))
        line, column = match.groups() if match else ("0", "0")
        yield Problem(
            reason=Reason.INVALID_VALUE,
            message=f"not TOML: {_TOML_PLACE.sub('', str(error))}",
            where=Location(file=file, line=int(line), column=int(column)),
        )
        return
    for table in ("annotations", "env"):
        for name, value in _leaves(data.get(table), ""):
            if not isinstance(value, str):
                yield Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"`{name}` in `[{table}]` is no text",
                    hint=f'write it in quotes: `{name} = "{str(value).lower()}"`',
                    where=Location(file=file),
                )


def _leaves(value: object, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}".lstrip("."))
    elif value is not None:
        yield name, value


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with the number of their first, continued ones put together."""
    start = 1
    parts: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        start = start if parts else number
        parts.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            yield start, "".join(parts)
            parts = []
    if parts:
        yield start, "".join(parts)


JUDGES: Mapping[str, Callable[[str, str, str | None], Iterator[Problem]]] = {
    "slurm": judge_batch, "containerfile": judge_containerfile, "edf": judge_edf,
}  # fmt: skip
"""The judge of each kind of `core.kinds` that has one: of a text, a file's name and a fabric."""


_IN_A_FOLDER = ("Containerfile", "Dockerfile")


def problems(path: str, site: str | None) -> tuple[Problem, ...]:
    """Return the known faults of a file or folder of another program, for a site if one is given.

    Files of Spack have their own (`known.environment_problems`).
    """
    judge = JUDGES.get(documents.kind_of(path))
    if os.path.isdir(path):
        within = (os.path.join(path, name) for name in _IN_A_FOLDER)
        path = next(filter(os.path.isfile, within), path)
    if judge is None or not os.path.isfile(path):
        return ()
    try:
        text = files.read_bounded(path, limits.DOCUMENT).decode(errors="replace")
        return tuple(judge(text, path, probe.load_site(site).fabric.type if site else None))
    except StackproofError as error:
        return error.problems
