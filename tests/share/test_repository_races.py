"""Names exchanged in a repository that others may write to, while each verb works there."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

import swaplab
from images import make_image
from need import need
from registries import OwnRegistry
from stackproof.core import noun
from stackproof.share import addresses
from stackproof.share.effects import attachments, carrying, oci, pulling, pushing
from stackproof.share.options import RemoteOptions
from stackproof.share.verdict import AttestedVerdict
from swaplab import Race, journal_naming

LABEL = "tiny/1:v1@here%x86_64"
pytestmark = [pytest.mark.battery, pytest.mark.race]


@pytest.mark.guarantee(
    "Folders of several users",
    "A site says which folders several users share.",
    "`STACKPROOF_SHARED` lists them ([how a team sets one "
    "up](../how-to/label-images.md)). Members answer for each other's images there, and "
    "sign them if they do not want to. The variable opens no way to your other files. "
    "Tried: a member exchanges names for links and folders while add, copy, remove, "
    "check, pull, install and pack run.",
)
@pytest.mark.parametrize("victim", [0, 65534])
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("verb", ["add", "copy", "rm", "fsck"])
def test_names_are_exchanged_while_a_verb_works(
    for_everybody: tuple[str, Path], verb: str, declared: bool, victim: int
) -> None:
    need("mksquashfs")
    python, checkout = for_everybody
    with swaplab.scene(python, checkout / "src", victim) as race:
        image = make_image(race.folder / "a.squashfs")
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        repo = race.shared / "repo"
        env = {"STACKPROOF_REPOSITORY": str(repo)}
        env |= {"STACKPROOF_SHARED": str(race.shared)} if declared else {}
        repo.mkdir()
        journal = race.folder / "journal"
        journal.write_bytes(journal_naming(str(race.secret), 13))
        race.open_to_all()
        add = ["image", "add", LABEL, str(image)]
        verbs = {
            "add": [add, ["image", "rm", LABEL]],
            "copy": [add, ["image", "add", "tiny/2:v1@here%x86_64", LABEL, "--force"]],
            "rm": [add, ["image", "rm", LABEL]],
            "fsck": [add, ["image", "fsck", "--repair"], ["image", "ls"]],
        }[verb]
        expected = ["repo", "repo/index.db", "repo/index.db-journal", "repo/images",
                    f"repo/images/.part-{digest}", f"repo/images/{digest}"]  # fmt: skip
        before = race.guarded()
        told = race.run(*verbs, expected=expected, journal=journal, **env)
        assert race.guarded() == before
        assert sum(told.values()) > 1
        _remove(race)


def _remove(race: Race) -> None:
    """Take the tree away, whatever the attacker left of it."""
    for place, folders, _ in os.walk(race.shared):
        for name in folders:
            if not Path(place, name).is_symlink():
                Path(place, name).chmod(0o777)
    shutil.rmtree(race.shared, ignore_errors=True)


@pytest.mark.guarantee("Folders of several users", "A site says which folders several users share.")
@pytest.mark.parametrize("victim", [0, 65534])
def test_names_are_exchanged_while_an_image_is_pulled(
    for_everybody: tuple[str, Path], victim: int
) -> None:
    """With a verdict, whose name is the registry's, and which stands beside the image here."""
    need("mksquashfs")
    python, checkout = for_everybody
    with swaplab.scene(python, checkout / "src", victim) as race, OwnRegistry() as server:
        image = make_image(race.folder / "a.squashfs")
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        remote = addresses.parse_remote("deploy::tiny/1:v1@here%x86_64")
        registry = oci.opened(RemoteOptions(registry=f"{server.address}/images"))
        name = "verdict-0123abcd.json"
        verdict = AttestedVerdict(image=digest, verdict="PASS", specification="0123abcd")
        attachments.put_verdict(str(image), name, noun.to_json(verdict).encode())
        pushing.push(registry, str(image), remote)
        carrying.send(registry, pulling.look(registry, remote), str(image))
        repo = race.shared / "repo"
        env = {"STACKPROOF_REPOSITORY": str(repo), "STACKPROOF_SHARED": str(race.shared),
               "STACKPROOF_REGISTRY": f"{server.address}/images"}  # fmt: skip
        repo.mkdir()
        race.open_to_all()
        expected = ["repo/images", f"repo/images/.part-{digest}.lock", f"repo/images/{digest}",
                    f"repo/images/{digest}/attached", f"repo/images/{digest}/manifest.json",
                    f"repo/images/{digest}/attached/{name}"]  # fmt: skip
        before = race.guarded()
        pull = ["image", "pull", str(remote)]
        told = race.run(pull, ["image", "rm", LABEL], pull, pull, expected=expected, **env)
        assert race.guarded() == before
        assert sum(told.values()) > 1
        registry.client.close()
        _remove(race)
