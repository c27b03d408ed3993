"""`stackproof image sign | verify`: who answers for an image, and whether it still is that one."""

from __future__ import annotations

import json
import os
import shlex
import sys

from stackproof.core import harmless
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.image.effects.image_file import load_head
from stackproof.share import labels
from stackproof.share.effects import judging, naming, signing
from stackproof.share.effects.judging import ImageJudgement
from stackproof.share.options import ImageSignOptions, ImageVerifyOptions


def run_sign(asked: ImageSignOptions) -> int:
    """Sign an image, and print under which label and where the signature is."""
    path = naming.image_file(asked.image)
    load_head(path)  # a file that is not there is told before what it lacks to be signed
    known = naming.record_of(asked.image) if path != asked.image else None
    label = asked.label or (str(known.label) if known is not None else "")
    if not label or labels.parse(label).missing:
        raise fail(
            Reason.USAGE,
            f"`{asked.image}` is to be signed as what? it lacks a label with all five parts",
            hint="say it: --label mpich/5.0.2:v1@daint%zen2",
        )
    label = str(labels.parse(label))
    if asked.namespace and not labels.is_label(asked.namespace):
        raise fail(Reason.USAGE, f"`{asked.namespace}` is no namespace", hint="as build, or deploy")
    if asked.namespace:
        label = f"{asked.namespace}::{label}"
    said = signing.state(path, label)
    key = asked.key or signing.default_key()
    place = signing.sign(path, said, key)
    if not os.path.isfile(judging.default_signers()):
        public = shlex.quote(f"{key.removesuffix('.pub')}.pub")
        believe = signing.BELIEVE.format(key=public)
        print(f"note: `image verify` believes nobody here yet: {believe}", file=sys.stderr)
    if asked.json:
        print(json.dumps({"label": label, "sha256": said.image, "signature": str(place)}, indent=1))
    else:
        print(f"{label}\n{said.image}  {place}")
    return 0


def run_verify(asked: ImageVerifyOptions) -> int:
    """Print who signed images, and what the policy of this site says of them."""
    signers = asked.signers or judging.default_signers()
    if asked.record and not asked.images:
        return _renew(signers, as_json=asked.json)
    if not asked.images:
        raise fail(Reason.USAGE, "say which image", hint="`stackproof image ls` lists the labels")
    found: list[ImageJudgement] = []
    problems: list[Problem] = []
    for word in asked.images:
        try:
            path, label = naming.image_asked(word)
            load_head(path)  # a file that is not there is no unsigned image
            one = judging.judge(os.path.abspath(path), signers, label=label)
            refused = judging.refusal(one)
            if refused is not None:
                raise refused
            found.append(replace(one, records=judging.record(one)) if asked.record else one)
        except StackproofError as error:
            problems += error.problems
    if asked.json:
        print(json.dumps({"images": [_data(one) for one in found]}, indent=1))
    for one in found:
        _print(one, as_json=asked.json)
    if problems:
        raise StackproofError(*problems)
    return 0


def _renew(signers: str, *, as_json: bool) -> int:
    rows = judging.renew(signers)
    if as_json:
        data = [{"path": path, "kept": not why, "why": why or None} for path, why in rows]
        print(json.dumps({"records": data}, indent=1))
        return 0
    for path, why in rows:
        print(f"{'forgotten' if why else 'kept':<10}  {path}{f'  {why}' if why else ''}")
    return 0


def _print(one: ImageJudgement, *, as_json: bool) -> None:
    for problem in one.problems:
        print(problem.worded("note"), file=sys.stderr)
    for text in one.notes:
        print(f"warning: {harmless.line(text)}", file=sys.stderr)
    if as_json:
        return
    print(one.image)
    for good in one.good:
        said = good.said
        date = judging.date_text(said.date)
        print(f"  {said.label}  signed by {good.signed.signer}, {date}, {good.key}")
    decision = one.decision
    if decision is not None:
        file = sys.stdout if decision.reason is None else sys.stderr
        print(f"  policy: {judging.policy_text(decision)}", file=file)
    for name in one.records:
        print(f"  recorded: {name}")


def _data(one: ImageJudgement) -> dict[str, object]:
    return {
        "path": one.image, "asked": one.label or None,
        "signatures": judging.signatures_data(one.good),
        "problems": [problem.data("note") for problem in one.problems],
        "notes": list(one.notes),
        "policy": judging.policy_data(one.decision),
        "records": list(one.records),
    }  # fmt: skip
