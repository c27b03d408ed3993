"""Every shipped recipe on every shipped site: valid, or what the site would have to state."""

from __future__ import annotations

import pytest

from stackproof.cli import main
from stackproof.core.effects import shipped
from stackproof.core.errors import ExitCode

SITES = shipped.names("sites")


def check(recipe: str, site: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(("check", recipe, "--site", site, "--offline"))
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("recipe", ["spack/mpich", "spack/openmpi", "openmpi", "libfabric"])
def test_a_recipe_that_can_be_built_anywhere_is_valid(
    recipe: str, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(recipe, site) == 0
    assert capsys.readouterr().out == f"{recipe}: valid\n"


@pytest.mark.parametrize("site", SITES)
def test_what_only_the_vendor_has_is_asked_of_the_site(
    site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No public page says where Cray MPICH lies on a machine."""
    assert check("spack/cray-mpich", site) == ExitCode.NOT_POSSIBLE
    said = capsys.readouterr().err
    assert "[site-incomplete]" in said
    assert "state it in the site: `spack: packages: cray-mpich: externals`" in said
    assert said.count("error: ") == 1
