"""Manifests of a registry: nouns to the bytes that oras writes, and back.

The formats are those of the OCI image specification 1.1. A manifest is named by the digest of its
bytes, so they are written as oras' Go writes them: no blanks, keys in the order of its structures,
annotations sorted. An image of uenv has one layer, the SquashFS file by its title, and what is
attached to it refers to it as its `subject`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, field

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.share import answers
from stackproof.share.labels import IMAGE

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
ACCEPTED = (
    MANIFEST, INDEX, "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)  # fmt: skip
"""What a registry is asked for; others than the first two are told apart, and refused."""
SQUASHFS = "application/x-squashfs"
"""The type of an image, uenv's."""
META = "uenv/meta"
"""The type of the attached folder `meta`, uenv's."""
SIGNATURE = "application/vnd.stackproof.image-signature.v1"
VERDICT = "application/vnd.stackproof.verdict.v1"
"""The type of an attached signature."""
TAR = "application/vnd.oci.image.layer.v1.tar"
"""oras' default for files of any kind, and so what images of uenv have."""
TAR_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
TITLE = "org.opencontainers.image.title"
CREATED = "org.opencontainers.image.created"
META_DIGEST = "org.stackproof.meta.digest"
"""Of an image's manifest: the digest of the layer of its meta, so that nobody can add another."""
UNPACKED_DIGEST = "io.deis.oras.content.digest"
"""Of a packed folder: the digest of its tar before compression."""
UNPACK = "io.deis.oras.content.unpack"
_EMPTY_JSON = b"{}"
_EMPTY = "application/vnd.oci.empty.v1+json"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# What Go writes of characters that HTML or JavaScript would take for its own.
_GO_ESCAPES = str.maketrans({one: f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"})


FileSize = Annotated[int, Meta(ge=0, le=answers.LARGEST)]
"""A number of bytes that a file can have."""


class OciDescriptor(Value, rename="camel", omit_defaults=True):
    """What a manifest says of a blob or of another manifest: `size` in bytes."""

    media_type: str = ""
    digest: Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
    size: FileSize
    annotations: Mapping[str, str] = field(default_factory=dict)
    data: str = ""
    artifact_type: str = ""

    @property
    def title(self) -> str:
        """The name of the file, empty for none."""
        return self.annotations.get(TITLE, "")

    @property
    def hex(self) -> str:
        """The digest without its algorithm: of an image, what a repository calls it by."""
        return self.digest.partition(":")[2]


EMPTY = OciDescriptor(
    media_type=_EMPTY, digest=f"sha256:{hashlib.sha256(_EMPTY_JSON).hexdigest()}",
    size=len(_EMPTY_JSON), data="e30=",
)  # fmt: skip
"""The configuration of what has none: the blob `{}`."""
EMPTY_BLOB = _EMPTY_JSON


_Descriptors = Annotated[tuple[OciDescriptor, ...], Meta(max_length=limits.REGISTRY.count)]


class OciManifest(Value, rename="camel", omit_defaults=True):
    """Files by their descriptors; with a `subject` they are attached to that."""

    artifact_type: str = ""
    config: OciDescriptor
    layers: _Descriptors
    subject: OciDescriptor | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The type of the artefact: where none is said that of its configuration."""
        return self.artifact_type or self.config.media_type

    def layer(self, title: str) -> OciDescriptor | None:
        """Return the file of a name; None where there is none."""
        return next((one for one in self.layers if one.title == title), None)


class OciIndex(Value, rename="camel", omit_defaults=True):
    """A list of manifests: what is attached to one, for registries that keep no such list."""

    manifests: _Descriptors
    annotations: Mapping[str, str] = field(default_factory=dict)


def digest_of(content: bytes) -> str:
    """Return the digest of bytes as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def is_digest(text: str) -> bool:
    """Return True for a text that is a digest of the one algorithm that is taken here."""
    return _DIGEST.fullmatch(text) is not None


def image_manifest(*, digest: str, size: int, created: str, meta_digest: str = "") -> OciManifest:
    """Return the manifest of an image file; `created` is RFC 3339, the same for the same image."""
    annotations = {CREATED: created} | ({META_DIGEST: meta_digest} if meta_digest else {})
    layer = OciDescriptor(media_type=TAR, digest=digest, size=size, annotations={TITLE: IMAGE})
    return OciManifest(
        artifact_type=SQUASHFS, config=EMPTY, layers=(layer,), annotations=annotations
    )


def referrer(
    artifact_type: str,
    layers: Sequence[OciDescriptor],
    *,
    subject: OciDescriptor,
    annotations: Mapping[str, str],
) -> OciManifest:
    """Return the manifest of what is attached to another, which `subject` describes."""
    bare = OciDescriptor(media_type=subject.media_type, digest=subject.digest, size=subject.size)
    return OciManifest(
        artifact_type=artifact_type, config=EMPTY, layers=tuple(layers), subject=bare,
        annotations=annotations,
    )  # fmt: skip


def render(what: OciManifest | OciIndex) -> bytes:
    """Return the bytes of a manifest or an index: the same for the same."""
    kind = INDEX if isinstance(what, OciIndex) else MANIFEST
    text = msgspec.json.encode(what, order="deterministic").decode().translate(_GO_ESCAPES)
    return f'{{"schemaVersion":2,"mediaType":"{kind}",{text[1:]}'.encode()


def descriptor_of(what: OciManifest) -> OciDescriptor:
    """Return the description of a manifest in an index: with its annotations and its type."""
    content = render(what)
    return OciDescriptor(
        media_type=MANIFEST, digest=digest_of(content), size=len(content),
        annotations=what.annotations, artifact_type=what.kind,
    )  # fmt: skip


def parse(content: bytes, *, where: str) -> OciManifest | OciIndex:
    """Return the manifest or index in the bytes of a registry's answer.

    Raises `StackproofError` (REGISTRY_ANSWER) for what is none, naming the place `where`.
    """
    try:
        data = answers.parse_object(content)
    except ValueError:
        raise _wrong(where, "it is not JSON") from None
    if data.get("schemaVersion") != 2:
        raise _wrong(where, "it has not the version 2 of the schema")
    kind = data.get("mediaType", MANIFEST)
    if kind not in (MANIFEST, INDEX):
        raise _wrong(where, f"it is of the type `{str(kind)[:100]}`")
    try:
        if kind == INDEX or "manifests" in data:
            return msgspec.convert({"manifests": [], **data}, OciIndex)
        return msgspec.convert({"layers": [], **data}, OciManifest)
    except msgspec.ValidationError as error:
        raise _wrong(where, str(error)) from None


def parse_manifest(content: bytes, *, where: str) -> OciManifest:
    """Return the manifest that bytes are; raises as `parse`, also for an index."""
    found = parse(content, where=where)
    if isinstance(found, OciIndex):
        raise _wrong(where, "it is an index of several, as container images have")
    return found


def _wrong(where: str, why: str) -> StackproofError:
    return fail(
        Reason.REGISTRY_ANSWER,
        f"`{where}` is no manifest that can be read here: {why}",
        where=Location(file=where),
        hint="is it an image of uenv or stackproof? containers are for `skopeo` or `podman`",
    )


def image_layer(manifest: OciManifest, *, where: str) -> OciDescriptor:
    """Return the image file of a manifest, by its title; raises REGISTRY_ANSWER without one.

    `uenv image push` leaves the file its own name, so the one file of an artefact of that type is
    an image however it is called. The type of the layer is not looked at: oras gave all of uenv's
    images that of a tar.
    """
    alone = manifest.kind == SQUASHFS and len(manifest.layers) == 1
    found = manifest.layers[0] if alone else manifest.layer(IMAGE)
    if found is None:
        titles = ", ".join(one.title or one.media_type for one in manifest.layers) or "nothing"
        raise fail(
            Reason.REGISTRY_ANSWER,
            f"`{where}` holds no file `{IMAGE}`, but {titles[:200]}",
            where=Location(file=where),
            hint="is it an image of uenv or stackproof? containers are for `skopeo` or `podman`",
        )
    return found


def fallback_tag(digest: str) -> str:
    """Return the tag of the list of what is attached to a manifest, where the server keeps none."""
    return digest.replace(":", "-", 1)


def with_referrer(index: OciIndex, one: OciDescriptor) -> OciIndex:
    """Return a list with a manifest in it, once."""
    if any(other.digest == one.digest for other in index.manifests):
        return index
    return replace(index, manifests=(*index.manifests, one))


def meta_layer(
    image: OciManifest, attached: Iterable[OciManifest], *, where: str
) -> OciDescriptor | None:
    """Return the packed folder `meta` of an image; None for an image without.

    Where the image's manifest records its digest only that one counts, whoever attached others;
    without that record there may be one alone. Raises `StackproofError`: META_MISMATCH where others
    are there and not the recorded one, META_AMBIGUOUS for several without a record.
    """
    layers = {layer.digest: layer for one in attached if one.kind == META for layer in one.layers}
    recorded = image.annotations.get(META_DIGEST)
    if recorded is not None:
        if not layers:
            return None  # a copy by a client that leaves it behind: the image has it inside
        if recorded not in layers:
            raise fail(
                Reason.META_MISMATCH,
                f"`{where}` was pushed with the meta `{recorded}`, which is not there",
                where=Location(file=where),
                detail="\n".join(f"attached: {digest}" for digest in layers) or None,
                hint="somebody has changed what is attached; ask who owns the image to push again",
            )
        return layers[recorded]
    if len(layers) > 1:
        raise fail(
            Reason.META_AMBIGUOUS,
            f"`{where}` has {len(layers)} metas, and does not say which is its own",
            where=Location(file=where),
            detail="\n".join(layers),
            hint="others may have added one; ask the owner to push the image again with "
            "`stackproof image push`, which records the digest",
        )
    return next(iter(layers.values()), None)
