"""`stackproof inspect IMAGE`: what an image holds, read without mounting it."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from stackproof.core import harmless, ids, limits, mountlist, noun
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.image import view_variables
from stackproof.image.effects import image_file, tree
from stackproof.image.effects.image_file import load_image, load_superblock
from stackproof.image.model import Image, TreeDigest
from stackproof.image.superblock import Superblock
from stackproof.mount import methods
from stackproof.mount.effects.facts import load_mount_facts
from stackproof.mount.options import InspectOptions
from stackproof.share.effects import judging, naming, signing, verdicts
from stackproof.share.effects.verdicts import AttachedFacts, VerdictFile
from stackproof.share.verdict import AttestedVerdict

# ------------------ What `inspect` shows of what is beside an image: what was measured, who signed

_SHOWN = 3


def attached_rows(found: AttachedFacts) -> list[tuple[str, str]]:
    """Return the verdicts beside an image, and who signed it: a word and a line for each."""
    lines: list[tuple[str, str]] = []
    for one in found.verdicts:
        if one.verdict is not None:
            lines += _measured(one, one.verdict)
        lines += [("measured", _why(problem, one.name)) for problem in one.problems]
    signed = [
        f"{one.said.label} by {one.signed.signer}, {judging.date_text(one.said.date)}, {one.key}"
        for one in found.signatures
    ]
    nobody = "by nobody who is known here" if found.problems else "by nobody"
    lines += _listed("signed", signed or [nobody])
    lines += [("", _why(problem, "a signature")) for problem in found.problems]
    if found.decision is not None:
        lines.append(("policy", judging.policy_text(found.decision)))
    return lines


def attached_parts(path: str) -> tuple[str, ...]:
    """Return name and version of what an image says that it is made of, by its bill of materials.

    What only built others is left out. Raises what reading images raises.
    """
    try:
        components: Any = json.loads(image_file.read_member(path, "meta/bom.cdx.json"))[
            "components"
        ]
        return tuple(
            f"{one['name']} {one['version']}".strip()
            for one in components
            if one.get("scope") != "excluded"
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ()


def _why(problem: Problem, what: str) -> str:
    return f"{what} does not count: {problem.message} [{problem.reason}]"


def _measured(one: VerdictFile, said: AttestedVerdict) -> list[tuple[str, str]]:
    counts = (("pass", said.passed), ("open", said.open), ("fail", said.failed))
    points = ", ".join(f"{len(points)} {word}" for word, points in counts if points)
    where = " ".join(said.machine[key] for key in ("cpu", "fabric") if said.machine.get(key))
    text = f"{said.verdict} beside {said.baseline or 'what it does not say'}"
    about = "; ".join(filter(None, (said.date, where, said.trust)))
    by = f"signed by {', '.join(one.signers)}" if one.signers else "not signed"
    return [("measured", f"{text}; points: {points or 'none'}; {by}"), ("", about)]


def attached_data(found: AttachedFacts) -> dict[str, object]:
    """Return the verdicts beside an image, and who signed it, as JSON."""
    return {
        "verdicts": [_verdict(one) for one in found.verdicts],
        "signatures": judging.signatures_data(found.signatures),
        "problems": _problems(found.problems),
        "policy": judging.policy_data(found.decision),
    }


def _problems(problems: Iterable[Problem]) -> list[object]:
    return [problem.data("note") for problem in problems]


def _verdict(one: VerdictFile) -> dict[str, object]:
    return {
        "name": one.name, "size": one.size, "sha256": one.sha256,
        "signers": list(one.signers), "problems": _problems(one.problems),
        "verdict": one.verdict and noun.to_data(one.verdict),
    }  # fmt: skip


_NOT_HANDED_ON = "no: it holds files of a vendor, which stay at the sites that have them from it"
_OTHER_KINDS = {Reason.IMAGE_NOT_SQUASHFS, Reason.IMAGE_NO_META, Reason.IMAGE_MISSING}


def run(asked: InspectOptions) -> int:
    """Print what an image says of itself."""
    if asked.signers is not None:
        signing.require_signers(asked.signers)
    (path, label), record = naming.image_asked(asked.image), ""
    if path != asked.image and asked.verify == "" and (found := naming.record_of(asked.image)):
        record = found.digest
    digest = None if asked.verify is None else _verified(path, asked.verify or record)
    try:
        image = load_image(path)
    except StackproofError as error:
        raise _other_kind(path, error) or error from None
    if asked.site is not None and not asked.needs:
        raise fail(Reason.USAGE, "`--site` is what `--needs` is held against", hint="say `--needs`")
    if asked.needs:
        from stackproof.mount.cli import needs  # noqa: PLC0415 - reads every program of the image

        return needs.show(path, asked.site, as_json=asked.json)
    head, _ = load_superblock(path)
    if digest:
        image = replace(image, sha256=digest)
    elif asked.digest:
        image = replace(image, sha256=files.sha256(path))
    known = tree.recorded(path) if asked.tree is None else _whole(path, asked.tree)
    facts = load_mount_facts()
    verified = asked.verify is not None
    labels = naming.labels_of(path)
    beside = verdicts.look(path, asked.signers or judging.default_signers(), label=label)
    parts = attached_parts(path) if image.lock_digest else ()
    if asked.json:
        data = _data(image, head, facts, labels, known) | {
            "parts": list(parts), "attached": beside and attached_data(beside),
        }  # fmt: skip
        print(json.dumps(data, indent=1))
    else:
        text = "" if known is None else known.sha256
        said = f"{text}, as found" if asked.tree is not None else text
        print(render(image, head, facts, verified=verified, labels=labels, tree_text=said))
        more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
        rows = [
            ("parts", ", ".join(parts[:_SHOWN]) + more),
            *(attached_rows(beside) if beside else ()),
        ]
        print(_lined(rows), end="\n" if parts or beside else "")
    return 0


def _whole(path: str, wanted: str) -> TreeDigest:
    if wanted:
        _check_digest(wanted)
    return tree.verified(path, wanted)


def _check_digest(text: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise fail(Reason.USAGE, f"`{text[:80]}` is no SHA-256", hint="it has 64 hex digits")


def _other_kind(path: str, error: StackproofError) -> StackproofError | None:
    """Return the error that names a file or folder of another kind of ours; None for any other."""
    from stackproof.image.container.effects import roots  # noqa: PLC0415 - slow, and for failures alone
    from stackproof.inject.effects import named  # noqa: PLC0415 - slow, and for failures alone
    from stackproof.results.model import SPECIFICATION  # noqa: PLC0415

    if error.reason not in _OTHER_KINDS:
        return None
    name = shlex.quote(path)
    records = (f"{path.rstrip('/')}.provenance.json", os.path.join(path, "meta", "provenance.json"))
    record = next(filter(os.path.isfile, records), "")
    if record:
        title, hint = (
            "a pack",
            f"inspect the image that it was made of; `{record}` describes the pack",
        )
    elif os.path.isfile(os.path.join(path, SPECIFICATION)):
        title, hint = "a results folder", f"see `stackproof compare {name}`, or `report {name}`"
    elif named.is_artefact(path):
        title = "an artefact to be injected"
        hint = f"see `stackproof inject check PROGRAM --with {name}`: at which levels it fits"
    elif roots.is_image(path):
        title = "a container's image"
        hint = f"see `stackproof inject check --root {name} --with PREFIX`: what it would load"
    elif path.endswith((".yaml", ".yml")) and os.path.isfile(path):
        title, hint = "a recipe, or another document", f"see `stackproof plan {name}`"
    else:
        return None
    where = Location(file=path)
    return fail(error.reason, f"`{path}` is {title}, no image with views", where=where, hint=hint)


def _verified(path: str, wanted: str) -> str:
    """Return the digest of an image that is the one that was recorded.

    Raises `StackproofError`: IMAGE_DAMAGED, USAGE for what is no digest, FILE_MISSING for none.
    """
    record = f"{path}{files.DIGEST_SUFFIX}"
    if not wanted:
        content = files.read_bounded(
            record,
            limits.SMALL_RECORD,
            hint="name the digest: --verify SHA256, as `build` printed it",
        )
        wanted = content.decode(errors="replace").partition(" ")[0]
    _check_digest(wanted)
    found = files.sha256(path)
    if found != wanted:
        raise fail(
            Reason.IMAGE_DAMAGED,
            f"`{path}` is not what was recorded of it",
            detail=f"recorded sha256 {wanted}\nfound    sha256 {found}",
            where=Location(file=path),
            hint="copy or build it again; if it was replaced on purpose, its record is old",
        )
    return found


def _data(
    image: Image,
    head: Superblock,
    facts: methods.MountFacts,
    labels: Sequence[str] = (),
    known: TreeDigest | None = None,
) -> dict[str, object]:
    ways = {
        way: [problem.message for problem in methods.find_problems(way, facts)]
        for way in methods.TITLES
    }
    return {
        **noun.to_data(image),
        "labels": list(labels),
        "tree": known and noun.to_data(known),
        "squashfs": head.data(),
        "problems-to-mount": ways,
        "variables-to-allow": {
            name: view_variables.list_foreign(image, view) for name, view in image.views.items()
        },
    }


def render(
    image: Image,
    head: Superblock,
    facts: methods.MountFacts,
    *,
    verified: bool = False,
    labels: Sequence[str] = (),
    tree_text: str = "",
) -> str:
    """Return the facts of an image, and how it would be mounted here, for people."""
    way = methods.first(facts)
    rows = [
        ("file", f"{image.path}"),
        *_listed("labels", labels),
        ("size", f"{image.size} bytes, {head.compressor}, {head.inodes} files and folders"),
        ("machine", image.architecture),
        ("mount point", image.mount),
    ]
    if why := mountlist.bad_mount_point(image.mount):
        rows.append(("", f"this cannot be a mount point: {why}"))
    reasons = [one for name in methods.TITLES for one in methods.find_problems(name, facts)]
    rows += _listed(
        "mounted by",
        [methods.TITLES[way]] if way else [f"not here: {one.message}" for one in reasons],
    )
    if image.mpi:
        mpi = image.mpi
        rows.append(
            ("MPI", f"{mpi.family} {mpi.version} in {mpi.prefix}, started by {mpi.launcher}")
        )
    rows += _listed("views", [_view_text(image, name) for name in image.views])
    foreign = [
        f"{name}: {', '.join(variables)}"
        for name, view in image.views.items()
        if (variables := view_variables.list_foreign(image, view))
    ]
    rows += _listed("to allow", [f"{text} (see --allow-variable)" for text in foreign])
    rows += _listed("benchmarks", [f"{item.name}: {item.path}" for item in image.benchmarks])
    rows += [
        ("stack", ids.short(image.stack_id)),
        ("lock", ids.short(image.lock_digest)),
        ("tree", tree_text),
        ("redistribute", "" if image.redistribute else _NOT_HANDED_ON),
        ("SHA-256", f"{image.sha256}, as recorded" if verified else image.sha256),
    ]
    title = f"{image.name}: {image.description}" if image.description else image.name
    return f"{harmless.line(title)}\n{_lined(rows)}"


def _lined(rows: Sequence[tuple[str, str]]) -> str:
    lines = (f"  {label:<12} {text}" for label, text in rows if text)
    return "\n".join(map(harmless.line, lines))


def _view_text(image: Image, name: str) -> str:
    view = image.views[name]
    text = f"{name}: {view.description}".rstrip(": ")
    if view.features:
        text = f"{text} [{', '.join(view.features)}]"
    return f"{text} (default)" if name == image.default_view else text


def _listed(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(label if not number else "", text) for number, text in enumerate(texts)]
