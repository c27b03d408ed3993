"""`stackproof inject prove`: run what was predicted, and show that it came true."""

from __future__ import annotations

from pathlib import Path

from stackproof.core import noun
from stackproof.core.cli import progress
from stackproof.core.errors import ExitCode
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
    from stackproof.prove.effects.prove import prove  # noqa: PLC0415 - `inject check` has no use of it

    proven = prove(asked, Path(asked.output), progress.monitor())
    text = noun.to_json(proven) if asked.json else prove_model.render(proven)
    print(text, end="")
    return int(_CODES[proven.answer])
