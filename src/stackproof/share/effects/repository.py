"""A repository of images: `index.db` with labels and digests, `images/SHA256/store.squashfs`.

The format is that of uenv 9 (src/uenv/repository.cpp), and both programs may work on one repository
at once: SQLite's locks are all that both know, so every change is one short transaction, with a
journal as uenv makes it (no WAL, which network file systems cannot have), and what takes long,
copying and deleting, is done under other names.

What an index says is believed of its three tables alone, where they are as they are made here: no
view, trigger or expression of somebody else's is ever evaluated. Who changes something asks for a
folder that is the user's, root's, or shared on purpose: `foreign.folder`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.effects.foreign import folder as folders
from stackproof.core.effects.foreign import index_file
from stackproof.core.effects.foreign.folder import OpenFolder, umask
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.share import labels
from stackproof.share.labels import Label, LabelRecord

SCHEMA = (
    """CREATE TABLE images (
            sha256 TEXT PRIMARY KEY CHECK(length(sha256)==64),
            id TEXT UNIQUE CHECK(length(id)==16),
            date TEXT NOT NULL,
            size INTEGER NOT NULL)""",
    """CREATE TABLE uenv (
            version_id INTEGER PRIMARY KEY,
            system TEXT NOT NULL,
            uarch TEXT NOT NULL,
            name TEXT NOT NULL,
            version TEXT NOT NULL,
            UNIQUE (system, uarch, name, version))""",
    """CREATE TABLE tags (
            version_id INTEGER,
            tag TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            PRIMARY KEY (version_id, tag),
            FOREIGN KEY (version_id) REFERENCES uenv (version_id)
                ON DELETE CASCADE ON UPDATE CASCADE,
            FOREIGN KEY (sha256) REFERENCES images (sha256)
                ON DELETE CASCADE ON UPDATE CASCADE)""",
    """CREATE VIEW records AS
            SELECT uenv.system AS system, uenv.uarch AS uarch, uenv.name AS name,
                uenv.version AS version, tags.tag AS tag, images.date AS date,
                images.size AS size, tags.sha256 AS sha256, images.id AS id
            FROM tags
                INNER JOIN uenv ON uenv.version_id = tags.version_id
                INNER JOIN images ON images.sha256 = tags.sha256""",
    """CREATE TRIGGER delete_orphan_uenv AFTER DELETE ON tags FOR EACH ROW BEGIN
                DELETE FROM uenv
                WHERE version_id NOT IN (SELECT DISTINCT version_id FROM tags);
            END""",
    """CREATE TRIGGER delete_orphan_image AFTER DELETE ON tags FOR EACH ROW BEGIN
                DELETE FROM images
                WHERE sha256 NOT IN (SELECT DISTINCT sha256 FROM tags);
            END""",
)
"""Tables, view and triggers, with the names and types that uenv gives them."""


def _same(text: str) -> str:
    """Return a statement as it is compared: programs differ in blanks and in nothing else."""
    return "".join(text.split()).lower()


_KINDS = {_same(text): tuple(text.split()[1:3]) for text in SCHEMA}
_TABLES = {name for kind, name in _KINDS.values() if kind == "TABLE"}
_AUTOMATIC = ("index", True, None)  # that of a UNIQUE or PRIMARY KEY has no statement


def is_ours(rows: Iterable[tuple[object, ...]], *, whole: bool) -> bool:
    """Return true where the rows of `sqlite_master` (type, name, table, sql) have these tables.

    With `whole` nothing else may be there: no other view, trigger or index would be evaluated.
    """
    seen: list[tuple[str, ...]] = []
    for kind, name, table, text in rows:
        known = _KINDS.get(_same(text)) if isinstance(text, str) else None
        if known is not None and (str(kind).upper(), name) == known:
            seen.append(known)
        elif name in _TABLES or (whole and (kind, table in _TABLES, text) != _AUTOMATIC):
            return False
    wanted = [one for one in _KINDS.values() if whole or one[0] == "TABLE"]
    return all(seen.count(one) == 1 for one in wanted)


INDEX = "index.db"
IMAGES = "images"
_FIELDS = "name, version, tag, system, uarch, date, size, sha256"
# In this order, by this index, which names no label: one that belies its table is not heard.
_BY_TAG = (
    f"SELECT {_FIELDS} FROM tags NOT INDEXED "  # noqa: S608 - constants
    "CROSS JOIN uenv NOT INDEXED USING (version_id) "
    "CROSS JOIN images INDEXED BY sqlite_autoindex_images_1 USING (sha256)"
)
_BUSY_S = 30.0
_STEPS = 100_000
_OBJECTS = 100
_SHARED_TEXTS = 16  # a text of one row may be that of many labels
_DIGEST_DIGITS = 64
_HEX = "0123456789abcdef"


_Row = tuple[str, str, str, str, str, str, int, str]


class ImageRepository:
    """The repository in a folder, which need not be there: it is then empty, until it is written.

    Everything raises `StackproofError`: REPOSITORY_DAMAGED, UNSUPPORTED for the index of another
    version, BUSY when others do not end, NOT_PERMITTED, DISK_FULL.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = folder / INDEX
        self._images = str(folder.absolute() / IMAGES)  # `..` stays: it is that of the kernel

    def exists(self) -> bool:
        """Return true where something has the name of the index, whatever it is."""
        return os.path.lexists(self._index)

    def folder_of(self, digest: str) -> Path:
        """Return the folder of an image."""
        return self.folder / IMAGES / digest

    def opened(self) -> OpenFolder:
        """Open its folder to change what is in it, made where it is not there; use it with `with`.

        Raises NOT_PERMITTED for a folder that belongs to others, or that they may write to.
        """
        return folders.open_folder(self.folder, make=self._mode(), hint=self._hint())

    def opened_images(self) -> OpenFolder:
        """Open the folder of its images, as `opened` does."""
        with self.opened() as top:
            return top.open_folder(IMAGES, make=self._mode())

    def _mode(self) -> int:
        """Return the mode of folders that are made, less what the umask takes."""
        return 0o777 if folders.is_shared(self.folder) else 0o755

    def _hint(self) -> str:
        return (
            f"set STACKPROOF_REPOSITORY to a folder of yours in front: FOLDER:{self.folder}; or "
            f"{folders.HINT}"
        )

    def records(self) -> tuple[LabelRecord, ...]:
        """Return all labels, in the order of their names."""
        if not self.exists():
            return ()
        with self._connected() as (connection, size):
            return tuple(map(self._record, sorted(self._rows(connection.execute(_BY_TAG), size))))

    def candidates(self, label: Label, *, beginning: bool = False) -> tuple[LabelRecord, ...]:
        """Return at least the records that `labels.matching` takes, of any system, as SQLite finds.

        Those with the parts of a label, and those of a digest that its name may begin.
        """
        if not self.exists():
            return ()
        parts = {"name": label.name, "version": label.version, "tag": label.tag}
        wanted = {part: text for part, text in (parts | {"uarch": label.uarch}).items() if text}
        terms = [f"{part} LIKE ? || '%'" if beginning and part == "name" else f"{part} = ?"
                 for part in wanted]  # fmt: skip
        query = f"{_BY_TAG} WHERE {' AND '.join(terms or ['1'])}"
        with self._connected() as (connection, size):
            found = set(self._rows(connection.execute(query, tuple(wanted.values())), size))
            if labels.may_be_digest(label):
                query = f"{_BY_TAG} WHERE substr(sha256, 1, ?) = ?"
                rows = connection.execute(query, (len(label.name), label.name))
                found.update(self._rows(rows, size))
        return tuple(map(self._record, sorted(found)))

    def unlabelled(self) -> frozenset[str]:
        """Return the digests of images that the index has without any label."""
        if not self.exists():
            return frozenset()
        with self._connected(whole=True) as (connection, _):
            rows = connection.execute(
                "SELECT sha256 FROM images WHERE sha256 NOT IN (SELECT sha256 FROM tags)"
            ).fetchmany(limits.INDEX.count)
            return frozenset(str(row[0]) for row in rows)

    def integrity(self) -> tuple[str, ...]:
        """Return the faults that SQLite finds in the index, nothing for a sound one."""
        if not self.exists():
            return ()
        with self._connected(whole=True) as (connection, _):
            said = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
            stray = connection.execute("PRAGMA foreign_key_check").fetchall()
        lines = [] if said == ["ok"] else said
        return (*lines, *(f"a row of `{row[0]}` names none of `{row[2]}`" for row in stray))

    @contextlib.contextmanager
    def changing(self) -> Iterator[IndexChange]:
        """Hold the index for a change, which is made as a whole when the block ends well.

        The index is made where there is none.
        """
        with self.opened() as folder:
            if folder.state(INDEX) is None:
                self._create(folder)
            if not all(os.access(path, os.W_OK) for path in (self._index, self.folder)):
                raise self._refused("it is another user's, or read-only")
            with (
                self._faults(),
                index_file.changing(folder, INDEX, seconds=_BUSY_S) as (content, replace),
                index_file.connected(content) as connection,
            ):
                self._check(connection, whole=True)
                yield IndexChange(connection)
                replace(index_file.content_of(connection))

    def _create(self, folder: OpenFolder) -> None:
        """Make the index, whole or not at all; another who makes it at this moment may be first."""
        folder.open_folder(IMAGES, make=self._mode()).close()
        with index_file.connected(b"") as connection:
            for statement in ("BEGIN", *SCHEMA, "COMMIT"):
                connection.execute(statement)
            content = index_file.content_of(connection)
        mode = (0o666 if folder.shared else 0o644) & ~umask()
        with folder.written(INDEX, content, mode) as new:
            folder.link(new, INDEX)
        folder.sync()

    @contextlib.contextmanager
    def _connected(self, *, whole: bool = False) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Open the index to read it, a change of a killed command undone; give its bytes, too."""
        with self._faults():
            with folders.open_folder(self.folder, any_owner=True) as folder:
                content = index_file.read(folder, INDEX, seconds=_BUSY_S)
            with index_file.connected(content) as connection:
                self._check(connection, whole=whole)
                yield connection, len(content)

    def _check(self, connection: sqlite3.Connection, *, whole: bool) -> None:
        """Bound what SQLite does; raise UNSUPPORTED for an index that is not as it is made here."""
        end = time.process_time() + limits.INDEX.seconds
        connection.set_progress_handler(lambda: time.process_time() > end, _STEPS)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.INDEX_TEXT.bytes)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        if not is_ours(rows.fetchmany(_OBJECTS), whole=whole):
            raise index_file.OtherIndexError

    def _rows(self, rows: Iterable[_Row], size: int) -> Iterator[_Row]:
        """Yield the rows of a query as they come; raises REPOSITORY_DAMAGED for what is none."""
        texts = 0
        for count, row in enumerate(rows):
            name, version, tag, system, uarch, date, bytes_, digest = row
            texts_are = type(name) is type(version) is type(tag) is type(system) is type(uarch)
            fine = texts_are and type(uarch) is type(date) is str and type(bytes_) is int
            if not fine or not is_digest(digest):
                raise self._damaged(f"it names an image `{str(digest)[:_DIGEST_DIGITS]}`")
            if not labels.is_whole(name, version, tag, system, uarch):
                raise self._damaged(f"the image `{digest[:_DIGEST_DIGITS]}` has no usual label")
            texts += len(name) + len(version) + len(tag) + len(system) + len(uarch) + _DIGEST_DIGITS
            if count == limits.INDEX.count or texts > _SHARED_TEXTS * size:
                raise self._damaged("it has more rows than there can be")
            yield row

    def _record(self, row: _Row) -> LabelRecord:
        name, version, tag, system, uarch, date, size, digest = row
        label = Label(name=name, version=version, tag=tag, system=system, uarch=uarch)
        folder = f"{self._images}/{digest}"
        return LabelRecord(label=label, date=date, size=size, digest=digest, folder=folder)

    def _damaged(self, why: str) -> StackproofError:
        return fail(
            Reason.REPOSITORY_DAMAGED,
            f"the index of the repository is damaged: {why}",
            where=Location(file=str(self._index)),
            hint=f"the images below `{self.folder / IMAGES}` are whole: move {INDEX} away, and "
            "`stackproof image add` gives them labels again",
        )

    def _refused(self, why: str) -> StackproofError:
        return fail(
            Reason.NOT_PERMITTED,
            f"no right to use the index of the repository: {why}",
            where=Location(file=str(self._index)),
            hint=f"set STACKPROOF_REPOSITORY to a folder of yours in front: FOLDER:{self.folder}",
        )

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """Raise the errors of ours that faults of the index are."""
        where = Location(file=str(self._index))
        try:
            yield
        except index_file.BusyIndexError as error:
            raise fail(
                Reason.BUSY,
                f"the index of the repository is in use for longer than {_BUSY_S:.0f} s",
                where=where,
                hint="another program writes to it: wait, or see who holds it with `fuser`",
            ) from error
        except index_file.OtherIndexError as error:
            raise fail(
                Reason.UNSUPPORTED,
                "the index of the repository is of another version",
                where=where,
                hint="uenv 9 writes what can be read here; set STACKPROOF_REPOSITORY to "
                "another folder, and add the images there",
            ) from error
        except (index_file.DamagedIndexError, sqlite3.Error) as error:
            # https://www.sqlite.org/rescode.html
            if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
                raise files.translate(
                    OSError(errno.ENOSPC, "no space left"), self._index
                ) from error
            raise self._damaged(str(error)) from error


class IndexChange:
    """A change of a repository's index, while nobody else changes it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def digest_of(self, label: Label) -> str:
        """Return the digest that a whole label names, empty for none."""
        row = self._connection.execute(
            "SELECT sha256 FROM tags INNER JOIN uenv USING (version_id) INNER JOIN images "
            "USING (sha256) WHERE name = ? AND version = ? AND tag = ? AND system = ? "
            "AND uarch = ?",
            (label.name, label.version, label.tag, label.system, label.uarch),
        ).fetchone()
        if row and not is_digest(row[0]):  # put in since the label was looked for
            raise sqlite3.DatabaseError(f"it names an image `{str(row[0])[:_DIGEST_DIGITS]}`")
        return row[0] if row else ""

    def without_label(self, digests: Iterable[str]) -> tuple[str, ...]:
        """Return those of some images that no label names; the labels are looked at once."""
        left = dict.fromkeys(digests)
        for (digest,) in self._connection.execute("SELECT sha256 FROM tags"):
            left.pop(digest, None)
        return tuple(left)

    def add(self, record: LabelRecord) -> None:
        """Add a label, or move it to another image."""
        label, run = record.label, self._connection.execute
        whose = (label.system, label.uarch, label.name, label.version)
        run(
            "INSERT OR IGNORE INTO images (sha256, id, date, size) VALUES (?, ?, ?, ?)",
            (record.digest, record.id, record.date, record.size),
        )
        run("INSERT OR IGNORE INTO uenv (system, uarch, name, version) VALUES (?, ?, ?, ?)", whose)
        (version,) = run(
            "SELECT version_id FROM uenv WHERE system = ? AND uarch = ? AND name = ? "
            "AND version = ?",
            whose,
        ).fetchone()
        run(
            "INSERT INTO tags (version_id, tag, sha256) VALUES (?, ?, ?) "
            "ON CONFLICT (version_id, tag) DO UPDATE SET sha256 = excluded.sha256",
            (version, label.tag, record.digest),
        )

    def forget(self, labels: Sequence[Label]) -> None:
        """Take labels away, and what then has none: at once, as triggers look again for each."""
        run = self._connection.execute
        if (said := run("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(said)  # what it deletes hangs on indices, not on rows alone
        triggers = run("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        run("BEGIN")
        for name, _ in triggers:
            run(f"DROP TRIGGER {name}")
        self._connection.executemany(
            "DELETE FROM tags WHERE tag = ? AND version_id IN (SELECT version_id FROM uenv "
            "WHERE system = ? AND uarch = ? AND name = ? AND version = ?)",
            [(one.tag, one.system, one.uarch, one.name, one.version) for one in labels],
        )
        run("DELETE FROM uenv WHERE version_id NOT IN (SELECT version_id FROM tags)")
        self.forget_unlabelled()
        for _, text in triggers:
            run(text)
        run("COMMIT")

    def forget_unlabelled(self) -> None:
        """Take the rows of images away that no label names any more."""
        self._connection.execute("DELETE FROM images WHERE sha256 NOT IN (SELECT sha256 FROM tags)")


def is_digest(text: object) -> bool:
    """Return True for a text that can be the name of an image's folder."""
    return isinstance(text, str) and len(text) == _DIGEST_DIGITS and not text.strip(_HEX)
