"""How long `stackproof --version` takes, beside a Python that does nothing.

    python benchmarks/version.py [COUNT]

COUNT runs of each (default 30) in turns. The command should answer in under 100 ms.
"""

from __future__ import annotations

import sys
from pathlib import Path

from turns import in_turns, show


def main() -> None:
    """Time the three programs."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    programs: dict[str, list[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -m stackproof --version": [sys.executable, "-m", "stackproof", "--version"],
    }
    script = Path(sys.executable).parent / "stackproof"
    if script.exists():
        programs["stackproof --version"] = [str(script), "--version"]
    show(in_turns(programs, count), base="python -c pass")


if __name__ == "__main__":
    main()
