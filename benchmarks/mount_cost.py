"""What a command pays for an image of 500 MB in front of it, beside the other tools for that.

    python benchmarks/mount_cost.py [--megabytes N] [--count N]
        [--only WORD] [--helper PROGRAM] [--before PROGRAM]
        [--squashfs-mount PROGRAM] [--apptainer PROGRAM]

COUNT runs of `true` (default 20) in turns: bare; by `stackproof run` and by the remote-start
program (`mountexec`), each with a loop device (as root) and with squashfuse; by `stackproof-mount`
in each of its ways (`--helper`, or on PATH), and by another build of it (`--before`), with the
ratio of the two in the same turns; `--only stackproof-mount` leaves out all else. On a busy machine
`chrt -f 50` gives them the processor first. Peers run where they are installed or named:
squashfs-mount, `ch-run`, `podman run --rootfs` (a folder with the same tree, since it mounts no
SquashFS), apptainer. The image is made here: its data do not compress, and it has the folders that
containers need.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stackproof.mount.effects import methods, mount_exec
from turns import in_turns, show

MOUNT = "/user-environment"
BEFORE = "before: "
CONTAINER_FOLDERS = ("dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "usr", "var")


def make_tree(folder: Path, megabytes: int) -> Path:
    """Make a tree of files of 1 MB that do not compress, and a container's folders."""
    tree = folder / "tree"
    for name in CONTAINER_FOLDERS:
        (tree / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (tree / name).symlink_to(f"usr/{name}")
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (tree / "etc" / name).touch()
    (tree / "meta").mkdir()
    facts = {"name": "cost", "mount": MOUNT, "views": {}}
    (tree / "meta" / "env.json").write_text(json.dumps(facts))
    (tree / "data").mkdir()
    for number in range(megabytes):
        (tree / "data" / f"{number:04}").write_bytes(os.urandom(10**6))
    return tree


@contextmanager
def mount_point() -> Iterator[None]:
    """Have the mount point on this machine for a while: most tools make none."""
    made = os.geteuid() == 0 and not os.path.exists(MOUNT)
    if made:
        os.mkdir(MOUNT)
    try:
        yield
    finally:
        if made:
            os.rmdir(MOUNT)


def programs(image: Path, tree: Path, args: argparse.Namespace) -> dict[str, list[str]]:
    """Return the command lines to time, by name."""
    found = {"true": ["true"]}
    ways = ["fuse", *(["kernel"] if methods.kernel_permitted() else [])]
    mounts = f"{image}:{MOUNT}"
    for way in ways:
        run = [sys.executable, "-m", "stackproof", "run", mounts, "--no-view", "--how", way]
        found[f"stackproof run ({way})"] = [*run, "--", "true"]
        script = [sys.executable, "-I", "-S", mount_exec.__file__, "--how", way]
        found[f"mountexec ({way})"] = [*script, mounts, "--", "true"]
    for name, helper in (("", args.helper or "stackproof-mount"), (BEFORE, args.before or "")):
        for way in ("root", "setuid", "userns") if shutil.which(helper) else ():
            argv = [helper, f"--way={way}", f"--images={mounts}", "--", "true"]
            if subprocess.run(argv, check=False, capture_output=True).returncode == 0:
                found[f"{name}stackproof-mount ({way})"] = argv
    found |= peers(image, tree, args)
    return {name: argv for name, argv in found.items() if _works(name, argv)}


def peers(image: Path, tree: Path, args: argparse.Namespace) -> dict[str, list[str]]:
    """Return the command lines of the other tools for that, by name."""
    found = {}
    mounts = f"{image}:{MOUNT}"
    peer = shutil.which(args.squashfs_mount or "squashfs-mount")
    if peer:
        found["squashfs-mount"] = [peer, mounts, "--", "true"]
    charliecloud = shutil.which("ch-run")
    if charliecloud:
        environment = ["env", "USER=nobody", "HOME=/root"]
        bind = [charliecloud, "--no-passwd", "--bind=/usr:/usr"]
        source = image if _mounts_squashfs(charliecloud) else tree
        name = "ch-run" if source == image else "ch-run (of the folder)"
        found[name] = [*environment, *bind, str(source), "--", "/usr/bin/true"]
    podman = shutil.which("podman")
    if podman:
        found["podman (of the folder)"] = _podman(podman, tree)
    apptainer = shutil.which(args.apptainer or "apptainer")
    if apptainer:
        found["apptainer"] = [apptainer, "exec", "--bind=/usr", str(image), "/usr/bin/true"]
    return found


def _podman(program: str, tree: Path) -> list[str]:
    """Return the command line of podman, which gets configuration and storage of its own.

    The limits that it sets by default are those of a whole machine: within a container or a batch
    job, where fewer are permitted, it does not start (containers.conf(5), `default_ulimits`). For
    processes it takes pid_max for its own first (getDefaultProcessLimits of containers/common).
    """
    folder = tree.parent / "podman"
    (folder / "run").mkdir(parents=True)
    processes = int(Path("/proc/sys/kernel/pid_max").read_text())
    limits = [
        _limit("nofile", resource.getrlimit(resource.RLIMIT_NOFILE)),
        _limit("nproc", resource.getrlimit(resource.RLIMIT_NPROC), most=processes),
    ]
    configuration = folder / "containers.conf"
    configuration.write_text(
        f"[containers]\ndefault_ulimits = [{', '.join(limits)}]\n"
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n'
    )
    # vfs: another storage driver leaves a mount behind.
    storage = ["--storage-driver=vfs", f"--root={folder}/storage", f"--runroot={folder}/run"]
    options = ["--rm", "--network=none", "--cgroups=enabled", "--volume=/usr:/usr:ro"]
    start = ["env", f"CONTAINERS_CONF={configuration}", program, *storage, "run", *options]
    return [*start, "--rootfs", str(tree), "/usr/bin/true"]


def _limit(name: str, limits: tuple[int, int], most: int = 1 << 20) -> str:
    """Return soft and hard limit of a resource for containers.conf, none as `most`."""
    soft, hard = (min(limit if limit >= 0 else most, most) for limit in limits)
    return f'"{name}={soft}:{hard}"'


def _mounts_squashfs(charliecloud: str) -> bool:
    libraries = subprocess.run(["ldd", charliecloud], capture_output=True, text=True, check=False)
    return "squashfuse" in libraries.stdout


def _works(name: str, argv: list[str]) -> bool:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"left out: {name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return done.returncode == 0


def _interval_of_median(ordered: Sequence[float]) -> tuple[float, float]:
    """Return where 95 of 100 medians would lie, from the order of the values alone."""
    away = math.ceil(0.98 * math.sqrt(len(ordered)))
    middle = len(ordered) // 2
    return ordered[max(middle - away, 0)], ordered[min(middle + away, len(ordered) - 1)]


def main() -> None:
    """Make the image, time the programs, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--only", metavar="WORD", default="", help="those with it in their name")
    for peer in ("helper", "before", "squashfs-mount", "apptainer"):
        parser.add_argument(f"--{peer}", metavar="PROGRAM")
    args = parser.parse_args()
    with (
        mount_point(),
        tempfile.TemporaryDirectory(prefix="stackproof-mount-cost-", dir="/var/tmp") as folder,
    ):
        Path(folder).chmod(0o755)
        image = Path(folder, "image.squashfs")
        tree = make_tree(Path(folder), args.megabytes)
        pack = ["mksquashfs", tree, image, "-comp", "zstd", "-noappend", "-no-progress", "-quiet"]
        subprocess.run([*map(str, pack)], check=True, stdout=subprocess.DEVNULL)
        print(f"image of {image.stat().st_size / 1e6:.0f} MB, {args.count} runs of each")
        found = programs(image, tree, args)
        timed = {name: argv for name, argv in found.items() if name == "true" or args.only in name}
        times = in_turns(timed, args.count)
        show(times, base="true")
        for name in (name for name in times if BEFORE + name in times):
            pairs = zip(times[name], times[BEFORE + name], strict=True)
            ratios = sorted(new / old for new, old in pairs)
            low, high = _interval_of_median(ratios)
            print(
                f"{name} against the build before: {statistics.median(ratios):.3f} "
                f"(95 % of medians: {low:.3f} to {high:.3f})"
            )


if __name__ == "__main__":
    main()
