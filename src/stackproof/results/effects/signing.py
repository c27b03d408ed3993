"""Signatures of results, by `ssh-keygen -Y`: made on request, and looked at by `compare`.

Signed is a statement with the digests of what was planned, of `bench.json`, of the probes and of
the end of every chain of launches.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from stackproof.core import limits, noun
from stackproof.core.command import Completed
from stackproof.core.effects import files, ssh_keys
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.ids import digest
from stackproof.results.chain import NAMESPACE, Signature, SignedStatement
from stackproof.results.effects import ledger

STATEMENT = "statement.json"
_GOOD = re.compile(r'Good "[^"]*" signature (?:for (?P<who>\S+) )?with (?P<key>.+)')


def sign(folder: Path, key: str) -> None:
    """Sign the results of a folder as they are, with a private key, or a public one of an agent.

    A passphrase is asked for on the terminal. Raises `StackproofError`: FILE_MISSING for the key,
    TOOL_MISSING, JOB_FAILED with what ssh-keygen says, INVALID_VALUE for results without a chain.
    """
    ssh_keys.require_key(key)
    statement = _statement(folder)
    if statement is None:
        raise fail(
            Reason.INVALID_VALUE,
            f"`{folder}` has no chain of launches that could be signed",
            hint="results of this version of `stackproof bench` have one",
            where=Location(file=os.fspath(folder)),
        )
    path = folder / ledger.FOLDER / STATEMENT
    files.write(path, noun.to_json(statement))
    files.remove(path.with_name(f"{STATEMENT}.sig"))
    fault = ssh_keys.sign(path, key, NAMESPACE)
    if fault is not None:
        raise fail(
            Reason.JOB_FAILED,
            "the results could not be signed",
            detail=fault or None,
            hint=f"try `{ssh_keys.TOOL} -y -f {key}`; "
            "sign later with `stackproof bench --resume FOLDER --sign KEY`",
        )


def signature(folder: Path, signed_by: str | None) -> Signature | None:
    """Return what the signature of a results folder says, None where nobody asks and none is there.

    `signed_by` is a file of allowed signers: one of them must have signed what is there now. Raises
    `StackproofError` for a file that is not there, and TOOL_MISSING.
    """
    path = folder / ledger.FOLDER / STATEMENT
    sealed = path.with_name(f"{STATEMENT}.sig")
    if signed_by is not None and not os.path.isfile(signed_by):
        raise fail(
            Reason.FILE_MISSING,
            f"`{signed_by}` is not there",
            hint="give a file of allowed signers, see ssh-keygen(1), ALLOWED SIGNERS",
            where=Location(file=signed_by),
        )
    if not sealed.is_file() or not path.is_file():
        if signed_by is None:
            return None
        return Signature(holds=False, text="nobody signed these results", asked=True)
    content = _read(path)
    try:
        said = noun.from_json(SignedStatement, content, file=os.fspath(path))
    except StackproofError:
        return Signature(holds=False, text="the signed statement cannot be read")
    if said != _statement(folder):
        return Signature(
            holds=False, text="these results are not the ones that were signed: files differ"
        )
    return _verified(path, sealed, signed_by)


def _verified(path: Path, sealed: Path, signed_by: str | None) -> Signature:
    if signed_by is None:
        done = ssh_keys.ask(path, "check-novalidate", "-n", NAMESPACE, "-s", os.fspath(sealed))
        match = _GOOD.search(_text(done))
        if done.returncode or match is None:
            return Signature(holds=False, text="the signature is not one of these results")
        return Signature(
            holds=True, text=f"signed with the key {match['key']}, whose it is not asked"
        )
    found = ssh_keys.ask(path, "find-principals", "-s", os.fspath(sealed), "-f", signed_by)
    names = [line for line in _text(found).splitlines() if line.strip()]
    if found.returncode or not names:
        text = f"whoever signed these results is not among `{signed_by}`"
        return Signature(holds=False, text=text, asked=True)
    for name in names:
        done = ssh_keys.ask(
            path, "verify", "-f", signed_by, "-I", name, "-n", NAMESPACE, "-s", os.fspath(sealed)
        )
        match = _GOOD.search(_text(done))
        if not done.returncode and match is not None:
            text = f"signed by {name} with {match['key']}"
            return Signature(holds=True, text=text, asked=True)
    return Signature(holds=False, text="the signature is not one of these results", asked=True)


def _text(done: Completed) -> str:
    return done.stdout.decode(errors="replace")


def _read(path: Path) -> bytes:
    return files.read_bounded(path, limits.RESULTS)


def _statement(folder: Path) -> SignedStatement | None:
    """Return the digests of everything that counts in a results folder, None without a chain."""
    where = folder / ledger.FOLDER
    chain = ledger.read(folder, (), ())
    if chain.plan is None:
        return None
    probes = sorted((folder / "probes").glob("*.json"))
    return SignedStatement(
        plan=chain.plan_sha256,
        specification=digest(_read(folder / "bench.json")),
        heads={
            str(number): (len(entries), digest(_read(where / f"{number}.jsonl")))
            for number, entries in sorted(chain.entries.items())
        },
        probes={path.name: digest(_read(path)) for path in probes},
    )
