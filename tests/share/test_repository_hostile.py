"""Repositories that somebody else prepared: what they plant there acts with nobody's rights.

The victim is who runs the tests, and where that is root also a user without rights; the attacker owns
what is planted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import uenvsql
from images import make_image
from need import as_unprivileged, need
from refusing import refused
from stackproof.core import limits
from stackproof.core.effects.foreign import index_file
from stackproof.core.effects.foreign.folder import open_folder
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.limits import Limit
from stackproof.core.value import Value
from stackproof.share import labels
from stackproof.share.effects import attachments, checking, storing
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.effects.storing import AddOptions
from swaplab import journal_naming

pytestmark = pytest.mark.battery

MALLORY = 31001
VICTIM = 65534
VERDICT = "verdict-0123abcd.json"
LABEL = "tiny/1:v1@here%x86_64"


class Scene(Value, kw_only=False):
    """A folder for all users: the victim's home, with a secret, and a repository."""

    folder: Path
    python: str
    source: Path
    victim: int

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def secret(self) -> Path:
        return self.folder / "home" / "thesis.tex"

    def say(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run stackproof as the victim."""
        argv = [self.python, "-B", "-m", "stackproof", *words]
        variables = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder / "home"),
            "PYTHONPATH": str(self.source), "STACKPROOF_REPOSITORY": str(self.repo), **env,
        }  # fmt: skip
        limit = ["prlimit", "--as=2000000000", "--"]
        return subprocess.run(
            [*limit, *(argv if self.victim == os.geteuid() else as_unprivileged(argv))],
            env=variables, cwd="/", capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip

    def give(self, path: Path, uid: int) -> None:
        """Let a path belong to a user, where root makes the scene."""
        if os.geteuid() == 0:
            os.chown(path, uid, uid, follow_symlinks=False)

    def guarded(self) -> tuple[object, ...]:
        """Return all that may not change."""
        state = self.secret.lstat()
        return self.secret.read_bytes(), state.st_mode, state.st_uid, state.st_mtime_ns


@pytest.fixture(params=["who runs the tests", "a user"])
def scene(request: pytest.FixtureRequest, for_everybody: tuple[str, Path]) -> Iterator[Scene]:
    need("mksquashfs")
    victim = os.geteuid()
    if request.param == "a user":
        need("root")
        victim = VICTIM
    python, checkout = for_everybody
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="stackproof-hostile-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "home").mkdir(mode=0o700)
        found = Scene(folder=folder, python=python, source=checkout / "src", victim=victim)
        found.secret.write_text("years of work")
        found.secret.chmod(0o600)
        for path in (found.secret, folder / "home"):
            found.give(path, victim)
        make_image(folder / "a.squashfs")
        yield found


def planted_index(scene: Scene) -> None:
    """Make a repository of the attacker's with one sound image in it."""
    digest = hashlib.sha256((scene.folder / "a.squashfs").read_bytes()).hexdigest()
    size = (scene.folder / "a.squashfs").stat().st_size
    uenvsql.create(scene.repo)
    uenvsql.add(
        scene.repo, ("here", "x86_64", "tiny", "1", "v1", digest, "2026-01-02 03:04:05", size)
    )
    image = scene.repo / "images" / digest / "store.squashfs"
    image.parent.mkdir(parents=True)
    shutil.copyfile(scene.folder / "a.squashfs", image)
    for path in (scene.repo, *scene.repo.rglob("*")):
        scene.give(path, MALLORY)


@pytest.mark.guarantee(
    "Folders of several users",
    "An index is read in memory, its three tables alone.",
    "SQLite never opens the file; a journal that names another file is refused, and one "
    "of an interrupted change is undone in a copy. Tried: a journal that has SQLite "
    "delete a file, in nine verbs, as root and as a user.",
)
@pytest.mark.parametrize(
    "words",
    [
        ("image", "ls"), ("run", LABEL, "--", "true"), ("inspect", LABEL), ("image", "prune"),
        ("image", "verify", LABEL), ("image", "fsck"), ("image", "add", "b/1:v1@h%u", "IMAGE"),
        ("image", "rm", LABEL), ("bench", "run", LABEL, "--dry-run"),
    ],
    ids=lambda words: "-".join(words[:2]),
)  # fmt: skip
@pytest.mark.parametrize("place", ["others may write", "the victim's"])
def test_a_journal_that_names_another_file(scene: Scene, words: Sequence[str], place: str) -> None:
    """SQLite deletes the file that a journal names as the one that it is a part of."""
    planted_index(scene)
    pages = (scene.repo / "index.db").stat().st_size // 4096
    journal = scene.repo / "index.db-journal"
    journal.write_bytes(journal_naming(str(scene.secret), pages))
    scene.give(journal, MALLORY)
    for path in (scene.repo, scene.repo / "index.db"):
        if place == "the victim's":
            scene.give(path, scene.victim)
        path.chmod(0o777 if path.is_dir() else 0o666)
    before = scene.guarded()
    done = scene.say(*(str(scene.folder / "a.squashfs") if w == "IMAGE" else w for w in words))
    assert scene.guarded() == before
    assert done.returncode != 0 or words[:2] == ("image", "prune"), done.stdout
    assert "bug" not in done.stderr


@pytest.mark.guarantee(
    "Folders of several users",
    "No name that another user planted is followed or waited for.",
    "Tried: links, pipes, second names and folders in the place of the index, its "
    "journal, `images/`, an unfinished copy and the folder of an image.",
)
@pytest.mark.parametrize("kind", ["link", "fifo", "second name", "folder"])
@pytest.mark.parametrize("name", ["index.db", "index.db-journal", "index.db-wal", "images"])
def test_what_stands_in_the_place_of_files_of_the_index(scene: Scene, name: str, kind: str) -> None:
    """Nothing is followed, and nothing waited for."""
    planted_index(scene)
    path = scene.repo / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(scene.secret if name != "images" else scene.secret.parent)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "second name":
        with contextlib.suppress(OSError):  # another file system
            path.hardlink_to(scene.secret)
    else:
        path.mkdir()
    scene.give(path, MALLORY) if kind != "second name" else None
    scene.give(scene.repo, scene.victim)
    before, home = scene.guarded(), os.listdir(scene.secret.parent)
    for words in (
        ("image", "ls"), ("image", "fsck"), ("image", "add", LABEL, str(scene.folder / "a.squashfs"))
    ):  # fmt: skip
        done = scene.say(*words, STACKPROOF_CACHE=str(scene.folder / "cache"))
        assert "bug" not in done.stderr
        if name == "index.db" and words != ("image", "fsck"):
            assert done.returncode != 0, words  # an index that is none is no empty repository
    assert scene.guarded() == before
    assert os.listdir(scene.secret.parent) == home


_ENDLESS = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS system, n AS uarch, "
    "n AS name, n AS version, n AS tag, n AS date, n AS size, n AS sha256, n AS id FROM r"
)
_SLOW = f"(SELECT count(*) FROM ({_ENDLESS} LIMIT 1000000000))"
_ROWS = "DELETE FROM tags; DELETE FROM images; DELETE FROM uenv;"
HOSTILE = {
    "a view without end": f"DROP VIEW records; CREATE VIEW records AS {_ENDLESS}",
    "a view for a table": (
        f"{_ROWS} DROP TABLE tags; CREATE VIEW tags AS SELECT 1 AS version_id, n AS tag, n AS sha256 "
        f"FROM ({_ENDLESS.replace('n AS tag', 'n')})"
    ),
    "a check that takes for ever": (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, "
        "'length(sha256)==64', 'length(replace(hex(zeroblob(500000000)), 0, 1)) > 0') "
        "WHERE name = 'images'"
    ),
    "a generated column": (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'tag TEXT NOT NULL', "
        "'tag TEXT AS (hex(zeroblob(900000000))) NOT NULL') WHERE name = 'tags'"
    ),
    "an index of an expression": "CREATE INDEX slow ON tags (hex(zeroblob(length(tag) * 900000)))",
    "a trigger": (f"CREATE TRIGGER more AFTER INSERT ON tags BEGIN SELECT {_SLOW}; END"),
    "a long name": "UPDATE uenv SET name = hex(zeroblob(5000000))",
    "a long schema": (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = sql || "
        "hex(zeroblob(5000000)) WHERE name = 'records'"
    ),
    "a table twice": (
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_master SELECT * FROM sqlite_master"
    ),
    "bytes for a name": "UPDATE uenv SET name = x'fffe'",
    "a virtual table": (
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES "
        "('table', 'v', 'v', 0, 'CREATE VIRTUAL TABLE v USING fts5(x)')"
    ),
    "the journal of other programs": "PRAGMA journal_mode = WAL",
}


