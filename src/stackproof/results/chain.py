"""Launches as a chain: what was planned, every record with the digest of the one before it.

A results folder holds, beside its launches,

    chain/plan.json      what was planned, written before the first launch
    chain/N.jsonl        a line for every record of allocation N: number, file, digest
    chain/statement.json digests of all that counts, and its signature beside it, on request

A record names the plan and the record before it by their digests, so that a record cannot be
changed, left out, put in or moved without the next one telling. The last record is told by the
line for it alone. Whoever may write the folder can make the whole chain anew: only a signature
tells that (docs/explanation/results-as-evidence.md).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from msgspec import field

from stackproof.core import noun
from stackproof.core.ids import canonical_json
from stackproof.core.value import Value
from stackproof.results.measurement import Link, Measurement
from stackproof.results.model import ResultsSpec
from stackproof.results.trust import ChainState, Doubt, DoubtKind

NAMESPACE = "stackproof-results"
"""What a signature is for, in the words of `ssh-keygen -Y sign -n`."""

_KEPT = (
    "name", "baseline", "challengers", "null", "margins", "launches", "minimum_launches", "seed",
    "limits",
)  # fmt: skip
"""What of a specification may not change once launches are made."""

_KEPT_OF_ARM = ("image_sha256", "lock_digest", "mpi", "view", "transport", "env", "rate")


class ResultsPlan(Value):
    """What was planned: `asked` is the digest of spec.json, `promised` the words of bench.json."""

    SCHEMA: ClassVar[str] = "stackproof/plan-of-results/1"

    asked: str
    promised: Mapping[str, Any] = field(default_factory=dict)


class ChainLink(Value):
    """A line of a chain: the record's number, its file, the digest of its bytes."""

    number: int
    file: str
    sha256: str


class LaunchFile(Value):
    """A launch file as it is now; `aside` says that it lies among those that were set aside."""

    file: str
    sha256: str
    measurement: Measurement
    aside: bool = False


class Signature(Value):
    """What a signature says: who signed, or why it does not hold."""

    holds: bool
    text: str
    asked: bool = False


class DigestChain(Value):
    """The chain of a results folder as it was found.

    `plan` is None and `entries` are empty where there is none. `asked` is the digest of spec.json
    as it is now. `unreadable` names launch files that cannot be read.
    """

    plan: ResultsPlan | None = None
    plan_sha256: str = ""
    asked: str = ""
    entries: Mapping[int, tuple[ChainLink, ...]] = field(default_factory=dict)
    records: tuple[LaunchFile, ...] = ()
    unreadable: tuple[str, ...] = ()
    signature: Signature | None = None


class SignedStatement(Value):
    """What is signed: digests of the plan, of bench.json, of the probes, and of every chain's end.

    `heads` maps an allocation to the number of its records and the digest of the last one.
    """

    SCHEMA: ClassVar[str] = "stackproof/statement-of-results/1"

    plan: str
    specification: str
    heads: Mapping[str, tuple[int, str]]
    probes: Mapping[str, str] = field(default_factory=dict)


def promised(spec: ResultsSpec) -> dict[str, Any]:
    """Return what of a specification may not change once launches are made."""
    data = noun.to_data(spec)
    kept = {key: data[key] for key in _KEPT}
    if spec.equal:  # left out otherwise, as results that are older than it have it
        kept["equal"] = True
    kept["arms"] = {
        name: {key: arm[key] for key in _KEPT_OF_ARM} for name, arm in data["arms"].items()
    }
    kept = json.loads(canonical_json(kept))  # as it is read again
    return cast("dict[str, Any]", kept)


