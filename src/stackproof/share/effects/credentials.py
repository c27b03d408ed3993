"""Who a user is at a registry: from a token file, docker's and containers' files, or their helpers.

    --token FILE, or a folder with a file TOKEN      (with --username, else the login name)
    $REGISTRY_AUTH_FILE, $XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json
    (without XDG_RUNTIME_DIR, as under sudo and in jobs, where podman and skopeo put it then)
    $DOCKER_CONFIG/config.json, ~/.docker/config.json

The first that knows the server counts; of its keys the longest that the repository begins with
(containers-auth.json(5)). A file is believed that is this user's own or root's, and that nobody
else may write to or put there: it names accounts, and programs that are started. A secret is never
an argument of a program, and no noun prints it.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import getpass
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stackproof.core import limits
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import outputs, run
from stackproof.core.effects.foreign import folder as folders
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share import answers

_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HELPER_TIMEOUT_S = 30.0
_TOKEN_USER = "<token>"  # noqa: S105 - by this name docker's helpers say that they give a token


class Credential(Value):
    """A name and its password, or a token that stands for both; printed without them."""

    username: str = ""
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        return "Credential(...)"

    @property
    def basic(self) -> str:
        """The header Authorization of the scheme Basic."""
        text = f"{self.username}:{self.password}"
        return f"Basic {base64.b64encode(text.encode()).decode()}"


def from_token(path: str, username: str = "") -> Credential:
    """Return the credential of a file with a token; raises NOT_PERMITTED, FILE_MISSING."""
    file = os.path.join(path, "TOKEN") if os.path.isdir(path) else path
    try:
        with open(file, "rb") as stream:
            token = stream.read(limits.LOGINS.bytes).decode().strip()
    except (OSError, UnicodeError) as error:
        raise fail(
            Reason.FILE_MISSING,
            f"no token can be read from `{file}`: {getattr(error, 'strerror', '') or 'not text'}",
            where=Location(file=file),
            hint="--token is a file with a token, or a folder with such a file TOKEN",
        ) from error
    return Credential(username=username or getpass.getuser(), password=token)


def find(
    host: str, repository: str, environment: Mapping[str, str] | None = None
) -> Credential | None:
    """Return the credential for a repository of a server; None where no file knows one.

    Raises `StackproofError`: YAML_SYNTAX for a file that is no JSON, TOOL_MISSING, LOGIN_NEEDED for
    a helper that fails.
    """
    env = os.environ if environment is None else environment
    for path in _files(env):
        data = _load(path)
        if data is None:
            continue
        found = _from_file(data, host, repository, path)
        if found is not None:
            return found
    return None


def _files(env: Mapping[str, str]) -> Iterator[Path]:
    home = Path(env.get("HOME") or "/")
    if env.get("REGISTRY_AUTH_FILE"):
        yield Path(env["REGISTRY_AUTH_FILE"])
    if env.get("XDG_RUNTIME_DIR"):
        yield Path(env["XDG_RUNTIME_DIR"], "containers/auth.json")
    else:
        yield from _without_runtime_folder(env)
    yield Path(env.get("XDG_CONFIG_HOME") or home / ".config", "containers/auth.json")
    yield Path(env.get("DOCKER_CONFIG") or home / ".docker", "config.json")


def _without_runtime_folder(env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files where podman and skopeo keep logins without XDG_RUNTIME_DIR, of this user.

    Below /tmp anybody may make a folder of that name.
    """
    user = os.geteuid()
    temporary = env.get("TMPDIR") or "/tmp"  # noqa: S108 - podman's; its owner is looked at
    for folder, name in (
        (f"/run/user/{user}", "containers/auth.json"),
        (f"{temporary}/podman-run-{user}", "containers/auth.json"),
        (f"/run/containers/{user}", "auth.json"),
    ):
        with contextlib.suppress(OSError):
            state = os.lstat(folder)
            if stat.S_ISDIR(state.st_mode) and state.st_uid == user:
                yield Path(folder, name)


