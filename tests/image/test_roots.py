"""Containers' images as roots of programs: every form, what images say, hostile and damaged ones."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path

import pytest

from eessilab import EVERY, USES_MPICH, Eessi, inject
from images import make_image
from need import need
from refusing import refused
from rootfslab import (
    archive,
    config,
    docker_files,
    files_below,
    layer,
    member,
    oci_files,
    sif,
    write_folder,
)
from stackproof.core import limits
from stackproof.core.effects import cache_folder
from stackproof.core.effects.foreign import parser
from stackproof.core.errors import ExitCode, Reason, StackproofError
from stackproof.image.container.effects import layers, roots
from stackproof.linking.effects.view import RootView

COVERS = (
    "image/container/effects/archives.py",
    "image/container/effects/roots.py",
)

PATHS = {"Env": ["LD_LIBRARY_PATH=/srv/lib", "PATH=/none:/srv/bin:/bin"], "Entrypoint": ["app"]}


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    roots.load_root.cache_clear()


@pytest.fixture
def lab(tmp_path: Path) -> Eessi:
    """A root with `app` in /srv/bin, its MPI in /srv/lib, and the C library."""
    need("gcc")
    lab = Eessi(tmp_path)
    app = lab.program(
        "root/srv/bin/app",
        needs=["eessi/lib/libmpi.so.12"],
        calls=["MPI_Init"],
        declarations=USES_MPICH,
    )
    root = tmp_path / "root"
    shutil.copytree(tmp_path / "eessi" / "lib", root / "srv" / "lib")
    listed = subprocess.run(["ldd", app], capture_output=True, text=True, timeout=600, check=False)
    libc = next(line.split()[2] for line in listed.stdout.splitlines() if "libc.so.6" in line)
    loader = RootView().elf(RootView().look(app)).interpreter
    for path in (libc, loader):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    return lab


def packed(lab) -> list[bytes]:
    """Return the root in three layers: a wrong MPI below, its removal, and the right one."""
    root = Path(lab.path("root"))
    wrong = Path(lab.library("wrong/libmpi.so.12", defines=["MPI_Other"])).read_bytes()
    return [
        layer(
            member("srv/lib/libmpi.so.12", wrong),
            *files_below(root, only=lambda p: "/srv/lib" not in str(p)),
        ),
        layer(member("srv/.wh.lib"), member("srv/current", link="lib")),
        layer(*files_below(root / "srv" / "lib", prefix="srv/lib/")),
    ]


def made(lab, tmp_path, form) -> str:
    """Return the name of an image of the lab's root in some form."""
    if form == "oci:zstd":
        need("zstd")
    if form.startswith("oci:"):
        found = oci_files(packed(lab), pack=form[4:], **PATHS)
        return f"oci:{write_folder(tmp_path / 'layout', found)}:new"
    place = tmp_path / "image.tar"
    content = {
        "oci-archive": lambda: archive(oci_files(packed(lab), **PATHS)),
        "docker-archive": lambda: archive(docker_files(packed(lab), **PATHS)),
        "docker-packed": lambda: gzip.compress(archive(docker_files(packed(lab), **PATHS)), 1),
        "rootfs": lambda: layer(*files_below(Path(lab.path("root")))),
    }[form]()
    if form == "docker-packed":
        place = tmp_path / "image.tar.gz"
    place.write_bytes(content)
    return str(place) if form == "docker-packed" else f"{form}:{place}"


FORMS = [
    "oci:plain",
    "oci:gzip",
    "oci:zstd",
    "oci-archive",
    "docker-archive",
    "docker-packed",
    "rootfs",
]


