"""`image attach` and what `image inspect` then shows, as a user calls them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from images import MOUNT, env_json
from need import need
from signers import Signer
from stackproof import cli
from stackproof.core.effects import files
from stackproof.share.attested import kinds
from stackproof.share.effects import trusted
from stackproof.share.trust import policy
from synthetic import Noise, Plan, simulate, write_results

COVERS = (
    "report/cli/attach.py", "report/options.py", "mount/cli/attached.py",
    "report/effects/attached.py", "report/attested.py", "build/effects/build_record.py",
)  # fmt: skip
QUIET = Noise(launch=0.003, size=0.003, block=0.02)
BILL = json.dumps({
    "bomFormat": "CycloneDX",
    "components": [
        {"name": "mpich", "version": "5.0.2"}, {"name": "pip", "version": "1", "scope": "excluded"},
    ],
})  # fmt: skip
META = {
    "env.json": json.dumps(env_json()),
    "lock.json": json.dumps({
        "artefacts": [
            {"name": "mpich", "version": "5.0.2", "filename": "m.whl", "sha256": "cd" * 32}
        ]
    }),
    "configure.json": '{"engine": "wheel", "stackproof": {"version": "0.1.0"}}',
    "bom.cdx.json": BILL,
    "recipe/mpich.yaml": "name: mpich\n",
}  # fmt: skip


def make(folder: Path, meta: Mapping[str, str] = META, more: str = "") -> Path:
    """Make an image with a folder `meta` as `build` writes it."""
    tree = folder / "tree"
    for name, text in meta.items():
        path = tree / "meta" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tree / "more").write_text(more)
    image = folder / "a.squashfs"
    argv = ["mksquashfs", tree, image, "-all-root", "-noappend", "-no-progress", "-quiet"]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return image


class AttachingUser:
    """A user with an image, a key, and a file that says whose it is."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        self.image = make(folder)
        self.sha256 = files.sha256(self.image)
        self.signer = Signer(folder, "me@site", folder / "allowed")
        names = 'namespaces="stackproof-image,stackproof-document"'
        self.signer.allow("me@site", self.signer.public, names)
        self.attached = folder / "a.squashfs.attached"

    def call(self, *words: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            cli.main(["image", *map(str, words)])
        out, err = self.capsys.readouterr()
        return int(caught.value.code or 0), out, err

    def attach(self, *words: str | Path) -> tuple[int, str, str]:
        return self.call("attach", self.image, *words)

    def inspected(self) -> dict[str, Any]:
        code, out, err = self.call(
            "inspect", self.image, "--json", "--signers", self.signer.allowed
        )
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)["attached"]
        return found

    def text(self) -> list[str]:
        code, out, err = self.call("inspect", self.image, "--signers", self.signer.allowed)
        assert code == 0, err
        return [" ".join(line.split()) for line in out.splitlines()]

    def results(self, name: str, sha256: str, arm: str = "mpich", **changes: Any) -> Path:
        """Write results of which an arm ran the image of this digest."""
        made = simulate(Plan(challengers=("mpich",), sizes=(8, 1024), noise=QUIET, **changes))
        old = made.spec.arms[arm].image_sha256
        folder = write_results(made, self.folder / name)
        for path in (folder / "bench.json", *(folder / "launches").iterdir()):
            path.write_text(path.read_text().replace(old, sha256))
        return folder


