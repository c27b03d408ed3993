"""Source packages of the operating system: found and fetched with apt, without root.

apt works with folders of its own in the cache, so that nothing of the system's lists or settings
is used or changed. It checks the signature of the suite's index and, by the index, the digest of
every file: what arrives is what the operating system's maintainers built from.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from stackproof.build.engines.spack.stack import OsSource
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.run import Runner, run
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value

# Whose source packages these are, by what their archive says of itself -> the keys it is signed
# with, as the distribution's own package of keys installs them.
KEYRINGS: Mapping[str, str] = {
    "Debian": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "Ubuntu": "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
}
_TIMEOUT_S = 600.0
_UPDATED = "updated"
_FRESH_S = 24 * 3600.0
# Spack's name -> Debian's name of the source package, where they differ (packages.debian.org).
NAMES: Mapping[str, str] = {
    "libnl": "libnl3",
    "xz": "xz-utils",
    "zstd": "libzstd",
    "libfuse": "fuse",
    "squashfs": "squashfs-tools",
    "uuid": "ossp-uuid",
}
_REPACKED = re.compile(r"(?:[+~](?:dfsg|ds|repack|git|r)|\.dfsg|-stable)[\w.~+-]*$")
_REALLY = re.compile(r"\A.*\+really")


class SourcePackage(Value):
    """A source package in a suite, with its upstream tarball.

    One that is not `current` is only kept because something else was built from it
    (`Extra-Source-Only`, wiki.debian.org/DebianRepository/Format).
    """

    name: str
    version: str
    suite: str
    filename: str
    sha256: str
    dsc: str
    url: str
    current: bool = True

    @property
    def upstream(self) -> str:
        """Return upstream's version: without epoch, revision, and marks of repacking."""
        return upstream_version(self.version)


def upstream_version(version: str) -> str:
    """Return upstream's part of a Debian version (deb-version(7)).

    `1:2.0.19-1+b1` is 2.0.19, `1.5.7+dfsg-1` 1.5.7, and `4.3.0+really4.2.1-1` 4.2.1. A release that
    upstream calls stable, as libevent does, is one without that word: `2.1.12-stable-8` is 2.1.12.
    """
    _, _, rest = version.rpartition(":")
    upstream = rest.rpartition("-")[0] or rest
    return _REPACKED.sub("", _REALLY.sub("", upstream))


