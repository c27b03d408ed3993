"""What a lock has to answer: all that decides Spack's solution, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from spackstacks import entry, environment, stack
from stackproof.build.engines import spack
from stackproof.build.engines.spack import configuration
from stackproof.build.engines.spack.stack import GitSource, LocalRepository, SpackStack

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
    assert spack.wants(DECIDES[what](stack(3))) != spack.wants(stack(3))


@pytest.mark.parametrize("what", DOES_NOT)
def test_what_a_lock_survives(what: str) -> None:
    assert spack.wants(DOES_NOT[what](stack(3))) == spack.wants(stack(3))


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_where_spack_works_is_not_asked_for(
    generation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks are kept for years; a folder or a timeout in `config.yaml` makes none of them stale."""
    before = spack.wants(stack(generation))
    monkeypatch.setattr(configuration, "_config", lambda _: {"config": {"db_lock_timeout": 1}})
    assert spack.wants(stack(generation)) == before
