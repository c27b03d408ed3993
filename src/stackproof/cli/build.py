"""`stackproof build RECIPE`: from a recipe to a SquashFS image."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from stackproof import noun
from stackproof.cli import progress, stacks
from stackproof.errors import Reason, fail
from stackproof.executor import deliver, execute
from stackproof.host import toolchain
from stackproof.planner import lock_digest, plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    stacks.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="image to write; default: NAME.squashfs"
    )
    parser.add_argument(
        "--update", action="store_true", help="make a new lock even if the old one is valid"
    )
    parser.add_argument(
        "--locked", action="store_true", help="fail instead of making or changing a lock"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Build the image; a second build with nothing changed does no work and says so."""
    loaded = stacks.load_recipe(args)
    target = Path(args.output or f"{loaded.stack.name}.squashfs")
    _check_target(target)
    _check_machine(loaded.stack.architecture)
    monitor = progress.monitor()
    lock = stacks.ensure_lock(loaded, monitor, update=args.update, locked=args.locked)
    built = execute(plan(loaded.wheel, lock, loaded.sources), loaded.stack.engine, monitor)
    written = deliver(built, target)
    if args.json:
        data = {
            "image": str(target),
            "sha256": built.sha256,
            "size": built.size,
            "plan": built.plan_id,
            "lock": lock_digest(lock),
            "steps_run": built.ran,
            "written": written,
        }
        print(noun.to_json(data), end="")
        return 0
    if not built.ran and not written:
        print(f"{target}: nothing to do, the image is up to date", file=sys.stderr)
    print(f"{target}  {built.size / 1e6:.1f} MB  sha256 {built.sha256}")
    return 0


def _check_target(target: Path) -> None:
    """Refuse at once what would fail after minutes of work."""
    if target.is_dir():
        raise fail(Reason.USAGE, f"`{target}` is a folder", hint="name a file with -o")
    parent = target.parent
    if not parent.is_dir():
        raise fail(
            Reason.FILE_MISSING, f"the folder `{parent}` does not exist", hint="make it first"
        )
    if not os.access(parent, os.W_OK):
        raise fail(
            Reason.NOT_PERMITTED,
            f"no right to write into `{parent}`",
            hint="choose another place with -o",
        )


def _check_machine(architecture: str) -> None:
    here = toolchain.architecture()
    if architecture != here:
        raise fail(
            Reason.UNSUPPORTED,
            f"this machine is {here}; an image for {architecture} is built on such a machine",
            hint="`stackproof plan --site` works anywhere; run `build` at the site",
        )
