"""What `stackproof run IMAGE -- true` costs over a bare `true`.

    python benchmarks/run_image.py IMAGE [COUNT]

COUNT runs of each (default 20) in turns: bare `true`, a Python that does nothing, the command with
the mount that is permitted here, and the remote-start program that ranks on a node go through.
Peers are timed where they are installed: `bwrap` around `true`, and `squashfuse_ll` with a mount
point on this machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

from stackproof.mount.effects import mount_exec
from turns import in_turns, show


def main() -> None:
    """Time the programs on the image given."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    image = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    module = [sys.executable, "-m", "stackproof"]
    inspect = [*module, "inspect", image, "--json"]
    told = subprocess.run(inspect, check=True, capture_output=True, text=True)
    mount = json.loads(told.stdout)["mount"]
    programs: dict[str, list[str]] = {
        "true": ["true"],
        "python -c pass": [sys.executable, "-c", "pass"],
        "stackproof run IMAGE -- true": [*module, "run", image, "--", "true"],
        "mountexec IMAGE:MOUNT -- true": [
            sys.executable, "-I", "-S", mount_exec.__file__, f"{image}:{mount}", "--", "true",
        ],
    }  # fmt: skip
    if shutil.which("bwrap"):
        programs["bwrap --ro-bind / / true"] = ["bwrap", "--ro-bind", "/", "/", "true"]
    show(in_turns(programs, count), base="true")


if __name__ == "__main__":
    main()