def state_of(chain: DigestChain, spec: ResultsSpec) -> ChainState:
    """Return whether the chain of results holds; there is none in old and imported ones."""
    links = [one for one in chain.records if one.measurement.link is not None]
    if chain.plan is None and not chain.entries and not links:
        return ChainState(
            there=False,
            sentence="these launches are no hash chain, so that nobody can tell whether they are "
            "all that were made, and as they were made",
            doubts=tuple(_signature_doubts(chain)),
            signed=_signed(chain),
        )
    doubts = (*_plan_doubts(chain, spec), *_record_doubts(chain), *_signature_doubts(chain))
    count = sum(map(len, chain.entries.values()))
    many = f", in {len(chain.entries)} parts" if len(chain.entries) > 1 else ""
    holds = "does not hold" if doubts else "holds"
    signed = _signed(chain)
    whose = (
        signed or "nobody signed it: anyone who may write to the folder could have made it again"
    )
    return ChainState(
        there=True,
        sentence=f"the hash chain of {count} launches{many} {holds}; {whose}",
        doubts=doubts,
        signed=signed,
    )


def _signed(chain: DigestChain) -> str:
    return chain.signature.text if chain.signature and chain.signature.holds else ""


def _doubt(kind: DoubtKind, text: str) -> Doubt:
    return Doubt(kind=kind, text=text)


def _signature_doubts(chain: DigestChain) -> Iterator[Doubt]:
    if chain.signature is not None and not chain.signature.holds:
        yield _doubt(DoubtKind.SIGNATURE, chain.signature.text)


def _plan_doubts(chain: DigestChain, spec: ResultsSpec) -> Iterator[Doubt]:
    """Yield where what is said to have been planned is not what was."""
    if chain.plan is None:
        yield _doubt(DoubtKind.CHAIN, "what was planned (chain/plan.json) is missing")
        return
    if chain.asked != chain.plan.asked:
        yield _doubt(DoubtKind.SPECIFICATION, "spec.json was edited after launches were made")
    plans = {one.measurement.link.plan for one in chain.records if one.measurement.link}
    if plans - {chain.plan_sha256}:
        yield _doubt(
            DoubtKind.SPECIFICATION,
            "launches name another plan than chain/plan.json: it was edited",
        )
    before, now = chain.plan.promised, promised(spec)
    for key in sorted({*before, *now} - {"arms"}):
        if before.get(key) != now.get(key):
            yield _doubt(DoubtKind.SPECIFICATION, _changed(key, before.get(key), now.get(key)))
    arms_before, arms_now = before.get("arms", {}), now["arms"]
    for name in dict.fromkeys((*arms_before, *arms_now)):
        old, new = arms_before.get(name), arms_now.get(name)
        if new is None or old is None:
            what = "was struck from" if new is None else "was put into"
            yield _doubt(DoubtKind.SPECIFICATION, f"the arm `{name}` {what} the specification")
        elif old != new:
            keys = [key for key in _KEPT_OF_ARM if old.get(key) != new.get(key)]
            words = "; ".join(_changed(key, old.get(key), new.get(key)) for key in keys)
            yield _doubt(DoubtKind.SPECIFICATION, f"the arm `{name}`: {words}")


def _changed(key: str, before: object, now: object) -> str:
    return f"`{key}` was planned as {_shown(before)} and is now {_shown(now)}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items()) or "nothing"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "nothing"
    return "nothing" if value is None or value == "" else f"{value}"


# --- records --------------------------------------------------------------------------------


def _record_doubts(chain: DigestChain) -> Iterator[Doubt]:
    """Yield every record that is missing, edited, doubled, put in or moved."""
    by_digest: dict[str, LaunchFile] = {}
    at_place = {(e.sha256, e.file) for entries in chain.entries.values() for e in entries}
    for one in sorted(chain.records, key=lambda one: (one.sha256, one.file) in at_place):
        by_digest[one.sha256] = one  # of two copies the one at its place
    by_file = {one.file: one for one in chain.records if not one.aside}
    planned = {one.sha256 for entries in chain.entries.values() for one in entries}
    last = {one.file: one for entries in chain.entries.values() for one in entries}
    for number, entries in sorted(chain.entries.items()):
        yield from _numbers(number, entries)
        for entry in entries:
            found = by_digest.get(entry.sha256)
            if found is None:
                yield _absent(entry, by_file.get(entry.file), planned, chain.unreadable)
            elif not found.aside and found.file != entry.file:
                yield _doubt(
                    DoubtKind.SWAPPED,
                    f"launch {entry.number} ({entry.file}) lies at `{found.file}` now",
                )
            elif found.aside and last[entry.file] is entry:
                yield _doubt(
                    DoubtKind.MISSING,
                    f"{_name(entry, found)} was set aside, and was not made again",
                )
        yield from _followers(chain, entries, by_digest)
    links = [one.measurement.link for one in chain.records if one.measurement.link]
    for number in sorted({link.chain for link in links if link.number > 1} - {*chain.entries}):
        yield _doubt(
            DoubtKind.CHAIN, f"the lines of the launches (chain/{number}.jsonl) are missing"
        )
    yield from _strangers(chain, planned)


