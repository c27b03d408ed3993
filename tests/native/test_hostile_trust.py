"""A site's policy of signatures, and what an attacker does to pass by it: helper and library.

The policy and the records are written by the same code as on a real site, and read by the helper in
a machine whose `/etc/stackproof` they are.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import trustsite
from images import env_json, make_image
from machine import HELPER, NOBODY, RACING, Machine, as_attacker, mount, reasons
from stackproof.share.effects import measuring, storing, trusted
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.effects.storing import AddOptions
from stackproof.share.labels import parse
from stackproof.share.trust import policy
from stackproof.share.trust.policy import SignedLabel

pytestmark = [
    pytest.mark.guarantee(
        "The mount helper",
        "What a site does not trust it does not mount",
        ", in whichever way it is started, and for root too, where there is a `trust.conf`. "
        "An image is known by fs-verity, or is a file of root's that nobody else may write "
        "to. Root's record of that very file says who signed it. One byte changed, another "
        "file in its place, no signature or a stranger's: each is refused with its reason. So "
        "are a key that is no longer good, and a record or a policy that others may have "
        "written. Where a label was asked for, the record must be of that label. It computes "
        "no digest and reads no signature: [why](../explanation/mount-helper.md). Without "
        "rights, by squashfuse in a user namespace, this is a service to users and no wall: "
        "who can run squashfuse can mount what they like.",
    ),
]

CASES = yaml.safe_load((Path(__file__).parents[1] / "documents" / "trust.yaml").read_text())
_POINT = "/user-environment"
_HELLO = (f"{_POINT}/bin/hello",)
_SIGNED = SignedLabel(label="tiny/1:v1@here%x86_64", signer="me@site")


class Site:
    """A machine with a policy that refuses, and images: `a` of root's, recorded; others are not."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = machine
        self.folder = machine.folder
        self.etc = self.folder / "etc"
        self.etc.mkdir(mode=0o755)
        monkeypatch.setattr(policy, "FOLDER", str(self.etc))
        monkeypatch.setenv("STACKPROOF_CACHE", str(self.folder / "cache"))
        self.say("image = * refuse me@site\n")
        self.record("a")

    def say(self, text: str) -> None:
        (self.etc / "trust.conf").write_text(text)
        (self.etc / "trust.conf").chmod(0o644)

    def record(self, name: str, signed: SignedLabel = _SIGNED) -> tuple[str, ...]:
        image = str(self.folder / f"{name}.squashfs")
        return trusted.record(image, measuring.measure(image), (signed,))

    def run(self, name: str = "a", *words: str, user: int = NOBODY) -> list[str]:
        """Return the reasons why an image is not mounted; nothing where it is."""
        line = [*mount(f"{name}.squashfs:{_POINT}", *words), *_HELLO]
        done = self.machine.run(*line, user=user)
        if done.returncode == 0:
            assert done.stdout == "hello from the image\n"
            return [
                line.split("]")[0].removeprefix("warning: [")
                for line in done.stderr.splitlines()
                if line.startswith("warning: [")
            ]
        return reasons(done)


@pytest.fixture
def site(machine, monkeypatch):
    return Site(machine, monkeypatch)


def _text(policy_text: str, record: str, now: int, asked: str = "") -> bytes:
    texts = policy_text.encode(), record.encode()
    return f"{len(texts[0])} {len(texts[1])} {now} {asked}\n".encode() + b"".join(texts)


