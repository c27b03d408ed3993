"""Where launches are written down."""

from __future__ import annotations

from pathlib import Path

from stackproof.core import noun
from stackproof.core.effects import files
from stackproof.core.value import Value
from stackproof.results.effects.ledger import Ledger
from stackproof.results.measurement import Measurement
from stackproof.results.model import LAUNCHES


class Record(Value, kw_only=False):
    """Where launches are written down: a results folder, and its chain if it has one."""

    folder: Path
    chain: Ledger | None

    def keep(self, name: str, measurement: Measurement) -> None:
        """Write a launch as a file of this name."""
        path = self.folder / LAUNCHES / name
        if self.chain is None:
            files.write(path, noun.to_json(measurement))
        else:
            self.chain.write(path, measurement)
