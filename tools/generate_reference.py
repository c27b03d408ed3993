"""Write docs/reference, docs/man and docs/completion from the code.

`--check` writes nothing and exits with 1 when a page is not what would be written. The text does
not depend on the version of Python, so argparse's own formatting is not used.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stackproof.cli.commandtree import Argument, DocumentedCommand

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "stackproof"
REFERENCE = ROOT / "docs" / "reference"
MAN = ROOT / "docs" / "man"
COMPLETION = ROOT / "docs" / "completion"

# Every variable that the code reads must be here, and nothing else.
ENVIRONMENT = {
    "NO_COLOR": "Set to anything: no colour in the terminal.",
    "STACKPROOF_CACHE": "Folder for downloads and builds. Left out: `$XDG_CACHE_HOME/stackproof`, "
    "then `~/.cache/stackproof`. Everything in it can be made again.",
    "STACKPROOF_DEBIAN_ARCHIVE": "Address of an archive of Debian (`http://HOST/debian`), for "
    "recipes whose sources are Debian's (`sources: [debian-trixie]`) on other systems. Files from "
    "there are taken by their digests, as all sources are.",
    "STACKPROOF_FWD_": "In front of a name: `stackproof-mount` gives the variable to its command, "
    "as for `LD_LIBRARY_PATH`, which the C library takes from a program with rights.",
    "STACKPROOF_MOUNT_HELPER": "The `stackproof-mount` that `run` and `start` use, in the place of "
    "the one on `PATH`; empty for none.",
    "STACKPROOF_MOUNTED": "Set by `run` and `start` for the command: the images that are mounted.",
    "STACKPROOF_MOUNTS": "Set by `bench` and `inject prove` for the launchers that they start: "
    "what the agent, which stands in the place of ssh, mounts on a node before ranks start there.",
    "STACKPROOF_MUST_WORK": "Tests only: what may not be missing on this machine (`tests/need.py` "
    "has the names; `all` is every one).",
    "STACKPROOF_PACK_EXPLAIN": "Set to anything: a program of a pack says by which loader it is "
    "started, and why.",
    "STACKPROOF_PUBLIC_CASES": "Tests only: a folder of cases of public reports for `doctor`, kept "
    "outside of the project (docs/how-to/add-a-case.md).",
    "STACKPROOF_RACE_S": "Tests only: seconds for which an attacker races the mount helper (left "
    "out: 2; `nox -s races` says 60).",
    "STACKPROOF_FUZZ_CASES": "Tests only: answers of a registry that are changed, one field each "
    "(left out: 250).",
    "STACKPROOF_TESTS_CACHE": "Tests only: the cache that files of the battery share which run one "
    "after another (left out: each run of tests has its own).",
    "STACKPROOF_LISTING": "A service of the site that lists the images of its registry, as uenv "
    "asks one.",
    "STACKPROOF_REGISTRY": "The registry of images, and the path in it below which they are: "
    "`registry.example.org/images`.",
    "STACKPROOF_REPOSITORY": "Folders with images by label, several with colons: all are read, the "
    "first is written to. Left out: `$SCRATCH/.uenv-images`, else `~/.uenv/repo`, as for uenv.",
    "STACKPROOF_ALLOW_VARIABLES": "Variables, several with commas, that views of images may change "
    "beside the usual ones. `--allow-variable` adds to them.",
    "STACKPROOF_SHARED": "Folders, several with colons, in which several users write on purpose, "
    "as a team's repository: there, and in all below, owners and modes are not asked about. Links "
    "are followed there no more than elsewhere.",
    "STACKPROOF_SITE_HOOK": "`off`: what `inject apply --eessi-here` wrote into EESSI's hooks sets "
    "nothing, so that a module is EESSI's own. `bench` uses it for the MPI that EESSI brings.",
    "STACKPROOF_SPACK_MIRROR": "Local clones in the place of git addresses: `URL=PATH`, or a "
    "folder of clones named `<owner>+<name>`, `<owner>/<name>` or `<name>`; several with commas.",
    "STACKPROOF_UNDO": "Set with the variables of views: how to take them back when other images "
    "replace these.",
    "STACKPROOF_NO_APT": "`tools/bootstrap` only: set to anything, and apt installs nothing.",
    "STACKPROOF_NO_LOCK": "`tools/bootstrap` only: set to anything, and pip takes what the index "
    "has instead of the versions in `tools/locks`.",
}
# What the programs in C take, by names in their sources: bytes, number, of what, depth, seconds.
NATIVE_LIMITS = (
    ("`mount.conf`", "core/policy.h", "SP_POLICY_BYTES", "SP_POLICY_ROWS", "rows", "", ""),
    ("mount lists", "core/mountlist.h", "SP_MAX_LIST_BYTES", "SP_MAX_IMAGES", "images", "", ""),
    ("SquashFS: the superblock", "core/superblock.h", "SP_SUPERBLOCK_BYTES", "", "", "", ""),
    ("JSON, whatever of", "core/json.h", "", "", "", "SP_JSON_DEPTH", ""),
    ("a number in JSON", "core/json.h", "SP_JSON_NUMBER_BYTES", "", "", "", ""),
    ("plug-in: `meta/env.json`", "spank/meta.h", "META_BYTES", "", "", "", ""),
    ("plug-in: members of it", "spank/meta.c", "", "MOST_MEMBERS", "members", "", ""),
    ("plug-in: its memory", "spank/answer.c", "MEMORY_BYTES", "MOST_VIEWS", "views",
     "", ""),
    ("plug-in: programs that it asks", "spank/child.c", "COMPLAINT_BYTES", "", "", "", "TIMEOUT_S"),
    ("hook: a container's state", "hook/container.h", "SP_STATE_BYTES", "", "", "", ""),
    ("hook: its configuration", "hook/container.h", "SP_CONFIG_BYTES", "", "", "", ""),
    ("hook: manifests", "hook/manifest.h", "SP_MANIFEST_BYTES", "SP_MANIFEST_ROWS", "rows",
     "", ""),
    ("hook: ELF, pieces of a file", "hook/elfread.h", "", "SP_ELF_STEPS", "pieces", "", ""),
    ("hook: ELF, version nodes", "hook/elfread.c", "", "MOST_NODES", "nodes", "", ""),
    ("hook: ELF, the dynamic section", "hook/elfread.c", "", "MOST_DYNAMIC", "entries", "", ""),
    ("hook: ld.so.cache", "hook/ldcache.h", "SP_LDCACHE_BYTES", "", "", "", ""),
    ("links in a path", "core/walk.c", "", "MOST_LINKS", "links", "", ""),
)  # fmt: skip
# Tests and data may name others; these are read by no Python or shell code of ours.
_IN_C = re.compile(r"STACKPROOF_[A-Z]+_H$")

Row = tuple[str, ...]


def table(head: Row, rows: Sequence[Row]) -> str:
    """Return a Markdown table; cells keep to one line and their bars are escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def exit_codes() -> str:
    """Return the page of exit codes and reasons."""
    from stackproof.core.errors import ExitCode, Reason  # noqa: PLC0415 - after the page needs them

    rows = [
        (str(int(code)), code.text, _quoted(r for r in Reason if r.exit_code is code))
        for code in ExitCode
    ]
    meanings = [(f"`{r}`", str(int(r.exit_code)), r.text) for r in Reason]
    return (
        "# Exit codes and reasons\n\n"
        "Every failure has a reason, and the reason decides the exit code. With more than one\n"
        "problem the first one does.\n\n"
        + table(("code", "meaning", "reasons"), rows)
        + "\n## Reasons\n\n"
        + table(("reason", "code", "meaning"), meanings)
    )


