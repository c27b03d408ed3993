"""Chunks: the same cuts for the same content, and an update of one component is a part of an image."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from need import need
from registries import Fault, OwnRegistry
from stackproof.core.effects import files
from stackproof.core.value import replace
from stackproof.share import addresses, chunks, manifests
from stackproof.share.chunks import Chunk, SourcePart
from stackproof.share.effects import delta, pulling, pushing, remotes
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.options import RemoteOptions

COVERS = ("share/effects/delta.py",)
_OLD = addresses.parse_remote("deploy::tiny/1:v1@here%zen2")
_NEW = addresses.parse_remote("deploy::tiny/2:v1@here%zen2")


def _lengths(content: bytes, block: int) -> list[int]:
    blocks = (content[at : at + block] for at in range(0, len(content), block))
    return [length for _, length in chunks.cut(blocks)]


def test_cuts_do_not_depend_on_how_bytes_come() -> None:
    content = random.Random(1).randbytes(6_000_000)
    found = _lengths(content, 4 << 20)
    assert found == _lengths(content, 100_003) == _lengths(content, 6_000_000)
    assert sum(found) == len(content)
    assert all(chunks.LEAST <= one <= chunks.MOST for one in found[:-1])
    assert 10 < len(found) < 60
    # A changed byte changes the chunk it is in; what is put in front moves the others unchanged.
    changed = content[:3_000_000] + b"x" + content[3_000_001:]
    assert len(set(_lengths(changed, 4 << 20)) ^ set(found)) <= 4
    assert _lengths(random.Random(2).randbytes(1000) + content, 4 << 20)[-8:] == found[-8:]


def test_what_has_no_cuts_is_cut_all_the_same() -> None:
    assert _lengths(b"", 1) == []
    assert _lengths(bytes(2_500_000), 1 << 20) == [
        chunks.MOST,
        chunks.MOST,
        2_500_000 - 2 * chunks.MOST,
    ]


def test_a_list_is_for_one_size() -> None:
    one, end = chunks.LEAST, chunks.LEAST + 7
    made = (
        Chunk(begin=0, length=one, digest=b"a" * 32), Chunk(begin=one, length=7, digest=b"b" * 32),
    )  # fmt: skip
    content = chunks.render(made)
    assert chunks.parse(content, end) == made
    assert len(content) <= chunks.most_bytes(end)
    wrongs = ((content, end - 1), (content[:-1], end), (b"", 0), (b"x" + content[1:], end))
    for wrong, size in wrongs:
        assert chunks.parse(wrong, size) == ()
    small = [replace(made[0], length=7), replace(made[1], begin=7, length=one)]
    assert chunks.parse(chunks.render(small), end) == ()  # each could cost a request
    none = (Chunk(begin=0, length=0, digest=b"a" * 32),)
    assert chunks.parse(chunks.render(none), 0) == ()


def test_neighbours_are_one_segment() -> None:
    wanted = [Chunk(begin=at, length=10, digest=bytes([at]) * 32) for at in range(0, 60, 10)]
    known = {
        one.digest: ("a", replace(one, begin=one.begin + 100)) for one in (wanted[1], wanted[2])
    } | {wanted[5].digest: ("a", replace(wanted[5], length=9))}
    assert chunks.plan(wanted, known) == (
        SourcePart(begin=0, end=10),
        SourcePart(begin=10, end=30, path="a", at=110),
        SourcePart(begin=30, end=60),
    )


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two images of twelve components of a megabyte, of which one is another in the second."""
    need("mksquashfs")
    folder = tmp_path_factory.mktemp("versions")
    made = []
    for number in (1, 2):
        for part in range(12):
            seed = part if part != 5 else 100 * number
            for name in range(4):
                path = folder / f"tree/part{part:02d}/file{name}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(random.Random(seed * 10 + name).randbytes(260_000))
        image = folder / f"{number}.squashfs"
        argv = ["mksquashfs", folder / "tree", image, "-noappend", "-no-progress", "-quiet",
                "-mkfs-time", "0", "-all-time", "0", "-comp", "zstd"]  # fmt: skip
        subprocess.run(argv, check=True, capture_output=True)
        made.append(image)
    return made[0], made[1]


