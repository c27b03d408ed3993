"""A model of glibc's dynamic loader: which files a program loads, and what binds to what.

Pure: it sees a file system through a `FileView` and never runs anything.
"""

from stackproof.linking.loader.binding import (
    MissingNode,
    Scope,
    Unbound,
    missing_nodes,
    unbound,
    unbound_of,
    unversioned_providers,
)
from stackproof.linking.loader.closure import Closure, Edge, load_program
from stackproof.linking.loader.ldcache import CacheEntry, File, FileView, elf_at
from stackproof.linking.loader.machine import Interpreter, Machine, level_of
from stackproof.linking.loader.search import LoaderSettings, MappedObject, settings_of

__all__ = [
    "CacheEntry",
    "Closure",
    "Edge",
    "File",
    "FileView",
    "Interpreter",
    "LoaderSettings",
    "Machine",
    "MappedObject",
    "MissingNode",
    "Scope",
    "Unbound",
    "elf_at",
    "level_of",
    "load_program",
    "missing_nodes",
    "settings_of",
    "unbound",
    "unbound_of",
    "unversioned_providers",
]
