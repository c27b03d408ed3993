"""Look what this machine offers for mounting, by trying it."""

from __future__ import annotations

import os

from stackproof.core.command import Command
from stackproof.core.effects.run import run
from stackproof.core.errors import StackproofError
from stackproof.mount.effects import helper as mount_helper
from stackproof.mount.effects import methods
from stackproof.mount.methods import MountFacts

_TIMEOUT_S = 10.0


def load_mount_facts() -> MountFacts:
    """Return the rights of this process's user; nothing is changed."""
    helper = mount_helper.find(os.environ)
    return MountFacts(
        kernel_mounts=methods.kernel_permitted(),
        mounts=methods.may_mount(),
        user_namespaces=_succeeds("unshare", "--user", "--map-current-user", "--mount", "true"),
        fuse=_opens("/dev/fuse"),
        squashfuse=methods.find_squashfuse(os.environ.get("PATH", "")),
        helper=helper,
        helper_mounts=helper is not None and mount_helper.has_rights(helper),
    )


def _succeeds(*argv: str) -> bool:
    try:
        return run(Command(argv=argv, timeout_s=_TIMEOUT_S)).returncode == 0
    except StackproofError:  # there is no unshare(1)
        return False


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True
