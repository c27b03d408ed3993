"""Locks are for an operating system; a build on another one is told so."""

from __future__ import annotations

from spackstacks import locked, stack
from stackproof.build.engines.spack import locks
from stackproof.build.engines.spack.effects.builder import system_notes
from stackproof.build.engines.spack.stack import SpackLock
from stackproof.core.errors import Reason


def a_lock() -> SpackLock:
    of = stack(3)
    return locked(of)


def test_systems_of_a_lock() -> None:
    assert locks.systems(a_lock()) == ("sles15",)


def test_packages_of_the_machine_do_not_count() -> None:
    lock = a_lock()
    for content in lock.environments.values():
        for node in content["concrete_specs"].values():
            if "external" in node:
                node["arch"]["platform_os"] = "other"
    assert locks.systems(lock) == ("sles15",)


def test_another_system_is_told() -> None:
    (note,) = system_notes(a_lock(), "debian12")
    assert note.reason is Reason.LOCK_MISMATCH
    assert "sles15" in note.message
    assert "debian12" in note.message


def test_the_same_system_and_an_unknown_one_are_not() -> None:
    assert system_notes(a_lock(), "sles15") == ()
    assert system_notes(a_lock(), "") == ()
