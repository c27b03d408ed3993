"""A pack to what an OCI image says of itself: its configuration, its manifest and its index.

Format: OCI image specification 1.1 (image layout, index, manifest, configuration). Nothing in them
tells when they were made, so that the same pack gives the same bytes.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Mapping

from stackproof.core.value import Value
from stackproof.image.container.oci import ARCHITECTURES
from stackproof.pack.model import PROGRAMS, Pack

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
LAYOUT_VERSION = {"imageLayoutVersion": "1.0.0"}
_TAG = "org.opencontainers.image.ref.name"


class LayoutBlob(Value):
    """A part of an image by its digest (SHA-256, hexadecimal) and its size in bytes."""

    kind: str
    sha256: str
    size: int

    def descriptor(self, **more: object) -> dict[str, object]:
        """Return it as manifests and indexes name it."""
        digest = f"sha256:{self.sha256}"
        return {"mediaType": self.kind, "digest": digest, "size": self.size, **more}


def place_of(pack: Pack) -> str:
    """Return the folder of a pack in the image, from the root on."""
    return posixpath.join("opt", pack.name)


def platform(pack: Pack) -> dict[str, str]:
    """Return the platform of a pack, by Go's names."""
    own = pack.architecture or os.uname().machine
    name = next((word for word, ours in ARCHITECTURES.items() if ours == own), own)
    return {"architecture": name, "os": "linux"}


def render_config(pack: Pack, diff_id: str) -> bytes:
    """Return the configuration: the one program that was asked for is what it starts.

    `diff_id` is the SHA-256 of the layer's archive. With several programs or none the first word
    of a container's command names one, which PATH leads to.
    """
    programs = f"/{place_of(pack)}/{PROGRAMS}"
    config: dict[str, object] = {
        "Env": [f"PATH={programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    }
    if pack.main:
        config["Entrypoint"] = [f"{programs}/{pack.main}"]
    config["Labels"] = {
        "org.opencontainers.image.title": pack.name,
        "org.stackproof.pack.tree": pack.tree,
        "org.stackproof.image.sha256": pack.origin.image_sha256,
    }
    return as_json(
        {
            **platform(pack),
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
            "history": [{"created_by": f"stackproof pack {pack.origin.stackproof}"}],
        }
    )


def render_manifest(config: LayoutBlob, layer: LayoutBlob) -> bytes:
    """Return the manifest of an image with one layer."""
    return as_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
        }
    )


def render_index(pack: Pack, manifest: LayoutBlob) -> bytes:
    """Return the index of a layout with one image, which has the pack's name as its tag."""
    one = manifest.descriptor(platform=platform(pack), annotations={_TAG: pack.name})
    return as_json({"schemaVersion": 2, "manifests": [one]})


def as_json(value: Mapping[str, object]) -> bytes:
    """Return JSON that is the same for the same values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
