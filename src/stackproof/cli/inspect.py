"""`stackproof inspect IMAGE`: what an image holds, read without mounting it."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

from stackproof import ids, mountlist, mounts, noun
from stackproof.host import files
from stackproof.host.images import load_image, load_superblock
from stackproof.host.mountfacts import load_mount_facts
from stackproof.image import Image
from stackproof.images.superblock import Superblock


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("image", metavar="IMAGE", help="an image file")
    parser.add_argument("--json", action="store_true", help="print what is known as JSON")
    parser.add_argument(
        "--digest", action="store_true", help="read the whole file and print its SHA-256 too"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what an image says of itself."""
    image = load_image(args.image)
    head, _ = load_superblock(args.image)
    if args.digest:
        image = replace(image, sha256=files.sha256(args.image))
    facts = load_mount_facts()
    print(_json(image, head, facts) if args.json else render(image, head, facts))
    return 0


def _json(image: Image, head: Superblock, facts: mounts.MountFacts) -> str:
    ways = {
        name: [problem.message for problem in way.problems(facts)]
        for name, way in mounts.REGISTRY.items()
    }
    data = {**noun.to_data(image), "squashfs": noun.to_data(head), "problems-to-mount": ways}
    return json.dumps(data, indent=1)


def render(image: Image, head: Superblock, facts: mounts.MountFacts) -> str:
    """Return the facts of an image, and how it would be mounted here, for people."""
    way = mounts.first(facts)
    rows = [
        ("file", f"{image.path}"),
        ("size", f"{image.size} bytes, {head.compressor}, {head.inodes} files and folders"),
        ("mount point", image.mount),
    ]
    if why := mountlist.bad_mount_point(image.mount):
        rows.append(("", f"this cannot be a mount point: {why}"))
    reasons = [
        problem for mounter in mounts.REGISTRY.values() for problem in mounter.problems(facts)
    ]
    rows += _listed(
        "mounted by", [way.title] if way else [f"not here: {p.message}" for p in reasons]
    )
    if image.mpi:
        mpi = image.mpi
        rows.append(
            ("MPI", f"{mpi.family} {mpi.version} in {mpi.prefix}, started by {mpi.launcher}")
        )
    rows += _listed("views", [_view_text(image, name) for name in image.views])
    rows += _listed("benchmarks", [f"{item.name}: {item.path}" for item in image.benchmarks])
    rows += [
        ("stack", ids.short(image.stack_id)),
        ("lock", ids.short(image.lock_digest)),
        ("SHA-256", image.sha256),
    ]
    title = f"{image.name}: {image.description}" if image.description else image.name
    lines = [title, *(f"  {label:<12} {text}" for label, text in rows if text)]
    return "\n".join(map(_harmless, lines))


def _view_text(image: Image, name: str) -> str:
    text = f"{name}: {image.views[name].description}".rstrip(": ")
    return f"{text} (default)" if name == image.default_view else text


def _listed(label: str, texts: list[str]) -> list[tuple[str, str]]:
    return [(label if not number else "", text) for number, text in enumerate(texts)]


def _harmless(line: str) -> str:
    """Return a line without what a terminal would obey: the text is the image's, not ours."""
    return "".join(character if character.isprintable() else "?" for character in line)
