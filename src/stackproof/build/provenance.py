"""What an image holds of its build, its lock above all, to a provenance of SLSA.

Locks of all engines are made of the same few things (`build/stack.py`): files with digests, and
clones at commits; a lock of Spack has solved packages as well. These are looked for, wherever they
stand. It is made from what the image says, so it is as true as the image, and as whoever signs it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import field

from stackproof.core import ids
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.image.model import Image
from stackproof.share.attested.provenance import Material, Provenance


class BuildRecord(Value):
    """The texts of an image's folder `meta` that say how it was built; `recipe` by file name."""

    lock: bytes
    configure: bytes
    bill: bytes
    recipe: Mapping[str, bytes] = field(default_factory=dict)


def provenance_of(image: Image, record: BuildRecord, *, builder: str) -> Provenance:
    """Return the provenance of an image; `builder` is an address.

    Raises `StackproofError` (IMAGE_NO_META) for records that cannot be read.
    """
    lock, configure, bill = (
        _object(content, name, image.path)
        for name, content in (
            ("lock.json", record.lock), ("configure.json", record.configure),
            ("bom.cdx.json", record.bill),
        )
    )  # fmt: skip
    urls = {sha256: purl for part in _list(bill.get("components")) for sha256, purl in _urls(part)}
    ours = configure.get("stackproof")
    version = ours.get("version") if isinstance(ours, dict) else None
    return Provenance(
        builder=builder,
        versions={"stackproof": version} if isinstance(version, str) else {},
        recipe={name: _text(content) for name, content in sorted(record.recipe.items())},
        inside={
            **{key: value for key, value in sorted(configure.items()) if key != "stackproof"},
            "stack": image.stack_id,
            "lock": image.lock_digest,
        },
        materials=tuple({(m.uri, m.sha256): m for m in _materials(lock, urls)}.values()),
        bill=ids.digest(record.bill),
    )


def _text(content: bytes) -> str:
    """Return a file of a recipe; of one that is no text, such as a patch, its digest."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"sha256:{ids.digest(content)}"


def _urls(part: object) -> Iterator[tuple[str, str]]:
    """Yield the digests of a part of a bill of materials, with its package URL."""
    if isinstance(part, dict) and isinstance(purl := part.get("purl"), str):
        for one in _list(part.get("hashes")):
            for sha256 in _texts(one, "content") or []:
                yield sha256, purl


def _materials(lock: object, urls: Mapping[str, str]) -> Iterator[Material]:
    """Yield what a lock names; `urls` are package URLs by digest."""
    left = [lock]
    while left:
        one = left.pop()
        found = None
        if isinstance(one, dict):
            found = _file(one, urls) or _source(one) or _clone(one) or _solved(one)
        if found is not None:
            yield found
        elif isinstance(one, dict | list):
            left += reversed(list(one.values()) if isinstance(one, dict) else one)


def _file(data: Mapping[str, Any], urls: Mapping[str, str]) -> Material | None:
    """Return a file of an index, or of a vendor: one digest, and a package URL in the bill."""
    texts = _texts(data, "filename", "sha256", "name", "version")
    if texts is None:
        return None
    filename, sha256, name, version = texts
    uri = urls.get(sha256) or f"{_generic(name, version)}?file_name={quote(filename, safe='')}"
    return Material(name=filename, uri=uri, sha256=sha256)


def _source(data: Mapping[str, Any]) -> Material | None:
    """Return a source file: `build.stack.SourceFile`."""
    accepted = [_texts(one, "sha256", "provenance") for one in _list(data.get("accepted"))]
    texts = _texts(data, "filename")
    if texts is None or not accepted or accepted[0] is None:
        return None
    sha256, said = accepted[0]
    found = {key: value for key in ("address", "commit") if isinstance(value := data.get(key), str)}
    address, commit = found.get("address", ""), found.get("commit", "")
    package = _texts(data.get("os_package"), "name", "version", "suite")
    if commit:
        uri = f"git+{address}@{commit}"
    elif package is not None:
        name, version, suite = (quote(text, safe="") for text in package)
        uri = f"pkg:deb/debian/{name}@{version}?arch=source&distro={suite}"
    else:
        uri = address or f"pkg:generic/{quote(texts[0], safe='')}"
    facts = {"digest-from": said} if said else {}
    return Material(name=texts[0], uri=uri, sha256=sha256, commit=commit, facts=facts)


def _clone(data: Mapping[str, Any]) -> Material | None:
    """Return a repository at a commit: Spack, and its repositories of packages."""
    texts = _texts(data, "name", "url", "commit")
    if texts is None:
        return None
    name, url, commit = texts
    return Material(name=name, uri=f"git+{url}@{commit}", commit=commit)


def _solved(data: Mapping[str, Any]) -> Material | None:
    """Return a package of Spack's solution; its source is decided by the repository's commit."""
    texts = _texts(data, "name", "version", "hash")
    if texts is None:
        return None
    name, version, code = texts
    built = data.get("package_hash")
    facts = {"spack-hash": code} | ({"spack-package-hash": built} if isinstance(built, str) else {})
    return Material(name=name, uri=f"{_generic(name, version)}?spack_hash={code}", facts=facts)


def _generic(name: str, version: str) -> str:
    return f"pkg:generic/{quote(name, safe='')}@{quote(version, safe='')}"


def _texts(data: object, *keys: str) -> list[str] | None:
    """Return the texts of an object; None where one of them is not there, or no text."""
    found = [data.get(key) for key in keys] if isinstance(data, dict) else []
    texts = [one for one in found if isinstance(one, str)]
    return texts if len(texts) == len(keys) else None


def _list(data: object) -> list[Any]:
    return data if isinstance(data, list) else []


def _object(content: bytes, name: str, file: str) -> dict[str, Any]:
    try:
        data: Any = json.loads(content)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise no_record(file, f"its `meta/{name}` is no object of JSON")
    return data


def no_record(file: str, why: str) -> StackproofError:
    """Return the error for an image that does not say from what it was built."""
    return fail(
        Reason.IMAGE_NO_META,
        f"no provenance can be made of image `{file}`: {why}",
        where=Location(file=file),
        hint="images that `stackproof build` makes have their lock and bill of materials inside; "
        "attach files of your own by their names",
    )
