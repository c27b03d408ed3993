from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from need import need, private_namespaces
from refusals import refused
from stackproof.build.effects import cache_entries, workspace
from stackproof.core import limits
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.foreign import folder as folders
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.limits import Limit

COVERS = ("core/effects/closed.py", "core/effects/files.py")

pytestmark = [
    pytest.mark.guarantee(
        "Folders of several users",
        "A cache is believed only if nobody else can have written to it.",
        "In the place of another user's, one of your own is used, and that is said. Tried: "
        "caches that others own or may write to.",
    ),
]


def test_write_makes_folders_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "a" / "b" / "file"
    files.write(target, "ü\n")
    assert target.read_bytes() == "ü\n".encode()
    assert [path.name for path in target.parent.iterdir()] == ["file"]
    assert target.stat().st_mode & 0o777 == 0o644


def test_write_replaces_content_and_mode(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")
    files.write(target, b"\x00new", mode=0o755)
    assert target.read_bytes() == b"\x00new"
    assert target.stat().st_mode & 0o777 == 0o755


def test_write_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.write("file", "x")
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("step", ["fsync", "fchmod", "replace"])
@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_write_cut_short_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, fault):
    target = tmp_path / "file"
    target.write_text("old")

    def fails(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(os, step, fails)
    with pytest.raises((StackproofError, KeyboardInterrupt)):
        files.write(target, "new")
    monkeypatch.undo()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("verb", ["write", "copy"])
def test_what_is_exchanged_while_it_is_written_is_not_changed(tmp_path, monkeypatch, verb):
    """In a folder of several users the name may lead to another's file before it has its mode."""
    secret, place = tmp_path / "secret", tmp_path / "place"
    secret.write_text("secret")
    secret.chmod(0o600)
    place.mkdir()
    (tmp_path / "source").write_text("new")
    change_mode = os.fchmod

    def exchanged(descriptor: int, mode: int) -> None:
        (name,) = place.iterdir()
        name.unlink()
        name.symlink_to(secret)
        change_mode(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", exchanged)
    if verb == "write":
        files.write(place / "file", "new", mode=0o644)
    else:
        files.copy(tmp_path / "source", place / "file")
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("secret", 0o600)


@pytest.mark.parametrize("name", ["folder", "file/inner"])
def test_a_file_cannot_be_a_folder_nor_below_a_file(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    with refused(Reason.INVALID_VALUE):
        files.write(tmp_path / name, "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def _report(script: str, *prefix: str, cwd: Path) -> str:
    """Run a Python script in another process, below `prefix`; return what it prints."""
    head = "import os, sys\nfrom stackproof.core.errors import StackproofError\nfrom stackproof.core.effects import files\n"
    done = subprocess.run(
        [*prefix, sys.executable, "-c", head + textwrap.dedent(script)],
        stdout=subprocess.PIPE, cwd=cwd, text=True, timeout=600, check=True,
    )  # fmt: skip
    return done.stdout


# Only root needs it: then rights are dropped after the imports, since a test's folder and
# Python itself may lie below folders that are closed to others.
_AS_ANYBODY = """
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
"""


def test_disk_full(tmp_path):
    need("userns")
    (tmp_path / "image").write_bytes(bytes(200_000))
    target = tmp_path / "small"
    target.mkdir()
    mount = 'mount -t tmpfs -o size=64k tmpfs "$0" && cd "$0" && exec "$@"'
    script = """
    from pathlib import Path
    files.write("small", b"x")
    for name in ("large", "small"):
        for write in (lambda: files.write(name, b"x" * 200_000), lambda: files.copy("../image", Path(name))):
            try:
                write()
            except StackproofError as error:
                hint = error.problems[0].hint
                print(error.reason, os.listdir(), os.path.getsize("small"), hint[:16])
    """
    printed = _report(script, *private_namespaces(), "sh", "-c", mount, str(target), cwd=tmp_path)
    assert printed == "disk-full ['small'] 1 free space there\n" * 4
    assert list(target.iterdir()) == []


def test_what_to_do_about_a_full_disk(tmp_path, monkeypatch):
    """Only what is kept can be moved by the variable of the cache."""
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    kept = files.translate(full, tmp_path / "cache" / "downloads" / "file").problems[0].hint
    named = files.translate(full, tmp_path / "a.squashfs").problems[0].hint
    assert "STACKPROOF_CACHE" in (kept or "")
    assert "another file system" in (named or "")
    assert "STACKPROOF_CACHE" not in (named or "")


def test_no_right_to_write(tmp_path):
    (tmp_path / "file").write_text("old")
    tmp_path.chmod(0o555)
    script = f"""
    {textwrap.indent(_AS_ANYBODY, "    ").strip()}
    try:
        files.write("file", b"new")
    except StackproofError as error:
        print(error.reason)
    """
    assert _report(script, cwd=tmp_path) == "not-permitted\n"
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, Reason.DISK_FULL),
        (errno.EDQUOT, Reason.DISK_FULL),
        (errno.EACCES, Reason.NOT_PERMITTED),
        (errno.EPERM, Reason.NOT_PERMITTED),
        (errno.EROFS, Reason.NOT_PERMITTED),
        (errno.ENOENT, Reason.FILE_MISSING),
        (errno.EISDIR, Reason.INVALID_VALUE),
        (errno.ENOTDIR, Reason.INVALID_VALUE),
        (errno.ENAMETOOLONG, Reason.INVALID_VALUE),
    ],
)
def test_what_the_system_refuses_comes_with_what_to_do(number, reason):
    error = files.translate(OSError(number, os.strerror(number)), Path("some/file"))
    assert error.reason is reason
    assert error.problems[0].hint or number == errno.ENAMETOOLONG
    assert str(error.problems[0].where) == "some/file"
    assert "/x" in str(files.translate(OSError(number, "no", b"/x"), b"/x\xff"))


def test_sha256(tmp_path):
    (tmp_path / "empty").touch()
    # sha256sum(1) of nothing
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert files.sha256(tmp_path / "empty") == digest
    with refused(Reason.FILE_MISSING):
        files.sha256(tmp_path / "nothing")


def test_remove_a_tree_but_not_what_links_point_to(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "inner" / "link").symlink_to(kept)
    files.remove(tree)
    (tmp_path / "link").symlink_to(kept)
    files.remove(tmp_path / "link")
    files.remove(tmp_path / "nothing")
    files.remove(tmp_path / "nothing" / "below")
    assert sorted(tmp_path.rglob("*")) == [kept, kept / "file"]


def test_remove_a_tree_that_is_closed_to_its_owner(tmp_path):
    tmp_path.chmod(0o777)
    script = f"""
    {textwrap.indent(_AS_ANYBODY, "    ").strip()}
    os.makedirs("tree/inner")
    open("tree/inner/file", "w").close()
    os.chmod("tree/inner", 0o555)
    os.chmod("tree", 0o555)
    files.remove("tree")
    """
    _report(script, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_remove_what_is_not_ours(monkeypatch, tmp_path):
    def refuses(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "unlink", refuses)
    with refused(Reason.NOT_PERMITTED):
        files.remove(tmp_path / "file")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"STACKPROOF_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"STACKPROOF_CACHE": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/stackproof"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/stackproof"),
        ({}, "/.cache/stackproof"),
    ],
)
def test_cache_home(environment, expected):
    assert files.cache_home(environment) == Path(expected)


