"""A pack as a container image: an OCI layout with one layer, as a folder or as one archive."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
from pathlib import Path

from stackproof.core.effects import files
from stackproof.image.container.oci import INDEX, LAYOUT
from stackproof.pack import oci
from stackproof.pack.effects import tar_files
from stackproof.pack.model import Pack

_BLOBS = "blobs/sha256"
_LEVEL = 6
# Every container has these, whatever is in its image; a program asks for the first of them.
_FOLDERS = {"tmp": 0o1777, "opt": 0o755}


def write_layout(tree: Path, output: Path, pack: Pack) -> None:
    """Write a pack as an OCI layout; an archive of it where the output's name ends with `.tar`.

    Raises `StackproofError` for what is there already, and what writing raises.
    """
    layout = tree.with_name("layout")
    (layout / _BLOBS).mkdir(parents=True)
    (layout / LAYOUT).write_bytes(oci.as_json(oci.LAYOUT_VERSION))
    diff_id, layer = _write_layer(tree, layout, pack)
    config = _write_blob(layout, oci.CONFIG, oci.render_config(pack, diff_id))
    manifest = _write_blob(layout, oci.MANIFEST, oci.render_manifest(config, layer))
    (layout / INDEX).write_bytes(oci.render_index(pack, manifest))
    for inner, _, names in os.walk(layout):
        os.chmod(inner, 0o755)  # noqa: S103 - whatever the umask
        for name in names:
            os.chmod(os.path.join(inner, name), 0o644)
    try:
        if not output.name.endswith(".tar"):
            os.rename(layout, output)
            return
        whole = tree.with_name("layout.tar")
        with tarfile.open(whole, "w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(os.listdir(layout)):
                tar_files.add(archive, layout / name, name)
        os.replace(whole, output)
    except OSError as error:
        raise files.translate(error, output) from error


def _write_layer(tree: Path, layout: Path, pack: Pack) -> tuple[str, oci.LayoutBlob]:
    """Write the layer, and return the digest of its archive and the blob."""
    plain, packed = tree.with_name("layer.tar"), layout / _BLOBS / "layer"
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        _fill(archive, tree, pack)
    # No name and no time of the archive: the same bytes each time.
    with (
        plain.open("rb") as source,
        packed.open("wb") as raw,
        gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as target,
    ):
        shutil.copyfileobj(source, target)
    blob = oci.LayoutBlob(kind=oci.LAYER, sha256=files.sha256(packed), size=packed.stat().st_size)
    packed.rename(layout / _BLOBS / blob.sha256)
    diff_id = files.sha256(plain)
    files.remove(plain)
    return diff_id, blob


def _fill(archive: tarfile.TarFile, tree: Path, pack: Pack) -> None:
    for name, mode in _FOLDERS.items():
        tar_files.add_folder(archive, name, mode)
    tar_files.add(archive, tree, oci.place_of(pack))


def _write_blob(layout: Path, kind: str, content: bytes) -> oci.LayoutBlob:
    blob = oci.LayoutBlob(kind=kind, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    (layout / _BLOBS / blob.sha256).write_bytes(content)
    return blob
