"""Labels of images, `name/version:tag@system%uarch`: text to parts, and which records they mean.

    label  = [ name ], [ "/", version ], [ ":", tag ], { "@", ( system | "*" ) | "%", uarch } ;
    name   = start, { start | "-" | "." } ;         (* so are version, tag, system and uarch *)
    start  = letter | digit | "_" ;

`@` and `%` come in any order, each once. The grammar is that of uenv 9 (`parse_uenv_label` in
src/uenv/parse.cpp), and so is what a label means: a part that is left out is any, but for the
system, which is then that of `CLUSTER_NAME` where this is set; `@*` is any system. 16 or 64 hex
digits are also tried as the beginning of a digest, or all of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter

from stackproof.core.errors import Reason, StackproofError, did_you_mean, fail
from stackproof.core.numbers import disk_text
from stackproof.core.value import Value, replace

ANY = "*"
system_of = attrgetter("system")
"""The system of a label."""
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MOST_CHARACTERS = 128
"""The longest part of a label: the longest tag that a registry takes (OCI distribution 1.1)."""
_SIGNS = {"/": "version", ":": "tag", "@": "system", "%": "uarch"}
_ID = 16
_FIRST, _LAST = "2022-01-01 00:00:00", "2050-12-31 23:59:59"
"""The dates that uenv reads. An image that holds no time, so that it is the same whenever it is
built, has the first."""
_DIGEST = 64


_WHOLE = re.compile(rf"{_PART.pattern}(?:\n{_PART.pattern}){{4}}")


def is_whole(*parts: str) -> bool:
    """Return true for the five parts of a label that an index may have.

    An index may be somebody else's: what is read from it reaches shells by completion.
    """
    return _WHOLE.fullmatch("\n".join(parts)) is not None


class Label(Value, order=True):
    """The parts of a label; one that is left out is empty. In order part by part, as uenv's are."""

    name: str = ""
    version: str = ""
    tag: str = ""
    system: str = ""
    uarch: str = ""

    def __str__(self) -> str:
        parts = ((sign, getattr(self, part)) for sign, part in _SIGNS.items())
        return self.name + "".join(f"{sign}{text}" for sign, text in parts if text)

    @property
    def missing(self) -> tuple[str, ...]:
        """The parts that are left out, all of which a label of the repository has."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) in {"", ANY})

    @property
    def short(self) -> str:
        """The label without system and microarchitecture."""
        return str(replace(self, system="", uarch=""))


class RemoteLabel(Value):
    """A label in a namespace of a registry."""

    namespace: str
    label: Label

    def __str__(self) -> str:
        return f"{self.namespace}::{self.label}"

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of the repository; those that are left out are empty."""
        label = self.label
        return (self.namespace, system_of(label), label.uarch, label.name, label.version)


class LabelRecord(Value):
    """A label of a repository or a registry, and the image that it names.

    `date` is `YYYY-MM-DD HH:MM:SS`, `size` is in bytes; `digest` is the SHA-256 of the file, and of
    an image that uenv pulled what its registry's list calls so. `folder` is that of the image. One
    of a registry has a namespace, there `folder` is its repository, and `manifest` the digest of
    its manifest, empty where not known.
    """

    label: Label
    date: str
    size: int
    digest: str
    folder: str
    namespace: str = ""
    manifest: str = ""

    @property
    def remote(self) -> RemoteLabel:
        """Its label with its namespace."""
        return RemoteLabel(namespace=self.namespace, label=self.label)

    @property
    def digests(self) -> frozenset[str]:
        """The digests by which a list may mean it, without their algorithm."""
        return frozenset({self.digest, self.manifest.partition(":")[2]} - {""})

    @property
    def id(self) -> str:
        """The beginning of the digest, by which an image can be called."""
        return self.digest[:_ID]

    @property
    def file(self) -> str:
        """The path of the image."""
        return f"{self.folder}/{IMAGE}"


IMAGE = "store.squashfs"
"""What the file of each image is called in a repository."""


def readable_date(date: str) -> str:
    """Return the nearest of the dates that uenv reads, those of 2022 to 2050.

    Where one image has another date uenv ends, or lists none at all.
    """
    return min(max(date, _FIRST), _LAST)


def parse(text: str) -> Label:
    """Return the parts of a label; raises `StackproofError` (USAGE), which shows the place."""
    found: dict[str, str] = {}
    at, part, allowed = 0, "name", ":/@%"
    if text[:1] in _SIGNS:
        part, at = _SIGNS[text[0]], 1
    while True:
        match = _PART.match(text, at)
        word = match[0] if match else ANY if part == "system" and text[at : at + 1] == ANY else ""
        if not word:
            raise _wrong(text, at, f"a {part} begins with a letter, a digit or `_`")
        if len(word) > _MOST_CHARACTERS:
            raise _wrong(text, at, f"a {part} has at most {_MOST_CHARACTERS} characters")
        found[part] = word
        at += len(word)
        if at == len(text):
            return Label(**found)
        # version before tag before the others, as uenv has them
        allowed = "".join(
            sign
            for sign, name in _SIGNS.items()
            if name not in found
            and not (sign == "/" and found.keys() - {"name"})
            and not (sign == ":" and found.keys() & {"system", "uarch"})
        )
        if text[at] not in allowed:
            hint = f"one of `{'`, `'.join(allowed)}` may come here" if allowed else "it ends here"
            raise _wrong(text, at, hint)
        part = _SIGNS[text[at]]
        at += 1


