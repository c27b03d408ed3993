"""Source files for EasyBuild: found in folders, in the archive of Debian, or at upstream.

Whatever a file is from, only its digest decides whether it is taken. What was taken stays in the
cache, by digest, so that a build needs no network for what it has had before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from stackproof.build.effects import git, source_mirror
from stackproof.build.effects.pip import index_command
from stackproof.build.effects.workspace import download_path
from stackproof.build.engines.easybuild import tool
from stackproof.build.stack import Artefact, SourceFile
from stackproof.core import limits
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.downloads import Transfer, downloading, run_watched
from stackproof.core.effects.run import Runner, run
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor, null_monitor
from stackproof.core.value import replace

# The address of an archive of Debian, where this system's own is of another distribution.
ARCHIVE = "STACKPROOF_DEBIAN_ARCHIVE"
# apt's own program for one file: it knows the proxies and certificates on the way to its archive.
_APT_HELPER = "/usr/lib/apt/apt-helper"
_APT_TIMEOUT_S = 600.0
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")
_TIMEOUT_S = 60.0
_CHUNK = 1 << 20
_GONE_CODES = (404, 410)
# What apt says of a file that the archive has not any more.
_GONE = ("404  Not Found", "File not found")


Found = TypeVar("Found")
Fetch = Callable[[str, Path, Transfer], None]
"""What writes the content of an address into a file; it raises as `_fetch` does."""


class SourceFinder:
    """Where source files are looked for: the cache, what the user has, then their origins."""

    def __init__(
        self, folders: Iterable[Path], monitor: Monitor, beside: Iterable[Path] = ()
    ) -> None:
        self._monitor = monitor
        self._there: dict[str, list[Path]] = {path.name: [path] for path in beside}
        for folder in folders:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    self._there.setdefault(path.name, []).append(path)
        self._digests: dict[Path, str] = {}

    def choose(self, source: SourceFile) -> str:
        """Return the SHA-256 of the file that a lock is to name.

        That is the digest of a file in the user's folders, the first accepted one without such a
        file; a packed commit has to be packed to know it. Raises `StackproofError`: DIGEST_MISMATCH
        for a file of the right name whose digest is not accepted, and what `obtain` raises.
        """
        found = self._in_folders(source)
        if found:
            return self._digest(found)
        if source.accepted:
            return source.accepted[0].sha256
        return files.sha256(self._pack(source))

    def obtain(self, source: SourceFile) -> Path:
        """Return the file of a lock in the cache, brought there if need be.

        What its place has not any more, or changed, is looked for at the next one. Raises
        `StackproofError`: DIGEST_MISMATCH with the accepted digests, NO_NETWORK, FILE_MISSING when
        nobody has it, TOOL_MISSING without apt.
        """
        wanted = source.accepted[0].sha256
        target = download_path(wanted, source.filename)
        if target.is_file() and files.sha256(target) == wanted:
            return target
        found = self._in_folders(source)
        if found:
            files.copy(found, target)
            return target
        problems: list[Problem] = []
        for place in _places(source):
            try:
                self._bring(place, target)
            except StackproofError as error:
                problems += error.problems
                continue
            for problem in problems:
                self._monitor(Event(what="note", name="source", text=problem.message))
            return target
        raise StackproofError(*_summary(source, problems))

    def _bring(self, source: SourceFile, target: Path) -> None:
        """Put a file into the cache from the one place that it names; raises as `obtain`."""
        wanted = source.accepted[0].sha256
        if source.commit:
            self._pack(source)
        elif source.os_package is not None:
            named = os.environ.get(ARCHIVE, "")
            archive = named or _system_archive(source)
            fetch = _fetch if named else _fetch_by_apt
            self._download(source, f"{archive.rstrip('/')}/{source.pool}", fetch, target)
        elif source.address:
            self._download(source, source.address, _fetch, target)
        else:
            raise _missing(source)
        digest = files.sha256(target) if target.is_file() else ""
        if digest != wanted:
            files.remove(target)
            raise _wrong(source, source.address or source.filename, digest or "another file")

    def tool(self, version: str) -> tuple[Artefact, ...]:
        """Return EasyBuild's own packages in a release.

        One whose digest is not known is in the cache from then on. Raises `StackproofError`:
        UNKNOWN_VERSION, NO_NETWORK.
        """
        return tuple(self._tool_file(name, version) for name in tool.PACKAGES)

    def bring(self, file: Artefact) -> None:
        """Put a package of EasyBuild from the user's folders into the cache, if it is there."""
        target = download_path(file.sha256, file.filename)
        if target.is_file():
            return
        for path in self._there.get(file.filename, ()):
            if self._digest(path) == file.sha256:
                files.copy(path, target)
                return

    def _tool_file(self, name: str, version: str, runner: Runner = run) -> Artefact:
        known = tool.artefact(name, version)
        if known.sha256:
            return known
        with _folder() as folder:
            if known.filename in self._there:
                path = self._there[known.filename][0]
            else:
                command = index_command(tool.fetch_command(known, str(folder)))
                with downloading(known.filename, self._monitor) as download:
                    done = run_watched(command, folder, runner, download.at)
                    found = sorted(folder.iterdir())
                    if done.returncode != 0 or not found:
                        raise tool.explain(version, done)
                    path = found[0]
                    download.at(path.stat().st_size)
            digest = files.sha256(path)
            files.copy(path, download_path(digest, path.name))
        return tool.artefact(name, version, path.name, digest)

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            self._digests[path] = files.sha256(path)
        return self._digests[path]

    def _in_folders(self, source: SourceFile) -> Path | None:
        """Return a file with the name of a source and a digest that is accepted."""
        names = {source.filename, os.path.basename(source.address)} - {""}
        found = [path for name in sorted(names) for path in self._there.get(name, ())]
        accepted = {digest.sha256 for digest in source.accepted}
        if not accepted:
            return found[0] if found else None
        for path in found:
            if self._digest(path) in accepted:
                return path
        if found:
            raise _wrong(source, str(found[0]), self._digest(found[0]))
        return None

    def _download(self, source: SourceFile, address: str, fetch: Fetch, target: Path) -> None:
        """Put what is at an address into the cache; raises as `obtain`."""
        with _folder() as folder, downloading(address, self._monitor) as download:
            got = folder / source.filename
            try:
                fetch(address, got, download)
            except FileNotFoundError as error:
                raise _vanished(source, address) from error
            except (OSError, ValueError) as error:
                raise fail(
                    Reason.NO_NETWORK,
                    f"`{address}` cannot be downloaded: {error}",
                    hint=f"connect to a network, or {_advice(source)}",
                    detail=_accepted(source),
                ) from error
            digest = files.sha256(got)
            if digest not in {one.sha256 for one in source.accepted}:
                raise _wrong(source, address, digest)
            files.copy(got, target)

    def _pack(self, source: SourceFile) -> Path:
        """Return the files of a commit in the cache, packed as `SourceFile` says."""
        with _folder() as folder:
            made = folder / source.filename
            git.archive(source.address, source.commit, made.stem, made, self._monitor)
            digest = files.sha256(made)
            target = download_path(digest, source.filename)
            files.copy(made, target)
        return target


