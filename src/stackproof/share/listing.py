"""What images a namespace of a registry has: the list that is kept there, or that a site serves.

The form is that of the service that uenv asks (src/site/site.cpp): `{"results": [{"path": "deploy/
daint/zen2/mpich/5.0.2/v1", "sha256": …, "size": …, "created": …}]}`; ours adds `manifest`, the
digest of the image's manifest. A site's service may give that as `sha256`, ours has the file's. A
time of ours ends in `.000Z`: behind seconds uenv reads a dot alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share import addresses, answers, labels, manifests
from stackproof.share.labels import Label, LabelRecord, RemoteLabel
from stackproof.share.manifests import CREATED, OciManifest

ARTEFACT = "application/vnd.stackproof.index.v1+json"
"""The type of the list that is kept in a registry."""
FILE = "index.json"
TAG = "latest"


class _Row(Value):
    """A row of a list, as it is written: `manifest` may be empty."""

    path: str
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    size: manifests.FileSize
    created: str = ""
    manifest: Annotated[str, Meta(pattern=r"^(sha256:[0-9a-f]{64})?\Z")] = ""


def record_of(remote: RemoteLabel, manifest: OciManifest, digest: str) -> LabelRecord:
    """Return the record of a manifest with its digest; raises REGISTRY_ANSWER as `image_layer`."""
    layer = manifests.image_layer(manifest, where=str(remote))
    created = manifest.annotations.get(CREATED, "")
    return _record(
        remote, _Row(path="", sha256=layer.hex, size=layer.size, created=created, manifest=digest)
    )


def _record(remote: RemoteLabel, row: _Row) -> LabelRecord:
    return LabelRecord(
        label=remote.label, date=date_of(row.created), size=row.size, digest=row.sha256,
        folder="/".join(remote.path), namespace=remote.namespace, manifest=row.manifest,
    )  # fmt: skip


def date_of(created: str) -> str:
    """Return a time of RFC 3339 as records have it, in UTC; empty for what is none."""
    try:
        found = datetime.fromisoformat(created)
    except ValueError:
        return ""
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return zoned.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError):
        return ""


def parse(content: bytes, *, namespace: str, where: str) -> tuple[LabelRecord, ...]:
    """Return the images of a namespace that a list has; what is no image's is passed over.

    Raises `StackproofError` (REGISTRY_ANSWER) for what is no such list.
    """
    try:
        rows = answers.parse_object(content)["results"]
    except (ValueError, KeyError):
        raise _no_list(where) from None
    if not isinstance(rows, list):
        raise _no_list(where)
    found = map(_parsed, rows)
    return ordered(one for one in found if one is not None and one.namespace == namespace)


def _parsed(data: object) -> LabelRecord | None:
    """Return the image of one row; None for one that is none: a list of a site has all kinds."""
    try:
        row = msgspec.convert(data, _Row)
    except msgspec.ValidationError:
        return None
    remote = addresses.remote_of_path(row.path)
    if remote is None or addresses.former_of(remote.label.tag)[0]:
        return None
    return _record(remote, row)


def _no_list(where: str) -> StackproofError:
    return fail(
        Reason.REGISTRY_ANSWER,
        f"`{where}` is no list of images",
        where=Location(file=where),
        hint="`stackproof image find --fresh` asks the registry itself, for every tag",
    )


def render(records: Iterable[LabelRecord]) -> bytes:
    """Return the list that is kept in a registry: the same for the same images."""
    rows = [
        _Row(
            path=addresses.path_of(one.remote),
            sha256=one.digest,
            size=one.size,
            created=labels.readable_date(one.date).replace(" ", "T") + ".000Z",
            manifest=one.manifest,
        )
        for one in ordered(records)
    ]
    return (json.dumps({"results": msgspec.to_builtins(rows)}, indent=1) + "\n").encode()


def ordered(records: Iterable[LabelRecord]) -> tuple[LabelRecord, ...]:
    """Return records by their labels, each once: the last one counts."""
    found = {(one.namespace, one.label): one for one in records}
    return tuple(found[label] for label in sorted(found))


def changed(
    records: Sequence[LabelRecord], *, add: Sequence[LabelRecord], drop: Sequence[Label]
) -> tuple[LabelRecord, ...]:
    """Return a list with images in it and labels taken away."""
    gone = {str(one) for one in drop}
    kept = (one for one in records if str(one.label) not in gone)
    return ordered((*kept, *add))
