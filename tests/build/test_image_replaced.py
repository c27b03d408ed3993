"""An image that a build puts in the place of another recipe's, or lock's, is told of."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from images import env_json, make_image
from need import need
from stackproof.build.effects import cache_entries, images
from stackproof.build.effects.executor import Built
from stackproof.build.effects.loaded import Loaded
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import Event

LOCKS = {"a": "1" * 64, "b": "2" * 64}


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    need("mksquashfs")
    monkeypatch.setattr(cache_entries, "give_up_superseded", lambda _: ())


def put(folder: Path, *, lock: str, stack: str = "s") -> list[str]:
    """Put an image of a lock and of a stack where `build` would, and return the notes."""
    meta = env_json()
    ours: dict[str, Any] = meta.get("stackproof", {})
    meta["stackproof"] = {**ours, "lock": LOCKS[lock], "stack": stack}
    name = f"{lock}{stack}.squashfs"
    path = folder / "cache" / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        make_image(path, meta=meta)
    size, digest = path.stat().st_size, files.sha256(path)
    built = Built(path=path, sha256=digest, size=size, ran=1, plan_id="p")
    loaded = cast("Loaded", SimpleNamespace(lock_path=folder / "mine.lock.json"))
    events: list[Event] = []
    images.put(built, loaded, folder / "mine.squashfs", events.append)
    return [f"{event.name}: {event.text}" for event in events]


def test_another_lock_and_another_recipe_are_told_of_and_the_same_build_is_not(
    tmp_path: Path,
) -> None:
    assert put(tmp_path, lock="a") == []
    assert put(tmp_path, lock="a") == []
    (note,) = put(tmp_path, lock="b")
    assert note.startswith("mine.squashfs: replaces an image of another lock: ")
    assert "11111111" in note
    (note,) = put(tmp_path, lock="b", stack="t")
    assert note.startswith("mine.squashfs: replaces an image of another recipe: ")
    assert put(tmp_path, lock="b", stack="t") == []


def test_an_image_that_says_nothing_of_itself_is_replaced(tmp_path: Path) -> None:
    make_image(tmp_path / "foreign.squashfs", meta=None)
    shutil.copy(tmp_path / "foreign.squashfs", tmp_path / "mine.squashfs")
    assert put(tmp_path, lock="a") == []


def test_an_image_without_a_lock_does_not_say_how_it_was_built(tmp_path: Path) -> None:
    image = make_image(tmp_path / "a.squashfs", meta=env_json(name="a"))
    with pytest.raises(StackproofError) as caught:
        images.write_recipe_of(str(image), tmp_path)
    assert caught.value.reason is Reason.IMAGE_NO_META
