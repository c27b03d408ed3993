"""What uenv 9 does to a repository, as the SQL statements of its source.

uenv's own program is not to be had where the tests run: no package of it is published. The
statements are those that src/uenv/repository.cpp of https://github.com/eth-cscs/uenv2 (5af9df7,
December 2025) gives to SQLite, with values in their place; connections are opened as it opens them:
without a time to wait for locks, and with the journal that SQLite has by default. That the program
does so was seen when it was compiled and used beside stackproof: docs/how-to/move-from-uenv.md.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

TABLES = (
    (
        "CREATE TABLE images (sha256 TEXT PRIMARY KEY CHECK(length(sha256)==64), "
        "id TEXT UNIQUE CHECK(length(id)==16), date TEXT NOT NULL, size INTEGER NOT NULL)"
    ),
    (
        "CREATE TABLE uenv (version_id INTEGER PRIMARY KEY, system TEXT NOT NULL, uarch TEXT NOT NULL, "
        "name TEXT NOT NULL, version TEXT NOT NULL, UNIQUE (system, uarch, name, version))"
    ),
    (
        "CREATE TABLE tags (version_id INTEGER, tag TEXT NOT NULL, sha256 TEXT NOT NULL, "
        "PRIMARY KEY (version_id, tag), FOREIGN KEY (version_id) REFERENCES uenv (version_id) "
        "ON DELETE CASCADE ON UPDATE CASCADE, FOREIGN KEY (sha256) REFERENCES images (sha256) "
        "ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    (
        "CREATE VIEW records AS SELECT uenv.system AS system, uenv.uarch AS uarch, uenv.name AS name, "
        "uenv.version AS version, tags.tag AS tag, images.date AS date, images.size AS size, "
        "tags.sha256 AS sha256, images.id AS id FROM tags "
        "INNER JOIN uenv ON uenv.version_id = tags.version_id "
        "INNER JOIN images ON images.sha256 = tags.sha256"
    ),
    (
        "CREATE TRIGGER delete_orphan_uenv AFTER DELETE ON tags FOR EACH ROW BEGIN DELETE FROM uenv "
        "WHERE version_id NOT IN (SELECT DISTINCT version_id FROM tags); END"
    ),
    (
        "CREATE TRIGGER delete_orphan_image AFTER DELETE ON tags FOR EACH ROW BEGIN DELETE FROM images "
        "WHERE sha256 NOT IN (SELECT DISTINCT sha256 FROM tags); END"
    ),
)
Row = tuple[str, str, str, str, str, str, str, int]
"""System, microarchitecture, name, version, tag, digest, date, size."""


def connect(folder: Path) -> sqlite3.Connection:
    """Open the index as uenv does; it must be there."""
    name = f"file:{folder / 'index.db'}?mode=rw"
    return sqlite3.connect(name, uri=True, timeout=0, isolation_level=None)


def create(folder: Path) -> None:
    """Do what `uenv repo create` does."""
    folder.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(folder / "index.db", isolation_level=None)
    for statement in ("PRAGMA foreign_keys = ON", "BEGIN", *TABLES, "COMMIT"):
        connection.execute(statement)
    connection.close()


def add(folder: Path, row: Row) -> None:
    """Do what `uenv image add` and `pull` do to the index; raises `sqlite3.OperationalError`."""
    system, uarch, name, version, tag, digest, date, size = row
    connection = connect(folder)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN")
        connection.execute(
            "INSERT OR IGNORE INTO images (sha256, id, date, size) "
            f"VALUES ('{digest}', '{digest[:16]}', '{date}', {size})"
        )
        connection.execute(
            "INSERT OR IGNORE INTO uenv (system, uarch, name, version) "
            f"VALUES ('{system}', '{uarch}', '{name}', '{version}')"
        )
        (number,) = connection.execute(
            f"SELECT version_id FROM uenv WHERE system = '{system}' AND uarch = '{uarch}' "
            f"AND name = '{name}' AND version = '{version}'"
        ).fetchone()
        there = connection.execute(
            f"SELECT tag FROM tags WHERE version_id = '{number}' AND tag = '{tag}'"
        ).fetchone()
        connection.execute(
            f"UPDATE tags SET sha256 = '{digest}' WHERE version_id = {number} AND tag = '{tag}'"
            if there
            else f"INSERT INTO tags (version_id, tag, sha256) VALUES ('{number}', '{tag}', '{digest}')"
        )
        connection.execute("COMMIT")
    finally:
        connection.close()


def remove(folder: Path, row: Row) -> None:
    """Do what `uenv image rm LABEL` does to the index where the image has further labels."""
    system, uarch, name, version, tag, digest, *_ = row
    connection = connect(folder)
    try:
        for statement in (
            "PRAGMA foreign_keys = ON",
            "BEGIN",
            (
                f"DELETE FROM tags WHERE sha256='{digest}' AND tag='{tag}' AND version_id IN "
                f"(SELECT version_id FROM uenv WHERE system='{system}' AND uarch='{uarch}' "
                f"AND name='{name}' AND version='{version}')"
            ),
            "COMMIT",
        ):
            connection.execute(statement)
    finally:
        connection.close()


def listed(folder: Path) -> list[dict[str, str | int]]:
    """Return what `uenv image ls` reads; raises `ValueError` for a date at which it ends."""
    connection = connect(folder)
    connection.row_factory = sqlite3.Row
    try:
        rows = [dict(row) for row in connection.execute("SELECT * FROM records")]
    finally:
        connection.close()
    for row in rows:
        if not reads_date(row["date"]):
            raise ValueError(row["date"])
    return rows


_DATE = re.compile(r"(\d+)-\d+-\d+(?:[ T]\d+:\d+:\d+(?:\..*)?)?")


def reads_date(date: str) -> bool:
    """Return whether uenv reads a date, of an index or of a listing; at others it gives up."""
    match = _DATE.fullmatch(date)
    return match is not None and 2022 <= int(match[1]) <= 2050