def completed(label: Label, *sources: tuple[Label, str]) -> tuple[Label, str]:
    """Return a label with system and uarch from the first source that has each, and a note on it.

    The text beside a source says why it is taken; the note is empty for a label with both. Raises
    `StackproofError` (USAGE) for a label that lacks another part.
    """
    notes = []
    given, lacking = label, label.missing
    for part in ("system", "uarch"):
        for source, why in sources if part in lacking else ():
            if part not in source.missing:
                label = replace(label, **{part: getattr(source, part)})
                notes.append(f"{part} `{getattr(label, part)}`, {why}")
                break
    if label.missing:
        raise fail(
            Reason.USAGE,
            f"the label `{given}` lacks: {', '.join(label.missing)}",
            hint="such as mpich/5.0.2:v1, or with all parts mpich/5.0.2:v1@daint%zen2",
        )
    return label, f"the label is of the {'; of the '.join(notes)}" if notes else ""


def is_part(text: str) -> bool:
    """Return true for a text that can be a part of a label."""
    return bool(_PART.fullmatch(text)) and len(text) <= _MOST_CHARACTERS


def _wrong(text: str, at: int, hint: str) -> StackproofError:
    shown = text[:200]
    return fail(
        Reason.USAGE,
        f"`{shown}` is no label: it goes wrong at character {at + 1}",
        detail=f"{shown}\n{' ' * at}^" if at < len(shown) and shown.isprintable() else None,
        hint=f"{hint}; a label is name/version:tag@system%uarch",
    )


def chosen(
    records: Sequence[LabelRecord], word: str, *, system: str = ""
) -> tuple[LabelRecord, ...]:
    """Return the records that a label, an id or a digest means, the newest first.

    `system` is the one to take where the label names none. Raises `StackproofError` (USAGE).
    """
    found = matching(records, parse(word), system=system)
    return tuple(sorted(found, key=lambda one: (one.date, one.label), reverse=True))


def matching(
    records: Sequence[LabelRecord], label: Label, *, system: str = "", beginning: bool = False
) -> tuple[LabelRecord, ...]:
    """Return the records that have the parts of a label, else those of an id or a digest.

    These are of any system unless one is said. With `beginning` the name may go on, and capitals
    are no others: so uenv lists.
    """
    low = label.name.lower()

    def named(name: str) -> bool:
        return name.lower().startswith(low) if beginning else label.name in {"", name}

    here = _with_parts(records, replace(label, system=system_of(label) or system))
    found = tuple(one for one in here if named(one.label.name))
    if found or not may_be_digest(label):
        return found
    return tuple(one for one in _with_parts(records, label) if label.name in {one.id, one.digest})


def may_be_digest(label: Label) -> bool:
    """Return true for a label whose name can be an id or a digest."""
    return not label.version and not label.tag and len(label.name) in {_ID, _DIGEST}


def _with_parts(records: Sequence[LabelRecord], label: Label) -> tuple[LabelRecord, ...]:
    """Return the records that have what stands behind the name of a label."""
    wanted = replace(label, name="", system=system_of(label).replace(ANY, ""))
    parts = [(name, text) for name in wanted.__struct_fields__ if (text := getattr(wanted, name))]
    return tuple(
        record
        for record in records
        if all(getattr(record.label, part) == text for part, text in parts)
    )


def only(records: Sequence[LabelRecord], word: str, *, system: str = "") -> LabelRecord | None:
    """Return the record that a word means, None for none; raises LABEL_AMBIGUOUS for several.

    Labels of one image are no ambiguity: the newest stands for it.
    """
    found = chosen(records, word, system=system)
    if len({record.digest for record in found}) <= 1:
        return found[0] if found else None
    raise fail(
        Reason.LABEL_AMBIGUOUS,
        f"`{word}` means {len({record.digest for record in found})} images",
        detail=table(found),
        hint=f"say more of it, as `{found[0].label}`, or its id, `{found[0].id}`",
    )


def table(records: Sequence[LabelRecord], names: Sequence[str] = ()) -> str:
    """Return a line for each record: label, or the name it is given, id, size, date."""
    shown = names or [str(one.label) for one in records]
    width = max(map(len, shown), default=0)
    return "\n".join(
        f"{name:<{width}}  {one.id}  {disk_text(one.size):>8}  {date_text(one)}"
        for name, one in zip(shown, records, strict=True)
    )


def date_text(record: LabelRecord) -> str:
    """Return when an image was made, to the minute; `-` for one that is the same at any time."""
    return "-" if record.date <= _FIRST else record.date[:16]


def guess(records: Sequence[LabelRecord], word: str, *, system: str = "") -> str:
    """Return the labels near a word that means nothing, as the beginning of a hint."""
    elsewhere = chosen(records, word, system=ANY) if is_label(word) else ()
    if elsewhere:
        there = ", ".join(f"`{one.label}`" for one in elsewhere[:3])
        return f"this is `{system}`, and it is there for others: {there}; "
    name = parse(word).name if is_label(word) else ""
    same = sorted({one.label.short for one in records if one.label.name == name})
    if same:
        return f"of `{name}` there is: {', '.join(f'`{one}`' for one in same[-5:])}; "
    names = {text for one in records for text in (one.label.short, str(one.label), one.label.name)}
    return did_you_mean(word, sorted(names))


def is_label(word: str) -> bool:
    """Return True for a word that is written as a label is."""
    try:
        parse(word)
    except StackproofError:
        return False
    return True
