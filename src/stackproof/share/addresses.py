"""Where an image is in a registry: addresses and `NS::LABEL`, to repositories and tags, and back.

    address    = [ "http://" | "https://" ], host, [ ":", port ], { "/", part } ;
    remote     = [ namespace, "::" ], label ;

An image is `ADDRESS/NAMESPACE/SYSTEM/UARCH/NAME/VERSION:TAG`, as uenv has it (src/uenv/oras.cpp).
Registries take no capital letters but in tags, and dots, dashes and underscores between others
alone (distribution specification 1.1, "Pulling manifests"), so not every label can be pushed.
"""

from __future__ import annotations

import re

from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.share import labels, origins
from stackproof.share.labels import Label, RemoteLabel

DEFAULT_NAMESPACE = "deploy"
"""Where images are looked for when nothing else is said, as uenv does."""
INDEX_NAME = "index"
"""The repository below a namespace that lists its images."""
FORMER = ".until-"
"""Between a tag and until when it was that of an image: `v1.until-20261123T070815042Z`."""
_PART = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_HOST = re.compile(
    r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::[0-9]{1,5})?"
)
_PATH_PARTS = 5


class RegistryAddress(Value):
    """A server, and the path below which its images are: `host` has the port where one is said."""

    scheme: str
    host: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}" + (f"/{self.prefix}" if self.prefix else "")

    def repository(self, *parts: str) -> str:
        """Return a repository of this address, by its further parts."""
        return "/".join(part for part in (self.prefix, *parts) if part)


def parse_address(text: str) -> RegistryAddress:
    """Return the parts of an address; raises `StackproofError` (USAGE).

    Without a scheme it is https, and http for a server on this machine.
    """
    before, separator, rest = text.partition("://")
    scheme, rest = (before, rest) if separator else ("", before)
    host, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    bad = prefix and not all(_PART.fullmatch(part) for part in prefix.split("/"))
    if scheme not in {"", "http", "https"} or not _HOST.fullmatch(host) or bad:
        shown = text.rpartition("@")[2] if "@" in text else text  # never a password
        raise fail(
            Reason.USAGE,
            f"`{shown[:200]}` is no address of a registry",
            hint="such as registry.example.org/images, or http://127.0.0.1:5000; names and "
            "passwords are taken from the files of docker and podman, never from an address",
        )
    try:
        origin = origins.parse(f"http://{host}").origin
    except StackproofError as error:
        raise fail(Reason.USAGE, error.problems[0].message) from error
    if not scheme:
        scheme = "http" if origin.is_this_machine else "https"
    return RegistryAddress(scheme=scheme, host=host.lower(), prefix=prefix)


def parse_remote(text: str, *, namespace: str = DEFAULT_NAMESPACE) -> RemoteLabel:
    """Return the label in `[NS::]LABEL`; raises `StackproofError` (USAGE) as `labels.parse`."""
    before, separator, rest = text.partition("::")
    space = before if separator else namespace
    if not _PART.fullmatch(space):
        raise fail(
            Reason.USAGE,
            f"`{space[:200]}` is no namespace",
            hint="small letters and digits, with dots, dashes and underscores between: deploy",
        )
    word = rest if separator else text
    label = labels.parse(word) if word else Label()
    return RemoteLabel(namespace=space, label=label)


def check_whole(remote: RemoteLabel) -> None:
    """Check that a label can be one in a registry; raises `StackproofError` (USAGE)."""
    if remote.label.missing:
        raise fail(
            Reason.USAGE,
            f"the label `{remote.label}` lacks: {', '.join(remote.label.missing)}",
            hint=f"such as {remote.namespace}::mpich/5.0.2:v1@daint%zen2: "
            "name/version:tag@system%uarch",
        )
    wrong = [part for part in remote.path if not _PART.fullmatch(part)]
    if not _TAG.fullmatch(remote.label.tag) or FORMER in remote.label.tag:
        wrong.append(remote.label.tag)
    if wrong:
        raise fail(
            Reason.USAGE,
            f"`{remote.label}` cannot be a label in a registry because of `{wrong[0]}`",
            hint="registries take small letters and digits, with dots, dashes and underscores "
            f"between; capitals in tags alone, and no tag with `{FORMER}`",
        )


def remote_of(repository: str, tag: str, *, prefix: str = "") -> RemoteLabel | None:
    """Return the label of a repository and tag below a prefix; None for what is no image's."""
    if prefix and not repository.startswith(f"{prefix}/"):
        return None
    parts = repository[len(prefix) :].strip("/").split("/")
    if len(parts) != _PATH_PARTS:
        return None
    namespace, system, uarch, name, version = parts
    label = Label(name=name, version=version, tag=tag, system=system, uarch=uarch)
    return RemoteLabel(namespace=namespace, label=label)


def remote_of_path(path: str) -> RemoteLabel | None:
    """Return the label of a path of a list: `NS/SYSTEM/UARCH/NAME/VERSION` and `:` or `/` TAG."""
    before, _, tag = path.rpartition(":" if ":" in path else "/")
    remote = remote_of(before, tag)
    return remote if remote is not None and labels.is_label(str(remote.label)) else None


def path_of(remote: RemoteLabel) -> str:
    """Return the path of a label in a listing, in the one form that uenv reads."""
    return "/".join((*remote.path, remote.label.tag))


def inherited(remote: RemoteLabel, source: Label) -> RemoteLabel:
    """Return a destination with the parts that it lacks, as those of the source."""
    label = remote.label
    lacking = {part: getattr(source, part) for part in label.missing}
    return RemoteLabel(namespace=remote.namespace, label=replace(label, **lacking))


def former_tag(tag: str, time: str) -> str:
    """Return the tag that keeps the image that a tag had until a time, `YYYYMMDDTHHMMSSmmmZ`."""
    return f"{tag}{FORMER}{time}"


def former_of(tag: str) -> tuple[str, str]:
    """Return the tag whose former image this one keeps, and until when; empty for others."""
    before, separator, time = tag.rpartition(FORMER)
    return (before, time) if separator else ("", "")
