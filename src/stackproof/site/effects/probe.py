"""Looking at this machine: reads files and asks programs, then leaves the reading to arrows."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from stackproof.core import document as documents
from stackproof.core import limits, noun
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import files, run, shipped
from stackproof.core.effects.documents import load, refuse_other_kind
from stackproof.core.effects.run import Runner
from stackproof.core.errors import StackproofError
from stackproof.site import capture
from stackproof.site.capture import Capture, CommandOutput, read_capture
from stackproof.site.effects import toolchain
from stackproof.site.model import Site, Source, merge, parse_site

# The site that stands for the machine stackproof runs on.
LOCAL = "local"
_TIMEOUT_S = 10.0
# Where programs that are asked find what they serve.
_KEPT = ("SLURM_CONF", "FLUX_URI", "PBS_CONF_FILE", "PKG_CONFIG_PATH")
_DOCUMENT_SUFFIXES = (".yaml", ".yml", ".json")


def probe_site(runner: Runner = run.run) -> Site:
    """Return what can be seen of this machine, as the site `local`; takes well under a second."""
    return read_capture(take_capture(runner), name=LOCAL)


def load_site(name_or_path: str, runner: Runner = run.run) -> Site:
    """Return a site: the name of a shipped one, or the path of a site file.

    A path has a `/` or ends in `.yaml`, or is a file that is called like no shipped site. The site
    `local` is completed by what the probe finds.
    Raises `StackproofError`: FILE_MISSING (a wrong name lists the right ones), NOT_PERMITTED, and
    what `parse_site` raises.
    """
    site = parse_site(read_site_file(name_or_path), own=own_source(name_or_path))
    return merge(site, probe_site(runner)) if site.name == LOCAL else site


def _is_path(name_or_path: str) -> bool:
    if os.sep in name_or_path or name_or_path.endswith(_DOCUMENT_SUFFIXES):
        return True
    return os.path.isfile(name_or_path) and name_or_path not in shipped.names("sites")


def own_source(name_or_path: str) -> Source | None:
    """Return the source of facts in somebody's own file that names none.

    The date is that of the file. None for a shipped site, and for a file that is not there.
    """
    try:
        changed = Path(name_or_path).stat().st_mtime if _is_path(name_or_path) else None
    except OSError:
        return None
    if changed is None:
        return None
    return Source(
        title="this machine", date=datetime.fromtimestamp(changed, UTC).date().isoformat()
    )


def read_site_file(name_or_path: str) -> documents.Document:
    """Return the parsed document of a site; raises like `load_site`."""
    return load(_path_of(name_or_path), wanted="site")


def read_text(name_or_path: str) -> str:
    """Return the text of a site file, which is a site; raises like `load_site`."""
    path = _path_of(name_or_path)
    refuse_other_kind(path, "site")
    content = files.read_bounded(path, limits.DOCUMENT)  # once, as a pipe has it once
    parse_site(documents.parse(content, file=path), own=own_source(name_or_path))
    return content.decode("utf-8-sig")


def _path_of(name_or_path: str) -> str:
    return name_or_path if _is_path(name_or_path) else str(shipped.find("sites", name_or_path))


def captured(file: str | None) -> Capture:
    """Return the capture in a file, or that of this machine with all that can be asked.

    Raises `StackproofError` for a file that is none.
    """
    if file is None:
        return take_capture(thorough=True)
    refuse_other_kind(file, "capture")
    return noun.from_json(Capture, files.read_bounded(file, limits.LOCK), file=file)


def take_capture(runner: Runner = run.run, *, thorough: bool = False) -> Capture:
    """Return what the files, folders and programs of this machine say, unread.

    With `thorough` also what takes longer: compilers, queues, libraries, the processor's name.
    """
    folders: dict[str, tuple[str, ...]] = {}
    for pattern in capture.FOLDERS:
        for folder in _expanded(pattern, folders):
            if (names := _names(folder)) is not None:
                folders[folder] = names
    paths = [path for pattern in capture.FILES for path in _expanded(pattern, folders)]
    tools = capture.TOOLS | (capture.MORE_TOOLS if thorough else {})
    programs = {name: path for name in tools if (path := shutil.which(name))}
    lines = {line: tuple(shlex.split(line)) for line in capture.COMMANDS}
    cma_check = Path(__file__).with_name("cma_check.py")
    lines[capture.SIBLING_READ] = (sys.executable, "-I", str(cma_check))
    if thorough:
        lines |= {line: tuple(shlex.split(line)) for line in capture.MORE_COMMANDS}
    answers = {line: _ask(argv, runner) for line, argv in lines.items()}
    if thorough and (name := toolchain.processor()):
        answers[capture.PROCESSOR] = CommandOutput(text=f"{name}\n", returncode=0)
    return Capture(
        taken=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        files={path: text for path in paths if (text := _text(path)) is not None},
        folders=folders,
        commands={line: answer for line, answer in answers.items() if answer},
        programs=programs,
        sizes={path: size for path in ("/dev/shm",) if (size := _size(path))},  # noqa: S108 - looked at
        opened={path: opened for path in ("/dev/fuse",) if (opened := _opens(path)) is not None},
    )


def _names(folder: str) -> tuple[str, ...] | None:
    try:
        return tuple(sorted(os.listdir(folder)))
    except OSError:
        return None


def _expanded(pattern: str, folders: dict[str, tuple[str, ...]]) -> list[str]:
    """Return the paths of a pattern whose `*` stands for the names in a folder."""
    folder, star, rest = pattern.partition("/*")
    if not star:
        return [pattern]
    return [f"{folder}/{name}{rest}" for name in folders.get(folder, ())]


def _text(path: str) -> str | None:
    try:
        with open(path, "rb") as stream:
            return stream.read(limits.PROBED.bytes).decode(errors="replace")
    except OSError:
        return None  # not there, or the driver has no answer (an interface that is down)


def _ask(argv: tuple[str, ...], runner: Runner) -> CommandOutput | None:
    """Return what a program says; None when it is not there or does not answer in time."""
    try:
        done = runner(Command(argv=argv, timeout_s=_TIMEOUT_S, env=_asking()))
    except StackproofError:
        return None
    if done.timed_out:
        return None
    text = (done.stdout + done.stderr)[: limits.PROBED.bytes].decode(errors="replace")
    return CommandOutput(text=text, returncode=done.returncode)


def _asking() -> EnvPatch:
    """Return what programs are asked with: answers in English, from where the user's own go."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return EnvPatch(set={"LC_ALL": "C", **kept})


def _size(path: str) -> int | None:
    with contextlib.suppress(OSError):
        status = os.statvfs(path)
        return status.f_frsize * status.f_blocks
    return None


def _opens(device: str) -> bool | None:
    """Return whether a device can be opened, None when it is not there."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return None
    except OSError:
        return False
    return True
