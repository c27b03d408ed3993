"""`stackproof import FILE… -o RESULTS`: outputs of OSU and IMB become results to report on.

One call takes the files of one placement; with `--add` further calls add other arms, other paths
and other placements to the same results.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from stackproof.bench.effects.import_files import import_files
from stackproof.bench.options import ImportOptions
from stackproof.core.errors import ExitCode


def run(options: ImportOptions) -> int:
    """Read the files, write the results folder, and say what does not count."""
    imported = import_files(options, command=tuple(sys.argv))
    for note in imported.notes:
        print(f"note: {note}", file=sys.stderr)
    output = Path(options.output)
    print(f"{output}: {imported.usable} of {imported.tables} tables can be used")
    print(f"next: stackproof report {shlex.quote(str(output))}", file=sys.stderr)
    return int(ExitCode.DONE)
