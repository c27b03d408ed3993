"""A seal of ssh-keygen is good for one text, one purpose, and as long as its key is."""

from __future__ import annotations

from pathlib import Path

import pytest

from need import need
from signers import Signer
from stackproof.core.errors import Reason, StackproofError
from stackproof.share.trust.effects import seals
from stackproof.share.trust.effects.seals import Sealed


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ('namespaces="other"', None),
        ('namespaces="stackproof-image"', Reason.WRONG_SIGNER),
        ('valid-before="20200101"', Reason.KEY_EXPIRED),
        ('valid-after="20990101"', Reason.CLOCK_SKEW),
    ],
)
def test_for_what_a_seal_is_good(tmp_path: Path, options: str, reason: Reason | None) -> None:
    need("ssh-keygen")
    signer = Signer(tmp_path, "me@site", tmp_path / "allowed")
    seal = seals.make(b"text", signer.key, namespace="other", what="a.txt")
    sealed = Sealed(text=b"text", seal=seal, file="a.txt", namespace="other")
    signer.allow("me@site", signer.public, options)
    if reason is None:
        assert seals.holder(sealed, str(signer.allowed)).signer == "me@site"
        return
    with pytest.raises(StackproofError) as caught:
        seals.holder(sealed, str(signer.allowed))
    assert caught.value.reason is reason


def test_what_is_no_key(tmp_path: Path) -> None:
    need("ssh-keygen")
    signer = Signer(tmp_path, "me@site", tmp_path / "allowed")
    with pytest.raises(StackproofError) as caught:
        seals.make(b"text", str(signer.allowed), namespace="x", what="a.txt")
    assert caught.value.reason is Reason.NOT_PERMITTED
