"""How stackproof and Stackinator agree on a collection of recipes, and how long each takes.

    python benchmarks/stackinator_corpus.py --recipes COLLECTION --v1 PEER CLUSTERS \\
        --v2 PEER CLUSTERS --v3 PEER CLUSTERS [--json FILE]

COLLECTION is a checkout of recipes with a `config.yaml` that names targets (`uenvs: NAME: VERSION:
recipes: UARCH: PATH`), PEER a checkout of the branch of Stackinator for that version of the recipe
language, CLUSTERS the cluster configurations it works with. Every recipe is read on a cluster that
has its microarchitecture, by both. What both accept is compared in meaning: packages, compilers,
environments and views. Times are of one recipe within a process that has everything imported, once
it was read before: on our side from its files to the plan that locks it (every file for Spack
rendered, every step with its id), on the peer's from its files to what its templates are given. The
peer is run from its checkout; nothing of it is part of this project.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from stackproof.build.engines.spack.effects.stackinator import load
from stackproof.build.engines.spack.engine import ENGINE, clones_as_named
from stackproof.build.engines.spack.lockplan import lock_plan
from stackproof.build.engines.spack.stack import (
    PATH_VARIABLES,
    SpackEnvironment,
    SpackStack,
    SpackView,
)
from stackproof.core.document import Document
from stackproof.core.errors import StackproofError

# Runs in the peer's checkout: one line of JSON for each line of input. The mount point need not be
# there: its absence says nothing of a recipe.
PEER = r"""
import argparse, json, logging, pathlib, sys, time, types
try:
    import magic
except ImportError:
    sys.modules["magic"] = types.ModuleType("magic")
import jinja2, yaml
from stackinator import recipe as recipes, schema
logging.disable(logging.CRITICAL)
is_dir = pathlib.Path.is_dir
mounts = {pathlib.Path("/user-environment"), pathlib.Path("/user-tools")}
pathlib.Path.is_dir = lambda path: path in mounts or is_dir(path)

def hooks(recipe):
    jenv = jinja2.Environment(loader=jinja2.FileSystemLoader(recipe.path))
    mount = str(recipe.mount)
    env = dict(mount=mount, config=mount + "/config", build="/build", spack="/build/spack")
    names = [n for n in ("pre-install", "post-install") if (recipe.path / n).is_file()]
    return {n: jenv.get_template(n).render(env=env, verbose=False) + "\n" for n in names}

def meaning(recipe):
    found = {"compilers": recipe.compilers, "environments": recipe.environments}
    found["hooks"] = hooks(recipe)
    found["views"] = recipe.environment_view_meta
    if hasattr(recipe, "spack_yaml"):
        recipe.spack_yaml
        found["modules"] = recipe.modules
        found["packages"] = recipe.packages["build"]["packages"]
    else:
        recipe.compiler_files, recipe.environment_files
        if isinstance(recipe.packages, dict) and "global" in recipe.packages:
            found["modules"] = recipe.modules
            gcc, others = recipe.packages["gcc"], recipe.packages["global"]
            found["packages"] = gcc["packages"] | others["packages"]
        else:
            system = recipe.system_config_path / "packages.yaml"
            there = yaml.safe_load(system.open()) if system.is_file() else {"packages": {}}
            found["packages"] = there["packages"]
            found["packages"].update((recipe.packages or {}).get("packages", {}))
    return found

for line in sys.stdin:
    path, site = json.loads(line)
    args = argparse.Namespace(recipe=path, system=site, build="/tmp/none", mount=None, cache=None,
        mirror=None, develop=False, spack_version=None, no_bwrap=False)
    try:
        recipes.Recipe(args)
        started = time.perf_counter()
        found = meaning(recipes.Recipe(args))
        answer = {"seconds": time.perf_counter() - started, "meaning": found}
    except BaseException as error:
        answer = {"error": (type(error).__name__ + ": " + " ".join(str(error).split()))[:300]}
    print(json.dumps(answer, default=str), flush=True)
"""

Target = tuple[str, str, str, str]


def targets(collection: Path) -> Iterator[Target]:
    """Yield stack, version, microarchitecture and folder of every target of a collection."""
    config = yaml.safe_load((collection / "config.yaml").read_text())
    for name, versions in config["uenvs"].items():
        for version, body in versions.items():
            for uarch, path in body["recipes"].items():
                below = collection / "recipes"
                own = below / name / path
                yield name, str(version), uarch, str(own if own.is_dir() else below / path)


def cluster_of(collection: Path, target: Target, clusters: Path) -> str:
    """Return the folder of a cluster that has a target's microarchitecture, its own one first."""
    config = yaml.safe_load((collection / "config.yaml").read_text())
    name, version, uarch, _ = target
    deploy = config["uenvs"][name][version].get("deploy") or {}
    having = [cluster for cluster, kinds in deploy.items() if uarch in kinds]
    for cluster, body in config["clusters"].items():
        if any(kind["uarch"] == uarch for kind in body["targets"]):
            having.append(cluster)
    folders = [clusters / cluster for cluster in having if (clusters / cluster).is_dir()]
    if not folders:
        raise SystemExit(f"no cluster in {clusters} has {uarch}")
    return str(folders[0])


