"""`image du | prune`: everything that is kept is shown; what goes, what stays, and what goes by itself."""

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
from typing import Any

import pytest

import fakespack
import stackproof
from fakespack import Folder
from need import need
from stackproof.build.effects.workspace import MEMORY
from stackproof.core.effects.cache_kinds import KINDS

pytestmark = [
    pytest.mark.guarantee(
        "Folders of several users",
        "A cache is believed only if nobody else can have written to it.",
    ),
]

COVERS = (
    "build/cli/image_du.py",
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

    def entries(self, kind: str = "") -> list[dict[str, Any]]:
        return list(json.loads(self.run("image", "du", "--json", *filter(None, [kind])).stdout))

    def names(self, kind: str) -> set[str]:
        return {entry["name"] for entry in self.entries(kind)}

    def images(self) -> set[str]:
        return {one["name"] for one in self.entries("builds") if not one["interrupted"]}

    def prune(self, *words: object) -> set[tuple[str, str]]:
        gone = json.loads(self.run("image", "prune", "--json", *words).stdout)
        return {(entry["kind"], entry["name"]) for entry in gone}

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
    folders = [folder for kind in KINDS for folder in kind.folders]
    assert len(set(folders)) == len(folders)


def test_a_cache_of_another_user_is_neither_shown_nor_deleted(tmp_path: Path) -> None:
    need("root")
    theirs = tmp_path / "cache" / "downloads" / "theirs"
    theirs.mkdir(parents=True)
    os.chown(tmp_path / "cache", 4242, 4242)
    mine = tmp_path / "cache-0" / "downloads" / "mine"
    mine.mkdir(parents=True)
    for folder in (tmp_path / "cache-0", mine.parent):
        folder.chmod(0o700)
    env = {**os.environ, "STACKPROOF_CACHE": str(tmp_path / "cache")}
    for words in (["du", "downloads"], ["prune", "--kind", "downloads"]):
        done = subprocess.run(
            [sys.executable, "-m", "stackproof", "image", *words],
            env=env, capture_output=True, text=True, check=True, timeout=600,
        )  # fmt: skip
        assert "mine" in done.stdout
        assert "theirs" not in done.stdout
        assert "belongs to uid 4242" in done.stderr
    assert theirs.exists()
    assert not mine.exists()


@pytest.mark.battery
def test_all_that_builds_leave_is_shown(machine: Machine) -> None:
    machine.build("good")
    rows = machine.run("image", "du").stdout.splitlines()
    for kind in ("builds", "clones", "checkouts", "packages", "locks"):
        assert any(row.startswith(f"{kind} ") for row in rows), rows
    # Builds in memory lie elsewhere, and other users' builds of this machine are among them.
    disk = sum(entry["bytes"] for entry in machine.entries() if entry["kind"] != "memory")
    du = subprocess.run(
        ["du", "-s", "--block-size=1", machine.cache], capture_output=True, check=True, timeout=600
    )
    # The folders above the kinds are of no kind.
    assert 0 <= int(du.stdout.split()[0]) - disk < 200_000
    (machine.cache / "of-tomorrow").mkdir()
    assert "of-tomorrow" in machine.run("image", "du").stderr
    machine.prune("--all")
    assert (machine.cache / "of-tomorrow").is_dir()


@pytest.mark.battery
def test_a_dry_run_says_what_would_go_and_a_real_one_does_it(machine: Machine) -> None:
    machine.build("good")
    before = machine.entries()
    would = machine.prune("--all", "--dry-run")
    assert machine.entries() == before
    assert {kind for kind, _ in would} >= {"builds", "checkouts", "clones"}
    assert machine.prune("--all") == would
    left = {entry["kind"] for entry in machine.entries()} - {"memory"}
    assert left == {"locks"}
    assert machine.build("good")  # it comes again
    assert "deleted 0 entries" in machine.run("image", "prune", "--kind", "downloads").stdout


@pytest.mark.battery
def test_by_kind_and_by_age(machine: Machine) -> None:
    machine.build("good")
    (one, *_) = sorted((machine.cache / "builds").iterdir())
    os.utime(one, (0, time.time() - 9 * 86400))
    assert machine.prune("--older-than", "10d") == set()
    assert machine.prune("--older-than", "8d", "--kind", "clones") == set()
    assert machine.prune("--older-than", "1w") == {("builds", one.name)}
    assert not one.exists()
    kinds = {kind for kind, _ in machine.prune("--kind", "clones", "--kind", "checkouts")}
    assert kinds == {"clones", "checkouts"}


@pytest.mark.parametrize(
    "words",
    [
        ["du", "nothing"],
        ["prune", "--kind", "nothing"],
        ["prune", "--older-than", "soon"],
        ["prune", "--older-than", "3"],
        ["prune", "--all", "--kind", "elf"],
    ],
)
def test_wrong_words(machine: Machine, words: list[str]) -> None:
    assert "error: " in machine.run("image", *words, code=2).stderr


def test_an_empty_cache(machine: Machine) -> None:
    assert "total " in machine.run("image", "du").stderr
    assert machine.entries("builds") == []
    assert machine.prune("--kind", "builds") == set()


@pytest.mark.battery
def test_an_interrupted_build_in_memory_is_found_and_removed(machine: Machine) -> None:
    machine.build("good", "broken", memory="yes", code=5)
    (entry,) = (
        one for one in machine.entries("memory") if "small-" in one["path"] and _own(machine, one)
    )
    tree = Path(entry["path"])
    assert tree.parent == MEMORY / f"stackproof-{os.geteuid()}"
    assert (entry["interrupted"], entry["in_use"]) == (True, False)
    assert "hold" in machine.run("image", "du").stderr
    assert ("memory", tree.name) in machine.prune("--dry-run")
    assert tree.exists()
    other = Machine(machine.folder)
    other.env = {**other.env, "STACKPROOF_CACHE": str(machine.folder.path / "other")}
    assert ("memory", tree.name) not in other.prune("--kind", "memory")
    assert tree.exists()
    assert ("memory", tree.name) in machine.prune()
    assert not tree.exists()
    machine.build("good", memory="yes")


@pytest.mark.battery
def test_a_finished_build_leaves_nothing_in_memory(machine: Machine) -> None:
    for _ in range(2):
        machine.build("good", memory="yes")
        assert not [one for one in machine.entries("memory") if _own(machine, one)]


def _own(machine: Machine, entry: dict[str, Any]) -> bool:
    belongs = Path(entry["path"], "belongs")
    return belongs.exists() and belongs.read_text().startswith(str(machine.cache))


@pytest.mark.battery
def test_what_a_running_stackproof_uses_stays(machine: Machine) -> None:
    machine.build("good")
    with machine.process("-c", USES):
        assert {kind for kind, _ in machine.prune("--all")} == {"builds"}
        said = machine.run("image", "prune", "--all").stderr
        assert "in use by a running command" in said
        assert any(one["in_use"] for one in machine.entries("checkouts"))
    assert "checkouts" in {kind for kind, _ in machine.prune("--all")}


@pytest.mark.battery
def test_a_build_with_a_shell_in_it_stays(machine: Machine) -> None:
    machine.build("good")
    (image,) = machine.images()
    shell = ("-m", "stackproof", "shell", image, "--", "sh", "-c", "echo; read line")
    with machine.process(*shell):
        assert ("builds", image) not in machine.prune("--kind", "builds")
        assert image in machine.names("builds")
    assert ("builds", image) in machine.prune("--kind", "builds")
    assert image not in machine.names("builds")


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
        busy = {one["name"] for one in machine.entries("builds") if one["in_use"]}
        assert len(busy) == 1
        assert not busy & {name for _, name in machine.prune("--all")}
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
    assert first not in machine.names("builds")
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
