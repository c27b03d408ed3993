"""`mirrors.yaml` and the older `cache.yaml`: the caches and mirrors of whoever builds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack.stack import Caches, Mirror
from stackproof.build.engines.spack.stackinator.findings import FindingsList, mapping
from stackproof.core.document import Document
from stackproof.core.errors import Location, Reason
from stackproof.core.value import Value

# Spack's own keys of how a mirror is reached.
_CONNECTION = ("url", "view", "profile", "endpoint_url", "access_token_variable", "access_pair")
_FLAGS = ("signed", "autopush")
_WAYS = ("fetch", "push")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_REMOTE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://[^/]", re.ASCII)
BUILD_CACHE = "buildcache"


class Key(Value):
    """A GPG key as a document names it: a path or base64, and where it says so."""

    text: str
    where: Location


class LocalFolder(Value):
    """A folder that must be there, what for, and where the document names it."""

    path: str
    what: str
    where: Location


class Mirrors(Value):
    """What a document says; the keys and folders are still to be looked at on the machine."""

    caches: Caches
    private_key: Key | None = None
    public_key: Key | None = None
    folders: tuple[LocalFolder, ...] = ()


def read_mirrors(
    document: Document, mount: str, environment: Mapping[str, str], findings: FindingsList
) -> Mirrors | None:
    """Return what a mirrors.yaml or a cache.yaml says; None when it is not valid.

    `mount` is the recipe's mount point, `environment` has the variables that paths may name.
    """
    data = mapping(document.data)
    if "root" in data:
        return _old(document, mount, environment, findings)
    if document.data is None:
        return Mirrors(caches=Caches())
    if not findings.check(document, "stackinator-mirrors"):
        return None
    return _Reader(document, mount, environment, findings).read()


def _old(
    document: Document, mount: str, environment: Mapping[str, str], findings: FindingsList
) -> Mirrors | None:
    """Return the build cache of a cache.yaml; every mount point has its own folder in it."""
    if not findings.check(document, "stackinator-cache"):
        return None
    reader = _Reader(document, mount, environment, findings)
    root = reader.absolute(document.data["root"], "root")
    entry = {"url": f"file://{root}", "mount_specific": True}
    key = document.data.get("key")
    findings.note(
        "cache.yaml is the old form: `buildcache:` in a mirrors.yaml does the same and more",
        where=document.where(),
    )
    return Mirrors(
        caches=Caches(mirrors=(reader.build_cache(entry),)),
        private_key=Key(text=reader.absolute(key, "key"), where=document.where("key"))
        if key
        else None,
        folders=(LocalFolder(path=root, what="build cache", where=document.where("root")),),
    )


class _Reader:
    def __init__(
        self,
        document: Document,
        mount: str,
        environment: Mapping[str, str],
        findings: FindingsList,
    ) -> None:
        self.document = document
        self.data: dict[str, Any] = document.data
        self.mount = mount
        self.environment = environment
        self.findings = findings

    def read(self) -> Mirrors:
        """Return what a mirrors.yaml says."""
        mirrors: list[Mirror] = []
        folders: list[LocalFolder] = []
        build = self.data.get("buildcache")
        if build is not None and self._reachable(build, "buildcache"):
            mirrors.append(self.build_cache(build))
        for name, body in mapping(self.data.get("sourcemirror")).items():
            if self._reachable(body, "sourcemirror", name):
                settings = self._settings(body, source=True, binary=False)
                mirrors.append(Mirror(name=name, kind="source", settings=settings))
        bootstrap = self.data.get("bootstrap")
        if bootstrap is not None:
            url = self._expanded(bootstrap["url"], "bootstrap", "url")
            if not _REMOTE.match(url):
                url = url.removeprefix("file://")
                where = self.document.where("bootstrap", "url")
                folders.append(LocalFolder(path=url, what="bootstrap mirror", where=where))
            mirrors.append(Mirror(name="bootstrap", kind="bootstrap", settings={"url": url}))
        build = mapping(build)
        return Mirrors(
            caches=Caches(
                mirrors=tuple(mirrors),
                autopush=build.get("autopush", False),
                source_cache=self._local("sourcecache"),
                concretizer_cache=self._local("concretizer"),
            ),
            private_key=self._key(build, "private_key"),
            public_key=self._key(build, "public_key"),
            folders=tuple(folders),
        )

    def build_cache(self, body: Mapping[str, Any]) -> Mirror:
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
        self.findings.problem(
            Reason.MISSING_KEY,
            "the mirror does not say where it is",
            where=self.document.where_key(*at),
            hint="give it `url`, or `fetch` and `push`",
        )
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

    def _key(self, body: Mapping[str, Any], name: str) -> Key | None:
        text = body.get(name)
        if text is None:
            return None
        text = _replaced(text, self.environment)[0]
        return Key(text=text, where=self.document.where("buildcache", name))

    def _local(self, key: str) -> str | None:
        """Return the folder of a cache on this machine."""
        body = self.data.get(key)
        return self.absolute(body["path"], key, "path") if body else None

    def _expanded(self, text: str, *at: str) -> str:
        """Return a text with environment variables replaced; an unset one is a problem."""
        result, unset = _replaced(text, self.environment)
        for name in unset:
            self.findings.problem(
                Reason.INVALID_VALUE,
                f"the environment variable `{name}` is not set",
                where=self.document.where(*at),
                hint="set it, or write the path itself",
            )
        return result

    def absolute(self, text: str, *at: str) -> str:
        """Return an absolute path; another one is a problem."""
        path = self._expanded(text, *at)
        if not path.startswith("/") and "$" not in path:
            self.findings.problem(
                Reason.INVALID_VALUE,
                f"`{path}` is not an absolute path",
                where=self.document.where(*at),
                hint="begin it with `/`; variables such as $SCRATCH are replaced",
            )
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
