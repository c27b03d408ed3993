"""Verbs killed at any moment: nothing is lost, and what is left the next command clears.

`STACKPROOF_KILLS` says how often each is killed; `nox -s attacks` says 100. The verbs work in a
child of this process, so that a kill meets their work and not the start of Python.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

import killing
from guarded import Guarded
from images import make_image
from need import need
from packs import CALLS_ANSWER, Stack
from registries import OwnRegistry

pytestmark = [
    pytest.mark.battery,
    pytest.mark.guarantee(
        "Foreign trees",
        "A command killed at any moment loses nothing.",
        "What it leaves, the next run or `image fsck --repair` clears. Tried: SIGKILL at "
        "random moments of add, pull, push, install, pack, build and bench.",
    ),
]

LABEL = "tiny/1:v1@here%zen2"
REMOTE = f"deploy::{LABEL}"
_SIZE = 12_000_000  # of an image: a second of work would be a hundred for the test
_PLAN = """
import sys
from stackproof.build.effects.executor import execute
from stackproof.build.plan import Plan, Step
from stackproof.build.tail import pack_step
from stackproof.core.command import Command
from stackproof.core.monitor import null_monitor
mount = "/user-environment"
first = Step(name="files", files={"meta/env.json": "{}"}, outputs=("meta",))
shell = f"mkdir {mount}/made; sleep 0.2; echo x > {mount}/made/x"
made = Step(name="made", inputs=(first.id,), commands=(Command(argv=("sh", "-c", shell)),),
            outputs=("made",))
pack = pack_step(mount=mount, compression="zstd", level=3, inputs=(made.id,))
print(execute(Plan(name="killed", mount=mount, steps=(first, made, pack)), null_monitor).sha256)
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """An image of some megabytes: what is behind a SquashFS is none of its business."""
    need("mksquashfs")
    made = make_image(tmp_path_factory.mktemp("image") / "a.squashfs")
    with made.open("ab") as stream:
        stream.write(random.Random(1).randbytes(_SIZE))
    return made


@pytest.fixture(scope="module")
def stacks(tmp_path_factory):
    """Two images with a program that says 42, and 43."""
    need("gcc", "patchelf", "mksquashfs")
    made = []
    for answer in (42, 43):
        stack = Stack(tmp_path_factory.mktemp("stack"))
        stack.library("libanswer", f"int answer(void) {{ return {answer}; }}")
        stack.program("hello", CALLS_ANSWER, needs=("answer",))
        stack.script("bin/say", '#!/bin/sh\nhello said "$1"\n')
        made.append(stack.image())
    return made[0], made[1]


@pytest.fixture
def guarded(tmp_path):
    place = Guarded(tmp_path / "place")
    yield place
    assert killing.left(place) == []
    assert list((place.work / "tmp").iterdir()) == []


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def done(guarded: Guarded, *words: object, **more: str) -> str:
    """Run a verb that must succeed and do no harm; return what it says."""
    ended = guarded.run(*words, **more)
    assert ended.code == 0, (words, ended.said)
    assert guarded.faults(ended) == []
    return ended.said


def labels(guarded: Guarded) -> list[str]:
    """Return the digests of the images that have a label; each must be whole."""
    ended = guarded.run("image", "ls", "--json")
    assert ended.code in {0, 3}, ended.said
    found = json.loads(ended.said)["records"] if ended.code == 0 else []
    return [one["digest"] for one in found]


def check_repository(guarded: Guarded, wanted: str) -> None:
    """After a kill: the label is that of a whole image, or of none; repairing leaves nothing else."""
    images = guarded.work / "repository" / "images"
    there = labels(guarded)
    assert there in ([], [wanted])
    if there:
        assert digest(images / wanted / "store.squashfs") == wanted


def check_tidy(guarded: Guarded, wanted: str) -> None:
    """After the next run and a repair: the image, and nothing that was left."""
    assert labels(guarded) == [wanted]
    guarded.run("image", "fsck", "--repair")
    done(guarded, "image", "fsck", "--digests")
    assert os.listdir(guarded.work / "repository" / "images") == [wanted]
    assert sorted(os.listdir(guarded.work / "repository")) == ["images", "index.db"]


def test_add(guarded, image):
    words = ("image", "add", LABEL, image)
    whole_s = killing.duration(lambda: done(guarded, *words))
    wanted = digest(image)
    for after_s in killing.moments("add", whole_s):
        done(guarded, "image", "rm", LABEL)
        guarded.kill(after_s, *words)
        check_repository(guarded, wanted)
        done(guarded, *words)
        check_tidy(guarded, wanted)


