"""`stackproof inject prove`: run what was predicted, and show that it came true."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stackproof.bench.amounts import duration_given
from stackproof.core import noun
from stackproof.core.cli import progress
from stackproof.core.errors import ExitCode, Reason, fail
from stackproof.prove import model as prove_model
from stackproof.prove.model import ProofOutcome
from stackproof.prove.options import ProveRequest

_CODES = {
    ProofOutcome.PROVEN: ExitCode.DONE,
    ProofOutcome.WRONG: ExitCode.WORSE,
    ProofOutcome.UNKNOWN: ExitCode.UNKNOWN,
}


def run(asked: ProveRequest) -> int:
    """Judge and run every arm; exit code 0 when proven, 8 when not, 9 when it cannot be told."""
    from stackproof.prove.effects.arms import ProveOptions  # noqa: PLC0415
    from stackproof.prove.effects.prove import prove  # noqa: PLC0415 - `inject check` has no use of it

    wait = asked.wait_for_quiet
    options = ProveOptions(
        program=asked.command[0],
        replacement=asked.replacement,
        arguments=asked.command[1:],
        own=asked.own,
        wrong=asked.wrong,
        ranks=asked.ranks,
        launches=asked.launches,
        cluster=asked.cluster,
        timeout_s=asked.timeout_s,
        variables=_variables(asked.variables),
        expect=asked.expect,
        transport=asked.transport,
        wait_s=None if wait is None else duration_given("--wait-for-quiet", wait),
    )
    proven = prove(options, Path(asked.output), progress.monitor())
    text = noun.to_json(proven) if asked.json else prove_model.render(proven)
    print(text, end="")
    return int(_CODES[proven.answer])


def _variables(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (sign and name.isidentifier()):
            raise fail(Reason.USAGE, f"`{text}` is not NAME=VALUE")
        found[name] = value
    return found
