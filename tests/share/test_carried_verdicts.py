"""Verdicts go with their image to registries and back; of several of one name the right one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from images import env_json, make_image
from need import need
from registries import OwnRegistry, docker_registry
from signers import Signer
from stackproof.core import noun
from stackproof.core.effects import files
from stackproof.share import addresses, manifests
from stackproof.share.effects import (
    attaching,
    attachments,
    carrying,
    judging,
    oci,
    pulling,
    pushing,
    signing,
    verdicts,
)
from stackproof.share.effects.carrying import Carried
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.manifests import OciDescriptor
from stackproof.share.options import RemoteOptions
from stackproof.share.verdict import AttestedVerdict

LABEL = "deploy::tiny/1:v1@here%x86_64"


NAME = "verdict-0123abcd.json"


def verdict_of(sha256: str, verdict: str = "PASS") -> bytes:
    made = AttestedVerdict(image=sha256, verdict=verdict, specification="0123abcd")
    return noun.to_json(made).encode()


class SharedImage:
    """An image with verdicts in a registry, and those who may push there."""

    def __init__(self, folder: Path, registry: OciRegistry) -> None:
        self.folder = folder
        self.registry = registry
        self.image = str(make_image(folder / "a.squashfs", meta=env_json(name="a")))
        self.sha256 = files.sha256(self.image)
        self.signer = Signer(folder, "me@site", folder / "allowed")
        self.meant = addresses.parse_remote(LABEL)

    def put(self, name: str, content: bytes) -> None:
        attachments.put_verdict(self.image, name, content)

    def push(self) -> int:
        pushing.push(self.registry, self.image, self.meant)
        return carrying.send(self.registry, pulling.look(self.registry, self.meant), self.image)

    def attach_as_another(
        self, name: str, content: bytes, *, created: str, kind: str = manifests.VERDICT
    ) -> None:
        """Attach a verdict as somebody does who may push, with whatever client."""
        image = pulling.look(self.registry, self.meant)
        layer = OciDescriptor(
            media_type=kind, digest=manifests.digest_of(content), size=len(content),
            annotations={manifests.TITLE: name},
        )  # fmt: skip
        one = manifests.referrer(
            kind, [layer], subject=manifests.descriptor_of(image.manifest),
            annotations={manifests.CREATED: created},
        )  # fmt: skip
        attaching.attach(self.registry, image.repository, one, [content])

    def fetch(self) -> Carried:
        return carrying.fetch(self.registry, pulling.look(self.registry, self.meant))


@pytest.fixture(params=["own", "docker"])
def shared(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SharedImage]:
    need("mksquashfs", "ssh-keygen")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    with contextlib.ExitStack() as stack:
        if request.param == "docker":
            need("docker-registry")
            address = stack.enter_context(docker_registry(tmp_path / "server"))
        else:
            address = stack.enter_context(OwnRegistry()).address
        registry = oci.opened(RemoteOptions(registry=f"{address}/images"))
        stack.callback(registry.client.close)
        found = SharedImage(tmp_path, registry)
        monkeypatch.setattr(judging, "default_signers", lambda: str(found.signer.allowed))
        yield found


@pytest.mark.battery
def test_there_and_back_and_to_another_namespace(shared: SharedImage, tmp_path: Path) -> None:
    content = verdict_of(shared.sha256)
    shared.put(NAME, content)
    assert shared.push() == 1
    assert shared.push() == 0
    image = pulling.look(shared.registry, shared.meant)
    (listed,) = (each for _, each in image.attached if each.kind == manifests.VERDICT)
    assert listed.layers[0].media_type == "application/json"
    assert listed.layers[0].annotations == {manifests.TITLE: NAME}

    pushing.copy(shared.registry, image, addresses.parse_remote(LABEL.replace("deploy", "build")))
    there = pulling.look(shared.registry, addresses.parse_remote(LABEL.replace("deploy", "build")))
    carried = carrying.fetch(shared.registry, there)
    assert carried.notes == ()
    copy = tmp_path / "elsewhere.squashfs"
    copy.write_bytes(Path(shared.image).read_bytes())
    carrying.put(str(copy), carried)
    facts = verdicts.look(str(copy), str(shared.signer.allowed))
    assert facts is not None
    assert [(each.name, each.signers) for each in facts.verdicts] == [(NAME, ())]


@pytest.mark.battery
def test_of_two_unsigned_verdicts_the_newer_is_taken(shared: SharedImage) -> None:
    shared.put(NAME, verdict_of(shared.sha256))
    assert shared.push() == 1
    newer = verdict_of(shared.sha256, verdict="FAIL")
    shared.attach_as_another(NAME, newer, created="2099-01-01T00:00:00Z")
    carried = shared.fetch()
    assert carried.verdicts == {NAME: newer}
    assert ["the newest" in note for note in carried.notes] == [True]


@pytest.mark.battery
def test_what_is_no_verdict_on_this_image_stays_there(shared: SharedImage) -> None:
    shared.push()
    own = verdict_of(shared.sha256)
    bad = {
        "verdict-00000000.json": verdict_of("ef" * 32),
        "verdict-00000001.json": b'{"schema": "stackproof/verdict/1"}',
        "verdict-00000002.json": b"nonsense",
        "verdict-00000003.json": b'{"_type": "https://in-toto.io/Statement/v1"}',
        "../../evil": own,
        "signature-0123456789abcdef.json": own,
        "meta": own,
        "verdict-00000004.json.sig": own,
        "": own,
    }
    for name, content in bad.items():
        shared.attach_as_another(name, content, created="2030-01-01T00:00:00Z")
    shared.attach_as_another(NAME, own, created="")
    shared.attach_as_another("theirs.xml", b"<x/>", created="", kind="uenv/reframe")
    carried = shared.fetch()
    assert [*carried.verdicts] == [NAME]
    assert len(carried.notes) == len(bad)


@pytest.mark.battery
def test_a_verdict_that_is_signed_with_the_image(shared: SharedImage) -> None:
    """Its signature names the digest, so that a newer one of that name does not count."""
    shared.signer.allow("me@site", shared.signer.public)
    mine = verdict_of(shared.sha256)
    shared.put(NAME, mine)
    said = signing.state(shared.image, "tiny/1:v1@here%x86_64")
    signing.sign(shared.image, said, shared.signer.key)
    assert shared.push() == 2
    shared.attach_as_another(NAME, verdict_of(shared.sha256, "FAIL"), created="2099")
    assert shared.fetch().verdicts == {NAME: mine}


@pytest.mark.battery
def test_a_signature_that_is_too_large_hides_no_other(shared: SharedImage) -> None:
    """Who may push cannot make an image one that nobody can verify."""
    shared.signer.allow("me@site", shared.signer.public)
    said = signing.state(shared.image, "tiny/1:v1@here%x86_64")
    signing.sign(shared.image, said, shared.signer.key)
    assert shared.push() == 1
    large = b"{}".ljust((1 << 20) + 1)
    shared.attach_as_another("statement.json", large, created="2099", kind=carrying.SIGNATURE)
    found = shared.fetch()
    assert (len(found.signatures), len(found.notes)) == (1, 1)
    attachments.put_signature(shared.image, large, b"x")
    assert len(signing.verify(shared.image, str(shared.signer.allowed)).good) == 1
