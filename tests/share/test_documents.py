"""Documents go with their image to registries and back; of several of one name the right one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from images import env_json, make_image
from need import need
from registries import OwnRegistry, docker_registry
from signers import Signer
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.share import addresses, manifests
from stackproof.share.attested import kinds
from stackproof.share.effects import (
    attaching,
    attachments,
    carrying,
    documents,
    judging,
    pulling,
    pushing,
    remotes,
    signing,
)
from stackproof.share.effects.carrying import Carried
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.manifests import OciDescriptor
from stackproof.share.options import RemoteOptions
from stackproof.share.trust.effects import seals
from stackproof.share.trust.effects.seals import Sealed

LABEL = "deploy::tiny/1:v1@here%x86_64"


def statement(sha256: str, **predicate: Any) -> bytes:
    data = {
        "_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1",
        "subject": [{"name": "x", "digest": {"sha256": sha256}}], "predicate": predicate,
    }  # fmt: skip
    return json.dumps(data).encode()


class SharedImage:
    """An image with documents in a registry, and those who may push there."""

    def __init__(self, folder: Path, registry: OciRegistry) -> None:
        self.folder = folder
        self.registry = registry
        self.image = str(make_image(folder / "a.squashfs", meta=env_json(name="a")))
        self.sha256 = files.sha256(self.image)
        self.signer = Signer(folder, "me@site", folder / "allowed")
        self.signer.allow("me@site", self.signer.public, 'namespaces="stackproof-document"')
        self.meant = addresses.parse_remote(LABEL)

    def put(self, name: str, content: bytes, *, signed: bool = False) -> None:
        seal = b""
        if signed:
            seal = documents.seal(name, content, self.sha256, self.signer.key)
        attachments.put_document(self.image, name, content, seal)

    def push(self) -> int:
        pushing.push(self.registry, self.image, self.meant)
        return carrying.send(self.registry, pulling.look(self.registry, self.meant), self.image)

    def attach_as_another(self, name: str, content: bytes, *, created: str, kind: str) -> None:
        """Attach a document as somebody does who may push, with whatever client."""
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
        registry = remotes.opened(RemoteOptions(registry=f"{address}/images"))
        stack.callback(registry.client.close)
        found = SharedImage(tmp_path, registry)
        monkeypatch.setattr(judging, "default_signers", lambda: str(found.signer.allowed))
        yield found


@pytest.mark.battery
def test_there_and_back_and_to_another_namespace(shared: SharedImage, tmp_path: Path) -> None:
    contents = {
        "bom.cdx.json": b'{"bomFormat": "CycloneDX"}',
        "provenance.intoto.json": statement(shared.sha256),
        "report.html": b"<p>fast</p>",
    }
    for name, content in contents.items():
        shared.put(name, content, signed=name != "report.html")
    assert shared.push() == 3
    assert shared.push() == 0
    image = pulling.look(shared.registry, shared.meant)
    listed = {
        one.layers[0].title: (one.kind, one.layers[0].media_type, one.layers[0].annotations)
        for _, one in image.attached
        if one.kind in kinds.ARTEFACTS
    }
    title = manifests.TITLE
    assert listed == {
        "bom.cdx.json": (kinds.CYCLONEDX, kinds.CYCLONEDX, {title: "bom.cdx.json"}),
        "provenance.intoto.json": (kinds.IN_TOTO, kinds.IN_TOTO, {
            title: "provenance.intoto.json",
            "in-toto.io/predicate-type": "https://slsa.dev/provenance/v1",
        }),
        "report.html": (kinds.DOCUMENT, "text/html", {title: "report.html"}),
    }  # fmt: skip

    pushing.copy(shared.registry, image, addresses.parse_remote(LABEL.replace("deploy", "build")))
    there = pulling.look(shared.registry, addresses.parse_remote(LABEL.replace("deploy", "build")))
    carried = carrying.fetch(shared.registry, there)
    assert carried.notes == ()
    copy = tmp_path / "elsewhere.squashfs"
    copy.write_bytes(Path(shared.image).read_bytes())
    carrying.put(str(copy), carried)
    found = documents.look(str(copy), str(shared.signer.allowed))
    assert found is not None
    assert {one.name: one.signers for one in found.documents} == {
        "bom.cdx.json": ("me@site",), "provenance.intoto.json": ("me@site",), "report.html": (),
    }  # fmt: skip


@pytest.mark.battery
def test_a_second_provenance_takes_the_place_of_no_signed_one(shared: SharedImage) -> None:
    mine, theirs = statement(shared.sha256, by="me"), statement(shared.sha256, by="them")
    name = "provenance.intoto.json"
    shared.put(name, mine, signed=True)
    shared.put("bom.cdx.json", b'{"bomFormat": "CycloneDX", "version": 1}')
    assert shared.push() == 2
    later = "2099-01-01T00:00:00Z"
    shared.attach_as_another(name, theirs, created=later, kind=kinds.IN_TOTO)
    newer = b'{"bomFormat": "CycloneDX", "version": 2}'
    shared.attach_as_another("bom.cdx.json", newer, created=later, kind=kinds.CYCLONEDX)
    found = shared.fetch()
    assert {one.name: one.content for one in found.documents} == {
        name: mine,
        "bom.cdx.json": newer,
    }
    assert ["the signed one" in note for note in sorted(found.notes)] == [False, True]


@pytest.mark.battery
def test_what_is_no_document_of_this_image_stays_there(shared: SharedImage) -> None:
    shared.push()
    bad = {
        "other.intoto.json": statement("ef" * 32),
        "broken.intoto.json": b'{"_type": "https://in-toto.io/Statement/v1"}',
        "../../evil": b"x",
        "signature-0123456789abcdef.json": b"{}",
        "meta": b"x",
        "report.html.sig": b"x",
        "": b"nameless",
    }
    for name, content in bad.items():
        shared.attach_as_another(name, content, created="2030-01-01T00:00:00Z", kind=kinds.IN_TOTO)
    shared.attach_as_another("fine.txt", b"x", created="", kind=kinds.DOCUMENT)
    shared.attach_as_another("theirs.xml", b"<x/>", created="", kind="uenv/reframe")
    found = shared.fetch()
    assert [one.name for one in found.documents] == ["fine.txt"]
    assert len(found.notes) == len(bad)


@pytest.mark.battery
def test_a_document_that_is_signed_with_the_image(shared: SharedImage) -> None:
    """Its signature names the digest, so that a newer one of that name does not count."""
    shared.signer.allow("me@site", shared.signer.public)
    shared.put("notes.txt", b"mine")
    said = signing.state(shared.image, "tiny/1:v1@here%x86_64")
    signing.sign(shared.image, said, shared.signer.key)
    assert shared.push() == 2
    shared.attach_as_another("notes.txt", b"theirs", created="2099", kind=kinds.DOCUMENT)
    (one,) = shared.fetch().documents
    assert one.content == b"mine"


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


def test_a_seal_is_good_for_one_name_one_content_and_one_image(shared: SharedImage) -> None:
    shared.put("a.txt", b"x", signed=True)
    path = attachments.documents(shared.image)["a.txt"]
    signers = str(shared.signer.allowed)
    assert documents.signed(shared.image, "a.txt", shared.sha256, signers)
    assert not documents.signed(shared.image, "a.txt", "ef" * 32, signers)
    attachments.put_document(shared.image, "b.txt", b"x", attachments.seal_of(path))
    assert not documents.signed(shared.image, "b.txt", shared.sha256, signers)
    # another content takes the seal away, the same one keeps it
    shared.put("a.txt", b"x")
    assert attachments.seal_of(path)
    shared.put("a.txt", b"y")
    assert not attachments.seal_of(path)
    # a key that is good for images alone signs no document, nor does one that is good no more
    text = documents.sealed_text(shared.sha256, "a.txt", "0" * 64)
    seal = seals.make(text, shared.signer.key, namespace=documents.NAMESPACE, what="a.txt")
    sealed = Sealed(text=text, seal=seal, file="a.txt", namespace=documents.NAMESPACE)
    assert seals.holder(sealed, signers).signer == "me@site"
    for options, reason in (
        ('namespaces="stackproof-image"', Reason.WRONG_SIGNER),
        ('valid-before="20200101"', Reason.KEY_EXPIRED),
        ('valid-after="20990101"', Reason.CLOCK_SKEW),
    ):
        shared.signer.allow("me@site", shared.signer.public, options)
        with pytest.raises(StackproofError) as caught:
            seals.holder(sealed, signers)
        assert caught.value.reason is reason
    with pytest.raises(StackproofError) as caught:
        seals.make(text, str(shared.signer.allowed), namespace="x", what="a.txt")
    assert caught.value.reason is Reason.NOT_PERMITTED
