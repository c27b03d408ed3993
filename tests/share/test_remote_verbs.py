"""Registries as a user calls them: the lines of the page, wrong input, and what is said of it."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import documented
from images import env_json, make_image
from need import need
from registries import OwnRegistry, docker_registry
from stackproof import cli
from stackproof.share import labels, listing
from stackproof.share.effects import catalogue, oci
from stackproof.share.labels import LabelRecord
from stackproof.share.options import RemoteOptions

COVERS = ("share/cli/remote.py",)
PAGE = documented.ROOT / "docs/how-to/share-images.md"
WHOLE = "tiny/1:v1@here%zen2"


class RemoteUser:
    """A user with a folder, a repository, a cache, and a registry."""

    def __init__(self, folder: Path, registry: str) -> None:
        self.folder = folder
        self.env = {
            **os.environ, "STACKPROOF_REPOSITORY": str(folder / "repo"), "HOME": str(folder),
            "STACKPROOF_CACHE": str(folder / "cache"), "STACKPROOF_REGISTRY": registry,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip
        for name in ("CLUSTER_NAME", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG"):
            self.env.pop(name, None)

    def run(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "stackproof", *map(str, words)]
        return self._run(argv, code)

    def line(self, text: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self._run(["bash", "-c", text], code)

    def _run(self, argv: list[str], code: int) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            argv, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False,
            timeout=600,
        )  # fmt: skip
        assert done.returncode == code, (argv, done.stdout, done.stderr)
        assert "bug in stackproof" not in done.stderr
        return done

    def data(self, *words: object) -> dict[str, Any]:
        return dict(json.loads(self.run(*words, "--json").stdout))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RemoteUser]:
    need("mksquashfs")
    make_image(tmp_path / "a.squashfs")
    with OwnRegistry() as server:
        yield RemoteUser(tmp_path, f"{server.address}/images")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteUser]:
    """Somebody whose registry has one image, which nobody changes."""
    need("mksquashfs")
    folder = tmp_path_factory.mktemp("shared")
    make_image(folder / "a.squashfs")
    with OwnRegistry() as server:
        user = RemoteUser(folder, f"{server.address}/images")
        user.run("image", "push", "a.squashfs", f"deploy::{WHOLE}")
        yield user


@pytest.mark.battery
def test_the_lines_of_the_page(tmp_path: Path) -> None:
    """Those that run a program of an image are the mount room's business."""
    need("mksquashfs", "docker-registry")
    make_image(tmp_path / "mpich.squashfs")
    make_image(tmp_path / "intel-mpi.squashfs", meta=env_json(name="other"))
    with docker_registry(tmp_path / "server") as address:
        user = RemoteUser(tmp_path, f"{address}/images")
        said = {
            line.text.partition("  #")[0].strip(): user.line(line.text).stdout
            for line in documented.lines_of(PAGE)
            if not line.reason and not line.text.startswith("stackproof run")
        }
    assert len(said) == 12
    assert "mpich/5.0.2:v1@daint%zen2" in said["stackproof image find build::"]
    assert "0 B sent" in said["stackproof image copy build::mpich/5.0.2 deploy::"]
    history = said["stackproof image history build::mpich/5.0.2:v1@daint%zen2"].splitlines()
    assert len(history) == 3
    assert history[1].startswith("now ")


@pytest.mark.battery
def test_json_is_uenvs_and_more(own: RemoteUser) -> None:
    pushed = own.data("image", "push", "a.squashfs", f"deploy::{WHOLE}")
    assert pushed["sent"] == (own.folder / "a.squashfs").stat().st_size
    (found,) = own.data("image", "find")["records"]
    uenv = {"name", "version", "tag", "system", "uarch", "id", "digest", "size", "date"}
    assert found.keys() == uenv | {"namespace", "manifest"}
    assert own.run("image", "find", "--names").stdout == f"deploy::{WHOLE}\n"
    for word in ("ti", found["id"], found["digest"]):
        assert own.data("image", "find", word)["records"] == [found]
    pulled = own.data("image", "pull", f"deploy::{found['id']}")
    assert (pulled["digest"], pulled["manifest"]) == (found["digest"], found["manifest"])
    assert own.data("image", "history", "deploy::tiny")["records"][0]["until"] is None
    assert own.data("image", "delete", f"deploy::{WHOLE}") == {"deleted": [f"deploy::{WHOLE}"]}
    nothing = own.run("image", "find")
    assert nothing.stdout == ""
    assert "no image" in nothing.stderr


@pytest.mark.battery
def test_what_was_listed_last_is_known_without_the_registry(tmp_path: Path) -> None:
    need("mksquashfs")
    make_image(tmp_path / "a.squashfs")
    with OwnRegistry() as server:
        user = RemoteUser(tmp_path, f"{server.address}/images")
        assert user.run("image", "find", "--known", "--names").stdout == ""
        for namespace in ("build", "deploy"):
            user.run("image", "push", "a.squashfs", f"{namespace}::{WHOLE}")
            listed = user.data("image", "find", f"{namespace}::")
        server.asked.clear()
        known = ("image", "find", "--known")
        table = user.run(*known).stdout.splitlines()
        assert [row.split()[0] for row in table[1:]] == [f"build::{WHOLE}", f"deploy::{WHOLE}"]
        assert user.run(*known, "--names").stdout == f"build::{WHOLE}\ndeploy::{WHOLE}\n"
        assert server.asked == []
    assert user.data(*known, "deploy::tiny")["records"] == listed["records"]
    (kept,) = (tmp_path / "cache/listings").iterdir()
    (kept / "build.json").write_text("nonsense")
    assert user.run(*known, "--names").stdout == f"deploy::{WHOLE}\n"
    shutil.rmtree(tmp_path / "cache/listings")
    assert "nothing was listed from here yet" in user.run(*known).stderr


