"""`image prune`: what goes, what stays, and what goes by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fakespack
import stackproof
from fakespack import Folder
from need import need
from stackproof.build.effects.workspace import MEMORY
from stackproof.core.effects.cache_kinds import FOLDERS, LOCKS

pytestmark = [
    pytest.mark.guarantee(
        "Folders of several users",
        "A cache is believed only if nobody else can have written to it.",
    ),
]

COVERS = (
    "build/cli/image_prune.py",
    "build/cli/image_ls.py",
)

SOURCES = Path(stackproof.__file__).parent
USES = "from stackproof.core.effects import cache_kinds; cache_kinds.in_use(); print(flush=True); input()"


class Machine:
    """A folder with a cache of its own, and a recipe in it."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.cache = folder.path / "cache"
        self.env = {**os.environ, "STACKPROOF_CACHE": str(self.cache)}

    def run(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "stackproof", *map(str, words)], cwd=self.folder.path,
            env=self.env, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done

    def build(self, *packages: str, memory: str = "no", code: int = 0) -> str:
        self.folder.write(*packages)
        words = ("--site", self.folder.path / "site", "--in-memory", memory)
        return self.run("build", self.folder.recipe, *words, code=code).stderr

    def images(self) -> set[str]:
        return {path.parents[1].name for path in (self.cache / "builds").glob("*/out/*")}

    def prune(self, *words: object) -> set[str]:
        """Return what goes: below the cache, or the name of a tree in memory."""
        gone = json.loads(self.run("image", "prune", "--json", *words).stdout)
        return {entry["path"].removeprefix(f"{self.cache}/") for entry in gone}

    def trees(self) -> list[Path]:
        """Return the trees of this cache's builds in memory."""
        marks = (MEMORY / f"stackproof-{os.geteuid()}").glob("*/belongs")
        return [one.parent for one in marks if one.read_text().startswith(str(self.cache))]

    @contextmanager
    def process(self, *words: object) -> Iterator[None]:
        """Have a process running that has said something."""
        process = subprocess.Popen(
            [sys.executable, *map(str, words)], cwd=self.folder.path, env=self.env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            yield
            process.communicate(b"\n", timeout=600)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    need("bubblewrap", "mksquashfs", "gcc")
    return Machine(fakespack.make(tmp_path))


def test_whoever_keeps_something_says_so_in_one_place() -> None:
    """What is in the cache in the end is looked at after all tests, in `conftest.py`."""
    asking = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if re.search(r"cache_home\(\)", path.read_text())
    }
    # Whoever takes it by its name alone may believe others; `files` has it in a hint.
    assert asking == {"core/effects/cache_kinds.py", "core/effects/files.py"}
    folders = [*FOLDERS.values(), *LOCKS]
    assert len(set(folders)) == len(folders)


def test_a_cache_of_another_user_is_not_deleted(tmp_path: Path) -> None:
    need("root")
    theirs = tmp_path / "cache" / "downloads" / "theirs"
    theirs.mkdir(parents=True)
    os.chown(tmp_path / "cache", 4242, 4242)
    mine = tmp_path / "cache-0" / "downloads" / "mine"
    mine.mkdir(parents=True)
    for folder in (tmp_path / "cache-0", mine.parent):
        folder.chmod(0o700)
    env = {**os.environ, "STACKPROOF_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", "image", "prune", "--all"],
        env=env, capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    assert "mine" in done.stdout
    assert "theirs" not in done.stdout
    assert "belongs to uid 4242" in done.stderr
    assert theirs.exists()
    assert not mine.exists()


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["folder", "bytes", "long", "link", "pipe", "elsewhere", "empty"])
def test_a_build_that_says_of_its_tree_what_is_none_goes_alone(kind: str, tmp_path: Path) -> None:
    """And whatever it says: a tree that does not belong to the build is left."""
    build, thesis = tmp_path / "cache" / "builds" / "x", tmp_path / "home" / "thesis"
    for folder in (build, thesis):
        folder.mkdir(parents=True)
    pointer = build / "tree"
    {
        "folder": lambda: (pointer / "in").mkdir(parents=True),
        "bytes": lambda: pointer.write_bytes(b"/\xff\x00\xfe"),
        "long": lambda: pointer.write_text("/a" * 100_000),
        "link": lambda: pointer.symlink_to(thesis),
        "pipe": lambda: os.mkfifo(pointer),
        "elsewhere": lambda: pointer.write_text(str(thesis)),
        "empty": pointer.touch,
    }[kind]()
    for path in (tmp_path / "cache", build.parent, build):
        path.chmod(0o700)
    env = {**os.environ, "STACKPROOF_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", "image", "prune", "--all"],
        env=env, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "bug" not in done.stderr
    assert not build.exists()
    assert thesis.exists()