def test_pull(guarded, image):
    with OwnRegistry() as server:
        there = {"STACKPROOF_REGISTRY": server.address}
        done(guarded, "image", "push", image, REMOTE, **there)
        words = ("image", "pull", REMOTE)
        whole_s = killing.duration(lambda: done(guarded, *words, **there))
        wanted = digest(image)
        for after_s in killing.moments("pull", whole_s):
            done(guarded, "image", "rm", LABEL)
            guarded.kill(after_s, *words, **there)
            check_repository(guarded, wanted)
            done(guarded, *words, **there)
            check_tidy(guarded, wanted)


def test_push(guarded, image):
    """The label is there with all that it names, or it is not; the next push finishes it."""
    words = ("image", "push", image, REMOTE)
    for after_s in _moments_of_push(guarded, words):
        with OwnRegistry() as server:
            there = {"STACKPROOF_REGISTRY": server.address}
            guarded.kill(after_s, *words, **there)
            blobs = {name for _, name in server.blobs}
            for repository, tags in server.tags.items():
                for its in tags.values():
                    content = json.loads(server.manifests[repository, its][1])
                    assert {one["digest"] for one in content["layers"]} <= blobs
            done(guarded, *words, **there)
            found = done(guarded, "image", "find", "deploy::tiny", "--json", **there)
            assert [one["digest"] for one in json.loads(found)["records"]] == [digest(image)]
            assert (
                server.blobs[_repository(server), f"sha256:{digest(image)}"] == image.read_bytes()
            )


def _repository(server: OwnRegistry) -> str:
    (name,) = (one for one in server.tags if one.endswith("tiny/1"))
    return name


def _moments_of_push(guarded: Guarded, words: tuple[object, ...]) -> list[float]:
    with OwnRegistry() as server:
        there = {"STACKPROOF_REGISTRY": server.address}
        whole_s = killing.duration(lambda: done(guarded, *words, **there))
    return list(killing.moments("push", whole_s))


def test_install(guarded, stacks):
    """A prefix is what it was, or what it is to be; programs of it run at each moment."""
    prefix = guarded.work / "apps" / "stack"
    words = ("install", stacks[1], "--to", prefix)

    def begin() -> None:
        shutil.rmtree(prefix.parent, ignore_errors=True)
        done(guarded, "install", stacks[0], "--to", prefix)

    begin()
    whole_s = killing.duration(lambda: done(guarded, *words))
    for after_s in killing.moments("install", whole_s):
        begin()
        guarded.kill(after_s, *words)
        assert _answer(prefix) in {"42", "43"}
        done(guarded, *words)
        assert _answer(prefix) == "43"
        versions = set(os.listdir(prefix.parent / ".stackproof")) - {"lock"}
        assert versions <= {"stack.1", "stack.2", "stack.3"}
        assert not any(name.startswith("staging") for name in versions)
        assert sorted(os.listdir(prefix.parent)) == [".stackproof", "stack"]
        done(guarded, "install", "--undo", "--to", prefix)
        assert _answer(prefix) == "42"


def _answer(prefix: Path) -> str:
    argv = [str(prefix / "bin" / "hello")]
    return subprocess.run(
        argv, capture_output=True, text=True, check=True, timeout=600
    ).stdout.split()[1]


@pytest.mark.parametrize("name", ["out", "out.tar.zst"])
def test_pack(name, guarded, stacks):
    """What was asked for is there whole, or not at all; the next pack leaves nothing but that."""
    folder = guarded.work / "packs"
    output = folder / name
    words = ("pack", stacks[0], "-o", output)

    def begin() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    begin()
    whole_s = killing.duration(lambda: done(guarded, *words))
    wanted = _tree(folder, output)
    for after_s in killing.moments(f"pack {name}", whole_s, killing.KILLS // 2):
        begin()
        guarded.kill(after_s, *words)
        if not os.path.lexists(output):
            done(guarded, *words)
        elif output.is_file():  # whole: again would only say that it is there
            subprocess.run(["zstd", "-tq", output], check=True, timeout=600)
            done(guarded, *words)
        assert set(os.listdir(folder)) <= {name, f"{name}.provenance.json"}
        assert _tree(folder, output) in {wanted, ""}


def _tree(folder: Path, output: Path) -> str:
    told = folder / f"{output.name}.provenance.json"
    return str(json.loads(told.read_text())["tree"]) if told.exists() else ""


def test_build(guarded):
    """A build that was killed makes the same image when it is asked again."""
    need("bubblewrap", "mksquashfs")
    count = max(2, killing.KILLS // 5)

    def build() -> str:
        ended = guarded.python_ends(_PLAN)
        assert ended.code == 0, ended.said
        return ended.said

    wanted: list[str] = []
    whole_s = killing.duration(lambda: wanted.append(build()))
    for after_s in killing.moments("build", whole_s, count):
        shutil.rmtree(guarded.work / "cache")
        guarded.kill_python(after_s, _PLAN)
        assert killing.left(guarded) == []
        assert build() == wanted[0]
