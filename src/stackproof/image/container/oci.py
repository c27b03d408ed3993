"""What an image says of itself: OCI layouts and archives of `podman save` and `docker save`.

Formats: OCI image specification 1.1 (image layout, index, manifest, configuration), and the
"combined image JSON + filesystem changeset format" of Docker's image specification v1.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, field

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.image.container.tar import damaged

LAYOUT, INDEX, DOCKER = "oci-layout", "index.json", "manifest.json"
_INDEX_TYPES = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
}
_TAG = "org.opencontainers.image.ref.name"
_FULL_NAME = "io.containerd.image.name"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64", "riscv64": "riscv"}
_Text = Annotated[str, Meta(pattern=r"^[^\0]*\Z")]
_Digest = Annotated[str, Meta(pattern=r"^sha(?:256:[0-9a-f]{64}|512:[0-9a-f]{128})\Z")]
"""It becomes part of a path."""
_Texts = tuple[_Text, ...] | None
_T = TypeVar("_T")


class _Platform(Value):
    architecture: str = ""


class BlobReference(Value, rename="camel"):
    """A part of an image by its digest (`sha256:…`), with its size in bytes where that is said."""

    digest: _Digest
    size: Annotated[int, Meta(ge=0)] | None = None
    media_type: str = ""
    platform: _Platform | None = None
    annotations: Mapping[str, _Text] | None = None

    @property
    def tag(self) -> str:
        """The name that the image has, empty for none."""
        notes = self.annotations or {}
        return notes.get(_FULL_NAME) or notes.get(_TAG) or ""

    @property
    def architecture(self) -> str:
        """The machine that it is for, empty where that is not said."""
        return ARCHITECTURES.get(self.platform.architecture, "") if self.platform else ""

    @property
    def is_index(self) -> bool:
        """True for a list of images."""
        return self.media_type in _INDEX_TYPES


class ImageConfig(Value):
    """What a container is started with; `diff_ids` are the digests of its layers, uncompressed."""

    environment: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    folder: str = "/"
    labels: Mapping[str, str] = field(default_factory=dict)
    diff_ids: tuple[str, ...] = ()
    architecture: str = ""


class Archived(Value, rename="pascal"):
    """An image in an archive of `docker save`: names of files in it."""

    config: _Text
    layers: tuple[_Text, ...]
    repo_tags: _Texts = ()

    @property
    def tags(self) -> tuple[str, ...]:
        """The names that the image has."""
        return self.repo_tags or ()


class _Index(Value):
    manifests: tuple[BlobReference, ...]


class _Manifest(Value):
    config: BlobReference
    layers: tuple[BlobReference, ...]


class _Run(Value, rename="pascal"):
    env: _Texts = ()
    entrypoint: _Texts = ()
    cmd: _Texts = ()
    working_dir: _Text | None = None
    labels: Mapping[str, _Text] | None = None


class _Root(Value):
    diff_ids: tuple[_Digest, ...] | None = ()


class _Config(Value):
    architecture: _Text | None = ""
    config: _Run | None = None
    rootfs: _Root | None = None


def parse_index(content: bytes, *, file: str) -> tuple[BlobReference, ...]:
    """Return the images, or further indexes, of `index.json`."""
    return _parsed(content, _Index, file).manifests


def parse_manifest(content: bytes, *, file: str) -> tuple[BlobReference, tuple[BlobReference, ...]]:
    """Return the configuration and the layers of an image manifest, the lowest layer first."""
    data = _parsed(content, _Manifest, file)
    _check_count(data.layers, file)
    return data.config, data.layers


def parse_archived(content: bytes, *, file: str) -> tuple[Archived, ...]:
    """Return the images that `manifest.json` of `docker save` lists."""
    data = _parsed(content, tuple[Archived, ...], file)
    for one in data:
        _check_count(one.layers, file)
    return data


def _check_count(layers: Sequence[object], file: str) -> None:
    if len(layers) > limits.DESCRIPTION.count:
        raise damaged(file, f"it has {len(layers)} layers; {limits.DESCRIPTION.count} is the most")


def parse_config(content: bytes, *, file: str) -> ImageConfig:
    """Return the facts in the configuration of an image."""
    data = _parsed(content, _Config, file)
    run, root, machine = data.config or _Run(), data.rootfs or _Root(), data.architecture or ""
    return ImageConfig(
        environment=dict(word.split("=", 1) for word in run.env or () if "=" in word),
        command=(*(run.entrypoint or ()), *(run.cmd or ())),
        folder=run.working_dir or "/",
        labels=run.labels or {},
        diff_ids=root.diff_ids or (),
        architecture=ARCHITECTURES.get(machine, machine),
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


def _parsed(content: bytes, kind: type[_T], file: str) -> _T:
    try:
        return msgspec.convert(json.loads(content), kind)
    except msgspec.ValidationError as error:
        text = f"a description in it is not what the image specification says: {error}"
    except (ValueError, RecursionError) as error:
        text = f"a description in it is no JSON ({type(error).__name__})"
    raise damaged(file, text)
