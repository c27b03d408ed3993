"""The index of a repository: uenv's, read and written; damaged, of others, and used by several."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import uenvsql
from need import as_unprivileged
from refusing import refused
from stackproof.core.errors import Reason, StackproofError
from stackproof.share import labels
from stackproof.share.effects import places
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.labels import LabelRecord

DIGESTS = tuple(f"{digit}" * 64 for digit in "abcdef")
ROW: uenvsql.Row = (
    "daint", "zen2", "mpich", "5.0.2", "v1", DIGESTS[0], "2026-01-02 03:04:05", 42,
)  # fmt: skip


def record(text: str, digest: str, size: int = 42) -> LabelRecord:
    return LabelRecord(
        label=labels.parse(text), date="2026-01-02 03:04:05", size=size, digest=digest, folder=""
    )


def names(repository: ImageRepository) -> list[str]:
    return [str(one.label) for one in repository.records()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "repo"


def test_what_uenv_wrote_is_read(folder: Path) -> None:
    uenvsql.create(folder)
    uenvsql.add(folder, ROW)
    (found,) = ImageRepository(folder).records()
    assert str(found.label) == "mpich/5.0.2:v1@daint%zen2"
    assert (found.digest, found.id, found.size) == (DIGESTS[0], "a" * 16, 42)
    assert found.date == "2026-01-02 03:04:05"
    assert found.file == f"{folder}/images/{DIGESTS[0]}/store.squashfs"


def test_what_is_written_uenv_reads_and_changes(folder: Path) -> None:
    repository = ImageRepository(folder)
    with repository.changing() as change:
        change.add(record("mpich/5.0.2:v1@daint%zen2", DIGESTS[0]))
        change.add(record("mpich/5.0.2:v2@daint%zen2", DIGESTS[0]))
    first, second = uenvsql.listed(folder)
    assert first == {
        "system": "daint", "uarch": "zen2", "name": "mpich", "version": "5.0.2", "tag": "v1",
        "date": "2026-01-02 03:04:05", "size": 42, "sha256": DIGESTS[0], "id": "a" * 16,
    }  # fmt: skip
    assert second["tag"] == "v2"
    uenvsql.add(folder, ("eiger", *ROW[1:]))
    uenvsql.remove(folder, ROW)
    assert names(repository) == ["mpich/5.0.2:v1@eiger%zen2", "mpich/5.0.2:v2@daint%zen2"]


def test_the_tables_are_those_of_uenv(tmp_path: Path) -> None:
    uenvsql.create(tmp_path / "theirs")
    with ImageRepository(tmp_path / "ours").changing():
        pass

    def shape(folder: Path) -> list[object]:
        connection = uenvsql.connect(folder)
        tables = "images", "uenv", "tags", "records"
        shapes: list[object] = [
            (pragma, table, connection.execute(f"PRAGMA {pragma}({table})").fetchall())
            for table in tables
            for pragma in ("table_info", "foreign_key_list", "index_list")
        ]
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name")
        triggers = [
            (kind, name, " ".join((text or "").split()) if kind == "trigger" else "")
            for kind, name, text in rows
        ]
        mode = connection.execute("PRAGMA journal_mode").fetchone()
        connection.close()
        return [*shapes, triggers, mode]

    assert shape(tmp_path / "ours") == shape(tmp_path / "theirs")


def test_labels_are_in_the_order_of_uenv(folder: Path) -> None:
    """Part by part: as texts, `-` and `.` would come before the signs between them."""
    order = [
        "mpich/5.0:v1@eiger%zen2", "mpich/5.0:v1@h%zen2", "mpich/5.0:v1.2@h%zen2",
        "mpich/5.0.2:v1@h%zen2", "mpich-ofi/5.0:v1@h%zen2", "mpich.x/5.0:v1@h%zen2",
    ]  # fmt: skip
    repository = ImageRepository(folder)
    with repository.changing() as change:
        for text in reversed(order):
            change.add(record(text, DIGESTS[0]))
    assert names(repository) == order


def test_a_label_moves_and_the_last_one_takes_the_image_along(folder: Path) -> None:
    repository = ImageRepository(folder)
    label = labels.parse("mpich/5.0.2:v1@daint%zen2")
    with repository.changing() as change:
        change.add(record(str(label), DIGESTS[0]))
        change.add(record(str(label), DIGESTS[1], size=43))
        assert change.digest_of(label) == DIGESTS[1]
        assert change.without_label(DIGESTS[:2]) == (DIGESTS[0],)
    (found,) = repository.records()
    assert (found.digest, found.size) == (DIGESTS[1], 43)
    with repository.changing() as change:
        change.forget((label,))
    connection = uenvsql.connect(folder)
    for table in ("images", "uenv", "tags"):
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == []
    connection.close()


def test_a_change_that_fails_changes_nothing(folder: Path) -> None:
    repository = ImageRepository(folder)

    def broken() -> None:
        with repository.changing() as change:
            change.add(record("a/1:v1@s%u", DIGESTS[0]))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert repository.records() == ()
    assert repository.integrity() == ()


def test_names_are_values_and_no_statements(folder: Path) -> None:
    repository = ImageRepository(folder)
    evil = labels.Label(name="x'; DROP TABLE tags; --", version='"', tag="%", system="?", uarch="_")
    with repository.changing() as change:
        change.add(LabelRecord(label=evil, date="", size=1, digest=DIGESTS[0], folder=""))
        assert change.digest_of(evil) == DIGESTS[0]
    assert repository.integrity() == ()


@pytest.mark.guarantee(
    "Folders of several users",
    "A label that is none is not read,",
    "so that completion puts nothing on a command line that a shell would run. Tried: "
    "substitutions, options, blanks and breaks of lines in each part of a label.",
)
@pytest.mark.parametrize("part", ["name", "version", "tag", "system", "uarch"])
@pytest.mark.parametrize(
    "text", ["x$(id)", "x`id`", "x;id", "-x", "x y", "x\nid", "", "*", "x/y", "\u202ex", "é"]
)
def test_a_label_of_others_is_read_as_one_or_not_at_all(folder: Path, part: str, text: str) -> None:
    """What an index holds reaches shells, by completion: it may be somebody else's."""
    repository = ImageRepository(folder)
    good = {"name": "n", "version": "1", "tag": "v1", "system": "here", "uarch": "zen2"}
    label = labels.Label(**{**good, part: text})
    with repository.changing() as change:
        change.add(LabelRecord(label=label, date="", size=1, digest=DIGESTS[0], folder=""))
    for read in (repository.records, lambda: repository.candidates(labels.Label(), beginning=True)):
        with pytest.raises(StackproofError) as error:
            read()
        assert error.value.reason is Reason.REPOSITORY_DAMAGED


