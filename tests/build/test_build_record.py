"""What an image says of its build: its recipe, or that it does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from images import env_json, make_image
from need import need
from stackproof.build.effects.build_record import load_recipe_files
from stackproof.core.errors import Reason, StackproofError


def test_an_image_without_a_lock_does_not_say_how_it_was_built(tmp_path: Path) -> None:
    need("mksquashfs")
    image = make_image(tmp_path / "a.squashfs", meta=env_json(name="a"))
    with pytest.raises(StackproofError) as caught:
        load_recipe_files(str(image))
    assert caught.value.reason is Reason.IMAGE_NO_META