def judged(capsys, *words):
    code, out, err = inject(capsys, "check", *words, "--json")
    assert err == ""
    return code, json.loads(out)["programs"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form(lab, capsys, tmp_path, form):
    """What is said of an image is what is said of the folder that it is made of."""
    name = made(lab, tmp_path, form)
    path = ["--library-path", "/srv/lib"]
    folder = judged(
        capsys, "/srv/bin/app", "--root", lab.path("root"), "--with", lab.path("host"), *path
    )
    given = path if form == "rootfs" else []  # an archive of files alone says nothing of variables
    assert (
        judged(capsys, "/srv/bin/app", "--root", name, "--with", lab.path("host"), *given) == folder
    )
    assert folder[0] == ExitCode.DONE
    if form != "rootfs":
        for words in (["app", "--root", name], ["--root", name], [name]):
            assert judged(capsys, *words, "--with", lab.path("host")) == folder


def test_what_fails_in_a_folder_fails_in_an_image(lab, capsys, tmp_path):
    lab.mpi("gone", defines=[name for name in EVERY if name != "MPI_Init"])
    name = made(lab, tmp_path, "oci:gzip")
    code, programs = judged(capsys, "app", "--root", name, "--with", lab.path("gone"))
    assert code == ExitCode.WORSE
    assert programs[0]["findings"][0]["cause"] == "symbol-missing"


def test_an_mpi_of_an_image_is_put_under_nothing(lab, capsys, tmp_path):
    name = made(lab, tmp_path, "oci:gzip")
    code, _, err = inject(capsys, "check", lab.app, "--with", name)
    assert code == ExitCode.INVALID
    assert "neither a prefix, nor an image of `stackproof build`" in err


@pytest.mark.parametrize("form", ["squashfs", "ext"])
def test_sif(lab, capsys, tmp_path, form):
    root = Path(lab.path("root"))
    scripts = root / ".singularity.d" / "env"
    scripts.mkdir(parents=True)
    (scripts / "10-docker2singularity.sh").write_text(
        '#!/bin/sh\nexport LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-"/srv/lib"}"\nexport PATH="/srv/bin"\n'
    )
    partition = tmp_path / "partition"
    if form == "squashfs":
        need("mksquashfs")
        argv = ["mksquashfs", root, partition, "-quiet", "-no-progress", "-noappend"]
    else:
        need("e2fsprogs")
        argv = ["mke2fs", "-q", "-t", "ext3", "-d", root, partition, "16M"]
    subprocess.run(argv, check=True, timeout=600, stdout=subprocess.PIPE)
    image = tmp_path / "app.sif"
    image.write_bytes(sif(partition.read_bytes(), form=1 if form == "squashfs" else 2))
    code, programs = judged(capsys, "app", "--root", image, "--with", lab.path("host"))
    assert (code, programs[0]["program"]) == (ExitCode.DONE, "/srv/bin/app")
    libraries = programs[0]["environment"]["LD_LIBRARY_PATH"].split(":")
    assert libraries == [f"{lab.path('host')}/lib", "/srv/lib", "/.singularity.d/libs"]


def test_an_image_with_devices_is_unpacked_without_them(tmp_path):
    need("mksquashfs")
    image = make_image(tmp_path / "a.squashfs")
    folder = roots.load_root(str(image)).folder
    assert sorted(os.listdir(folder)) == ["bin", "inner", "meta"]


def test_an_image_of_which_a_file_cannot_be_made_is_an_error(tmp_path, monkeypatch):
    need("mksquashfs")
    image = make_image(tmp_path / "a.squashfs")
    said = "create_inode: failed to create symlink, because the disk says no"
    ended = parser.Ended(2, b"", said.encode(), "")
    monkeypatch.setattr(parser, "parse", lambda *_, **__: ended)
    with refused(Reason.IMAGE_UNREADABLE) as caught:
        roots.load_root(str(image))
    assert caught.value.problems[0].detail == said


def test_links_that_lead_out_stay_in(lab, tmp_path):
    """Neither links nor the loader's cache of this machine count in an image."""
    content = layer(
        member("etc", link="/../../../../../../etc"),
        member("bin/sh", link="/../../../../bin/sh"),
        member("lib", link=str(tmp_path)),
    )
    view = roots.load_root(f"oci:{write_folder(tmp_path / 'x', oci_files([content]))}").view()
    assert not view.exists("/etc/ld.so.cache")
    assert view.look("/bin/sh") is None
    assert view.listing("/lib") == ()
    assert view.listing("/../..") == ("bin", "etc", "lib")


def reason_of(name) -> Reason:
    with pytest.raises(StackproofError) as caught:
        roots.load_root(str(name))
    return caught.value.reason


def changed(found, old, new):
    """Return files of an image in which one blob is another one under the old name."""
    return {name: new if content == old else content for name, content in found.items()}


def test_digests_are_checked(tmp_path):
    one, other = layer(member("a", b"1")), layer(member("a", b"2"))
    found = changed(oci_files([one], pack="plain"), one, other)
    assert reason_of(write_folder(tmp_path / "layer", found)) is Reason.DIGEST_MISMATCH
    told, lie = config([one]), config([one]).replace(b"linux", b"linuy")
    found = changed(oci_files([one]), told, lie)
    assert reason_of(write_folder(tmp_path / "config", found)) is Reason.DIGEST_MISMATCH
    place = tmp_path / "docker.tar"
    place.write_bytes(archive(changed(docker_files([one]), one, other)))
    assert reason_of(place) is Reason.DIGEST_MISMATCH
    # The packed layer is the promised one, and unpacks to another than the configuration says.
    found = oci_files([one], told=[other])
    assert reason_of(write_folder(tmp_path / "plain", found)) is Reason.DIGEST_MISMATCH


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_bombs(tmp_path, monkeypatch, pack):
    """A layer that unpacks to far more than it is ends, however it is packed."""
    monkeypatch.setattr(layers, "_FREE_BYTES", 1 << 16)
    monkeypatch.setattr(limits.LAYER_RATIO, "bytes", 20)
    if pack == "zstd":
        need("zstd")
    bomb = layer(member("zero", bytes(8 << 20)))
    found = oci_files([bomb], pack=pack)
    assert reason_of(write_folder(tmp_path / "bomb", found)) is Reason.TOO_LARGE
    assert not any((tmp_path / "cache" / "layers").iterdir())


@pytest.mark.parametrize("pack", ["plain", "gzip", "zstd"])
def test_cut_layers(tmp_path, pack):
    if pack == "zstd":
        need("zstd")
    content = layer(member("a", os.urandom(5000)))
    found = oci_files([content], pack=pack, damage=lambda packed: packed[:3000])
    assert reason_of(write_folder(tmp_path / "cut", found)) is Reason.IMAGE_UNREADABLE


def test_several_members_of_gzip(tmp_path):
    """As pigz and eStargz write them, with padding at the end."""
    content = layer(member("a", os.urandom(5000)), member("b", b"1"))
    parts = [gzip.compress(content[at : at + 999]) for at in range(0, len(content), 999)]
    found = oci_files([content], damage=lambda _: b"".join(parts) + bytes(100))
    name = write_folder(tmp_path / "parts", found)
    assert roots.load_root(str(name)).view().listing("/") == ("a", "b")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda p: p / "missing.tar", Reason.FILE_MISSING),
        (lambda p: f"oci:{p}", Reason.INVALID_VALUE),
        (lambda p: write(p / "cut.tar", archive(oci_files([layer(member("a", b"1"))]))[:2000]),
         Reason.IMAGE_UNREADABLE),
        (lambda p: f"docker-archive:{write(p / 'o.tar', archive(oci_files([layer()])))}",
         Reason.INVALID_VALUE),
        (lambda p: f"oci:{write_folder(p / 'l', oci_files([layer()]))}:other", Reason.INVALID_VALUE),
        (lambda p: f"rootfs:{write(p / 'text', b'no archive at all' * 100)}", Reason.IMAGE_UNREADABLE),
        (lambda p: write(p / "x.sif", sif(b"no file system")), Reason.IMAGE_UNREADABLE),
        (lambda p: write(p / "m.tar", layer(member("manifest.json", b"[]"))), Reason.INVALID_VALUE),
    ],
)  # fmt: skip
def test_what_is_no_image(tmp_path, make, reason):
    need("mksquashfs")
    assert reason_of(make(tmp_path)) is reason


