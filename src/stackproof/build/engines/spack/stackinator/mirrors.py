"""`mirrors.yaml` and the older `cache.yaml`: the caches and mirrors of whoever builds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import field

from stackproof.build.engines.spack.stack import Caches, Mirror
from stackproof.build.engines.spack.stackinator.findings import (
    DocumentPart,
    FindingsList,
    KeyPath,
    mapping,
)
from stackproof.core.document import KEY, Document
from stackproof.core.errors import Reason
from stackproof.core.value import Value

# Spack's own keys of how a mirror is reached.
_CONNECTION = ("url", "view", "profile", "endpoint_url", "access_token_variable", "access_pair")
_FLAGS = ("signed", "autopush")
_WAYS = ("fetch", "push")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_REMOTE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://[^/]", re.ASCII)
BUILD_CACHE = "buildcache"


class Mirrors(Value):
    """What a document says; keys and folders are still to be looked at on the machine.

    `named` are those by the path of where the document names them: GPG keys, as a path or in
    base64, and folders that must be there (`root`, `url`).
    """

    caches: Caches
    named: Mapping[KeyPath, str] = field(default_factory=dict)


def read_mirrors(
    document: Document, mount: str, environment: Mapping[str, str], findings: FindingsList
) -> Mirrors | None:
    """Return what a mirrors.yaml or a cache.yaml says; None when it is not valid.

    `mount` is the recipe's mount point, `environment` has the variables that paths may name.
    """
    if document.data is None:
        return Mirrors(caches=Caches())
    old = "root" in mapping(document.data)
    if not findings.check(document, "stackinator-cache" if old else "stackinator-mirrors"):
        return None
    reader = _Reader(DocumentPart(document, findings), mount, environment)
    return reader.read_old(document.data) if old else reader.read(document.data)


class _Reader(NamedTuple):
    entry: DocumentPart
    mount: str
    environment: Mapping[str, str]

    def read_old(self, data: Mapping[str, Any]) -> Mirrors:
        """Return the build cache of a cache.yaml; every mount point has its own folder in it."""
        named: dict[KeyPath, str] = {("root",): self._absolute(data["root"], "root")}
        if data.get("key"):
            named["key",] = self._absolute(data["key"], "key")
        self.entry.note(
            (), "cache.yaml is the old form: `buildcache:` in a mirrors.yaml does the same and more"
        )
        cache = self._build_cache({"url": f"file://{named['root',]}", "mount_specific": True})
        return Mirrors(caches=Caches(mirrors=(cache,)), named=named)

    def read(self, data: Mapping[str, Any]) -> Mirrors:
        """Return what a mirrors.yaml says."""
        mirrors: list[Mirror] = []
        named: dict[KeyPath, str] = {}
        build = data.get("buildcache")
        if build is not None and self._reachable(build, "buildcache"):
            mirrors.append(self._build_cache(build))
        for name, body in mapping(data.get("sourcemirror")).items():
            if self._reachable(body, "sourcemirror", name):
                settings = self._settings(body, source=True, binary=False)
                mirrors.append(Mirror(name=name, kind="source", settings=settings))
        if (bootstrap := data.get("bootstrap")) is not None:
            url = self._expanded(bootstrap["url"], "bootstrap", "url")
            if not _REMOTE.match(url):
                url = named["bootstrap", "url"] = url.removeprefix("file://")
            mirrors.append(Mirror(name="bootstrap", kind="bootstrap", settings={"url": url}))
        for key in ("private_key", "public_key"):
            if (text := mapping(build).get(key)) is not None:
                named["buildcache", key] = _replaced(text, self.environment)[0]
        folders = {
            key: self._absolute(data[key]["path"], key, "path") if data.get(key) else None
            for key in ("sourcecache", "concretizer")
        }
        caches = Caches(
            mirrors=tuple(mirrors),
            source_cache=folders["sourcecache"],
            concretizer_cache=folders["concretizer"],
        )
        return Mirrors(caches=caches, named=named)

    def _build_cache(self, body: Mapping[str, Any]) -> Mirror:
        """Return the build cache, in its own folder for the mount point where it says so."""
        settings = self._settings(body, source=False, binary=True)
        if body.get("mount_specific", False):
            for way in _WAYS:
                if way in settings:
                    url = settings[way]["url"].rstrip("/")
                    settings[way] = {**settings[way], "url": f"{url}{self.mount}"}
        return Mirror(name=body.get("name", BUILD_CACHE), kind="buildcache", settings=settings)

    def _reachable(self, body: Mapping[str, Any], *at: str) -> bool:
        """Return whether a mirror says where it is, in one way or another."""
        if any(key in body for key in ("url", *_WAYS)):
            return True
        hint = "give it `url`, or `fetch` and `push`"
        message = "the mirror does not say where it is"
        self.entry.problem((*at, KEY), message, hint, Reason.MISSING_KEY)
        return False

    def _settings(self, body: Mapping[str, Any], *, source: bool, binary: bool) -> dict[str, Any]:
        """Return Spack's own settings of a mirror."""
        settings: dict[str, Any] = {
            "source": body.get("source", source),
            "binary": body.get("binary", binary),
        }
        for way in _WAYS:
            connection = self._connection(body, way)
            if connection:
                settings[way] = connection
        return settings | {flag: body[flag] for flag in _FLAGS if flag in body}

    def _connection(self, body: Mapping[str, Any], way: str) -> dict[str, Any]:
        """Return how a mirror is reached: by its `fetch` or `push`, else by its own keys."""
        own = body.get(way)
        if isinstance(own, str):
            own = {"url": own}
        if own is None:
            own = {key: body[key] for key in _CONNECTION if body.get(key) is not None}
        if "url" not in own:
            return {}
        return {**own, "url": _replaced(own["url"], self.environment)[0]}

    def _expanded(self, text: str, *at: str) -> str:
        """Return a text with environment variables replaced; an unset one is a problem."""
        result, unset = _replaced(text, self.environment)
        for name in unset:
            message = f"the environment variable `{name}` is not set"
            self.entry.problem(at, message, "set it, or write the path itself")
        return result

    def _absolute(self, text: str, *at: str) -> str:
        """Return an absolute path; another one is a problem."""
        path = self._expanded(text, *at)
        if not path.startswith("/") and "$" not in path:
            hint = "begin it with `/`; variables such as $SCRATCH are replaced"
            self.entry.problem(at, f"`{path}` is not an absolute path", hint)
        return path


def _replaced(text: str, environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a text with variables replaced, and the names that are not set."""
    unset: list[str] = []

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in environment:
            unset.append(name)
        return environment.get(name, found[0])

    return _VARIABLE.sub(value, text), unset