class Archive(Value):
    """An archive of source packages: its address, a suite of it, and the keys it is signed with."""

    url: str
    suite: str
    keyring: str

    @property
    def folder(self) -> Path:
        """Return apt's folder for this archive in the cache."""
        name = re.sub(r"[^A-Za-z0-9]+", "-", f"{self.url.partition('://')[2]}-{self.suite}")
        return cache_kinds.home("apt") / name.strip("-")

    def update(self, monitor: Monitor, *, runner: Runner = run) -> None:
        """Have the index of the suite, not older than a day.

        Raises `StackproofError`: TOOL_MISSING without apt or the keyring, NO_NETWORK,
        DIGEST_MISMATCH when the index is not signed with a key of the keyring.
        """
        if not os.path.exists(self.keyring):
            raise fail(
                Reason.TOOL_MISSING,
                f"the keys of the archive are missing: `{self.keyring}`",
                hint="install them, for example: apt-get install debian-archive-keyring; or name "
                "another file with --keyring",
            )
        cache_kinds.in_use()
        for part in ("etc/preferences.d", "lists/partial", "cache/archives/partial"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        text = f"deb-src [signed-by={self.keyring}] {self.url} {self.suite} main\n"
        listed = self.folder / "etc" / "sources.list"
        stamp = self.folder / _UPDATED
        if stamp.exists() and listed.exists() and listed.read_text(encoding="utf-8") == text:
            import time  # noqa: PLC0415 - beside its only use

            if time.time() - stamp.stat().st_mtime < _FRESH_S:
                return
        files.write(listed, text)
        monitor(Event(what="note", name="apt", text=f"index of {self.url} {self.suite}"))
        done = self._apt(("apt-get", "update", "--error-on=any"), runner)
        if done.returncode != 0:
            raise self._failure(done)
        files.write(stamp, "")

    def find(self, name: str, *, runner: Runner = run) -> SourcePackage | None:
        """Return a source package by its name, the last one in the index; None without one."""
        found = [one for one in self.versions(name, runner=runner) if one.current]
        return found[-1] if found else None

    def versions(self, name: str, *, runner: Runner = run) -> tuple[SourcePackage, ...]:
        """Return all source packages of a name that have an upstream tarball."""
        done = self._apt(("apt-cache", "showsrc", "--only-source", name), runner)
        return tuple(
            package
            for paragraph in done.stdout.decode(errors="replace").split("\n\n")
            if (package := self._read(paragraph)) is not None and package.name == name
        )

    def fetch(self, package: SourcePackage, *, runner: Runner = run) -> Path:
        """Return the upstream tarball of a source package, in a folder of the cache.

        Raises `StackproofError`: NO_NETWORK, DIGEST_MISMATCH for a file that the index does not
        know.
        """
        target = self.folder / "files" / package.sha256 / package.filename
        if target.exists() and files.sha256(target) == package.sha256:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            wanted = f"{package.name}={package.version}"
            call = ("apt-get", "source", "--download-only", "--tar-only", wanted)
            done = self._apt(call, runner, cwd=folder)
            got = Path(folder) / package.filename
            if done.returncode != 0 or not got.is_file():
                raise self._failure(done)
            if files.sha256(got) != package.sha256:
                raise fail(
                    Reason.DIGEST_MISMATCH, f"`{package.filename}` is not the file of the index"
                )
            os.replace(got, target)
        return target

    def _read(self, paragraph: str) -> SourcePackage | None:
        """Return the package of one paragraph of the index; None for one without a tarball."""
        fields: dict[str, str] = {}
        last = ""
        for line in paragraph.splitlines():
            if line.startswith(" "):
                fields[last] += f"\n{line.strip()}"
            elif ":" in line:
                last, _, value = line.partition(":")
                fields[last] = value.strip()
        entries = [line.split() for line in fields.get("Checksums-Sha256", "").splitlines()]
        digests = {words[2]: words[0] for words in entries if len(words) == 3}
        tarball = next((n for n in digests if re.search(r"(?:\.orig)\.tar\.\w+$", n)), None)
        dsc = next((digest for name, digest in digests.items() if name.endswith(".dsc")), None)
        if tarball is None or dsc is None:
            return None
        return SourcePackage(
            name=fields["Package"],
            version=fields["Version"],
            suite=f"{self.url.rstrip('/').rpartition('/')[2]} {self.suite}",
            filename=tarball,
            sha256=digests[tarball],
            dsc=dsc,
            url=f"{self.url}/{fields['Directory']}/{quote(tarball)}",
            current=fields.get("Extra-Source-Only", "no") != "yes",
        )

    def _apt(self, words: tuple[str, ...], runner: Runner, cwd: str | None = None) -> Completed:
        base = self.folder
        settings = {
            "Dir::Etc": base / "etc",
            "Dir::Etc::sourcelist": base / "etc" / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferencesparts": base / "etc" / "preferences.d",
            "Dir::State": base,
            "Dir::State::lists": base / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": base / "cache",
            "Dir::Log": base,
            "APT::Sandbox::User": "",
            "Acquire::Retries": "2",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        names = ("http_proxy", "https_proxy", "no_proxy")
        given = {name: os.environ[name] for name in names if name in os.environ}
        return runner(
            Command(
                argv=(words[0], *options, *words[1:]),
                cwd=cwd,
                env=EnvPatch(set={**given, "LC_ALL": "C.UTF-8"}),
                timeout_s=_TIMEOUT_S,
            )
        )

    def _failure(self, done: Completed) -> StackproofError:
        text = (done.stderr or done.stdout).decode(errors="replace").strip()
        lines = [line for line in text.splitlines() if line.startswith(("E:", "W:", "Err:"))]
        unsigned = "is not signed" in text or "couldn't be verified" in text or "NO_PUBKEY" in text
        mismatch = "Hash Sum mismatch" in text
        return fail(
            Reason.DIGEST_MISMATCH if unsigned or mismatch else Reason.NO_NETWORK,
            f"the archive {self.url} {self.suite} is not signed with a key of `{self.keyring}`"
            if unsigned
            else f"apt cannot read the archive {self.url} {self.suite}",
            detail="\n".join(lines[-4:]) or None,
            hint="name the right keys with --keyring"
            if unsigned
            else "is there a network? does the archive have this suite (--archive, --suite)?",
        )


def indexed(source: OsSource, *, runner: Runner = run) -> str | None:
    """Return the SHA-256 that the index states for an accepted source; None when it is not here.

    Nothing is fetched: an index is here when sources were accepted on this machine.
    """
    url, _, _ = source.url.partition("/pool/")
    archive = Archive(url=url, suite=source.suite.rpartition(" ")[2], keyring="")
    if not (archive.folder / _UPDATED).exists():
        return None
    for package in archive.versions(source.source, runner=runner):
        if package.version == source.source_version:
            return package.sha256
    return None


def system_archive(*, runner: Runner = run) -> Archive | None:
    """Return the archive that this machine's own packages are from; None without a known one.

    Raises `StackproofError` (TOOL_MISSING) without apt.
    """
    form = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)"
    done = runner(Command(argv=("apt-get", "indextargets", "--format", form), timeout_s=60.0))
    for line in done.stdout.decode(errors="replace").splitlines():
        url, _, rest = line.partition("|")
        suite, component, origin = (*rest.split("|"), "", "", "")[:3]
        # Updates and security fixes have suites of their own, `<suite>-updates`.
        if component == "main" and origin in KEYRINGS and "-" not in suite:
            return Archive(url=url.rstrip("/"), suite=suite, keyring=KEYRINGS[origin])
    return None


def spellings(name: str) -> tuple[str, ...]:
    """Return how the operating system may name the source package of a package of Spack."""
    kind, _, rest = name.partition("-")
    guesses = {
        "py": (f"python-{rest}", rest, f"python3-{rest}"),
        "perl": (f"lib{rest}-perl",),
        "r": (f"r-cran-{rest}",),
    }.get(kind, ())
    known = (NAMES[name],) if name in NAMES else ()
    return tuple(dict.fromkeys((*known, name, *guesses)))


def lacks_configure(tarball: Path) -> bool:
    """Return whether a tarball has what `configure` is made of, and not `configure` itself.

    Raises `StackproofError` (INVALID_VALUE) for a file that is no tarball.
    """
    import tarfile  # noqa: PLC0415 - where sources are packed alone

    try:
        with tarfile.open(tarball) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
    except (tarfile.TarError, OSError) as error:
        raise fail(Reason.INVALID_VALUE, f"`{tarball}` is no tarball: {error}") from error
    return bool(names & {"configure.ac", "configure.in"}) and "configure" not in names
