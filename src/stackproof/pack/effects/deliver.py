"""A pack written where it was asked for: whole, or not at all.

As a folder, an archive or a container's image it is the same bytes for the same tree: nothing in
them tells who made them, when and where. A container's image is an OCI layout with one layer, as a
folder or as one archive (OCI image specification 1.1).
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import posixpath
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from stackproof.core import noun
from stackproof.core.command import Command
from stackproof.core.effects import files, outputs, run
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value, replace
from stackproof.image import superblock
from stackproof.image.container.oci import ARCHITECTURES, INDEX, LAYOUT
from stackproof.inject.effects import versions
from stackproof.pack.effects import links
from stackproof.pack.effects.make import PackWishes, make
from stackproof.pack.model import OF_ITSELF, PROGRAMS, Pack

PROVENANCE = f"{OF_ITSELF}/provenance.json"


class Delivery(Value):
    """Where a pack goes; `format` None: by the name. `provenance` is `beside`, `inside`, `none`."""

    output: str
    format: str | None
    provenance: str

    @property
    def kind(self) -> str:
        """Return the format."""
        name = re.sub(r"\.oci\.tar$", ".oci", self.output)
        by_name = (kind for kind in WRITERS if name.endswith(f".{kind}"))
        return self.format or next(by_name, "dir")

    @property
    def is_folder(self) -> bool:
        """Return whether it is a folder, not a file."""
        return self.kind == "dir" or (self.kind == "oci" and not self.output.endswith(".tar"))


def write_pack(image: str, wishes: PackWishes, target: Delivery) -> tuple[Pack, int]:
    """Make a pack of an image and write it; return it, and its size in bytes.

    Raises `StackproofError` as `make` does, and NOT_REPLACED, USAGE for what is there already.
    """
    output = Path(os.path.abspath(target.output.rstrip("/")))
    beside = output.with_name(f"{output.name}.provenance.json")
    if target.is_folder and os.path.lexists(output):
        raise fail(
            Reason.USAGE,
            f"`{target.output}` exists",
            where=Location(file=target.output),
            hint="name a folder that is not there yet: what is in use must not change",
        )
    if target.provenance == "beside":
        outputs.claim(beside, "provenance")
    at_root = {
        link: to
        for link, to in wishes.symlinks.items()
        if link.startswith("/") and target.kind.startswith("tar.")
    }
    inside = {link: to for link, to in wishes.symlinks.items() if link not in at_root}
    with _staging(output) as folder:
        tree = folder / "pack"
        tree.mkdir(mode=0o700)
        pack = make(image, replace(wishes, symlinks=inside), tree)
        beside_it = links.Beside(folder=tree.with_name(BESIDE), name=pack.name)
        links.add_links(tree, at_root, pack.mpi.prefix if pack.mpi else "", beside_it)
        text = noun.to_json(pack)
        if target.provenance == "inside":
            files.write(tree / PROVENANCE, text)
            (tree / PROVENANCE).parent.chmod(0o755)
        size = _size(tree)
        WRITERS[target.kind](tree, output, pack)
        if target.provenance == "beside":
            outputs.write(beside, text, "provenance", beside=folder)
    return pack, size if target.is_folder else _file_size(output)


def explain_pack(image: str, wishes: PackWishes) -> Pack:
    """Return what a pack of an image would say of itself; nothing stays."""
    with _staging(Path(tempfile.gettempdir(), "pack")) as folder:
        tree = folder / "pack"
        tree.mkdir(mode=0o700)
        return make(image, wishes, tree)


@contextlib.contextmanager
def _staging(output: Path) -> Iterator[Path]:
    """Give a folder on the file system of an output, which is gone afterwards."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.translate(error, output.parent) from error
    with versions.beside(os.fspath(output), "pack") as folder:
        try:
            yield Path(folder)
        except OSError as error:
            raise files.translate(error, output) from error


def _file_size(output: Path) -> int:
    try:
        return output.lstat().st_size
    except OSError as error:  # others may write to its folder
        raise files.translate(error, output) from error


def _size(tree: Path) -> int:
    found = (Path(inner, name) for inner, _, names in os.walk(tree) for name in names)
    return sum(path.lstat().st_size for path in found)


MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
LAYOUT_VERSION = {"imageLayoutVersion": "1.0.0"}
BESIDE = "beside"
"""The folder next to a tree that holds what an archive has next to the pack's folder."""
_TAG = "org.opencontainers.image.ref.name"
_BLOBS = "blobs/sha256"
# Every container has these, whatever is in its image; a program asks for the first of them.
_FOLDERS = {"tmp": 0o1777, "opt": 0o755}
_TIME = 1  # GNU tar warns of the epoch itself
_TIMEOUT_S = 3600.0
_LEVEL = "-10"
_GZIP_LEVEL = 6  # that of gzip itself; by its header a pack is known


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


