"""What a build step sees of this machine: its system, its Python, and the programs of ours."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from stackproof.build.plan import TOOLS, TREE_DIGEST
from stackproof.core.command import Bind
from stackproof.image.effects import tree_digest

# What a build may see of the host: compilers, their headers and libraries, and nothing else.
_HOST_FOLDERS = (
    "/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/os-release", "/etc/debian_version",
    "/etc/perl",
)  # fmt: skip
_MERGED_FOLDERS = ("/bin", "/sbin", "/lib", "/lib64")
# What a step with the network needs besides: names of hosts, and whom to trust. Not all of /etc/ssl
# and /etc/pki, where the machine's private keys are.
_NETWORK_FILES = (
    "/etc/resolv.conf", "/etc/hosts", "/etc/services", "/etc/protocols", "/etc/gai.conf",
    "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf",
    "/etc/pki/ca-trust", "/etc/pki/trust", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/openssl.cnf", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/gitconfig",
)  # fmt: skip


def system(*, network: bool) -> tuple[list[Bind], dict[str, str]]:
    """Return the binds and links of the host's system, and of the interpreter that runs this."""
    paths = [*_HOST_FOLDERS, *(_NETWORK_FILES if network else ())]
    links = {}
    for path in _MERGED_FOLDERS:
        if os.path.islink(path):
            links[path] = os.readlink(path)
        else:
            paths.append(path)
    binds = [Bind(source=path, target=path) for path in paths if os.path.exists(path)]
    return binds + _python_binds(), links


def network_files() -> list[str]:
    """Return the files of this machine that a command with the network needs to see."""
    return [path for path in _NETWORK_FILES if os.path.exists(path)]


def _python_binds() -> list[Bind]:
    """Return the binds that make `sys.executable` run: its own tree and its virtual environment."""
    real = os.path.realpath(sys.executable)
    roots = {sys.base_prefix, os.path.dirname(os.path.dirname(real)), sys.prefix}
    libraries = sysconfig.get_config_var("LIBDIR")
    # It is where Python was compiled to be; one that was moved has its libraries elsewhere.
    if libraries and os.path.isdir(libraries):
        roots.add(str(libraries))
    outer = sorted(root for root in roots if not root.startswith("/usr/") and root != "/usr")
    return [Bind(source=root, target=root) for root in outer]


def programs() -> dict[str, Path]:
    """Return the programs of engines that run inside the sandbox, by the names they have there.

    These names are part of what steps are: `worker.py` of an engine is `ENGINE_worker.py`.
    """
    engines = Path(__file__).parents[1] / "engines"
    names = ("worker", "hooks", "together")
    every = [path for name in names for path in engines.glob(f"*/effects/{name}.py")]
    workers = {f"{path.parents[1].name}_{path.name}": path for path in sorted(every)}
    return {**workers, TREE_DIGEST: Path(tree_digest.__file__)}


def tools() -> list[Bind]:
    """Return the binds of the programs of ours that run inside the sandbox."""
    import installer  # noqa: PLC0415 - only where wheels are installed

    package = Path(installer.__file__).parent
    return [
        Bind(source=str(package), target=f"{TOOLS}/installer"),
        *(Bind(source=str(path), target=f"{TOOLS}/{name}") for name, path in programs().items()),
    ]
