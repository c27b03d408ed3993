"""`check`, `plan` and `build` as a user meets them: exit codes, messages, files left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from need import need
from stackproof.build.effects import locking
from stackproof.build.effects.loaded import Loaded
from stackproof.build.engines.wheel.stack import Lock
from stackproof.core.effects import shipped
from stackproof.core.effects.documents import load_noun
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor

COVERS = (
    "build/benchmark.py",
    "build/cli/build.py",
    "build/effects/step_cache.py",
    "build/engines/wheel/effects/builder.py",
    "build/engines/wheel/effects/worker.py",
    "build/pip_answers.py",
    "image/superblock.py",
)

MPICH = "name: small\nmpi: {family: mpich, version: '5.0.2'}\n"


def stackproof(*words: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stackproof", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "STACKPROOF_CACHE": str(cwd / "cache"), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    need("gcc")
    (tmp_path / "small.yaml").write_text(MPICH)
    return tmp_path


def files_in(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()} - {"cache"}


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("name: x\nname: y\nmpi: {family: mpich}\n", 3, "bad.yaml:2:1"),
        ("name: x\nmpi: {family: mpich, verison: '5'}\n", 3, "did you mean `version`"),
        ("name: x\nmpi: {family: mpich}\nmount: /usr\n", 3, "bad.yaml:3:8"),
        ("name: !!python/name:os.system\nmpi: {family: mpich}\n", 3, "bad.yaml:1:7"),
        ("name: [\n", 3, "not YAML"),
        ("name: x\nmpi: {family: cray-mpich}\n", 3, "bad.yaml:2:15"),
    ],
)
def test_bad_recipes(folder: Path, text: str, code: int, said: str) -> None:
    (folder / "bad.yaml").write_text(text)
    for verb in ("check", "plan", "build"):
        before = files_in(folder)
        done = stackproof(verb, "bad.yaml", cwd=folder)
        assert done.returncode == code
        assert said in done.stderr
        assert done.stdout == ""
        assert files_in(folder) == before


def test_missing_recipe_folder_recipe_and_huge_recipe(folder: Path) -> None:
    assert "does not exist" in stackproof("check", "none.yaml", cwd=folder).stderr
    assert stackproof("check", "none.yaml", cwd=folder).returncode == 3
    done = stackproof("build", ".", cwd=folder)
    assert (done.returncode, "`config.yaml`" in done.stderr) == (3, True)
    with (folder / "huge.yaml").open("wb") as stream:
        stream.truncate(100_000_000)
    done = stackproof("check", "huge.yaml", cwd=folder)
    assert (done.returncode, "has more than 1048576 bytes" in done.stderr) == (3, True)


def test_check_as_json(folder: Path) -> None:
    (folder / "bad.yaml").write_text("name: x\nmpi: {family: mpich}\nmount: /usr\nmuont: 1\n")
    done = stackproof("check", "bad.yaml", "--json", cwd=folder)
    assert done.returncode == 3
    found = json.loads(done.stdout)["problems"]
    assert {(p["reason"], p["line"]) for p in found} == {("bad-mount-point", 3), ("unknown-key", 4)}


@pytest.mark.battery
def test_version_that_does_not_exist(folder: Path) -> None:
    need("network")
    (folder / "bad.yaml").write_text("name: x\nmpi:\n  family: mpich\n  version: '9.9.9'\n")
    done = stackproof("check", "bad.yaml", cwd=folder)
    assert done.returncode == 3
    assert "bad.yaml:4:12" in done.stderr
    assert "5.0.2" in done.stderr


@pytest.mark.battery
def test_no_network_and_no_lock(folder: Path) -> None:
    done = stackproof("build", "small.yaml", cwd=folder, PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert done.returncode == 4, done.stderr
    assert files_in(folder) == {"small.yaml"}
    checked = stackproof(
        "check", "small.yaml", cwd=folder, PIP_INDEX_URL="http://127.0.0.1:9/simple"
    )
    assert checked.returncode == 0
    assert "not looked up" in checked.stderr


@pytest.mark.battery
def test_a_folder_of_wheels_that_is_not_there(tmp_path: Path) -> None:
    """Both where a lock is to be made and where one names the files."""
    need("gcc")
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(Path(__file__).parents[2] / "recipes" / name, tmp_path)
    for more, code in ((), 4), (("--update",), 3):
        done = stackproof(
            "build", "mpich.yaml", *more, cwd=tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS="/nowhere"
        )
        assert done.returncode == code, done.stderr
        assert "hint: pip looks into `/nowhere`, which is not there" in done.stderr


@pytest.mark.parametrize(
    ("by_name", "said"), [(False, "copy the recipe"), (True, "go to a folder")]
)
def test_a_lock_that_cannot_be_written_says_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch, by_name: bool, said: str
) -> None:
    """Nobody may make a file in /sys, whoever runs this."""
    monkeypatch.chdir("/sys")
    recipe = shipped.find("recipes", "mpich")
    path = recipe if by_name else Path("/sys/a.yaml")
    loaded = Loaded(path=path, stack=None, by_name=by_name)  # only the recipe's place is asked
    with pytest.raises(StackproofError) as caught:
        locking.write(loaded, load_noun(Lock, recipe.with_name("mpich.lock.json")), null_monitor)
    assert caught.value.reason is Reason.NOT_PERMITTED
    assert said in (caught.value.problems[0].hint or "")


def test_what_is_for_builds_from_source_is_refused(folder: Path) -> None:
    done = stackproof("build", "small.yaml", "--build-dir", folder / "b", cwd=folder)
    assert (done.returncode, "STACKPROOF_CACHE" in done.stderr) == (2, True)
    assert files_in(folder) == {"small.yaml"}


def test_output_that_cannot_be_written(folder: Path) -> None:
    assert stackproof("build", "small.yaml", "-o", ".", cwd=folder).returncode == 2
    assert stackproof("build", "small.yaml", "-o", "no/x.squashfs", cwd=folder).returncode == 3


def test_locked_needs_a_lock(folder: Path) -> None:
    done = stackproof("build", "small.yaml", "--locked", cwd=folder)
    assert done.returncode == 3
    assert "--update" in done.stderr


def test_a_lock_that_is_not_one(folder: Path) -> None:
    (folder / "small.lock.json").write_text('{"schema": "something/else"}')
    done = stackproof("build", "small.yaml", cwd=folder)
    assert done.returncode == 3
    assert "small.lock.json" in done.stderr


def test_build_for_another_machine(folder: Path) -> None:
    site = "name: far\ndescription: x\narchitectures: [riscv64]\n"
    (folder / "far.yaml").write_text(site)
    done = stackproof("build", "small.yaml", "--site", "far.yaml", cwd=folder)
    assert done.returncode == 3


@pytest.mark.battery
def test_no_bubblewrap(folder: Path) -> None:
    """Without the sandbox nothing is built; it is never left out silently."""
    need("network")
    (folder / "bin").mkdir()
    for program in ("gcc", "sh", "uname", "cc"):
        real = Path(f"/usr/bin/{program}")
        if real.exists():
            (folder / "bin" / program).symlink_to(real)
    done = stackproof("build", "small.yaml", cwd=folder, PATH=str(folder / "bin"))
    assert done.returncode == 4, done.stderr
    assert "bubblewrap" in done.stderr
    assert not (folder / "small.squashfs").exists()


def test_a_cache_where_no_folder_can_be_made(tmp_path: Path) -> None:
    """The build ends, and names the variable; it once tried again for ever."""
    need("gcc")
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(Path(__file__).parents[2] / "recipes" / name, tmp_path)
    done = stackproof("build", "mpich.yaml", cwd=tmp_path, STACKPROOF_CACHE="/proc/x")
    assert done.returncode == 4, done.stderr
    assert "/proc/x" in done.stderr
    assert "STACKPROOF_CACHE" in done.stderr


@pytest.mark.battery
def test_build_twice_and_a_changed_digest(folder: Path) -> None:
    need("network", "bubblewrap", "mksquashfs")
    first = stackproof("build", "small.yaml", "--json", cwd=folder)
    assert first.returncode == 0, first.stderr
    made = json.loads(first.stdout)
    assert made["steps_run"] == 4
    names = {"small.yaml", "small.lock.json", "small.squashfs", "small.squashfs.sha256"}
    assert files_in(folder) == names
    subprocess.run(["sha256sum", "-c", "small.squashfs.sha256"], cwd=folder, check=True)
    told = [
        json.loads(stackproof("inspect", "small.squashfs", "--json", *more, cwd=folder).stdout)
        for more in ((), ("--tree",))
    ]
    assert told[0]["tree"] == told[1]["tree"]
    assert len(told[0]["tree"]["sha256"]) == 64
    second = stackproof("build", "small.yaml", cwd=folder)
    assert "nothing to do" in second.stderr
    assert made["sha256"] in second.stdout
    listed = subprocess.run(
        ["unsquashfs", "-cat", "small.squashfs", "meta/lock.json"],
        cwd=folder, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert listed == (folder / "small.lock.json").read_text()
    # The same name with another digest, as a tampered index would serve it.
    lock = json.loads((folder / "small.lock.json").read_text())
    lock["artefacts"][0]["sha256"] = "0" * 64
    (folder / "small.lock.json").write_text(json.dumps(lock))
    bad = stackproof("build", "small.yaml", "-o", "bad.squashfs", cwd=folder)
    assert bad.returncode == 5
    assert "not the file that was locked" in bad.stderr
    assert not (folder / "bad.squashfs").exists()


@pytest.mark.battery
def test_nothing_in_the_image_names_the_build_folder(folder: Path) -> None:
    need("network", "bubblewrap", "mksquashfs")
    assert stackproof("build", "small.yaml", cwd=folder).returncode == 0
    subprocess.run(
        ["unsquashfs", "-q", "-n", "-d", "tree", "small.squashfs"],
        cwd=folder, capture_output=True, check=True,
    )  # fmt: skip
    # Another compiler or another mksquashfs makes other bytes: the image says which it was.
    bill = json.loads((folder / "tree" / "meta" / "bom.cdx.json").read_text())
    told = {one["name"]: one["value"] for one in bill["metadata"]["component"]["properties"]}
    version = subprocess.run(
        ["mksquashfs", "-version"], capture_output=True, text=True, check=True
    ).stdout.split()[2]
    assert told["stackproof:packer"] == f"mksquashfs {version}"
    assert told["stackproof:compiler"].startswith("gcc ")
    found = subprocess.run(
        ["grep", "-rlF", str(folder), "tree"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == ""
