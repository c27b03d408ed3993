"""Layers to one tree, archives, descriptions and SIF headers; hostile and damaged ones too."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusing import refused
from rootfslab import config, layer, member, oci_files, sif
from stackproof.core.errors import Reason, StackproofError
from stackproof.image.container import oci, tar
from stackproof.image.container.effects import roots as container_roots
from stackproof.image.container.tree import Member, RootTree


def members(content: bytes) -> list[Member]:
    return [
        Member(one.name, one.kind, one.link, one.mode, one.size, -1)
        for one in tar.entries(tar.MemoryStream(content, "test"))
    ]


def tree_of(*layers: bytes) -> RootTree:
    tree = RootTree("test")
    for content in layers:
        tree.add_layer(members(content))
    return tree


def paths(tree: RootTree) -> list[str]:
    return [path for path, _ in tree.files("/")]


def test_whiteouts():
    """They hide what is below, never what their own layer has, wherever they stand."""
    base = layer(*(member(f"a/{name}", b"1") for name in "xyz"), member("b/old", b"1"))
    top = layer(
        member("a/x", b"22"), member("a/.wh.x"), member("a/.wh.y"),
        member("b/new", b"2"), member("b/.wh..wh..opq"), member("b/.wh..wh.aufs"),
    )  # fmt: skip
    tree = tree_of(base, top)
    assert paths(tree) == ["/a/x", "/a/z", "/b/new"]
    assert tree.at("/a/x").size == 2
    assert paths(tree_of(base, layer(member(".wh.a")))) == ["/b/old"]
    assert paths(tree_of(base, layer(member(".wh.nothing"), member("no/.wh.where")))) == paths(
        tree_of(base)
    )


def test_links_stay_inside():
    tree = tree_of(
        layer(
            member("usr/lib/real", b"1"), member("lib", link="usr/lib"), member("out", link="../../../etc"),
            member("deep/loop", link="loop"), member("abs", link="/usr/lib/real"),
        ),
        layer(member("lib/more", b"1"), member("out/passwd", b"1")),
    )  # fmt: skip
    assert paths(tree) == ["/etc/passwd", "/usr/lib/more", "/usr/lib/real"]
    assert tree.find("/lib/real") is tree.find("/usr/lib/real") is tree.find("/abs")
    assert tree.find("/deep/loop/x") is None
    assert tree.find("/lib", follow=False).kind == "symlink"


def test_entries_that_replace_others():
    tree = tree_of(
        layer(
            member("a", b"1"), member("b/c", b"1"), member("twice", b"1"), member("twice", b"22")
        ),
        layer(member("a/inside", b"1"), member("b", b"1"), member("hard", hard="twice")),
    )
    assert paths(tree) == ["/a/inside", "/b", "/hard", "/twice"]
    assert tree.at("/hard") is tree.at("/twice")
    assert tree.at("/twice").size == 2


@pytest.mark.parametrize(
    "bad",
    [
        [member("../out", b"1")],
        [member("a/../../out", b"1")],
        [member("a", hard="missing")],
        [member("a", hard="../../etc/passwd")],
        [member("x", link="x"), member("x/y", b"1")],
        [member("d", folder=True), member("h", hard="d")],
    ],
)
def test_hostile_entries(bad):
    with refused(Reason.IMAGE_UNREADABLE):
        tree_of(layer(*bad))


def test_links_that_grow_are_given_up():
    """Each link names the one before many times: following them all would never end."""
    many = [member("l0", link="/" + "a/../" * 400)]
    many += [member(f"l{n}", link=f"l{n - 1}/../" * 40) for n in range(1, 30)]
    assert tree_of(layer(*many)).find("/l29/x") is None


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_of_every_format(form):
    long = "d/" * 60 + "file"
    names = ["short", "d" * 90 + "/" + "e" * 90]
    names += [] if form == tarfile.USTAR_FORMAT else [long + "x" * 100, "ü/ö"]
    content = layer(*(member(name, b"123") for name in names), form=form)
    found = list(tar.entries(tar.MemoryStream(content, "test")))
    assert [(one.name, one.size) for one in found] == [(name, 3) for name in names]


def test_a_size_beyond_octal_digits():
    entry = member("big", size=1 << 40)[0].tobuf(tarfile.GNU_FORMAT)
    assert next(tar.entries(tar.MemoryStream(entry, "test"))).size == 1 << 40


def test_sparse_files_are_refused():
    entry = member("x", b"")[0]
    entry.type = tarfile.GNUTYPE_SPARSE
    with refused(Reason.UNSUPPORTED):
        list(tar.entries(tar.MemoryStream(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1024), "test")))


def test_a_name_of_gigabytes_costs_nothing():
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 5 << 30
    with refused(Reason.TOO_LARGE):
        list(tar.entries(tar.MemoryStream(entry.tobuf(tarfile.GNU_FORMAT), "test")))


def test_cut_and_changed_archives():
    content = layer(member("a" * 150, b"1" * 700), member("b", link="a"), member("ü", b"2"))
    rng, reasons = random.Random(1), set()
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        cut = bytes(damaged[: rng.randrange(len(damaged))])
        for one in (bytes(damaged), cut):
            try:
                tree_of(one)
            except StackproofError as error:
                reasons.add(error.reason)
    assert reasons <= {Reason.IMAGE_UNREADABLE, Reason.TOO_LARGE, Reason.UNSUPPORTED}
    assert Reason.IMAGE_UNREADABLE in reasons


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ENTRIES = st.one_of(
    st.tuples(st.just("file"), PATHS, st.integers(0, 9)),
    st.tuples(st.just("folder"), PATHS, st.none()),
    st.tuples(st.just("gone"), PATHS, st.none()),
    st.tuples(st.just("opaque"), PATHS, st.none()),
)


@given(st.lists(st.lists(ENTRIES, max_size=5), max_size=4))
def test_trees_are_those_of_real_folders(tmp_path_factory, layers):
    """The same operations on a folder of this machine leave the same files."""
    top = tmp_path_factory.mktemp("root")
    packed = []
    for entries in layers:
        rows = []
        for kind, path, size in entries:
            folder, name = os.path.split(path)
            rows.append(
                {
                    "file": lambda p=path, s=size: member(p, b"x" * (s or 0)),
                    "folder": lambda p=path: member(p, folder=True),
                    "gone": lambda f=folder, n=name: member(os.path.join(f, f".wh.{n}")),
                    "opaque": lambda p=path: member(f"{p}/.wh..wh..opq"),
                }[kind]()
            )
        packed.append(layer(*rows))
        for kind, path, _ in entries:
            place = top / path
            if kind == "gone" and place.is_dir():
                shutil.rmtree(place)
            elif kind == "gone" and place.exists():
                place.unlink()
            elif kind == "opaque" and place.is_dir():
                shutil.rmtree(place)
                place.mkdir()
        for kind, path, size in entries:
            place = top / path
            if kind not in {"file", "folder"}:
                continue
            for parent in reversed(place.relative_to(top).parents[:-1]):
                if (top / parent).is_file():
                    (top / parent).unlink()
                (top / parent).mkdir(exist_ok=True)
            if kind == "folder":
                if place.is_file():
                    place.unlink()
                place.mkdir(exist_ok=True)
            else:
                if place.is_dir():
                    shutil.rmtree(place)
                place.write_bytes(b"x" * size)
    expected = sorted(
        (f"/{path.relative_to(top)}", path.stat().st_size)
        for path in top.rglob("*")
        if path.is_file()
    )
    tree = tree_of(*packed)
    assert sorted((path, node.size) for path, node in tree.files("/")) == expected
    shutil.rmtree(top)


def test_configuration():
    told = oci.parse_config(
        config(
            [b"x"],
            Env=["A=1=2", "EMPTY=", "none"],
            Entrypoint=["/run"],
            Cmd=["x"],
            Labels={"l": "v"},
        ),
        file="f",
    )
    assert told.environment == {"A": "1=2", "EMPTY": ""}
    assert told.command == ("/run", "x")
    assert told.labels == {"l": "v"}
    assert told.architecture == "x86_64"
    assert len(told.diff_ids) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"manifests": {}}', b'{"manifests": [1]}', b"[" * 100_000,
     b'{"manifests": [{"digest": "sha256:../../../etc/passwd"}]}',
     b'{"manifests": [{"digest": "md5:d41d8cd98f00b204e9800998ecf8427e"}]}'],
)  # fmt: skip
def test_indexes_that_are_none(content):
    with refused(Reason.IMAGE_UNREADABLE):
        oci.parse_index(content, file="f")


def test_tags():
    blobs = tuple(
        oci.parse_index(
            json.dumps(
                {
                    "manifests": [
                        {
                            "digest": f"sha256:{n:064}", "platform": {"architecture": machine},
                            "annotations": {"org.opencontainers.image.ref.name": tag},
                        }
                        for n, (tag, machine) in enumerate(
                            [("one", "amd64"), ("one", "arm64"), ("registry/two:v2", "amd64")]
                        )
                    ]
                }
            ).encode(),
            file="f",
        )
    )  # fmt: skip
    assert oci.chosen(blobs, "one", "aarch64", file="f") is blobs[1]
    assert oci.chosen(blobs, "v2", "aarch64", file="f") is blobs[2]
    for tag in ("", "three"):
        with refused(Reason.INVALID_VALUE) as caught:
            oci.chosen(blobs, tag, "x86_64", file="f")
        assert "one" in caught.value.problems[0].hint


def test_a_manifest_of_too_many_layers():
    files = oci_files([b"x"])
    blob = {"digest": "sha256:" + "0" * 64, "size": 1}
    content = (
        b'{"config": ' + str(blob).replace("'", '"').encode() + b', "layers": ['
        + b",".join([str(blob).replace("'", '"').encode()] * 600) + b"]}"
    )  # fmt: skip
    with pytest.raises(StackproofError):
        oci.parse_manifest(content, file="f")
    assert len(oci.parse_index(files["index.json"], file="f")) == 1


def read_sif(content: bytes):
    stream = io.BytesIO(content)
    return container_roots.find_partition(stream, file_size=len(content), file="f")


def test_sif():
    one = read_sif(sif(b"data"))
    assert (one.format, one.offset, one.size, one.architecture) == ("squashfs", 32768, 4, "x86_64")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (sif(b"x", size=10), Reason.IMAGE_UNREADABLE),
        (sif(b"x", size=-1), Reason.IMAGE_UNREADABLE),
        (sif(b"x", role=4), Reason.IMAGE_UNREADABLE),
        (sif(b"x", form=5), Reason.UNSUPPORTED),
        (sif(b"x")[:5000], Reason.IMAGE_UNREADABLE),
        (sif(b"x")[:100], Reason.IMAGE_UNREADABLE),
        (sif(b"x").replace(b"SIF_MAGIC\x0001\0", b"SIF_MAGIC\x0002\0"), Reason.UNSUPPORTED),
    ],
)
def test_damaged_sif(content, reason):
    with refused(reason):
        read_sif(content)


def test_changed_sif_headers():
    content = sif(b"data")
    rng, reasons = random.Random(2), set()
    for _ in range(2000):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 5)):
            damaged[rng.choice([rng.randrange(32, 128), rng.randrange(4096, 4700)])] = (
                rng.randrange(256)
            )
        try:
            read_sif(bytes(damaged))
        except StackproofError as error:
            reasons.add(error.reason)
    assert reasons <= {Reason.IMAGE_UNREADABLE, Reason.UNSUPPORTED}
    assert Reason.IMAGE_UNREADABLE in reasons


def test_looks(tmp_path):
    assert tar.looks_like_tar(layer(member("a", b"1")))
    assert not tar.looks_like_tar(b"\x7fELF" + bytes(600))
    assert container_roots.looks_like_sif(sif(b"x"))
    assert not container_roots.looks_like_sif(b"")
    assert io.BytesIO(layer()).read(1) == b"\0"
