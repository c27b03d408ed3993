"""The tables of a repository's index as uenv 9 and stackproof make them, and whether they are."""

from __future__ import annotations

from collections.abc import Iterable

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
