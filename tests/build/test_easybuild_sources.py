"""Source files for EasyBuild: where they are found, and that only a digest makes one good."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import gitfolders
from need import need
from servers import QuietServer
from stackproof.build.effects.workspace import download_path
from stackproof.build.engines.easybuild.effects import builder, sources
from stackproof.build.engines.easybuild.effects.sources import (  # fmt: skip
    ARCHIVE,
    SourceFinder,
    mirror_folders,
    of_all,
)
from stackproof.build.engines.easybuild.stack import pinned
from stackproof.build.stack import Digest, OsPackage, OtherPlace, SourceFile
from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.effects.downloads import downloading
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.ids import digest
from stackproof.core.monitor import null_monitor
from stackproof.core.value import replace

GOOD, OTHER = b"what the project publishes", b"what the system packed again"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))


def source(**changes: object) -> SourceFile:
    accepted = (
        Digest(sha256=digest(GOOD), provenance="the project"),
        Digest(sha256=digest(OTHER), provenance="the system"),
    )
    return replace(SourceFile(filename="two-1.0.tar.gz", accepted=accepted), **changes)  # type: ignore[arg-type]


def looking(*folders: Path) -> SourceFinder:
    return SourceFinder(folders, null_monitor)


def refused(wanted: SourceFile, sha256: str) -> Problem:
    """Return the one reason why a locked file cannot be had."""
    with pytest.raises(StackproofError) as caught:
        looking().obtain(pinned(wanted, sha256))
    (problem,) = caught.value.problems
    return problem


def test_without_a_file_the_first_accepted_digest_is_locked() -> None:
    assert looking().choose(source()) == digest(GOOD)


def test_a_file_of_the_user_decides_which_accepted_digest_is_locked(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "t" / "two"
    folder.mkdir(parents=True)
    (folder / "two-1.0.tar.gz").write_bytes(OTHER)
    found = looking(tmp_path / "sources")
    assert found.choose(source()) == digest(OTHER)
    locked = pinned(source(), digest(OTHER))
    assert [one.provenance for one in locked.accepted] == ["the system"]
    got = found.obtain(locked)
    assert got.read_bytes() == OTHER
    (folder / "two-1.0.tar.gz").unlink()
    assert looking().obtain(locked) == got  # from the cache


def test_a_wrong_file_is_refused_with_what_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "two-1.0.tar.gz").write_bytes(b"something else")
    for call in (looking(tmp_path).choose, looking(tmp_path).obtain):
        with pytest.raises(StackproofError) as caught:
            call(source())
        problem = caught.value.problems[0]
        assert problem.reason is Reason.DIGEST_MISMATCH
        for words in (
            digest(GOOD),
            "the project",
            digest(OTHER),
            "the system",
            digest(b"something else"),
        ):
            assert words in (problem.detail or "")


def test_a_cached_file_that_was_changed_is_brought_anew(tmp_path: Path) -> None:
    (tmp_path / "two-1.0.tar.gz").write_bytes(GOOD)
    locked = pinned(source(), digest(GOOD))
    got = looking(tmp_path).obtain(locked)
    got.chmod(0o644)
    got.write_bytes(b"tampered with")
    assert looking(tmp_path).obtain(locked).read_bytes() == GOOD


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serve a folder on this machine; returns its address."""
    (tmp_path / "web").mkdir()
    handler = functools.partial(_Quiet, directory=str(tmp_path / "web"))
    with QuietServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_upstream_is_asked_and_not_trusted(tmp_path: Path, address: str) -> None:
    wanted = source(address=f"{address}/two-1.0.tar.gz")
    locked = pinned(wanted, digest(GOOD))
    problem = refused(wanted, digest(GOOD))
    assert problem.reason is Reason.FILE_MISSING
    assert f"`two-1.0.tar.gz` is not at {address}/two-1.0.tar.gz any more" in problem.message
    assert digest(GOOD) in (problem.detail or "")
    assert "--mirror" in (problem.hint or "")
    (tmp_path / "web" / "two-1.0.tar.gz").write_bytes(OTHER)
    problem = refused(wanted, digest(GOOD))
    assert problem.reason is Reason.DIGEST_MISMATCH
    assert digest(GOOD) in (problem.detail or "")
    (tmp_path / "web" / "two-1.0.tar.gz").write_bytes(GOOD)
    assert looking().obtain(locked).read_bytes() == GOOD
    left = [path for path in (files.cache_home() / "downloads").rglob("*") if path.is_file()]
    assert len(left) == 1  # nothing half-fetched stays


