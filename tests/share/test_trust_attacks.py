"""What somebody tries to have an image taken for another one, or signed by a key that has ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

import inprocess
import trustsite
from need import need
from registries import OwnRegistry
from signers import Signer
from stackproof.core.errors import Reason, StackproofError
from stackproof.share.effects import attachments, judging, signing, trusted
from stackproof.share.trust import policy
from trustsite import Place

WANTED = "prgenv/3:v9@here%x86_64"
OTHER = "linalg/1:v1@here%x86_64"
OLDER = "prgenv/2:v1@here%x86_64"
POLICY = "image = prgenv* refuse release@site\nimage = build::* allow *\n"
"""The second line lets whoever has a key sign anything for `build`."""


class Site(Place):
    """A site where `release@site` answers for what is called prgenv, and `ci@site` has a key."""

    def __init__(self, place: Place) -> None:
        self.__dict__.update(place.__dict__)
        allowed = self.site / "allowed_signers"
        self.release, self.ci = (
            Signer(self.folder, f"{one}@site", allowed) for one in ("release", "ci")
        )
        self.say(POLICY)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(trustsite.made(tmp_path, monkeypatch))


SIGNED_AS = {
    "moved": [(OTHER, "release")],
    "older": [(OLDER, "release")],
    "of_the_pipeline": [("build::zzz/1:v1@here%x86_64", "ci")],
    "of_the_pipeline_by_that_name": [(f"build::{WANTED}", "ci")],
    "two_of_which_one_is_for_it": [(OTHER, "release"), (WANTED, "ci")],
    "of_another_system": [(WANTED.replace("@here", "@there"), "release")],
    "in_capitals": [(WANTED.upper(), "release")],
    "without_a_tag": [(WANTED.replace(":v9", ""), "release")],
    "with_a_tag_that_is_empty": [(WANTED.replace(":v9", ":"), "release")],
    "for_any_system": [(WANTED.replace("@here", "@*"), "release")],
}
"""As what, and by whom, the image is signed that the label names: the label is moved to it."""
REASONS = dict.fromkeys(
    ("of_the_pipeline_by_that_name", "two_of_which_one_is_for_it"), "wrong-signer"
)


def _moved(site: Site, attack: str = "moved") -> None:
    """The label names an image that is signed, and is another one."""
    other = site.add(WANTED, "b")
    for label, signer in SIGNED_AS[attack]:
        site.sign(other.file, label, getattr(site, signer))


@pytest.mark.guarantee(
    "Signatures",
    "It counts for the label that was asked for,",
    "in every verb, the helper and the plug-in. Tried: moved tags, older images, other "
    "namespaces, crafted rows of an index, a file planted in the working folder. An image "
    "that is named by its file or digest counts as what it is signed as.",
)
@pytest.mark.battery
@pytest.mark.parametrize("attack", SIGNED_AS)
def test_an_image_under_a_label_that_it_is_not_signed_as(site: Site, attack: str) -> None:
    """By a label, an older one, or with parts left out: nothing that names an image takes it."""
    _moved(site, attack)
    reason = REASONS.get(attack, "another-label")
    for word in (WANTED, "prgenv/3", "prgenv"):
        done = inprocess.stackproof("image", "verify", word)
        assert (done.returncode, f"[{reason}]" in done.stderr) == (6, True), (word, done.stderr)
    for words in (
        ("run", WANTED, "--", "true"),
        ("run", "--how", "fuse", "prgenv", "--", "true"),
        ("activate", "--null", WANTED),
    ):
        done = site.verb(*words)
        assert f"[{reason}]" in done.stderr, (words, done.stdout, done.stderr)
        assert done.returncode == 6


@pytest.mark.battery
def test_what_is_signed_as_it_is_called_is_taken(site: Site) -> None:
    """Else nothing above would be worth anything."""
    need("squashfuse", "fuse", "userns")
    record = site.add(WANTED, "b")
    site.sign(record.file, OTHER, site.release)
    site.sign(record.file, WANTED, site.release)
    for word in (WANTED, "prgenv", record.digest, record.file):
        assert inprocess.stackproof("image", "verify", word).returncode == 0
    for word in (WANTED, "prgenv/3", record.file):
        done = site.verb("run", "--how", "fuse", word, "--", "echo", "hello")
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


@pytest.mark.battery
def test_an_index_whose_labels_are_read_as_others(site: Site) -> None:
    """A part of a label that looks like a namespace and another label, which is signed."""
    site.say(f"{POLICY}image = * refuse release@site\n")
    other = site.add(WANTED, "b")
    site.sign(other.file, OTHER, site.release)
    for part in (f"x::{OTHER}", "u,", "u x", f"x86_64@here%x::{OTHER}", ""):
        with contextlib.closing(sqlite3.connect(site.folder / "repo" / "index.db")) as index, index:
            index.execute("UPDATE uenv SET uarch = ?", (part,))
            index.commit()
        for word in ("prgenv/3:v9", "prgenv"):
            assert inprocess.stackproof("image", "verify", word).returncode == 6
            done = site.verb("run", word, "--", "true")
            assert (done.returncode == 6, "bug" in done.stderr) == (True, False), done.stderr


def test_a_file_that_somebody_put_into_the_working_folder(site: Site) -> None:
    """A file comes before a label of its name; as what it is asked for then is no other matter."""
    record = site.add(WANTED, "b")
    site.sign(record.file, WANTED, site.release)
    work = site.folder / "shared"
    work.mkdir()
    shutil.copy(record.file.replace(record.digest, site.record.digest), work / "prgenv")
    site.sign(str(work / "prgenv"), "build::zzz/1:v1@here%x86_64", site.ci)
    done = inprocess.stackproof("image", "verify", "prgenv", cwd=work)
    assert (done.returncode, "[another-label]" in done.stderr) == (6, True), done.stderr
    done = site.verb("run", "prgenv", "--", "true", cwd=work)
    assert (done.returncode, "[another-label]" in done.stderr) == (6, True), done.stderr
    assert inprocess.stackproof("image", "verify", "./prgenv", cwd=work).returncode == 0


def test_without_a_policy_verify_says_it_all_the_same(site: Site) -> None:
    _moved(site)
    (site.site / "trust.conf").unlink()
    done = inprocess.stackproof("image", "verify", "prgenv")
    assert (done.returncode, "[another-label]" in done.stderr) == (6, True)
    assert f"`release@site` signed it as `{OTHER}`, not as `{WANTED}`" in done.stderr
    (record,) = (one for one in site.repository.records() if str(one.label) == WANTED)
    assert inprocess.stackproof("image", "verify", record.file).returncode == 0


@pytest.mark.guarantee("Signatures", "It counts for the label that was asked for,")
@pytest.mark.battery
@pytest.mark.parametrize(
    ("signed", "pulled", "reason"),
    [
        (f"deploy::{OTHER}", WANTED, "another-label"),
        (f"build::{WANTED}", WANTED, "another-label"),
        (OTHER, WANTED, "another-label"),
        (f"deploy::{WANTED}", WANTED, ""),
        (WANTED, WANTED, ""),
    ],
)
def test_a_tag_of_a_registry_that_names_what_is_signed_as_another(
    site: Site, signed: str, pulled: str, reason: str
) -> None:
    record = site.add(OTHER, "b")
    site.sign(record.file, signed, site.release)
    with OwnRegistry() as server:
        registry = ("--registry", f"{server.address}/images")
        pushed = inprocess.stackproof("image", "push", OTHER, f"deploy::{pulled}", *registry)
        assert pushed.returncode == 0, pushed.stderr
        there = {"STACKPROOF_REPOSITORY": str(site.folder / "elsewhere")}
        done = inprocess.stackproof("image", "pull", f"deploy::{pulled}", *registry, **there)
    assert done.returncode == (6 if reason else 0), done.stderr
    assert f"[{reason}]" in done.stderr or not reason


def test_a_copy_of_an_image_that_nobody_signed_says_nothing_of_signatures(site: Site) -> None:
    site.add(WANTED, "b")
    with OwnRegistry() as server:
        registry = ("--registry", f"{server.address}/images")
        pushed = inprocess.stackproof("image", "push", WANTED, f"build::{WANTED}", *registry)
        assert pushed.returncode == 0, pushed.stderr
        copied = inprocess.stackproof(
            "image", "copy", "--json", f"build::{WANTED}", f"deploy::{WANTED}", *registry
        )
    assert copied.returncode == 0, copied.stderr
    assert "signature" not in copied.stderr
    assert json.loads(copied.stdout)["sign"] == []


@pytest.mark.battery
@pytest.mark.parametrize("signer", ["release", "ci"])
def test_another_label_by_copy_wants_another_signature(site: Site, signer: str) -> None:
    """And `copy` says how that is made: as written, one who may sign makes it."""
    record = site.add(WANTED, "b")
    site.sign(record.file, WANTED, site.release)
    latest = WANTED.replace(":v9", ":latest")
    there = {"STACKPROOF_REPOSITORY": str(site.folder / "elsewhere")}
    with OwnRegistry() as server:

        def image(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
            registry = ("--registry", f"{server.address}/images")
            key = ("--key", getattr(site, signer).key)
            more = key if words[0] == "sign" else registry
            return inprocess.stackproof("image", *words, *more, **environment)

        assert image("push", WANTED, f"deploy::{WANTED}").returncode == 0
        copied = image("copy", f"deploy::{WANTED}", f"deploy::{latest}")
        assert copied.returncode == 0, copied.stderr
        assert f"is none of `deploy::{latest}`" in copied.stderr
        assert "[another-label]" in image("pull", f"deploy::{latest}", **there).stderr
        lines = [line.split() for line in copied.stderr.splitlines() if "  stackproof" in line]
        assert [line[2] for line in lines] == ["pull", "sign", "push"]
        for line in lines:
            done = image(*line[2:])
            assert done.returncode == 0, done.stderr
        done = image("pull", f"deploy::{latest}", **there)
        assert (done.returncode == 0) == (signer == "release"), done.stderr


@pytest.mark.guarantee("Signatures", "A record holds only what root named")
def test_a_record_is_for_the_label_that_root_named(site: Site) -> None:
    """Also when it is looked at again: what the pipeline signs later does not get into it."""
    need("root")
    record = site.add(WANTED, "b")
    release = site.sign(record.file, WANTED, site.release)
    site.sign(record.file, "build::zzz/1:v1@here%x86_64", site.ci)
    latest = WANTED.replace(":v9", ":latest")

    def recorded() -> set[str]:
        return {row.label for one in trusted.all_records().values() for row in one.signed}

    def verify(*words: str) -> None:
        done = inprocess.stackproof("image", "verify", "--record", *words)
        assert done.returncode == 0, done.stderr

    verify(WANTED)
    assert recorded() == {WANTED}
    verify()
    assert recorded() == {WANTED}
    site.add(latest, "b")
    site.sign(record.file, latest, site.release)
    verify(latest)
    assert recorded() == {WANTED, latest}
    verify()
    assert recorded() == {WANTED, latest}
    release.unlink()
    for one in attachments.signatures(record.file):
        if latest.encode() in one.statement:
            os.unlink(one.file)
    verify()
    assert trusted.all_records() == {}


@pytest.mark.guarantee(
    "Signatures",
    "Nobody chooses a milder line of a policy by a label of their own.",
)
@pytest.mark.parametrize("attack", trustsite.ATTACKS)
@pytest.mark.parametrize("number", range(len(trustsite.example_policies())))
def test_the_policies_of_the_page(number: int, attack: str) -> None:
    asked, signed = trustsite.ATTACKS[attack]
    rules = policy.parse(trustsite.example_policies()[number])
    found = policy.decide(rules, signed, now=trustsite.NOW, asked=asked)
    assert found.action is policy.TrustAction.REFUSE
    assert found.reason is not None


def test_the_page_has_policies() -> None:
    assert len(trustsite.example_policies()) == 2


def test_by_a_build_of_the_page_nobody_passes_by_what_is_refused(site: Site) -> None:
    """As it really goes: the first policy of the page, a key that is known, and `run`."""
    rules = trustsite.example_policies()[0].replace("@example.org", "@site")
    site.say(rules.replace("prgenv-*", "prgenv*"))
    record = site.add(WANTED, "b")
    site.sign(record.file, "build::zzz/1:v1@here%x86_64", site.signer)
    for word, reason in ((WANTED, "another-label"), (record.file, "wrong-signer")):
        done = site.verb("run", word, "--", "true")
        assert (done.returncode, f"[{reason}]" in done.stderr) == (6, True), done.stderr


def _authority(site: Site) -> Signer:
    return Signer(site.folder, "authority", site.folder / "unused")


def _certified(site: Site, authority: Signer, *options: str) -> str:
    """Return the certificate of the key of `ci@site`, made with options of ssh-keygen."""
    public = f"{site.ci.key}.pub"
    argv = ["ssh-keygen", "-q", "-s", authority.key, "-I", "id", *options, public]
    subprocess.run(argv, check=True, capture_output=True)
    return f"{site.ci.key}-cert.pub"


_HOUR = ("-V", "-1m:+60m")
_CA = "ci@site cert-authority AUTHORITY"
FORMS: dict[str, tuple[str, tuple[str, ...], Reason | None]] = {
    "good": (_CA, ("-n", "ci@site", *_HOUR), None),
    "for ever": (_CA, ("-n", "ci@site"), None),
    "one principal of two": (_CA, ("-n", "me@site,ci@site", *_HOUR), None),
    "two names": ("x@site,ci@site cert-authority AUTHORITY", ("-n", "ci@site", *_HOUR), None),
    "a pattern": ("*@site cert-authority AUTHORITY", ("-n", "ci@site", *_HOUR), None),
    "a namespace": (
        'ci@site cert-authority,namespaces="stackproof-image" AUTHORITY', ("-n", "ci@site", *_HOUR), None,
    ),
    "an extension": (_CA, ("-n", "ci@site", *_HOUR, "-O", "extension:a@b=c"), None),
    "good until the line is not": (
        'ci@site cert-authority,valid-before="20990101Z" AUTHORITY', ("-n", "ci@site"), None,
    ),
    "the line after": (
        'ci@site cert-authority,valid-after="20200101Z" AUTHORITY', ("-n", "ci@site", *_HOUR), None,
    ),
    "itself": ("ci@site CERTIFICATE", ("-n", "ci@site", *_HOUR), None),
    "ended": (_CA, ("-n", "ci@site", "-V", "20200101:20200102"), Reason.KEY_EXPIRED),
    "ended at once": (_CA, ("-n", "ci@site", "-V", "20200101:-1s"), Reason.KEY_EXPIRED),
    "not yet": (_CA, ("-n", "ci@site", "-V", "20990101:20990102"), Reason.CLOCK_SKEW),
    "of a machine": (_CA, ("-h", "-n", "ci@site", *_HOUR), Reason.WRONG_SIGNER),
    "for nobody": (_CA, _HOUR, Reason.WRONG_SIGNER),
    "for another": (_CA, ("-n", "me@site", *_HOUR), Reason.WRONG_SIGNER),
    "for a pattern": (_CA, ("-n", "*@site", *_HOUR), Reason.WRONG_SIGNER),
    "for a part": (_CA, ("-n", "ci", *_HOUR), Reason.WRONG_SIGNER),
    "in capitals": (_CA, ("-n", "CI@SITE", *_HOUR), Reason.WRONG_SIGNER),
    "for one command": (
        _CA, ("-n", "ci@site", *_HOUR, "-O", "force-command=true"), Reason.WRONG_SIGNER,
    ),
    "from one address": (
        _CA, ("-n", "ci@site", *_HOUR, "-O", "source-address=10.0.0.0/8"), Reason.WRONG_SIGNER,
    ),
    "with what nobody knows": (
        _CA, ("-n", "ci@site", *_HOUR, "-O", "critical:a@b=c"), Reason.WRONG_SIGNER,
    ),
    "with a presence": (
        _CA, ("-n", "ci@site", *_HOUR, "-O", "verify-required"), Reason.WRONG_SIGNER,
    ),
    "of no authority": ("ci@site AUTHORITY", ("-n", "ci@site", *_HOUR), Reason.WRONG_SIGNER),
    "of another authority": (
        "ci@site cert-authority ELSE", ("-n", "ci@site", *_HOUR), Reason.WRONG_SIGNER,
    ),
    "the key alone": ("ci@site KEY", ("-n", "ci@site", *_HOUR), Reason.WRONG_SIGNER),
    "another namespace": (
        'ci@site cert-authority,namespaces="git" AUTHORITY', ("-n", "ci@site", *_HOUR),
        Reason.WRONG_SIGNER,
    ),
    "a line that has ended": (
        'ci@site cert-authority,valid-before="20200101Z" AUTHORITY', ("-n", "ci@site", *_HOUR),
        Reason.KEY_EXPIRED,
    ),
    "a line that is not yet": (
        'ci@site cert-authority,valid-after="20990101Z" AUTHORITY', ("-n", "ci@site", *_HOUR),
        Reason.CLOCK_SKEW,
    ),
    "itself, ended": (
        "ci@site CERTIFICATE", ("-n", "ci@site", "-V", "20200101:20200102"), Reason.KEY_EXPIRED,
    ),
    "itself, of a machine": (
        "ci@site CERTIFICATE", ("-h", "-n", "ci@site", *_HOUR), Reason.WRONG_SIGNER,
    ),
    "itself, for another": (
        "ci@site CERTIFICATE", ("-n", "me@site", *_HOUR), Reason.WRONG_SIGNER,
    ),
}  # fmt: skip
STRICTER = {
    "for one command", "from one address", "with what nobody knows", "with a presence",
    "itself, ended", "itself, of a machine", "itself, for another",
}  # fmt: skip
"""What `ssh-keygen -Y verify` takes and we do not."""


def _sealed(site: Site, form: str) -> Path:
    """Sign the site's image with a certificate of a form, and return where the statement is."""
    line, options, _ = FORMS[form]
    authority, other = _authority(site), Signer(site.folder, "else", site.folder / "unused")
    certificate = _certified(site, authority, *options)
    public = " ".join(Path(certificate).read_text().split()[:2])
    keys = {"AUTHORITY": authority.public, "ELSE": other.public, "CERTIFICATE": public,
            "KEY": site.ci.public}  # fmt: skip
    # At once: the text of a key may have the letters `KEY` in it.
    line = re.sub("|".join(keys), lambda match: keys[match[0]], line)
    (site.site / "allowed_signers").write_text(f"{line}\n")
    statement = signing.state(site.image, trustsite.FULL)
    return signing.sign(site.image, statement, certificate)


