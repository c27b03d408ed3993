"""Packs of Guix to images: ranks that run at /gnu/store, a guix that is asked, and hostile packs."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import documented
import guixpacks
from guixpacks import RECIPE, STORE, Store, name_of
from inprocess import exit_code
from mpitrees import Trees
from need import need
from stackproof.build.engines.guix.effects import builder, packs
from stackproof.build.engines.guix.stack import GuixLock
from stackproof.core import noun
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.image.effects.image_file import load_image

PAGE = documented.ROOT / "docs" / "how-to" / "build-with-guix.md"
Said = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe, and a machine without guix."""
    (tmp_path / "small.yaml").write_text(RECIPE)
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(builder, "_PLACES", (str(tmp_path / "nowhere"),))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ended(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.battery
def test_a_pack_becomes_an_image_in_which_ranks_run(
    folder: Path, trees: Trees, capfd: Said
) -> None:
    """Of a tarball and of a SquashFS image the same; then every verb that takes an image."""
    need("network", "gcc", "bubblewrap", "mksquashfs", "python")
    store = guixpacks.with_mpich(folder / "root", trees["mpich"].prefix, trees["mpich"].version)
    pack = store.tarball(folder / "pack.tar.gz")
    recipe = RECIPE.replace(
        "packages: [", "transports: [shm]\nbenchmarks: [stackproof-bench]\npackages: ["
    )
    Path("small.yaml").write_text(recipe)
    assert exit_code("build", "small.yaml", "--from", pack) == 0
    lock = noun.from_json(GuixLock, Path("small.lock.json").read_bytes())
    needs = {one.name: one.needs for one in lock.items}
    mpich, libc = name_of(f"mpich-{trees['mpich'].version}"), name_of("glibc-2.36")
    assert needs["hello-mpi"] == tuple(sorted((libc, mpich)))
    assert set(needs["profile"]) == {mpich, name_of("hello-mpi-1.0")}
    image = load_image("small.squashfs")
    assert image.mount == "/gnu"
    assert image.mpi is not None
    assert (image.mpi.family, image.mpi.prefix) == ("mpich", f"{STORE}/{mpich}")

    mounted = (sys.executable, "-m", "stackproof", "run", "small.squashfs", "--")
    assert ended(*mounted, "mpiexec", "-n", "2", "hello") == "2 ranks\n"
    loads = ended(*mounted, "env", "LD_TRACE_LOADED_OBJECTS=1", "/gnu/profile/bin/hello")
    assert f"libc.so.6 => {STORE}/{libc}/lib/libc.so.6" in loads
    assert f"libmpi.so.12 => {STORE}/{mpich}/lib/libmpi.so.12" in loads
    program = "/gnu/benchmarks/stackproof-bench"
    asked = ("--benchmarks", "latency", "--sizes", "8", "--samples", "2")
    lines = ended(*mounted, "mpiexec", "-n", "2", program, *asked).splitlines()
    assert json.loads(lines[0])["world_size"] == 2
    assert json.loads(lines[-1])["ok"]

    capfd.readouterr()
    assert exit_code("inspect", "small.squashfs") == 0
    assert "glibc 2.36, hello-mpi 1.0, mpich" in capfd.readouterr().out
    assert exit_code("plan", "small.yaml", "--graph", "dot") == 0
    edge = f'"guix:{name_of("hello-mpi-1.0")}" -> "guix:{mpich}";'
    assert edge in capfd.readouterr().out
    prefix = trees["mpich"].prefix
    assert exit_code("inject", "check", "small.squashfs", "--with", prefix) == 0
    assert f"/{name_of('hello-mpi-1.0')}/bin/hello in small.squashfs: works" in (
        capfd.readouterr().out
    )
    Path("bench.yaml").write_text(
        "name: g\nbaseline: {image: small.squashfs}\nplacements: [intra-node]\n"
        "challengers: [{name: shm, image: small.squashfs, transports: {intra-node: shm}}]\n"
    )
    capfd.readouterr()
    assert exit_code("bench", "bench.yaml", "--dry-run") == 0
    assert (
        f"challenger  shm          mpich {trees['mpich'].version}  intra-node: shm"
        in capfd.readouterr().out
    )
    assert exit_code("pack", "small.squashfs", "hello", "-o", "out") == 0
    assert ended("out/bin/mpiexec", "-n", "2", "out/bin/hello") == "2 ranks\n"

    other = unpacked(store.squashfs(folder / "pack.squashfs"))[1]
    assert other.items == lock.items


@pytest.fixture
def pack(folder: Path) -> Path:
    return guixpacks.small(folder / "root").tarball(folder / "pack.tar.gz")


def test_guix_is_asked_where_it_is(
    folder: Path, pack: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said
) -> None:
    need("bubblewrap", "mksquashfs", "python")
    guix = guixpacks.guix(folder / "bin", pack)
    monkeypatch.setattr(builder, "_PLACES", (str(guix.folder),))
    assert exit_code("plan", "small.yaml") == 0
    said = capfd.readouterr().out
    assert 'manifest.scm       (list "hello-mpi")))' in said
    assert "pack  guix time-machine --channels=channels.scm -- pack --format=tarball" in said
    assert not Path("small.guix").exists()
    assert exit_code("build", "small.yaml") == 0
    assert guix.said.read_text().splitlines() == [
        "time-machine", "--channels=small.guix/channels.scm", "--", "pack", "--format=tarball",
        f"--system={os.uname().machine}-linux", "--save-provenance",
        "--manifest=small.guix/manifest.scm",
    ]  # fmt: skip
    assert ended(sys.executable, "-m", "stackproof", "run", "small.squashfs", "--", "hello") == (
        f"{STORE}/{name_of('mpich-4.2.1')}\n"
    )
    pack.write_bytes(b"another")  # of a build that is finished nothing is asked for again
    assert exit_code("build", "small.yaml") == 0
    shutil.rmtree(folder / "cache")
    assert exit_code("build", "small.yaml") == 5
    assert "`pack.tar.gz` is not the pack that was locked" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("echo guix: error: no such package >&2; exit 1", 5, "no such package"),
        ("echo hello", 5, "guix did not say where its pack is"),
        ("echo /nowhere/pack.tar.gz", 3, "/nowhere/pack.tar.gz"),
    ],
)
def test_a_guix_that_makes_none(
    script: str, code: int, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said
) -> None:
    guix = guixpacks.guix(folder / "bin", folder)
    (guix.folder / "guix").write_text(f"#!/bin/sh\n{script}\n")
    monkeypatch.setattr(builder, "_PLACES", (str(guix.folder),))
    assert exit_code("build", "small.yaml") == code
    assert said in capfd.readouterr().err
    assert not list(folder.glob("*.lock.json"))