@pytest.mark.guarantee(
    "Folders of several users",
    "An index costs no more than its limits.",
    "Tried: a view without an end, huge texts, ten million rows, expressions in indexes, "
    "checks and generated columns.",
)
@pytest.mark.parametrize("how", HOSTILE)
def test_an_index_that_costs_without_end(scene: Scene, how: str) -> None:
    planted_index(scene)
    connection = uenvsql.connect(scene.repo)
    connection.executescript(HOSTILE[how])
    connection.close()
    scene.give(scene.repo / "index.db", MALLORY)
    scene.give(scene.repo, scene.victim)
    before = scene.guarded()
    for words in (("image", "ls"), ("inspect", LABEL), ("image", "fsck")):
        done = scene.say(*words)
        assert "bug" not in done.stderr, done.stderr
        assert done.returncode == 0 or len(done.stderr) < 2000
    scene.give(scene.repo / "index.db", scene.victim)
    done = scene.say("image", "add", "b/1:v1@h%u", str(scene.folder / "a.squashfs"))
    assert done.returncode != 0
    assert "bug" not in done.stderr, done.stderr
    assert scene.guarded() == before


@pytest.mark.guarantee("Folders of several users", "An index costs no more than its limits.")
def test_rows_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that stand in a tree many times give more rows than a file has room for."""
    uenvsql.create(tmp_path)
    for number in range(300):
        uenvsql.add(
            tmp_path, ("s", "u", f"name{number}", "1", "v1", "a" * 64, "2026-01-02 03:04:05", 1)
        )
    assert len(ImageRepository(tmp_path).records()) == 300
    monkeypatch.setattr(limits, "INDEX", Limit("", "", bytes=1 << 20, count=(200, ""), seconds=9))
    with refused(Reason.REPOSITORY_DAMAGED) as caught:
        ImageRepository(tmp_path).records()
    assert "more rows" in str(caught.value)
    monkeypatch.undo()
    content = bytearray((tmp_path / "index.db").read_bytes())
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'tags'"
    with contextlib.closing(sqlite3.connect(tmp_path / "index.db")) as connection:
        root = connection.execute(query).fetchone()[0]
    at = (root - 1) * 4096
    assert content[at] == 5  # a page that has children
    child = content[at + 8 : at + 12]
    cells = int.from_bytes(content[at + 3 : at + 5], "big")
    first = int.from_bytes(content[at + 12 : at + 14], "big")
    for number in range(cells, 1500):  # the same child, again and again
        place = at + 12 + 2 * number
        content[place : place + 2] = first.to_bytes(2, "big")
    content[at + 3 : at + 5] = (1500).to_bytes(2, "big")
    assert child != bytes(4)
    (tmp_path / "index.db").write_bytes(content)
    with refused(Reason.REPOSITORY_DAMAGED):
        ImageRepository(tmp_path).records()


@pytest.mark.guarantee(
    "Folders of several users",
    "No name that another user planted is followed or waited for.",
)
@pytest.mark.parametrize("kind", ["link", "second name", "fifo", "folder", "of another"])
@pytest.mark.parametrize("declared", [False, True])
def test_the_name_of_a_copy_is_taken(scene: Scene, kind: str, declared: bool) -> None:
    """An image is added where somebody knew its digest before."""
    image = scene.folder / "a.squashfs"
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    part = scene.repo / "images" / f".part-{digest}"
    part.parent.mkdir(parents=True)
    if kind == "link":
        part.symlink_to(scene.secret)
    elif kind == "second name":
        part.hardlink_to(scene.secret)
    elif kind == "fifo":
        os.mkfifo(part)
    elif kind == "folder":
        part.mkdir()
        (part / "link").symlink_to(scene.secret.parent)
    else:
        part.write_bytes(image.read_bytes())
    scene.give(part, MALLORY) if kind != "second name" else None
    for path in (scene.repo, part.parent):
        scene.give(path, scene.victim)
        path.chmod(0o777 if declared else 0o755)
    before = scene.guarded()
    env = {"STACKPROOF_SHARED": str(scene.repo)} if declared else {}
    done = scene.say("image", "add", LABEL, str(image), **env)
    assert done.returncode == 0, done.stderr
    assert scene.guarded() == before
    # Only root, and its owner, can empty somebody else's folder; fsck tells of it.
    (folder,) = (path for path in part.parent.iterdir() if not path.name.startswith(".gone-"))
    assert kind == "folder" or len(os.listdir(part.parent)) == 1
    state = (folder / "store.squashfs").lstat()
    assert stat.S_ISREG(state.st_mode)
    assert state.st_uid == scene.victim
    assert (folder / "store.squashfs").read_bytes() == image.read_bytes()


@pytest.mark.guarantee(
    "Folders of several users",
    "No name that another user planted is followed or waited for.",
)
@pytest.mark.parametrize("kind", ["folder of another", "link", "link for the image", "fifo"])
def test_the_folder_of_an_image_is_taken(scene: Scene, kind: str) -> None:
    """What stands there and is not one's own is not given a label: it would be run later."""
    need("root")
    image = scene.folder / "a.squashfs"
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    place = scene.repo / "images" / digest
    evil = scene.folder / "evil"
    evil.mkdir()
    (evil / "store.squashfs").write_bytes(bytes(image.stat().st_size))
    place.parent.mkdir(parents=True)
    if kind == "folder of another":
        shutil.copytree(evil, place)
    elif kind == "link":
        place.symlink_to(evil)
    else:
        place.mkdir()
        if kind == "fifo":
            os.mkfifo(place / "store.squashfs")
        else:
            (place / "store.squashfs").symlink_to(evil / "store.squashfs")
    scene.give(place, MALLORY)
    for path in (scene.repo, place.parent):
        scene.give(path, scene.victim)
    done = scene.say("image", "add", LABEL, str(image))
    assert done.returncode == 0, done.stderr
    assert (place / "store.squashfs").read_bytes() == image.read_bytes()
    assert not place.is_symlink()
    assert (evil / "store.squashfs").exists()