def _load(path: Path) -> dict[str, Any] | None:
    """Return the content of a file of logins; None where there is none. Raises NOT_PERMITTED."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(descriptor, "rb") as stream:
            _check_own(path, os.fstat(descriptor))
            content = stream.read(limits.LOGINS.bytes)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            return None
        raise fail(
            Reason.NOT_PERMITTED,
            f"`{path}` cannot be read: {error.strerror}",
            where=Location(file=str(path)),
        ) from error
    try:
        return answers.parse_object(content)
    except ValueError:
        raise fail(
            Reason.YAML_SYNTAX,
            f"`{path}` is not JSON as docker and containers write it",
            where=Location(file=str(path)),
            hint="log in again: `podman login` or `docker login`",
        ) from None


def _check_own(path: Path, state: os.stat_result) -> None:
    """Check that nobody else made a file of logins, may write to it, or may put another there."""
    if not stat.S_ISREG(state.st_mode):
        raise _not_own(path, "is no file")
    if why := folders.fault(state):
        raise _not_own(path, why)
    for folder in (Path(folders.real_path(path)).parent, path.parent):
        around = folder.stat()
        if not outputs.keeps_names(around):
            raise _not_own(folder, folders.fault(around))


def _not_own(path: Path, why: str) -> StackproofError:
    return fail(
        Reason.NOT_PERMITTED,
        f"logins are not taken from `{path}`: it {why}",
        where=Location(file=str(path)),
        hint="`chmod go-w` where it is yours; else have HOME, XDG_RUNTIME_DIR, DOCKER_CONFIG and "
        "REGISTRY_AUTH_FILE name your own, or give --token FILE",
    )


def _from_file(
    data: Mapping[str, Any], host: str, repository: str, path: Path
) -> Credential | None:
    """Return the login in a file, in docker's order: a helper of the server, then entries."""
    names = _keys(host, repository)
    helpers = _mapping(data.get("credHelpers"))
    helper = next((helpers[name] for name in names if name in helpers), data.get("credsStore"))
    if isinstance(helper, str) and helper:
        found = _ask(helper, names[-1], path)
        if found is not None:
            return found
    entries = {_bare(name): entry for name, entry in _mapping(data.get("auths")).items()}
    for name in names:
        entry = entries.get(_bare(name))
        if isinstance(entry, dict) and (found := _entry(entry)) is not None:
            return found
    return None


def _keys(host: str, repository: str) -> list[str]:
    """Return the keys that may stand for a repository, the longest first; the last is the host."""
    parts = repository.split("/")
    below = [f"{host}/{'/'.join(parts[:count])}" for count in range(len(parts), 0, -1)]
    return [*below, host]


def _bare(name: str) -> str:
    """Return a key without what old versions of docker put around a host."""
    for before in ("https://", "http://"):
        name = name.removeprefix(before)
    return re.sub(r"/v[12]/?$", "", name).rstrip("/")


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _entry(entry: Mapping[str, Any]) -> Credential | None:
    token = entry.get("identitytoken")
    if isinstance(token, str) and token:
        return Credential(identity_token=token)
    text = entry.get("auth")
    if isinstance(text, str) and text:
        try:
            username, separator, password = base64.b64decode(text).decode().partition(":")
        except ValueError:
            return None
        return Credential(username=username, password=password.rstrip("\0")) if separator else None
    name, secret = entry.get("username"), entry.get("password")
    if isinstance(name, str) and isinstance(secret, str):
        return Credential(username=name, password=secret)
    return None


def _ask(helper: str, server: str, path: Path) -> Credential | None:
    """Return the login that a helper has for a server, read from its input; None for nothing."""
    program = f"docker-credential-{helper}"
    if not _HELPER.fullmatch(helper):
        raise fail(
            Reason.INVALID_VALUE,
            f"`{helper}` cannot be the name of a credential helper",
            where=Location(file=str(path)),
        )
    script = 'printf "%s" "$1" | "$0" get'
    command = Command(
        argv=("sh", "-c", script, program, server),
        env=EnvPatch(set=dict(os.environ)),  # helpers look for agents, buses and displays
        timeout_s=_HELPER_TIMEOUT_S,
        ok=tuple(range(256)),
    )
    done = run.run(command)
    if done.returncode == 127:
        raise fail(
            Reason.TOOL_MISSING,
            f"the credential helper `{program}` is not installed",
            where=Location(file=str(path)),
            hint="install it, or log in to this server with a file: `podman login --authfile`",
        )
    try:
        data = answers.parse_object(done.stdout) if done.returncode == 0 else {}
    except ValueError:
        data = {}
    username, secret = data.get("Username"), data.get("Secret")
    if not isinstance(username, str) or not isinstance(secret, str):
        if b"credentials not found" in done.stdout + done.stderr:
            return None
        raise fail(
            Reason.LOGIN_NEEDED,
            f"the credential helper `{program}` gave no name and secret",  # nor is its output shown
            where=Location(file=str(path)),
            hint=f"try it: `echo HOST | {program} get`",
        )
    if username == _TOKEN_USER:
        return Credential(identity_token=secret)
    return Credential(username=username, password=secret)