def test_without_guix_it_is_said_what_to_do(folder: Path, capfd: Said) -> None:
    assert exit_code("check", "small.yaml") == 0
    assert "takes the pack: --from PACK" in capfd.readouterr().err
    assert exit_code("build", "small.yaml") == 4
    said = capfd.readouterr().err
    assert "this machine has no `guix`: what it reads is written to `small.guix`" in said
    assert "--manifest=small.guix/manifest.scm`; then bring the file" in said
    assert sorted(path.name for path in Path("small.guix").iterdir()) == [
        "channels.scm",
        "manifest.scm",
    ]
    assert not list(folder.glob("*.lock.json"))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("build", "small.yaml", "--from", "."), 3, "is not a regular file"),
        (("build", "small.yaml", "--from", "nowhere"), 3, "nowhere"),
        (("build", "small.yaml", "--from", "small.yaml"), 6, "the archive is damaged"),
        (("build", "small.yaml", "--mirror", "m"), 2, "--from PACK"),
        (("mirror", "create", "m", "small.yaml"), 3, "bring the pack along"),
        (("image", "containerfile", "small.yaml", "--base", "x@sha256:" + "a" * 64), 3, "--format=docker"),
        (("build", "mpich", "--from", "small.yaml"), 2, "or `engine: guix` are made"),
        (("build", "--locked", "small.yaml"), 3, "--locked"),
    ],
)  # fmt: skip
def test_what_is_refused(
    words: tuple[str, ...], code: int, said: str, folder: Path, capfd: Said
) -> None:
    assert exit_code(*words) == code
    assert said in capfd.readouterr().err


def test_a_lock_that_pins_nothing_is_refused(folder: Path, pack: Path, capfd: Said) -> None:
    assert exit_code("build", "small.yaml", "--from", pack, "--stop-after", "lock") == 0
    lock = Path("small.lock.json")
    data = json.loads(lock.read_text())
    for channels, said in (([], "each at its commit"), ([{"name": "guix", "url": "x"}], "commit")):
        lock.write_text(json.dumps({**data, "channels": channels}))
        assert exit_code("build", "--locked", "small.yaml", "--from", pack) == 3
        assert said in capfd.readouterr().err
    lock.write_text(json.dumps(data))
    assert exit_code("build", "small.yaml", "--from", "small.yaml") == 5
    assert "`small.yaml` is not the pack that was locked" in capfd.readouterr().err
    data["items"][0]["sha256"] = "ab" * 32
    lock.write_text(json.dumps(data))
    assert exit_code("build", "--locked", "small.yaml", "--from", pack) == 3
    assert "the lock names other items than the pack has" in capfd.readouterr().err


