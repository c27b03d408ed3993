"""Stackinator recipes from their folders: links, what is no file, keys, and whole recipes."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import socket
from pathlib import Path

import pytest

from stackinators import DOCUMENTS, SMALL
from stackproof.build.engines.spack.effects.stackinator import load, load_caches, load_cluster
from stackproof.core import limits
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.recipe.effects import inheritance

FJORD = str(DOCUMENTS / "clusters" / "fjord")
# The beginning of a public key without armour: an old-format packet of tag 6.
PUBLIC_KEY = b"\x99\x01\x0d\x04"


def write(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Return a collection of recipes: a git checkout with one recipe and a shared folder."""
    write(tmp_path / "recipes" / "small", SMALL[2])
    write(tmp_path / "recipes" / "shared", {"repo/packages/a/package.py": "# a\n"})
    (tmp_path / ".git").mkdir()
    write(tmp_path / ".git", {"config": "secret\n"})
    return tmp_path / "recipes"


def reasons(*args: object, **options: object) -> list[Reason]:
    with pytest.raises(StackproofError) as raised:
        load(*args, **options)  # type: ignore[arg-type]
    assert all(problem.where for problem in raised.value.problems)
    return [problem.reason for problem in raised.value.problems]


def test_a_shared_repository_is_followed(collection: Path):
    (collection / "small" / "repo").symlink_to("../shared/repo/")
    (collection / "small" / "compilers.yaml").rename(collection / "compilers.yaml")
    (collection / "small" / "compilers.yaml").symlink_to("../compilers.yaml")
    loaded = load(str(collection / "small"), site=FJORD)
    recipe = loaded.stack.local_repositories[0]
    entry = recipe.files["packages/a/package.py"]
    assert loaded.blobs[entry.sha256].read_text() == "# a\n"
    assert loaded.stack.recipe_files["repo/packages/a/package.py"] == entry
    for found, place in loaded.blobs.items():
        assert hashlib.sha256(place.read_bytes()).hexdigest() == found


def test_every_blob_of_a_stack_is_there(collection: Path):
    loaded = load(str(collection / "small"), site=FJORD)
    stack = loaded.stack
    entries = [*stack.recipe_files.values(), *stack.extra_files.values()]
    entries += [e for r in stack.local_repositories for e in r.files.values()]
    assert {entry.sha256 for entry in entries} <= set(loaded.blobs)
    assert [r.namespace for r in stack.local_repositories] == ["alps"]


@pytest.mark.parametrize(
    "target",
    ["/etc", "/etc/passwd", "../../../..", "/proc/self/environ", "../away", ".", "..", "extra", "../small"],
)  # fmt: skip
def test_a_link_that_leaves_is_refused(collection: Path, target: str):
    """Or one to where it stands, or to nothing; of others it counts where they end."""
    (collection / "away").symlink_to("/etc")
    (collection / "small" / "extra").symlink_to(target)
    assert set(reasons(str(collection / "small"), site=FJORD)) == {Reason.INVALID_VALUE}


def test_a_link_within_the_collection_needs_a_checkout(collection: Path):
    shutil.rmtree(collection.parent / ".git")
    (collection / "small" / "repo").symlink_to("../shared/repo")
    assert reasons(str(collection / "small"), site=FJORD) == [Reason.INVALID_VALUE]
    assert load(str(collection / "small"), site=FJORD, root=str(collection)).blobs


def test_a_name_that_begins_as_the_root_is_outside_of_it(tmp_path: Path):
    write(tmp_path / "root-of-another", {"x": "secret"})
    recipe = write(tmp_path / "root" / "small", SMALL[2])
    (recipe / "x").symlink_to("../../root-of-another/x")
    found = reasons(str(recipe), site=FJORD, root=str(tmp_path / "root"))
    assert found == [Reason.INVALID_VALUE]


def test_links_into_git_are_refused(collection: Path):
    (collection / "small" / "extra").symlink_to("../../.git")
    (collection / "small" / "more").symlink_to("../../.git/config")
    assert reasons(str(collection / "small"), site=FJORD) == [Reason.INVALID_VALUE] * 2


def test_a_home_that_is_a_checkout_allows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / ".git").mkdir()
    recipe = write(tmp_path / "small", SMALL[2])
    assert inheritance.allowed_root(str(recipe)) == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert inheritance.allowed_root(str(recipe)) == str(recipe)