def input_limits() -> str:
    """Return the page of what each reader takes."""
    from stackproof.core.limits import TABLE  # noqa: PLC0415 - after the page needs it

    rows = [
        (
            one.reader,
            _size(one.bytes),
            f"{one.count:,} {one.of}" if one.count else "",
            str(one.depth or ""),
            f"{one.seconds} s" if one.seconds else "",
            one.why,
        )
        for one in TABLE.values()
    ]
    return (
        "# What each reader takes at most\n\n"
        "Files come from other people and machines. Beyond these sizes a reader stops with an "
        "error\n(`too-large`, or that of a damaged file) and has neither filled the memory nor "
        "waited for ever.\nAn empty cell is no limit of that kind: another one of the row ends "
        "it. JSON may be as deep\nas Python's own readers take.\n\n"
        + table(("reader", "bytes", "number", "depth", "time", "in real files"), rows)
        + "\n## The mount helper, the plug-in for Slurm and the hook\n\n"
        + table(("reader", "bytes", "number", "depth", "time"), [*map(_native, NATIVE_LIMITS)])
    )


def _size(count: int) -> str:
    sizes = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))
    unit, size = next(pair for pair in sizes if count % pair[1] == 0)
    return f"{count // size} {unit}" if count else ""


def _native(row: Row) -> Row:
    """Return a row of the table with the numbers that stand in the source."""
    reader, file, size, count, what, depth, seconds = row
    source = (ROOT / "native" / file).read_text()

    def value(name: str) -> int:
        if not name:
            return 0
        found = re.search(rf"\b{name} = (\d+)(?: (<<|\*) (\d+))?(?: \* (\d+))?\s*[,}}\n/]", source)
        if found is None:
            raise ValueError(f"{file} says no number for {name}")
        first, sign, second, third = found.groups()
        number = int(first) << int(second) if sign == "<<" else int(first) * int(second or 1)
        return number * int(third or 1)

    return (
        reader,
        _size(value(size)),
        f"{value(count):,} {what}" if count else "",
        str(value(depth) or ""),
        f"{value(seconds)} s" if seconds else "",
    )