def test_no_repository_is_an_empty_one(folder: Path) -> None:
    assert ImageRepository(folder).records() == ()
    assert ImageRepository(folder).integrity() == ()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (["CREATE TABLE images (sha256 TEXT, system TEXT, uarch TEXT)"], Reason.UNSUPPORTED),
        ([], Reason.UNSUPPORTED),
        (
            [*uenvsql.TABLES, "INSERT INTO images VALUES ('" + "../" * 21 + "x', '0123456789abcdef', '', 1)",
             "INSERT INTO uenv VALUES (1, 's', 'u', 'n', 'v')",
             "INSERT INTO tags SELECT 1, 't', sha256 FROM images"],
            Reason.REPOSITORY_DAMAGED,
        ),
        (
            [*uenvsql.TABLES, "INSERT INTO images VALUES ('" + "a" * 64 + "', '0123456789abcdef', '', 'big')",
             "INSERT INTO uenv VALUES (1, 's', 'u', 'n', 'v')",
             "INSERT INTO tags SELECT 1, 't', sha256 FROM images"],
            Reason.REPOSITORY_DAMAGED,
        ),
    ],
)  # fmt: skip
def test_an_index_of_another_kind(folder: Path, statements: list[str], reason: Reason) -> None:
    folder.mkdir()
    connection = sqlite3.connect(folder / "index.db", isolation_level=None)
    for statement in statements or ["CREATE TABLE other (x)"]:
        connection.execute(statement)
    connection.close()
    with refused(reason) as caught:
        ImageRepository(folder).records()
    assert "index.db" in str(caught.value)