def test_the_helper_decides_as_python_does(built):
    lines = []
    for case in CASES:
        rows = [f"signed {until} {who} {label}\n" for until, who, label in case["signed"]]
        record = "".join(("stackproof-trust 1\n", *rows)) if rows else ""
        lines.append(_text(case["policy"], record, case.get("now", 0), case.get("asked", "")))
    probe = [built / "tests" / "probe", "decide"]
    done = subprocess.run(probe, input=b"".join(lines), capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == [case["then"] for case in CASES]


@pytest.mark.guarantee(
    "Signatures",
    "Nobody chooses a milder line of a policy by a label of their own.",
)
@pytest.mark.parametrize("policy_text", trustsite.example_policies())
def test_the_policies_of_the_page_in_the_helper(built, policy_text):
    lines = []
    for asked, signed in trustsite.ATTACKS.values():
        rows = "".join(f"signed {one.until} {one.signer} {one.label}\n" for one in signed)
        record = f"stackproof-trust 1\n{rows}" if rows else ""
        lines.append(_text(policy_text, record, trustsite.NOW, asked))
    probe = [built / "tests" / "probe", "decide"]
    done = subprocess.run(probe, input=b"".join(lines), capture_output=True, check=True)
    answers = done.stdout.decode().splitlines()
    assert len(answers) == len(trustsite.ATTACKS)
    assert {one.partition(" ")[0] for one in answers} == {"refuse"}
    assert "refuse signed" not in answers


@pytest.mark.guarantee(
    "Signatures",
    "Nobody chooses a milder line of a policy by a label of their own.",
    "Tried: 20,000 random policies in Python and C, and the policies of the documentation "
    "in 15 ways each.",
)
@pytest.mark.battery
def test_policies_by_chance_are_decided_as_in_python(built):
    """Of 20,000 policies, records and labels: the same answer, and nothing is gained by a label."""
    chance = random.Random(7)

    def text(letters: str, most: int) -> str:
        return "".join(chance.choices(letters, k=chance.randint(1, most)))

    lines, wanted = [], []
    for number in range(20_000):
        actions = [chance.choice(("allow", "warn", "refuse")) for _ in range(chance.randint(0, 4))]
        rules = "".join(
            f"image = {text('ab*:', 5)} {one} {chance.choice(('me', 'you,me', 'm*', '*'))}\n"
            for one in actions
        )
        asked = text("ab:", 4) if number % 4 else ""
        signed = [
            SignedLabel(
                label=asked if asked and chance.random() < 0.4 else text("ab:", 5),
                signer=chance.choice(("me", "you", "they")), until=chance.choice((0, 0, 5, 15)),
            )
            for _ in range(chance.randint(0, 3))
        ]  # fmt: skip
        rows = "".join(f"signed {one.until} {one.signer} {one.label}\n" for one in signed)
        lines.append(_text(rules, f"stackproof-trust 1\n{rows}" if rows else "", 10, asked))
        known = policy.parse(rules)
        found = policy.decide(known, signed, now=10, asked=asked)
        by_itself = policy.decide(known, signed, now=10)
        order = tuple(policy.TrustAction)
        assert order.index(found.action) >= order.index(by_itself.action), (rules, signed, asked)
        wanted.append(f"{found.action} {'signed' if found.reason is None else found.reason}")
    probe = [built / "tests" / "probe", "decide"]
    done = subprocess.run(probe, input=b"".join(lines), capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == wanted
    assert len(set(wanted)) == 13


@pytest.mark.parametrize(
    "record",
    [
        "x", "stackproof-trust 2\n", "stackproof-trust 1", "stackproof-trust 1\nsigned 0 me\n",
        "stackproof-trust 1\nsigned 0 me a b\n", "stackproof-trust 1\nsigned -1 me a\n",
        "stackproof-trust 1\nsigned 99999999999999999999 me a\n", "stackproof-trust 1\nsigned 0  a\n",
        "stackproof-trust 1\nother x\n", "stackproof-trust 1\n\n", "stackproof-trust 1\nfile 1 2 3\n",
        "stackproof-trust 1\nfile 1 2 3 4\nfile 1 2 3 4\n", "stackproof-trust 1\nsigned 0 me a\0\n",
        "stackproof-trust 1\n" + "signed 0 me a\n" * 33, "stackproof-trust 1\n" + "#" * 20_000,
    ],
)  # fmt: skip
def test_a_text_that_is_no_record(built, record):
    probe = [built / "tests" / "probe", "decide"]
    text = _text("image = * allow *\n", record, 0)
    done = subprocess.run(probe, input=text, capture_output=True, check=True)
    assert done.stdout.decode() == "record invalid-value\n"


def test_what_is_signed_is_mounted_and_nothing_else(site):
    make_image(site.folder / "b.squashfs", meta=env_json(name="b"))
    assert site.run() == []
    assert site.run("b") == ["unsigned"]
    for words in (("--way=userns",), ()):
        assert site.run("b", *words) == ["unsigned"]
    assert site.run("b", user=0) == ["unsigned"]  # nor for root, by mistake
    overlay = [*mount(f"a.squashfs:{_POINT}", f"--overlay=b.squashfs:{_POINT}"), "true"]
    assert reasons(site.machine.run(*overlay)) == ["unsigned"]
    both = [*mount(f"a.squashfs:{_POINT},b.squashfs:/user-tools"), "true"]
    assert reasons(site.machine.run(*both)) == ["unsigned"]


def test_warnings_and_signers(site):
    make_image(site.folder / "b.squashfs", meta=env_json(name="b"))
    site.say("image = * warn me@site\n")
    assert (site.run(), site.run("b")) == ([], ["unsigned"])
    site.say("image = * allow me@site\n")
    assert (site.run(), site.run("b")) == ([], [])
    site.say("image = * refuse you@site\n")
    assert site.run() == ["wrong-signer"]
    site.say("image = tiny/* refuse me@site\nimage = * refuse you@site\n")
    assert site.run() == []
    site.record("a", SignedLabel(label=_SIGNED.label, signer="me@site", until=1))
    assert site.run() == ["key-expired"]


@pytest.mark.guarantee(
    "The mount helper",
    "What a site does not trust it does not mount",
)
@pytest.mark.guarantee(
    "Signatures",
    "It counts for the label that was asked for,",
)
def test_a_label_that_the_image_is_not_recorded_for(site):
    """What a user asked for by a label is that, or is not mounted; no label gains anything."""
    make_image(site.folder / "b.squashfs", meta=env_json(name="b"))
    site.say("image = tiny/* refuse me@site\nimage = build::* allow *\nimage = * warn me@site\n")
    for label in (_SIGNED.label, ""):
        assert site.run("a", f"--labels={label}") == []
    for label in (
        "tiny/2:v1@here%x86_64", "tiny/1:v1@there%x86_64", "MPI_TINY/1:v1@here%x86_64", "tiny/1:v1",
        "build::tiny/1:v1@here%x86_64x",
    ):  # fmt: skip
        asked = ["another-label"]
        assert site.run("a", f"--labels={label}") == asked, label
    for label in ("build::b/1:v1@here%x86_64", "b/1:v1@here%x86_64", "*", "::", "build::"):
        for way in ("--way=setuid", "--way=userns"):
            found = site.run("b", f"--labels={label}", way)
            assert found == ["unsigned"], label  # a warning of the line `*`, and never less
    site.say("image = build::* allow *\nimage = * refuse me@site\n")
    for label in ("build::b/1:v1@here%x86_64", "build::", "*"):
        assert site.run("b", f"--labels={label}") == ["unsigned"]
    site.record("a", SignedLabel(label="build::zzz/1:v1@here%x86_64", signer="ci@site"))
    site.say("image = tiny/* refuse me@site\nimage = build::* allow *\n")
    assert site.run("a", f"--labels={_SIGNED.label}") == ["another-label"]


@pytest.mark.parametrize(
    "labels", ["a,b", ",", "a b", "a\tb", "ä/1", "a\x7f", "a\x1b[2J", ",".join("a" * 70), "a\nb"]
)
def test_labels_that_are_none_or_not_one_for_each(site, labels):
    assert site.run("a", f"--labels={labels}") == ["usage"]
    assert site.run("a", "--labels=", f"--labels={labels}") == ["usage"]


@pytest.mark.battery
def test_run_hands_the_label_to_the_helper(site, for_everybody):
    """A repository says that a recorded image is another one than it is signed as."""
    python, _ = for_everybody
    name = "other/3:v9@here%x86_64"
    repository = ImageRepository(site.folder / "repo")
    for label in (name, _SIGNED.label):
        options = AddOptions(label=parse(label), file=str(site.folder / "a.squashfs"))
        record = storing.add(repository, options)
    trusted.record(record.file, measuring.measure(record.file), (_SIGNED,))
    for label, expected in ((_SIGNED.label, ""), (name, "another-label"), (record.digest, "")):
        words = (
            python,
            "-m",
            "stackproof",
            "run",
            "--how",
            "helper",
            f"{label}:{_POINT}",
            "--",
            *_HELLO,
        )
        done = site.machine.run(
            *words, STACKPROOF_REPOSITORY="/test/repo", STACKPROOF_MOUNT_HELPER=HELPER, HOME="/test",
        )  # fmt: skip
        assert (done.returncode == 0) == (not expected), done.stderr
        assert expected in done.stderr


def test_one_byte_changed(site):
    """By root's mistake: of a user's file nothing is believed in the first place."""
    path = site.folder / "a.squashfs"
    state = path.stat()
    with path.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"x")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert site.run() == ["image-damaged"]


def test_replaced_by_another_of_the_same_size(site):
    path = site.folder / "a.squashfs"
    shutil.copy2(path, site.folder / "copy.squashfs")
    assert site.run("copy") == ["unsigned"]
    os.replace(site.folder / "copy.squashfs", path)
    assert site.run() == ["unsigned"]


def test_a_file_that_others_may_write_to_has_no_record(site):
    path = site.folder / "a.squashfs"
    path.chmod(0o666)
    site.record("a")
    assert site.run() == ["unsigned"]
    path.chmod(0o644)
    os.chown(path, NOBODY, NOBODY)
    site.record("a")
    assert site.run() == ["unsigned"]
    os.chown(path, 0, 0)
    site.record("a")
    assert site.run() == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("chmod 777 {etc}/trust", "not-permitted"),
        ("chmod 775 {etc}/trust", "not-permitted"),
        ("chown {user} {etc}/trust", "not-permitted"),
        ("chown {user} {etc}/trust/*", "not-permitted"),
        ("chmod 666 {etc}/trust/*", "not-permitted"),
        ("chmod 777 {etc}", "not-permitted"),
        ("chmod 666 {etc}/trust.conf", "not-permitted"),
        ("chown {user} {etc}/trust.conf", "not-permitted"),
        ("chmod 600 {etc}/trust.conf", "not-permitted"),
        ("chmod 700 {etc}", "not-permitted"),
        ("mv {etc}/trust {etc}/elsewhere; ln -s elsewhere {etc}/trust", "not-permitted"),
        ("mv {etc}/trust.conf {etc}/other; ln -s other {etc}/trust.conf", "not-permitted"),
        ("rm {etc}/trust.conf; mkdir {etc}/trust.conf", "not-permitted"),
        ("for f in {etc}/trust/*; do echo nonsense >$f; done", "invalid-value"),
        ("echo nonsense >>{etc}/trust.conf", "invalid-value"),
        ("rm -r {etc}/trust", "unsigned"),
        ("rm {etc}/trust/file-*", "unsigned"),
        (": >{etc}/trust.conf", "wrong-signer"),
    ],
)
def test_in_doubt_about_policy_or_record_nothing_is_mounted(site, script, reason):
    text = script.format(etc=site.etc, user=NOBODY)
    subprocess.run(["sh", "-c", text], check=True)
    assert site.run() == [reason]