def commands() -> str:
    """Return the page of all verbs that exist, from their parsers."""
    from stackproof.cli import commandtree  # noqa: PLC0415 - after the page needs it

    tree = commandtree.load()
    head = (
        f"# Commands\n\n`{tree.usage}`\n\n"
        + table(("option", "meaning"), [(f"`{one.title}`", one.text) for one in tree.options])
        + "\n`stackproof help VERB` is `stackproof VERB --help`. Options are written out: none can "
        "be\nabbreviated. Data go to standard output, everything else to standard error. A verb "
        "with `--json`\nprints JSON on standard output also when it fails, as in "
        "[schema-problems.md](schema-problems.md).\nExit codes: [exit-codes.md](exit-codes.md).\n\n"
        "A file that is there is replaced by one of its own kind only (an image by an image, a "
        "report\nby a report), and never when it is an input of the command, by whatever name or "
        "link; other files\nand folders are refused (`not-replaced`), devices and pipes too. A "
        "link stays: what it leads to\nis written.\n"
    )
    text = [head]
    for group, verbs in itertools.groupby(tree.commands, key=lambda verb: verb.group):
        text += [f"## {_sentence(group).rstrip('.')}\n", *(_command(verb, 3) for verb in verbs)]
    return "\n".join(text)


def _command(command: DocumentedCommand, level: int) -> str:
    text = f"{'#' * level} {command.title}\n\n{_sentence(command.text)}\n"
    if not command.commands:
        text += f"\n`{command.usage}`\n"
    options = [one for one in command.options if "--help" not in one.names]
    positionals = () if command.commands else command.positionals
    rows = [(f"`{one.title}`", _help_of(one)) for one in (*positionals, *options)]
    if rows:
        text += "\n" + table(("argument", "meaning"), rows)
    if command.epilog:
        text += f"\n{command.epilog}\n"
    if command.examples:
        width = max(len(line) for line, _ in command.examples)
        lines = (f"    {line:<{width}}  # {words}" for line, words in command.examples)
        text += "\n" + "\n".join(lines) + "\n"
    if command.output:
        text += "\nIts output:\n\n" + "\n".join(f"    {x}".rstrip() for x in command.output) + "\n"
    return "\n".join([text, *(_command(one, level + 1) for one in command.commands)])


