"""Images signed and verified: each way to be wrong has its own reason, also for `run`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import trustsite
from images import env_json, make_image
from need import need
from refusing import refused
from registries import OwnRegistry, docker_registry
from signers import Signer
from stackproof.core import noun
from stackproof.core.effects.libc import MountFailure
from stackproof.core.errors import Reason, StackproofError
from stackproof.share import addresses
from stackproof.share.effects import (
    attachments,
    carrying,
    judging,
    measuring,
    oci,
    pulling,
    pushing,
    signing,
    trusted,
)
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.options import RemoteOptions
from stackproof.share.verdict import AttestedVerdict
from trustsite import FULL, Place

pytestmark = [
    pytest.mark.guarantee(
        "Signatures",
        "A signature is of one image, one label and one purpose.",
        "Content, metadata beside it and attached verdicts are in what is signed. Tried: "
        "changed content, changed metadata, a signature of another image, an unknown or "
        "expired key, a date in the future, a missing `ssh-keygen`.",
    ),
]

COVERS = ("share/cli/trust.py", "share/options.py")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return trustsite.made(tmp_path, monkeypatch)


def test_signed_and_verified(place: Place) -> None:
    assert place.reasons() == [Reason.UNSIGNED]
    path = place.sign()
    found = judging.judge(place.image, trusted.signers())
    assert [(one.signed.signer, one.said.label) for one in found.good] == [("me@site", FULL)]
    assert found.good[0].said.image == place.record.digest
    assert found.decision is None
    # anybody can do it by hand
    seal = f"{path}.sig"
    with path.open("rb") as stream:
        argv = ["ssh-keygen", "-Y", "verify", "-f", trusted.signers(), "-I", "me@site", "-n",
                "stackproof-image", "-s", seal]  # fmt: skip
        subprocess.run(argv, stdin=stream, check=True, stdout=subprocess.DEVNULL)


def test_an_image_that_is_a_file_alone(place: Place, tmp_path: Path) -> None:
    file = str(make_image(tmp_path / "alone.squashfs"))
    place.sign(file)
    assert place.reasons(file) == []
    assert (tmp_path / "alone.squashfs.attached").is_dir()


def _change(path: str) -> None:
    os.chmod(path, 0o644)
    with open(path, "r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"x")


def test_each_way_to_be_wrong_has_its_reason(place: Place) -> None:
    statement = place.sign()
    seal = statement.with_name(f"{statement.name}.sig")
    text, sealed = statement.read_bytes(), seal.read_bytes()

    statement.write_bytes(text.replace(b"tiny", b"tidy"))
    assert place.reasons() == [Reason.SIGNATURE_INVALID]
    statement.write_bytes(b"nonsense")
    assert place.reasons() == [Reason.SIGNATURE_INVALID]
    statement.write_bytes(text)
    seal.write_bytes(sealed[: len(sealed) // 2])
    assert place.reasons() == [Reason.SIGNATURE_INVALID]
    seal.write_bytes(b"")
    assert place.reasons() == [Reason.SIGNATURE_INVALID]
    seal.write_bytes(sealed)
    assert place.reasons() == []

    # metadata that uenv would take variables from
    meta = attachments.folder_of(place.image).with_name("meta")
    (meta / "verdict-00000000.json").write_text("{}")
    assert place.reasons() == [Reason.META_MISMATCH]
    (meta / "verdict-00000000.json").unlink()
    assert place.reasons() == []

    # a signature of another image, put beside this one
    other = place.add("other/2:v1@here%x86_64", "b")
    shutil.rmtree(attachments.folder_of(place.image))
    place.sign(other.file, "other/2:v1@here%x86_64")
    shutil.copytree(attachments.folder_of(other.file), attachments.folder_of(place.image))
    assert place.reasons() == [Reason.SIGNATURE_OF_ANOTHER]
    shutil.rmtree(attachments.folder_of(place.image))

    place.sign()
    _change(place.image)
    assert place.reasons() == [Reason.IMAGE_DAMAGED]


def test_whose_key_it_is(place: Place, tmp_path: Path) -> None:
    stranger = Signer(tmp_path, "stranger", tmp_path / "elsewhere")
    place.sign(signer=stranger)
    assert place.reasons() == [Reason.WRONG_SIGNER]
    # good for commits of git, say, and not for images
    place.signer.allow("stranger", stranger.public, 'namespaces="git"')
    assert place.reasons() == [Reason.WRONG_SIGNER]
    place.signer.allow("stranger", stranger.public, 'valid-before="20200101"')
    assert place.reasons() == [Reason.KEY_EXPIRED]
    place.signer.allow("stranger", stranger.public, 'valid-after="20990101"')
    assert place.reasons() == [Reason.CLOCK_SKEW]
    place.signer.allow("stranger", stranger.public, 'valid-before="20990101Z"')
    assert place.reasons() == []
    found = signing.verify(place.image, trusted.signers())
    assert found.good[0].signed.until == 4_070_908_800
    with refused(Reason.NOT_PERMITTED):  # what is no key
        signing.sign(place.image, signing.state(place.image, FULL), trusted.signers())


def test_a_signature_of_tomorrow(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        now = time.time()
        patch.setattr(time, "time", lambda: now + 86_400)
        place.sign()
    assert place.reasons() == [Reason.CLOCK_SKEW]


def test_without_ssh_keygen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.sign()
    empty = place.folder / "bin"
    empty.mkdir()
    (empty / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(empty))
    for work in (place.sign, place.reasons):
        with refused(Reason.TOOL_MISSING):
            work()
    place.say("image = * refuse *\n")
    assert place.admitted() == "tool-missing"


def test_an_older_image_under_a_newer_label_is_warned_of(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.sign()
    newer = place.add("tiny/1:v2@here%x86_64", "b")
    with monkeypatch.context() as patch:
        now = time.time()
        patch.setattr(time, "time", lambda: now + 60)
        place.sign(newer.file)  # as v1, too: the label has moved on
    assert judging.judge(newer.file, trusted.signers()).notes == ()
    (note,) = judging.judge(place.image, trusted.signers()).notes
    assert "newer image" in note


def test_verdicts_are_signed_too(place: Place) -> None:
    attachments.put_verdict(place.image, "verdict-0123abcd.json", b"fast")
    place.sign()
    assert judging.judge(place.image, trusted.signers()).notes == ()
    attachments.put_verdict(place.image, "verdict-0123abcd.json", b"faster")
    attachments.put_verdict(place.image, "verdict-00000000.json", b"{}")
    notes = judging.judge(place.image, trusted.signers()).notes
    assert [("verdict-0123abcd.json" in one, "changed" in one) for one in notes] == [
        (True, True),
        (False, False),
    ]
    for name in ("../x", "signature-1.json", "", "a/b", "report.html"):
        with pytest.raises(StackproofError):
            attachments.put_verdict(place.image, name, b"")


def test_what_a_policy_lets_be_mounted(place: Place, tmp_path: Path) -> None:
    assert place.admitted() == "yes"  # a site without a policy
    place.say("image = * refuse me@site\n")
    assert place.admitted() == "unsigned"
    place.say("image = * allow me@site\n")
    assert place.admitted() == "yes"
    place.say("image = * warn me@site\n")
    assert "not signed as this site asks" in place.admitted()
    stranger = Signer(tmp_path, "stranger", tmp_path / "elsewhere")
    place.sign(signer=stranger)
    assert "nobody's" in place.admitted()
    place.say("image = * refuse me@site\n")
    assert place.admitted() == "wrong-signer"
    place.signer.allow("stranger", stranger.public)
    assert place.admitted() == "wrong-signer"  # known, but not one of those who may
    place.sign()
    assert place.admitted() == "yes"
    place.say("image = tiny/* refuse stranger\nimage = * allow *\n")
    assert place.admitted() == "yes"
    place.say("image = tiny/* refuse nobody\nimage = * allow *\n")
    assert place.admitted() == "wrong-signer"
    _change(place.image)
    place.say("image = * refuse *\n")
    assert place.admitted() == "image-damaged"


def test_a_policy_or_a_record_that_others_may_write_to(place: Place) -> None:
    place.sign()
    place.say("image = * refuse *\n")
    judging_record(place)
    for path, mode in ((place.site / "trust.conf", 0o646), (place.site, 0o777)):
        before = path.stat().st_mode & 0o777
        path.chmod(mode)
        assert place.admitted() == "not-permitted"
        path.chmod(before)
    assert place.admitted() == "yes"
    (place.site / "trust.conf").unlink()
    (place.site / "trust.conf").symlink_to("/etc/passwd")
    assert place.admitted() == "not-permitted"
    (place.site / "trust.conf").unlink()
    place.say("image = * nonsense *\n")
    assert place.admitted() == "invalid-value"
    with (
        open(place.image, "rb") as image,
        pytest.raises(MountFailure, match=r"line 1 of `.*/trust.conf`"),
    ):
        trusted.admit(place.image, image.fileno(), print)


def test_an_image_that_is_not_there_is_not_unsigned(place: Place, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "stackproof", "image", "verify", "tiny/2:v9"]
    env = {**os.environ, "STACKPROOF_REPOSITORY": str(tmp_path / "none")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 6
    assert "there is no image `tiny/2:v9`" in done.stderr


def test_signers_of_a_policy_that_are_nobody(place: Place) -> None:
    place.sign()
    place.say("image = a refuse me@site,*@site\nimage = * warn you@site,*\n")
    (note,) = judging.judge(place.image, trusted.signers()).notes
    assert "the policy asks for `you@site`" in note
    place.say("image = * refuse mee@site\n")
    refused = judging.refusal(judging.judge(place.image, trusted.signers()))
    assert refused is not None
    assert "the policy asks for `mee@site`" in str(refused.problems[0].detail)


def judging_record(place: Place) -> tuple[str, ...]:
    """Record the place's image as the administrator does, who here is this user."""
    found = judging.judge(place.image, trusted.signers())
    signed = tuple(one.signed for one in found.good)
    return trusted.record(place.image, measuring.measure(place.image), signed)