@pytest.mark.attack
@pytest.mark.parametrize("path", ["../own/thesis.tex", "../own", "../..", "..", "./.."])
def test_a_row_that_leads_out_of_the_repository_deletes_nothing(tmp_path: Path, path: str) -> None:
    """It comes into the index between a look at the labels and the change; 64 characters may."""
    digest = f"../{path}".replace("/", "/" * (64 - len(f"../{path}") + 1), 1)
    thesis, repository = tmp_path / "own" / "thesis.tex", ImageRepository(tmp_path / "repo")
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    uenvsql.create(tmp_path / "repo")
    (tmp_path / "repo" / "images" / ("a" * 64)).mkdir(parents=True)
    label = ("here", "x86_64", "tiny", "1", "v1")
    uenvsql.add(tmp_path / "repo", (*label, digest, "2026-01-02 03:04:05", 1))
    there = sorted(tmp_path.rglob("*"))
    with pytest.raises(StackproofError) as caught:
        storing.remove(repository, (labels.parse(LABEL),))
    assert caught.value.reason is Reason.REPOSITORY_DAMAGED
    assert sorted(tmp_path.rglob("*")) == there


@pytest.mark.attack
@pytest.mark.parametrize("name", ["../x", "..", ".", "", "/x", "a/b"])
def test_an_open_folder_takes_plain_names_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").write_text("kept")
    (tmp_path / "in" / "a").mkdir(parents=True)
    (tmp_path / "in" / "a" / "b").write_text("kept")
    there = sorted(tmp_path.rglob("*"))
    with open_folder(tmp_path / "in") as folder:
        for change in (
            lambda: folder.remove(name),
            lambda: folder.rename(name, "new"),
            lambda: folder.rename("a", name),
        ):
            with pytest.raises(StackproofError) as caught:
                change()
            assert caught.value.reason is Reason.NOT_PERMITTED
    assert sorted(tmp_path.rglob("*")) == there


