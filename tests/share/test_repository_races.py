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
from swaplab import Race, journal_naming

LABEL = "tiny/1:v1@here%x86_64"
pytestmark = [pytest.mark.race]


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