def test_records_of_an_administrator(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.say("image = * refuse me@site\n")
    place.sign()
    names = judging_record(place)
    assert names[0].startswith("verity-")
    monkeypatch.setattr(signing, "verify", lambda *_, **__: pytest.fail("the record is enough"))
    if os.geteuid() == 0:
        assert names[1] == f"file-{os.stat(place.image).st_ino}-{place.record.size}"
        shutil.rmtree(attachments.folder_of(place.image))
        assert place.admitted() == "yes"
        _change(place.image)
        os.chmod(place.image, 0o444)
        assert place.admitted() == "image-damaged"


def test_records_are_looked_at_again(place: Place) -> None:
    need("root")
    place.sign()
    found = judging.judge(place.image, trusted.signers())
    names = judging.record(found)
    assert set(trusted.all_records()) == set(names)
    assert judging.renew(trusted.signers()) == ((place.image, ""),)
    (place.site / "allowed_signers").write_text("")
    ((path, why),) = judging.renew(trusted.signers())
    assert (path, "nobody's" in why) == (place.image, True)
    assert trusted.all_records() == {}


def test_only_root_records(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.sign()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with refused(Reason.NOT_PERMITTED):
        judging.record(judging.judge(place.image, trusted.signers()))


def test_a_digest_is_remembered_until_a_byte_changes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(make_image(place.folder / "old.squashfs"))
    measuring.measure(path)
    assert not (place.folder / "cache" / "digests").exists()  # it may still be written to
    monkeypatch.setattr(measuring, "_SETTLED_S", -1.0)
    first = measuring.measure(path)
    assert len(list((place.folder / "cache" / "digests").iterdir())) == 1
    assert measuring.measure(path) == first
    state = os.stat(path)
    _change(path)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert measuring.measure(path).sha256 != first.sha256


@pytest.mark.battery
def test_the_verbs(tmp_path: Path) -> None:
    need("mksquashfs", "ssh-keygen")
    make_image(tmp_path / "a.squashfs")
    signer = Signer(tmp_path, "me@site", tmp_path / "allowed")
    env = {**os.environ, "STACKPROOF_REPOSITORY": str(tmp_path / "repo"),
           "STACKPROOF_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}  # fmt: skip

    def image(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "stackproof", "image", *words]
        return subprocess.run(
            argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert image("add", FULL, "a.squashfs").returncode == 0
    assert "[usage]" in image("sign", "a.squashfs", "--key", signer.key).stderr
    assert "[image-missing]" in image("sign", "none.squashfs", "--key", signer.key).stderr
    assert "[file-missing]" in image("sign", "tiny").stderr
    assert (
        "[usage]" in image("sign", "tiny", "--key", signer.key, "--namespace", "a/b:c%d@e%f").stderr
    )
    done = image("sign", "tiny", "--key", signer.key, "--namespace", "deploy", "--json")
    assert json.loads(done.stdout)["label"] == f"deploy::{FULL}", done.stderr
    believe = done.stderr.partition("believes nobody here yet: ")[2]
    assert image("verify", "tiny").stderr.startswith("error: nothing says whom to believe")
    (tmp_path / ".ssh").mkdir()
    subprocess.run(["sh", "-c", believe], env={**env, "USER": "mine"}, cwd=tmp_path, check=True)
    done = image("verify", "tiny")
    assert (done.returncode, "signed by mine" in done.stdout) == (0, True), done.stderr
    assert "believes nobody" not in image("sign", "tiny", "--key", signer.key).stderr
    done = image("verify", "tiny", "--signers", "allowed")
    assert (done.returncode, "signed by me@site" in done.stdout) == (0, True), done.stderr
    (one,) = json.loads(image("verify", "tiny", "--signers", "allowed", "--json").stdout)["images"]
    assert one["signatures"][0]["signer"] == "me@site"
    done = image("verify", "a.squashfs", "none.squashfs", "--signers", "allowed")
    assert (done.returncode, done.stderr.count("error:")) == (6, 2)
    assert "[file-missing]" in image("verify", "tiny", "--signers", "none").stderr
    assert "[usage]" in image("verify").stderr


@pytest.mark.battery
@pytest.mark.parametrize("server", ["own", "docker"])
def test_signatures_go_with_an_image_to_a_registry_and_back(
    place: Place, tmp_path: Path, server: str
) -> None:
    """To another user's repository, where the policy refuses what is not signed."""
    if server == "docker":
        need("docker-registry")
    verdict = AttestedVerdict(image=place.record.digest, verdict="PASS", specification="0123abcd")
    fast = noun.to_json(verdict).encode()
    attachments.put_verdict(place.image, "verdict-0123abcd.json", fast)
    place.sign()
    remote = f"deploy::{FULL}"
    with contextlib.ExitStack() as stack:
        if server == "docker":
            address = stack.enter_context(docker_registry(tmp_path / "server"))
        else:
            address = stack.enter_context(OwnRegistry()).address
        registry = oci.opened(RemoteOptions(registry=f"{address}/images"))
        stack.callback(registry.client.close)
        meant = addresses.parse_remote(remote)
        done = pushing.push(registry, place.image, meant)
        assert carrying.send(registry, pulling.look(registry, meant), place.image) == 2
        assert carrying.send(registry, pulling.look(registry, meant), place.image) == 0
        other = make_image(tmp_path / "other.squashfs", meta=env_json(name="other"))
        unsigned = addresses.parse_remote("deploy::other/1:v1@here%x86_64")
        pushing.push(registry, str(other), unsigned)

        place.say("image = * refuse me@site\n")
        there = ImageRepository(tmp_path / "elsewhere")
        image = pulling.look(registry, meant)
        carried = carrying.fetch(registry, image)
        carrying.admit(image, carried, pytest.fail)
        record = pulling.pull(registry, image, there).record
        carrying.put(record.file, carried)
        assert record.digest == place.record.digest
        assert place.reasons(record.file) == []
        assert place.admitted(record.file) == "yes"
        assert attachments.verdicts(record.file)["verdict-0123abcd.json"].read_bytes() == fast

        # another key: signed and pushed again, pulled again, then the old key's line goes
        newer = Signer(tmp_path, "new@site", place.site / "allowed_signers")
        place.say("image = * refuse me@site,new@site\n")
        place.sign(signer=newer)
        assert pushing.push(registry, place.image, meant).sent == 0
        assert carrying.send(registry, pulling.look(registry, meant), place.image) == 1
        image = pulling.look(registry, meant)
        assert pulling.pull(registry, image, there).received == 0
        carrying.put(record.file, carrying.fetch(registry, image))
        place.signer.allow("me@site", newer.public)
        assert place.admitted(record.file) == "yes"
        place.signer.allow("me@site", place.signer.public)
        place.say("image = * refuse me@site\n")

        bad = pulling.look(registry, unsigned)
        with refused(Reason.UNSIGNED):
            carrying.admit(bad, carrying.fetch(registry, bad), pytest.fail)
        # the tag is moved to what nobody signed; the old signatures are put beside it
        pushing.push(registry, str(other), meant, force=True)
        moved = pulling.look(registry, meant)
        with refused(Reason.SIGNATURE_OF_ANOTHER):
            carrying.admit(moved, carried, pytest.fail)
        assert done.listed.digest == place.record.digest
        place.say("image = * warn me@site\n")
        warnings: list[str] = []
        carrying.admit(bad, carrying.fetch(registry, bad), warnings.append)
        assert len(warnings) == 1
