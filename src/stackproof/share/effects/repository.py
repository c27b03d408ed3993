"""A repository of images: `index.db` with labels and digests, `images/SHA256/store.squashfs`.

The format is that of uenv 9 (src/uenv/repository.cpp), and both programs may work on one repository
at once: SQLite's locks are all that both know, so every change is one short transaction, its
journal is left as uenv makes it (no WAL, which network file systems cannot have), and what takes
long, copying and deleting, is done under other names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import urllib.parse
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.share.labels import Label, LabelRecord

INDEX = "index.db"
IMAGES = "images"
_BUSY_S = 30.0
_COLUMNS = {"system", "uarch", "name", "version", "tag", "date", "size", "sha256", "id"}
_DIGEST_DIGITS = 64

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


class ImageRepository:
    """The repository in a folder, which need not be there: it is then empty, until it is written.

    Everything raises `StackproofError`: REPOSITORY_DAMAGED, UNSUPPORTED for the index of another
    version, BUSY when others do not end, NOT_PERMITTED, DISK_FULL.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = folder / INDEX

    def exists(self) -> bool:
        """Return whether there is a repository."""
        return self._index.is_file()

    def folder_of(self, digest: str) -> Path:
        """Return the folder of an image."""
        return self.folder / IMAGES / digest

    def records(self) -> tuple[LabelRecord, ...]:
        """Return all labels, in the order of their names."""
        if not self.exists():
            return ()
        with self._connected() as connection:
            found = self._read(connection)
        return tuple(sorted(found, key=attrgetter("label")))

    def unlabelled(self) -> frozenset[str]:
        """Return the digests of images that the index has without any label."""
        if not self.exists():
            return frozenset()
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT sha256 FROM images WHERE sha256 NOT IN (SELECT sha256 FROM tags)"
            )
            return frozenset(str(row[0]) for row in rows)

    def integrity(self) -> tuple[str, ...]:
        """Return what SQLite finds to be wrong with the index, nothing for a sound one."""
        if not self.exists():
            return ()
        with self._connected() as connection:
            said = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
            stray = connection.execute("PRAGMA foreign_key_check").fetchall()
        lines = [] if said == ["ok"] else said
        return (*lines, *(f"a row of `{row[0]}` names none of `{row[2]}`" for row in stray))

    @contextlib.contextmanager
    def changing(self) -> Iterator[IndexChange]:
        """Hold the index for a change, which is made as a whole when the block ends well.

        The index is made where there is none.
        """
        if not self.exists():
            self._create()
        if not self._may_write():
            raise self._refused("it is another user's, or read-only")
        with self._connected() as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield IndexChange(self, connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _create(self) -> None:
        """Make the index, whole or not at all; another who makes it at this moment may be first."""
        new = self._index.with_name(f".{INDEX}.{os.urandom(6).hex()}")
        try:
            (self.folder / IMAGES).mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
                for statement in ("BEGIN", *SCHEMA, "COMMIT"):
                    connection.execute(statement)
            with contextlib.suppress(FileExistsError):
                os.link(new, self._index)
        except OSError as error:
            raise files.translate(error, self.folder) from error
        except sqlite3.Error as error:
            raise self._translated(error) from error
        finally:
            files.remove(new)

    def _may_write(self) -> bool:
        """Return whether index and journal can be written; SQLite would open it all the same."""
        return all(os.access(path, os.W_OK) for path in (self._index, self.folder))

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Open the index, to write where that may be: so the change of a killed command is undone.

        SQLite does that before it reads anything, from the journal beside the index.
        """
        name = urllib.parse.quote(str(self._index.absolute()))
        mode = "rw" if self._may_write() else "ro"
        try:
            connection = sqlite3.connect(
                f"file:{name}?mode={mode}", uri=True, timeout=_BUSY_S, isolation_level=None
            )
            with contextlib.closing(connection):
                self._check(connection)
                yield connection
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raise UNSUPPORTED for an index that is not as uenv 9 and stackproof make it."""
        columns = {row[1] for row in connection.execute("PRAGMA table_info(records)")}
        if columns != _COLUMNS:
            raise fail(
                Reason.UNSUPPORTED,
                "the index of the repository is of another version",
                where=Location(file=str(self._index)),
                hint="uenv 9 writes what can be read here; set STACKPROOF_REPOSITORY to "
                "another folder, and add the images there",
            )

    def _read(self, connection: sqlite3.Connection) -> list[LabelRecord]:
        names = ("name", "version", "tag", "system", "uarch")
        rows = connection.execute(f"SELECT {', '.join(names)}, date, size, sha256 FROM records")  # noqa: S608 - constants
        found = []
        for *parts, date, size, digest in rows:
            fine = all(isinstance(text, str) for text in (*parts, date, digest))
            if not fine or not isinstance(size, int) or not is_digest(digest):
                raise self._damaged(f"it names an image `{str(digest)[:_DIGEST_DIGITS]}`")
            label = Label(**dict(zip(names, parts, strict=True)))
            folder = str(self.folder_of(digest))
            found.append(
                LabelRecord(label=label, date=date, size=size, digest=digest, folder=folder)
            )
        return found

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

    def _translated(self, error: sqlite3.Error) -> StackproofError:
        """Return what an error of SQLite means; https://www.sqlite.org/rescode.html names them."""
        name = getattr(error, "sqlite_errorname", "") or ""
        where = Location(file=str(self._index))
        lockless = name.startswith("SQLITE_BUSY") and self._lacks_locks()
        if lockless or name.startswith(("SQLITE_IOERR", "SQLITE_PROTOCOL", "SQLITE_NOLFS")):
            why = os.strerror(errno.ENOLCK) if lockless else str(error)
            return fail(
                Reason.NOT_PERMITTED,
                f"the index of the repository cannot be used: {why}",
                where=where,
                hint="its file system may lack locks: Lustre has them with `flock`, NFS with lockd",
            )
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return fail(
                Reason.BUSY,
                f"the index of the repository is in use for longer than {_BUSY_S:.0f} s",
                where=where,
                hint="another program writes to it: wait, or see who holds it with `fuser`",
            )
        if name.startswith("SQLITE_READONLY_ROLLBACK"):
            return fail(
                Reason.BUSY,
                "the index of the repository is in the middle of a change, which was interrupted",
                where=where,
                hint="whoever may write to it undoes that with any command: `stackproof image ls`",
            )
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
            return self._refused(str(error))
        if name.startswith("SQLITE_FULL"):
            return files.translate(OSError(errno.ENOSPC, "no space left"), self._index)
        return self._damaged(str(error))

    def _lacks_locks(self) -> bool:
        """Return whether the file system has no locks at all, which SQLite takes for a busy one."""
        try:
            with self._index.open("rb") as stream:
                fcntl.lockf(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno == errno.ENOLCK
        return False


class IndexChange:
    """A change of a repository's index, while nobody else changes it."""

    def __init__(self, repository: ImageRepository, connection: sqlite3.Connection) -> None:
        self._repository = repository
        self._connection = connection

    def digest_of(self, label: Label) -> str:
        """Return the digest that a whole label names, empty for none."""
        row = self._connection.execute(
            "SELECT sha256 FROM records WHERE name = ? AND version = ? AND tag = ? "
            "AND system = ? AND uarch = ?",
            (label.name, label.version, label.tag, label.system, label.uarch),
        ).fetchone()
        return str(row[0]) if row else ""

    def has(self, digest: str) -> bool:
        """Return whether an image has a label."""
        query = "SELECT 1 FROM tags WHERE sha256 = ?"
        return self._connection.execute(query, (digest,)).fetchone() is not None

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
        """Take labels away; what then has none is forgotten by the index's own triggers."""
        for label in labels:
            self._connection.execute(
                "DELETE FROM tags WHERE tag = ? AND version_id IN (SELECT version_id FROM uenv "
                "WHERE system = ? AND uarch = ? AND name = ? AND version = ?)",
                (label.tag, label.system, label.uarch, label.name, label.version),
            )

    def forget_unlabelled(self) -> None:
        """Take the rows of images away that no label names any more."""
        self._connection.execute("DELETE FROM images WHERE sha256 NOT IN (SELECT sha256 FROM tags)")


def is_digest(text: object) -> bool:
    """Return whether a text can be the name of an image's folder."""
    return (
        isinstance(text, str)
        and len(text) == _DIGEST_DIGITS
        and all(digit in "0123456789abcdef" for digit in text)
    )