def test_cache_home_of_this_process(monkeypatch):
    monkeypatch.setenv("STACKPROOF_CACHE", "/here")
    assert files.cache_home() == Path("/here")


def test_reading_stops_at_the_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    five, four = (Limit("tests", "so", bytes=count) for count in (5, 4))
    assert files.read_bounded(path, five) == b"12345"
    with pytest.raises(StackproofError) as caught:
        files.read_bounded(path, four, hint="less")
    (problem,) = caught.value.problems
    assert (problem.reason, problem.hint) == (Reason.TOO_LARGE, "less")
    assert files.read_bounded("-", five, stream=io.BytesIO(b"ab")) == b"ab"
    with refused(Reason.FILE_MISSING):
        files.read_bounded(tmp_path / "none", five)
    with refused(Reason.TOO_LARGE):
        files.read_bounded("/dev/zero", five)


def test_a_pipe_is_read_to_its_end_and_waited_for_only_so_long(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = Limit("tests", "so", bytes=1 << 20)
    # A writer that comes late, writes in two pieces and more than a pipe holds.
    script = "sleep 0.3; exec >$0; printf a; sleep 0.3; head -c 200000 /dev/zero"
    with subprocess.Popen(["sh", "-c", script, pipe]):
        assert files.read_bounded(pipe, text) == b"a" + bytes(200_000)
    endless = ["sh", "-c", "exec cat /dev/zero >$0", pipe]
    with subprocess.Popen(endless, stderr=-3), refused(Reason.TOO_LARGE):
        files.read_bounded(pipe, text)
    monkeypatch.setattr(limits.PIPE_OPENED, "seconds", 0.2)
    with pytest.raises(StackproofError) as caught:
        files.read_bounded(pipe, text)
    assert "nobody has written" in caught.value.problems[0].message
    monkeypatch.setattr(limits.PIPE, "seconds", 0.2)
    silent = os.open(pipe, os.O_RDWR)
    try:
        with pytest.raises(StackproofError) as caught:
            files.read_bounded(pipe, text)
    finally:
        os.close(silent)
    assert caught.value.reason is Reason.INVALID_VALUE


def test_a_copy_is_whole_and_leaves_nothing_else(tmp_path):
    source, target = tmp_path / "source", tmp_path / "new" / "target"
    source.write_bytes(b"content")
    source.chmod(0o600)
    files.copy(source, target)
    assert target.read_bytes() == b"content"
    assert target.stat().st_mode & 0o777 == 0o644
    with pytest.raises(StackproofError):
        files.copy(tmp_path / "none", target)
    assert [path.name for path in target.parent.iterdir()] == ["target"]
    assert target.read_bytes() == b"content"


def test_a_lock_has_one_holder(tmp_path):
    busy = fail(Reason.BUSY, "somebody else")
    with (
        files.locked(tmp_path / "lock", seconds=1, mode=0o600, busy=busy),
        pytest.raises(StackproofError) as caught,
        files.locked(tmp_path / "lock", seconds=0.05, mode=0o600, busy=busy),
    ):
        pass
    assert caught.value.reason is Reason.BUSY
    with files.locked(tmp_path / "lock", seconds=0, mode=0o600, busy=busy):
        pass


def test_a_private_folder_is_trusted_only_as_such(tmp_path):
    folder = tmp_path / "own"
    assert folders.private_folder(folder, hint="remove it") == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("own", "file", "link"):
        with refused(Reason.NOT_PERMITTED):
            folders.private_folder(tmp_path / name, hint="remove it")


def test_a_file_that_may_not_be_read_is_not_one_to_write_to(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text("")
    error = PermissionError(errno.EACCES, "Permission denied")
    writing = files.translate(error, secret).problems[0].hint
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.R_OK)  # root may read it
    assert files.translate(error, secret).problems[0].hint != writing


def test_results_are_written_to_empty_folders_alone(tmp_path):
    files.check_empty(tmp_path / "new")
    files.check_empty(tmp_path)
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path, tmp_path / "file"):
        with refused(Reason.USAGE):
            files.check_empty(wrong)


