"""The verdict of `bench` on an image, as in-toto has results of tests, and back.

The format is that of github.com/in-toto/attestation, spec/predicates/test-result.md: every point of
a curve is a test, PASSED, FAILED, or WARNED where it is undecided. What it was measured against,
when and where stands beside the digest of the specification, as its annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from stackproof.core import limits
from stackproof.core.value import Value
from stackproof.share.attested import attestation
from stackproof.share.attested.attestation import Attestation

PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
_WORDS = {"PASS": "PASSED", "FAIL": "FAILED", "INCONCLUSIVE": "WARNED"}
_LISTS = ("passedTests", "warnedTests", "failedTests")
_TEXTS = ("baseline", "baselineImage", "date", "stackproof", "trust")


class AttestedVerdict(Value):
    """What was measured: `verdict` is PASS, FAIL or INCONCLUSIVE.

    `arms` are those that ran this image, `baseline` what they were held against, in words, with the
    SHA-256 of its image, if it was one. `machine` are facts of where it ran, `trust` says whether
    the launches are as they were made. `passed`, `open` and `failed` name the points.
    `specification` is the digest of `bench.json`.
    """

    verdict: str
    specification: str
    arms: tuple[str, ...] = ()
    baseline: str = ""
    baseline_image: str = ""
    date: str = ""
    stackproof: str = ""
    trust: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)
    margins: Mapping[str, float] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def name_of(specification: str) -> str:
    """Return the name of the document: one for each comparison."""
    return f"verdict-{specification[:8]}{attestation.SUFFIX}"


def report_of(specification: str) -> str:
    """Return the name of the report of the same comparison."""
    return f"report-{specification[:8]}.html"


def attest(said: AttestedVerdict, about: tuple[tuple[str, str], ...]) -> Attestation:
    """Return the statement that files, by name and SHA-256, were measured so."""
    texts = (said.baseline, said.baseline_image, said.date, said.stackproof, said.trust)
    notes: dict[str, Any] = {key: text for key, text in zip(_TEXTS, texts, strict=True) if text}
    notes |= {
        "arms": list(said.arms), "machine": dict(said.machine), "margins": dict(said.margins),
    }  # fmt: skip
    return Attestation(
        about=about,
        predicate_type=PREDICATE,
        predicate={
            "result": _WORDS[said.verdict],
            "configuration": [
                {
                    "name": "bench.json",
                    "digest": {"sha256": said.specification},
                    "mediaType": "application/json",
                    "annotations": notes,
                }
            ],
            **{
                key: list(tests)
                for key, tests in zip(_LISTS, (said.passed, said.open, said.failed), strict=True)
            },
        },
    )


def parse(found: Attestation, *, file: str) -> AttestedVerdict:
    """Return the result in a statement of a comparison; raises WRONG_TYPE for any other."""
    result = found.predicate.get("result")
    listed = found.predicate.get("configuration")
    if result not in _WORDS.values() or not isinstance(listed, list):
        raise attestation.malformed(file, "this result of tests has no result, or no configuration")
    tests = [_tests(found.predicate.get(key), file) for key in _LISTS]
    first = listed[0] if listed and isinstance(listed[0], dict) else {}
    digests, notes = (
        one if isinstance(one := first.get(key), dict) else {} for key in ("digest", "annotations")
    )
    texts = {key: text for key in _TEXTS if isinstance(text := notes.get(key), str)}
    return AttestedVerdict(
        verdict=next(word for word, other in _WORDS.items() if other == result),
        specification=str(digests.get("sha256", "")),
        arms=_tests(notes.get("arms"), file),
        baseline=texts.get("baseline", ""),
        baseline_image=texts.get("baselineImage", ""),
        date=texts.get("date", ""),
        stackproof=texts.get("stackproof", ""),
        trust=texts.get("trust", ""),
        machine={
            key: value for key, value in _pairs(notes.get("machine")) if isinstance(value, str)
        },
        margins={
            key: float(value)
            for key, value in _pairs(notes.get("margins"))
            if isinstance(value, int | float)
        },
        passed=tests[0],
        open=tests[1],
        failed=tests[2],
    )


def _pairs(data: object) -> list[tuple[str, Any]]:
    return list(data.items()) if isinstance(data, dict) else []


def _tests(data: object, file: str) -> tuple[str, ...]:
    listed = [] if data is None else data
    if not isinstance(listed, list) or len(listed) > limits.ATTESTED.count:
        raise attestation.malformed(file, "a list of it is none, or too long")
    return tuple(one for one in listed if isinstance(one, str))
