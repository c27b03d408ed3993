"""Try the Slurm plug-in in every kind of job, and print the table.

    python tools/slurm_matrix.py --plugin PLUGIN.so [--nodes 2,4,8] [--only CASE] [--json FILE]
                                 [--set KEY=VALUE]

Starts a cluster with Slurm on this machine for each number of nodes (needs root), runs all cases
one after another, and looks behind each of them whether a mount, loop device, process or file was
left and whether a node was lost. Exit code 1 when a cell of the table is not `ok`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slurm_cases import CASES
from slurm_site import Site, Wrong

ROOT = Path(__file__).resolve().parents[1]
_WITH_MPI = ("salloc mpirun", "mpi srun")


def main() -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--plugin", type=Path, required=True, help="stackproof_spank.so")
    parser.add_argument("--nodes", default="2,4,8", help="numbers of nodes; default: 2,4,8")
    parser.add_argument("--only", action="append", help="run this case alone; may be repeated")
    parser.add_argument(
        "--mpi-image", default="build", help="an MPICH image for /mnt/mpi; `build` or `none`"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a line of slurm.conf"
    )
    parser.add_argument("--name", default="matrix", help="what the clusters' names begin with")
    parser.add_argument("--json", type=Path, help="write the results there too")
    args = parser.parse_args()
    wanted = args.only or list(CASES)
    if args.mpi_image == "none":
        wanted = [name for name in wanted if name not in _WITH_MPI]
    unknown = set(wanted) - set(CASES)
    if unknown:
        parser.error(f"no such case: {sorted(unknown)}; there are: {', '.join(CASES)}")
    table: dict[str, dict[str, str]] = {name: {} for name in wanted}
    with tempfile.TemporaryDirectory(prefix="stackproof-matrix-") as folder:
        image = _mpi_image(args.mpi_image, Path(folder)) if set(wanted) & set(_WITH_MPI) else None
        for nodes in args.nodes.split(","):
            place = Path(folder) / nodes
            place.mkdir()
            if image:
                shutil.copy(image, place / "mpi.squashfs")
            Path(folder).chmod(0o755)
            name = f"{args.name}-{nodes}"
            site = Site(place, nodes=int(nodes), plugin=args.plugin, name=name, settings=args.set)
            for name, cell in _run_all(site, wanted).items():
                table[name][nodes] = cell
    print(render(table))
    if args.json:
        args.json.write_text(json.dumps(table, indent=1) + "\n")
    return int(any(cell != "ok" for row in table.values() for cell in row.values()))


def _run_all(site: Site, wanted: list[str]) -> dict[str, str]:
    cells = dict.fromkeys(wanted, "not run: the cluster did not start")
    try:
        site.up()
        for name in wanted:
            begun = time.monotonic()
            cells[name] = _run_one(site, name)
            seconds = time.monotonic() - begun
            print(f"{site.nodes} nodes, {name}: {cells[name]} ({seconds:.1f} s)", file=sys.stderr)
    except Wrong as wrong:
        print(f"{site.nodes} nodes: {wrong}", file=sys.stderr)
    finally:
        with contextlib.suppress(Wrong):
            site.down()
    return cells


def _run_one(site: Site, name: str) -> str:
    try:
        CASES[name](site)
        site.settle()
    except (Wrong, subprocess.TimeoutExpired) as wrong:
        # What one case left must not be the fault of the next one.
        site.renew()
        return " ".join(str(wrong).split())
    return "ok"


def _mpi_image(choice: str, folder: Path) -> Path | None:
    """Return an image with an MPI for /mnt/mpi, built from the example's recipe if need be."""
    if choice != "build":
        return Path(choice)
    recipe = (ROOT / "recipes" / "mpich.yaml").read_text()
    (folder / "mpich.yaml").write_text(f"{recipe}mount: /mnt/mpi\n")
    argv = [sys.executable, "-m", "stackproof", "build", "mpich.yaml", "-o", "mpich.squashfs"]
    subprocess.run(argv, cwd=folder, check=True, timeout=600)  # noqa: S603 - words of this file
    return folder / "mpich.squashfs"


def render(table: dict[str, dict[str, str]]) -> str:
    """Return the table as Markdown."""
    columns = list(dict.fromkeys(nodes for row in table.values() for nodes in row))
    lines = ["| case | " + " | ".join(f"{nodes} nodes" for nodes in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for name, row in table.items():
        lines.append(f"| {name} | " + " | ".join(row.get(nodes, "") for nodes in columns) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
