"""An archive of source packages as apt knows them, signed with a key of its own, for tests."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

from stackproof.build.engines.spack.effects.os_sources import Archive


class AptArchive:
    """A folder that apt can read: `pool` with files, `dists/<suite>` with the signed index."""

    def __init__(self, folder: Path, suite: str = "testing") -> None:
        self.folder = folder / "archive" / "debian"
        self.suite = suite
        self.keyring = folder / "keys.gpg"
        # gpg's socket lies in its home, and the path of a socket is short.
        self._home = folder / "gnupg"
        self._home.mkdir(mode=0o700, parents=True)
        self._environment = {**os.environ, "GNUPGHOME": str(self._home)}
        self._paragraphs: list[str] = []
        self._gpg("--quick-generate-key", "test <test@example.org>", "ed25519", "sign", "never")
        self.keyring.write_bytes(self._gpg("--export"))

    @property
    def known(self) -> Archive:
        """Return how stackproof names this archive."""
        return Archive(url=f"file://{self.folder}", suite=self.suite, keyring=str(self.keyring))

    def options(self) -> list[str]:
        """Return the options of `stackproof mirror add-os-sources` that name this archive."""
        archive = self.known
        return ["--archive", archive.url, "--suite", archive.suite, "--keyring", archive.keyring]

    def add(self, name: str, version: str, tarball: bytes, *more: str) -> str:
        """Add a source package with this upstream tarball; return the tarball's SHA-256.

        `more` are further lines of its paragraph in the index.
        """
        upstream = version.rpartition("-")[0]
        place = f"pool/main/{name[0]}/{name}"
        files = {
            f"{name}_{upstream}.orig.tar.gz": tarball,
            f"{name}_{version}.dsc": f"Source: {name}\n".encode(),
        }
        (self.folder / place).mkdir(parents=True, exist_ok=True)
        lines = []
        for file, content in files.items():
            (self.folder / place / file).write_bytes(content)
            lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {file}")
        sums = "\n".join(lines)
        self._paragraphs.append(
            f"Package: {name}\nBinary: {name}\nVersion: {version}\nArchitecture: any\n"
            f"Format: 3.0 (quilt)\nDirectory: {place}\nFiles:\n"
            + "\n".join(
                f" {hashlib.md5(c, usedforsecurity=False).hexdigest()} {len(c)} {f}"
                for f, c in files.items()
            )
            + f"\nChecksums-Sha256:\n{sums}\n"
            + "".join(f"{line}\n" for line in more)
        )
        self.publish()
        return hashlib.sha256(tarball).hexdigest()

    def clear(self) -> None:
        """Forget every source package; the files stay."""
        self._paragraphs.clear()

    def publish(self, *, signed: bool = True) -> None:
        """Write the index and sign it."""
        dist = self.folder / "dists" / self.suite
        (dist / "main" / "source").mkdir(parents=True, exist_ok=True)
        index = "\n".join(self._paragraphs).encode()
        (dist / "main" / "source" / "Sources").write_bytes(index)
        release = (
            f"Origin: Test\nLabel: Test\nSuite: {self.suite}\nCodename: {self.suite}\n"
            "Date: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: all\nComponents: main\n"
            f"SHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} main/source/Sources\n"
        )
        (dist / "Release").write_text(release)
        signature = dist / "InRelease"
        signature.unlink(missing_ok=True)
        if signed:
            signature.write_bytes(self._gpg("--clearsign", "--output", "-", str(dist / "Release")))

    def _gpg(self, *words: str) -> bytes:
        """Run gpg with a home of its own and no agent that stays."""
        done = subprocess.run(
            ["gpg", "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback",
             "--passphrase", "", *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            check=True,
            timeout=600,
        )  # fmt: skip
        return done.stdout

    def close(self) -> None:
        """End gpg's agent."""
        subprocess.run(
            ["gpgconf", "--kill", "all"],
            env=self._environment,
            check=True,
            timeout=600,
        )


def tarball(*names: str) -> bytes:
    """Return a tarball, the same bytes for the same names, with these files in one folder."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in names:
            entry = tarfile.TarInfo(f"thing-1.0/{name}")
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name.encode()))
    return gzip.compress(stream.getvalue(), mtime=0)