@pytest.fixture(scope="module")
def pushed(
    versions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OwnRegistry]:
    """A server with both versions, which nobody changes."""
    with pytest.MonkeyPatch.context() as patch, OwnRegistry() as own:
        patch.setenv("STACKPROOF_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        registry = remotes.opened(RemoteOptions(registry=own.address))
        for path, label in zip(versions, (_OLD, _NEW), strict=True):
            pushing.push(registry, str(path), label)
        registry.client.close()
        yield own


@pytest.fixture
def server(
    pushed: OwnRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[OwnRegistry, OciRegistry]]:
    monkeypatch.setenv("HOME", str(tmp_path))
    with OwnRegistry() as own:
        own.blobs, own.manifests = dict(pushed.blobs), dict(pushed.manifests)
        own.tags = {name: dict(tags) for name, tags in pushed.tags.items()}
        registry = remotes.opened(RemoteOptions(registry=own.address))
        yield own, registry
        registry.client.close()


def _pull(registry: OciRegistry, label: addresses.RemoteLabel, folder: Path) -> pulling.Pulled:
    return pulling.pull(registry, pulling.look(registry, label), ImageRepository(folder))


@pytest.mark.battery
def test_an_update_of_one_component_moves_a_quarter_at_most(
    server: tuple[OwnRegistry, OciRegistry], versions: tuple[Path, Path], tmp_path: Path
) -> None:
    own, registry = server
    _pull(registry, _OLD, tmp_path / "repo")
    own.asked.clear()
    done = _pull(registry, _NEW, tmp_path / "repo")
    size = versions[1].stat().st_size
    assert files.sha256(done.record.file) == files.sha256(versions[1])
    assert own.given("/blobs/") <= size / 4
    assert done.received <= size / 4


@pytest.mark.parametrize("what", ["list", "image", "server"])
def test_what_is_wrong_comes_as_a_whole(
    what: str, server: tuple[OwnRegistry, OciRegistry], versions: tuple[Path, Path], tmp_path: Path
) -> None:
    own, registry = server
    old = Path(_pull(registry, _OLD, tmp_path / "repo").record.file)
    if what == "list":  # somebody has attached the list of another image of this size
        found = pulling.look(registry, _NEW)
        size = versions[1].stat().st_size
        wrong = tuple(reversed(delta.chunks_of(str(versions[1]))))
        content = chunks.render(wrong)
        assert chunks.parse(content, size)
        own.blobs["deploy/here/zen2/tiny/2", manifests.digest_of(content)] = content
        for (name, digest), (kind, text) in list(own.manifests.items()):
            manifest = manifests.parse(text, where="")
            if name == found.repository and getattr(manifest, "kind", "") == chunks.ARTEFACT:
                other = manifests.render(replace(manifest, layers=(delta.layer_of(content),)))
                own.manifests[name, digest] = (kind, other)
                own.manifests[name, manifests.digest_of(other)] = own.manifests.pop((name, digest))
    elif what == "image":
        old.chmod(0o644)
        old.write_bytes(bytes(old.stat().st_size))
        (old.parent / "chunks").write_bytes(chunks.render(delta.chunks_of(str(versions[0]))))
    else:
        own.ranges = False
    done = _pull(registry, _NEW, tmp_path / "repo")
    assert files.sha256(done.record.file) == files.sha256(versions[1])
    assert done.received >= versions[1].stat().st_size - (2 << 20)


def test_a_part_of_an_update_goes_on(
    server: tuple[OwnRegistry, OciRegistry], versions: tuple[Path, Path], tmp_path: Path
) -> None:
    own, registry = server
    _pull(registry, _OLD, tmp_path / "repo")
    digest = files.sha256(versions[1])
    own.faults = [Fault(match=f"/blobs/sha256:{digest}", cut=300_000)]
    done = _pull(registry, _NEW, tmp_path / "repo")
    assert files.sha256(done.record.file) == digest
    assert done.received <= versions[1].stat().st_size / 4
