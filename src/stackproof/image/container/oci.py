"""What an image says of itself: OCI layouts and archives of `podman save` and `docker save`.

Formats: OCI image specification 1.1 (image layout, index, manifest, configuration), and the
"combined image JSON + filesystem changeset format" of Docker's image specification v1.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import field

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.image.container.tar import damaged

LAYOUT, INDEX, DOCKER = "oci-layout", "index.json", "manifest.json"
_DIGEST = re.compile(r"sha(?:256:[0-9a-f]{64}|512:[0-9a-f]{128})")
_INDEX_TYPES = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
}
_TAG = "org.opencontainers.image.ref.name"
_FULL_NAME = "io.containerd.image.name"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64", "riscv64": "riscv"}


class BlobReference(Value):
    """A part of an image by its digest (`sha256:…`), with its size in bytes where that is said."""

    digest: str
    size: int | None = None
    tag: str = ""
    architecture: str = ""
    is_index: bool = False


class ImageConfig(Value):
    """What a container is started with; `diff_ids` are the digests of its layers, uncompressed."""

    environment: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    folder: str = "/"
    labels: Mapping[str, str] = field(default_factory=dict)
    diff_ids: tuple[str, ...] = ()
    architecture: str = ""


class Archived(Value):
    """An image in an archive of `docker save`: names of files in it."""

    config: str
    layers: tuple[str, ...]
    tags: tuple[str, ...] = ()


def parse_index(content: bytes, *, file: str) -> tuple[BlobReference, ...]:
    """Return the images, or further indexes, of `index.json`."""
    data = _mapping(_json(content, file), file)
    return tuple(_blob(entry, file) for entry in _list(data.get("manifests"), file))


def parse_manifest(content: bytes, *, file: str) -> tuple[BlobReference, tuple[BlobReference, ...]]:
    """Return the configuration and the layers of an image manifest, the lowest layer first."""
    data = _mapping(_json(content, file), file)
    layers = _list(data.get("layers"), file)
    if len(layers) > limits.DESCRIPTION.count:
        raise damaged(file, f"it has {len(layers)} layers; {limits.DESCRIPTION.count} is the most")
    return _blob(data.get("config"), file), tuple(_blob(entry, file) for entry in layers)


def parse_archived(content: bytes, *, file: str) -> tuple[Archived, ...]:
    """Return the images that `manifest.json` of `docker save` lists."""
    found = []
    for entry in _list(_json(content, file), file):
        data = _mapping(entry, file)
        layers = _list(data.get("Layers"), file)
        if len(layers) > limits.DESCRIPTION.count:
            raise damaged(
                file, f"it has {len(layers)} layers; {limits.DESCRIPTION.count} is the most"
            )
        found.append(
            Archived(
                config=_text(data.get("Config"), file),
                layers=tuple(_text(layer, file) for layer in layers),
                tags=tuple(_text(tag, file) for tag in _list(data.get("RepoTags") or [], file)),
            )
        )
    return tuple(found)


def parse_config(content: bytes, *, file: str) -> ImageConfig:
    """Return the facts in the configuration of an image."""
    data = _mapping(_json(content, file), file)
    run = _mapping(data.get("config") or {}, file)
    words = [_text(word, file) for word in _list(run.get("Env") or [], file)]
    entry = _list(run.get("Entrypoint") or [], file) + _list(run.get("Cmd") or [], file)
    labels = _mapping(run.get("Labels") or {}, file)
    rootfs = _mapping(data.get("rootfs") or {}, file)
    return ImageConfig(
        environment=dict(word.split("=", 1) for word in words if "=" in word),
        command=tuple(_text(word, file) for word in entry),
        folder=_text(run.get("WorkingDir") or "/", file),
        labels={key: _text(value, file) for key, value in labels.items()},
        diff_ids=tuple(_digest(word, file) for word in _list(rootfs.get("diff_ids") or [], file)),
        architecture=ARCHITECTURES.get(
            _text(data.get("architecture") or "", file), str(data.get("architecture") or "")
        ),
    )


def chosen(
    blobs: tuple[BlobReference, ...], tag: str, architecture: str, *, file: str
) -> BlobReference:
    """Return the image with a tag, or the only one; of several builds that for an architecture.

    Raises `StackproofError` (INVALID_VALUE) when none or several are left.
    """
    left = [blob for blob in blobs if not tag or tag in _names(blob.tag)]
    if len({blob.digest for blob in left}) > 1:
        left = [blob for blob in left if blob.architecture == architecture] or left
    if len({blob.digest for blob in left}) == 1:
        return left[0]
    raise _not_one(sorted({blob.tag for blob in blobs if blob.tag}), tag, file)


def chosen_archived(images: tuple[Archived, ...], tag: str, *, file: str) -> Archived:
    """Return the image with a tag, or the only one; raises like `chosen`."""
    left = [one for one in images if not tag or any(tag in _names(word) for word in one.tags)]
    if len(left) == 1:
        return left[0]
    raise _not_one(sorted(word for one in images for word in one.tags), tag, file)


def _names(full: str) -> set[str]:
    """Return the names that a user may give an image: the whole, or the part behind the colon."""
    return {full, full.rpartition(":")[2]}


def _not_one(tags: list[str], tag: str, file: str) -> StackproofError:
    known = f"it has {', '.join(f'`{word}`' for word in tags)}" if tags else "its images have none"
    return fail(
        Reason.INVALID_VALUE,
        f"no image of `{file}` has the tag `{tag}`" if tag else f"`{file}` holds several images",
        where=Location(file=file),
        hint=f"add the tag behind a colon: {known}",
    )


def _json(content: bytes, file: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise damaged(file, f"a description in it is no JSON ({type(error).__name__})") from None


def _wrong(file: str) -> StackproofError:
    return damaged(file, "a description in it is not what the image specification says")


def _mapping(value: Any, file: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(file)
    return value


def _list(value: Any, file: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(file)
    return value


def _text(value: Any, file: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _wrong(file)
    return value


def _digest(value: Any, file: str) -> str:
    text = _text(value, file)
    if not _DIGEST.fullmatch(text):  # it becomes part of a path
        raise damaged(file, "a digest in it is none of SHA-256 or SHA-512")
    return text


def _blob(value: Any, file: str) -> BlobReference:
    data = _mapping(value, file)
    size = data.get("size")
    platform = _mapping(data.get("platform") or {}, file)
    notes = _mapping(data.get("annotations") or {}, file)
    return BlobReference(
        digest=_digest(data.get("digest"), file),
        size=size if isinstance(size, int) and size >= 0 else None,
        tag=_text(notes.get(_FULL_NAME) or notes.get(_TAG) or "", file),
        architecture=ARCHITECTURES.get(str(platform.get("architecture")), ""),
        is_index=data.get("mediaType") in _INDEX_TYPES,
    )
