"""What an arm can be: an image, or an MPI that a machine has by another way.

A kind says how an arm is written, in a specification and in short on the command line. How it is
made ready is in `bench/effects/kinds`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import field

from stackproof.core.value import Value

COMMON = frozenset({"name", "transports", "placements", "env", "rate", "pmi", "launcher"})
"""Keys of every arm."""

HERE = "local"
"""The site of `vendor` that is this machine, as it is found."""

OWN, INJECTED = "none", "host_injections"
"""What `inject` of EESSI may be besides a folder: its own MPI, or what the site put under it."""


def absolute(path: str, folder: str) -> str:
    """Return a path, relative to a folder, as an absolute one."""
    return path if os.path.isabs(path) else os.path.normpath(os.path.join(folder, path))


class ArmKind(Value):
    """A kind of arm: `name` is the key that says what it is, and the word before `:` in short.

    `title` has its article. `keys` are the other keys that it may have, besides those of every arm.
    `paths` make the values of keys absolute, relative to the specification's folder. `short` turns
    the text after `NAME:` into the entry of a specification.
    """

    name: str
    title: str
    keys: frozenset[str] = frozenset()
    paths: Mapping[str, Callable[[Any, str], Any]] = field(default_factory=dict)
    short: Callable[[str], dict[str, Any]]

    def fields(self, entry: Mapping[str, Any], folder: str) -> dict[str, Any]:
        """Return the fields of `spec.Arm` that an entry sets."""
        given = {}
        for key in (self.name, *self.keys):
            if key in entry:
                value = entry[key]
                value = self.paths[key](value, folder) if key in self.paths else value
                given[key.replace("-", "_")] = tuple(value) if isinstance(value, list) else value
        return given


def _container_path(reference: str, folder: str) -> str:
    """Return a reference with the path of a file, or of an OCI layout or archive, made absolute."""
    scheme, colon, path = reference.partition(":")
    if path.startswith(("./", "../")):
        return scheme + colon + absolute(path, folder)
    return absolute(reference, folder) if reference.startswith(("./", "../")) else reference


def _site_path(site: str, folder: str) -> str:
    is_file = "/" in site or site.endswith((".yaml", ".yml", ".json"))
    return absolute(site, folder) if is_file else site


def _injected_path(word: str, folder: str) -> str:
    return word if word in {OWN, INJECTED} else absolute(word, folder)


def _module_names(names: str | list[str], _folder: str) -> list[str]:
    """Return the names; one may stand without a list."""
    return [names] if isinstance(names, str) else names


def _module_paths(folders: list[str], folder: str) -> list[str]:
    return [absolute(path, folder) for path in folders]


def _short_container(text: str) -> dict[str, Any]:
    """Return the entry for REFERENCE, or REFERENCE@HOST-MPI with the path of an MPI."""
    name, mark, host = text.rpartition("@/")
    return {"container": name, "host-mpi": f"/{host}"} if mark else {"container": text}


def _short_eessi(text: str) -> dict[str, Any]:
    """Return the entry for VERSION[,MODULE…][@none|@host_injections|@/DIR]."""
    words, mark, last = text.rpartition("@")
    inject = last if mark and (last in {OWN, INJECTED} or last.startswith("/")) else ""
    version, *names = (words if inject else text).split(",")
    entry = {"eessi": version, "load": [name for name in names if name]}
    return {**entry, **({"inject": inject} if inject else {})}


_KINDS = (
    ArmKind(
        name="image",  # IMAGE[:MOUNT], or a folder with its tree
        title="an image",
        keys=frozenset({"view", "program-image", "inject", "accept-unknown"}),
        paths=dict.fromkeys(("image", "program-image", "inject"), absolute),
        short=lambda text: {"image": text},
    ),
    ArmKind(
        name="pack",  # a folder that `stackproof pack` made
        title="a pack",
        paths={"pack": absolute},
        short=lambda text: {"pack": text},
    ),
    ArmKind(
        name="prefix",  # a folder, or a compiler wrapper where a folder holds several MPIs
        title="an installed MPI",
        paths={"prefix": absolute},
        short=lambda text: {"prefix": text},
    ),
    ArmKind(
        name="module",  # names, loaded in their order in a clean login shell
        title="a module",
        keys=frozenset({"module-use"}),
        paths={"module": _module_names, "module-use": _module_paths},
        short=lambda text: {"module": [name for name in text.split(",") if name]},
    ),
    ArmKind(
        name="vendor",  # a site's name or file, which says which MPI its vendor installed
        title="the vendor's MPI",
        paths={"vendor": _site_path},
        short=lambda text: {"vendor": text or HERE},
    ),
    ArmKind(
        name="container",  # a reference, as its runtime takes it
        title="a container",
        keys=frozenset({"runtime", "bind", "host-mpi", "options", "accept-unknown",
                        "artefact", "hook", "archive"}),
        paths={
            "container": _container_path,
            **dict.fromkeys(("host-mpi", "artefact", "hook", "archive"), absolute),
        },
        short=_short_container,
    ),
    ArmKind(
        name="eessi",  # a version, with modules to load that bring an MPI
        title="an MPI of EESSI",
        keys=frozenset({"load", "repository", "inject", "host-mpi", "accept-unknown"}),
        paths={"repository": absolute, "host-mpi": absolute, "inject": _injected_path},
        short=_short_eessi,
    ),
)  # fmt: skip

REGISTRY: Mapping[str, ArmKind] = {kind.name: kind for kind in _KINDS}


def kinds_of(entry: Mapping[str, Any]) -> tuple[ArmKind, ...]:
    """Return the kinds that an entry says it is: one, when it is right."""
    return tuple(kind for name, kind in REGISTRY.items() if name in entry)


def strangers(kind: ArmKind, entry: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the keys of an entry that its kind does not have, and the titles of those that do."""
    others = entry.keys() - COMMON - kind.keys - {kind.name} - REGISTRY.keys()
    return tuple(
        (key, tuple(one.title for one in REGISTRY.values() if key in one.keys))
        for key in entry
        if key in others
    )


def split_short(text: str) -> tuple[ArmKind, str] | None:
    """Return the kind that a word of the command line names before `:`, and the rest.

    `vendor` needs no rest.
    """
    name, mark, rest = text.partition(":")
    known = name in REGISTRY and (mark or name == "vendor")
    return (REGISTRY[name], rest) if known else None