def test_there_are_32_forms() -> None:
    assert len(FORMS) == 32


@pytest.mark.guarantee(
    "Signatures",
    "A record ends with the key's line or the certificate, whichever is first.",
    "Certificates of machines, with critical options, for other names, or not good now "
    "count for nothing. Tried: 32 forms against ssh-keygen.",
)
@pytest.mark.parametrize("form", FORMS)
def test_certificates_against_ssh_keygen(site: Site, form: str) -> None:
    path = _sealed(site, form)
    wanted = FORMS[form][2]
    found = signing.verify(site.image, trusted.signers())
    assert [one.reason for one in found.problems] == ([wanted] if wanted else [])
    argv = ["ssh-keygen", "-Y", "verify", "-f", trusted.signers(), "-I", "ci@site",
            "-n", signing.NAMESPACE, "-s", f"{path}.sig"]  # fmt: skip
    with path.open("rb") as stream:
        theirs = subprocess.run(argv, stdin=stream, capture_output=True, check=False)
    assert (theirs.returncode == 0) == (not wanted or form in STRICTER)


@pytest.mark.guarantee(
    "Signatures",
    "A record ends with the key's line or the certificate, whichever is first.",
)
def test_a_record_ends_with_the_certificate(site: Site) -> None:
    """And with the line of its authority, whichever is first; one byte later it is signed again."""
    before = signing.time.time()
    _sealed(site, "good")
    (one,) = signing.verify(site.image, trusted.signers()).good
    assert before + 3500 < one.signed.until < before + 3700
    shutil.rmtree(attachments.folder_of(site.image))
    for old in ("authority", "else"):
        for name in (f"key-{old}", f"key-{old}.pub"):
            (site.folder / name).unlink()
    _sealed(site, "good until the line is not")
    (one,) = signing.verify(site.image, trusted.signers()).good
    assert one.signed.until == 4_070_908_800
    if os.geteuid() == 0:
        judging.record(judging.judge(site.image, trusted.signers()))
        rows = [row for one in trusted.all_records().values() for row in one.signed]
        assert {row.until for row in rows} == {4_070_908_800}


