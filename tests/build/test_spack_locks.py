"""Locks: what they have to answer, in what they differ from a stack, which system they are for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spackstacks import clones, entry, environment, lock_files, locked, stack
from stackproof.build.engines.spack import configuration, lockplan, locks
from stackproof.build.engines.spack.effects.builder import system_notes
from stackproof.build.engines.spack.engine import ENGINE, lock_differences
from stackproof.build.engines.spack.stack import (
    Compiler,
    GitSource,
    LocalRepository,
    PackageRepository,
    SpackLock,
    SpackStack,
)
from stackproof.core.errors import Reason, StackproofError
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
    """Whatever has changed, something is said: an empty word would mean that the lock is right."""
    made = stack(3)
    assert lockplan.wants(DECIDES[what](made)) != lockplan.wants(made)
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


# In what a lock and the stack that it should answer differ.


def asked_lock() -> SpackLock:
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
    return "; ".join(lock_differences(stack(**changes), asked_lock()))


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


def test_the_right_target_and_another_order_or_spelling_of_specs_are_no_difference():
    same = environment(specs=("openmpi@5.0.9", "libfabric@2.2:", "app +shared @1.2"))
    assert said(environments=(same,), target="neoverse_v2").startswith("settings")


def test_only_the_first_few_specs_are_shown():
    many = environment(specs=tuple(f"package-{n}" for n in range(20)))
    assert said(environments=(many,)).count("package-") == 5


def test_several_differences_come_at_once():
    found = lock_differences(
        stack(target="zen3", package_repositories=(), environments=(environment(specs=()),)),
        asked_lock(),
    )
    assert len(found) == 3


def test_an_unknown_commit_in_the_lock():
    made = asked_lock()
    other = tuple(replace(clone, ref="x") for clone in made.clones)
    assert "in the lock at x" in "; ".join(lock_differences(stack(), replace(made, clones=other)))


# Locks are for an operating system; a build on another one is told so.


def test_systems_of_a_lock_without_packages_of_the_machine() -> None:
    lock = locked(stack(3))
    assert locks.systems(lock) == ("sles15",)
    for content in lock.environments.values():
        for node in content["concrete_specs"].values():
            if "external" in node:
                node["arch"]["platform_os"] = "other"
    assert locks.systems(lock) == ("sles15",)


def test_another_system_is_told() -> None:
    (note,) = system_notes(locked(stack(3)), "debian12")
    assert note.reason is Reason.LOCK_MISMATCH
    assert "sles15" in note.message
    assert "debian12" in note.message
    # The same one and an unknown one are not.
    assert system_notes(locked(stack(3)), "sles15") == ()
    assert system_notes(locked(stack(3)), "") == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, Reason.GARBAGE_OUTPUT),
        (b"{", Reason.GARBAGE_OUTPUT),
        (b'{"_meta": {"lockfile-version": 6}}', Reason.GARBAGE_OUTPUT),
        (b'{"_meta": {"lockfile-version": 4}}', Reason.UNSUPPORTED),
    ],
)
def test_what_is_no_lock_file_of_spack(text: bytes | None, reason: Reason) -> None:
    of = stack(3)
    files = {path: text for path in lock_files(of) if text is not None}
    with pytest.raises(StackproofError) as caught:
        lockplan.read_lock(of, clones(of), files)
    assert {problem.reason for problem in caught.value.problems} == {reason}


# What a stack lacks on its site.


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"compilers": (Compiler(name="gcc", specs=(), external=True),), "packages": {}},
         Reason.INVALID_VALUE),
        ({"environments": ()}, Reason.MISSING_KEY),
        ({"environments": (environment(specs=()),)}, Reason.INVALID_VALUE),
        ({"environments": (environment(specs=("cray-mpich@8",)),)}, Reason.SITE_INCOMPLETE),
        ({}, None),
    ],
)  # fmt: skip
def test_a_stack_that_cannot_be_built(changes: dict[str, object], reason: Reason | None) -> None:
    found = ENGINE.problems(stack(3, **changes), None, lambda *_: None).problems
    assert [problem.reason for problem in found] == ([reason] if reason else [])
