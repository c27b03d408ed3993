"""Images in registries: pushed, found, pulled, copied, gone back to and deleted, on both servers."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import uenvsql
from images import make_image
from need import need
from refusing import refused
from registries import Fault, OwnRegistry, be_alone, docker_registry
from stackproof.core.effects import files
from stackproof.core.errors import Reason
from stackproof.core.monitor import Event, Monitor, null_monitor
from stackproof.core.value import replace
from stackproof.share import addresses, manifests
from stackproof.share.effects import attaching, catalogue, oci, pulling, pushing
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.labels import RemoteLabel
from stackproof.share.options import RemoteOptions

COVERS = (
    "share/effects/attaching.py",
    "share/effects/catalogue.py",
    "share/effects/oci.py",
    "share/effects/pulling.py",
    "share/effects/pushing.py",
    "share/effects/uploading.py",
)
WHOLE = "tiny/1:v1@here%zen2"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    be_alone(tmp_path, monkeypatch)
    yield
    while _OPEN:
        _OPEN.pop().client.close()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("mksquashfs")
    return make_image(tmp_path_factory.mktemp("image") / "a.squashfs")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("mksquashfs")
    folder = tmp_path_factory.mktemp("image")
    return make_image(
        folder / "b.squashfs", options=("-p", "more f 644 0 0 head -c 300000 /dev/urandom")
    )


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need("docker-registry")
    with docker_registry(tmp_path_factory.mktemp("docker")) as address:
        yield address


@pytest.fixture(params=["docker-registry", "own", "own-without-referrers"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address on each kind of server, another one for each test."""
    below = "".join(one if one.isalnum() else "-" for one in request.node.name.lower())
    if request.param == "docker-registry":
        yield f"{request.getfixturevalue('docker')}/{below.strip('-')}"
    else:
        with OwnRegistry(referrers=request.param == "own") as server:
            yield f"{server.address}/images"


_OPEN: list[OciRegistry] = []


def opened(address: str) -> OciRegistry:
    _OPEN.append(oci.opened(RemoteOptions(registry=address)))
    return _OPEN[-1]


def remote(text: str) -> RemoteLabel:
    return addresses.parse_remote(text)


@pytest.mark.battery
def test_the_whole_road(address: str, image: Path, other: Path, tmp_path: Path) -> None:
    registry, here = opened(address), ImageRepository(tmp_path / "repo")
    label = remote(f"build::{WHOLE}")
    pushed = pushing.push(registry, str(image), label)
    assert pushed.sent == image.stat().st_size
    assert pushing.push(registry, str(image), label).sent == 0

    for fresh in (False, True):
        (found,) = catalogue.find(registry, "build", fresh=fresh)
        assert found == pushed.listed
        assert found.digest == files.sha256(image)
    listed = catalogue.choose(registry, remote("build::tiny"))
    assert catalogue.choose(registry, remote(f"build::{listed.id}")) == listed

    done = pulling.pull(registry, pulling.look_again(registry, listed), here)
    assert files.sha256(done.record.file) == listed.digest
    folder = Path(done.record.folder)
    assert manifests.digest_of((folder / "manifest.json").read_bytes()) == listed.manifest
    assert json.loads((folder / "meta/env.json").read_bytes())["name"]
    assert pulling.pull(registry, pulling.look(registry, label), here).received == 0

    copied = pushing.copy(registry, pulling.look(registry, label), remote(f"deploy::{WHOLE}"))
    assert copied.sent == 0
    assert copied.listed.manifest == listed.manifest
    taken = pulling.look(registry, remote(f"deploy::{WHOLE}"))
    assert taken.meta is not None

    with refused(Reason.LABEL_TAKEN):
        pushing.push(registry, str(other), label)
    newer = pushing.push(registry, str(other), label, force=True)
    assert newer.replaced == listed.manifest
    assert [bool(one.until) for one in pushing.history(registry, label)] == [False, True]
    assert len(catalogue.find(registry, "build", fresh=True)) == 1
    with refused(Reason.LABEL_TAKEN):
        pulling.pull(registry, pulling.look(registry, label), here)
    assert pushing.rollback(registry, label).listed == pushed.listed
    assert pulling.look(registry, label).listed.manifest == listed.manifest
    with refused(Reason.IMAGE_MISSING):
        pushing.rollback(registry, label, "f" * 16)
    assert pushing.rollback(registry, label, newer.listed.id).replaced == listed.manifest

    again = remote("build::tiny/1:again@here%zen2")
    pushing.copy(registry, pulling.look(registry, label), again)
    with refused(Reason.LABELS_LOST) as caught:
        pushing.delete(registry, label)
    assert str(again) in str(caught.value)
    assert {label, again} <= set(pushing.delete(registry, label, force=True))
    assert catalogue.find(registry, "build") == ()
    with refused(Reason.IMAGE_MISSING):
        pulling.look(registry, label)
    assert [one.remote for one in catalogue.find(registry, "deploy")] == [
        remote(f"deploy::{WHOLE}")
    ]


