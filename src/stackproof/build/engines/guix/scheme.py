"""Texts for Guix and from it: manifest and channels in Scheme, the manifest of a profile.

Forms are those of the GNU Guix Reference Manual ("Writing Manifests", "Specifying Additional
Channels", "Package Transformation Options"). A word of a recipe becomes a string, never code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stackproof.build.engines.guix.stack import Channel, GuixStack
from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value

SYSTEMS = {
    "x86_64": "x86_64-linux",
    "aarch64": "aarch64-linux",
    "ppc64le": "powerpc64le-linux",
    "riscv64": "riscv64-linux",
}
"""The machines of `uname -m` by their names in Guix."""
MANIFEST, CHANNELS = "manifest.scm", "channels.scm"
_SYMBOL = re.compile(r"[a-z][a-z0-9-]*")
_TOKEN = re.compile(r'\s+|;[^\n]*|([()])|"((?:[^"\\]++|\\.)*+)"|([^\s()";]+)', re.DOTALL)
_MOST_DEPTH, _MOST_WORDS = 64, 1_000_000


def quote_text(text: str) -> str:
    """Return a text as a string of Scheme; what does not print as Guile's escape `U` and digits."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):06x}" for c in escaped) + '"'


def quote_symbol(text: str) -> str:
    """Return a quoted symbol; raises `StackproofError` (INVALID_VALUE) for a text that is none."""
    if not _SYMBOL.fullmatch(text):
        raise fail(Reason.INVALID_VALUE, f"`{text}` is no name of a channel")
    return f"'{text}"


def render_manifest(stack: GuixStack) -> str:
    """Return the manifest of a stack's packages, with what takes the place of others in them."""
    names = "\n            ".join(map(quote_text, stack.packages))
    if not stack.with_input:
        return f"(specifications->manifest\n      (list {names}))\n"
    pairs = [
        f"(with-input . {quote_text(f'{old}={new}')})"
        for old, new in sorted(stack.with_input.items())
    ]
    indented = "\n                             "
    lines = (
        "(use-modules (gnu packages) (guix transformations))",
        "(define transform",
        f"  (options->transformation '({indented.join(pairs)})))",
        "(packages->manifest",
        " (map (lambda (name)",
        "        (call-with-values (lambda () (specification->package+output name))",
        "          (lambda (package output) (list (transform package) output))))",
        f"      (list {names})))",
    )
    return "\n".join(lines) + "\n"


def render_channels(channels: tuple[Channel, ...]) -> str:
    """Return the channels, each at its commit."""
    return "(list " + "\n      ".join(map(_render_channel, channels)) + ")\n"


def _render_channel(channel: Channel) -> str:
    parts = [f"(name {quote_symbol(channel.name)})", f"(url {quote_text(channel.url)})"]
    if channel.branch:
        parts.append(f"(branch {quote_text(channel.branch)})")
    parts.append(f"(commit {quote_text(channel.commit)})")
    if channel.introduced:
        key = f"(openpgp-fingerprint {quote_text(channel.fingerprint)})"
        first = quote_text(channel.introduced)
        begin = f"(introduction\n{' ' * 16}(make-channel-introduction {first}"
        parts.append(f"{begin}\n{' ' * 17}{key}))")
    return "(channel " + "\n               ".join(parts) + ")"


def render_files(stack: GuixStack) -> Mapping[str, str]:
    """Return the two files that Guix reads, by name."""
    head = ";; written by `stackproof build`\n"
    return {
        MANIFEST: head + render_manifest(stack),
        CHANNELS: head + render_channels(stack.channels),
    }


def pack_argv(stack: GuixStack, guix: str, folder: str) -> tuple[str, ...]:
    """Return the call that has Guix, as of the channels, pack what a manifest names.

    Nothing is made relocatable (`-R`): images are mounted where Guix has its store, and a wrapper
    would hide a program from whoever looks at what it needs.
    """
    return (
        guix, "time-machine", f"--channels={folder}{CHANNELS}", "--", "pack", "--format=tarball",
        f"--system={SYSTEMS[stack.architecture]}", "--save-provenance",
        f"--manifest={folder}{MANIFEST}",
    )  # fmt: skip


class ProfileEntry(Value):
    """A package of a profile; `item` is its path in the store."""

    name: str
    version: str
    output: str
    item: str


class StoreProfile(Value):
    """The packages of a profile; `commits` are those of the channels that it came from."""

    entries: tuple[ProfileEntry, ...]
    commits: frozenset[str]


Expression = str | list["Expression"]


def profile_of(text: str) -> StoreProfile:
    """Return packages and commits of a profile's `manifest` of any version (`guix/profiles.scm`).

    An entry is a list that begins with four strings: name, version, output, item. Raises
    `StackproofError` (IMAGE_UNREADABLE) for what is no expression of Scheme.
    """
    entries: dict[ProfileEntry, None] = {}
    commits = set()
    for form in _lists(_read(text)):
        match form:
            case ["repository" | "channel", *parts]:
                pairs = [part for part in parts if isinstance(part, list) and len(part) > 1]
                commits |= {str(part[1]) for part in pairs if part[0] == "commit"}
            case [str(name), str(version), str(output), str(item), *_] if item.startswith("/"):
                entries[ProfileEntry(name=name, version=version, output=output, item=item)] = None
            case _:
                pass
    return StoreProfile(entries=tuple(entries), commits=frozenset(commits))


def _lists(top: list[Expression]) -> Iterator[list[Expression]]:
    left = [top]
    while left:
        form = left.pop()
        yield form
        left += reversed([inner for inner in form if isinstance(inner, list)])


def _read(text: str) -> list[Expression]:
    """Return the expressions of a text: lists, and strings and symbols as texts."""
    top: list[Expression] = []
    around, place = [top], 0
    for count in range(_MOST_WORDS):
        token = _TOKEN.match(text, place)
        if token is None:
            break
        place = token.end()
        if token[1] == "(":
            around[-1].append([])
            around.append(around[-1][-1])  # type: ignore[arg-type]
        elif token[1] == ")":
            around.pop()
        elif (word := token[3] if token[2] is None else token[2]) is not None:
            around[-1].append(word)
        if not 0 < len(around) <= _MOST_DEPTH or count + 1 == _MOST_WORDS:
            break
    if place < len(text) or len(around) != 1:
        raise fail(
            Reason.IMAGE_UNREADABLE,
            "the manifest of the pack's profile is no expression of Scheme",
            hint="make the pack again with `guix pack`",
        )
    return top