def test_every_form_of_a_pack_is_taken(folder: Path) -> None:
    need("mksquashfs", "zstd")
    store = guixpacks.small(folder / "root")
    store.squashfs(folder / "pack.squashfs")
    for name, program in (
        ("gzip", "gzip -9n"),
        ("xz", "xz -e"),
        ("zstd", "zstd -q"),
        ("no", "cat"),
    ):
        store.tarball(folder / f"pack.{name}", program)
    locks = []
    for pack in sorted(folder.glob("pack.*")):
        assert (
            exit_code(
                "build", "small.yaml", "--from", pack.name, "--stop-after", "lock", "--update"
            )
            == 0
        )
        locks.append(noun.from_json(GuixLock, Path("small.lock.json").read_bytes()))
    assert len(locks) == 5
    assert len({one.items for one in locks}) == 1


def test_digests_are_those_of_nars(folder: Path) -> None:
    """Those of `nix-hash --type sha256`, 2.8.0: a nar is one thing for Guix and Nix."""
    store = Store(folder / "root")
    store.file("text-1", "", "x" * 16)
    store.file("tree-1", "bin/b/c", "x" * 9, 0o555)
    store.file("tree-1", "bin/b.d", "")
    store.link("tree-1", "bin/a", "b/c")
    found = unpacked(store.tarball(folder / "p.tar.gz"))[1]
    assert {one.name: one.sha256 for one in found.items} == {
        "text": "21653c5132c5ab645abcbb4f1659705c9cd15cfdf7cd0c6940842af827691ce5",
        "tree": "1f1ab2fdfd348931c6eaee6c02a0acde44a729e67188101c8e2a5854174dfa58",
    }


def test_a_pack_for_another_machine(folder: Path, capfd: Said) -> None:
    store = guixpacks.small(folder / "root")
    other = {"x86_64": "aarch64"}.get(os.uname().machine, "x86_64")
    library = store.store / name_of("mpich-4.2.1") / "lib" / "libmpi.so.12"
    library.chmod(0o644)
    library.write_bytes(guixpacks.header(other))
    assert exit_code("build", "small.yaml", "--from", store.tarball(folder / "p.tar.gz")) == 3
    said = capfd.readouterr().err
    assert f"mpich-4.2.1` is for {other}, and the stack for {os.uname().machine}" in said
    assert not list(folder.glob("*.lock.json"))


def unpacked(pack: Path) -> tuple[Path, packs.Store]:
    return packs.unpack_pack(pack, files.sha256(pack))


ITEM = f"gnu/store/{name_of('x-1')}"
Member = tuple[str, bytes, str, int]
"""Name, type, link and mode of a member of a tarball."""


def tarball(path: Path, *members: Member) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, kind, link, mode in members:
            one = tarfile.TarInfo(name)
            one.type, one.linkname, one.mode = kind, link, mode
            one.size = 1 if kind == tarfile.REGTYPE else 0
            archive.addfile(one, io.BytesIO(b"x") if one.size else None)
    return path


def file(name: str, mode: int = 0o644) -> Member:
    return name, tarfile.REGTYPE, "", mode


def link(name: str, target: str) -> Member:
    return name, tarfile.SYMTYPE, target, 0o777


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ((), "the pack has no `gnu/store`"),
        ((file("gnu/store"),), "the pack has no `gnu/store`"),
        ((link("gnu/store", "/etc"),), "the pack has no `gnu/store`"),
        ((file("gnu/store/x"),), "'x', which is no name of a store item"),
        ((file(f"{ITEM}/../../../../etc/evil"),), "which no store has"),
        ((file("gnu/store/" + "e" * 32 + "-x"),), "is no name of a store item"),
        ((file(f"{ITEM};id"),), "is no name of a store item"),
        ((file(f"{ITEM}\n"),), "is no name of a store item"),
        ((file(ITEM), file(f"{ITEM}.1")), "which have one hash"),
        ((link(f"{ITEM}/a", "../../../../etc/passwd"),), "a link that leads out of its store"),
        ((link(f"{ITEM}/a", "../../../etc"),), "a link that leads out of its store"),
        ((link(f"{ITEM}/a", "/etc"), file(f"{ITEM}/a/evil")), "/a', no folder"),
        ((link(f"{ITEM}/a", "."), file(f"{ITEM}/a/evil")), "/a', no folder"),
        (((f"{ITEM}/a", tarfile.CHRTYPE, "", 0o666),), "no file, folder or link"),
        (((f"{ITEM}/a", tarfile.FIFOTYPE, "", 0o666),), "no file, folder or link"),
        (((f"{ITEM}/a", tarfile.LNKTYPE, "../../etc/passwd", 0o666),), "which no store has"),
        (((f"{ITEM}/a", tarfile.LNKTYPE, "etc/passwd", 0o666),), "etc/passwd"),
        ((file(f"{ITEM}/" + "a/" * 300),), "which no store has"),
        ((file(f"{ITEM}/a"), file(f"{ITEM}/a/b")), "/a', no folder"),
        ((file(f"{ITEM}/a/b"), file(f"{ITEM}/a")), "/a' twice"),
        ((file("gnu/store/.links/x"), file(f"{ITEM}/a")), "is no name of a store item"),
    ],
)  # fmt: skip
def test_hostile_tarballs_are_refused(members: tuple[Member, ...], said: str, folder: Path) -> None:
    path = tarball(folder / "p.tar.gz", *members)
    with pytest.raises(StackproofError) as caught:
        unpacked(path)
    assert said in str(caught.value)
    assert caught.value.reason in {Reason.IMAGE_UNREADABLE, Reason.FILE_MISSING}
    assert not list((folder / "cache" / "archives").iterdir())


