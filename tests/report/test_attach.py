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

from images import env_json
from need import need
from signers import Signer
from stackproof import cli
from stackproof.core.effects import files
from stackproof.share.effects import attachments, trusted
from stackproof.share.trust import policy
from synthetic import Noise, Plan, simulate, write_results

COVERS = (
    "report/cli/attach.py", "report/options.py", "mount/cli/inspect.py",
    "report/effects/attached.py", "report/attested.py",
)  # fmt: skip
LABEL = "tiny/1:v1@here%x86_64"
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
def test_what_was_measured(user: AttachingUser) -> None:
    assert json.loads(user.call("inspect", user.image, "--json")[1])["attached"] is None
    assert "parts mpich 5.0.2" in user.text()
    results = user.results("results", user.sha256)
    code, out, err = user.attach(results, "--json")
    assert (code, err) == (0, "")
    (row,) = json.loads(out)["verdicts"]
    (verdict,) = user.attached.iterdir()
    assert row["path"] == str(verdict)
    assert json.loads(verdict.read_text())["image"] == user.sha256
    (row,) = user.inspected()["verdicts"]
    assert (row["signers"], row["verdict"]["verdict"]) == ([], "PASS")
    assert row["verdict"]["passed"][0].startswith("mpich: inter-node, ")
    (line,) = (line for line in user.text() if line.startswith("measured"))
    assert line == "measured PASS beside impi (impi 1.2.3); points: 8 pass; not signed"

    # The same again changes nothing; another one wants to be forced, and has to be signed again.
    assert user.call("sign", user.image, "--label", LABEL, "--key", user.signer.key)[0] == 0
    assert [one["signers"] for one in user.inspected()["verdicts"]] == [["me@site"]]
    assert user.attach(results)[0] == 0
    verdict.write_text(verdict.read_text() + " ")
    code, _, err = user.attach(results)
    assert (code, "[not-replaced]" in err) == (2, True)
    assert user.attach(results, "--force")[0] == 0
    assert "[usage]" in user.attach(results, results)[2]
    slow = {"mpich": {("inter-node", "latency"): {8: 2.0}}}
    code, _, err = user.attach(user.results("slower", user.sha256, slower=slow), "--force")
    assert (code, err) == (0, "")
    lines = [line for line in user.text() if line.startswith("measured")]
    assert lines[-1] == (
        "measured FAIL beside impi (impi 1.2.3); points: 7 pass, 1 fail; not signed"
    )


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


def test_a_file_is_no_results(user: AttachingUser) -> None:
    plain = user.folder / "notes.txt"
    plain.write_text("tested by hand\n")
    assert user.attach(plain)[0] != 0
    assert user.attach()[0] == 2
    assert user.call("attach", plain, user.folder)[0] != 0
    assert user.call("attach", user.folder / "none.squashfs", user.folder)[0] != 0
    assert not user.attached.exists()


def test_an_image_with_an_odd_bill(user: AttachingUser) -> None:
    image = make(user.folder, {**META, "bom.cdx.json": '{"components": [1]}'})
    assert json.loads(user.call("inspect", image, "--json")[1])["parts"] == []


@pytest.mark.battery
def test_who_signed_and_what_the_site_says(user: AttachingUser) -> None:
    assert user.attach(user.results("results", user.sha256))[0] == 0
    assert user.call("sign", user.image, "--label", LABEL, "--key", user.signer.key)[0] == 0
    lines = user.text()
    (signed,) = (line for line in lines if line.startswith("signed"))
    assert signed.startswith(f"signed {LABEL} by me@site, ")
    # who signs an image signs what is attached to it
    assert "measured PASS beside impi (impi 1.2.3); points: 8 pass; signed by me@site" in lines
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
        assert found["verdicts"][0]["signers"] == []
        assert "signed by nobody who is known here" in user.text()
    code, out, err = user.call("inspect", user.image, "--signers", user.folder / "none")
    assert (code, out, "[file-missing]" in err) == (3, "", True)


@pytest.mark.battery
@pytest.mark.attack
@pytest.mark.parametrize(("count", "size"), [(257, 2), (9, 8 << 20)])
def test_more_verdicts_than_anybody_made_are_refused(
    count: int, size: int, user: AttachingUser
) -> None:
    user.attached.mkdir()
    for number in range(count):
        with (user.attached / f"verdict-{number:08x}.json").open("wb") as stream:
            stream.truncate(size)
    sign = ("sign", user.image, "--label", LABEL, "--key", user.signer.key)
    for argv in (("inspect", user.image), sign):
        code, _, err = user.call(*argv)
        assert code == 3
        assert "has more than 256 verdicts" in err


@pytest.mark.attack
def test_a_file_of_terabytes_is_no_verdict_to_read(tmp_path: Path) -> None:
    """Neither its digest is taken, nor is it held against a new one."""
    image = tmp_path / "image.squashfs"
    folder = attachments.folder_of(str(image))
    folder.mkdir()
    with (folder / "verdict-00000000.json").open("wb") as stream:
        stream.truncate(4 << 40)
    assert attachments.digests(str(image)) == {"verdict-00000000.json": ""}
    attachments.put_verdict(str(image), "verdict-00000000.json", b"{}")
    assert (folder / "verdict-00000000.json").read_bytes() == b"{}"


@pytest.mark.battery
def test_what_is_too_large_or_nonsense_is_told_and_the_rest_is_shown(user: AttachingUser) -> None:
    assert user.attach(user.results("results", user.sha256))[0] == 0
    (verdict,) = user.attached.iterdir()
    assert user.call("sign", user.image, "--label", LABEL, "--key", user.signer.key)[0] == 0
    for name in ("verdict-00000000.json", "signature-0123456789abcdef.json"):
        with (user.attached / name).open("ab") as stream:
            stream.truncate((64 << 20) + 1)
    (user.attached / "signature-0123456789abcdef.json.sig").touch()
    (user.attached / "verdict-00000001.json").write_text("[" * 100_000)
    other = verdict.read_text().replace(user.sha256, "ef" * 32)
    (user.attached / "verdict-00000002.json").write_text(other)
    (user.attached / "verdict-00000003.json").mkdir()
    (user.attached / "line\nbreak.txt").touch()
    facts = user.inspected()
    assert (facts["problems"], [one["label"] for one in facts["signatures"]]) == ([], [LABEL])
    reasons = {one["name"]: [p["reason"] for p in one["problems"]] for one in facts["verdicts"]}
    assert reasons == {
        "verdict-00000000.json": ["too-large"], "verdict-00000001.json": ["yaml-syntax"],
        "verdict-00000002.json": ["document-of-another"], verdict.name: [],
    }  # fmt: skip
    assert any("another image" in line for line in user.text())