def test_a_record_forged_by_a_user(site):
    """Nobody without rights gets a record, or what stands for one, into its place."""
    image = site.folder / "mine.squashfs"
    make_image(image, meta=env_json(name="mine"))
    os.chown(image, NOBODY, NOBODY)
    state = image.stat()
    source = f"""
import os
name = "file-{state.st_ino}-{state.st_size}"
for folder in ("/etc/stackproof/trust", "/etc/stackproof"):
    for work in (lambda: open(f"{{folder}}/{{name}}", "w"), lambda: os.mkdir(f"{{folder}}/x"),
                 lambda: os.symlink("/test/mine", f"{{folder}}/{{name}}"),
                 lambda: os.rename(folder, folder + "-old"), lambda: os.chmod(folder, 0o777)):
        try:
            work()
        except PermissionError:
            continue
        raise SystemExit("it could be done")
"""
    as_attacker(site.machine, source)
    assert site.run("mine") == ["unsigned"]
    # in a namespace of the user's own, with an /etc of its own, there is nothing to be gained by it
    line = [*mount(f"mine.squashfs:{_POINT}", "--way=setuid"), "true"]
    words = ["unshare", "-Urm", "sh", "-c", f"mount -t tmpfs x /etc; {' '.join(line)}"]
    assert site.machine.run(*words).returncode != 0