def test_rights_and_what_is_no_store_are_left_behind(folder: Path) -> None:
    """Set-id bits and owners go, an absolute link stays one, and `etc` of a pack is nobody's."""
    members = (
        file("./etc/passwd"), file(f"./{ITEM}/su", 0o6755), file(f"./{ITEM}/data", 0o200),
        link(f"./{ITEM}/zone", "/etc/localtime"), (f"{ITEM}/again", tarfile.LNKTYPE, f"{ITEM}/su", 0),
    )  # fmt: skip
    place, store = unpacked(tarball(folder / "p.tar.gz", *members))
    modes = {path.name: path.lstat().st_mode & 0o7777 for path in (place / ITEM).iterdir()}
    assert {**modes, "zone": 0} == {"su": 0o755, "again": 0o755, "data": 0o644, "zone": 0}
    assert os.readlink(place / ITEM / "zone") == "/etc/localtime"
    assert [path.name for path in place.iterdir()] == ["gnu"]
    assert [one.filename for one in store.items] == [name_of("x-1")]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.98])
@pytest.mark.parametrize("write", [Store.tarball, Store.squashfs], ids=["tarball", "squashfs"])
def test_a_pack_that_is_cut_off(
    share: float, write: Callable[[Store, Path], Path], folder: Path
) -> None:
    need("mksquashfs")
    store = guixpacks.small(folder / "root")
    store.file("mpich-4.2.1", "lib/random", os.urandom(200_000))
    path = write(store, folder / "pack")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(StackproofError) as caught:
        unpacked(path)
    assert caught.value.reason is Reason.IMAGE_UNREADABLE
    assert not list((folder / "cache" / "archives").iterdir())


def test_references_are_found_wherever_they_stand(folder: Path) -> None:
    """Also across what is read at once, and in the text of a link; an item's own path is none."""
    store = guixpacks.small(folder / "root")
    path = f"{STORE}/{name_of('hello-mpi-1.0')}".encode()
    store.file("big-1", "data", b"\0" * ((1 << 20) - 20) + path)
    store.file("self-1", "data", f"{STORE}/{name_of('self-1')}")
    store.link("link-1", "a", f"{STORE}/{name_of('big-1')}/data")
    found = unpacked(store.tarball(folder / "p.tar.gz"))[1]
    needs = {one.name: one.needs for one in found.items}
    assert needs["big"] == (name_of("hello-mpi-1.0"),)
    assert (needs["self"], needs["link"]) == ((), (name_of("big-1"),))


def test_the_page_does_what_it_says(folder: Path, capfd: Said) -> None:
    """Its recipe, and every command line in its order, with a pack of items of these names."""
    need("bubblewrap", "mksquashfs", "python")
    recipe = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    Path("imb.yaml").write_text(recipe)
    items = ("mpich-ofi-4.2.1", "intel-mpi-benchmarks-2021.7", "IMB-MPI1")
    guixpacks.small(folder / "root", *items).tarball(folder / "pack.tar.gz")
    lines = [line for line in documented.lines_of(PAGE) if "runs these lines" in line.reason]
    assert [line.text.split()[1] for line in lines] == ["plan", "build", "build", "run"]
    for line, code in zip(lines, (0, 4, 0, 0), strict=True):
        for words in line.commands:
            changed = ["pack.tar.gz" if word == "PACK" else word for word in words[1:]]
            if changed[0] == "run":  # the program of this pack starts no ranks
                said = ended(sys.executable, "-m", "stackproof", *changed[:3], changed[6])
                assert said == f"{STORE}/{name_of('mpich-ofi-4.2.1')}\n"
                continue
            capfd.readouterr()
            assert exit_code(*changed) == code, (line.place, capfd.readouterr().err)