def _numbers(number: int, entries: tuple[ChainLink, ...]) -> Iterator[Doubt]:
    if [one.number for one in entries] != list(range(1, len(entries) + 1)):
        yield _doubt(DoubtKind.CHAIN, f"lines of chain/{number}.jsonl are missing or moved")


def _absent(
    entry: ChainLink, there: LaunchFile | None, planned: set[str], unreadable: tuple[str, ...]
) -> Doubt:
    if there is None and entry.file not in unreadable:
        return _doubt(DoubtKind.MISSING, f"launch {entry.number} ({entry.file}) is missing")
    if there is not None and there.sha256 in planned:
        text = f"launch {entry.number} ({entry.file}) was replaced by a copy of another launch"
        return _doubt(DoubtKind.DOUBLED, text)
    return _doubt(DoubtKind.EDITED, f"{_name(entry, there)} was edited: it is not what was written")


def _name(entry: ChainLink, record: LaunchFile | None) -> str:
    if record is None:
        return f"launch {entry.number} ({entry.file})"
    one = record.measurement
    where = f"{one.arm}, block {one.block}, {one.case.placement.name}"
    return f"launch {entry.number} ({entry.file}: {where})"


def _followers(
    chain: DigestChain, entries: tuple[ChainLink, ...], by_digest: Mapping[str, LaunchFile]
) -> Iterator[Doubt]:
    """Yield the records that follow another one than the chain says."""
    previous = chain.plan_sha256
    for entry in entries:
        found = by_digest.get(entry.sha256)
        link = found.measurement.link if found else None
        if found is not None and (link is None or link.number != entry.number):
            text = f"{_name(entry, found)} is not the launch that was written at this place"
            yield _doubt(DoubtKind.CHAIN, text)
        elif found is not None and link is not None and link.previous != previous:
            text = f"{_name(entry, found)} does not follow the record before it as that is now"
            yield _doubt(DoubtKind.CHAIN, text)
        previous = entry.sha256


def _strangers(chain: DigestChain, planned: set[str]) -> Iterator[Doubt]:
    """Yield the records that no line of a chain names."""
    heads = {
        number: entries[-1].sha256 if entries else chain.plan_sha256
        for number, entries in chain.entries.items()
    }
    files = {one.file for entries in chain.entries.values() for one in entries}
    seen = Counter(one.sha256 for one in chain.records)
    for one in chain.records:
        link = one.measurement.link
        if link is not None and link.number > 1 and link.chain not in chain.entries:
            continue  # told for all of them at once
        if seen[one.sha256] > 1 and one.file not in files:
            seen[one.sha256] = 1
            yield _doubt(DoubtKind.DOUBLED, f"`{one.file}` is there twice, byte for byte")
        if one.sha256 in planned or one.file in files:
            continue  # told already, where it is edited
        if link is not None and link.previous == heads.get(link.chain, chain.plan_sha256):
            continue  # written, and then the machine stopped: the line for it was never made
        yield _doubt(DoubtKind.ADDED, f"`{one.file}` is no launch of the chain: it was put in")


def next_link(chain: int, plan_sha256: str, entries: tuple[ChainLink, ...]) -> Link:
    """Return the place of the next record."""
    last = entries[-1] if entries else None
    return Link(
        plan=plan_sha256,
        number=last.number + 1 if last else 1,
        previous=last.sha256 if last else plan_sha256,
        chain=chain,
    )