@pytest.mark.battery
def test_replaced_between_check_and_mount(site):
    """A link is swapped all the time: what was checked is what is mounted, or nothing is."""
    make_image(site.folder / "b.squashfs", meta=env_json(name="bad"))
    line = [*mount(f"/test/mine/link:{_POINT}"), "cat", f"{_POINT}/meta/env.json"]
    source = f"""
import os, subprocess, threading
{RACING}
os.symlink("/test/a.squashfs", "/test/mine/link")
ended = threading.Event()
def swap():
    while not ended.is_set():
        for target in ("b", "a"):
            os.symlink(f"/test/{{target}}.squashfs", "/test/mine/new")
            os.rename("/test/mine/new", "/test/mine/link")
thread = threading.Thread(target=swap)
thread.start()
try:
    while racing():
        done = subprocess.run({line!r}, capture_output=True, text=True)
        assert '"bad"' not in done.stdout, done.stdout
        answers.add(done.returncode)
finally:
    ended.set()
    thread.join()
assert answers == {{0, 6}}, answers
"""
    as_attacker(site.machine, source)


def test_nested_in_a_namespace_of_the_users_own(site):
    """There all of root's belongs to nobody: the policy holds all the same, and what is signed runs."""
    make_image(site.folder / "b.squashfs", meta=env_json(name="b"))
    machine = Machine(folder=site.folder, program=site.machine.program, mode="755")
    for name, expected in (("a", 0), ("b", 6)):
        line = [*mount(f"{name}.squashfs:{_POINT}", "--way=userns"), "true"]
        done = machine.run("unshare", "-U", "--map-current-user", *line)
        assert done.returncode == expected, done.stderr
