"""A site that asks for signatures: its folder, a repository with images, and who signs them.

    place = trustsite.made(tmp_path, monkeypatch)      # this process believes that the site is here
    place.sign(); place.say("image = * refuse me@site\\n"); place.admitted()
    place.verb("run", "--bare", FULL, "--", "true")    # another process, in a namespace where it is

What a page says as a policy is in `example_policies`, and who tries to pass by it in `ATTACKS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from images import env_json, make_image
from need import need, private_namespaces
from signers import Signer
from stackproof.core.effects.libc import MountFailure
from stackproof.core.errors import Reason
from stackproof.share.effects import signing, storing, trusted
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.effects.storing import AddOptions
from stackproof.share.labels import LabelRecord, parse
from stackproof.share.trust import policy
from stackproof.share.trust.policy import SignedLabel

FULL = "tiny/1:v1@here%x86_64"
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "trust-images.md"
NOW = 1_700_000_000
RELEASE, CI, KNOWN = "release@example.org", "ci@example.org", "somebody@example.org"
_ASKED = "prgenv-gnu/24.11:v9@daint%gh200"
_BUILT = "build::mpich/5.0.2:v1@daint%zen2"
ATTACKS: dict[str, tuple[str, tuple[SignedLabel, ...]]] = {
    "a tag that was moved": (
        _ASKED, (SignedLabel(label="linalg/1:v1@daint%gh200", signer=RELEASE),),
    ),
    "an older image": (
        _ASKED, (SignedLabel(label="prgenv-gnu/24.11:v8@daint%gh200", signer=RELEASE),),
    ),
    "of another system": (
        _ASKED, (SignedLabel(label="prgenv-gnu/24.11:v9@todi%gh200", signer=RELEASE),),
    ),
    "signed for the namespace of the pipeline": (
        _ASKED, (SignedLabel(label="build::zzz/1:v1@daint%gh200", signer=CI),),
    ),
    "the same label for the namespace of the pipeline": (
        _ASKED, (SignedLabel(label=f"build::{_ASKED}", signer=CI),),
    ),
    "one of two is for the label": (
        _ASKED, (
            SignedLabel(label="linalg/1:v1@daint%gh200", signer=RELEASE),
            SignedLabel(label=_ASKED, signer=CI),
        ),
    ),
    "a stranger": (_ASKED, ()),
    "a stranger's build": (_BUILT, ()),
    "somebody with a key": (_ASKED, (SignedLabel(label=_ASKED, signer=KNOWN),)),
    "somebody with a key, as a build": (
        _ASKED, (SignedLabel(label="build::zzz/1:v1@daint%gh200", signer=KNOWN),),
    ),
    "somebody with a key, of a build": (_BUILT, (SignedLabel(label=_BUILT, signer=KNOWN),)),
    "a build that is signed for no namespace": (
        _BUILT, (SignedLabel(label=_BUILT.removeprefix("build::"), signer=CI),),
    ),
    "a build by its file": ("", (SignedLabel(label=_BUILT, signer=KNOWN),)),
    "a key that has ended": (_ASKED, (SignedLabel(label=_ASKED, signer=RELEASE, until=NOW),)),
    "a certificate that has ended": (
        _BUILT, (SignedLabel(label=_BUILT, signer=CI, until=NOW - 1),),
    ),
}  # fmt: skip
"""What somebody tries at a site that follows the page: what is asked for, and the signatures."""
_AT_SITE = """
set -e
mkdir "$0/copied"
cp /etc/passwd /etc/group /etc/nsswitch.conf "$0/copied"
mount -t tmpfs -o mode=755 etc /etc
cp "$0"/copied/* /etc
rm -r "$0/copied"
cp -r "$0/etc" /etc/stackproof
exec "$@"
"""


def example_policies() -> list[str]:
    """Return the policies that the page shows."""
    found: list[list[str]] = [[]]
    for line in PAGE.read_text().splitlines():
        if line.startswith("    image = "):
            found[-1].append(line.strip())
        elif found[-1]:
            found.append([])
    return ["".join(f"{line}\n" for line in one) for one in found if one]


class Place:
    """A repository with an image, signers, and a site's folder that this process believes in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "etc"
        self.site.mkdir(mode=0o755)
        self.repository = ImageRepository(folder / "repo")
        self.record = self.add(FULL, "a")
        self.signer = Signer(folder, "me@site", self.site / "allowed_signers")

    def add(self, label: str, content: str) -> LabelRecord:
        file = self.folder / f"{content}.squashfs"
        if not file.exists():  # made again in another second it is another image
            make_image(file, meta=env_json(name=content))
        return storing.add(self.repository, AddOptions(label=parse(label), file=str(file)))

    @property
    def image(self) -> str:
        return self.record.file

    def sign(self, image: str = "", label: str = FULL, signer: Signer | None = None) -> Path:
        path = image or self.image
        return signing.sign(path, signing.state(path, label), (signer or self.signer).key)

    def reasons(self, image: str = "") -> list[Reason]:
        """Return the reasons against the signatures of an image; nothing where one holds."""
        found = signing.verify(image or self.image, trusted.signers())
        return [] if found.good else [one.reason for one in found.problems]

    def say(self, text: str) -> None:
        path = self.site / "trust.conf"
        path.write_text(text)
        path.chmod(0o644)

    def admitted(self, image: str = "") -> str:
        """Return `yes`, the warning's text, or the reason why an image may not be mounted."""
        path, warnings = image or self.image, []
        descriptor = os.open(path, os.O_RDONLY)
        try:
            trusted.admit(path, descriptor, warnings.append)
        except MountFailure as failure:
            return failure.reason
        finally:
            os.close(descriptor)
        return warnings[0] if warnings else "yes"

    def verb(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a verb in another process, which has the site's folder as its /etc/stackproof."""
        argv = [*private_namespaces(), "sh", "-c", _AT_SITE, str(self.folder),
                sys.executable, "-m", "stackproof", *words]  # fmt: skip
        return subprocess.run(
            argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=600
        )


def made(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """Return a site in a folder, which this process takes for that of the machine."""
    need("mksquashfs", "ssh-keygen")
    patch.setattr(policy, "FOLDER", str(folder / "etc"))
    patch.setattr(trusted, "_of_root", lambda user: user == os.geteuid())
    patch.setenv("STACKPROOF_CACHE", str(folder / "cache"))
    patch.setenv("STACKPROOF_REPOSITORY", str(folder / "repo"))
    return Place(folder)
