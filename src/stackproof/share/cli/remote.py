"""`stackproof image find | pull | push | copy | delete | history | rollback`: with registries."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from stackproof.core import harmless, limits
from stackproof.core.cli import progress
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.numbers import disk_text
from stackproof.image.effects.image_file import load_superblock
from stackproof.share import addresses, labels
from stackproof.share.cli import image
from stackproof.share.effects import (
    carrying,
    catalogue,
    naming,
    oci,
    places,
    pulling,
    pushing,
)
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.pushing import Pushed
from stackproof.share.labels import Label, LabelRecord, RemoteLabel
from stackproof.share.options import (
    ImageCopyOptions,
    ImageDeleteOptions,
    ImageFindOptions,
    ImageHistoryOptions,
    ImagePullOptions,
    ImagePushOptions,
    ImageRollbackOptions,
    RemoteOptions,
)


def run_find(asked: ImageFindOptions) -> int:
    """Print the images of a namespace whose labels have the parts that are said."""
    registry, remote = _opened(asked.label, asked.remote)
    if asked.known:
        found = catalogue.remembered(registry.address, remote.namespace if asked.label else "")
    else:
        found = catalogue.find(
            registry, remote.namespace, service=oci.listing_service(), fresh=asked.fresh
        )
    chosen = labels.matching(found, remote.label, system=places.system(), beginning=True)
    if asked.json:
        print(json.dumps({"records": [_data(one) for one in chosen]}, indent=1))
    elif asked.names:
        print("".join(f"{one.remote}\n" for one in chosen), end="")
    else:
        _print_table(chosen, with_namespace=not asked.label)
    if not chosen:
        guess = "" if asked.known else catalogue.hint_at_namespaces(registry, remote)
        print(f"{guess}{_none(remote, len(found), known=asked.known)}", file=sys.stderr)
    return 0


def _none(remote: RemoteLabel, others: int, *, known: bool) -> str:
    """Return the hint for an image that is not there as it was asked for."""
    if others:
        return f"there is no image `{remote}`: {others} others"
    if known:
        return "nothing was listed from here yet: `stackproof image find` asks the registry"
    return f"the namespace `{remote.namespace}` has no image"


def run_pull(asked: ImagePullOptions) -> int:
    """Bring an image into the repository; print its label and digest."""
    registry, remote = _opened(asked.label, asked.remote)
    with registry.client.within(limits.PULL_METADATA):
        meant = _looked_at(registry, remote, most=limits.ATTACHED.count)
        carried = carrying.fetch(registry, meant)
    for note in carried.notes:
        print(f"warning: {harmless.line(note)}", file=sys.stderr)
    carrying.admit(meant, carried, lambda text: print(f"warning: {text}", file=sys.stderr))
    done = pulling.pull(
        registry, meant, places.own(), force=asked.force, monitor=progress.monitor(quiet=asked.json)
    )
    progress.end_line()
    carrying.put(done.record.file, carried)
    if asked.json:
        data = {**image.data(done.record), "manifest": meant.listed.manifest}
        print(json.dumps({**data, "received": done.received}, indent=1))
    else:
        print(f"{done.record.label}\n{done.record.digest}  {done.record.file}")
    return 0


def run_push(asked: ImagePushOptions) -> int:
    """Put an image into a registry; print its label there."""
    registry, remote = _opened(asked.label, asked.remote)
    path = naming.image_file(asked.image)
    load_superblock(path)  # a file that is not there is told before what its label lacks
    known = naming.record_of(asked.image) if path != asked.image else None
    like = known.label if known is not None else Label(system=places.system())
    done = pushing.push(
        registry, path, addresses.inherited(remote, like), force=asked.force,
        monitor=progress.monitor(quiet=asked.json),
    )  # fmt: skip
    carrying.send(registry, pulling.look(registry, done.listed.remote), path)
    return _print_moved(done, as_json=asked.json)


def run_copy(asked: ImageCopyOptions) -> int:
    """Give an image of a registry another label; print it, and how to sign a signed one as that."""
    registry, source = _opened(asked.source, asked.remote)
    meant = _looked_at(registry, source)
    done = pushing.copy(
        registry, meant, _target(asked.target, meant.listed.label), force=asked.force,
        monitor=progress.monitor(quiet=asked.json),
    )  # fmt: skip
    here, there = meant.listed.remote, done.listed.remote
    commands = [
        f"stackproof image pull {here}",
        f"stackproof image sign --namespace {there.namespace} --label {there.label} {here.label}",
        f"stackproof image push {here.label} {there}",
    ]
    if not any(attached.kind == carrying.SIGNATURE for _, attached in meant.attached):
        return _print_moved(done, as_json=asked.json, more={"sign": []})
    print(
        f"note: a signature of `{here}` is none of `{there}`, which wants one of its own:",
        *(f"  {one}" for one in commands),
        sep="\n",
        file=sys.stderr,
    )
    return _print_moved(done, as_json=asked.json, more={"sign": commands})


def run_delete(asked: ImageDeleteOptions) -> int:
    """Delete an image of a registry; print the labels that went."""
    registry, remote = _opened(asked.label, asked.remote)
    gone = pushing.delete(registry, _whole(remote), force=asked.force)
    if asked.json:
        print(json.dumps({"deleted": [str(one) for one in gone]}, indent=1))
    else:
        print("".join(f"deleted  {one}\n" for one in gone), end="")
    return 0


def run_history(asked: ImageHistoryOptions) -> int:
    """Print the images that a label has been of, the newest first."""
    registry, remote = _opened(asked.label, asked.remote)
    found = pushing.history(registry, _chosen(registry, remote))
    if asked.json:
        rows = [{"until": one.until or None, **_data(one.listed)} for one in found]
        print(json.dumps({"records": rows}, indent=1))
        return 0
    print(f"{'UNTIL':<19}  {'ID':<16}  {'SIZE':>8}  MADE")
    for one in found:
        record = one.listed
        row = (f"{one.until or 'now':<19}", record.id, f"{disk_text(record.size):>8}")
        print("  ".join((*row, labels.date_text(record))))
    return 0


def run_rollback(asked: ImageRollbackOptions) -> int:
    """Make a label that of a former image again; print both."""
    registry, remote = _opened(asked.label, asked.remote)
    done = pushing.rollback(registry, _whole(remote), asked.to)
    return _print_moved(done, as_json=asked.json)


def _opened(word: str, options: RemoteOptions) -> tuple[OciRegistry, RemoteLabel]:
    return oci.opened(options), addresses.parse_remote(word)


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
        registry, remote, system=places.system(), service=oci.listing_service()
    ).remote


def _looked_at(
    registry: OciRegistry, remote: RemoteLabel, *, most: int = limits.REGISTRY.count
) -> pulling.RemoteImage:
    """Return the image that is meant: what its tag names now, which a list must agree with."""
    system = places.system()
    try:
        if not remote.label.missing:
            return pulling.look(registry, remote, most=most)
        listed = catalogue.choose(registry, remote, system=system, service=oci.listing_service())
        return pulling.look_again(registry, listed, most=most)
    except StackproofError as error:
        if error.reason is not Reason.IMAGE_MISSING:
            raise
        hint = catalogue.hint_at_namespaces(registry, remote, system=system)
        problem = error.problems[0]
        raise StackproofError(replace(problem, hint=f"{hint}{problem.hint or ''}")) from error


def _print_table(found: Sequence[LabelRecord], *, with_namespace: bool) -> None:
    names = [str(one.remote if with_namespace else one.label) for one in found]
    if names:
        print(f"{'LABEL':<{max(map(len, names))}}  {'ID':<16}  {'SIZE':>8}  DATE")
        print(labels.table(found, names))


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
    print(f"{done.listed.remote}\n{done.listed.digest}  {disk_text(done.sent)} sent")
    return 0


def _data(one: LabelRecord) -> dict[str, object]:
    """Return a record as `uenv image find --json` prints it, with its namespace and manifest."""
    return {
        "namespace": one.namespace, **image.list_fields(one),
        "manifest": one.manifest or None,
    }  # fmt: skip
