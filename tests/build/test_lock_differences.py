"""In what a lock and the stack it should answer differ."""

from __future__ import annotations

import pytest

from spackstacks import environment, locked, stack
from stackproof.build.engines.spack.engine import lock_differences
from stackproof.build.engines.spack.stack import (
    Compiler,
    GitSource,
    LockedClone,
    PackageRepository,
    SpackLock,
)
from stackproof.core.value import replace


def lock() -> SpackLock:
    asked = stack()
    made = locked(asked)
    folder = "environments/apps"
    roots = [
        {"hash": root["hash"], "spec": spec}
        for root, spec in zip(
            made.environments[folder]["roots"],
            ("app@1.2+shared", "openmpi@5.0.9", "libfabric@2.2:"),
            strict=True,
        )
    ]
    content = {**made.environments[folder], "roots": roots}
    return replace(made, environments={**made.environments, folder: content})


def said(**changes) -> str:
    return "; ".join(lock_differences(stack(**changes), lock()))


def test_a_stack_that_differs_in_nothing_that_is_named():
    assert said() == "settings of packages, compilers or the recipe's own packages"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spack": GitSource(url="https://example.org/spack.git", commit="v1.2")},
         ("`spack` is at v1.2, in the lock at releases/v1.1",)),
        ({"spack": GitSource(url="https://example.org/fork.git", commit="releases/v1.1")},
         ("`spack` is from https://example.org/fork.git", "https://example.org/spack.git")),
        ({"spack": GitSource(url="https://example.org/spack.git")}, ("`spack` is at HEAD",)),
        ({"package_repositories": ()}, ("repository `builtin` more",)),
        ({"package_repositories": (PackageRepository(name="more", source=GitSource(url="x")),)},
         ("`more` is not in the lock", "`builtin` more")),
        ({"compilers": ()}, ("`compilers/gcc` more",)),
        ({"compilers": (Compiler(name="llvm", specs=("llvm@18",)),)},
         ("`compilers/llvm` is not in the lock", "`compilers/gcc` more")),
        ({"environments": (environment(name="other"),)},
         ("`environments/other` is not in the lock", "`environments/apps` more")),
        ({"environments": (environment(specs=("app@1.3 +shared", "openmpi@5.0.9")),)},
         ("`apps` wants app@1.3 +shared", "the lock has app@1.2+shared, libfabric@2.2: in `apps`")),
        ({"target": "zen3"}, ("it is for zen3, the lock for neoverse_v2",)),
    ],
)  # fmt: skip
def test_each_difference_is_named(changes, words):
    text = said(**changes)
    for word in words:
        assert word in text


def test_the_order_and_spelling_of_a_spec_do_not_matter():
    same = environment(specs=("openmpi@5.0.9", "libfabric@2.2:", "app +shared @1.2"))
    assert said(environments=(same,)).startswith("settings")


def test_the_right_target_is_no_difference():
    assert said(target="neoverse_v2").startswith("settings")


def test_only_the_first_few_specs_are_shown():
    many = environment(specs=tuple(f"package-{n}" for n in range(20)))
    assert said(environments=(many,)).count("package-") == 5


def test_several_differences_come_at_once():
    found = lock_differences(
        stack(target="zen3", package_repositories=(), environments=(environment(specs=()),)), lock()
    )
    assert len(found) == 3


def test_an_unknown_commit_in_the_lock():
    made = lock()
    other = tuple(
        LockedClone(name=c.name, url=c.url, ref="x", commit=c.commit, folder=c.folder)
        for c in made.clones
    )
    assert "in the lock at x" in "; ".join(lock_differences(stack(), replace(made, clones=other)))
