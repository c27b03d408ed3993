"""Everything that is generated for a stack of each generation: Spack's files, steps, metadata.

After a wanted change write it again:
STACKPROOF_WRITE_GOLDEN=1 python -m pytest tests/build/test_spack_golden.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from spackstacks import clones, lock_files, spliced, stack
from stackproof.build.engines.spack import buildplan, configuration, lockplan, locks
from stackproof.build.engines.spack.stack import Caches, Compiler, Mirror, SpackStack
from stackproof.build.plan import Plan, Step

COVERS = (
    "build/engines/spack/compilers.py",
    "build/engines/spack/environments.py",
    "build/engines/spack/lockplan.py",
    "build/engines/spack/recipe.py",
)

FOLDER = Path(__file__).parents[1] / "golden" / "spack"
# Whole copies of what other tests look at.
AS_LOCKED = ("spack.lock", "meta/lock.json", "meta/stack.json", "apps.json", "gcc.json")
CACHES = Caches(
    mirrors=(
        Mirror(name="cache", kind="buildcache", settings={"url": "/scratch/cache", "signed": True}),
        Mirror(name="sources", kind="source", settings={"url": "https://example.org/sources"}),
    ),
    private_key="/home/user/key.gpg",
    source_cache="/scratch/sources",
    concretizer_cache="/scratch/solutions",
)
STACKS = {
    "generation-1": stack(1),
    "generation-2": stack(2),
    "generation-3": stack(3),
    "generation-3-site-gcc": stack(
        3, compilers=(Compiler(name="gcc", specs=(), external=True),), modules=None, cleanup="none"
    ),
    "spliced": spliced(),
    "spliced-generation-1": spliced(1),
}


def text_of(one: Step) -> str:
    """Return a step without ids, which change with every version of the layout."""
    lines = [f"## {one.name}: {one.description}"]
    flags = [name for name in ("network", "resumes") if getattr(one, name)]
    lines.append(f"{' '.join(flags)} {one.reports}".strip() or "no network")
    lines += [f"clone {c.url} {c.commit} {c.folder}" for c in one.clones]
    lines += [f"copy {path} {copy.sha256[:8]}" for path, copy in sorted(one.copies.items())]
    for command in one.commands:
        lines.append(f"run {' '.join(command.argv)}")
    for place, files in (("store", one.files), ("build", one.build_files)):
        for path, text in sorted(files.items()):
            told = "(as it was locked)" if path.endswith(AS_LOCKED) else stable(text)
            lines += [f"--- {place}/{path}", told]
    return "\n".join(lines)


def stable(text: str) -> str:
    """Return a text without digests of the whole stack and without our version."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "<digest>", text)
    text = re.sub(r"urn:uuid:[0-9a-f-]{36}", "<uuid>", text)
    return re.sub(r'"stackproof": \{\s*"version": "[^"]*"', '"stackproof": {"version": "*"', text)


def document(of: SpackStack) -> str:
    files = lock_files(of)
    parts = ["# lock", *(text_of(one) for one in lock_steps(of, files))]
    lock = lockplan.read_lock(of, clones(of), files)
    build = buildplan.build_plan(of, lock, CACHES, csrc={"bench.c": "int main(void) { return 0; }"})
    parts += ["# build", *(text_of(one) for one in build.steps if one.name != "setup")]
    settings = configuration.cache_settings(of, CACHES, jobs=64)
    parts.append("# machine")
    parts += [f"--- build/{path}\n{text}" for path, text in sorted(settings.build_files.items())]
    parts += [f"bind {b.source} {b.target} {'rw' if b.writable else 'ro'}" for b in settings.binds]
    return "\n\n".join(parts) + "\n"


def lock_steps(of: SpackStack, files: dict[str, bytes]) -> list[Step]:
    """Return the steps of all plans that it takes to lock a stack, each once."""
    known: dict[str, bytes] = {}
    found: dict[str, Step] = {}
    while set(known) != set(locks.lock_files(of)):
        plan: Plan = lockplan.lock_plan(of, clones(of), known)
        found |= {one.name: one for one in plan.steps}
        solving = [one for one in plan.steps if one.name.startswith("concretize-")]
        assert solving, "a plan that locks nothing"
        for one in solving:
            for folder in one.description.rpartition(" packages of ")[2].split(", "):
                known[f"{folder}/spack.lock"] = files[f"{folder}/spack.lock"]
    return list(found.values())


@pytest.mark.parametrize("name", STACKS)
def test_generated_files(name: str) -> None:
    found = document(STACKS[name])
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("STACKPROOF_WRITE_GOLDEN"):
        golden.write_text(found)
    assert found == golden.read_text()