def test_the_folder_itself_may_be_a_link(collection: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to(collection / "small")
    assert load(str(tmp_path / "link"), site=FJORD).stack.name == "small"


def test_what_is_no_file(collection: Path):
    os.mkfifo(collection / "small" / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(collection / "small", os.O_RDONLY)
        server.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    assert reasons(str(collection / "small"), site=FJORD) == [Reason.INVALID_VALUE] * 2


def test_too_many_files(collection: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits.FOLDER, "count", 2)
    assert reasons(str(collection / "small"), site=FJORD) == [Reason.TOO_LARGE]
    monkeypatch.setattr(limits.FOLDER, "count", 100)
    monkeypatch.setattr(limits.FOLDER, "bytes", 10)
    assert reasons(str(collection / "small"), site=FJORD) == [Reason.TOO_LARGE]


def test_names_that_are_no_text(collection: Path):
    (collection / "small" / "a\nb").write_text("")
    with open(os.fsencode(collection / "small") + b"/\xff", "w"):
        pass
    assert reasons(str(collection / "small"), site=FJORD) == [Reason.INVALID_VALUE] * 2


def test_executables_stay_so_and_git_stays_out(collection: Path):
    write(collection / "small", {".git/HEAD": "x", "run.sh": "true\n"})
    (collection / "small" / "run.sh").chmod(0o755)
    files = load(str(collection / "small"), site=FJORD).stack.recipe_files
    assert files["run.sh"].executable
    assert not files["config.yaml"].executable
    assert not any(path.startswith(".git") for path in files)


def test_nothing_there(tmp_path: Path):
    assert reasons(str(tmp_path / "nothing"), site=FJORD) == [Reason.FILE_MISSING]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert reasons(str(empty), site=FJORD) == [Reason.FILE_MISSING]
    recipe = write(tmp_path / "small", SMALL[2])
    assert reasons(str(recipe), site=str(tmp_path / "none")) == [Reason.FILE_MISSING]


def test_all_problems_of_all_folders_at_once(tmp_path: Path):
    recipe = write(tmp_path / "small", {**SMALL[2], "compilers.yaml": "gcc: {version: 13}\n"})
    site = write(
        tmp_path / "site", {"packages.yaml": "packages: {}\n", "repos.yaml": "repos: [x]\n"}
    )
    mirrors = write(tmp_path, {"mirrors.yaml": "buildcache: {}\n"}) / "mirrors.yaml"
    found = reasons(str(recipe), site=str(site), mirrors=str(mirrors))
    assert sorted(found) == sorted(
        [Reason.WRONG_TYPE, Reason.MISSING_KEY, Reason.INVALID_VALUE, Reason.MISSING_KEY]
    )


@pytest.mark.parametrize("path", ["/etc", "../nothing", "../../clusters"])
def test_repositories_of_a_cluster(tmp_path: Path, path: str):
    site = shutil.copytree(FJORD, tmp_path / "fjord")
    (site / "repos.yaml").write_text(f"repos: ['{path}']\n")
    with pytest.raises(StackproofError) as raised:
        load_cluster(str(site))
    assert raised.value.reason is Reason.INVALID_VALUE
    assert raised.value.problems[0].where.line == 1


def test_a_cluster_may_link_its_network(tmp_path: Path):
    site = shutil.copytree(FJORD, tmp_path / "clusters" / "fjord")
    shutil.copytree(DOCUMENTS / "site", tmp_path / "site")
    (site / "network.yaml").rename(tmp_path / "network.yaml")
    (site / "network.yaml").symlink_to("../../network.yaml")
    cluster, blobs = load_cluster(str(site))
    assert "openmpi" in cluster.mpis
    assert {entry.sha256 for entry in cluster.repository.values()} <= set(blobs)
    assert cluster.repository


def test_a_cluster_document_that_is_no_file(tmp_path: Path):
    site = shutil.copytree(FJORD, tmp_path / "fjord")
    (site / "network.yaml").unlink()
    os.mkfifo(site / "network.yaml")
    with pytest.raises(StackproofError) as raised:
        load_cluster(str(site))
    assert Reason.INVALID_VALUE in {p.reason for p in raised.value.problems}


# keys of mirrors


def caches(folder: Path, document: str, **files: bytes):
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "mirrors.yaml").write_text(document)
    return load_caches(str(folder / "mirrors.yaml"), "/user-environment")[0]


def test_a_key_is_a_file_beside_the_document(tmp_path: Path):
    found = caches(tmp_path, "buildcache: {url: /c, public_key: key}\n", key=PUBLIC_KEY)
    assert found.public_keys == (str(tmp_path / "key"),)
    assert found.private_key is None
    armour = b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n"
    found = caches(tmp_path, "buildcache: {url: /c, private_key: own}\n", own=armour)
    assert found.private_key == str(tmp_path / "own")


def test_a_key_in_base64_is_kept_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    text = base64.b64encode(PUBLIC_KEY * 20).decode()
    found = caches(tmp_path, f"buildcache: {{url: /c, private_key: {text}}}\n")
    assert found.private_key is not None
    assert Path(found.private_key).read_bytes() == PUBLIC_KEY * 20
    assert Path(found.private_key).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("key", ["nothing.gpg", "text", "aGVsbG8="])
def test_what_is_no_key(tmp_path: Path, key: str):
    document = f"buildcache: {{url: /c, public_key: {key}}}\n"
    problem = refused(tmp_path, document, text=b"hello\n")
    assert (problem.reason, problem.where.column) == (Reason.INVALID_VALUE, 35)


def refused(folder: Path, document: str, **files: bytes) -> Problem:
    with pytest.raises(StackproofError) as raised:
        caches(folder, document, **files)
    return raised.value.problems[0]


def test_a_bootstrap_mirror_on_this_machine(tmp_path: Path):
    document = f"bootstrap: {{url: {tmp_path}/boot}}\n"
    assert refused(tmp_path, document).reason is Reason.FILE_MISSING
    (tmp_path / "boot").mkdir()
    assert refused(tmp_path, document).reason is Reason.INVALID_VALUE
    (tmp_path / "boot" / "metadata").mkdir()
    assert caches(tmp_path, document).mirrors


def test_old_cache(tmp_path: Path):
    assert refused(tmp_path, f"root: {tmp_path}/cache\n").reason is Reason.FILE_MISSING
    (tmp_path / "cache").mkdir()
    found = caches(tmp_path, f"root: {tmp_path}/cache\nkey: {tmp_path}/key\n", key=PUBLIC_KEY)
    assert found.private_key == str(tmp_path / "key")


def test_a_folder_is_a_mirror_of_sources(tmp_path: Path):
    (tmp_path / "_source-cache").mkdir()
    [mirror] = load_caches(str(tmp_path), "/mount")[0].mirrors
    assert mirror.kind == "source"
    assert mirror.settings["fetch"]["url"] == f"file://{tmp_path}"
    with pytest.raises(StackproofError) as raised:
        load_caches(str(tmp_path / "_source-cache"), "/mount")
    assert raised.value.reason is Reason.INVALID_VALUE