def test_what_vanished_or_was_changed_is_taken_from_the_next_place(
    tmp_path: Path, address: str
) -> None:
    places = (
        OtherPlace(filename="two.tar.gz", address=f"{address}/changed/two.tar.gz"),
        OtherPlace(filename="two-1.tar.gz", address=f"{address}/kept/two-1.tar.gz"),
    )
    locked = pinned(
        source(address=f"{address}/gone/two-1.0.tar.gz", elsewhere=places), digest(GOOD)
    )
    for name, content in (("changed/two.tar.gz", OTHER), ("kept/two-1.tar.gz", GOOD)):
        (tmp_path / "web" / name).parent.mkdir()
        (tmp_path / "web" / name).write_bytes(content)
    told: list[str] = []
    got = SourceFinder((), lambda event: told.append(event.text)).obtain(locked)
    assert (got.name, got.read_bytes()) == ("two-1.0.tar.gz", GOOD)
    notes = [text for text in told if "two" in text and ("any more" in text or "accepted" in text)]
    assert len(notes) == 2  # why each place before was left
    got.unlink()
    (tmp_path / "web" / "kept" / "two-1.tar.gz").unlink()
    with pytest.raises(StackproofError) as caught:
        looking().obtain(locked)
    (problem,) = caught.value.problems
    assert problem.reason is Reason.DIGEST_MISMATCH
    assert "any of its 3 places" in problem.message
    assert digest(GOOD) in (problem.detail or "")
    assert "--mirror DIR" in (problem.hint or "")


@pytest.mark.parametrize("place", ["ftp://example.org/two-1.0.tar.gz", "/etc/passwd"])
def test_only_addresses_of_the_web(place: str) -> None:
    assert refused(source(address=place), digest(GOOD)).reason is Reason.NO_NETWORK


def fake_apt(folder: Path, monkeypatch: pytest.MonkeyPatch, *targets: str) -> None:
    """Put an `apt-get` first on PATH that knows these archives: address, component, origin, label."""
    folder.mkdir(exist_ok=True)
    lines = "\n".join(targets)
    (folder / "apt-get").write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n")
    (folder / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_source_package_of_the_system(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("apt")
    fixes = f"{address}/debian-security/|main|Debian|Debian-Security"
    fake_apt(tmp_path / "bin", monkeypatch, fixes, f"{address}/debian/|main|Debian|Debian")
    package = OsPackage(name="two", version="1.0-1", suite="trixie")
    wanted = source(os_package=package)
    pool = tmp_path / "web" / "debian" / "pool" / "main" / "t" / "two"
    pool.mkdir(parents=True)
    (pool / "two-1.0.tar.gz").write_bytes(OTHER)
    assert looking().obtain(pinned(wanted, digest(OTHER))).read_bytes() == OTHER
    problem = refused(wanted, digest(GOOD))
    assert problem.reason is Reason.DIGEST_MISMATCH
    assert digest(OTHER) in (problem.detail or "")
    (pool / "two-1.0.tar.gz").unlink()
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "other"))
    problem = refused(wanted, digest(OTHER))
    assert problem.reason is Reason.FILE_MISSING
    assert "--mirror DIR" in (problem.hint or "")
    assert digest(OTHER) in (problem.detail or "")
    fake_apt(tmp_path / "bin", monkeypatch, "none://x/|main|Debian|Debian")
    assert refused(wanted, digest(OTHER)).reason is Reason.NO_NETWORK