def test_deleting_takes_what_is_attached(address: str, image: Path) -> None:
    registry, label = opened(address), remote(f"build::{WHOLE}")
    pushing.push(registry, str(image), label)
    found = pulling.look(registry, label)
    ((meta, _),) = found.attached
    pushing.delete(registry, label)
    with refused(Reason.IMAGE_MISSING):
        registry.manifest(found.repository, meta)
    tag = manifests.fallback_tag(found.listed.manifest)
    assert registry.digest_of_tag(found.repository, tag) == ""


def test_what_a_server_has_collected_keeps_no_image_away(image: Path, tmp_path: Path) -> None:
    """`garbage-collect --delete-untagged` takes what is attached, and its list keeps its tag."""
    with OwnRegistry(referrers=False) as server:
        registry, label = opened(server.address), remote(f"build::{WHOLE}")
        pushing.push(registry, str(image), label)
        whole = pulling.look(registry, label)
        assert whole.attached
        for digest, _ in whole.attached:
            del server.manifests[whole.repository, digest]
        left = pulling.look(registry, label)
        assert left.attached == ()
        done = pulling.pull(registry, left, ImageRepository(tmp_path / "repo"))
        assert (Path(done.record.folder) / "meta/env.json").is_file()
        pushing.push(registry, str(image), label)
        assert pulling.look(registry, label).attached == whole.attached


@pytest.mark.battery
def test_several_attach_at_once(address: str, image: Path) -> None:
    registry, label = opened(address), remote(f"build::{WHOLE}")
    pushing.push(registry, str(image), label)
    found = pulling.look(registry, label)
    subject = manifests.OciDescriptor(
        media_type=manifests.MANIFEST, digest=found.listed.manifest, size=len(found.content)
    )

    def attach(number: int) -> str:
        annotations = {manifests.CREATED: "2026-11-22T07:08:15Z"}
        content = f"note {number}".encode()
        layer = manifests.OciDescriptor(
            media_type="text/plain", digest=manifests.digest_of(content), size=len(content)
        )
        made = manifests.referrer("x/note", [layer], subject=subject, annotations=annotations)
        return attaching.attach(opened(address), found.repository, made, [content])

    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(attach, range(4)))
    attached = attaching.attached(registry, found.repository, found.listed.manifest, "x/note")
    assert {digest for digest, _ in attached} == made


def test_of_two_that_move_a_tag_one_is_told(image: Path, other: Path) -> None:
    with OwnRegistry() as server:
        registry, label = opened(server.address), remote(f"build::{WHOLE}")
        pushing.push(registry, str(image), label)
        repository = registry.address.repository(*label.path)
        moved = threading.Event()

        def meanwhile(event: object) -> None:
            if not moved.is_set():
                moved.set()
                other = manifests.OciManifest(config=manifests.EMPTY, layers=())
                content = manifests.render(other)
                registry.put_manifest(repository, "v1", content, manifests.MANIFEST)

        with refused(Reason.TAG_MOVED):
            pushing.push(registry, str(other), label, force=True, monitor=meanwhile)


