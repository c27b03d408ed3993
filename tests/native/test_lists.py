"""The C parser: the examples of the grammar, and the same answers as Python's."""

from __future__ import annotations

import random
import subprocess
import unicodedata
from pathlib import Path

import pytest
import yaml

from need import need
from stackproof.core import mountlist
from stackproof.core.effects.libc import MountFailure
from stackproof.core.errors import Reason, StackproofError

_EXAMPLES = yaml.safe_load(
    (Path(__file__).parents[1] / "documents" / "mountlists.yaml").read_text(encoding="utf-8")
)
# What the grammar is about, and characters of one to four bytes that are printable or not.
_PIECES = [
    *",::///...ab", "/usr", "/etc", "/var", "/var/lib", "/opt", "/x", "/home", "..", " ",
    "\n", "\x7f", "\x85", "\xa0", "\xad", "ä", "中", "😀", "\u200b", "\u202e", "\ufeff", "\ue000",
    "\u2028", "\U000e0001", "\U0010ffff",
]  # fmt: skip

Parsed = tuple[list[str], list[list[str | None]]]


def _probe(program: Path, texts: list[str]) -> list[Parsed]:
    """Return for each text the reasons of its problems, or its entries."""
    wire = b"".join(b"%d\n%s" % (len(raw), raw) for raw in (text.encode() for text in texts))
    done = subprocess.run(
        [program, "lists"], input=wire, capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    result: list[Parsed] = []
    for line in done.stdout.decode().split("\n")[:-1]:
        if line == "list" or line.startswith("list "):
            words = line.split()[1:]
            result.append(([] if words == ["valid"] else words, []))
        else:
            image, _, point = line.partition("\t")
            result[-1][1].append([image, point or None])
    assert len(result) == len(texts)
    return result


@pytest.fixture(params=["built", pytest.param("sanitized", marks=pytest.mark.battery)])
def probe(request):
    return request.getfixturevalue(request.param) / "tests" / "probe"


def test_examples(probe):
    valid, invalid = _EXAMPLES["valid"], _EXAMPLES["invalid"]
    wanted = [([], example["entries"]) for example in valid]
    wanted += [(example["reasons"], []) for example in invalid]
    texts = [example["text"] for example in [*valid, *invalid]]
    found = _probe(probe, texts)
    assert dict(zip(texts, found, strict=True)) == dict(zip(texts, wanted, strict=True))


def _python(text: str) -> Parsed:
    try:
        return [], [[r.image, r.mount_point] for r in mountlist.parse(text)]
    except StackproofError as error:
        return [problem.reason.value for problem in error.problems], []


def test_the_same_answers_as_python(probe):
    dice = random.Random(20261121)
    texts = ["".join(dice.choices(_PIECES, k=dice.randrange(12))) for _ in range(3000)]
    texts += [f"a{mount}" for mount in {f":/{''.join(dice.choices(_PIECES, k=3))}" for _ in texts}]
    for text, found in zip(texts, _probe(probe, texts), strict=True):
        assert found == _python(text), text


@pytest.mark.battery
def test_every_character_is_judged_as_python_does(probe):
    """Unassigned characters aside: which they are depends on the Unicode that a Python knows."""
    assigned = [
        character
        for character in map(chr, [*range(1, 0xD800), *range(0xE000, 0x110000)])
        if unicodedata.category(character) != "Cn" and character not in ",:"
    ]
    for text, (faults, _) in zip(assigned, _probe(probe, assigned), strict=True):
        assert (not faults) == text.isprintable(), hex(ord(text))


@pytest.mark.parametrize("text", ["a:/x," * 10_000, ",".join(["a"] * 10_000), "a/" * 500_000])
def test_huge_lists_are_refused_at_once(probe, text):
    assert _probe(probe, [text]) == [(["usage"], [])]


def test_reasons_and_exit_codes_are_those_of_python(built):
    need("gcc")
    done = subprocess.run(
        [built / "tests" / "probe", "reasons"], capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        name, code = line.split()
        assert int(code) == Reason(name).exit_code, name
        # The hook's own reason never comes from a mount.
        if Reason(name) is not Reason.INJECTION_FAILS:
            assert int(code) == MountFailure(name, "").exit_code, name