@pytest.fixture
def user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AttachingUser:
    need("mksquashfs", "ssh-keygen")
    for name in ("STACKPROOF_CACHE", "STACKPROOF_REPOSITORY", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(policy, "FOLDER", str(tmp_path / "etc"))
    monkeypatch.setattr(trusted, "_of_root", lambda user: user == os.geteuid())
    return AttachingUser(tmp_path, capsys)


@pytest.mark.battery
def test_the_bill_of_an_image(user: AttachingUser) -> None:
    assert json.loads(user.call("inspect", user.image, "--json")[1])["attached"] is None
    code, out, err = user.attach("--sign", user.signer.key, "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)["documents"]
    assert [(row["name"], row["type"]) for row in rows] == [("bom.cdx.json", kinds.CYCLONEDX)]
    assert (user.attached / "bom.cdx.json").read_text() == BILL

    lines = user.text()
    who = "signed by me@site"
    assert "parts mpich 5.0.2" in lines
    assert f"documents bom.cdx.json, {len(BILL)} B, {who}" in lines
    found = user.inspected()["documents"]
    assert [one["signers"] for one in found] == [["me@site"]]

    # By hand, with the two programs that everybody has.
    script = (
        '(sha256sum < "$1"; cd "$1.attached" && sha256sum bom.cdx.json) | ssh-keygen -Y verify '
        '-f "$2" -I me@site -n stackproof-document -s "$1.attached/bom.cdx.json.sig"'
    )
    argv = ["sh", "-c", script, "sh", user.image, user.signer.allowed]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)

    # The same again changes nothing; another one wants to be forced.
    assert user.attach()[0] == 0
    (user.attached / "bom.cdx.json").write_text(BILL + " ")
    code, _, err = user.attach()
    assert (code, "[not-replaced]" in err) == (2, True)
    assert user.attach("--force", "--sign", user.signer.key)[0] == 0
    assert f"documents bom.cdx.json, {len(BILL)} B, {who}" in user.text()


@pytest.mark.battery
def test_what_was_measured(user: AttachingUser) -> None:
    results = user.results("results", user.sha256)
    code, out, err = user.attach(results, "--sign", user.signer.key)
    assert (code, err) == (0, "")
    (verdict,) = user.attached.glob("verdict-*.intoto.json")
    (report,) = user.attached.glob("report-*.html")
    assert verdict.name in out
    assert report.read_text().startswith("<!doctype html>")
    said = json.loads(verdict.read_text())
    assert said["predicate"]["result"] == "PASSED"
    (row,) = (one for one in user.inspected()["documents"] if one["verdict"])
    assert (row["signers"], row["verdict"]["verdict"]) == (["me@site"], "PASS")
    assert row["verdict"]["passed"][0].startswith("mpich: inter-node, ")
    (line,) = (line for line in user.text() if line.startswith("measured"))
    assert line == "measured PASS beside impi (impi 1.2.3); points: 8 pass; signed by me@site"
    slow = {"mpich": {("inter-node", "latency"): {8: 2.0}}}
    code, _, err = user.attach(user.results("slower", user.sha256, slower=slow), "--force")
    assert (code, err) == (0, "")
    lines = [line for line in user.text() if line.startswith("measured")]
    assert [line.split()[1] for line in lines] == ["FAIL"]
    assert lines[0].endswith("; points: 7 pass, 1 fail; not signed")


def test_no_verdict_of_another_image_or_of_what_is_not_trusted(user: AttachingUser) -> None:
    other = user.results("other", "ef" * 32)
    baseline = user.results("baseline", user.sha256, arm="impi")
    slow = {("inter-node", "latency"): {8: 3.0, 1024: 3.0}}
    noisy = user.results("noisy", user.sha256, slower={"impi again": slow})
    edited = user.results("edited", user.sha256)
    (edited / "digests-0.sha256").write_text(f"{'0' * 64}  bench.json\n")
    empty = user.folder / "empty"
    empty.mkdir()
    code, _, err = user.attach(other, baseline, noisy, edited, empty, user.folder / "nothing")
    first = [line for line in err.splitlines() if line.startswith("error: ")]
    assert [line.rpartition("[")[2] for line in first] == [
        "document-of-another]", "document-of-another]", "not-trusted]", "not-trusted]",
        "file-missing]", "file-missing]",
    ]  # fmt: skip
    assert "their baseline" in first[1]
    assert code != 0
    assert not user.attached.exists()


def test_files_of_others(user: AttachingUser) -> None:
    mine, theirs = user.folder / "ci.intoto.json", user.folder / "theirs.intoto.json"
    data = {
        "_type": "https://in-toto.io/Statement/v1", "predicateType": "https://example.org/x",
        "subject": [{"name": "a", "digest": {"sha256": user.sha256}}], "predicate": {},
    }  # fmt: skip
    mine.write_text(json.dumps(data))
    theirs.write_text(json.dumps({**data, "subject": [{"digest": {"sha256": "ef" * 32}}]}))
    broken = user.folder / "broken.json"
    broken.write_text(json.dumps({**data, "subject": 1}))
    odd = user.folder / "signature-1.json"
    odd.write_text("{}")
    again = user.folder / "again"
    again.mkdir()
    shutil.copy(mine, again)
    large = user.folder / "large"
    with large.open("wb") as stream:
        stream.truncate((64 << 20) + 1)
    for words, reason in (
        ([mine, theirs], "document-of-another"), ([broken], "wrong-type"), ([odd], "usage"),
        ([mine, again / mine.name], "usage"), ([large], "too-large"),
        ([mine, "--sign", user.folder / "none"], "file-missing"),
    ):  # fmt: skip
        code, _, err = user.attach(*words)
        assert (code != 0, f"[{reason}]" in err) == (True, True), (words, err)
        assert not user.attached.exists()
    assert user.attach(mine)[0] == 0
    mine.write_text(json.dumps({**data, "predicate": {"x": 1}}))
    assert "[not-replaced]" in user.attach(mine)[2]
    plain = user.folder / "notes.txt"
    plain.write_text("tested by hand\n")
    assert user.attach(plain)[0] == 0
    assert user.call("attach", plain)[0] != 0
    assert user.call("attach", user.folder / "none.squashfs", plain)[0] != 0

    # What lies there and is another image's, or nonsense, is told and nothing else suffers.
    shutil.copy(theirs, user.attached)
    shutil.copy(broken, user.attached)
    shutil.copy(odd, user.attached)
    found = {one["name"]: one for one in user.inspected()["documents"]}
    assert list(found) == ["broken.json", "ci.intoto.json", "notes.txt", "theirs.intoto.json"]
    reasons = {name: [p["reason"] for p in one["problems"]] for name, one in found.items()}
    assert reasons == {
        "broken.json": ["wrong-type"], "ci.intoto.json": [], "notes.txt": [],
        "theirs.intoto.json": ["document-of-another"],
    }  # fmt: skip


def test_an_image_without_a_bill(user: AttachingUser) -> None:
    image = make(user.folder, {key: text for key, text in META.items() if key != "bom.cdx.json"})
    code, _, err = user.call("attach", image)
    assert (code, "[image-no-meta]" in err, "bom.cdx.json" in err) == (6, True, True)
    image = make(user.folder, {**META, "bom.cdx.json": '{"components": [1]}'})
    assert json.loads(user.call("inspect", image, "--json")[1])["parts"] == []
    assert not user.attached.exists()


@pytest.mark.battery
def test_who_signed_and_what_the_site_says(user: AttachingUser) -> None:
    label = "tiny/1:v1@here%x86_64"
    assert user.attach()[0] == 0
    assert user.call("sign", user.image, "--label", label, "--key", user.signer.key)[0] == 0
    lines = user.text()
    (signed,) = (line for line in lines if line.startswith("signed"))
    assert signed.startswith(f"signed {label} by me@site, ")
    # who signs an image signs what is attached to it
    assert f"documents bom.cdx.json, {len(BILL)} B, signed by me@site" in lines
    assert user.inspected()["policy"] is None

    site = user.folder / "etc"
    site.mkdir(mode=0o755)
    (site / "trust.conf").write_text("image = * refuse you@site\n")
    (site / "trust.conf").chmod(0o644)
    assert user.inspected()["policy"]["action"] == "refuse"
    assert any(line.startswith("policy refuse: ") for line in user.text())
    (site / "trust.conf").write_text("image = * refuse me@site\n")
    assert "policy as this site asks" in user.text()
    (site / "trust.conf").write_text("nonsense\n")
    assert [one["reason"] for one in user.inspected()["problems"]] == ["invalid-value"]
    (site / "trust.conf").unlink()

    for options, reason in (
        ('namespaces="git"', "wrong-signer"), ('valid-before="20200101"', "key-expired"),
    ):  # fmt: skip
        user.signer.allow("me@site", user.signer.public, options)
        found = user.inspected()
        assert (found["signatures"], found["problems"][0]["reason"]) == ([], reason)
        assert found["documents"][0]["signers"] == []
        assert "signed by nobody who is known here" in user.text()
    code, out, err = user.call("inspect", user.image, "--signers", user.folder / "none")
    assert (code, out, "[file-missing]" in err) == (3, "", True)


@pytest.mark.battery
def test_what_is_too_large_or_nonsense_is_told_and_the_rest_is_shown(user: AttachingUser) -> None:
    assert user.attach("--sign", user.signer.key)[0] == 0
    label = "tiny/1:v1@here%x86_64"
    assert user.call("sign", user.image, "--label", label, "--key", user.signer.key)[0] == 0
    for name in ("large.html", "bom.cdx.json.sig", "signature-0123456789abcdef.json"):
        with (user.attached / name).open("ab") as stream:
            stream.truncate((64 << 20) + 1)
    (user.attached / "signature-0123456789abcdef.json.sig").touch()
    (user.attached / "deep.json").write_text("[" * 100_000)
    (user.attached / "folder").mkdir()
    (user.attached / "line\nbreak.txt").touch()
    found = user.inspected()
    assert (found["problems"], [one["label"] for one in found["signatures"]]) == ([], [label])
    reasons = {one["name"]: [p["reason"] for p in one["problems"]] for one in found["documents"]}
    assert reasons == {
        "bom.cdx.json": ["too-large"], "deep.json": [], "large.html": ["too-large"],
    }  # fmt: skip


def test_a_document_that_was_changed_or_moved_to_another_image(user: AttachingUser) -> None:
    assert user.attach("--sign", user.signer.key)[0] == 0
    bill = user.attached / "bom.cdx.json"
    bill.write_text(BILL.replace("5.0.2", "5.0.3"))
    (row,) = user.inspected()["documents"]
    assert (row["signers"], row["problems"][0]["reason"]) == ([], "signature-invalid")
    bill.write_text(BILL)
    other = user.folder / "other"
    other.mkdir()
    image = make(other, more="another")
    shutil.copytree(user.attached, other / "a.squashfs.attached")
    _, out, _ = user.call("inspect", image, "--json", "--signers", user.signer.allowed)
    found = json.loads(out)["attached"]["documents"]
    assert [one["signers"] for one in found] == [[]]
    reasons = [[problem["reason"] for problem in one["problems"]] for one in found]
    assert reasons == [["signature-invalid"]]
    assert MOUNT in out
