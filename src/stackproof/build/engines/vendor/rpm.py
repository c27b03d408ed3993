"""The bytes that an RPM begins with to what it says of itself: names, files, digests, scripts.

Format: lead, signature and header of "RPM V4 Package format"
(https://rpm-software-management.github.io/rpm/manual/format_v4.html), the tags of rpmtag.h. Nothing
is run, and nothing is believed without bounds. What is signed with a key is not looked at: who has
the vendor's key asks `rpm --checksig`.
"""

from __future__ import annotations

import hashlib
import posixpath
import stat
import struct
from collections.abc import Mapping, Sequence

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.linking.elf.layout import ReadableFile

_LEAD = 96
_LEAD_MAGIC, _HEADER_MAGIC = b"\xed\xab\xee\xdb", b"\x8e\xad\xe8\x01"
_SIGNATURE_SHA256 = 273
_NAME, _VERSION, _RELEASE, _EPOCH, _VENDOR, _LICENCE = 1000, 1001, 1002, 1003, 1011, 1014
_ARCHITECTURE, _SIZES, _MODES, _DIGESTS, _LINKS, _FLAGS = 1022, 1028, 1030, 1035, 1036, 1037
_SOURCE = 1106  # only source packages have it
_FOLDER_OF, _BASENAMES, _FOLDERS = 1116, 1117, 1118
_FORMAT, _COMPRESSOR = 1124, 1125
_LONG_SIZES, _DIGEST_KIND, _PAYLOAD_DIGESTS, _PAYLOAD_KIND = 5008, 5011, 5092, 5093
_SCRIPTS = {
    1023: "%pre", 1024: "%post", 1025: "%preun", 1026: "%postun", 1065: "%trigger",
    1151: "%pretrans", 1152: "%posttrans",
}  # fmt: skip
_GHOST = 64
_SHA256 = 8
"""PGPHASHALGO_SHA256 of rpmcrypto.h."""
# Letters of struct, by type: int8 and char, int16, int32, int64.
_INTEGERS = {1: "B", 2: "B", 3: "H", 4: "I", 5: "Q"}
_TEXT = 6
_TEXTS = {_TEXT, 8, 9}
"""One text, a list of texts, and one for each language of which the first is English."""
_INTRO = _ENTRY = 16


class PackagedFile(Value):
    """A file, folder or link of an RPM; `path` is absolute, `mode` as in stat(2).

    `sha256` is empty where the RPM has digests of another kind, or none.
    """

    path: str
    mode: int
    size: int
    sha256: str = ""
    link: str = ""

    @property
    def regular(self) -> bool:
        """Return whether it is a regular file."""
        return stat.S_ISREG(self.mode)


class Rpm(Value):
    """What an RPM says of itself.

    `payload` is where its archive begins, in bytes; `payload_sha256` its digest as it is packed,
    empty where rpm was too old to write one. `scripts` are names of scripts that rpm would run.
    """

    file: str
    name: str
    version: str
    release: str
    architecture: str
    epoch: int = 0
    vendor: str = ""
    licence: str = ""
    compressor: str = ""
    payload: int = 0
    payload_sha256: str = ""
    scripts: tuple[str, ...] = ()
    files: tuple[PackagedFile, ...] = ()

    @property
    def nevra(self) -> str:
        """Return name, epoch, version, release and architecture as rpm writes them."""
        epoch = f"{self.epoch}:" if self.epoch else ""
        return f"{self.name}-{epoch}{self.version}-{self.release}.{self.architecture}"


def parse(source: ReadableFile) -> Rpm:
    """Return what an RPM says of itself.

    Raises `StackproofError`: INVALID_VALUE for what is no RPM, is damaged or cut off; TOO_LARGE;
    UNSUPPORTED for source packages and archives of other kinds.
    """
    lead = source.read(0, _LEAD)
    if lead[:4] != _LEAD_MAGIC:
        raise damaged(source.name, "it does not begin as an RPM")
    signature = _header(source, _LEAD)
    start = signature.end + -signature.end % 8
    texts = _header(source, start)
    said = signature.text(_SIGNATURE_SHA256)
    found = hashlib.sha256(source.read(start, texts.end - start)).hexdigest()
    if said and said != found:
        raise damaged(source.name, "its header has another digest than stands before it")
    if texts.end >= source.size:
        raise damaged(source.name, "it ends before its files")
    if _SOURCE in texts.index:
        raise _unsupported(source.name, "it is a source package")
    if texts.text(_FORMAT, "cpio") != "cpio":
        raise _unsupported(source.name, f"its files are a `{texts.text(_FORMAT)}` archive")
    digests = texts.texts(_PAYLOAD_DIGESTS)
    known = texts.number(_PAYLOAD_KIND, 0) == _SHA256 and digests
    return Rpm(
        file=posixpath.basename(source.name),
        name=texts.needed(_NAME),
        version=texts.needed(_VERSION),
        release=texts.needed(_RELEASE),
        architecture=texts.needed(_ARCHITECTURE),
        epoch=texts.number(_EPOCH, 0),
        vendor=texts.text(_VENDOR),
        licence=texts.text(_LICENCE),
        compressor=texts.text(_COMPRESSOR, "gzip"),
        payload=texts.end,
        payload_sha256=digests[0] if known else "",
        scripts=tuple(name for tag, name in _SCRIPTS.items() if tag in texts.index),
        files=_files(texts),
    )


