"""Evidence of this machine: its devices, files and programs."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping

from stackproof.core import limits
from stackproof.core.command import Command
from stackproof.core.effects import files, run
from stackproof.core.effects.run import Runner
from stackproof.core.errors import StackproofError
from stackproof.doctor.evidence.programs import MACHINE, NVIDIA_VERSION, STACK, Reply, read_answers
from stackproof.knowledge.evidence import Evidence, Pieces
from stackproof.mpi.effects import fabric

_SLURM_FOLDERS = ("/usr/lib64/slurm", "/usr/lib/slurm", "/opt/slurm/lib/slurm",
                  "/opt/slurm/lib64/slurm", "/usr/local/lib/slurm")  # fmt: skip
_SLURM_CONF = "/etc/slurm/slurm.conf"
_PLUGIN = re.compile(r"mpi_pmix_v(\d+)\.so")
# The folder that Slurm was configured with: src/plugins/mpi/pmix/mpi_pmix.c, PMIXP_V4_LIBPATH.
_PMIX_FOLDER = re.compile(rb"(?<=\0)(/[\x21-\x7e]*/lib(?:64|/[\w-]+)?)/?(?=\0)")
_JOB = frozenset({"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PMI_RANK", "PMIX_RANK"})
_NET, _XPMEM = "/sys/class/net", "/dev/xpmem"
_TIMEOUT_S = 20.0
_NOT_FOUND = 127


def machine() -> Evidence:
    """Return the devices for messages of this machine, and in a job the memory that it may lock."""
    pieces = Pieces(fabric.CXI)
    pieces.fact("xpmem-device", os.path.exists(_XPMEM), _XPMEM)
    _, nics = fabric.of_this_machine()
    pieces.fact("cxi-device", nics > 0)
    pieces.fact("nics-per-node", float(nics) if nics else None)
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY and _JOB & os.environ.keys():  # a login's says nothing of it
        pieces.fact("memlock-kib", soft / 1024, "the limit of this job")
    return pieces.evidence()


def interfaces() -> tuple[str, ...]:
    """Return the names of this machine's network interfaces."""
    return _names(_NET)


def slurm_pmix() -> Evidence:
    """Return the PMIx of this machine's Slurm, and whether its plug-in finds the library.

    That is not told where the plug-in does not say which library it opens.
    """
    for folder in _slurm_folders():
        majors = sorted({int(m[1]) for name in _names(folder) if (m := _PLUGIN.fullmatch(name))})
        if majors:
            pieces = Pieces(folder)
            library = _pmix_library(f"{folder}/mpi_pmix_v{majors[-1]}.so")
            if library:
                there = os.path.isfile(library)
                pieces.fact("pmix-loads", there, f"{library} {'is' if there else 'is not'} there")
            pieces.fact("slurm-pmix", tuple(map(str, majors)))
            return pieces.evidence()
    return Evidence()


def _names(folder: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(folder)))
    except OSError:
        return ()


def _slurm_folders() -> Iterator[str]:
    """Yield where Slurm's plug-ins may be, that of its configuration first."""
    conf = os.environ.get("SLURM_CONF", _SLURM_CONF)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        with open(conf, encoding="utf-8") as stream:
            text = stream.read(1 << 20)
        match = re.search(r"^\s*PluginDir\s*=\s*(\S+)", text, re.MULTILINE | re.IGNORECASE)
        if match:
            yield from match[1].split(":")
    yield from _SLURM_FOLDERS
    for name in _names("/usr/lib"):
        if name.endswith(("-linux-gnu", "-linux-gnueabihf")):
            yield from (f"/usr/lib/{name}/slurm-wlm", f"/usr/lib/{name}/slurm")


def _pmix_library(plugin: str) -> str:
    """Return the library that a plug-in opens, empty when it does not say where it is."""
    try:
        content = files.read_bounded(plugin, limits.ELF_CONTENT, hint="this is no library")
    except StackproofError:
        return ""
    folders = set(_PMIX_FOLDER.findall(content))
    if len(folders) != 1 or b"libpmix.so" not in content:
        return ""
    return f"{folders.pop().decode()}/libpmix.so"


def ask_programs(image: str | None, runner: Runner = run.run) -> Evidence:
    """Return what the programs of an image (or of this shell) and of this machine say.

    A program that is not there, does not end in 20 s or cannot be started tells nothing.
    """
    inside = (sys.executable, "-P", "-m", "stackproof", "run", image, "--") if image else ()
    commands: dict[str, tuple[str, ...]] = {
        **{name: (*inside, *argv) for name, argv in STACK.items()},
        **MACHINE,
    }
    there = {name: argv for name, argv in commands.items() if shutil.which(argv[0])}
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only with `--probe`

    with ThreadPoolExecutor(max_workers=4) as pool:
        found = pool.map(lambda argv: _ask(argv, runner), there.values())
    replies: Mapping[str, Reply] = {
        name: reply for name, reply in zip(there, found, strict=True) if reply is not None
    }
    return read_answers(replies)


def gpu_driver() -> Evidence:
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