@pytest.mark.attack
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("kind", ["link", "link for the image", "fifo", "link in it"])
def test_what_stands_for_an_image_is_removed_itself(
    scene: Scene, kind: str, declared: bool
) -> None:
    planted_index(scene)
    (place,) = (scene.repo / "images").iterdir()
    if kind == "link":
        shutil.rmtree(place)
        place.symlink_to(scene.secret.parent)
    elif kind == "link in it":
        (place / "home").symlink_to(scene.secret.parent)
    else:
        (place / "store.squashfs").unlink()
        if kind == "fifo":
            os.mkfifo(place / "store.squashfs")
        else:
            (place / "store.squashfs").symlink_to(scene.secret)
    for path in (scene.repo, *scene.repo.rglob("*")):
        scene.give(path, scene.victim)
    if declared:
        scene.repo.chmod(0o777)
    before = scene.guarded()
    env = {"STACKPROOF_SHARED": str(scene.repo)} if declared else {}
    done = scene.say("image", "rm", "--yes", LABEL, **env)
    assert done.returncode == 0, done.stderr
    assert scene.guarded() == before
    assert not os.path.lexists(place)


@pytest.mark.guarantee(
    "Folders of several users",
    "A folder is opened once, judged, and used by its descriptor.",
)
@pytest.mark.parametrize("whose", ["of another", "for others to write", "declared"])
def test_whose_repository_is_written_to(scene: Scene, whose: str) -> None:
    """Root writes into nobody's, and a user in a team's where that is said."""
    need("root")
    scene.repo.mkdir()
    scene.give(scene.repo, MALLORY if whose == "of another" else scene.victim)
    scene.repo.chmod(0o777)
    env = {"STACKPROOF_SHARED": f"/nowhere:{scene.repo}"} if whose == "declared" else {}
    done = scene.say("image", "add", LABEL, str(scene.folder / "a.squashfs"), **env)
    if whose == "declared":
        assert done.returncode == 0, done.stderr
        assert LABEL in scene.say("image", "ls", "--names").stdout
        return
    assert done.returncode == 4, done.stderr
    assert ("uid 31001" if whose == "of another" else "0777") in done.stderr
    assert "STACKPROOF_SHARED" in done.stderr
    assert list(scene.repo.iterdir()) == []


