"""The evidence of a diagnosis with what it was taken from, as one archive, and back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import stackproof
from stackproof.core import limits, noun, secrets
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import replace
from stackproof.doctor import bundle
from stackproof.doctor.effects.collect import Collected, said
from stackproof.doctor.evidence.results import implied
from stackproof.doctor.options import DoctorOptions
from stackproof.knowledge.evidence import Evidence, merged, redacted
from stackproof.knowledge.model import Knowledge
from stackproof.results.measurement import Measurement, State
from stackproof.results.model import Results

_LAUNCHES_KEPT = 500
_PROBES_KEPT = 50


def write(path: str, collected: Collected, diagnosis: Mapping[str, Any], text: str) -> int:
    """Write everything to one archive, without secrets; raises what writing files raises.

    Returns how many values were left out for that; `removed.json` says where, and of which kind.
    """
    logs = {
        f"logs/{number:03}.txt": name
        for number, name in enumerate(sorted(collected.evidence.logs), 1)
    }
    members = {member: collected.evidence.logs[name] for member, name in logs.items()}
    empty = dict.fromkeys(collected.evidence.logs, "")
    data: dict[str, Any] = {
        "evidence.json": noun.to_data(replace(collected.evidence, logs=empty)),
        "logs.json": logs,
        "diagnosis.json": {key: one for key, one in diagnosis.items() if key != "evidence"},
    }
    for name, one in (
        ("capture.json", collected.capture),
        ("site.json", collected.site),
        ("image.json", collected.image),
    ):
        if one is not None:
            data[name] = noun.to_data(one)
    if collected.results is not None:
        data["results.json"] = _summary(collected.results)
    if collected.bill:
        data["image-bom.json"] = _json(collected.bill)
    for name, value in data.items():
        clean = secrets.data_without_secrets(value)
        members[name] = json.dumps(clean, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    members["diagnosis.txt"] = redacted(text)
    removed = [entry for name in sorted(members) for entry in secrets.removed(name, members[name])]
    members["removed.json"] = noun.to_json([noun.to_data(entry) for entry in removed])
    about = {"stackproof": stackproof.__version__, "taken": collected.evidence.taken}
    # Names and settings of a user are theirs to pass on.
    files.write(path, bundle.pack(members, about), mode=0o600)
    return len(removed)


def replay(file: str, options: DoctorOptions, knowledge: Knowledge) -> Collected:
    """Return the evidence of a bundle, or of the one JSON file that bundles were before.

    Raises `StackproofError`: USAGE for what cannot be added to it, and what `bundle.unpack` raises.
    """
    for name in ("image", "site", "results", "env", "probe", "program"):
        if getattr(options, name):
            raise fail(
                Reason.USAGE,
                f"--replay takes all evidence from its file; leave `{name}` out",
                hint="logs, versions and facts can be added with --log, --have and --fact",
            )
    content = files.read_bounded(file, limits.BUNDLE, hint="this is no bundle of doctor")
    if bundle.is_archive(content):
        texts = bundle.unpack(content, file=file)
        evidence = _evidence(texts, file)
    elif not content.lstrip().startswith((b"{", b"[")):
        raise fail(
            Reason.INVALID_VALUE,
            f"`{file}` is no bundle: it is neither an archive nor JSON",
            where=Location(file=file),
            hint="name a file that `stackproof doctor --bundle FILE` wrote; logs go to --log",
        )
    else:
        evidence = noun.from_json(Evidence, content, file=file)
    logs = {name: redacted(text) for name, text in evidence.logs.items()}
    evidence = merged(replace(evidence, logs=logs), said(options, knowledge))
    return Collected(evidence=merged(evidence, implied(evidence)))


def _evidence(texts: Mapping[str, str], file: str) -> Evidence:
    if "evidence.json" not in texts:
        raise fail(
            Reason.INVALID_VALUE,
            "the bundle has no `evidence.json`",
            where=Location(file=file),
            hint="ask for the bundle again: `stackproof doctor --bundle FILE` writes one",
        )
    evidence = noun.from_json(Evidence, texts["evidence.json"], file=f"{file}: evidence.json")
    names = _json(texts.get("logs.json", "{}"))
    if not isinstance(names, dict):
        return evidence
    logs = {
        name: texts[member]
        for member, name in names.items()
        if member in texts and name in evidence.logs
    }
    return replace(evidence, logs={**evidence.logs, **logs})


def _json(text: str) -> Any:
    """Return what a JSON text says, None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _summary(results: Results) -> dict[str, Any]:
    """Return what was measured and how each launch went, without the samples."""
    return {
        "spec": noun.to_data(results.spec),
        "launches": len(results.measurements),
        "first-launches": [_launch(one) for one in results.measurements[:_LAUNCHES_KEPT]],
        "first-probes": [noun.to_data(one) for one in results.paths[:_PROBES_KEPT]],
        "unreadable": [problem.message for problem in results.problems],
    }


def _launch(one: Measurement) -> dict[str, Any]:
    return {
        "arm": one.arm,
        "block": one.block,
        "program": one.case.program,
        "placement": one.case.placement.name,
        "transport": one.case.transport,
        "seconds": one.seconds,
        "mpi": one.output.mpi_library[:200],
        "series": len(one.output.series),
        "argv": [os.fspath(word) for word in one.argv],
        "variables": dict(one.env),
        "not-good": [
            {"check": check.name, "state": check.state.value, "evidence": check.evidence}
            for check in one.checks
            if check.state is not State.OK
        ],
    }
