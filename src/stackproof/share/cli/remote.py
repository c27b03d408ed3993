"""`stackproof image find | pull | push | copy | delete | history | rollback`: with registries."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stackproof.core import harmless, limits
from stackproof.core.cli import progress
from stackproof.core.numbers import disk_text
from stackproof.image.effects.load import load_superblock
from stackproof.share import addresses, labels
from stackproof.share.addresses import RemoteLabel
from stackproof.share.cli import image
from stackproof.share.effects import (
    carrying,
    catalogue,
    naming,
    places,
    pulling,
    pushing,
    remembered,
    remotes,
)
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.pushing import Pushed
from stackproof.share.effects.remotes import RemoteOptions
from stackproof.share.labels import Label
from stackproof.share.listing import RemoteRecord


def run_find(args: argparse.Namespace) -> int:
    """Print the images of a namespace whose labels have the parts that are said."""
    registry, remote = _opened(args.label, args.registry, args.ca, args.token, args.username)
    if args.known:
        found = remembered.known(registry.address, remote.namespace if args.label else "")
    else:
        found = catalogue.find(
            registry, remote.namespace, service=remotes.listing_service(), fresh=args.fresh
        )
    chosen = catalogue.matching(found, remote.label, system=places.system())
    if args.json:
        print(json.dumps({"records": [_data(one) for one in chosen]}, indent=1))
    elif args.names:
        print("".join(f"{one.remote}\n" for one in chosen), end="")
    else:
        _print_table(chosen, with_namespace=not args.label)
    if not chosen:
        print(_none(remote, len(found), known=args.known), file=sys.stderr)
    return 0


def _none(remote: RemoteLabel, others: int, *, known: bool) -> str:
    """Return what to say where there is no image as it was asked for."""
    if others:
        return f"there is no image `{remote}`: {others} others"
    if known:
        return "nothing was listed from here yet: `stackproof image find` asks the registry"
    return f"the namespace `{remote.namespace}` has no image"


def run_pull(args: argparse.Namespace) -> int:
    """Bring an image into the repository; print its label and digest."""
    registry, remote = _opened(args.label, args.registry, args.ca, args.token, args.username)
    with registry.client.within(limits.PULL_METADATA):
        meant = _looked_at(registry, remote, most=limits.ATTACHED.count)
        carried = carrying.fetch(registry, meant)
    for note in carried.notes:
        print(f"warning: {harmless.line(note)}", file=sys.stderr)
    carrying.admit(meant, carried, lambda text: print(f"warning: {text}", file=sys.stderr))
    done = pulling.pull(
        registry, meant, places.own(), force=args.force, monitor=progress.monitor(quiet=args.json)
    )
    progress.end_line()
    carrying.put(done.record.file, carried)
    if args.json:
        data = {**image.data(done.record), "manifest": meant.listed.manifest}
        print(json.dumps({**data, "received": done.received}, indent=1))
    else:
        print(f"{done.record.label}\n{done.record.digest}  {done.record.file}")
    return 0


def run_push(args: argparse.Namespace) -> int:
    """Put an image into a registry; print its label there."""
    registry, remote = _opened(args.label, args.registry, args.ca, args.token, args.username)
    path = naming.image_file(args.image)
    load_superblock(path)  # a file that is not there is told before what its label lacks
    known = naming.record_of(args.image) if path != args.image else None
    like = known.label if known is not None else Label(system=places.system())
    done = pushing.push(
        registry, path, addresses.inherited(remote, like), force=args.force,
        monitor=progress.monitor(quiet=args.json),
    )  # fmt: skip
    carrying.send(registry, pulling.look(registry, done.listed.remote), path)
    return _print_moved(done, as_json=args.json)


def run_copy(args: argparse.Namespace) -> int:
    """Give an image of a registry another label; print it, and how it is signed as that."""
    registry, source = _opened(args.source, args.registry, args.ca, args.token, args.username)
    meant = _looked_at(registry, source)
    done = pushing.copy(
        registry, meant, _target(args.target, meant.listed.record.label), force=args.force,
        monitor=progress.monitor(quiet=args.json),
    )  # fmt: skip
    here, there = meant.listed.remote, done.listed.remote
    commands = [
        f"stackproof image pull {here}",
        f"stackproof image sign --namespace {there.namespace} --label {there.label} {here.label}",
        f"stackproof image push {here.label} {there}",
    ]
    print(
        f"note: a signature of `{here}` is none of `{there}`, which wants one of its own:",
        *(f"  {one}" for one in commands),
        sep="\n",
        file=sys.stderr,
    )
    return _print_moved(done, as_json=args.json, more={"sign": commands})


def run_delete(args: argparse.Namespace) -> int:
    """Delete an image of a registry; print the labels that went."""
    registry, remote = _opened(args.label, args.registry, args.ca, args.token, args.username)
    gone = pushing.delete(registry, _whole(remote), force=args.force)
    if args.json:
        print(json.dumps({"deleted": [str(one) for one in gone]}, indent=1))
    else:
        print("".join(f"deleted  {one}\n" for one in gone), end="")
    return 0


def run_history(args: argparse.Namespace) -> int:
    """Print the images that a label has been of, the newest first."""
    registry, remote = _opened(args.label, args.registry, args.ca, args.token, args.username)
    found = pushing.history(registry, _chosen(registry, remote))
    if args.json:
        rows = [{"until": one.until or None, **_data(one.listed)} for one in found]
        print(json.dumps({"records": rows}, indent=1))
        return 0
    print(f"{'UNTIL':<19}  {'ID':<16}  {'SIZE':>8}  MADE")
    for one in found:
        record = one.listed.record
        row = (f"{one.until or 'now':<19}", record.id, f"{disk_text(record.size):>8}")
        print("  ".join((*row, labels.date_text(record))))
    return 0


def run_rollback(args: argparse.Namespace) -> int:
    """Make a label that of a former image again; print both."""
    registry, remote = _opened(args.label, args.registry, args.ca, args.token, args.username)
    done = pushing.rollback(registry, _whole(remote), args.to)
    return _print_moved(done, as_json=args.json)


def _opened(
    word: str, registry: str, certificates: str, token: str, username: str
) -> tuple[OciRegistry, RemoteLabel]:
    options = RemoteOptions(
        registry=registry, certificates=certificates, token=token, username=username
    )
    return remotes.opened(options), addresses.parse_remote(word)


def _whole(remote: RemoteLabel) -> RemoteLabel:
    """Return a label with the system of this machine where it says none; raises USAGE."""
    found = addresses.inherited(remote, Label(system=places.system()))
    addresses.check_whole(found)
    return found


def _target(text: str, source: Label) -> RemoteLabel:
    return addresses.inherited(addresses.parse_remote(text), source)


def _chosen(registry: OciRegistry, remote: RemoteLabel) -> RemoteLabel:
    """Return the label in full that is meant."""
    if not remote.label.missing:
        return remote
    return catalogue.choose(
        registry, remote, system=places.system(), service=remotes.listing_service()
    ).remote


def _looked_at(
    registry: OciRegistry, remote: RemoteLabel, *, most: int = limits.REGISTRY.count
) -> pulling.RemoteImage:
    """Return the image that is meant: what its tag names now, which a list must agree with."""
    if not remote.label.missing:
        return pulling.look(registry, remote, most=most)
    listed = catalogue.choose(
        registry, remote, system=places.system(), service=remotes.listing_service()
    )
    return pulling.look_again(registry, listed, most=most)


def _print_table(found: Sequence[RemoteRecord], *, with_namespace: bool) -> None:
    names = [str(one.remote if with_namespace else one.record.label) for one in found]
    if names:
        print(f"{'LABEL':<{max(map(len, names))}}  {'ID':<16}  {'SIZE':>8}  DATE")
        print(labels.table([one.record for one in found], names))


def _print_moved(
    done: Pushed, *, as_json: bool, more: Mapping[str, object] = MappingProxyType({})
) -> int:
    progress.end_line()
    if done.first:
        print(
            f"note: the namespace `{done.listed.namespace}` is new: it had no list of images",
            file=sys.stderr,
        )
    if as_json:
        data = {**_data(done.listed), "sent": done.sent, "replaced": done.replaced or None}
        print(json.dumps({**data, **more}, indent=1))
        return 0
    print(f"{done.listed.remote}\n{done.listed.record.digest}  {disk_text(done.sent)} sent")
    return 0


def _data(one: RemoteRecord) -> dict[str, object]:
    """Return a record as `uenv image find --json` prints it, with its namespace and manifest."""
    label, record = one.record.label, one.record
    return {
        "namespace": one.namespace, "name": label.name, "version": label.version,
        "tag": label.tag, "system": label.system, "uarch": label.uarch, "id": record.id,
        "digest": record.digest, "size": record.size, "date": record.date,
        "manifest": one.manifest or None,
    }  # fmt: skip
