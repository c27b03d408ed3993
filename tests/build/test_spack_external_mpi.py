"""A Spack stack on the MPI of a vendor's image: named as an external, seen by the build."""

from __future__ import annotations

import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import crayrelease
import fakespack
from need import need
from spackstacks import stack
from stackproof.build.engines.spack import configuration
from stackproof.build.engines.spack.effects import build as spack_build
from stackproof.build.engines.vendor import engine
from stackproof.build.engines.vendor.engine import parse_vendor_recipe
from stackproof.core import document
from stackproof.core.value import replace
from stackproof.image.effects.image_file import load_image

RECIPE = "engine: vendor\nname: small\nmpi: {family: cray-mpich, version: '8.1'}\ngtl: cuda\n"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may read, as software of a machine is."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.battery
def test_a_stack_is_built_on_what_the_vendors_image_says(tmp_path: Path, place: Path) -> None:
    need("bubblewrap", "mksquashfs", "gcc")
    facts = {"architecture": "x86_64", "compiler": "gcc 12.2.0"}
    image = replace(
        parse_vendor_recipe(document.parse(RECIPE, file="r.yaml"), facts), mount=str(place)
    )
    lock = crayrelease.lock(image)
    said = yaml.safe_load(engine.spack_packages(image, lock))["packages"]
    (external,) = said["cray-mpich"]["externals"]
    assert external["spec"] == "cray-mpich@8.1.30 +wrappers +cuda"
    assert said["mpi"]["require"] == ["cray-mpich"]
    wrapper = Path(external["prefix"], "bin", "mpicc")
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text('#!/bin/sh\nwhile [ "$1" ]; do [ "$1" = -o ] && : >"$2"; shift; done\n')
    wrapper.chmod(0o755)

    folder = fakespack.make(tmp_path)
    folder.write("on-cray-mpich", "cray-mpich")
    site = folder.path / "site" / "packages.yaml"
    packages = yaml.safe_load(site.read_text())["packages"] | said
    assert "[site-incomplete]" in folder.build(ok=4).stderr
    site.write_text(yaml.safe_dump({"packages": packages}))
    folder.build()
    (log,) = (path for home in folder.builds for path in home.glob("logs/install-*.log"))
    # The benchmark was compiled with its wrapper, and the image says whose it is.
    mpi = load_image(str(folder.path / "small.squashfs")).mpi
    assert mpi
    assert (mpi.family, mpi.prefix) == ("cray-mpich", external["prefix"])
    assert f"==> {external['prefix']}: ['{wrapper}']" in log.read_text()


def test_of_the_machine_only_software_that_everybody_may_read_is_seen(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("good", "closed", "mine", "mount", "system")
    for name in names:
        (place / name / "below").mkdir(parents=True)
    (place / "closed").chmod(0o700)
    (place / "link").symlink_to("/etc/ssl")
    monkeypatch.setenv("HOME", str(place / "mine"))
    user = SimpleNamespace(pw_dir=f"{place}/system/below")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    prefixes = (
        f"{place}/good", f"{place}/good/", f"{place}/good/../closed/below", f"{place}/mine/below",
        f"{place}/mount/below", f"{place}/link", f"{place}", f"{place}/system", f"{place}/none", "/usr", "/usr/lib", "/etc/ssl",
        "/var/lib", "/", "/opt", "relative",
    )  # fmt: skip
    packages = {
        f"p{number}": {"externals": [{"spec": "p@1", "prefix": prefix}]}
        for number, prefix in enumerate(prefixes)
    }
    odd = {"all": None, "a": {"externals": None}, "b": {"externals": ["x"]},
           "c": {"externals": [{"spec": "c@1", "modules": ["c"]}]}}  # fmt: skip
    of = stack(2, packages={**packages, **odd}, mount=f"{place}/mount")
    assert "/usr/lib" not in configuration.external_prefixes(of)
    found = list(spack_build.of_machine(of))
    assert [(bind.source, bind.target, bind.writable) for bind in found] == [
        (f"{place}/good", f"{place}/good", False)
    ]