def test_a_system_that_is_not_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own archive is not asked for a package of Debian; what else would do is said."""
    fake_apt(tmp_path / "bin", monkeypatch, "http://ubuntu.example.org/|main|Ubuntu|Ubuntu")
    package = OsPackage(name="two", version="1.0-1", suite="trixie")
    for path in (os.environ["PATH"], str(tmp_path / "nothing")):  # with another apt, without one
        monkeypatch.setenv("PATH", path)
        problem = refused(source(os_package=package), digest(OTHER))
        assert problem.reason is Reason.TOOL_MISSING
        assert "--mirror DIR" in (problem.hint or "")
        assert f"{ARCHIVE}=URL" in (problem.hint or "")


def test_an_archive_of_debian_that_is_named_needs_no_apt(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any system takes Debian's sources from it, and nothing but what was accepted."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv(ARCHIVE, f"{address}/debian/")
    package = OsPackage(name="libtwo", version="1.0-1", suite="trixie")
    wanted = source(os_package=package, filename="libtwo_1.0.orig.tar.gz")
    pool = tmp_path / "web" / "debian" / "pool" / "main" / "libt" / "libtwo"
    pool.mkdir(parents=True)
    (pool / wanted.filename).write_bytes(OTHER)
    assert refused(wanted, digest(GOOD)).reason is Reason.DIGEST_MISMATCH
    assert looking().obtain(pinned(wanted, digest(OTHER))).read_bytes() == OTHER
    (pool / wanted.filename).unlink()
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "other"))
    problem = refused(wanted, digest(OTHER))
    assert problem.reason is Reason.FILE_MISSING
    assert f"{address}/debian/pool/main/libt" in problem.message


def test_a_commit_is_packed_the_same_way_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    commit = gitfolders.commit(repository, {"run": "#!/bin/sh\n", "text": "text\n"})
    wanted = SourceFile(filename="two-1.0.tar", address=str(repository), commit=commit)
    first = looking().choose(wanted)
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "other"))
    assert looking().choose(wanted) == first
    locked = pinned(wanted, first)
    assert commit in locked.accepted[0].provenance
    with tarfile.open(looking().obtain(locked)) as archive:
        found = {member.name: member.mode for member in archive.getmembers()}
    assert found == {"two-1.0": 0o775, "two-1.0/run": 0o775, "two-1.0/text": 0o664}


def test_nobody_knows_where_it_is_and_all_problems_come_at_once() -> None:
    two, four = source(), source(filename="four-1.0.tar.gz")
    with pytest.raises(StackproofError) as caught:
        of_all([two, four], looking().obtain)
    assert [p.reason for p in caught.value.problems] == [Reason.FILE_MISSING] * 2
    assert of_all([two, four], looking().choose) == dict.fromkeys(
        ("two-1.0.tar.gz", "four-1.0.tar.gz"), digest(GOOD)
    )


def test_a_mirror_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, reason in (("none", Reason.FILE_MISSING), ("file", Reason.INVALID_VALUE)):
        with pytest.raises(StackproofError) as caught:
            mirror_folders(str(tmp_path / name))
        assert caught.value.reason is reason
    assert mirror_folders(None) == ()
    assert mirror_folders(str(tmp_path)) == (tmp_path,)


def test_easybuild_itself_is_known_by_digest_or_taken_from_a_folder(tmp_path: Path) -> None:
    """The release that was tried needs no network; of another one the files decide."""
    known = looking().tool("5.4.1")
    assert [file.name for file in known] == ["easybuild-framework", "easybuild-easyblocks"]
    assert all(len(file.sha256) == 64 for file in known)
    for name in ("framework", "easyblocks"):
        (tmp_path / f"easybuild_{name}-9.9.9.tar.gz").write_bytes(name.encode())
    found = looking(tmp_path).tool("9.9.9")
    assert [file.sha256 for file in found] == [digest(b"framework"), digest(b"easyblocks")]
    for file in found:
        assert download_path(file.sha256, file.filename).is_file()


PACKED = [
    (component.name, release.version, source.origin)
    for component in builder.load().components.values()
    for release in component.releases
    for source in release.sources
    # PMIx's file is one that the archive has no more (docs/explanation/chains-built.md), libfabric's
    # is prepared where recipes/libfabric.yaml is built.
    if source.prepare
    and source.origin.startswith("debian-")
    and component.name not in ("pmix", "libfabric")
]


@pytest.mark.battery
@pytest.mark.parametrize(("name", "version", "origin"), PACKED)
def test_what_debian_packed_of_a_repository_gets_its_configure_script(
    name: str, version: str, origin: str, tmp_path: Path
) -> None:
    """The commands of the catalogue do on the real file what they are there for."""
    need("network", "apt", "debian-archive", "easybuild")
    releases = builder.load().components[name].releases
    (release,) = (one for one in releases if one.version == version)
    (packed,) = (one for one in release.sources if one.origin == origin)
    path = looking().obtain(pinned(packed.file, packed.file.accepted[0].sha256))
    folder = tmp_path / "unpacked"
    folder.mkdir()
    subprocess.run(["tar", "xf", path, "-C", folder, "--strip-components=1"], check=True)
    assert not (folder / "configure").exists()
    done = subprocess.run(
        ["sh", "-ec", " && ".join(packed.prepare)], cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert (folder / "configure").exists()


@pytest.mark.attack
def test_apt_brings_no_more_than_a_source_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive that never ends fills no disk, whichever part of apt writes."""
    helper = tmp_path / "apt-helper"
    helper.write_text('#!/bin/sh\nsh -c \'head -c 10000000 /dev/zero > "$1"\' - "$4"\n')
    helper.chmod(0o755)
    monkeypatch.setattr(sources, "_APT_HELPER", str(helper))
    monkeypatch.setattr(limits, "SOURCE", limits.Limit("a source", "small", bytes=limits.MIB))
    target = tmp_path / "got"
    with pytest.raises(OSError, match=r"^"), downloading("got", null_monitor) as transfer:
        sources._fetch_by_apt("http://archive/x", target, transfer)
    assert target.stat().st_size == limits.MIB
