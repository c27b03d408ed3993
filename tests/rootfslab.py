"""Container images for tests, written without any container tool."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import subprocess
import tarfile
from pathlib import Path

OCI = "application/vnd.oci.image"


def member(name, content=None, *, link=None, hard=None, folder=False, mode=0o755, size=None):
    """Return what `layer` takes: a file, a link, or a folder."""
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    if link is not None:
        entry.type, entry.linkname = tarfile.SYMTYPE, link
    elif hard is not None:
        entry.type, entry.linkname = tarfile.LNKTYPE, hard
    elif folder:
        entry.type = tarfile.DIRTYPE
    entry.size = len(content or b"") if size is None else size
    return entry, content


def layer(*members, form=tarfile.PAX_FORMAT):
    """Return a layer as a tar archive."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=form) as archive:
        for entry, content in members:
            archive.addfile(entry, io.BytesIO(content) if content else None)
    return output.getvalue()


def files_below(folder: Path, *, prefix="", only=lambda path: True):
    """Return the members for a folder of this machine."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = prefix + path.relative_to(folder).as_posix()
        if not only(path):
            continue
        if path.is_symlink():
            found.append(member(name, link=str(path.readlink())))
        elif path.is_dir():
            found.append(member(name, folder=True))
        else:
            found.append(member(name, path.read_bytes(), mode=path.stat().st_mode & 0o7777))
    return found


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def config(layers, **run) -> bytes:
    data = {
        "architecture": "amd64",
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [digest(one) for one in layers]},
    }
    return json.dumps(data).encode()


def zstd(content: bytes) -> bytes:
    return subprocess.run(
        ["zstd", "-q", "-c"], input=content, capture_output=True, check=True
    ).stdout


PACKERS = {"plain": lambda content: content, "gzip": gzip.compress, "zstd": zstd}


def oci_files(
    layers, *, tag="new", pack="gzip", told=None, damage=lambda content: content, **run
) -> dict[str, bytes]:
    """Return the files of an OCI layout by name.

    `damage` changes packed layers before their digests are taken; `told` are other layers, of which
    the configuration says the digests.
    """
    found = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def blob(content: bytes, kind: str) -> dict:
        found[f"blobs/{digest(content).replace(':', '/')}"] = content
        return {"mediaType": f"{OCI}.{kind}", "digest": digest(content), "size": len(content)}

    packed = [blob(damage(PACKERS[pack](one)), f"layer.v1.tar+{pack}") for one in layers]
    manifest = {
        "schemaVersion": 2,
        "config": blob(config(told or layers, **run), "config.v1+json"),
        "layers": packed,
    }
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": tag}
    found["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    return found


def docker_files(layers, *, tag="localhost/app:new", **run) -> dict[str, bytes]:
    """Return the files of an archive of `docker save` by name."""
    told = config(layers, **run)
    name = f"{hashlib.sha256(told).hexdigest()}.json"
    found = {f"{digest(one)[7:]}.tar": one for one in layers}
    images = [{"Config": name, "RepoTags": [tag], "Layers": list(found)}]
    return {**found, name: told, "manifest.json": json.dumps(images).encode()}


def archive(found: dict[str, bytes]) -> bytes:
    return layer(*(member(name, content) for name, content in found.items()))


def write_folder(place: Path, found: dict[str, bytes]) -> Path:
    for name, content in found.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return place


def sif(partition: bytes, *, form=1, role=2, architecture=b"02", size=None, more=()) -> bytes:
    """Return a SIF file with one partition; the numbers are those of the format's Go source."""
    descriptor = struct.Struct("<i?IIIqqqqqqq128s384s")
    start = 32768
    length = len(partition) if size is None else size
    extra = struct.pack("<ii3s", form, role, architecture)
    rows = [
        descriptor.pack(
            0x4004, True, 1, 0xF0000001, 0, start, length, length, 0, 0, 0, 0, b"p", extra
        )
    ]
    rows += more
    rows += [bytes(descriptor.size)] * (48 - len(rows))
    head = struct.pack(
        "<32s10s3s3s16sqqqqqqqq", b"#!/usr/bin/env run-singularity\n", b"SIF_MAGIC", b"01", architecture,
        bytes(16), 0, 0, 47, 48, 4096, 48 * 585, start, len(partition),
    )  # fmt: skip
    return head.ljust(4096, b"\0") + b"".join(rows).ljust(start - 4096, b"\0") + partition
