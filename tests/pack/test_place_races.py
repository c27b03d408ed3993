"""Names exchanged in a folder that others may write to, while images are installed and packed there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import swaplab
from need import need
from packs import small

pytestmark = [
    pytest.mark.battery,
    pytest.mark.race,
    pytest.mark.guarantee(
        "Folders of several users",
        "A site says which folders several users share.",
    ),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("gcc", "patchelf", "mksquashfs")
    return small(tmp_path_factory.mktemp("image"))


@pytest.mark.parametrize("victim", [0, 65534])
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("verb", ["install", "pack"])
def test_names_are_exchanged_while_a_verb_works(
    for_everybody: tuple[str, Path], image: Path, verb: str, declared: bool, victim: int
) -> None:
    need("root", "unprivileged-user")
    python, checkout = for_everybody
    with swaplab.scene(python, checkout / "src", victim) as race:
        mine = race.folder / "a.squashfs"
        shutil.copy(image, mine)
        mine.chmod(0o644)
        race.open_to_all()
        env = {"STACKPROOF_SHARED": str(race.shared)} if declared else {}
        prefix, output = str(race.shared / "sw"), str(race.shared / "out.tar.zst")
        verbs = {
            "install": [
                ["install", str(mine), "--to", prefix],
                ["install", "--undo", "--to", prefix],
            ],
            "pack": [["pack", str(mine), "-o", output]],
        }[verb]
        expected = [".stackproof", ".stackproof/lock", ".stackproof/staging.sw", ".stackproof/sw.1",
                    "sw", "out.tar.zst", "out.tar.zst.provenance.json"]  # fmt: skip
        before = race.guarded()
        told = race.run(*verbs, expected=expected, journal=None, **env)
        assert race.guarded() == before
        assert sum(told.values()) >= 1
        shutil.rmtree(race.shared, ignore_errors=True)
