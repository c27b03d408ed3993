"""Images signed by cosign: by a stand-in for what is ours, and by cosign itself."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import debianroot
from images import env_json, make_image
from need import need, private_namespaces
from registries import OwnRegistry
from signers import Signer
from stackproof.core.effects.libc import MountFailure
from stackproof.core.errors import Reason, StackproofError
from stackproof.share import addresses
from stackproof.share.effects import (
    admission,
    attachments,
    carrying,
    judging,
    pulling,
    pushing,
    remotes,
    signing,
    storing,
    trusted,
)
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.effects.storing import AddOptions
from stackproof.share.labels import parse
from stackproof.share.options import RemoteOptions
from stackproof.share.trust import policy, sigstore
from stackproof.share.trust.effects import cosign

FULL = "tiny/1:v1@here%x86_64"
PUBLIC = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEad5bJVmLGiT9zcQWriFeXcYmimUI
a0HEdH9Whn3tQ2ES4rZkZJY356D9JWrEOWyQ8j33wfeXkHiv1mn7Ufp4FA==
-----END PUBLIC KEY-----
"""
LINE = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBGneWyVZixok/c3EFq4h"
    "Xl3GJoplCGtBxHR/VoZ97UNhEuK2ZGSWN+eg/SVqxDlskPI998H3l5B4r9Zp+1H6eBQ="
)
STAND_IN = f"""#!{sys.executable} -IS
import base64, hashlib, json, os, sys
words = sys.argv[1:]
said = dict(zip(words, words[1:]))
with open(os.path.join(os.path.dirname(__file__), "said"), "a") as log:
    log.write(" ".join(words) + "\\n")
if "--help" in words:
    print("--new-bundle-format --use-signing-config")
    sys.exit()
content = open(words[-1], "rb").read()
key = open(said["--key"]).read().splitlines()
der = base64.b64decode("".join(key[1:-1]))
seal = lambda: base64.b64encode(hashlib.sha256(der + content).digest()).decode()
if words[0] == "sign-blob":
    if os.environ["COSIGN_PASSWORD"] != "secret":
        sys.exit("Error: reading key: decryption failed\\nerror during command execution: again")
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    hint = base64.b64encode(hashlib.sha256(der).digest()).decode()
    bundle = {{
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {{"publicKey": {{"hint": hint}}}},
        "messageSignature": {{
            "messageDigest": {{"algorithm": "SHA2_256", "digest": digest}}, "signature": seal(),
        }},
    }}
    json.dump(bundle, open(said["--bundle"], "w"))
elif json.load(open(said["--bundle"]))["messageSignature"]["signature"] != seal():
    sys.exit("Error: invalid signature when validating ASN.1 encoded signature")
"""


