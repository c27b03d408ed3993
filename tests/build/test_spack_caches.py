"""Spack's caches for real: packages pushed signed, read, refused; sources and solutions kept.

Needs clones of Spack (`STACKPROOF_SPACK_MIRROR`) and gpg; everything else is made here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tinysources
from need import need
from stackproof.core.value import Value

pytestmark = pytest.mark.machine

_TIMEOUT_S = 900


class Made(Value, kw_only=False):
    """A folder with a recipe, keys, and a cache that a first build filled; that build's digest."""

    folder: Path
    recipe: Path
    digest: str = ""

    def build(
        self, mirrors: str, *, ok: int = 0, cache: str = "signed"
    ) -> subprocess.CompletedProcess[str]:
        """Build from nothing but a mirrors.yaml: this machine's own packages are forgotten."""
        own = Path(os.environ["STACKPROOF_CACHE"])
        for home in (own / "builds").glob("tiny-*"):
            shutil.rmtree(home)
        shutil.rmtree(own / "spack" / "packages", ignore_errors=True)
        (self.folder / "mirrors.yaml").write_text(
            mirrors.replace("CACHE", f"{self.folder}/{cache}").replace(
                "MIRROR", f"{self.folder}/mirror"
            )
        )
        done = subprocess.run(
            [sys.executable, "-m", "stackproof", "build", str(self.recipe), "--site", "site",
             "--mirror", "mirrors.yaml", "--in-memory=no", "--json"],
            cwd=self.folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == ok, f"{done.stdout}\n{done.stderr}"
        return done

    def log(self) -> str:
        """Return what Spack said when it installed."""
        builds = Path(os.environ["STACKPROOF_CACHE"]) / "builds"
        (path,) = builds.glob("tiny-*/logs/install-default-1.log")
        return path.read_text(errors="replace")

    def copy(self, name: str) -> Path:
        """Return a copy of the cache, to be tampered with."""
        target = self.folder / name
        shutil.copytree(self.folder / "signed", target)
        return target


READ = """\
buildcache: {url: "file://CACHE", public_key: keys/good.pub, signed: true}
sourcemirror: {given: {url: MIRROR}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    need("spack", "bubblewrap", "mksquashfs", "gcc")
    if shutil.which("gpg") is None:
        pytest.skip("no gpg, which signs a cache, here")
    folder = tmp_path_factory.mktemp("caches")
    _, recipe = tinysources.write_recipes(folder, tinysources.fill(folder / "mirror"))
    for name in ("good", "evil"):
        write_keys(folder / "keys", name)
    (folder / "signed").mkdir()
    (folder / "solutions").mkdir()
    made = Made(folder=folder, recipe=recipe)
    done = made.build(
        'buildcache: {url: "file://CACHE", private_key: keys/good.key, signed: true}\n'
        "sourcemirror: {given: {url: MIRROR}}\n"
        f"concretizer: {{path: {folder}/solutions}}\n"
    )
    return Made(folder=folder, recipe=recipe, digest=json.loads(done.stdout)["sha256"])


def write_keys(folder: Path, name: str) -> None:
    home = folder / f"home-{name}"
    home.mkdir(parents=True, mode=0o700)
    env = {**os.environ, "GNUPGHOME": str(home)}

    def gpg(*words: str) -> bytes:
        argv = ["gpg", "--batch", "--quiet", *words]
        return subprocess.run(argv, env=env, check=True, capture_output=True, timeout=600).stdout

    gpg("--passphrase", "", "--quick-gen-key", f"{name} <{name}@example.org>", "rsa2048", "sign")
    (folder / f"{name}.key").write_bytes(gpg("--armor", "--export-secret-keys"))
    (folder / f"{name}.pub").write_bytes(gpg("--armor", "--export"))
    subprocess.run(["gpgconf", "--kill", "all"], env=env, check=True, timeout=600)


def manifest(cache: Path, package: str) -> Path:
    (path,) = cache.glob(f"v3/manifests/spec/{package}/*.json")
    return path


def test_packages_are_pushed_signed(made: Made) -> None:
    text = manifest(made.folder / "signed", "tiny-four").read_text()
    assert text.startswith("-----BEGIN PGP SIGNED MESSAGE-----")
    assert (made.folder / "signed" / "v3" / "manifests" / "index").is_dir()
    assert list((made.folder / "solutions").iterdir())


def test_packages_from_a_cache_make_the_same_image(made: Made) -> None:
    done = made.build(READ)
    assert "from source" not in made.log()
    assert json.loads(done.stdout)["sha256"] == made.digest


def test_an_entry_that_was_changed_after_it_was_signed(made: Made) -> None:
    path = manifest(made.copy("changed"), "tiny-four")
    path.write_text(path.read_text().replace('"contentLength":', '"contentLength":1', 1))
    image = made.folder / "tiny.squashfs"
    image.unlink(missing_ok=True)
    done = made.build(READ, ok=5, cache="changed")
    assert "BAD signature" in done.stderr
    assert "tiny-four@1.0" in done.stderr
    assert not image.exists()


def test_a_key_that_is_not_known(made: Made) -> None:
    done = made.build(READ.replace("good", "evil"))
    assert "not used, their key is not known" in done.stderr
    assert json.loads(done.stdout)["sha256"] == made.digest


def test_content_that_is_not_what_its_signed_entry_says(made: Made) -> None:
    cache = made.copy("rotten")
    for path in (cache / "blobs").rglob("*"):
        if path.is_file() and path.read_bytes()[:2] == b"\x1f\x8b":
            path.write_bytes(path.read_bytes() + b"x")
    done = made.build(READ, cache="rotten")
    assert made.log().count("installing from source") >= 2
    assert json.loads(done.stdout)["sha256"] == made.digest


def test_each_package_is_pushed_as_soon_as_it_is_there(made: Made) -> None:
    (made.folder / "fresh").mkdir()
    made.build(
        'buildcache: {url: "file://CACHE", private_key: keys/good.key, autopush: true}\n'
        "sourcemirror: {given: {url: MIRROR}}\n",
        cache="fresh",
    )
    assert "Pushed to build cache: 'buildcache'" in made.log()
    assert manifest(made.folder / "fresh", "tiny-two").read_text().startswith("-----BEGIN PGP")