def test_a_name_that_somebody_took_is_passed_over(tmp_path):
    places = [tmp_path / name / "own" for name in ("a", "b", "c")]
    for place in places:
        place.parent.mkdir()
    places[0].symlink_to(tmp_path)
    assert folders.one_private_folder(places, hint="remove it") == places[1]
    files.remove(places[0])  # what was chosen before stays chosen
    assert folders.one_private_folder(places, hint="remove it") == places[1]
    for place in places:
        files.remove(place)
        place.write_text("taken")
    with refused(Reason.NOT_PERMITTED):
        folders.one_private_folder(places, hint="remove it")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o1777])
def test_a_cache_that_others_may_write_to_is_not_believed(tmp_path, monkeypatch, mode):
    cache = tmp_path / "cache"
    monkeypatch.setenv("STACKPROOF_CACHE", str(cache))
    assert cache_kinds.home("downloads") == cache / "downloads"
    cache.mkdir()
    assert cache_kinds.locks_of("git") == cache / "git" / "locks"
    os.chown(cache, -1, 4242) if os.geteuid() == 0 else None
    cache.chmod(mode)
    if os.geteuid() and cache.stat().st_gid == os.geteuid() and not mode & 0o002:
        return  # a group of one's own
    for look in (cache_kinds.home, cache_kinds.locks_of):
        with refused(Reason.NOT_PERMITTED) as caught:
            look("locks")
        assert "STACKPROOF_CACHE" in (caught.value.problems[0].hint or "")


