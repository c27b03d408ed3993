"""What a lock has to answer: all that decides Spack's solution, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spackstacks import entry, environment, locked, stack
from stackproof.build.engines.spack import configuration, lockplan
from stackproof.build.engines.spack.engine import ENGINE
from stackproof.build.engines.spack.stack import GitSource, LocalRepository, SpackStack
from stackproof.core.value import replace

DECIDES: dict[str, Callable[[SpackStack], SpackStack]] = {
    "a spec": lambda s: replace(s, environments=(environment(specs=("app@1.3",)),)),
    "a variant": lambda s: replace(s, environments=(environment(variants=("~mpi",)),)),
    "settings of packages": lambda s: replace(s, packages={**s.packages, "zlib": {}}),
    "the target": lambda s: replace(s, target="zen3"),
    "the architecture": lambda s: replace(s, architecture="x86_64"),
    "Spack": lambda s: replace(s, spack=GitSource(url=s.spack.url, commit="v1.2.0")),
    "a package of the recipe": lambda s: replace(
        s,
        local_repositories=(
            LocalRepository(namespace="recipe", files={"packages/app/package.py": entry("new")}),
        ),
    ),
    "the version of a compiler": lambda s: replace(
        s, compilers=(replace(s.compilers[0], specs=("gcc@15",)),)
    ),
}
DECIDING_FIELDS = {
    "architecture", "compilers", "compilers_yaml", "concretizer", "environments", "generation",
    "local_repositories", "mount", "package_repositories", "packages", "spack", "target",
}  # fmt: skip
DOES_NOT: dict[str, Callable[[SpackStack], SpackStack]] = {
    "words": lambda s: replace(s, description="other", version="2", source="elsewhere"),
    "views": lambda s: replace(s, environments=(replace(s.environments[0], views=()),)),
    "hooks": lambda s: replace(s, pre_install=None, post_install="#!/bin/sh\n"),
    "modules": lambda s: replace(s, modules=None),
    "files": lambda s: replace(s, recipe_files={}, extra_files={}),
    "how the image is packed": lambda s: replace(s, compression="gzip", compression_level=9),
}


@pytest.mark.parametrize("what", DECIDES)
def test_what_decides_the_solution(what: str) -> None:
    assert lockplan.wants(DECIDES[what](stack(3))) != lockplan.wants(stack(3))


@pytest.mark.parametrize("what", DECIDES)
def test_a_lock_is_refused_for_it(what: str) -> None:
    """Whatever has changed, something is said: an empty word would mean that the lock is right."""
    made = stack(3)
    lock = locked(made)
    assert ENGINE.stale(made, lock) == ""
    assert ENGINE.stale(DECIDES[what](made), lock) != ""


def other(value: object) -> object:
    """Return a value of the same kind that is another one."""
    match value:
        case bool() | int():
            return 1 if value != 1 else 2
        case str() | None:
            return f"{value or ''}x"
        case tuple():
            return ()
        case _:
            return {}


@pytest.mark.parametrize("name", SpackStack.__struct_fields__)
def test_every_field_of_a_stack_decides_it_or_does_not(name: str) -> None:
    """A field that is new is in the one list or in the other."""
    made = replace(
        stack(1 if name == "compilers_yaml" else 3),
        concretizer={"unify": True}, transports=("tcp",), notes=("a note",),
    )  # fmt: skip
    value = getattr(made, name)
    compilers = tuple(replace(one, specs=("gcc@15",)) for one in made.compilers)
    changed = replace(made, **{name: compilers if name == "compilers" else other(value)})
    assert changed != made
    assert (lockplan.wants(changed) != lockplan.wants(made)) is (name in DECIDING_FIELDS)


@pytest.mark.parametrize("what", DOES_NOT)
def test_what_a_lock_survives(what: str) -> None:
    assert lockplan.wants(DOES_NOT[what](stack(3))) == lockplan.wants(stack(3))


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_where_spack_works_is_not_asked_for(
    generation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks are kept for years; a folder or a timeout in `config.yaml` makes none of them stale."""
    before = lockplan.wants(stack(generation))
    monkeypatch.setattr(configuration, "_config", lambda _: {"config": {"db_lock_timeout": 1}})
    assert lockplan.wants(stack(generation)) == before