class Place:
    """A repository with an image, a key that a stand-in for cosign takes, and a site's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "etc"
        self.site.mkdir(mode=0o755)
        self.repository = ImageRepository(folder / "repo")
        file = make_image(folder / "a.squashfs", meta=env_json(name="a"))
        self.record = storing.add(self.repository, AddOptions(label=parse(FULL), file=str(file)))
        self.allow()
        (self.site / "allowed_signers").chmod(0o644)
        self.key = str(folder / "cosign.key")
        Path(self.key).write_text(PUBLIC.replace("PUBLIC", "ENCRYPTED SIGSTORE PRIVATE"))
        self.said = folder / "bin/said"

    @property
    def image(self) -> str:
        return self.record.file

    def allow(self, options: str = 'namespaces="stackproof-image"', name: str = "ci@site") -> None:
        (self.site / "allowed_signers").write_text(f"{name} {options} {LINE}\n")

    def sign(self) -> Path:
        return signing.sign_by_cosign(self.image, signing.state(self.image, FULL), self.key)

    def reasons(self, image: str = "") -> list[Reason]:
        found = signing.verify(image or self.image, trusted.signers())
        return [] if found.good else [one.reason for one in found.problems]

    def admitted(self, image: str = "") -> str:
        descriptor = os.open(image or self.image, os.O_RDONLY)
        try:
            admission.admit(image or self.image, descriptor, pytest.fail)
        except MountFailure as failure:
            return failure.reason
        finally:
            os.close(descriptor)
        return "yes"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    need("mksquashfs")
    monkeypatch.setattr(policy, "FOLDER", str(tmp_path / "etc"))
    monkeypatch.setattr(trusted, "_of_root", lambda user: user == os.geteuid())
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("STACKPROOF_REPOSITORY", str(tmp_path / "repo"))
    monkeypatch.setenv("COSIGN_PASSWORD", "secret")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/cosign"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return Place(tmp_path)


def test_a_bundle_as_cosign_writes_it() -> None:
    """What cosign 2.5.0 made of `hello`, by the key of `PUBLIC`."""
    content = (
        b'{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial"'
        b':{"publicKey":{"hint":"osg7tQKtlDoSNbYKKs4EUMB+DykNyyYg7Ku3/hZ1gSM="}}, "messageSign'
        b'ature":{"messageDigest":{"algorithm":"SHA2_256", "digest":"WJG1tSLV3whtD/CxEPvZ0hu0/'
        b'HFjrzTQgoai6Eb2vgM="}, "signature":"MEQCICxT0vQfkYg63BT6zwRPOXJ9xvmapu8DUDhg3lToCvIf'
        b'AiB2AMY4off/KnWUOv0H1RbTDHQLSnucHmed01edZeVr7Q=="}}'
    )
    found = sigstore.parse(content, file="f")
    assert found.sha256 == hashlib.sha256(b"hello\n").hexdigest()
    (signer,) = sigstore.signers(f"ci@site {LINE} a comment")
    assert (signer.hint, signer.pem, signer.name) == (found.hint, PUBLIC, "ci@site")
    assert signer.fingerprint == "SHA256:" + base64.b64encode(
        hashlib.sha256(base64.b64decode(LINE.split()[1])).digest()
    ).decode().rstrip("=")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:200], lambda _: b"", lambda _: b"[]", lambda _: b"{}",
        lambda _: b'{"a":' * 100_000, lambda _: b"\xff",
        lambda text: text.replace(b"v0.3", b"v0.4"),
        lambda text: text.replace(b"SHA2_256", b"SHA2_512"),
        lambda text: text.replace(b'"digest": "', b'"digest": "!'),
        lambda text: text.replace(b"messageSignature", b"dsseEnvelope"),
        lambda text: text.replace(b"publicKey", b"certificate"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_bundle(place: Place, change: Callable[[bytes], bytes]) -> None:
    seal = cosign.make(b"text", place.key, what="it")
    with pytest.raises(StackproofError) as caught:
        sigstore.parse(change(seal), file="f")
    assert caught.value.reason is Reason.SIGNATURE_INVALID


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (f'ci@site namespaces="git,stackproof-image",valid-before="20300101Z" {LINE}', 1),
        (f"  ci@site  {LINE}", 1),
        (f"#ci@site {LINE}", 0),
        (f"*@site {LINE}", 0),
        (f"a,b {LINE}", 0),
        (f"ci@site cert-authority {LINE}", 0),
        (f'ci@site namespaces="!stackproof-image,*" {LINE}', 0),
        (f'ci@site namespaces="" {LINE}', 0),
        (f'ci@site no-touch-required="x" {LINE}', 0),
        (f'ci@site valid-after="soon" {LINE}', 0),
        (f'ci@site valid-before="20309999Z" {LINE}', 0),
        (f'ci@site valid-before="20200101",valid-before="20300101" {LINE}', 0),
        (f"ci@site {LINE[:-8]}", 0),
        (f"ci@site {LINE[:-4]}!!!!", 0),
        ("ci@site ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA", 0),
        (f"ci@site {LINE}".replace("ecdsa-sha2-nistp256 ", "sk-ecdsa-sha2-nistp256 "), 0),
    ],
)
def test_lines_of_allowed_signers(line: str, count: int) -> None:
    assert len(sigstore.signers(line)) == count


def test_signed_and_verified(place: Place) -> None:
    assert place.reasons() == [Reason.UNSIGNED]
    path = place.sign()
    assert attachments.documents(place.image) == {}
    bundle = path.with_name(f"{path.name}.sigstore.json")
    assert json.loads(bundle.read_bytes())["mediaType"] == sigstore.BUNDLE
    found = judging.judge(place.image, trusted.signers())
    (good,) = found.good
    assert (good.signed.signer, good.said.label, good.key[:7]) == ("ci@site", FULL, "SHA256:")
    said = place.said.read_text()
    assert "secret" not in said
    for line in said.splitlines():
        if line.startswith("sign-blob --yes"):
            assert "--tlog-upload=false --new-bundle-format=true" in line
            assert "--use-signing-config=false" in line
        elif line.startswith("verify-blob --key"):
            assert "--insecure-ignore-tlog=true --trusted-root" in line


def test_versions_of_cosign(place: Place) -> None:
    """3.1 still takes the option for the form of bundles, and names it no more."""
    program = place.folder / "bin/cosign"
    newest = STAND_IN.replace("--new-bundle-format --use-", "--trusted-root --use-")
    second = STAND_IN.replace("--new-bundle-format --use-signing-config", "--new-bundle-format")
    for text, wanted in (
        (newest, "--use-signing-config=false"), (second, "--new-bundle-format=true"),
    ):  # fmt: skip
        program.write_text(text)
        place.said.unlink(missing_ok=True)
        place.sign()
        (line,) = [one for one in place.said.read_text().splitlines() if "--yes" in one]
        before = line.rpartition(" ")[0]
        assert before.endswith(f"--tlog-upload=false {wanted}")
        assert place.reasons() == []


def test_each_way_to_be_wrong_has_its_reason(place: Place) -> None:
    path = place.sign()
    bundle = path.with_name(f"{path.name}.sigstore.json")
    text, sealed = path.read_bytes(), bundle.read_bytes()
    for name, content in (
        (path, text.replace(b"tiny", b"tidy")), (bundle, sealed[:100]), (bundle, b"{}"),
        (bundle, sealed.replace(b'"signature": "', b'"signature": "AAAA')),
    ):  # fmt: skip
        name.write_bytes(content)
        assert place.reasons() == [Reason.SIGNATURE_INVALID]
        path.write_bytes(text)
        bundle.write_bytes(sealed)
    bundle.write_bytes(sealed + b" " * 100_000)
    assert place.reasons() == [Reason.UNSIGNED]  # too large: it is not read
    bundle.write_bytes(sealed)
    for options, reason in (
        ('namespaces="stackproof-document"', Reason.WRONG_SIGNER),
        ("cert-authority", Reason.WRONG_SIGNER),
        ('valid-before="20200101Z"', Reason.KEY_EXPIRED),
        ('valid-after="20990101Z"', Reason.CLOCK_SKEW),
    ):
        place.allow(options)
        assert place.reasons() == [reason]
    place.allow('valid-before="20990101Z"')
    assert place.reasons() == []
    found = signing.verify(place.image, trusted.signers())
    assert found.good[0].signed.until == 4_070_908_800
    # of two lines for one key the one that is good counts
    lines = (place.site / "allowed_signers").read_text()
    (place.site / "allowed_signers").write_text(f'ci@site valid-before="20200101" {LINE}\n{lines}')
    assert place.reasons() == []
    os.chmod(place.image, 0o644)
    with open(place.image, "r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"x")
    assert place.reasons() == [Reason.IMAGE_DAMAGED]


def _cannot_sign(place: Place, reason: Reason) -> str:
    with pytest.raises(StackproofError) as caught:
        place.sign()
    assert caught.value.reason is reason
    assert not attachments.folder_of(place.image).exists()
    return caught.value.problems[0].worded("error")


def test_what_keeps_from_signing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("COSIGN_PASSWORD", "other")
        assert "decryption failed" in _cannot_sign(place, Reason.NOT_PERMITTED)
        patch.delenv("COSIGN_PASSWORD")
        patch.setattr(sys, "stdin", io.StringIO())
        assert "nobody to ask" in _cannot_sign(place, Reason.NOT_PERMITTED)
    place.key, key = f"{place.key}.none", place.key
    _cannot_sign(place, Reason.FILE_MISSING)
    place.key = key
    program = place.folder / "bin/cosign"
    program.write_text("#!/bin/sh\necho help of an old one\n")
    _cannot_sign(place, Reason.TOOL_MISSING)


def test_without_cosign_other_signatures_count(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("ssh-keygen")
    place.sign()
    lines = (place.site / "allowed_signers").read_text()
    (place.folder / "bin/cosign").unlink()
    only = place.folder / "only"
    only.mkdir()
    for name in ("sh", "ssh-keygen"):
        (only / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(only))
    with pytest.raises(StackproofError) as caught:
        place.reasons()
    assert caught.value.reason is Reason.TOOL_MISSING
    (place.site / "trust.conf").write_text("image = * refuse *\n")
    assert place.admitted() == "tool-missing"
    signer = Signer(place.folder, "me@site", place.site / "allowed_signers")
    with (place.site / "allowed_signers").open("a") as stream:
        stream.write(lines)
    signing.sign(place.image, signing.state(place.image, FULL), signer.key)
    assert place.reasons() == []
    assert place.admitted() == "yes"


def test_a_policy_and_a_registry(place: Place, tmp_path: Path) -> None:
    """The policy asks for a name, whatever program that signs with; bundles go where images go."""
    (place.site / "trust.conf").write_text("image = * refuse ci@site\n")
    assert place.admitted() == "unsigned"
    place.sign()
    assert place.admitted() == "yes"
    with OwnRegistry() as server, contextlib.ExitStack() as stack:
        registry = remotes.opened(RemoteOptions(registry=f"{server.address}/images"))
        stack.callback(registry.client.close)
        meant = addresses.parse_remote(f"deploy::{FULL}")
        pushing.push(registry, place.image, meant)
        assert carrying.send(registry, pulling.look(registry, meant), place.image) == 1
        image = pulling.look(registry, meant)
        ((_, attached),) = [one for one in image.attached if one[1].kind == carrying.SIGNATURE]
        assert attached.layers[1].media_type == sigstore.BUNDLE
        carried = carrying.fetch(registry, image)
        carrying.admit(image, carried, pytest.fail)
        there = ImageRepository(tmp_path / "elsewhere")
        record = pulling.pull(registry, image, there).record
        carrying.put(record.file, carried)
    assert place.admitted(record.file) == "yes"
    (place.site / "trust.conf").write_text("image = * refuse me@site\n")
    assert place.admitted(record.file) == "wrong-signer"


def test_a_record_for_the_helper_ends_with_the_key(place: Place) -> None:
    """The helper runs no cosign: it reads what root wrote, with the end of the key."""
    need("root")
    place.allow('valid-before="20990101Z"')
    place.sign()
    names = judging.record(judging.judge(place.image, trusted.signers()))
    (signed,) = trusted.all_records()[names[0]].signed
    assert (signed.signer, signed.until) == ("ci@site", 4_070_908_800)
    (place.site / "allowed_signers").write_text("")
    ((_, why),) = judging.renew(trusted.signers())
    assert "nobody's" in why


@pytest.fixture(scope="session")
def real_cosign(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return cosign: this machine's, or Debian 13's, which needs no other library."""
    found = shutil.which("cosign")
    if found is not None:
        return found
    need("debian-archive")
    return str(debianroot.bare(tmp_path_factory.mktemp("cosign"), "trixie", "cosign") /
               "usr/bin/cosign")  # fmt: skip