def _help_of(argument: Argument) -> str:
    shown = argument.choices and not argument.value.startswith("{")
    return argument.text + (f" (one of: {', '.join(argument.choices)})" if shown else "")


def _sentence(text: str | None) -> str:
    words = " ".join((text or "").split())
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")


def schema_page(kind: str) -> str:
    """Return the page of one document kind: every key with its type and description."""
    from stackproof.core import document  # noqa: PLC0415 - after the page needs it

    root = document.schema(kind)
    rows = [
        (f"`{path}`", _type_of(node, root), "yes" if required else "", node.get("description", ""))
        for path, node, required in _keys(root, root, "", ())
    ]
    head = f"# {root.get('title', kind.title())}\n\n{root.get('description', '')}\n\n"
    return head + table(("key", "type", "required", "meaning"), rows)


def _resolved(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its `$ref` followed; what stands beside the reference wins."""
    while "$ref" in node:
        target: Any = root
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def _keys(
    node: dict[str, Any], root: dict[str, Any], path: str, refs: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield the path, the schema and whether it is required of every key below `node`."""
    if "$ref" in node:
        if node["$ref"] in refs:
            return  # a form that holds itself
        refs = (*refs, node["$ref"])
    node = _resolved(node, root)
    dot = f"{path}." if path else ""
    for key, value in node.get("properties", {}).items():
        yield f"{dot}{key}", _resolved(value, root), key in node.get("required", ())
        yield from _keys(value, root, f"{dot}{key}", refs)
    named = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    for value in named:
        if isinstance(value, dict):
            yield f"{dot}NAME", _resolved(value, root), False
            yield from _keys(value, root, f"{dot}NAME", refs)
    if isinstance(node.get("items"), dict):
        yield from _keys(node["items"], root, f"{path}[]", refs)
    for choice in ("oneOf", "anyOf", "allOf"):
        for value in node.get(choice, ()):
            yield from _keys(value, root, path, refs)


_TYPES = {
    "string": "text",
    "object": "mapping",
    "array": "list",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "empty",
}


def _type_of(node: dict[str, Any], root: dict[str, Any]) -> str:
    node = _resolved(node, root)
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return " or ".join(f"`{value}`" for value in node["enum"])
    if "type" in node:
        types = [node["type"]] if isinstance(node["type"], str) else node["type"]
        names = " or ".join(_TYPES[name] for name in types)
        if types == ["array"] and isinstance(node.get("items"), dict):
            return f"list of {_type_of(node['items'], root)}"
        return names
    forms = [form for choice in ("oneOf", "anyOf") for form in node.get(choice, ())]
    return " or ".join(dict.fromkeys(_type_of(form, root) for form in forms))


def environment() -> str:
    """Return the page of environment variables; raises `ValueError` when code reads another."""
    read = environment_in_code()
    known = {name for name in ENVIRONMENT if name.startswith("STACKPROOF_")}
    if read - known:
        raise ValueError(f"ENVIRONMENT in {__file__} lacks {sorted(read - known)}")
    rows = [(f"`{n}`", t) for n, t in ENVIRONMENT.items() if n in read or n not in known]
    return "# Environment variables\n\n" + table(("variable", "meaning"), rows)


def environment_in_code() -> set[str]:
    """Return the names of our own variables that Python and shell code names."""
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "tools").iterdir(), ROOT / "tests" / "need.py"]
    texts = [path.read_text() for path in files if path.is_file() and path != Path(__file__)]
    names = {name for text in texts for name in re.findall(r"\bSTACKPROOF_[A-Z_]+\b", text)}
    return {name for name in names if not _IN_C.match(name)}


