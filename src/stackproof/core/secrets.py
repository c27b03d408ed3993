"""What looks like a secret in a text or a variable, and what stands in its place.

Lines of logs and variables that an answer quotes are passed on to others. A value goes by
the name before it (`DB_PASS=…`, `"token": …`, `--password …`, `Cookie: …`), or by its own form (a
private key, a token of a known kind, a password in an address).

A value ends where its syntax ends it: a word of a shell with all of its quoted parts, a string, a
bracket with all that is in it, the lines below a key. A mark stands in its place. A mark is known
again as a whole, and hides nothing beside it, so that a text may be cleaned twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_KINDS = {
    "token": "token", "secret": "secret", "secrets": "secret", "password": "password",
    "passwd": "password", "passphrase": "password", "passwords": "password",
    "credential": "credential", "credentials": "credential", "cred": "credential",
    "creds": "credential", "cookie": "cookie", "cookies": "cookie", "authorization": "credential",
    "apikey": "key", "authkey": "key", "privatekey": "key", "secretkey": "key", "accesskey": "key",
    "sshkey": "key", "authtoken": "token", "accesstoken": "token",
}  # fmt: skip
# In one word with what it is of: PGPASSWORD, SLURM_JWT, `dbpasswd`.
_ENDINGS = {"password": "password", "passwd": "password", "passphrase": "password",
            "secret": "secret", "token": "token", "jwt": "token", "apikey": "key",
            "credential": "credential", "credentials": "credential"}  # fmt: skip
# What is said of a key, and what a key is of that is none to keep: indexes, and memory that a
# network may reach.
_OF_A_KEY = {"file", "path", "id", "data", "pem", "base", "string", "secret", "hex"}
_NO_SECRET = {
    "cache", "sort", "primary", "foreign", "partition", "group", "join", "lookup", "public", "mr",
    "index", "map", "hash", "memory", "remote", "local", "config", "json", "yaml", "host",
}  # fmt: skip
# Of a token or a password these are amounts and rules, as of a cookie.
_ABOUT = {
    "count", "length", "size", "limit", "type", "expires", "expiry", "ttl", "bytes", "max", "ring",
    "bucket", "helper", "policy", "prompt", "required", "enabled", "disabled", "timeout", "age",
    "format", "version", "endpoint", "url", "uri", "server", "provider", "rate", "budget", "usage",
    "stdin", "fd",
}  # fmt: skip
# What a key is of that is none to keep, whatever is said between: `api_host_key`.
_TO_KEEP = {"api", "auth", "private", "secret", "access", "session", "master", "signing"}
# Switches: `--no-password FILE`, `use_token: yes`.
_SWITCHES = {"no", "without", "use", "ask", "skip", "disable", "enable", "require", "is", "has"}
_USERS = {"db", "user", "smtp", "mysql", "pg", "redis", "admin", "root", "login", "ftp", "proxy",
          "ssh", "ldap", "http", "imap", "mail", "docker", "registry", "rabbitmq"}  # fmt: skip
_JOBS_KEY = re.compile(r"(?:opx|psm[23x]?)_uuid$|precondition_transports$", re.IGNORECASE)

_NAME = r"[A-Za-z_][\w-]{0,79}+"
_ASSIGNED = re.compile(rf"(?<![\w-])-{{0,2}}({_NAME})\\?[\"']?\]?[ \t]*(?::=|=>|[=:])[ \t]*")
_OPTION = re.compile(
    rf"(?<![\w-])--?({_NAME})(?:[\"'],?)?(?:[ \t]|\\\n)+"
    r"(?!--?(?:[A-Za-z][A-Za-z-]*(?:[\s=,\"']|\Z)|-))"
)
_SET = re.compile(rf"\b(?:setenv|pushenv|set -gx|set -x)[ \t(\"']+({_NAME})[\"', \t]+")
_BESIDE = re.compile(rf"(?<![\w-])({_NAME})[ \t]+(?=0x[0-9a-fA-F]{{4}}|[A-Za-z_-]*\d\S{{7}})")
_ELEMENT = re.compile(rf"<({_NAME})(?:\s[^<>\n]*)?>\s*+(?=[^<]|<!)")
_END_OF_ELEMENT = re.compile(r"(?:[^<]|<(?!/)){0,2000}+")
_PAIR = re.compile(
    rf"(?<![\w-])\\?[\"']?(?:name|key)\\?[\"']?\s{{0,9}}[:=]\s{{0,9}}\\?[\"']?({_NAME})\\?[\"']?[\s,]{{1,40}}"
    r"\\?[\"']?value\\?[\"']?[ \t]*[:=][ \t]*"
)
_BLOCK = re.compile(
    rf"^([ \t-]*)[\"']?({_NAME})[\"']?:[ \t]*+(?:[&!]\S*+[ \t]*+)*+"
    r"([|>][+-]?\d?[+-]?)?[ \t]*+(?:#[^\n]*)?\n",
    re.MULTILINE,
)
_LINE = re.compile(r"([ \t]*)((?:-[ \t]+)*)([^\n]*)(?:\n|\Z)")
_OPENING = re.compile(r"\\?[\[{(]")
_VALUE = re.compile(
    r"(?:(?:bearer|basic|token|digest)[ \t]+)?"
    # Parts of one word, with nothing between them; TOML's and Python's long strings first.
    r"(?:(?:[brfu$]{0,2}(?:\"\"\"[\s\S]{0,2000}?(?:\"\"\"|\Z)|'''[\s\S]{0,2000}?(?:'''|\Z)"
    r"|\\\"(?:[^\"\\\n]|\\[^\"])*(?:\\\"|$)|\"(?:[^\"\\]|\\[\s\S]){0,2000}+\"|\"(?:[^\"\\\n]|\\[\s\S])*+(?:\"|\\?$)"
    r"|'[^']{0,2000}+'|'[^'\n]*(?:'|$)))+(?:[\w$%@+/\\][^\s\"'<&,;)}\]]*)?"
    r"|(?:\\[^\n\"]|<(?!/[\w:.-]+>)|&(?![\w.-]+=|[\s&]|$)|[^\s\"'&<\\]|\\$)+)+",
    re.IGNORECASE | re.MULTILINE,
)
_NO_VALUE = re.compile(
    r"(?:true|false|none|null|nil|yes|no|on|off|[\[{(]\s*[\]})]|\\?[\"']{0,2})[,;)}\]]*",
    re.IGNORECASE,
)
# What an amount, a rule or a switch of a secret is: a number, a word, a path, an address.
_AMOUNT = re.compile(
    r"[\"']?(?:[+-]?\d{1,12}(?:[.:,-]\d{1,12}){0,6}[ \t]?[A-Za-z%/]{0,8}"
    r"|[A-Za-z]{1,20}(?:[_-][A-Za-z]{1,20}){0,3}|[~.]{0,2}/[^\s?@]*|[a-z+]{2,9}://[^\s?@]*)?[\"']?[,;.)}\]]*",
)
# A line as env(1), YAML and INI have it: a value without quotes goes to its end.
_OF_ENV = re.compile(
    rf"^[ \t]*(?:-[ \t]+)?(?:export[ \t]+)?{_NAME}"
    r"(?:=(?![\"'\[{(])|[ \t]+=[ \t]*|:[ \t]+)(?=[^\s|>])",
    re.MULTILINE,
)
# What may stand behind a value that has an end of its own.
_BEHIND = re.compile(r"[ \t]*(?:[,;#&|)}\]:]|\\?$)", re.MULTILINE)
_HEADER = re.compile(
    r"(?P<quote>[\"'])?\b(?:proxy-)?(?:authorization|(?:set-)?cookie)[ \t]*:[ \t]*"
    r"(?P<value>(?(quote)(?:\\.|(?!(?P=quote))[^\n\\])+|[^\n]+))",
    re.IGNORECASE,
)
_SCHEME = re.compile(
    r"\b(?:[Bb]earer|BEARER|Basic)[ \t]+((?=\S{0,200}(?:[0-9=]|[a-z][A-Z]))[A-Za-z0-9+/=_.~-]{8,})"
)
_SHAPES = re.compile(
    r"(?P<key>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|\bAGE-SECRET-KEY-1[A-Z0-9]{20,}|\bPrivate-Lines: \d+\n(?:[A-Za-z0-9+/=]+\n?)+)"
    r"|(?P<credential>\bMUNGE:[A-Za-z0-9+/=]{20,}:?)"
    # A name, and behind it letters of both cases and digits, as those who give tokens make them.
    r"|(?P<token>\b[a-z]{2,8}(?:_[a-z0-9]{2,8}){0,2}[_.](?!_?Z[NKLSTV]{0,4}\d{1,3}[A-Za-z_]{2})(?=\w{0,40}\d)(?=\w{0,40}[A-Z])"
    r"(?=\w{0,40}[a-z])[A-Za-z0-9]{24,}(?!\w|\.\w)"
    # Whatever stands before them: these begin as nothing else does.
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}|hv[sbr]\.[\w-]{20,}"
    r"|dckr_[a-z]{2,4}_[\w-]{20,}|(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"
    # From its begin to its dot at once: what has none is not looked at again from each place.
    r"|(?<![\w-])(?:[\w-]{0,40}?[_-])?eyJ[\w-]{10,}+\.[\w-]{10,}+(?:\.[\w-]*+)?"
    r"|xox[abprs]-[\w-]{10,}|xapp-[\w-]{10,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}"
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,}|pypi-[\w-]{40,}|nvapi-[\w-]{30,}"
    r"|(?<![A-Za-z0-9])[rs]k-(?:proj-|ant-)?[A-Za-z0-9_-]{32,})",
    re.DOTALL,
)
_ADDRESS = re.compile(
    r"(?<=[a-z0-9+.-])://(?:([^\s/@:\"']*:[^\s/\"']+)|([^\s/@:\"']{20,})"
    # A slash in a password is against the rules; a port has one behind it.
    r"|([^\s/@:\"'\[]{1,80}:(?!\d{1,5}[/\"'])(?:[^\s@<>\"']|[\"'](?![,:;)}\]])){1,200}))@",
    re.IGNORECASE,
)
# Addresses that are signed need no password.
_QUERY = re.compile(
    r"[?&](?:sig|signature|x-amz-(?:signature|credential|security-token))=([^&\s\"'<>]+)",
    re.IGNORECASE,
)
# What programs of SSH are told: the file of a key after `-i`, which means something else to others.
_SSH = r"(?:ssh|scp|sftp|sshfs|rsync|autossh|ssh-copy-id|ssh-add|mosh|pdsh|clush|parallel-ssh)"
_KEY_FILE = re.compile(
    rf"(?:\b{_SSH}\b[\"']?[^\n|;&]{{0,200}}?[\s\"']-i(?:[ \t=]*|[\"'],?[ \t]*)(?=[\"']?[~/$\w.])"
    r"|(?<![\w-])-i(?:[ \t=]*|[\"'],?[ \t]*)"
    r"(?=[\"']?\S{0,200}(?:\.ssh/|(?<![a-z])id_|\.pem\b|\.key\b))"
    r"|(?i:(?:identity|certificate)file)[ \t=]+)"
    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+)"
)
_PROXY_COMMAND = re.compile(r"(?i:proxycommand)[ \t=]+(?:\\?[\"'])?([^\"'\n\\]+)")
# Short options that mean something else to all other programs.
_SHORT = re.compile(
    r"\b(?:sshpass|(?:docker|podman|skopeo|oras|apptainer) (?:registry )?login|mysql\w*)\b"
    r"[^\n|;&]{0,200}?"
    r"[ \t]-p[ \t]*([^\s\"'-]\S*|-[^\s\"'-]*\d\S*|\"[^\"\n]*\"|'[^'\n]*')"
    r"|\b(?:curl|wget)\b[^\n|;&]{0,200}?[ \t](?:-u|--user|-U|--proxy-user)[ \t=]*[\"']?"
    r"([^\s:\"']+:(?!//)[^\s\"']+)"
)
# In prose, and by a name that is a folder in most places: no path, no word of a sentence.
_STATES = (
    r"(?:not|in|now|incorrect|invalid|wrong|required|empty|missing|set|expired|correct|needed|unset"
    r"|asked|read|being|too|no|the|a|inside|longer)\b(?!-)"
)
_SAID = re.compile(
    r"\b(?:password|passwd|passphrase|pwd)\b(?:[ \t]+(?:is|was)[ \t:]+(?:now[ \t:]+)?"
    rf"(?:{_STATES}(?:[ \t]+to\b[ \t:]*|[ \t]*[:=][ \t]*))?[\"']?(?!{_STATES})"
    r"|[ \t]*[:=][ \t]*(?=[\"']?[^\s/~.$\"'(])[\"']?)([^\s\"',;]+)",
    re.IGNORECASE,
)
# Of netrc(5), and what openssl(1) is told of a pass phrase.
_NETRC = re.compile(
    r"\b(?:machine|login|account)[ \t]+\S{1,200}\s{1,40}password[ \t]+(\S+)"
    r"|(?<![\w-])pass:(?!//)([^\s\"',;]+)|-pass(?:in|out)?[ \t]+pass:([^\s\"',;]+)"
)
# Why something failed, after a name in a sentence, as munge says it: "failed to create credential:
# Socket communication error". All of its words are known ones, so that none of them is a secret.
_REASONS = (
    r"(?:access|address|again|argument|authentication|authorization|bad|been|broken|by|cannot|closed|communication"
    r"|connect|connection|credential|data|denied|device|directory|error|exceeded|expired|failed|failure|file|find"
    r"|format|found|has|host|in|input|internal|invalid|is|key|length|limit|match|memory|mismatch|missing|no|not"
    r"|of|on|open|operation|out|peer|permission|permitted|pipe|process|protocol|range|read|refused|rejected"
    r"|replayed|reset|resource|rewound|route|server|size|socket|such|temporarily|timed|timeout|to|token|too"
    r"|unauthorized|unavailable|unknown|unreachable|unsupported|user|value|version|was|write|wrong)"
)
_REASON = re.compile(
    rf"(?<=: )(?=(?-i:[A-Z])){_REASONS}(?:[ \t]+{_REASONS}){{1,8}}\.?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_IN_SENTENCE = re.compile(r"[a-z][ \t]+$")
_MARK = r"\((token|secret|password|credential|cookie|key|proxy command) left out\)"
_LEFT_OUT = re.compile(_MARK)
_ONLY_MARKS = re.compile(rf"[\s\"'\\]*(?:{_MARK}[\s\"'\\,;)}}\]]*)+".replace("(token", "(?:token"))
_MASK = "\ue000"
_IN_BRACKET = re.compile(r"[\[{()}\]\"']")
_LONGEST_BRACKET, _LONGEST_PROSE = 100_000, 2000
_PASSES = 9


_Span = tuple[int, int, str]


def kind_of(name: str) -> str:
    """Return the kind of secret that a name stands for, `password` for `DB_PASS`; else ""."""
    kind, is_amount = _kind(name)
    return "" if is_amount else kind


def _kind(name: str) -> tuple[str, bool]:
    """Return the kind of a name, and whether it is of an amount or a rule of such a secret."""
    if _JOBS_KEY.search(name):
        return "key", False
    words = [word.lower() for word in _WORD.findall(name)]
    for number, word in enumerate(words):
        rest, before = set(words[number + 1 :]), words[:number]
        ends = (kind for end, kind in _ENDINGS.items() if word.endswith(end))
        kind = _KINDS.get(word) or next(ends, "")
        if kind:
            return kind, bool(rest & _ABOUT or {*before} & _SWITCHES)
        if word == "auth" and not rest:
            return "credential", False
        named = word in {"key", "keys"} and before
        kept = _NO_SECRET & {*before[-1:]} and not _TO_KEEP & {*before}
        if named and not kept and (rest <= _OF_A_KEY or {"auth", "private", "secret"} & {*before}):
            return "key", False
        shouted = name.isupper() or bool({*before} & _USERS)
        if word in {"pass", "pw", "pwd"} and before and not rest and shouted:
            return "password", False
    return "", False


def left_out(kind: str) -> str:
    """Return the text that stands in the place of a secret."""
    return f"({kind} left out)"


def without_secrets(text: str) -> str:
    """Return a text without values that look like secrets; cleaned again it stays as it is."""
    for _ in range(_PASSES):
        clean = _cut(text, _spans)
        if clean == text:
            return clean
        text = clean
    # A text that still changes is made to lead us on: its lines that change are left out.
    lines = [
        line if _cut(line, _spans) == line else left_out("secret") for line in text.split("\n")
    ]
    clean = "\n".join(lines)
    return clean if _cut(clean, _spans) == clean else left_out("secret")


def without_long_secrets(text: str) -> str:
    """Return a text without secrets of several lines, which must go before lines are cut."""
    return _cut(text, lambda masked: [
        span for span in _spans(masked) if "\n" in masked[span[0] : span[1]]
    ] + [*_in_blocks(masked)])  # fmt: skip


def _spans(text: str) -> list[_Span]:
    return [
        *_of_shape(text), *_in_blocks(text), *_by_name(text),
        *_of_group(_HEADER, text, "credential"), *_of_group(_SCHEME, text, "credential"),
        *_of_group(_ADDRESS, text, "password"), *_of_group(_KEY_FILE, text, "key"),
        *_of_group(_QUERY, text, "token"), *_of_group(_SAID, text, "password"),
        *_of_group(_PROXY_COMMAND, text, "proxy command"), *_of_group(_SHORT, text, "password"),
        *_of_group(_NETRC, text, "password"),
    ]  # fmt: skip


def _of_shape(text: str) -> Iterator[_Span]:
    for match in _SHAPES.finditer(text):
        yield match.start(), match.end(), match.lastgroup or "key"


def _of_group(pattern: re.Pattern[str], text: str, kind: str) -> Iterator[_Span]:
    for match in pattern.finditer(text):
        group = match.lastindex or 0
        if not _is_reason(text, match.start(), match.start(group)):
            yield match.start(group), match.end(group), kind


def _by_name(text: str) -> Iterator[_Span]:
    """Yield the values that a name stands before, in all ways in which it can."""
    ends = {match.end() for match in _OF_ENV.finditer(text)}
    for pattern in (_ASSIGNED, _OPTION, _SET, _BESIDE, _ELEMENT, _PAIR):
        done = 0  # a value is looked at once, whatever names are in it
        for match in pattern.finditer(text):
            kind, is_amount = _kind(match[1]) if match.end() >= done else ("", False)
            if not kind or (pattern is _BESIDE and not re.search(r"[_-]|^[A-Z]+$", match[1])):
                continue
            start, around = match.end(), text[max(0, match.start() - 1) : match.start()]
            if _is_reason(text, match.start(), start) or (is_amount and pattern is _OPTION):
                continue
            in_quotes = around in {'"', "'"} and match[0].endswith("=")
            if not in_quotes and not (end := _end(text, start, to_line=start in ends)):
                continue
            if pattern is _ELEMENT and (inner := _END_OF_ELEMENT.match(text, start)):
                end = inner.end()
            elif in_quotes:  # to the end of the quotes that are around name and value
                last = re.compile(f"[{around}\n]").search(text, start)
                end = last.start() if last else len(text)
            if is_amount and _AMOUNT.fullmatch(text, start, end):
                continue
            done = end
            yield start, done, kind


def _is_reason(text: str, name: int, value: int) -> bool:
    """Return true for words of a sentence that begin at `value` and say why something failed."""
    before = _IN_SENTENCE.search(text, max(0, name - 40), name)
    return before is not None and _REASON.match(text, value) is not None


def _end(text: str, start: int, *, to_line: bool) -> int:
    """Return the end of a value; in a line of settings all belongs to it that nothing divides."""
    end = _end_of_bracket(text, start) or _end_of_value(text, start)
    if to_line and (text[start] not in "\"'[{(\\" or not _BEHIND.match(text, end)):
        last = text.find("\n", max(start, end - 1))
        end = max(end, last if last >= 0 else len(text))
    return end


def _end_of_value(text: str, start: int) -> int:
    match = _VALUE.match(text, start)
    return match.end() if match else 0


def _end_of_bracket(text: str, start: int) -> int:
    """Return the end of a list or mapping that begins there and holds something; 0 for others.

    One that is not closed ends where nobody looks further; words in parentheses are no list then.
    """
    opening = _OPENING.match(text, start)
    if opening is None:
        return 0
    depth, quote, begin = 0, "", opening.end() - 1
    is_prose = text[begin] == "("
    last = min(len(text), begin + (_LONGEST_PROSE if is_prose else _LONGEST_BRACKET))
    for match in _IN_BRACKET.finditer(text, begin, last):
        character = match[0]
        if quote:
            quote = "" if character == quote and text[match.start() - 1] != "\\" else quote
        elif character in "\"'":
            quote = character
        else:
            depth += 1 if character in "[{(" else -1
            if not depth:
                return match.end() if text[opening.end() : match.start()].strip() else 0
    return 0 if is_prose or not text[opening.end() : last].strip() else last


def _in_blocks(text: str) -> Iterator[_Span]:
    """Yield the lines below a name: a block of YAML, or a value or list that begins there."""
    done = 0
    for match in _BLOCK.finditer(text):
        kind = kind_of(match[2]) if match.end() >= done else ""
        if not kind:
            continue
        parts = [*_lines_below(text, match.end(), len(match[1]), is_block=bool(match[3]))]
        if parts and match[3]:
            yield parts[0][0], parts[-1][1], kind
        elif parts:
            yield from ((start, end, kind) for start, end in parts)
        done = parts[-1][1] if parts else done


def _lines_below(text: str, at: int, indent: int, *, is_block: bool) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line that belongs to a key, whatever keys are in it."""
    while at < len(text) and (line := _LINE.match(text, at)):
        at = line.end()
        deeper = len(line[1].expandtabs()) > indent
        if not line[2] and not line[3].strip():
            continue
        if not deeper and (is_block or not line[2] or len(line[1]) < indent):
            return
        yield (line.start(2) if is_block else line.start(3)), line.end(3)


def _cut(text: str, find: Callable[[str], list[_Span]]) -> str:
    """Return a text with marks for spans; a mark that stands there already is one word of it."""
    masked = _LEFT_OUT.sub(lambda match: _MASK * len(match[0]), text)
    parts, at = [], 0
    for start, end, kind in sorted(find(masked), key=lambda span: (span[0], -span[1])):
        harmless = _ONLY_MARKS.fullmatch(text, start, end) or _NO_VALUE.fullmatch(text, start, end)
        if end <= at or harmless:
            continue
        if start >= at:
            parts += [text[at:start], left_out(kind)]
        at = end
    return "".join([*parts, text[at:]])
