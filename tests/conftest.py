"""What holds for every test: caches in a folder of the test run, properties without a clock."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import attacks
import fabric
import needs
from benchroom import bench_folder, room
from fixtures import for_everybody, runtime, trees
from need import SPACK_TAGS
from stackproof.build.effects import cache_entries, git

__all__ = ["bench_folder", "for_everybody", "room", "runtime", "trees"]  # fixtures of tests

# A busy machine is not a failure, and a test run leaves no database behind. In continuous
# integration the examples are the same every time.
settings.register_profile("house", deadline=None, database=None, derandomize="CI" in os.environ)
settings.load_profile("house")
# A fifth of the examples, for `nox -s quick`.
settings.register_profile("quick", settings.get_profile("house"), max_examples=20)

# Of the files whose tests run abreast, those that take longest, longest first.
LONGEST = (
    "house/test_attack_list.py", "house/test_tree_attacks.py", "native/test_native_build.py",
)  # fmt: skip

# A shell's background job ignores ctrl-C, and what it starts ignores it too: the tests that
# interrupt a program would wait for ever. From here on it is as in the foreground.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Below nohup(1) it is so with a lost terminal. This process goes on ignoring it; a program that it
# starts has no handler, and so the default.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_report_header() -> str:
    """Say where Spack's tests get their clones."""
    source = os.environ.get(git.MIRROR_VARIABLE)
    wanted = ", ".join(f"{url} at {tag}" for url, tag in SPACK_TAGS.items())
    return f"spack: {wanted}, from {source or f'nowhere: {git.MIRROR_VARIABLE} is not set'}"


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers of what tests need known."""
    for line in needs.markers():
        config.addinivalue_line("markers", line)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files of which no test is asked for."""
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return needs.none_asked_for(text, config.option.markexpr) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the attacks among the tests, and those that need something; put the longest first.

    A long file that is begun last leaves the other cores idle. `count_tests` prints which are long.
    """
    here = Path(__file__).parent
    if hasattr(config, "workerinput"):
        rank = {name: number for number, name in enumerate(LONGEST)}
        items.sort(key=lambda item: rank.get(item.path.relative_to(here).as_posix(), len(rank)))
    for item in items:
        things = needs.of(item)
        for name in ("needs", *map(needs.marker, sorted(things))) if things else ():
            item.add_marker(name)
        if attacks.is_attack(f"{item.path.relative_to(here).as_posix()}::{item.name}"):
            item.add_marker("attack")


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_test_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep downloads, builds and labels of tests out of the user's folders; tests share them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STACKPROOF_CACHE", os.fspath(tmp_path_factory.mktemp("cache")))
        patch.setenv("STACKPROOF_REPOSITORY", os.fspath(tmp_path_factory.mktemp("repository")))
        yield
        # Whoever keeps something in the cache says so in `core.effects.cache_kinds`; tests have names of
        # their own.
        forgotten = [one for one in cache_entries.unknown() if not one.name.startswith("test-")]
        assert forgotten == []


@pytest.fixture(scope="session")
def fabric_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return libfabric 2.1.0 with tcp, shm, sm2, rxm and lnx as an image, built from source."""
    return fabric.fabric_image(tmp_path_factory)