@pytest.mark.guarantee(
    "Folders of several users",
    "An index is read in memory, its three tables alone.",
)
def test_a_change_that_was_interrupted_is_undone_in_a_copy(tmp_path: Path) -> None:
    """Of a killed program there is a journal: who reads sees what was before, and writes nothing."""
    uenvsql.create(tmp_path)
    uenvsql.add(tmp_path, ("s", "u", "name", "1", "v1", "a" * 64, "2026-01-02 03:04:05", 1))
    script = (
        "import os, sqlite3, sys\n"
        "one = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "one.execute('PRAGMA cache_size = 1'); one.execute('PRAGMA cache_spill = 1')\n"
        "one.execute('BEGIN'); one.execute(\"UPDATE uenv SET name = 'other'\")\n"
        "for n in range(3000): one.execute(\"INSERT INTO uenv VALUES (?, 's', 'u', ?, '1')\", "
        "(n + 10, str(n) * 20))\n"
        "os.kill(os.getpid(), 9)"
    )
    index = tmp_path / "index.db"
    subprocess.run([shutil.which("python3") or "python3", "-c", script, index], check=False)
    journal = tmp_path / "index.db-journal"
    assert journal.stat().st_size > 512
    before = index.read_bytes(), journal.read_bytes()
    assert b"other" in before[0]
    assert [one.label.name for one in ImageRepository(tmp_path).records()] == ["name"]
    assert (index.read_bytes(), journal.read_bytes()) == before
    with ImageRepository(tmp_path).changing():
        pass
    assert not journal.exists()
    assert [row["name"] for row in uenvsql.listed(tmp_path)] == ["name"]
    assert ImageRepository(tmp_path).integrity() == ()


