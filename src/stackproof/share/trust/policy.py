"""What a site asks of images before they are mounted: `trust.conf`, and what it decides.

    # PATTERN  ACTION  SIGNER[,SIGNER…]
    image = prgenv-*        refuse  release@site
    image = build::*        refuse  ci@site,release@site
    image = *               warn    release@site,ci@site

A line is asked with the label that an image was asked for, and a signature counts for that label
alone: signed by one of the line's signers, nothing more is asked. An image that was named by its
file, or its digest, was asked for as nothing: there each signature counts for its own label.

The first line that fits a label counts. In patterns and signers `*` is any text. A pattern with
`::` is held against `NAMESPACE::LABEL`, and only a signature for a namespace fulfils it; one
without is held against the label alone. Where no namespace was asked for (an image that is here
has none), it is that of the signature; a signature without one counts in each.

What no signature fulfils gets the strictest action of all that may be about it: the line of the
label that was asked for, those of the labels that it was signed as, and the line `*`. So nobody
chooses a milder line by a label of his own. What no line fits is refused, and so is all of a file
with an error.

`native/core/trust.c` decides the same; `tests/documents/trust.yaml` holds both to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value

FOLDER = "/etc/stackproof"
"""Where a site says what it trusts: root's alone to write to."""
POLICY = "trust.conf"
SIGNERS = "allowed_signers"
"""In the same folder: whose keys are whose, as ssh-keygen(1) has it."""
MOST_RULES = 64
MOST_BYTES = 64 * 1024
_ANY = "*"
_SPACE = " \t\r"


class TrustAction(StrEnum):
    """What happens with an image that nobody signed whom the policy asks for."""

    ALLOW = "allow"
    WARN = "warn"
    REFUSE = "refuse"


_SEVERITY = tuple(TrustAction)


class TrustRule(Value):
    """A line of the policy: what it fits, who may sign that, and what happens otherwise."""

    pattern: str
    action: TrustAction
    signers: tuple[str, ...]

    def fits(self, label: str) -> bool:
        """Return True where the rule is about a label, which may have a namespace before it."""
        whole = "::" in self.pattern
        return fits(self.pattern, label if whole else label.rpartition("::")[2])


_LAST = TrustRule(pattern=_ANY, action=TrustAction.REFUSE, signers=())


class SignedLabel(Value):
    """That a signer says of an image that it is this label; `until` is in seconds since 1970.

    After that the key is no longer good; 0 is for ever.
    """

    label: str
    signer: str
    until: int = 0


class TrustDecision(Value):
    """What happens with an image, and why: `reason` is None for one that is signed as asked."""

    action: TrustAction
    reason: Reason | None
    text: str


def parse(text: str, *, file: str = POLICY) -> tuple[TrustRule, ...]:
    """Return the lines of a policy; raises `StackproofError` (INVALID_VALUE) with all problems."""
    rules: list[TrustRule] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        content = line.partition("#")[0].strip(_SPACE)
        if not content:
            continue
        key, equals, value = content.partition("=")
        words = [word for word in re.split(f"[{_SPACE}]+", value) if word]
        if not equals or key.strip(_SPACE) != "image":
            why = "it is not `image = PATTERN ACTION SIGNER[,SIGNER…]`"
        elif len(words) != 3:
            why = "it needs a pattern, an action and who may sign"
        elif words[1] not in _SEVERITY:
            why = "its action is none of allow, warn and refuse"
        elif not all(words[2].split(",")):
            why = "a signer is empty"
        elif len(rules) == MOST_RULES:
            why = f"there are more than {MOST_RULES} lines"
        else:
            pattern, action, signers = words
            rules.append(
                TrustRule(
                    pattern=pattern, action=TrustAction(action), signers=tuple(signers.split(","))
                )
            )
            continue
        problems.append(_bad_line(file, number, why))
    if problems:
        raise StackproofError(*problems)
    return tuple(rules)


def _bad_line(file: str, number: int, why: str) -> Problem:
    return Problem(
        reason=Reason.INVALID_VALUE,
        message=f"line {number} of `{file}`, the policy of this site, cannot be read: {why}",
        where=Location(file=file, line=number, column=1),
        hint="until it is right, no image is mounted; see `docs/how-to/trust-images.md`",
    )


def without_key(rules: Sequence[TrustRule], names: Sequence[str]) -> tuple[str, ...]:
    """Return the signers that a policy asks for and that are none of those with a key."""
    wanted = dict.fromkeys(signer for rule in rules for signer in rule.signers)
    return tuple(
        one for one in wanted if not any(fits(one, name) or fits(name, one) for name in names)
    )


def fits(pattern: str, text: str) -> bool:
    """Return True for a text that a pattern fits, in which `*` is any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split(_ANY))), text, re.DOTALL) is not None


def counts(asked: str, signed: str) -> bool:
    """Return true where a signature as `signed` is one for the label asked for, empty for none."""
    (wanted, label), (named, other) = _parts(asked), _parts(signed)
    return not asked or (label == other and (not wanted or named in {"", wanted}))


def _parts(label: str) -> tuple[str, str]:
    """Return the namespace of a label, empty for none, and the label without it."""
    namespace, _, rest = label.rpartition("::")
    return (namespace, rest) if namespace else ("", label)


def decide(
    rules: Sequence[TrustRule], signed: Sequence[SignedLabel], *, now: int, asked: str = ""
) -> TrustDecision:
    """Return the decision on an image that has these signatures; `now` is in seconds since 1970.

    `asked` is the label, with or without namespace, that it was asked for; empty for none. One
    signature that is as asked is enough. Else the reason is that of the strictest line about a
    signature that counts, or that none does.
    """
    actions = [_about(rules, label).action for label in ("", asked)]
    worst: tuple[int, int, Reason, str] | None = None
    for one in signed:
        same = counts(asked, one.label)
        rule = _about(rules, asked if same and _parts(asked)[0] else one.label)
        actions += [rule.action, _about(rules, one.label).action]
        if not same or ("::" in rule.pattern and not _parts(one.label)[0]):
            rank, reason = 0, Reason.ANOTHER_LABEL
            text = f"`{one.signer}` signed it as `{one.label}`, not as `{asked or rule.pattern}`"
        elif not any(fits(signer, one.signer) for signer in rule.signers):
            rank, reason = 1, Reason.WRONG_SIGNER
            text = f"`{one.signer}` may not sign `{one.label}` here"
        elif one.until and one.until <= now:
            rank, reason = 1, Reason.KEY_EXPIRED
            text = f"the key of `{one.signer}` is no longer good"
        else:
            text = f"signed by `{one.signer}` as `{one.label}`"
            return TrustDecision(action=TrustAction.ALLOW, reason=None, text=text)
        if worst is None or (rank, _SEVERITY.index(rule.action)) > worst[:2]:
            worst = (rank, _SEVERITY.index(rule.action), reason, text)
    action = max(actions, key=_SEVERITY.index)
    if worst is not None:
        return TrustDecision(action=action, reason=worst[2], text=worst[3])
    text = "nobody signed it whom this site knows"
    return TrustDecision(action=action, reason=Reason.UNSIGNED, text=text)


def _about(rules: Sequence[TrustRule], label: str) -> TrustRule:
    """Return the first line about a label; about none, which is empty, only the line `*` is."""
    about = (one for one in rules if (one.fits(label) if label else one.pattern == _ANY))
    return next(about, _LAST)
