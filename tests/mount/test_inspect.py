"""`stackproof inspect`, as a user calls it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import inprocess
from images import MOUNT, env_json, make_image
from need import need
from stackproof.image.effects import tree

COVERS = ("mount/options.py",)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    need("mksquashfs")
    return make_image(tmp_path / "a.squashfs", options=("-comp", "xz"))


def call(*argv: str | Path) -> tuple[int, str, str]:
    done = inprocess.stackproof("inspect", *argv)
    return done.returncode, done.stdout, done.stderr


def test_text_for_people(image: Path) -> None:
    code, out, err = call(image)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "tiny: an image for tests"
    assert [" ".join(line.split()) for line in lines[1:4]] == [
        f"file {image}",
        f"size {image.stat().st_size} bytes, xz, 9 files and folders",
        f"mount point {MOUNT}",
    ]
    assert "default: the usual (default)" in out
    assert f"mpich 5.0.2 in {MOUNT}/mpich, started by hydra" in out
    assert "SHA-256" not in out


def test_variables_that_a_view_may_not_change_are_shown(tmp_path: Path) -> None:
    need("mksquashfs")
    data = env_json()
    data["views"]["default"]["env"]["values"]["scalar"] = {"HISTFILE": "/x", "FI_A": "", "B": ""}
    image = make_image(tmp_path / "a.squashfs", meta=data)
    _, out, _ = call(image)
    assert "to allow     default: B, HISTFILE (see --allow-variable)" in out
    _, out, _ = call(image, "--json")
    assert json.loads(out)["variables-to-allow"] == {"bare": [], "default": ["B", "HISTFILE"]}


def test_json(image: Path) -> None:
    code, out, err = call(image, "--json")
    data = json.loads(out)
    assert (code, err) == (0, "")
    assert data["schema"] == "stackproof/image/1"
    assert (data["path"], data["size"]) == (str(image), image.stat().st_size)
    assert (data["mount"], data["default_view"]) == (MOUNT, "default")
    assert data["views"]["default"]["env"]["set"] == {"MPI_TINY": "yes"}
    assert data["squashfs"]["compressor"] == "xz"
    assert (data["stack_id"], data["lock_digest"]) == ("0" * 64, "1" * 64)
    assert set(data["problems-to-mount"]) == {"kernel", "helper", "fuse"}
    assert data["sha256"] == ""


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_digest(image: Path, form: list[str]) -> None:
    _, out, _ = call(image, "--digest", *form)
    assert hashlib.sha256(image.read_bytes()).hexdigest() in out


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_digest_of_the_tree(image: Path, tmp_path: Path, form: list[str]) -> None:
    code, _, err = call(image, "--tree", "0" * 64, *form)
    assert (code, "holds devices, pipes or sockets" in err) == (6, True)
    image = make_image(tmp_path / "b.squashfs", device=False)
    digest = tree.of_image(str(image)).sha256
    assert digest not in call(image, *form)[1]
    code, out, _ = call(image, "--tree", digest, *form)
    assert (code, digest in out) == (0, True)
    code, _, err = call(image, "--tree", "0" * 64, *form)
    assert (code, "is another one" in err) == (6, True)
    code, _, err = call(image, "--tree", *form)
    assert (code, "records no digest of its tree" in err) == (6, True)
    code, _, err = call(image, "--tree", "12", *form)
    assert (code, "`12` is no SHA-256" in err) == (2, True)


def test_an_image_that_nobody_may_hand_on_says_so(image: Path, tmp_path: Path) -> None:
    told = env_json(stackproof={"redistribute": "no"})
    kept = make_image(tmp_path / "kept.squashfs", meta=told)
    assert "redistribute no: it holds files of a vendor" in " ".join(call(kept)[1].split())
    assert json.loads(call(kept, "--json")[1])["redistribute"] is False
    assert "redistribute" not in call(image)[1]


def test_a_relative_path(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(image.parent)
    assert json.loads(call("a.squashfs", "--json")[1])["path"] == str(image)


def test_an_image_of_others_with_little_metadata(tmp_path: Path) -> None:
    need("mksquashfs")
    path = make_image(tmp_path / "a.squashfs", meta={"mount": "/user-tools", "views": {}})
    code, out, _ = call(path)
    assert code == 0
    assert out.splitlines()[0] == "unnamed"


def test_text_of_the_image_does_not_command_the_terminal(tmp_path: Path) -> None:
    need("mksquashfs")
    meta = env_json(name="a\x1b[2Jb\n  mounted by", description="\x9b31m", mount="/x\x07")
    code, out, _ = call(make_image(tmp_path / "a.squashfs", meta=meta))
    assert code == 0
    assert all(character.isprintable() for character in out.replace("\n", ""))
    assert out.splitlines()[0] == "a?[2Jb?  mounted by: ?31m"


@pytest.mark.parametrize("name", ["none", "text", "folder", "cut", "bare"])
def test_what_is_not_an_image(tmp_path: Path, image: Path, name: str) -> None:
    (tmp_path / "text").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "cut").write_bytes(image.read_bytes()[:2000])
    make_image(tmp_path / "bare", meta=None)
    code, out, err = call(tmp_path / name)
    assert (code, out) == (6, "")
    assert err.startswith("error: ")
    assert f"--> {tmp_path / name}" in err


def test_what_is_of_another_kind_says_where_it_is_looked_at(tmp_path: Path) -> None:
    made = {
        "results/bench.json": "compare",
        "layout/oci-layout": "inject check --root",
        "artefact/meta/artefact.json": "inject check PROGRAM --with",
        "mpi.yaml": "plan",
    }
    for name, said in made.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
        place = tmp_path / name.partition("/")[0]
        code, out, err = call(place)
        assert (code, out) == (6, "")
        assert f"hint: see `stackproof {said}" in err
    assert "inject check --root oci:" in call(f"oci:{tmp_path / 'layout'}")[2]


def test_without_unsquashfs(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    code, out, err = call(image)
    assert (code, out) == (4, "")
    assert "squashfs-tools" in err


def test_damaged_data_is_found(image: Path) -> None:
    """By the record that `build` writes beside an image, or by a digest; as sha256sum has it."""
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    assert "[file-missing]" in call(image, "--verify")[2]
    image.with_name(f"{image.name}.sha256").write_text(f"{digest}  {image.name}\n")
    code, out, _ = call(image, "--verify")
    assert (code, f"{digest}, as recorded" in out) == (0, True)
    assert call(image, "--verify", digest)[0] == 0
    assert call(image, "--verify", "abc")[0] == 2
    content = bytearray(image.read_bytes())
    content[len(content) // 2] ^= 1
    image.write_bytes(content)
    for form in ([], [digest]):
        code, out, err = call(image, "--verify", *form)
        assert (code, out) == (6, "")
        assert "[image-damaged]" in err
        assert digest in err


def test_which_tests_fit_a_view(tmp_path: Path) -> None:
    need("mksquashfs")
    meta = env_json()
    meta["views"]["default"]["features"] = ["mpi", "mpich"]
    image = make_image(tmp_path / "a.squashfs", meta=meta)
    assert "default: the usual [mpi, mpich] (default)" in call(image)[1]
    data = json.loads(call(image, "--json")[1])
    assert data["views"]["default"]["features"] == ["mpi", "mpich"]