def of_all(wanted: Iterable[SourceFile], look: Callable[[SourceFile], Found]) -> dict[str, Found]:
    """Return what `look` gives for each source file, by its name; raises all problems at once."""
    found: dict[str, Found] = {}
    problems: list[Problem] = []
    for source in wanted:
        try:
            found[source.filename] = look(source)
        except StackproofError as error:
            problems += error.problems
    if problems:
        raise StackproofError(*problems)
    return found


def mirror_folders(given: str | None) -> tuple[Path, ...]:
    """Return the folder of the user in which source files are looked for, if he names one.

    Raises `StackproofError` (FILE_MISSING, INVALID_VALUE).
    """
    if given is None:
        return ()
    folder = Path(given)
    if not folder.exists():
        raise fail(Reason.FILE_MISSING, f"the folder `{given}` does not exist")
    if not folder.is_dir():
        raise fail(
            Reason.INVALID_VALUE,
            f"`{given}` is a file; for EasyBuild a mirror is a folder with source files",
            where=Location(file=given),
        )
    inside = folder / source_mirror.EASYBUILD  # a folder of `mirror create` may hold much else
    return (inside if inside.is_dir() else folder,)


@contextmanager
def _folder() -> Iterator[Path]:
    cache_kinds.in_use()
    base = cache_kinds.home("downloads")
    try:
        base.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=base))
    except OSError as error:
        raise files.translate(error, base) from error
    try:
        yield made
    finally:
        files.remove(made)


def fetched(address: str) -> str:
    """Return the SHA-256 of what is at an address; it is in the cache by that from then on.

    Raises `StackproofError` (NO_NETWORK).
    """
    name = os.path.basename(address)
    with _folder() as folder, downloading(address, null_monitor) as download:
        got = folder / name
        try:
            _fetch(address, got, download)
        except (OSError, ValueError) as error:
            message = f"`{address}` cannot be downloaded: {error}"
            raise fail(Reason.NO_NETWORK, message, hint="or name a file") from error
        digest = files.sha256(got)
        files.copy(got, download_path(digest, name))
    return digest