def test_a_tag_that_moves_between_list_and_pull(image: Path, other: Path) -> None:
    with OwnRegistry() as server:
        registry, label = opened(server.address), remote(f"build::{WHOLE}")
        listed = pushing.push(registry, str(image), label).listed
        pushing.push(registry, str(other), label, force=True)
        with refused(Reason.TAG_MOVED):
            pulling.look_again(registry, listed)


def test_copying_without_mounts_sends(image: Path) -> None:
    with OwnRegistry(mounts=False) as server:
        registry, label = opened(server.address), remote(f"build::{WHOLE}")
        pushing.push(registry, str(image), label)
        copied = pushing.copy(registry, pulling.look(registry, label), remote(f"deploy::{WHOLE}"))
        assert copied.sent >= image.stat().st_size
        with refused(Reason.USAGE):
            pushing.copy(registry, pulling.look(registry, label), label)


def test_eight_pulls_are_one_download(other: Path, tmp_path: Path) -> None:
    with OwnRegistry() as server:
        label = remote(f"build::{WHOLE}")
        pushing.push(opened(server.address), str(other), label)
        server.asked.clear()

        def pull(_: int) -> str:
            registry = opened(server.address)
            here = ImageRepository(tmp_path / "repo")
            return pulling.pull(registry, pulling.look(registry, label), here).record.digest

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(pull, range(8)))) == 1
        size = other.stat().st_size
        digest = files.sha256(other)
        assert server.given(f"/blobs/sha256:{digest}") == size


@pytest.mark.battery
def test_who_waits_for_another_pull_is_told(other: Path, tmp_path: Path) -> None:
    digest = files.sha256(other)
    with OwnRegistry() as server:
        label = remote(f"build::{WHOLE}")
        pushing.push(opened(server.address), str(other), label)
        server.faults = [Fault(match=f"/blobs/sha256:{digest}", stall=1)]
        told: list[str] = []

        def monitor(event: Event) -> None:
            if event.name == "wait":
                told.append(event.text)
                server.release.set()

        def pull(monitor: Monitor) -> None:
            registry = opened(server.address)
            here = ImageRepository(tmp_path / "repo")
            pulling.pull(registry, pulling.look(registry, label), here, monitor=monitor)

        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(pull, null_monitor)
            while not list(tmp_path.glob("repo/images/.part-*.lock")):
                assert not first.done()
                time.sleep(0.01)
            pull(monitor)
            first.result()
        assert told == [f"another command is pulling {label.label}"]


@pytest.mark.battery
def test_a_second_meta_counts_for_nothing(address: str, image: Path, tmp_path: Path) -> None:
    registry, label = opened(address), remote(f"build::{WHOLE}")
    pushing.push(registry, str(image), label)
    found = pulling.look(registry, label)
    assert found.meta is not None
    ((_, own),) = found.attached
    wrong = replace(own.layers[0], digest=manifests.digest_of(b"other"), size=5)
    attaching.attach(registry, found.repository, replace(own, layers=(wrong,)), [b"other"])
    assert pulling.look(registry, label).meta == found.meta

    # An image whose manifest records none, as uenv pushes them: nobody can tell which is its own.
    bare = replace(found.manifest, annotations={manifests.CREATED: "2026-11-22T07:08:15Z"})
    content = manifests.render(bare)
    registry.put_manifest(found.repository, "v2", content, manifests.MANIFEST)
    subject = manifests.descriptor_of(bare)
    attaching.put(registry, found.repository, replace(own, subject=subject))
    second = remote("build::tiny/1:v2@here%zen2")
    here = ImageRepository(tmp_path / "repo")
    pulling.pull(registry, pulling.look(registry, second), here)
    attaching.put(registry, found.repository, replace(own, subject=subject, layers=(wrong,)))
    with refused(Reason.META_AMBIGUOUS):
        pulling.look(registry, second)


def test_meta_is_packed_as_oras_reads_it(image: Path) -> None:
    """It makes the digest of what it reads: to the end of the archive, and no padding behind it."""
    packed = pushing.pack_meta(str(image))
    assert packed is not None
    assert packed == pushing.pack_meta(str(image))
    content = gzip.decompress(packed.content)
    assert packed.unpacked == manifests.digest_of(content)
    assert content[-1024:] == bytes(1024)
    assert any(content[-1536:-1024])