@pytest.mark.battery
def test_a_namespace_that_is_new_is_told(own: RemoteUser) -> None:
    """A misspelt one is made as well: no registry knows which ones a site means."""
    assert "`deplyo` has no image" in own.run("image", "find", "deplyo::").stderr
    words = ("image", "push", "a.squashfs", f"build::{WHOLE}")
    assert "the namespace `build` is new" in own.run(*words).stderr
    assert "is new" not in own.run(*words).stderr
    words = ("image", "copy", f"build::{WHOLE}", "deplyo::")
    assert "the namespace `deplyo` is new" in own.run(*words).stderr


@pytest.mark.battery
def test_a_label_of_another_namespace_is_said_with_it(own: RemoteUser) -> None:
    own.run("image", "push", "a.squashfs", f"build::{WHOLE}")
    assert "`build::tiny` has it" in own.run("image", "find", "tiny").stderr
    assert "`build::` has it" in own.run("image", "find").stderr
    assert "has it" not in own.run("image", "find", "other").stderr
    for word in ("tiny", "tiny/1", WHOLE):
        assert f"hint: `build::{word}` has it; " in own.run("image", "pull", word, code=6).stderr
    assert "has it" not in own.run("image", "pull", "build::other", code=6).stderr


def test_times_stand_below_each_other(own: RemoteUser) -> None:
    own.run("image", "push", "a.squashfs", f"build::{WHOLE}")
    make_image(own.folder / "b.squashfs", meta=env_json(name="other"))
    own.run("image", "push", "b.squashfs", f"build::{WHOLE}", "--force")
    head, now, before = own.run("image", "history", f"build::{WHOLE}").stdout.splitlines()
    column = head.index("ID")
    assert [row[column - 2 : column] for row in (head, now, before)] == ["  "] * 3
    assert len(now.split()[1]) == len(before[column:].split()[0]) == 16


def test_two_hundred_labels_are_two_requests(tmp_path: Path) -> None:
    """The list of the namespace, and its blob; how long that takes benchmarks/labels.py says."""
    with OwnRegistry() as server:
        registry = oci.opened(RemoteOptions(registry=server.address))
        records = [
            LabelRecord(
                label=labels.parse(f"many/{number}:v1@here%zen2"), date="2026-11-22 07:08:15",
                size=number, digest=f"{number:064x}", folder="", namespace="deploy",
            )
            for number in range(200)
        ]  # fmt: skip
        known = listing.parse(listing.render(records), namespace="deploy", where="here")
        catalogue.renew(registry, "deploy", add=known)
        registry.client.close()
        user = RemoteUser(tmp_path, server.address)
        server.asked.clear()
        said = user.run("image", "find").stdout.splitlines()
        assert len(said) == 201
        assert len(server.asked) == 2
        server.asked.clear()
        assert len(user.data("image", "find", "many/19")["records"]) == 1
        assert len(server.asked) == 2


@pytest.mark.battery
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["pull", "deploy::tinny"], 6, "did you mean `tiny`"),
        (["pull", "tiny/1:v1@there%zen2"], 6, "[image-missing]"),
        (["pull", "De::tiny"], 2, "no namespace"),
        (["push", "a.squashfs", "build::tiny"], 2, "lacks: version, tag, system, uarch"),
        (["push", "a.squashfs", "build::"], 2, "lacks: name"),
        (["push", "tinny", "build::"], 6, "there is no image `tinny`"),
        (["push", "none.squashfs", f"build::{WHOLE}"], 6, "[image-missing]"),
        (["copy", "tiny", "deploy::"], 2, "source and destination"),
        (["delete", "deploy::tiny"], 2, "lacks: version"),
        (["rollback", f"deploy::{WHOLE}"], 6, "[image-missing]"),
        (["history", "build::tiny/1:v1@here%zen2"], 6, "[image-missing]"),
        (["find", "--registry", "ftp://a"], 2, "no address"),
        (["find", "--registry", "127.0.0.1:1"], 4, "[no-network]"),
        (["find", "--token", "none"], 3, "[file-missing]"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_wrong_input(
    words: list[str], code: int, said: str, shared: RemoteUser,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, value in shared.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    monkeypatch.chdir(shared.folder)
    with pytest.raises(SystemExit) as ended:
        cli.main(["image", *words])
    assert ended.value.code == code
    assert said in capfd.readouterr().err
    gc.collect()


def test_no_registry_is_named(own: RemoteUser) -> None:
    del own.env["STACKPROOF_REGISTRY"]
    assert "STACKPROOF_REGISTRY" in own.run("image", "find", code=2).stderr