def test_sqlite_undoes_what_was_interrupted_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is one that uenv's SQLite reads."""
    uenvsql.create(tmp_path)
    for number in range(200):
        uenvsql.add(
            tmp_path, ("s", "u", f"name{number}", "1", "v1", "a" * 64, "2026-01-02 03:04:05", 1)
        )

    written: list[bytes] = []

    def killed(descriptor: int, _: bytes, new: bytes) -> None:
        if not written:  # the second time it would be put right
            os.pwrite(descriptor, new[: len(new) // 2], 0)
        written.append(new)
        raise KeyboardInterrupt

    monkeypatch.setattr(index_file, "_write_pages", killed)
    labels = tuple(one.label for one in ImageRepository(tmp_path).records())
    before = (tmp_path / "index.db").read_bytes()
    with pytest.raises(KeyboardInterrupt), ImageRepository(tmp_path).changing() as change:
        change.forget(labels[:100])
    assert (tmp_path / "index.db-journal").exists()
    assert (tmp_path / "index.db").read_bytes() != before
    assert written[0][24:28] != before[24:28]  # by which others see that it has changed
    monkeypatch.undo()
    assert len(ImageRepository(tmp_path).records()) == 200  # in a copy
    assert len(uenvsql.listed(tmp_path)) == 200  # in the file
    assert (tmp_path / "index.db").read_bytes() == before
    assert not (tmp_path / "index.db-journal").exists()


@pytest.mark.guarantee(
    "Folders of several users",
    "No name that another user planted is followed or waited for.",
)
@pytest.mark.parametrize("what", ["verdict", "folder", "second name", "fifo"])
def test_what_is_attached_is_no_way_to_other_files(tmp_path: Path, what: str) -> None:
    """What stands beside an image is shown, and sent to registries: a key would be."""
    image = tmp_path / "images" / ("a" * 64) / "store.squashfs"
    home = tmp_path / "home"
    home.mkdir()
    (home / "id_rsa").write_text("secret")
    image.parent.mkdir(parents=True)
    attached = image.parent / "attached"
    if what == "folder":
        attached.symlink_to(home)
    else:
        attached.mkdir()
        if what == "verdict":
            (attached / VERDICT).symlink_to(home / "id_rsa")
        elif what == "fifo":
            os.mkfifo(attached / VERDICT)
        else:
            (attached / VERDICT).hardlink_to(home / "id_rsa")
    for path in attachments.verdicts(str(image)).values():
        with pytest.raises(StackproofError):
            attachments.read(path, limits.SEAL)
    assert what == "second name" or not attachments.verdicts(str(image))
    if what == "folder":
        with pytest.raises(StackproofError):
            attachments.put_verdict(str(image), VERDICT, b"ssh-ed25519 AAAA")
    else:
        attachments.put_verdict(str(image), VERDICT, b"new")
    assert [path.name for path in home.iterdir()] == ["id_rsa"]
    assert (home / "id_rsa").read_text() == "secret"


def test_what_killed_commands_left_is_cleared(tmp_path: Path) -> None:
    """Names of every kind, and what others put there under such names."""
    need("mksquashfs")
    repository = ImageRepository(tmp_path / "repo")
    image = make_image(tmp_path / "a.squashfs")
    record = storing.add(repository, AddOptions(label=labels.parse(LABEL), file=str(image)))
    images, other = repository.folder / "images", "b" * 64
    attachments.put_verdict(record.file, VERDICT, b"stays")
    left = [
        repository.folder / ".index.db.0123456789ab", images / f".part-{other}",
        images / f".part-{other}.lock", Path(record.folder) / ".manifest.json.0123456789ab",
        Path(record.folder) / "attached" / f".{VERDICT}.0123456789ab",
    ]  # fmt: skip
    for path in left:
        path.write_text("half")
    for name in (f".new-{other}.1", f".gone-{other}.1"):
        (images / name / "meta").mkdir(parents=True)
        left.append(images / name)
    os.mkfifo(images / f".part-{'c' * 64}")
    (images / f".gone-{'c' * 64}.7").symlink_to(tmp_path)
    left += [images / f".part-{'c' * 64}", images / f".gone-{'c' * 64}.7"]
    faults = checking.check(repository)
    assert sorted(one.path for one in faults) == sorted(map(str, left))
    assert all(one.mended for one in checking.mend(repository, faults))
    assert checking.check(repository, digests=True) == ()
    assert image.exists()
