"""`stackproof site`: show, check or probe what a machine offers."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from stackproof.core import noun
from stackproof.core.cli import streams
from stackproof.core.effects import shipped
from stackproof.site.capture import read_capture
from stackproof.site.effects import missing, probe
from stackproof.site.effects.missing import MissingOptions
from stackproof.site.model import (
    Site,
    SourceKind,
    is_without_sources,
    leaves,
    parse_site,
    to_document,
)
from stackproof.site.options import (
    SiteCheckOptions,
    SiteListOptions,
    SiteProbeOptions,
    SiteShowOptions,
)

Row = tuple[str, ...]
_WIDTH = 100
_LEAST = 20
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def run_probe(asked: SiteProbeOptions) -> int:
    """Print what this machine offers, or what a capture of another one shows."""
    if asked.missing:
        return _show_missing(asked.missing, asked)
    taken = probe.captured(asked.capture_file)
    site = read_capture(taken, name=probe.LOCAL)
    if asked.capture:
        print(noun.to_json(taken), end="")
    elif asked.json:
        print(noun.to_json(site), end="")
    elif asked.yaml:
        _print_yaml(to_document(site))
    else:
        _print_site(site)
    return 0


def run_list(asked: SiteListOptions) -> int:
    """Print the sites that come with stackproof."""
    sites = [parse_site(probe.read_site_file(name)) for name in shipped.names("sites")]
    if asked.json:
        print(json.dumps([_summary(site) for site in sites], indent=1, ensure_ascii=False))
    else:
        rows = [tuple(str(value) for value in _summary(site).values()) for site in sites]
        _print_table(("SITE", "ARCHITECTURE", "FABRIC", "DESCRIPTION"), rows)
    return 0


def run_show(asked: SiteShowOptions) -> int:
    """Print the facts of one site and their sources."""
    if asked.yaml:
        print(probe.read_text(asked.site), end="")
        return 0
    site = probe.load_site(asked.site)
    if asked.json:
        print(noun.to_json(site), end="")
    else:
        _print_site(site)
    return 0


def run_check(asked: SiteCheckOptions) -> int:
    """Raise with every problem of a site file, or say that there is none."""
    document, own = probe.read_site_file(asked.site), probe.own_source(asked.site)
    site = parse_site(document, own=own)
    if own is not None and is_without_sources(document.data):
        print(
            f"note: {asked.site}: it names no sources, so that its facts are said to be from "
            f"{own.title}, {own.date}; `sources` and `facts` say where they are really from",
            file=sys.stderr,
        )
    print(
        f"{asked.site}: valid ({len(leaves(site))} facts, {len(site.sources)} sources)",
        file=sys.stderr,
    )
    return 0


def _show_missing(site_file: str, asked: SiteProbeOptions) -> int:
    """Print what a site file does not state, to be pasted; what is known besides is no data."""
    found = missing.find_missing(MissingOptions(
        site_file=site_file, part=asked.part, partition=asked.partition,
        capture_file=asked.capture_file,
    ))  # fmt: skip
    if asked.json:
        print(noun.to_json(found), end="")
        return 0
    host = found.host or "another machine"
    if found.lines:
        place = found.file
        if place != site_file:
            place += f", a copy of {shipped.find('sites', site_file)}"
        print(f"# asked on {host}; paste these lines into {place}")
        print(found.lines, end="")
    else:
        print(f"{found.file}: states all that was found on {host}", file=sys.stderr)
    for other in found.differs:
        stated, answer = _value(other.stated), _value(other.asked)
        line = f"differs: `{other.fact}` is `{stated}` there, and the machine says `{answer}`"
        print(line, file=sys.stderr)
    for line in found.not_found:
        print(f"not found: {line}", file=sys.stderr)
    if found.not_found:
        print(
            "each needs a source, in `facts` and `sources`: docs/how-to/describe-a-site.md",
            file=sys.stderr,
        )
    print(f"next: {found.next}", file=sys.stderr)
    return 0


def _summary(site: Site) -> dict[str, Any]:
    return {
        "name": site.name,
        "architecture": " ".join(site.architectures),
        "fabric": site.fabric.type or "",
        "description": site.description,
    }


def _print_site(site: Site) -> None:
    print(site.name + (f": {site.description}" if site.description else ""))
    rows = [(path, _value(value), _origin(site, path)) for path, value in leaves(site).items()]
    if rows:
        _print_table(("FACT", "VALUE", "SOURCE"), rows)
    documents = {n: s for n, s in site.sources.items() if s.kind is SourceKind.DOCUMENT}
    if documents:
        print()
        rows = []
        for name, source in documents.items():
            rows.append((name, source.date or "", source.title))
            rows += [("", "", source.url)] if source.url else []
        _print_table(("SOURCE", "DATE", "TITLE, URL"), rows)


def _origin(site: Site, path: str) -> str:
    """Return the ids of the documents, or the files and commands, that a fact is from."""
    ids = {source: name for name, source in site.sources.items()}
    return ", ".join(
        ids[source]
        if source.kind is SourceKind.DOCUMENT
        else f"{source.title} on {source.host}, {(source.date or '')[:10]}".rstrip(", ")
        if source.host
        else source.title
        for source in site.sources_of(path)
    )


def _value(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_value(item) for item in value)
        case dict():
            return " ".join(f"{key}: {_value(item)}" for key, item in value.items())
        case float():
            return f"{value:g}" if value != int(value) else str(int(value))
        case _:
            return str(value)


def _print_yaml(data: dict[str, Any]) -> None:
    import yaml  # noqa: PLC0415 - only for this form

    print(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100), end="")


def _print_table(heads: Row, rows: Sequence[Row]) -> None:
    """Print rows under their heads, no wider than the terminal, with bold heads on one."""
    if not sys.stdout.isatty():
        for line in _lines(heads, rows):
            print(line)
        return
    first, *others = _lines(heads, rows, shutil.get_terminal_size((_WIDTH, 0)).columns)
    if os.environ.get("NO_COLOR"):
        print(first)
    else:
        streams.unguarded(sys.stdout).write(f"{_BOLD}{first}{_PLAIN}\n")
    for line in others:
        print(line)


def _lines(heads: Row, rows: Sequence[Row], columns: int | None = None) -> list[str]:
    """Return rows under their heads, all in lines of as many columns as a terminal has.

    Without a terminal in lines of `_WIDTH`, where a longer word stays whole for who searches it.
    """
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    most = max(range(len(widths)), key=widths.__getitem__)
    if columns is None:
        least = [_LEAST if i == most else width for i, width in enumerate(widths)]
    else:
        least = [len(head) for head in heads]
    room = (columns or _WIDTH) - 2 * (len(widths) - 1)
    while sum(widths) > room:
        above = [i for i, width in enumerate(widths) if width > least[i]]
        if not above:
            break
        widths[max(above, key=widths.__getitem__)] -= 1
    lines = []
    for row in (heads, *rows):
        cells = [
            textwrap.wrap(cell, width, break_long_words=columns is not None, break_on_hyphens=False)
            or [""]
            for cell, width in zip(row, widths, strict=True)
        ]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            lines.append("  ".join(padded).rstrip())
    return lines
