"""`stackproof plan RECIPE`: the resolved stack and every step, before anything is done."""

from __future__ import annotations

import argparse

from stackproof import noun
from stackproof.cli import progress, stacks
from stackproof.ids import short
from stackproof.planner import plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    stacks.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print stack, lock and steps as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan; a lock is made when there is none, but not written."""
    loaded = stacks.load_recipe(args)
    lock = stacks.valid_lock(loaded) or stacks.make_lock(loaded, progress.monitor())
    made = plan(loaded.wheel, lock, loaded.sources)
    if args.json:
        data = {
            "schema": made.SCHEMA,
            "id": made.id,
            "stack": noun.to_data(loaded.stack),
            "lock": noun.to_data(lock),
            "steps": [{"id": step.id, **noun.to_data(step)} for step in made.steps],
        }
        print(noun.to_json(data), end="")
        return 0
    stack = loaded.wheel
    print(f"stack    {stack.name} {stack.version}  {stack.description}")
    print(f"engine   {stack.engine}")
    print(f"machine  {stack.architecture}, {stack.site_facts.get('compiler', '')}")
    print(f"mount    {stack.mount}")
    print(f"views    {', '.join(view.name for view in stack.views)}")
    for artefact in lock.artefacts:
        print(f"file     {artefact.filename}  sha256 {artefact.sha256}")
    print(f"plan     {short(made.id)}")
    for number, step in enumerate(made.steps, 1):
        print(f"  {number}. {short(step.id)}  {step.name:<10} {step.description}")
    return 0
