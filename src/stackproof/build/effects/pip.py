"""Calls of pip as this machine and its user have them: the interpreter, and where the index is."""

from __future__ import annotations

import os
import sys

from stackproof.build.plan import PYTHON
from stackproof.core.command import Command, EnvPatch
from stackproof.core.value import replace

# How pip finds the index: the user's settings for it, and nothing else of his environment.
_INDEX_VARIABLES = (
    *(f"PIP_{name}" for name in ("INDEX_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST", "FIND_LINKS",
                                 "NO_INDEX", "CERT", "CLIENT_CERT", "PROXY", "CONFIG_FILE",
                                 "CACHE_DIR", "KEYRING_PROVIDER")),
    *(f"{name}_proxy" for name in ("http", "https", "all", "no")),
    *(f"{name}_PROXY" for name in ("HTTP", "HTTPS", "ALL", "NO")),
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
)  # fmt: skip


def with_python(command: Command) -> Command:
    """Return a command with the interpreter that runs this in the place of `plan.PYTHON`."""
    python = sys.executable
    values = {key: python if value == PYTHON else value for key, value in command.env.set.items()}
    return replace(
        command,
        argv=tuple(python if word == PYTHON else word for word in command.argv),
        env=replace(command.env, set=values),
    )


def index_command(command: Command) -> Command:
    """Return a command that talks to the package index as the user has set it.

    A module of the working folder, which may be anybody's, does not stand for pip.
    """
    own = {name: os.environ[name] for name in _INDEX_VARIABLES if name in os.environ}
    given = {"PYTHONSAFEPATH": "1", **own}
    return replace(with_python(command), env=command.env.then(EnvPatch(set=given)))
