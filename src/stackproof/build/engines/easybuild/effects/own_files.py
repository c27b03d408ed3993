"""Files that a user's words name for a chain: digested, and kept in the cache of downloads."""

from __future__ import annotations

import os
import re

from stackproof.build.effects.workspace import download_path
from stackproof.build.engines.easybuild import swap as easybuild_swap
from stackproof.build.engines.easybuild.effects import catalogue, sources
from stackproof.build.swap import RecipeOverlay, SwapKind, SwapWord
from stackproof.core.document import Document
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError

_ADDRESS = re.compile(r"https?://[^\s]+")
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")
_PATCH = ".patch"


def swap(document: Document, word: SwapWord) -> RecipeOverlay:
    """See `Swapper`; a source at an address is downloaded, as its digest is part of the recipe."""
    known = catalogue.load()
    easybuild_swap.swap(document, word, known)  # what is wrong with the word, before a download
    file = None if word.kind is SwapKind.WITH else _file(word)
    return easybuild_swap.swap(document, word, known, file)


def _file(word: SwapWord) -> dict[str, str]:
    """Return what a recipe says of a file; it is in the cache then, by its digest."""
    name = os.path.basename(word.value)
    address = _ADDRESS.fullmatch(word.value)
    if not _NAME.fullmatch(name) or (word.kind is SwapKind.PATCH and not name.endswith(_PATCH)):
        wanted = f"end with `{_PATCH}`, and " if word.kind is SwapKind.PATCH else ""
        hint = f"it must {wanted}have letters, digits and `.`, `+`, `_`, `-`"
        message = f"`{name}` cannot be the name of the file"
        raise StackproofError(word.problem(message, hint, reason=Reason.INVALID_VALUE))
    if address:
        if word.kind is SwapKind.PATCH:
            hint = "download it, look at it, and name the file"
            raise StackproofError(word.problem("a patch is a file here, no address", hint))
        return {"filename": name, "sha256": sources.fetched(word.value), "address": word.value}
    if not os.path.isfile(word.value):
        message = f"there is no file `{word.value}`"
        raise StackproofError(word.problem(message, reason=Reason.FILE_MISSING))
    digest = files.sha256(word.value)
    files.copy(word.value, download_path(digest, name))
    return {"filename": name, "sha256": digest}