@pytest.mark.battery
def test_with_cosign_itself(
    tmp_path: Path, real_cosign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle holds by cosign's own command as well, and another's key does not."""
    need("mksquashfs", "ssh-keygen", "userns")
    for name, value in {
        "STACKPROOF_CACHE": str(tmp_path / "cache"), "COSIGN_PASSWORD": "secret",
        "PATH": f"{os.path.dirname(real_cosign)}:{os.environ['PATH']}",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def out(*argv: str) -> str:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    image, allowed = str(make_image(tmp_path / "a.squashfs")), tmp_path / "allowed"

    def allow(key: str) -> str:
        line = out("ssh-keygen", "-i", "-m", "PKCS8", "-f", key)
        allowed.write_text(f'ci@site namespaces="stackproof-image" {line}')
        return sigstore.signers(allowed.read_text())[0].hint

    def reasons() -> list[Reason]:
        return [one.reason for one in signing.verify(image, str(allowed)).problems]

    for words in ((), ("--output-key-prefix", "other")):
        out("cosign", "generate-key-pair", *words)
    assert cosign.is_key("cosign.key")
    path = signing.sign_by_cosign(image, signing.state(image, FULL), "cosign.key")
    allow("cosign.pub")
    (good,) = signing.verify(image, str(allowed)).good
    assert (good.signed.signer, good.said.label) == ("ci@site", FULL)
    # by hand, as the documentation has it, without any network
    bundle = Path(f"{path}.sigstore.json")
    Path("none.json").write_text(cosign.NO_AUTHORITIES)
    out(*private_namespaces("--net"), "cosign", "verify-blob", "--key", "cosign.pub", "--bundle",
        str(bundle), "--new-bundle-format", "--insecure-ignore-tlog", "--trusted-root",
        "none.json", str(path))  # fmt: skip
    hint = allow("other.pub")
    assert reasons() == [Reason.WRONG_SIGNER]
    data = json.loads(bundle.read_text())
    data["verificationMaterial"]["publicKey"]["hint"] = hint
    bundle.write_text(json.dumps(data))  # it says that the other key made it
    assert reasons() == [Reason.SIGNATURE_INVALID]
    monkeypatch.setenv("COSIGN_PASSWORD", "wrong")
    with pytest.raises(StackproofError) as caught:
        signing.sign_by_cosign(image, signing.state(image, FULL), "cosign.key")
    assert "decryption failed" in str(caught.value.problems[0].detail)


def test_the_verb(place: Place) -> None:
    def image(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "stackproof", "image", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    done = image("sign", FULL, "--key", place.key)
    assert (done.returncode, f"--cosign {place.key}" in done.stderr) == (2, True)
    done = image("sign", FULL, "--cosign", place.key, "--json")
    assert json.loads(done.stdout)["label"] == FULL, done.stderr
    done = image("verify", FULL, "--signers", str(place.site / "allowed_signers"))
    assert (done.returncode, "signed by ci@site" in done.stdout) == (0, True), done.stderr