def test_text_behind_a_signature_does_not_take_its_end_away(site: Site) -> None:
    """ssh-keygen reads no further than the end; whoever hands a signature on may write there."""
    path = site.sign(signer=site.ci)
    site.ci.allow("ci@site", site.ci.public, 'valid-before="20990101Z"')
    seal = path.with_name(f"{path.name}.sig")
    text = seal.read_bytes()
    for more in (b"behind\n", b"\n-----END SSH SIGNATURE-----\n", b"-----BEGIN SSH SIGNATURE-----"):
        seal.write_bytes(text + more)
        (one,) = signing.verify(site.image, trusted.signers()).good
        assert one.signed.until == 4_070_908_800, more


@pytest.mark.parametrize("cut", [10, 40, 80, 120, 200, 300])
def test_a_certificate_that_is_cut_off_is_no_signature(site: Site, cut: int) -> None:
    path = _sealed(site, "good")
    seal = path.with_name(f"{path.name}.sig")
    lines = seal.read_text().splitlines()
    body = "".join(lines[1:-1])
    seal.write_text("\n".join([lines[0], body[:cut] + body[cut + 4 :], lines[-1]]) + "\n")
    assert signing.verify(site.image, trusted.signers()).good == ()


def test_times_that_two_options_name_or_that_are_utc(site: Site) -> None:
    site.sign(signer=site.ci)
    for options, until in (
        (
            'namespaces="stackproof-image,valid-before=20990101Z",valid-before="20300101Z"',
            1_893_456_000,
        ),
        ('valid-before="20300101UTC"', 1_893_456_000),
        ('Valid-Before="20300101Z"', 1_893_456_000),
    ):
        site.ci.allow("ci@site", site.ci.public, options)
        try:
            (one,) = signing.verify(site.image, trusted.signers()).good
        except (ValueError, StackproofError):
            continue  # this release of ssh-keygen knows no such time
        assert one.signed.until == until, options