def version_of(folder: str) -> int:
    """Return the version of the language that a recipe is written in."""
    return int(yaml.safe_load((Path(folder) / "config.yaml").read_text()).get("version", 1))


def ask_peer(peer: Path, pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the peer's answers to recipes on clusters."""
    lines = "".join(json.dumps(pair) + "\n" for pair in pairs)
    with tempfile.NamedTemporaryFile("w", suffix=".py") as worker:
        worker.write(PEER)
        worker.flush()
        done = subprocess.run(
            [sys.executable, worker.name],
            input=lines,
            env={**os.environ, "PYTHONPATH": str(peer)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=900,
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask_us(pair: tuple[str, str], root: Path) -> dict[str, Any]:
    """Return our answer to a recipe on a cluster: the stack, and how long its plan takes."""
    try:
        _plan(pair, root)
        started = time.perf_counter()
        stack, steps = _plan(pair, root)
    except StackproofError as error:
        return {"error": str(error)}
    return {"seconds": time.perf_counter() - started, "stack": stack, "steps": len(steps)}


def _plan(pair: tuple[str, str], root: Path) -> tuple[SpackStack, list[str]]:
    """Return a recipe's stack and the ids of the steps that lock it; raises all its problems."""
    stack = load(pair[0], site=pair[1], root=str(root), architecture="x86_64").stack
    found = ENGINE.problems(stack, None, Document(file="", data=None, positions={}).where).problems
    if found:
        raise StackproofError(*found)
    plan = lock_plan(stack, tuple(clones_as_named(stack)))
    return stack, [step.id for step in plan.steps]


def differences(stack: SpackStack, peer: dict[str, Any]) -> list[str]:
    """Return in which parts a stack means something else than the peer's generated files."""
    found = [key for key, same in _parts(stack, peer).items() if not same]
    environments = {n: e for n, e in peer["environments"].items() if n != "uenv_tools"}
    clones = {name for name in environments if name.endswith("__")}
    ours = {environment.name: environment for environment in stack.environments}
    if set(environments) - clones != set(ours):
        return [*found, "environments"]
    for name, environment in ours.items():
        theirs = environments[name]
        views = theirs.get("views") or []
        if stack.generation == 1:
            copies = [c for c in clones if c.rpartition("-")[0] == name]
            all_views = (environments[n].get("view") for n in [name, *copies])
            views = [view for view in all_views if view]
        found += [f"{name}.{key}" for key in _environment(environment, theirs, stack.generation)]
        found += [f"{name}.views.{key}" for key in _views(environment.views, views)]
    return found


def _parts(stack: SpackStack, peer: dict[str, Any]) -> dict[str, bool]:
    compilers = {c.name: set(_plain(c.specs)) for c in stack.compilers if not c.external}
    theirs = {
        name: set(_plain(s for s in body["specs"] if not s.startswith("squashfs")))
        for name, body in peer["compilers"].items()
        if not body.get("system")
    }
    hooks = {"pre-install": stack.pre_install, "post-install": stack.post_install}
    modules = peer.get("modules")
    if modules is not None:
        modules["modules"].setdefault("default", {}).setdefault("arch_folder", False)
    return {
        "packages": dict(stack.packages) == peer["packages"],
        "compilers": compilers == theirs,
        "hooks": {name: text for name, text in hooks.items() if text} == peer["hooks"],
        "modules": stack.generation == 1
        or (modules or {}).get("modules") == (stack.modules and dict(stack.modules)),
        "variables": stack.generation == 1
        or {v.name: _variables(v) for e in stack.environments for v in e.views}
        == {name: _their_variables(view) for name, view in peer["views"].items()},
    }


def _plain(specs: Any) -> list[str]:
    return [" ".join(spec.replace("+ ", "+").split()) for spec in specs]


def _environment(ours: SpackEnvironment, theirs: dict[str, Any], generation: int) -> list[str]:
    pairs = {
        "specs": (set(ours.specs), set(theirs["specs"])),
        "unify": (ours.unify, str(theirs["unify"]).lower()),
        "deprecated": (ours.deprecated, theirs["deprecated"]),
        "variants": (list(ours.variants), theirs["variants"]),
        "packages": (list(ours.find_external), theirs["packages"] if generation < 3 else []),
    }
    if generation == 1:
        mpi = theirs["mpi"] or {}
        pairs["mpi"] = (ours.mpi_requirement, mpi.get("spec"))
        compilers = [entry["spec"] for entry in theirs["compiler"]]
        pairs["compiler"] = (list(ours.compiler_specs), compilers)
        pairs["require"] = (list(ours.require_one_of), theirs["toolchain_constraints"])
    else:
        pairs["mpi"] = (ours.mpi, theirs["mpi"])
        pairs["compiler"] = (list(ours.compilers), theirs["compiler"])
        pairs["prefer"] = (list(ours.prefer), theirs["prefer"])
        pairs["duplicates"] = (ours.duplicates, theirs["duplicates"]["strategy"])
    return [key for key, (mine, other) in pairs.items() if mine != other]


def _views(ours: tuple[SpackView, ...], theirs: list[dict[str, Any]]) -> list[str]:
    mine = {
        view.name: (
            view.link,
            view.select,
            view.exclude,
            view.add_compilers,
            {key: list(value) for key, value in view.prefix_paths.items()},
        )
        for view in ours
    }
    others = {
        view["name"]: (
            view["config"]["link"],
            tuple(view["config"].get("select", ())),
            tuple(view["config"].get("exclude", ())),
            view["extra"]["add_compilers"],
            view["extra"]["prefix_paths"],
        )
        for view in theirs
    }
    return [] if mine == others else ["links"]


def _variables(view: SpackView) -> dict[str, Any]:
    """Return the changes of a view in the peer's form; it empties where we unset a list."""
    scalars: dict[str, str | None] = {}
    lists: dict[str, list[Any]] = {}
    prefixes = {change.variable for change in view.changes if change.op in {"prepend", "append"}}
    for change in view.changes:
        if change.op in {"prepend", "append"}:
            lists.setdefault(change.variable, []).append([change.op, [change.value]])
        elif change.op == "unset" and change.variable in {*prefixes, *PATH_VARIABLES}:
            lists.setdefault(change.variable, []).append(["set", []])
        else:
            scalars[change.variable] = change.value if change.op == "set" else None
    return {"list": lists, "scalar": scalars}


def _their_variables(view: dict[str, Any]) -> dict[str, Any]:
    recorded = view["recipe_variables"]
    lists = {
        name: [[update["op"], update["value"]] for update in updates]
        for name, updates in recorded["list"].items()
    }
    return {"list": lists, "scalar": recorded["scalar"]}


def compare(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one row for every target."""
    sides = {1: args.v1, 2: args.v2, 3: args.v3}
    collection = Path(args.recipes)
    rows: list[dict[str, Any]] = []
    for version, side in sides.items():
        peer, clusters = (Path(path).resolve() for path in side)
        chosen = [t for t in targets(collection) if version_of(t[3]) == version]
        pairs = [(os.path.realpath(t[3]), cluster_of(collection, t, clusters)) for t in chosen]
        for target, pair, theirs in zip(chosen, pairs, ask_peer(peer, pairs), strict=True):
            ours = ask_us((target[3], pair[1]), collection)
            row = {
                "target": f"{target[0]}/{target[1]}:{target[2]}",
                "cluster": Path(pair[1]).name,
                "version": version,
                "peer": theirs.get("error", "accepted"),
                "stackproof": ours.get("error", "accepted"),
                "seconds": ours.get("seconds"),
                "peer_seconds": theirs.get("seconds"),
                "steps": ours.get("steps"),
            }
            if "stack" in ours and "meaning" in theirs:
                row["differences"] = differences(ours["stack"], theirs["meaning"])
            rows.append(row)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print where the two differ, what is rejected and why, and the figures."""
    for row in rows:
        if row.get("differences"):
            print(f"{row['target']}: differs in {', '.join(row['differences'])}")
        if "accepted" not in {row["peer"], row["stackproof"]} or row["peer"] != row["stackproof"]:
            print(f"{row['target']} on {row['cluster']} (version {row['version']})")
            print(f"  peer:       {row['peer']}")
            print("  stackproof: " + row["stackproof"].replace("\n", "\n    "))
    print("version  targets  peer accepts  both  only peer  only we  planned  same meaning")
    for version in (1, 2, 3):
        part = [row for row in rows if row["version"] == version]
        counts = Counter((r["peer"] == "accepted", r["stackproof"] == "accepted") for r in part)
        same = sum(row.get("differences") == [] for row in part)
        planned = sum(bool(row["steps"]) for row in part)
        both, only_peer = counts[True, True], counts[True, False]
        print(
            f"{version:7}  {len(part):7}  {both + only_peer:12}  {both:4}  {only_peer:9}  "
            f"{counts[False, True]:7}  {planned:7}  {same:12}"
        )
    show_times(rows)


def show_times(rows: list[dict[str, Any]]) -> None:
    """Print how long both take: median, the middle 80 % and the slowest, in milliseconds."""
    timed = [row for row in rows if row["seconds"] and row["peer_seconds"]]
    if len(timed) < 2:
        return
    print("milliseconds  median  10 %  90 %  slowest")
    for name, key in (("stackproof", "seconds"), ("peer", "peer_seconds")):
        times = sorted(row[key] * 1e3 for row in timed)
        tenths = statistics.quantiles(times, n=10)
        print(
            f"{name:12}  {statistics.median(times):6.1f}  {tenths[0]:4.1f}  {tenths[-1]:4.1f}  "
            f"{times[-1]:7.1f}"
        )
    ratio = statistics.median(row["seconds"] / row["peer_seconds"] for row in timed)
    print(f"median ratio of the two: {ratio:.2f}")


def main() -> None:
    """Compare, print, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipes", required=True)
    for version in (1, 2, 3):
        names = ("PEER", "CLUSTERS")
        parser.add_argument(f"--v{version}", nargs=2, metavar=names, required=True)
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = compare(args)
    show(rows)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