def as_json(value: Mapping[str, object]) -> bytes:
    """Return JSON that is the same for the same values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def write_layout(tree: Path, output: Path, pack: Pack) -> None:
    """Write a pack as an OCI layout; an archive of it where the output's name ends with `.tar`."""
    layout = tree.with_name("layout")
    (layout / _BLOBS).mkdir(parents=True)
    (layout / LAYOUT).write_bytes(as_json(LAYOUT_VERSION))
    diff_id, layer = _write_layer(tree, layout, pack)
    config = _write_blob(layout, CONFIG, render_config(pack, diff_id))
    parts = {"config": config, "layers": [layer]}
    text = as_json({"schemaVersion": 2, "mediaType": MANIFEST, **parts})
    manifest = _write_blob(layout, MANIFEST, text)
    more = {"platform": platform(pack), "annotations": {_TAG: pack.name}}
    (layout / INDEX).write_bytes(as_json({"schemaVersion": 2, "manifests": [{**manifest, **more}]}))
    for inner, _, names in os.walk(layout):
        os.chmod(inner, 0o755)  # noqa: S103 - whatever the umask
        for name in names:
            os.chmod(os.path.join(inner, name), 0o644)
    if not output.name.endswith(".tar"):
        os.rename(layout, output)
        return
    whole = tree.with_name("layout.tar")
    with tarfile.open(whole, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(os.listdir(layout)):
            add_tree(archive, layout / name, name)
    os.replace(whole, output)


def _write_layer(tree: Path, layout: Path, pack: Pack) -> tuple[str, dict[str, object]]:
    """Write the layer, and return the digest of its archive and its descriptor."""
    plain, packed = tree.with_name("layer.tar"), layout / _BLOBS / "layer"
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, mode in _FOLDERS.items():
            add_folder(archive, name, mode)
        add_tree(archive, tree, place_of(pack))
    _gzip(plain, packed)
    sha256, size = files.sha256(packed), packed.stat().st_size
    packed.rename(layout / _BLOBS / sha256)
    diff_id = files.sha256(plain)
    files.remove(plain)
    return diff_id, _descriptor(LAYER, sha256, size)


def _gzip(plain: Path, packed: Path) -> None:
    """Pack a file by gzip; neither name nor time stands in its header (RFC 1952)."""
    with (
        plain.open("rb") as source,
        packed.open("wb") as target,
        gzip.GzipFile("", "wb", _GZIP_LEVEL, target, mtime=0) as archive,
    ):
        shutil.copyfileobj(source, archive, 1 << 20)


def _write_blob(layout: Path, kind: str, content: bytes) -> dict[str, object]:
    sha256 = hashlib.sha256(content).hexdigest()
    (layout / _BLOBS / sha256).write_bytes(content)
    return _descriptor(kind, sha256, len(content))


def _descriptor(kind: str, sha256: str, size: int) -> dict[str, object]:
    """Return a part of an image as manifests and indexes name it."""
    return {"mediaType": kind, "digest": f"sha256:{sha256}", "size": size}


def add_tree(archive: tarfile.TarFile, tree: Path, name: str) -> None:
    """Add a file, or a folder with all that is in it, as `name`.

    Entry points of a pack come last: what was unpacked in part has none.
    """
    _add_member(archive, tree, name)
    for path in _in_order(tree):
        _add_member(archive, path, f"{name}/{os.path.relpath(path, tree)}")


def add_content(archive: tarfile.TarFile, folder: Path) -> None:
    """Add what is in a folder, without it; nothing where it is not there."""
    for path in _in_order(folder):
        _add_member(archive, path, os.path.relpath(path, folder))


def add_folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    """Add an empty folder."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, mode, _TIME
    entry.uname = entry.gname = "root"
    archive.addfile(entry)


def _in_order(tree: Path) -> list[Path]:
    found = []
    for inner, folders, names in os.walk(tree):
        found += [Path(inner, name) for name in (*folders, *names)]
    late = tree / PROGRAMS
    return sorted(found, key=lambda path: (path == late or late in path.parents, path))


def _member(archive: tarfile.TarFile, path: Path, name: str) -> tarfile.TarInfo:
    entry = archive.gettarinfo(str(path), arcname=name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = _TIME
    if entry.islnk():  # twice the same file: as its own in the archive
        entry.type, entry.linkname = tarfile.REGTYPE, ""
        entry.size = path.stat().st_size
    return entry


def _add_member(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = _member(archive, path, name)
    if not entry.isreg():
        archive.addfile(entry)
        return
    with path.open("rb") as stream:
        archive.addfile(entry, stream)


def write_folder(tree: Path, output: Path, pack: Pack) -> None:
    """Give a finished tree its name."""
    del pack
    os.rename(tree, output)


def write_tar(tree: Path, output: Path, pack: Pack) -> None:
    """Write a tree as a folder of a tar archive, packed by zstd."""
    plain, packed = _plain_tar(tree, pack), tree.with_name("packed.zst")
    argv = ("zstd", "-q", "-f", "-T1", _LEVEL, str(plain), "-o", str(packed))
    run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
    os.replace(packed, output)


def write_gzip(tree: Path, output: Path, pack: Pack) -> None:
    """Write a tree as a folder of a tar archive, packed by gzip, which every machine unpacks."""
    packed = tree.with_name("packed.gz")
    _gzip(_plain_tar(tree, pack), packed)
    os.replace(packed, output)


def _plain_tar(tree: Path, pack: Pack) -> Path:
    plain = tree.with_name("plain.tar")
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        add_tree(archive, tree, pack.name)
        add_content(archive, tree.with_name(BESIDE))
    return plain


def write_squashfs(tree: Path, output: Path, pack: Pack) -> None:
    """Write a tree as a SquashFS image, whose root it is."""
    del pack
    packed = tree.with_name("packed.squashfs")
    argv = superblock.pack_argv(str(tree), str(packed))
    run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
    os.replace(packed, output)


WRITERS: dict[str, Callable[[Path, Path, Pack], None]] = {
    "dir": write_folder,
    "tar.zst": write_tar,
    "tar.gz": write_gzip,
    "squashfs": write_squashfs,
    "oci": write_layout,
}
"""What writes each format; a tree is used up by it. Each raises `OSError` as well."""