def _header(source: ReadableFile, start: int) -> _Tags:
    """Return the tags of the header at a place of a file."""
    intro = source.read(start, _INTRO)
    if len(intro) < _INTRO or intro[:4] != _HEADER_MAGIC:
        raise damaged(source.name, f"there is no header at byte {start}")
    count, size = struct.unpack(">II", intro[8:])
    if count > limits.RPM_HEADER.count or size > limits.RPM_HEADER.bytes:
        raise _too_large(source.name, f"a header of {count} entries and {size} bytes")
    index = source.read(start + _INTRO, _ENTRY * count)
    store = source.read(start + _INTRO + _ENTRY * count, size)
    if len(index) < _ENTRY * count or len(store) < size:
        raise damaged(source.name, "it ends within its header")
    places = {
        tag: (kind, offset, items)
        for tag, kind, offset, items in struct.iter_unpack(">IIII", index)
    }
    return _Tags(source.name, places, store, start + _INTRO + _ENTRY * count + size)


class _Tags:
    """Reads values of a header as they are wanted; what is of another type is damage."""

    def __init__(
        self, name: str, index: Mapping[int, tuple[int, int, int]], store: bytes, end: int
    ) -> None:
        self.name = name
        self.index = index
        self.end = end
        self._store = store

    def _values(self, tag: int) -> Sequence[int | str]:
        if tag not in self.index:
            return ()
        kind, offset, items = self.index[tag]
        if items > limits.RPM_FILES.count:
            raise _too_large(self.name, f"{items} values in its entry {tag}")
        if kind in _INTEGERS:
            form = f">{items}{_INTEGERS[kind]}"
            content = self._store[offset : offset + struct.calcsize(form)]
            if len(content) < struct.calcsize(form):
                raise damaged(self.name, f"its entry {tag} is outside of its header")
            return struct.unpack(form, content)
        return self._words(tag) if kind in _TEXTS else ()

    def _words(self, tag: int) -> tuple[str, ...]:
        kind, offset, items = self.index[tag]
        words = []
        for _ in range(1 if kind == _TEXT else items):
            end = self._store.find(b"\0", offset)
            if end < 0:
                raise damaged(self.name, f"its entry {tag} has no end")
            words.append(self._store[offset:end].decode("utf-8", "surrogateescape"))
            offset = end + 1
        return tuple(words)

    def texts(self, tag: int) -> tuple[str, ...]:
        found = self._values(tag)
        if not all(isinstance(one, str) for one in found):
            raise damaged(self.name, f"its entry {tag} is no text")
        return tuple(map(str, found))

    def text(self, tag: int, default: str = "") -> str:
        return next(iter(self.texts(tag)), default)

    def needed(self, tag: int) -> str:
        found = self.text(tag)
        if not found or not all(one.isalnum() or one in "._+~^-" for one in found):
            raise damaged(self.name, f"its entry {tag} is no plain word")
        return found

    def numbers(self, tag: int) -> tuple[int, ...]:
        found = self._values(tag)
        if not all(isinstance(one, int) for one in found):
            raise damaged(self.name, f"its entry {tag} is no number")
        return tuple(map(int, found))

    def number(self, tag: int, default: int) -> int:
        return next(iter(self.numbers(tag)), default)


def _files(tags: _Tags) -> tuple[PackagedFile, ...]:
    names, folders, places = (
        tags.texts(_BASENAMES), tags.texts(_FOLDERS), tags.numbers(_FOLDER_OF)
    )  # fmt: skip
    modes, flags = tags.numbers(_MODES), tags.numbers(_FLAGS)
    sizes = tags.numbers(_LONG_SIZES) or tags.numbers(_SIZES)
    digests, links = tags.texts(_DIGESTS), tags.texts(_LINKS)
    count = len(names)
    columns = (places, modes, sizes, digests, links, flags)
    if any(len(column) != count for column in columns) or any(
        place >= len(folders) for place in places
    ):
        raise damaged(tags.name, "its list of files does not fit together")
    sha256 = tags.number(_DIGEST_KIND, 1) == _SHA256
    return tuple(
        PackagedFile(
            path=f"{folders[places[at]]}{names[at]}",
            mode=modes[at],
            size=sizes[at],
            sha256=digests[at] if sha256 and stat.S_ISREG(modes[at]) else "",
            link=links[at] if stat.S_ISLNK(modes[at]) else "",
        )
        for at in range(count)
        if not flags[at] & _GHOST
    )


def damaged(name: str, message: str) -> StackproofError:
    """Return the error for a file whose parts do not fit together."""
    hint = "copy it again; `rpm -K FILE` must find its digests OK"
    return _refused(name, f"is damaged or cut off: {message}", hint, Reason.INVALID_VALUE)


def _unsupported(name: str, message: str) -> StackproofError:
    hint = "take it out of the folder"
    return _refused(name, f"cannot be used: {message}", hint, Reason.UNSUPPORTED)


def _too_large(name: str, what: str) -> StackproofError:
    return _refused(name, f"has {what}", "check that this is the file you meant", Reason.TOO_LARGE)


def _refused(name: str, what: str, hint: str, reason: Reason) -> StackproofError:
    return fail(reason, f"the RPM {what}", where=Location(file=name), hint=hint)