def _damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "text":
        content[:] = b"this is no database\n" * 200
    elif how == "short":
        content[:] = content[: len(content) // 2]
    else:
        content[4096:8192] = b"\xa5" * 4096
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["text", "short", "page"])
def test_a_damaged_index(folder: Path, how: str) -> None:
    repository = ImageRepository(folder)
    with repository.changing() as change:
        change.add(record("mpich/5.0.2:v1@daint%zen2", DIGESTS[0]))
    _damage(folder / "index.db", how)
    uses = [repository.records, lambda: repository.changing().__enter__()]
    for use in uses[: 1 if how == "page" else 2]:  # pages are read when they are needed
        with refused(Reason.REPOSITORY_DAMAGED) as caught:
            use()
        assert "image add" in str(caught.value)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Let another process, whose locks are its own, be in the middle of a change."""
    script = (
        "import sys, pathlib, uenvsql\n"
        "theirs = uenvsql.connect(pathlib.Path(sys.argv[1]))\n"
        "theirs.execute('BEGIN IMMEDIATE'); print(flush=True); input(); theirs.execute('ROLLBACK')"
    )
    argv = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(
        argv, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield
        other.communicate(b"\n", timeout=600)


def test_an_index_that_somebody_holds_is_read_but_not_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uenvsql.create(folder)
    uenvsql.add(folder, ROW)
    repository = ImageRepository(folder)
    with _held(folder):
        assert names(repository) == ["mpich/5.0.2:v1@daint%zen2"]
        monkeypatch.setattr("stackproof.share.effects.repository._BUSY_S", 0.2)
        with refused(Reason.BUSY), repository.changing():
            pass
    with repository.changing() as change:
        change.add(record("a/1:v1@s%u", DIGESTS[1]))


def _ours(folder: Path, worker: int, count: int) -> None:
    for number in range(count):
        with ImageRepository(folder).changing() as change:
            change.add(record(f"ours{worker}/{number}:v1@s%u", DIGESTS[worker]))


def _theirs(folder: Path, count: int) -> None:
    for number in range(count):
        while True:  # uenv does not wait: its user calls it again
            try:
                uenvsql.add(folder, ("s", "u", "theirs", str(number), "v1", DIGESTS[5], "d", 1))
                break
            except sqlite3.OperationalError:
                time.sleep(0.002)


@pytest.mark.battery
def test_both_programs_write_at_once_and_nothing_is_lost(folder: Path) -> None:
    """The index is made by whoever comes first."""
    count = 12
    context = multiprocessing.get_context("spawn")
    ours = [context.Process(target=_ours, args=(folder, n, count)) for n in range(3)]
    ours[0].start()
    while not (folder / "index.db").exists():
        time.sleep(0.01)
    others = [*ours[1:], context.Process(target=_theirs, args=(folder, count))]
    for one in others:
        one.start()
    for one in (ours[0], *others):
        one.join(60)
        assert one.exitcode == 0
    repository = ImageRepository(folder)
    assert len(names(repository)) == 4 * count
    assert repository.integrity() == ()
    assert sorted(path.name for path in folder.iterdir()) == ["images", "index.db"]


def test_many_who_make_the_index_at_once_make_one(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours = [context.Process(target=_ours, args=(folder, n, 1)) for n in range(4)]
    for one in ours:
        one.start()
    for one in ours:
        one.join(60)
        assert one.exitcode == 0
    assert len(names(ImageRepository(folder))) == 4


def test_a_repository_of_others_is_read(for_everybody: tuple[str, Path]) -> None:
    """As a user without rights; the folder cannot be written, so neither can a journal."""
    python, checkout = for_everybody
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        said = _as_another(python, checkout, Path(name))
    assert "mpich/5.0.2:v1@daint%zen2" in said
    assert "[not-permitted]" in said
    assert "STACKPROOF_REPOSITORY" in said


def _as_another(python: str, checkout: Path, folder: Path) -> str:
    """Return what a user without rights is told who reads a repository and changes it."""
    with ImageRepository(folder).changing() as change:
        change.add(record("mpich/5.0.2:v1@daint%zen2", DIGESTS[0]))
    script = (
        "import sys; from pathlib import Path; from stackproof.share.effects.repository import *\n"
        "from stackproof.core.errors import StackproofError\n"
        f"one = ImageRepository(Path({str(folder)!r}))\n"
        "print([str(record.label) for record in one.records()])\n"
        "try:\n"
        "    with one.changing(): pass\n"
        "except StackproofError as error: print(error)\n"
    )
    done = subprocess.run(
        as_unprivileged(["env", f"PYTHONPATH={checkout / 'src'}", python, "-B", "-c", script]),
        cwd="/", capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    return done.stdout


def test_one_label_is_found_as_among_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What SQLite finds for a word has all that the word means among the records of all."""
    digests = [f"{number:064x}" for number in range(2**255, 2**255 + 4)]
    texts = [
        "mpich/5.0:v1",
        "mpich/5.0:v2",
        "MPICH_x/5:v1",
        "mpichXx/5:v1",
        f"{digests[2][:16]}/1:v1",
    ]
    repositories = ImageRepository(folder / "one"), ImageRepository(folder / "two")
    for repository, turn in zip(repositories, (0, 1), strict=True):
        with repository.changing() as change:
            for number, text in enumerate(texts[: 5 - turn]):
                for system in ("here", "there"):
                    whole = f"{text}@{system}%zen{number % 2}"
                    change.add(record(whole, digests[(number + turn) % 4]))
    words = [
        *texts, "mpich", "mpich_x", "mp", ":v1", "/5.0", "@there", "@*%zen1", "mpich@here", "no/1",
        *digests, *(digest[:16] for digest in digests), f"{digests[0][:16]}@here", "a" * 64,
    ]  # fmt: skip
    for named in ((folder / "one",), (folder / "one", folder / "two")):
        monkeypatch.setenv("STACKPROOF_REPOSITORY", ":".join(map(str, named)))
        for word in words:
            for system in ("", "here"):
                for beginning in (False, True):
                    label = labels.parse(word)
                    few = places.candidates(label, beginning=beginning)
                    found, meant = (
                        set(labels.matching(known, label, system=system, beginning=beginning))
                        for known in (few, places.records())
                    )
                    assert found == meant, word
    assert len(places.candidates(labels.parse("mpich/5.0:v1"))) == 2
