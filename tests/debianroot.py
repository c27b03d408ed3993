"""A bare Debian as a root folder: its C library and a shell, or a program, by apt alone.

root = bare(tmp_path, "trixie")
program = bare(tmp_path, "trixie", "nginx") / "usr/sbin/nginx"
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PACKAGES = ("base-files", "libc6", "dash")
_TIMEOUT_S = 600


def mirror() -> str:
    """Return where this machine has Debian's packages from, empty for nowhere."""
    given = os.environ.get("STACKPROOF_DEBIAN_ARCHIVE", "")
    argv = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)"]
    done = subprocess.run(
        [*argv, "Created-By: Packages"], capture_output=True, text=True, timeout=600, check=True
    )
    ours = (line.split() for line in done.stdout.splitlines() if line.startswith("Debian Debian "))
    return given or next((words[2] for words in ours), "")


def bare(
    folder: Path, suite: str, *packages: str, architecture: str = "", whole: bool = False
) -> Path:
    """Return a root of a suite with packages (`_PACKAGES`), unpacked and not set up.

    With `whole` they come besides these, and all that they depend on; otherwise nothing of it is
    there. apt's state of this machine is left alone; without `architecture` the root is for it.
    """
    for name in ("state/lists/partial", "cache/archives/partial", "etc", "debs", "root"):
        (folder / name).mkdir(parents=True)
    line = f"deb [signed-by={KEYS}] {mirror()} {suite} main\n"
    (folder / "etc/sources.list").write_text(line)
    (folder / "state/status").touch()
    options = {
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "state/status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::SourceList": folder / "etc/sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
    }
    if architecture:
        options |= {"APT::Architecture": architecture, "APT::Architectures::": architecture}
    apt = [
        "apt-get",
        "-q",
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
    ]
    wanted = (*_PACKAGES, *packages) if whole else packages or _PACKAGES
    get = "install --no-install-recommends -y --download-only" if whole else "download"
    for words in (("update", "--error-on=any"), (*get.split(), *wanted)):
        subprocess.run(
            [*apt, *words], cwd=folder / "debs", check=True, capture_output=True, timeout=_TIMEOUT_S
        )
    for package in sorted(folder.glob("cache/archives/*.deb" if whole else "debs/*")):
        subprocess.run(["dpkg-deb", "-x", package, folder / "root"], check=True, timeout=600)
    return folder / "root"