def test_what_a_vendor_lets_nobody_hand_on(tmp_path: Path) -> None:
    need("mksquashfs")
    meta = '{"name": "v", "mount": "/user-environment", "stackproof": {"redistribute": "no"}}'
    made = make_image(tmp_path / "v.squashfs", meta=meta)
    with OwnRegistry() as server, refused(Reason.NOT_REDISTRIBUTABLE):
        pushing.push(opened(server.address), str(made), remote(f"build::{WHOLE}"))
    assert not server.asked


@pytest.mark.parametrize("word", ["Tiny/1:v1@here%zen2", "tiny/1:v1@here", "tiny/1..2:v1@h%z",
                                  "tiny/1:v1.until-2@h%z"])  # fmt: skip
def test_labels_that_no_registry_takes(word: str, image: Path) -> None:
    with OwnRegistry() as server, refused(Reason.USAGE):
        pushing.push(opened(server.address), str(image), remote(f"build::{word}"))


def test_a_list_that_a_site_serves(image: Path) -> None:
    with OwnRegistry(catalog=False) as server:
        registry, label = opened(server.address), remote(f"build::{WHOLE}")
        listed = pushing.push(registry, str(image), label).listed
        row = {"path": "build/here/zen2/tiny/1/v1", "sha256": listed.manifest[7:], "size": 1,
               "created": "2026-11-22T07:08:15.000Z"}  # fmt: skip
        with OwnRegistry() as service:
            address = f"http://{service.address}/list"
            body = json.dumps({"results": [row, {"path": 1}, {"path": "docker/image:1"}]}).encode()
            service.faults.append(
                Fault(match="/list.namespace=build", times=9, status=200, body=body)
            )
            (found,) = catalogue.find(registry, "build", service=address)
            assert found.remote == label
            assert pulling.look_again(registry, found).listed.digest == listed.digest
            with refused(Reason.REGISTRY_ANSWER):
                catalogue.find(registry, "deploy", service=address)


def test_an_image_without_a_date_has_one_that_uenv_reads(tmp_path: Path) -> None:
    """As builds make them, the same each time; and one that another client pushed with 1970."""
    need("mksquashfs")
    image = make_image(tmp_path / "a.squashfs", options=("-mkfs-time", "0"))
    label, here = remote(f"build::{WHOLE}"), ImageRepository(tmp_path / "repo")
    with OwnRegistry() as server:
        registry = opened(server.address)
        pushing.push(registry, str(image), label)
        found = pulling.look(registry, label)
        assert found.manifest.annotations[manifests.CREATED] == "2022-01-01T00:00:00Z"
        content = found.content.replace(b"2022-01-01", b"1970-01-01")
        registry.put_manifest(found.repository, "v1", content, manifests.MANIFEST)
        found = pulling.look(registry, label)
        assert found.listed.date == "1970-01-01 00:00:00"
        pulling.pull(registry, found, here)
    (row,) = uenvsql.listed(here.folder)
    assert row["date"] == "2022-01-01 00:00:00"


def test_a_registry_that_tells_nothing(image: Path) -> None:
    with OwnRegistry(catalog=False) as server:
        registry = opened(server.address)
        with refused(Reason.REGISTRY_UNABLE):
            catalogue.find(registry, "build")
        pushing.push(registry, str(image), remote(f"build::{WHOLE}"))
        assert len(catalogue.find(registry, "build")) == 1


def test_lists_come_in_pages(image: Path) -> None:
    with OwnRegistry(page=2) as server:
        registry = opened(server.address)
        pushing.push(registry, str(image), remote(f"build::{WHOLE}"))
        found = pulling.look(registry, remote(f"build::{WHOLE}"))
        for tag in ("v2", "v3", "v4", "v5"):
            registry.put_manifest(found.repository, tag, found.content, manifests.MANIFEST)
        assert len(catalogue.find(registry, "build", fresh=True)) == 5