def knowledge() -> str:
    """Return the page of settings and known problems."""
    from stackproof.knowledge.effects.load import load_knowledge  # noqa: PLC0415 - after the page needs it
    from stackproof.knowledge.model import words  # noqa: PLC0415

    known = load_knowledge()

    def links(sources: Iterable[Any]) -> str:
        return ", ".join(f"[{source.title}]({source.url})" for source in sources)

    parts = [
        "# Settings and known problems\n\n`stackproof explain NAME` prints one of these. Newest "
        "releases that were looked at: "
        + ", ".join(f"{name} {version}" for name, version in known.newest.items())
        + ".\n\n## Known problems\n"
    ]
    for rule in known.rules:
        commands = "".join(f"\n    {line}" for line in rule.commands)
        parts.append(
            f"### {rule.id}: {rule.title}\n\n`{rule.name}`, {rule.severity}. When "
            f"{words(rule.when)}.\n\nCause: {rule.cause}.\n\nRemedy: {rule.remedy}.\n"
            + (f"{commands}\n" if commands else "")
            + f"\nKnown by: {', '.join(rule.evidence)}. {links(rule.sources)}\n"
        )
    parts.append("## Settings\n")
    for component in dict.fromkeys(setting.component for setting in known.settings):
        settings = [
            (
                _quoted(setting.names),
                "" if setting.versions == ":" else setting.versions,
                "; ".join(
                    one.value if one.versions == ":" else f"{one.versions} → {one.value}"
                    for one in setting.defaults
                ),
                setting.when,
                ", ".join(setting.values),
                setting.effect,
                ", ".join(setting.evidence),
                links(setting.sources),
            )
            for setting in known.settings
            if setting.component == component
        ]
        titles = ("setting", "versions", "default", "when", "values", "effect", "known by")
        parts.append(f"### {component}\n\n" + table((*titles, "sources"), settings))
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """Return every page by its name in docs/reference."""
    import guarantees  # noqa: PLC0415 - after the page needs it

    kinds = sorted(path.stem for path in (PACKAGE / "core" / "schemas").glob("*.json"))
    made = {
        "commands.md": commands(),
        "environment.md": environment(),
        "exit-codes.md": exit_codes(),
        "guarantees.md": guarantees.page(),
        "input-limits.md": input_limits(),
        "knowledge.md": knowledge(),
        **{f"schema-{kind}.md": schema_page(kind) for kind in kinds},
    }
    rows = [f"- [{text.splitlines()[0].removeprefix('# ')}]({name})" for name, text in made.items()]
    made["index.md"] = "# Reference\n\n" + "\n".join(rows)
    note = "<!-- Written by tools/generate_reference.py; change the code, not this page. -->\n\n"
    return {name: note + text.rstrip("\n") + "\n" for name, text in made.items()}


def manual() -> dict[str, str]:
    """Return the man page of stackproof and of every verb, by its name in docs/man."""
    import man_pages  # noqa: PLC0415 - after the page needs it
    import stackproof  # noqa: PLC0415
    from stackproof.cli import commandtree  # noqa: PLC0415

    tree = commandtree.load()
    return {
        f"{'-'.join(('stackproof', *one.words))}.1": man_pages.man_page(one, stackproof.__version__)
        for one in (tree, *tree.commands)
    }


def completions() -> dict[Path, dict[str, str]]:
    """Return the completion of each shell, by the folder and the name that the shell wants."""
    from stackproof.cli import commandtree, completing  # noqa: PLC0415

    tree, names = commandtree.load(), completing.names()
    files = {"bash": "stackproof", "zsh": "_stackproof", "fish": "stackproof.fish"}
    return {
        COMPLETION / shell: {file: completing.SHELLS[shell](tree, names)}
        for shell, file in files.items()
    }


def main() -> None:
    """Write the pages, or with `--check` say which are not up to date."""
    old = False
    for folder, wanted in {REFERENCE: pages(), MAN: manual(), **completions()}.items():
        found = {path.name: path.read_text() for path in folder.glob("*")}
        if sys.argv[1:] == ["--check"]:
            for name in sorted(n for n in {*wanted, *found} if wanted.get(n) != found.get(n)):
                old = True
                place = (folder / name).relative_to(ROOT)
                print(f"{place} is not what the code says", file=sys.stderr)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for name in {*found} - {*wanted}:
            (folder / name).unlink()
        for name, text in wanted.items():
            (folder / name).write_text(text)
    if old:
        print("hint: run tools/generate_reference.py", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
