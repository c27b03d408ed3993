"""What runs inside the build's sandbox: views as changes of an environment, and the tidying."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.build.engines.spack.effects import worker as spack_worker
from stackproof.build.engines.spack.effects.worker import Patch

VALUES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")).map(
    lambda text: text.replace("${@", "").replace("\r", "")
)


def sourced(patch: Patch, **environment: str) -> dict[str, str]:
    """Return the environment after a shell has read `activate.sh`."""
    script = f"{spack_worker.activation('view', patch)}\nenv -0"
    done = subprocess.run(
        ["sh", "-eu", "-c", script], env={"PATH": "/usr/bin:/bin", **environment},
        check=True, capture_output=True,
    )  # fmt: skip
    pairs = (entry.split("=", 1) for entry in os.fsdecode(done.stdout).split("\0") if entry)
    return dict(pairs)  # type: ignore[arg-type]


def test_lists_and_scalars() -> None:
    patch = Patch(["PATH", "MANPATH"])
    patch.add("PATH", "prepend", ["/a"])
    patch.add("PATH", "prepend", ["/b"])
    patch.add("MANPATH", "append", ["/m"])
    patch.scalar("A", "1")
    patch.scalar("B", None)
    patch.scalar("C", "x ${@HOME@}/y")
    found = sourced(patch, B="gone", HOME="/h")
    assert found["PATH"] == "/b:/a:/usr/bin:/bin"
    assert found["MANPATH"] == "/m"
    assert (found["A"], "B" in found, found["C"]) == ("1", False, "x /h/y")
    data = patch.data()["values"]
    assert data["list"]["PATH"] == [{"op": "prepend", "value": ["/b", "/a"]}]
    assert data["scalar"] == {"A": "1", "B": None, "C": "x ${@HOME@}/y"}


@given(VALUES)
def test_any_value_comes_out_of_a_shell_as_it_went_in(value: str) -> None:
    patch = Patch([])
    patch.scalar("A", value)
    assert os.fsencode(sourced(patch)["A"]) == value.encode()


@pytest.mark.parametrize(
    ("path", "ours"),
    [("/user-environment/env/x/bin", True), ("/opt/site/bin", True), ("/usr/bin", False),
     ("/usr/local/lib", False), ("/build/spack/bin", False), ("/", False), ("/usr", False)],
)  # fmt: skip
def test_folders_of_the_machine_do_not_belong_into_a_view(path: str, ours: bool) -> None:
    assert spack_worker.is_ours(path) is ours


def test_what_spack_changes_is_folded() -> None:
    def change(kind: str, name: str, value: str | None = None, **more: str) -> SimpleNamespace:
        made = type(kind, (SimpleNamespace,), {})
        return made(name=name, value=value, **more)

    patch = Patch(["PATH"])
    for one in (
        change("PrependPath", "PATH", "/user-environment/a/bin"),
        change("PrependPath", "PATH", "/usr/bin"),
        change("SetEnv", "HOMEPAGE", "x"),
        change("SetEnv", "SPACK_ENV", "x"),
        change("AppendFlagsEnv", "LDFLAGS", "-g", separator=" "),
        change("UnsetEnv", "OLD"),
        change("DeprioritizeSystemPaths", "PATH"),
    ):
        spack_worker.fold(patch, one)
    values = patch.data()["values"]
    assert values["list"] == {"PATH": [{"op": "prepend", "value": ["/user-environment/a/bin"]}]}
    assert values["scalar"] == {"HOMEPAGE": "x", "LDFLAGS": "${@LDFLAGS@} -g", "OLD": None}
    with pytest.raises(SystemExit):
        spack_worker.fold(patch, change("SomethingNew", "X"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with one package, a view of it, a module, and Spack's database."""
    records = tmp_path / "linux-x" / "pack-1.0-abc" / ".spack"
    (records / "archived-files").mkdir(parents=True)
    kept = {"spec.json": "{}", "install_manifest.json": ""}
    gone = ("spack-build-out.txt.gz", "spack-build-env.txt", "install_times.json",
            "binary_distribution")  # fmt: skip
    for name in (*kept, *gone):
        (records / name).write_text(kept.get(name, "x"))
    entry = {"mode": 33188, "owner": 1000, "group": 1000, "time": 12.5, "type": "file"}
    manifest = {str(records / name): entry for name in (*kept, *gone)}
    manifest[str(records.parent / "__pycache__" / "x.pyc")] = entry
    (records / "install_manifest.json").write_text(json.dumps(manifest))
    (records.parent / "__pycache__").mkdir()
    view = tmp_path / "env" / "._default" / "hash" / ".spack" / "pack"
    view.mkdir(parents=True)
    for name in (*kept, *gone):
        (view / name).symlink_to(records / name)
    (tmp_path / "env" / "default").symlink_to(tmp_path / "env" / "._default" / "hash")
    module = tmp_path / "modules" / "pack"
    module.parent.mkdir()
    module.write_text("#%Module1.0\n## Module file created by spack (x) on 2026-11-21 16:00:00\n")
    database = tmp_path / ".spack-db"
    (database / "failures").mkdir(parents=True)
    (database / "prefix_lock").write_text("")
    index = {"database": {"installs": {"abc": {"installation_time": 1.5}}}}
    (database / "index.json").write_text(json.dumps(index))
    (database / "index.json.gz").write_bytes(b"x")
    return tmp_path


def test_two_builds_of_one_lock_leave_the_same(store: Path) -> None:
    spack_worker.tidy(str(store), 7)
    records = store / "linux-x" / "pack-1.0-abc" / ".spack"
    assert {path.name for path in records.iterdir()} == {"spec.json", "install_manifest.json"}
    manifest = json.loads((records / "install_manifest.json").read_text())
    assert {Path(path).name for path in manifest} == {"spec.json", "install_manifest.json"}
    assert {(e["owner"], e["group"], e["time"]) for e in manifest.values()} == {(0, 0, 0.0)}
    assert not (records.parent / "__pycache__").exists()
    assert "2026" not in (store / "modules" / "pack").read_text()
    database = store / ".spack-db"
    assert {path.name for path in database.iterdir()} == {"index.json", "index.json.gz"}
    text = (database / "index.json").read_bytes()
    assert json.loads(text)["database"]["installs"]["abc"] == {"installation_time": 7.0}
    assert gzip.decompress((database / "index.json.gz").read_bytes()) == text


def test_a_view_has_no_links_to_what_was_taken_out(store: Path) -> None:
    spack_worker.tidy(str(store), 7)
    links = {path.name: path for path in (store / "env" / "default" / ".spack" / "pack").iterdir()}
    assert set(links) == {"spec.json", "install_manifest.json"}
    assert all(path.exists() for path in links.values())


def test_tidying_twice_changes_nothing(store: Path) -> None:
    def content() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in store.rglob("*") if p.is_file()}

    spack_worker.tidy(str(store), 7)
    once = content()
    spack_worker.tidy(str(store), 7)
    assert content() == once


def test_one_time_for_all_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("x")
    (tmp_path / "a" / "link").symlink_to("nowhere")
    spack_worker.set_times(str(tmp_path), 7)
    assert {path.lstat().st_mtime for path in tmp_path.rglob("*")} == {7.0}


def test_words_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    del capsys
    with pytest.raises(SystemExit):
        spack_worker.main(["nothing"])