def write(place: Path, content: bytes) -> Path:
    place.write_bytes(content)
    return place


def test_the_cache(tmp_path):
    """A damaged entry is made again; many at once make one; the oldest go when it is full."""
    place = write_folder(
        tmp_path / "i", oci_files([layer(member("lib.so", b"\x7fELF" + b"1" * 100))])
    )

    def names():
        roots.load_root.cache_clear()
        return list(roots.load_root(str(place)).view().listing("/"))

    assert names() == ["lib.so"]
    (entry,) = (tmp_path / "cache" / "layers").iterdir()
    for damage in (
        lambda: (entry / "layer.json").write_text("{"),
        lambda: (entry / "content").write_bytes(b""),
        partial(shutil.rmtree, entry),
        (entry / "content").unlink,
    ):
        damage()
        assert names() == ["lib.so"]
    shutil.rmtree(entry)
    found = []
    threads = [threading.Thread(target=lambda: found.append(names())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [["lib.so"]] * 8
    assert [one.name for one in (tmp_path / "cache" / "layers").iterdir()] == [entry.name]
    old = entry.parent / "sha256-old"
    shutil.copytree(entry, old)
    os.utime(old, (1, 1))
    cache_folder.prune("layers", 1, keep=entry)
    assert list(entry.parent.iterdir()) == [entry]


def test_no_program(capsys, tmp_path):
    place = write_folder(tmp_path / "i", oci_files([layer(member("a", b"1"))]))
    for words in ([], ["--root", place]):
        code, _, err = inject(capsys, "check", *words, "--with", tmp_path)
        assert code == ExitCode.USAGE
        assert "program" in err or "command" in err


def test_variables_of_the_command_line_win(lab, capsys, tmp_path):
    """An audit library may do anything, whoever named it; others are the image's own."""
    name = made(lab, tmp_path, "oci:gzip")
    words = ["app", "--root", name, "--with", lab.path("host")]
    code, programs = judged(capsys, *words, "--env", "LD_AUDIT=/audit.so")
    assert code == ExitCode.UNKNOWN
    assert programs[0]["environment"]["LD_LIBRARY_PATH"].endswith("/lib:/srv/lib")
    assert inject(capsys, "check", *words, "--env", "word")[0] == ExitCode.USAGE
