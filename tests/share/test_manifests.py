"""Manifests: the bytes of oras 1.3.3, what is attached, and answers that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refusing import refused
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.share import manifests
from stackproof.share.effects import pulling
from stackproof.share.manifests import EMPTY, OciDescriptor, OciIndex, OciManifest

_ORAS = Path(__file__).parents[1] / "golden" / "oras"
_FILE = "sha256:" + "1" * 64
_CREATED = "2026-11-22T07:08:15Z"
# As oras 1.3.3 wrote it into a registry, but for the digests of files.
_IMAGE = (
    '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",'
    '"artifactType":"application/x-squashfs",'
    '"config":{"mediaType":"application/vnd.oci.empty.v1+json",'
    '"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",'
    '"size":2,"data":"e30="},'
    '"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"' + _FILE + '",'
    '"size":3000000,"annotations":{"org.opencontainers.image.title":"store.squashfs"}}],'
    '"annotations":{"org.opencontainers.image.created":"2026-11-22T07:08:15Z"}}'
)
_META = (
    '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",'
    '"artifactType":"uenv/meta","config":{"mediaType":"application/vnd.oci.empty.v1+json",'
    '"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",'
    '"size":2,"data":"e30="},'
    '"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"' + _FILE + '",'
    '"size":151,"annotations":{"io.deis.oras.content.digest":"' + _FILE + '",'
    '"io.deis.oras.content.unpack":"true","org.opencontainers.image.title":"meta"}}],'
    '"subject":{"mediaType":"application/vnd.oci.image.manifest.v1+json",'
    '"digest":"SUBJECT","size":585},'
    '"annotations":{"org.opencontainers.image.created":"2026-11-22T07:08:15Z"}}'
)


def _image(**options: str) -> OciManifest:
    return manifests.image_manifest(digest=_FILE, size=3000000, created=_CREATED, **options)


def _meta(digest: str = _FILE) -> OciManifest:
    annotations = {
        manifests.UNPACK: "true", manifests.UNPACKED_DIGEST: _FILE, manifests.TITLE: "meta",
    }  # fmt: skip
    layer = OciDescriptor(
        media_type=manifests.TAR_GZIP, digest=digest, size=151, annotations=annotations
    )
    subject = manifests.descriptor_of(_image())
    created = {manifests.CREATED: _CREATED}
    return manifests.referrer(manifests.META, [layer], subject=subject, annotations=created)


def test_an_image_is_written_as_oras_does() -> None:
    content = manifests.render(_image())
    assert content.decode() == _IMAGE
    assert manifests.parse(content, where="here") == _image()
    assert manifests.image_layer(_image(), where="here").hex == "1" * 64


def test_the_file_of_an_image_that_uenv_pushed_keeps_its_name() -> None:
    image = _image()
    layer = replace(image.layers[0], annotations={manifests.TITLE: "mpich.squashfs"})
    named = replace(image, layers=(layer,))
    assert manifests.image_layer(named, where="here") == layer
    for other in (replace(named, artifact_type=""), replace(named, layers=(layer, layer))):
        with pytest.raises(StackproofError) as caught:
            manifests.image_layer(other, where="here")
        assert "mpich.squashfs" in str(caught.value)


def test_meta_is_attached_as_oras_does() -> None:
    image = manifests.descriptor_of(_image())
    wanted = _META.replace("SUBJECT", image.digest).replace("585", str(image.size))
    assert manifests.render(_meta()).decode() == wanted
    assert manifests.parse(wanted.encode(), where="here") == _meta()


def test_what_oras_1_2_wrote_is_read_and_written_byte_for_byte(tmp_path: Path) -> None:
    """What it put into docker-registry: image, list under the fallback tag, meta; and its archive."""
    image, index, meta = (
        manifests.parse((_ORAS / f"{name}.json").read_bytes(), where=name)
        for name in ("image", "index", "meta")
    )
    assert isinstance(image, OciManifest)
    assert isinstance(index, OciIndex)
    assert isinstance(meta, OciManifest)
    for one, name in ((image, "image"), (meta, "meta")):
        assert manifests.render(one) == (_ORAS / f"{name}.json").read_bytes()
    assert [one.digest for one in index.manifests] == [manifests.digest_of(manifests.render(meta))]
    found = manifests.meta_layer(image, [meta], where="here")
    packed = (_ORAS / "meta.tar.gz").read_bytes()
    assert found is not None
    assert found.digest == manifests.digest_of(packed)
    pulling.unpack_meta(packed, found, tmp_path)
    assert json.loads((tmp_path / "meta/env.json").read_bytes()) == {"name": "tiny"}


def test_a_listed_manifest_has_its_type_and_annotations() -> None:
    listed = manifests.descriptor_of(_meta())
    assert (listed.artifact_type, listed.annotations) == (
        "uenv/meta",
        {manifests.CREATED: _CREATED},
    )
    index = manifests.with_referrer(OciIndex(manifests=()), listed)
    assert manifests.with_referrer(index, listed) == index
    assert manifests.parse(manifests.render(index), where="here") == index
    assert manifests.fallback_tag(listed.digest) == f"sha256-{listed.hex}"


def test_what_html_would_take_is_written_as_go_does() -> None:
    made = OciManifest(artifact_type="a", config=EMPTY, layers=(), annotations={"b": "<é>&"})
    assert '"b":"\\u003cé\\u003e\\u0026"' in manifests.render(made).decode()


def test_a_type_that_is_not_said_is_that_of_the_configuration() -> None:
    made = OciManifest(artifact_type="", layers=(), config=replace(EMPTY, media_type="x/y"))
    assert made.kind == "x/y"
    assert b"artifactType" not in manifests.render(made)


def test_only_the_recorded_meta_counts() -> None:
    own, other = _meta(), _meta("sha256:" + "2" * 64)
    recorded = _image(meta_digest=_FILE)
    for attached in ([own, other], [other, own]):
        found = manifests.meta_layer(recorded, attached, where="here")
        assert found is not None
        assert found.digest == _FILE
    with refused(Reason.META_MISMATCH):
        manifests.meta_layer(recorded, [other], where="here")


def test_a_copy_without_anything_attached_has_its_meta_inside_alone() -> None:
    assert manifests.meta_layer(_image(meta_digest=_FILE), [], where="here") is None


def test_without_a_record_there_is_one_meta_or_none() -> None:
    own, other = _meta(), _meta("sha256:" + "2" * 64)
    assert manifests.meta_layer(_image(), [own], where="here") == own.layers[0]
    assert manifests.meta_layer(_image(), [], where="here") is None
    with refused(Reason.META_AMBIGUOUS):
        manifests.meta_layer(_image(), [own, other], where="here")


@pytest.mark.parametrize(
    "change",
    [
        {"schemaVersion": 1},
        {"mediaType": "application/vnd.docker.distribution.manifest.v2+json"},
        {"config": None},
        {"layers": "none"},
        {"layers": [{"digest": "sha256:1", "size": 1}]},
        {"layers": [{"digest": _FILE, "size": -1}]},
        {"layers": [{"digest": _FILE, "size": True}]},
        {"layers": [{}] * 1001},
        {"annotations": {"a": 1}},
        {"annotations": []},
        {"subject": {}},
    ],
    ids=str,
)
def test_what_is_no_manifest(change: dict[str, object]) -> None:
    data = {**json.loads(_IMAGE), **change}
    with refused(Reason.REGISTRY_ANSWER):
        manifests.parse(json.dumps(data).encode(), where="here")


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"[" * 100_000, b"{}"], ids=len)
def test_what_is_no_json_object(content: bytes) -> None:
    with refused(Reason.REGISTRY_ANSWER):
        manifests.parse(content, where="here")


def test_a_container_is_no_image() -> None:
    container = OciManifest(config=EMPTY, layers=_meta().layers)
    with pytest.raises(StackproofError) as caught:
        manifests.image_layer(container, where="here")
    assert "meta" in str(caught.value)
    with pytest.raises(StackproofError):
        manifests.parse_manifest(manifests.render(OciIndex(manifests=())), where="here")
