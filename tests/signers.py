"""Keys of ssh for tests, and the file that says whose they are.

signer = Signer(tmp_path, "me@site", tmp_path / "allowed_signers")
signer.key, signer.public
signer.allow("you@site", other.public, 'valid-before="20200101"')
"""

from __future__ import annotations

import subprocess
from pathlib import Path


class Signer:
    """A key without a passphrase, which `allowed` says is of `name`."""

    def __init__(self, folder: Path, name: str, allowed: Path) -> None:
        self.allowed = allowed
        self.key = str(folder / f"key-{name.partition('@')[0]}")
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", self.key]
        subprocess.run(argv, check=True)
        self.public = " ".join(Path(f"{self.key}.pub").read_text().split()[:2])
        allowed.touch(mode=0o644)
        self.allow(name, self.public)

    def allow(self, name: str, public: str, options: str = "") -> None:
        """Say whose a key is, in the place of what was said of that name."""
        lines = self.allowed.read_text().splitlines()
        kept = [line for line in lines if not line.startswith(f"{name} ")]
        new = " ".join(filter(None, (name, options or 'namespaces="stackproof-image"', public)))
        self.allowed.write_text("".join(f"{line}\n" for line in (*kept, new)))
