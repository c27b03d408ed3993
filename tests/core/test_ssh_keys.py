"""Signatures by ssh-keygen: what is made can be asked about, and each thing missing is said."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from need import need
from refusals import refused
from stackproof.core.effects import ssh_keys
from stackproof.core.errors import Reason

NAMESPACE = "a-test"


@pytest.fixture
def key(tmp_path):
    need("ssh-keygen")
    path = tmp_path / "key"
    argv = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path))
    subprocess.run(argv, check=True)
    return path


@pytest.fixture
def signed(tmp_path, key):
    text = tmp_path / "text"
    text.write_text("what is said\n")
    assert ssh_keys.sign(text, str(key), NAMESPACE) is None
    return text


def verified(text: Path, signers: Path) -> bool:
    words = ("verify", "-f", str(signers), "-I", "ann", "-n", NAMESPACE, "-s", f"{text}.sig")
    return ssh_keys.ask(text, *words).returncode == 0


class TestReal:
    def test_a_signature_holds_for_its_text_and_for_no_other(self, signed):
        words = ("check-novalidate", "-n", NAMESPACE, "-s", f"{signed}.sig")
        assert ssh_keys.ask(signed, *words).returncode == 0
        signed.write_text("something else\n")
        assert ssh_keys.ask(signed, *words).returncode != 0

    def test_what_is_wrong_with_a_key_is_returned(self, signed, tmp_path):
        none = tmp_path / "none"
        none.write_text("not a key\n")
        assert ssh_keys.sign(signed, str(none), NAMESPACE)

    def test_times_of_signers_are_those_of_the_users_zone(self, signed, key, tmp_path, monkeypatch):
        signers = tmp_path / "signers"
        public = key.with_suffix(".pub").read_text().strip()
        # Good from an hour ago by the clock of one zone, which is hours ahead for the other.
        argv = ("date", "-d", "1 hour ago", "+%Y%m%d%H%M%S")
        west = subprocess.run(argv, check=True, capture_output=True, text=True, env={"TZ": "XXX0"})
        signers.write_text(f'ann valid-after="{west.stdout.strip()}" {public}\n')
        monkeypatch.setenv("TZ", "XXX0")
        assert verified(signed, signers)
        monkeypatch.setenv("TZ", "XXX10")
        assert not verified(signed, signers)


def test_a_key_that_is_not_there_is_named(tmp_path):
    with refused(Reason.FILE_MISSING, "ssh-keygen -t ed25519"):
        ssh_keys.sign(tmp_path / "text", str(tmp_path / "key"), NAMESPACE)


def test_a_machine_without_ssh_says_what_to_install(tmp_path, monkeypatch):
    text = tmp_path / "text"
    text.write_text("what is said\n")
    # A shell, which is asked for the program, and nothing else.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for call in (
        lambda: ssh_keys.sign(text, str(text), NAMESPACE),
        lambda: ssh_keys.ask(text, "find-principals", "-s", str(text), "-f", str(text)),
    ):
        with refused(Reason.TOOL_MISSING, "OpenSSH"):
            call()
