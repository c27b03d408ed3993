"""What `--image` adds to a step of Slurm, on 1, 2, 4 and 8 nodes of a cluster on this machine.

    python benchmarks/slurm_step.py PLUGIN.so [--before OLD.so] [--count N] [--megabytes N]
                                    [--nodes 1,2,4,8]

Needs root and Slurm. COUNT times (default 20) in turns, on all nodes of the cluster, one task
each: `srun true`, `srun --image=IMAGE true` and the same without a view, and `srun` of the program
that mounts without a plug-in (`mountexec`) around `true`; and steps with another build of the
plug-in, put into plugstack.conf for their turns. Nothing is timed but srun itself: the loop runs on
the login node.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mount_cost import MOUNT, make_tree, mount_point
from stackproof.mount.effects import mount_exec
from turns import milliseconds, show

CLUSTER = "slurm-step"
PLUGSTACK = "/etc/slurm/plugstack.conf"


def measure(image: str, nodes: int, count: int, plugins: list[str]) -> None:
    """Time the steps; runs on the login node."""
    srun = ["srun", f"--nodes={nodes}", f"--ntasks={nodes}"]
    mounts = f"{image}:{MOUNT}"
    script = [sys.executable, "-I", "-S", mount_exec.__file__, mounts, "--", "true"]
    new, *old = plugins
    programs = {
        "srun true": (new, [*srun, "true"]),
        "srun --image=IMAGE true": (new, [*srun, f"--image={image}", "true"]),
        "  with --view=none": (new, [*srun, f"--image={mounts}", "--view=none", "true"]),
        "srun mountexec IMAGE -- true": (new, [*srun, *script]),
    }
    for plugin in old:
        programs["before: srun true"] = (plugin, [*srun, "true"])
        programs["before: srun --image=IMAGE true"] = (plugin, [*srun, f"--image={image}", "true"])
    print(f"{nodes} nodes, load {os.getloadavg()[0]:.1f}:")
    times: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(count + 1):  # the first one is not counted
        for name, (plugin, argv) in programs.items():
            Path(PLUGSTACK).write_text(f"required {plugin}\n")
            taken = milliseconds(argv)
            times[name] += [taken] if turn else []
    show(times, base="srun true")
    base = times["srun true"]
    for name, values in times.items():
        added = statistics.median(b - a for a, b in zip(base, values, strict=True))
        print(f"{name:34} adds {added:6.1f} ms")


def main() -> None:
    """Bring clusters up one after the other and measure in each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plugin", metavar="PLUGIN.so")
    parser.add_argument("--before", metavar="OLD.so", help="another build, to compare with")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--nodes", default="1,2,4,8")
    parser.add_argument("--inside", nargs=2, metavar=("IMAGE", "NODES"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        plugins = [args.plugin, *([args.before] if args.before else [])]
        measure(args.inside[0], int(args.inside[1]), args.count, plugins)
        return
    stackproof = [sys.executable, "-m", "stackproof", "cluster"]
    plugin = os.path.abspath(args.plugin)
    before = [f"--before={os.path.abspath(args.before)}"] if args.before else []
    with (
        mount_point(),
        tempfile.TemporaryDirectory(prefix="stackproof-step-", dir="/var/tmp") as folder,
    ):
        Path(folder).chmod(0o755)
        image = Path(folder, "image.squashfs")
        tree = make_tree(Path(folder), args.megabytes)
        pack = ["mksquashfs", str(tree), str(image), "-comp", "zstd", "-noappend", "-quiet"]
        subprocess.run([*pack, "-no-progress"], check=True, stdout=subprocess.DEVNULL)
        for nodes in args.nodes.split(","):
            up = ["up", "--slurm", f"--nodes={nodes}", f"--name={CLUSTER}", f"--spank={plugin}"]
            subprocess.run([*stackproof, *up], check=True, stdout=subprocess.DEVNULL)
            try:
                inside = [
                    sys.executable,
                    os.path.abspath(__file__),
                    plugin,
                    f"--count={args.count}",
                    *before,
                ]
                words = [*inside, "--inside", str(image), nodes]
                entered = [*stackproof, "exec", f"--name={CLUSTER}", "--", *words]
                subprocess.run(entered, check=True)
            finally:
                subprocess.run([*stackproof, "down", f"--name={CLUSTER}"], check=True)


if __name__ == "__main__":
    main()
