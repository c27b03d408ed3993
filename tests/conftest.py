"""What holds for every test: caches in a folder of the test run, properties without a clock."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import attacks
import fabric
import needs
from benchroom import bench_folder, room
from fixtures import for_everybody, lab, runtime, stackproof, trees
from need import SPACK_TAGS
from stackproof.build.effects import git
from stackproof.core.effects import cache_kinds

__all__ = [
    "bench_folder", "for_everybody", "lab", "room", "runtime", "stackproof", "trees",
]  # fmt: skip

# A busy machine is not a failure, and a test run leaves no database behind. The gate tries the same
# examples every time; `--hypothesis-profile=chance`, in the battery, new ones.
settings.register_profile("house", deadline=None, database=None, derandomize=True)
settings.register_profile("chance", settings.get_profile("house"), derandomize=False)
# A fifth of the examples, for the attacks that a user repeats.
settings.register_profile("few", settings.get_profile("house"), max_examples=20)
settings.load_profile("house")

_OWN_FOLDER = pytest.StashKey[str]()
# What may not answer: of the gate, the first file below alone asks for it.
NOT_IN_THE_GATE = frozenset({"network", "podman", "easybuild", "spack"})
# The files of the gate that take longest, longest first.
LONGEST = ("house/test_whole_road.py", "native/test_native_build.py")

# What make(1) tells its own recipes is not for the programs of tests: they would ask its job server.
for _name in ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"):
    os.environ.pop(_name, None)

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


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give the run a folder that no other run closes, and make known what tests may need.

    Pytest's own folder is one for all runs of a user, and each run that begins shuts out others:
    the users without rights that another run's tests let in.
    """
    if config.option.basetemp is None and not hasattr(config, "workerinput"):
        config.option.basetemp = tempfile.mkdtemp(prefix="pytest-stackproof-")
        config.stash[_OWN_FOLDER] = config.option.basetemp
    for line in needs.markers():
        config.addinivalue_line("markers", line)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the folder of a run for whoever looks for the cause of a failure."""
    if exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        session.config.stash[_OWN_FOLDER] = ""


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the folder of a run in which every test passed, unless a mount was left in it."""
    folder = config.stash.get(_OWN_FOLDER, "")
    if folder and f" {folder}/" not in Path("/proc/self/mountinfo").read_text():
        shutil.rmtree(folder, ignore_errors=True)


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
    unmarked: list[str] = []
    for item in items:
        things = needs.of(item)
        for name in ("needs", *map(needs.marker, sorted(things))) if things else ():
            item.add_marker(name)
        file = item.path.relative_to(here).as_posix()
        alone = item.get_closest_marker("battery") or item.get_closest_marker("machine")
        if things & NOT_IN_THE_GATE and not alone and file != LONGEST[0]:
            unmarked.append(f"{item.nodeid} needs {', '.join(sorted(things & NOT_IN_THE_GATE))}")
        if attacks.is_attack(f"{file}::{item.name}"):
            item.add_marker("attack")
    if unmarked:
        raise pytest.UsageError("mark as `battery` or `machine`:\n" + "\n".join(unmarked))


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_test_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep downloads, builds and labels of tests out of the user's folders; tests share them.

    The battery gives files that run one after another one cache: STACKPROOF_TESTS_CACHE.
    """
    cache = os.environ.get("STACKPROOF_TESTS_CACHE") or tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STACKPROOF_CACHE", os.fspath(cache))
        patch.setenv("STACKPROOF_REPOSITORY", os.fspath(tmp_path_factory.mktemp("repository")))
        yield
        # Whoever keeps something in the cache says so in `core.effects.cache_kinds`; tests have names of
        # their own.
        assert set(_unknown(Path(cache))) == set()


def _unknown(cache: Path) -> Iterator[Path]:
    """Yield what is in a cache and in none of the folders that stackproof keeps there."""
    known = {cache / folder for folder in (*cache_kinds.FOLDERS.values(), *cache_kinds.LOCKS)}
    above = {parent for path in known for parent in path.parents}
    for path in sorted(cache.glob("*")) + sorted(cache.glob("*/*")):
        named = path in known | above or path.name.startswith("test-")
        if path.parent in above and not named:
            yield path


@pytest.fixture(scope="session")
def fabric_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return libfabric 2.1.0 with tcp, shm, sm2, rxm and lnx as an image, built from source."""
    return fabric.fabric_image(tmp_path_factory)