@pytest.mark.parametrize("kind", ["folder", "link to what is mine", "beside too", "everywhere"])
def test_a_cache_of_another_user_is_not_believed(tmp_path, monkeypatch, capsys, kind):
    """Who takes its place keeps nobody from working: another one is used, and that is said."""
    need("root")
    cache, beside, usual = (
        tmp_path / "cache",
        tmp_path / "cache-0",
        tmp_path / "home" / "stackproof",
    )
    monkeypatch.setenv("STACKPROOF_CACHE", str(cache))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    if kind == "link to what is mine":
        (tmp_path / "mine").mkdir()
        cache.symlink_to(tmp_path / "mine")
    else:
        cache.mkdir()
    taken = [cache, *([beside] if kind in {"beside too", "everywhere"} else [])]
    taken += [usual] if kind == "everywhere" else []
    for place in taken:
        place.mkdir(parents=True, exist_ok=True)
        os.chown(place, 4242, 4242, follow_symlinks=False)
    if kind == "everywhere":
        with refused(Reason.NOT_PERMITTED, "belongs to uid 4242"):
            cache_kinds.home("downloads")
        return
    own = usual if kind == "beside too" else beside
    assert cache_kinds.home("downloads") == own / "downloads"
    assert cache_kinds.locks_of("git") == own / "git" / "locks"
    assert own.stat().st_mode & 0o777 == 0o700
    (note,) = capsys.readouterr().err.splitlines()
    assert note == f"note: the cache `{cache}` belongs to uid 4242: `{own}` is used in its place"


def test_what_others_put_in_the_place_of_trees_in_memory_stays(tmp_path, monkeypatch):
    """`image prune` deletes builds in memory: not what a link there leads to, nor others' trees."""
    monkeypatch.setattr(workspace, "MEMORY", tmp_path)
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    (tmp_path / "precious" / "work").mkdir(parents=True, mode=0o700)
    place = tmp_path / f"stackproof-{os.geteuid()}"
    place.symlink_to(tmp_path / "precious")
    assert cache_entries.trees_in_memory() == []
    place.unlink()
    (place / "work").mkdir(parents=True)
    place.chmod(0o777)
    assert cache_entries.trees_in_memory() == []
    if os.geteuid() == 0:
        place.chmod(0o700)
        os.chown(place, 4242, 4242)
        assert cache_entries.trees_in_memory() == []
        os.chown(place, 0, 0)
    place.chmod(0o700)
    assert [one.name for one in cache_entries.trees_in_memory()] == ["work"]


def test_a_folder_that_takes_no_files_is_named():
    need("root")  # others are refused by its mode
    with refused(Reason.NOT_PERMITTED, "no file can be made in `/proc`"):
        files.write("/proc/report.html", "x")


@pytest.mark.parametrize(
    "words",
    [
        ["run", "{}", "--", "true"],
        ["inspect", "{}"],
        ["build", "{}"],
        ["inject", "check", "/bin/true", "--with", "{}"],
        ["activate", "{}", "--inject", "{}"],
    ],
    ids=lambda words: words[0],
)
def test_a_folder_that_may_not_be_entered_is_named(tmp_path: Path, words: list[str]) -> None:
    """Nobody can say that what lies in it is missing."""
    closed, start = tmp_path / "closed", [sys.executable, "-m", "stackproof"]
    closed.mkdir(mode=0o700)
    (closed / "a.squashfs").write_text("hsqs")
    if os.geteuid() == 0:
        need("unprivileged-user")
        os.chown(closed, 65534, 65534)
        start = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *start]
    else:
        closed.chmod(0)
    words = [word.format(closed / "a.squashfs") for word in words]
    done = subprocess.run(
        [*start, *words], capture_output=True, text=True, timeout=600, check=False
    )
    assert f"hint: you may not enter the folder `{closed}`: its owner can let you in" in done.stderr
    assert "does not exist" not in done.stderr
    assert "bug" not in done.stderr