@pytest.mark.battery
def test_a_dry_run_says_what_would_go_and_a_real_one_does_it(machine: Machine) -> None:
    machine.build("good")
    (machine.cache / "of-tomorrow").mkdir()
    before = sorted(machine.cache.rglob("*"))
    would = machine.prune("--all", "--dry-run")
    assert sorted(machine.cache.rglob("*")) == before
    kinds = ("builds/", "git/objects/", "git/trees/", "spack/packages/")
    assert all(any(path.startswith(kind) for path in would) for kind in kinds)
    assert machine.prune() == set()
    assert machine.prune("--all") == would
    left = {path for path in machine.cache.rglob("*") if path.is_file()}
    assert {str(path.relative_to(machine.cache)).partition("/")[0] for path in left} <= {
        "git", "locks", "mirrors",
    }  # fmt: skip
    assert all(path.stat().st_size == 0 for path in left)
    assert (machine.cache / "of-tomorrow").is_dir()
    assert machine.build("good")  # it comes again


def test_what_an_ended_command_left_goes_when_it_is_old(machine: Machine) -> None:
    for name in ("downloads/.old", "downloads/.new", "downloads/file"):
        (machine.cache / name).mkdir(parents=True)
    (machine.cache / "injections" / "answer").mkdir(parents=True)
    old = time.time() - 7 * 3600
    os.utime(machine.cache / "downloads" / ".old", (old, old))
    assert machine.prune() == {"downloads/.old"}
    assert machine.prune("--all") == {"downloads/file"}
    assert "deleted 0 entries" in machine.run("image", "prune").stdout


@pytest.mark.battery
def test_an_interrupted_build_in_memory_is_found_and_removed(machine: Machine) -> None:
    machine.build("good", "broken", memory="yes", code=5)
    (tree,) = machine.trees()
    assert str(tree) in machine.prune("--dry-run")
    assert tree.exists()
    other = Machine(machine.folder)
    other.env = {**other.env, "STACKPROOF_CACHE": str(machine.folder.path / "other")}
    assert str(tree) not in other.prune("--all")
    assert tree.exists()
    assert str(tree) in machine.prune()
    assert not tree.exists()
    machine.build("good", memory="yes")


@pytest.mark.battery
def test_a_finished_build_leaves_nothing_in_memory(machine: Machine) -> None:
    for _ in range(2):
        machine.build("good", memory="yes")
        assert machine.trees() == []


@pytest.mark.battery
def test_what_a_running_stackproof_uses_stays(machine: Machine) -> None:
    machine.build("good")
    with machine.process("-c", USES):
        assert all(path.startswith("builds/") for path in machine.prune("--all"))
        said = machine.run("image", "prune", "--all").stderr
        assert "in use by a running command" in said
    assert any(path.startswith("git/trees/") for path in machine.prune("--all"))


@pytest.mark.battery
def test_a_build_with_a_shell_in_it_stays(machine: Machine) -> None:
    machine.build("good")
    (image,) = machine.images()
    shell = ("-m", "stackproof", "shell", image, "--", "sh", "-c", "echo; read line")
    with machine.process(*shell):
        assert f"builds/{image}" not in machine.prune("--all")
        assert image in machine.images()
    assert f"builds/{image}" in machine.prune("--all")
    assert image not in machine.images()


@pytest.mark.battery
def test_a_build_that_waited_for_one_that_is_deleted_starts_anew(machine: Machine) -> None:
    machine.build("good")
    machine.folder.write("good", "slow")
    words = ("build", machine.folder.recipe, "--site", machine.folder.path / "site")
    machine.run(*words, "--in-memory", "no", "--stop-after", "lock")
    process = subprocess.Popen(
        [sys.executable, "-m", "stackproof", *map(str, words), "--in-memory", "no"],
        cwd=machine.folder.path, env=machine.env, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stderr is not None
        while "install" not in process.stderr.readline():
            assert process.poll() is None
        builds = set((machine.cache / "builds").iterdir())
        machine.prune("--all")
        assert len(builds & set((machine.cache / "builds").iterdir())) == 1
        process.communicate(timeout=600)
    assert process.returncode == 0


@pytest.mark.battery
def test_superseded_builds_go_by_themselves(machine: Machine) -> None:
    machine.build("good")
    (first,) = machine.images()
    machine.build("good", "two")
    (second,) = machine.images() - {first}
    assert "removed" not in machine.build("good", "two")
    said = machine.build("good", "three")
    assert f"removed  {first}" in said
    assert not (machine.cache / "builds" / first).exists()
    assert second in machine.images()
    machine.build("good", "two")  # which is newer again
    machine.build("good", "four")
    assert second in machine.images()
    assert len(machine.images()) == 2


@pytest.mark.battery
def test_builds_of_another_recipe_of_that_name_stay(machine: Machine) -> None:
    machine.build("good")
    (first,) = machine.images()
    copy = machine.folder.path / "copy"
    for number in range(3):
        machine.folder.write("good", f"other{number}")
        subprocess.run(["rm", "-rf", copy], check=True, timeout=600)
        subprocess.run(["cp", "-r", machine.folder.recipe, copy], check=True, timeout=600)
        machine.run("build", copy, "--site", machine.folder.path / "site", "--in-memory", "no")
    assert first in machine.images()
    assert len(machine.images()) == 3