def _fetch(address: str, target: Path, download: Transfer) -> None:
    """Write what is at an address into a file.

    Raises `FileNotFoundError` where it is no more, `OSError` and `ValueError` where it cannot be
    had.
    """
    if not address.startswith(("https://", "http://", "file://")):
        raise ValueError("not an address of the web")
    try:
        with (
            urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer,  # noqa: S310 - see above
            target.open("wb") as stream,
        ):
            length = str(answer.headers.get("Content-Length", ""))
            total = int(length) if length.isdecimal() else None
            while chunk := answer.read1(_CHUNK):
                stream.write(chunk)
                download.at(stream.tell(), total)
                if stream.tell() > limits.SOURCE.bytes:
                    raise ValueError(f"the file has more than {limits.SOURCE.bytes} bytes")
    except urllib.error.HTTPError as error:
        error.close()  # it is the answer as well
        if error.code in _GONE_CODES:
            raise FileNotFoundError(str(error)) from error
        raise


def _fetch_by_apt(address: str, target: Path, download: Transfer) -> None:
    """Write what is at an address into a file, as `_fetch` does, by apt."""
    # The kernel ends what writes more, be it a part of apt.
    most = ("prlimit", f"--fsize={limits.SOURCE.bytes}")
    argv = (*most, _APT_HELPER, "-oAPT::Sandbox::User=", "download-file", address, str(target))
    given = {name: os.environ[name] for name in _PROXIES if name in os.environ}
    env = EnvPatch(set={**given, "LC_ALL": "C.UTF-8"})
    command = Command(argv=argv, env=env, timeout_s=_APT_TIMEOUT_S)
    done = run_watched(command, target.parent, run, download.at)
    text = done.stderr.decode(errors="replace").strip()
    if any(sign in text for sign in _GONE):
        raise FileNotFoundError(text)
    if done.returncode != 0 or not target.is_file():
        raise OSError(next((line for line in text.splitlines() if line.startswith("E:")), text))


def _system_archive(source: SourceFile) -> str:
    """Return the address of the archive of Debian that this system's packages are from.

    Raises `StackproofError` (TOOL_MISSING) on a system that is no Debian.
    """
    form = "$(REPO_URI)|$(COMPONENT)|$(ORIGIN)|$(LABEL)"
    if shutil.which("apt-get"):
        done = run(
            Command(argv=("apt-get", "indextargets", "--format", form), timeout_s=_TIMEOUT_S)
        )
        for line in done.stdout.decode(errors="replace").splitlines():
            address, _, rest = line.partition("|")
            if rest == "main|Debian|Debian":  # security fixes have an archive of their own
                return address
    raise fail(
        Reason.TOOL_MISSING,
        f"`{source.filename}` is from a source package of Debian, and this system's apt knows no "
        "archive of Debian",
        detail=_accepted(source),
        hint="on Debian run `apt-get update` once as root; elsewhere name an archive of Debian "
        f"(http://HOST/debian) by {ARCHIVE}=URL, or {_advice(source)}",
    )


def _accepted(source: SourceFile) -> str:
    lines = [f"accepted sha256 {one.sha256}  {one.provenance}" for one in source.accepted]
    return "\n".join(lines)


def _advice(source: SourceFile) -> str:
    return f"put `{source.filename}` into a folder and name it: --mirror DIR"


def _wrong(source: SourceFile, place: str, found: str) -> StackproofError:
    return fail(
        Reason.DIGEST_MISMATCH,
        f"`{source.filename}` is not a file that was accepted: {place}",
        detail=f"{_accepted(source)}\nfound {found}",
        hint="find out what this file is; nothing was built from it",
    )


def _vanished(source: SourceFile, place: str) -> StackproofError:
    return fail(
        Reason.FILE_MISSING,
        f"`{source.filename}` is not at {place} any more",
        detail=_accepted(source),
        hint=f"{_advice(source)}; or let the recipe's `sources` name another kind that has it",
    )


def _places(source: SourceFile) -> Iterator[SourceFile]:
    """Yield a source at each place that has the same bytes, its own first."""
    yield source
    for place in source.elsewhere:
        yield replace(
            source,
            filename=place.filename,
            address=place.address,
            os_package=place.os_package,
            commit="",
        )


def _summary(source: SourceFile, problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the one problem of a file that no place has: changed bytes count most."""
    if not source.elsewhere:
        return tuple(problems)
    reasons = [problem.reason for problem in problems]
    changed = Reason.DIGEST_MISMATCH in reasons
    told = [f"{number}. {problem.message}" for number, problem in enumerate(problems, 1)]
    return (
        Problem(
            reason=Reason.DIGEST_MISMATCH if changed else reasons[-1],
            message=f"`{source.filename}` cannot be had from any of its {len(problems)} places",
            detail="\n".join((*told, _accepted(source))),
            hint=_advice(source),
        ),
    )


def _missing(source: SourceFile) -> StackproofError:
    return fail(
        Reason.FILE_MISSING,
        f"it is not known where `{source.filename}` is to be had",
        detail=_accepted(source),
        hint=_advice(source),
    )
