"""`stackproof pack` as a user calls it: what it makes, what that does elsewhere, what it refuses."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import inprocess
import packs
from need import as_unprivileged, need
from packs import CALLS_ANSWER, MOUNT, Stack, out, pack
from stackproof.core.effects import outputs
from stackproof.image.effects import tree
from stackproof.linking.effects import runpath

COVERS = ("pack/cli/pack.py", "pack/options.py")


def tools() -> None:
    need("gcc", "mksquashfs", "patchelf")


@pytest.fixture(scope="module")
def small_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the small image, beside the tree that it was made of."""
    tools()
    return packs.small(tmp_path_factory.mktemp("small"))


def made(folder: Path, image: Path, *words: str | Path) -> Path:
    """Return a pack of an image."""
    done = pack(image, "-o", folder / "out", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.mark.battery
def test_a_label_names_the_image(
    tmp_path: Path, small_image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKPROOF_REPOSITORY", str(tmp_path / "repository"))
    done = inprocess.stackproof("image", "add", "small/1:v1", small_image)
    assert done.returncode == 0, done.stderr
    by_label, by_file = (
        inprocess.stackproof("pack", word, "--explain", cwd=tmp_path)
        for word in ("small/1", small_image)
    )
    assert by_label.returncode == 0, by_label.stderr
    assert by_label.stdout == by_file.stdout


@pytest.mark.parametrize("name", ["a blank", "x" * 200 + "/" + "y" * 200])
def test_a_pack_runs_wherever_it_is_moved(tmp_path: Path, name: str, small_image: Path) -> None:
    target = tmp_path / name
    target.parent.mkdir(parents=True, exist_ok=True)
    made(tmp_path, small_image).rename(target)
    done = out(target / "bin/hello", "a b")
    assert done.stdout == f"{target}/bin/hello 42 {target}/stack/lib\na b\n", done.stderr
    done = out(target / "bin/say", "x")
    assert done.stdout == f"hello 42 {target}/stack/lib\nsaid\nx\n", done.stderr


def test_a_pack_runs_on_a_read_only_file_system_for_a_user_without_rights(
    tmp_path: Path, small_image: Path
) -> None:
    need("root", "unprivileged-user", "bubblewrap")
    top = made(tmp_path, small_image)
    argv = ["bwrap", "--ro-bind", "/", "/", "--ro-bind", top, "/mnt", "--dev", "/dev"]
    argv += as_unprivileged(["/mnt/bin/hello"])
    done = out(*argv)
    assert done.stdout == "/mnt/bin/hello 42 /mnt/stack/lib\n", done.stderr
    # Neither a user namespace nor FUSE is asked for.
    limit = ["sh", "-c", 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh"]
    private = ["unshare", "--user", "--map-root-user", "--mount", "--", *limit]
    assert out(*private, "unshare", "--user", "true").returncode != 0
    assert out(*private, top / "bin/hello").returncode == 0


def test_another_stack_in_the_environment_changes_nothing(
    tmp_path: Path, small_image: Path
) -> None:
    top = made(tmp_path, small_image)
    other = Stack(tmp_path / "other")
    other.library("libanswer", "int answer(void) { return 13; }")
    env = {**os.environ, "LD_LIBRARY_PATH": str(other.tree / "lib")}
    done = out(top / "bin/hello", env=env)
    assert " 42 " in done.stdout
    sealed = runpath.read(str(top / "stack/.bin/hello"))
    assert (sealed.rpath, sealed.runpath) == ("$ORIGIN/../lib:$ORIGIN/../../lib", None)


@pytest.mark.battery
def test_two_packs_in_one_shell_each_take_their_own(tmp_path: Path) -> None:
    tools()
    for name, answer in (("one", 1), ("two", 2)):
        stack = Stack(tmp_path / name)
        stack.library("libanswer", f"int answer(void) {{ return {answer}; }}")
        stack.program(f"hello-{name}", CALLS_ANSWER, needs=("answer",))
        image = stack.image()
        assert pack(image, "-o", tmp_path / f"p{name}", cwd=tmp_path).returncode == 0
    path = ":".join(f"{tmp_path}/p{name}/bin" for name in ("one", "two"))
    script = "hello-one; hello-two; LD_LIBRARY_PATH=$1 hello-two"
    done = out("sh", "-c", script, "sh", f"{tmp_path}/pone/stack/lib", env={"PATH": f"{path}:/bin"})
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["1", "2", "2"]


@pytest.mark.battery
@pytest.mark.parametrize("ending", ["tar.zst", "tar.gz"])
def test_twice_made_it_has_the_same_bytes(tmp_path: Path, small_image: Path, ending: str) -> None:
    image = small_image
    sums = set()
    for number, umask in enumerate((0o022, 0o077)):
        folder = tmp_path / f"folder {number}"
        folder.mkdir()
        before = os.umask(umask)
        try:
            done = pack(image, "-o", f"p{number}.{ending}", "--provenance", "inside", cwd=folder)
        finally:
            os.umask(before)
        assert done.returncode == 0, done.stderr
        sums.add(hashlib.sha256((folder / f"p{number}.{ending}").read_bytes()).hexdigest())
        time.sleep(1.1)
    assert len(sums) == 1


@pytest.mark.parametrize("name", ["p.tar.zst", "p.tar.gz"])
def test_an_archive_has_one_folder_and_entry_points_last(
    tmp_path: Path, small_image: Path, name: str
) -> None:
    image = small_image
    assert pack(image, "-o", name, cwd=tmp_path).returncode == 0
    assert outputs.claim(tmp_path / name, "pack")  # a second run may replace it
    done = out("tar", "tf", name, cwd=tmp_path)
    names = done.stdout.splitlines()
    assert {each.split("/")[0] for each in names} == {"stack"}
    assert names[-3:] == ["stack/bin/", "stack/bin/hello", "stack/bin/say"]
    done = out("tar", "xf", name, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert out(tmp_path / "stack/bin/hello").stdout.split()[1] == "42"


def test_a_squashfs_pack_runs_where_it_is_mounted(tmp_path: Path, small_image: Path) -> None:
    image = small_image
    assert pack(image, "-o", "p.squashfs", cwd=tmp_path).returncode == 0
    done = out("unsquashfs", "-q", "-n", "-d", "unpacked", "p.squashfs", cwd=tmp_path)
    assert done.returncode == 0
    assert out(tmp_path / "unpacked/bin/hello").stdout.split()[1] == "42"


def digest(folder: Path) -> str:
    return tree.of_folder(folder, ("meta",)).sha256


@pytest.mark.battery
def test_the_tree_has_one_digest_whatever_packs_it(tmp_path: Path, small_image: Path) -> None:
    found = {}
    for name in ("p.tar.zst", "p.squashfs", "p"):
        done = pack(small_image, "-o", name, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout)["tree"]
    assert out("tar", "xf", "p.tar.zst", cwd=tmp_path).returncode == 0
    argv = ("unsquashfs", "-q", "-n", "-d", "unpacked", "p.squashfs")
    assert out(*argv, cwd=tmp_path).returncode == 0
    places = {"p.tar.zst": "stack", "p.squashfs": "unpacked", "p": "p"}
    assert found == {name: digest(tmp_path / place) for name, place in places.items()}
    assert len(set(found.values())) == 1
    (tmp_path / "p/stack/lib/libanswer.so").unlink()
    assert digest(tmp_path / "p") != found["p"]


def test_what_names_the_old_place_and_has_no_reason_fails_a_pack_of_tier_0(tmp_path: Path) -> None:
    tools()
    stack = Stack(tmp_path)
    stack.program(
        "hello", f'int puts(const char *); int main(void) {{ return puts("{MOUNT}/x"); }}'
    )
    (stack.tree / "etc").mkdir()
    (stack.tree / "etc/app.conf").write_text(f"a = 1\ndata = {MOUNT}/share\n")
    done = pack(stack.image(), "-o", "out", "--tier", "0", "--json", cwd=tmp_path)
    assert done.returncode == 3
    found = json.loads(done.stdout)["problems"]
    texts = [one["message"] for one in found]
    assert len(texts) == 2
    assert "`stack/.bin/hello` at byte" in texts[0]
    assert "`stack/etc/app.conf` at byte 13 " in texts[1]
    assert {one["reason"] for one in found} == {"unsupported"}
    assert sorted(os.listdir(tmp_path)) == ["stack.squashfs", "tree"]


def test_scripts_texts_and_links_find_their_new_place(tmp_path: Path) -> None:
    tools()
    stack = Stack(tmp_path)
    stack.compile(
        "#include <stdio.h>\nint main(int c, char **v) { for (int i = 0; i < c; i++) puts(v[i]); }",
        stack.tree / "bin/interpreter",
    )
    stack.script("bin/told", f"#!{MOUNT}/bin/interpreter -v\nwords\n")
    stack.script("lib/pkgconfig/a.pc", f"prefix={MOUNT}\nlibdir={MOUNT}/lib\n")
    (stack.tree / "link").symlink_to(f"{MOUNT}/lib/pkgconfig")
    done = pack(stack.image(), "-o", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    top = tmp_path / "out"
    assert out(top / "bin/told", "x").stdout.splitlines() == [
        f"{top}/stack/bin/interpreter", "-v", f"{top}/stack/.bin/told", "x",
    ]  # fmt: skip
    assert (top / "stack/lib/pkgconfig/a.pc").read_text() == (
        "prefix=${pcfiledir}/../..\nlibdir=${pcfiledir}/../../lib\n"
    )
    assert os.readlink(top / "stack/link") == "lib/pkgconfig"
    kinds = {(one["file"], one["kind"]) for one in json.loads(done.stdout)["moved"]}
    assert ("stack/lib/pkgconfig/a.pc", ".pc") in kinds
    assert ("stack/.bin/told", "shebang") in kinds


def test_a_link_out_of_the_image_is_refused(tmp_path: Path) -> None:
    tools()
    stack = Stack(tmp_path)
    (stack.tree / "etc").symlink_to("/etc")
    done = pack(stack.image(), "-o", "out", cwd=tmp_path)
    assert done.returncode == 3
    assert "`stack/etc` is a link to `/etc`" in done.stderr


def test_programs_of_this_machine_come_with_the_stack(tmp_path: Path, small_image: Path) -> None:
    image = small_image
    stack = Stack(tmp_path / "own")
    stack.library("libanswer", "int answer(void) { return 13; }")
    own = stack.program("mine", CALLS_ANSWER, needs=("answer",))
    words = (own, "--entry", "greet=hello", "--entry", "ls=/bin/ls", "--symlink", "/opt/in=bin")
    done = pack(image, *words, "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    top = tmp_path / "out"
    assert sorted(os.listdir(top / "bin")) == ["greet", "ls", "mine"]
    assert out(top / "opt/in/mine").stdout.split()[1] == "42"  # by the library of the image
    assert out(top / "bin/greet").stdout.split()[1] == "42"
    assert out(top / "bin/ls", top / "bin").stdout.split() == ["greet", "ls", "mine"]


@pytest.mark.battery
@pytest.mark.parametrize("form", ["tar.gz", "tar.zst"])
def test_an_archive_may_be_started_from_where_it_was_unpacked(
    tmp_path: Path, small_image: Path, form: str
) -> None:
    """As `guix pack -S /bin=bin`: nobody types the name of the pack's folder."""
    need("zstd")
    words = ("--symlink", "/bin=bin", "-S", "/opt/here=stack/lib", "-S", "in=bin")
    done = pack(small_image, "hello", *words, "-o", f"p.{form}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    place = tmp_path / "unpacked"
    place.mkdir()
    subprocess.run(["tar", "-xf", tmp_path / f"p.{form}"], cwd=place, check=True)
    assert out("./bin/hello", cwd=place).stdout.split()[1] == "42"
    (name,) = {path.name for path in place.iterdir()} - {"bin", "opt"}
    links = {path: os.readlink(place / path) for path in ("bin", "opt/here", f"{name}/in")}
    assert links == {
        "bin": f"{name}/bin",
        "opt/here": f"../{name}/stack/lib",
        f"{name}/in": "bin",
    }
    for link, words_of_it in ((f"/{name}=bin", "has that name"), ("/x=none", "no target"),
                              ("../x=bin", "no path in the pack")):  # fmt: skip
        done = pack(small_image, "-S", link, "-o", f"q.{form}", cwd=tmp_path)
        assert (done.returncode, words_of_it in done.stderr) == (2, True), done.stderr
        assert not (tmp_path / f"q.{form}").exists()


@pytest.mark.battery
def test_where_it_came_from_is_told_beside_inside_or_not(tmp_path: Path, small_image: Path) -> None:
    image = small_image
    for where in ("beside", "inside", "none"):
        done = pack(image, "-o", f"{where}-pack", "--provenance", where, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    beside = tmp_path / "beside-pack.provenance.json"
    inside = tmp_path / "inside-pack/meta/provenance.json"
    assert beside.read_text() == inside.read_text()
    data = json.loads(beside.read_text())
    assert data["origin"]["image_sha256"] == hashlib.sha256(image.read_bytes()).hexdigest()
    assert json.loads(data["documents"]["lock.json"]) == {"of": "the lock"}
    assert str(tmp_path) not in beside.read_text()
    assert not (tmp_path / "none-pack.provenance.json").exists()
    assert sorted(os.listdir(tmp_path / "none-pack")) == ["bin", "glibc", "stack"]
    for name, record in (("beside-pack", beside), ("inside-pack", inside)):
        done = inprocess.stackproof("inspect", tmp_path / name)
        assert f"`{tmp_path}/{name}` is a pack, no image with views" in done.stderr
        assert f"`{record}` describes the pack" in done.stderr


def test_explain_says_everything_and_writes_nothing(tmp_path: Path, small_image: Path) -> None:
    image = small_image
    before = sorted(os.listdir(tmp_path))
    done = pack(image, "--explain", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tier 0: no namespace and no mount")
    assert f"run path: {MOUNT}/lib\n  $ORIGIN/../lib" in done.stdout
    assert sorted(os.listdir(tmp_path)) == before


def test_a_pack_of_what_may_not_be_handed_on_says_so(tmp_path: Path) -> None:
    tools()
    stack = Stack(tmp_path)
    stack.program("hello", "int main(void) { return 0; }")
    about = {"stack": "", "lock": "", "benchmarks": {}, "redistribute": "no"}
    done = pack(stack.image(stackproof=about), "-o", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "may not be handed on to others" in done.stderr
    assert json.loads(done.stdout)["redistribute"] is False


REFUSED = [
    (("no-such", "nor-this", "-o", "out"), 6, ["`no-such`", "`nor-this`"]),
    ((), 2, ["where the pack is to be"]),
    (("-o", "out", "--explain"), 2, ["writes nothing"]),
    (("-o", "stack.squashfs"), 2, ["would be replaced"]),
    (("-o", "tree"), 2, ["is a folder"]),
    (("-o", "no/such/folder/out"), 3, ["does not exist"]),
    (("-o", "out", "--view", "other"), 6, ["no view `other`", "default"]),
    (("-o", "out", "--entry", "x"), 2, ["--entry x"]),
    (("-o", "out", "--entry", "a/b=hello"), 2, ["--entry a/b=hello"]),
    (("-o", "out", "--symlink", "../x=bin"), 2, ["no path in the pack"]),
    (("-o", "out", "--symlink", "x=nothing"), 2, ["there is no target"]),
    (("-o", "out", "--symlink", "bin=lib"), 2, ["the pack has that name"]),
]


@pytest.mark.parametrize(("words", "code", "said"), REFUSED)
def test_what_cannot_be_is_refused_and_leaves_nothing(
    words: tuple[str, ...], code: int, said: list[str], tmp_path: Path, small_image: Path
) -> None:
    image = shutil.copy(small_image, tmp_path / "stack.squashfs")
    (tmp_path / "tree").mkdir()
    before = sorted(os.listdir(tmp_path))
    done = pack(image, *words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    for text in said:
        assert text in done.stderr
    assert sorted(os.listdir(tmp_path)) == before


def test_a_program_that_needs_what_is_nowhere_is_refused(tmp_path: Path, small_image: Path) -> None:
    image = small_image
    other = Stack(tmp_path / "other")
    other.library("libnowhere", "int answer(void) { return 1; }")
    lost = other.program("lost", CALLS_ANSWER, needs=("nowhere",))
    shutil.rmtree(other.tree / "lib")
    done = pack(image, lost, "-o", "out", cwd=tmp_path)
    assert done.returncode == 3
    assert "`lost` needs `libnowhere.so.1`, which neither the image nor this machine" in done.stderr


CALLS_MPI = "int MPI_Init(int *, char ***); int main(void) { return MPI_Init(0, 0); }"


def test_a_program_with_mpi_is_refused_by_an_image_without(
    tmp_path: Path, small_image: Path
) -> None:
    """It would take the machine's MPI, and not what that opens by its place."""
    other = Stack(tmp_path / "other", mount=str(tmp_path / "other/tree"))
    other.library("libmpi", "int MPI_Init(int *a, char ***b) { return a != 0 || b != 0; }")
    program = other.program("calls", CALLS_MPI, needs=("mpi",))
    assert out(program).returncode == 0
    done = pack(small_image, program, "-o", "out", cwd=tmp_path)
    assert (done.returncode, "[no-mpi]" in done.stderr) == (3, True), done.stderr
    assert f"`{program}` calls MPI, and `{small_image}` has none" in done.stderr
    assert os.listdir(tmp_path) == ["other"]


def test_set_uid_bits_are_lost_and_that_is_told(tmp_path: Path) -> None:
    tools()
    stack = Stack(tmp_path)
    stack.program("hello", "int main(void) { return 0; }").chmod(0o4755)
    done = pack(stack.image(), "-o", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = "`bin/hello` is set-uid or set-gid no longer"
    assert f"note: {said}" in done.stderr
    assert json.loads(done.stdout)["notes"][0].startswith(said)
    assert (tmp_path / "out/stack/.bin/hello").stat().st_mode & 0o7777 == 0o755
    assert out(tmp_path / "out/bin/hello").returncode == 0


def test_a_program_for_a_newer_c_library_is_refused_with_both_versions(
    tmp_path: Path, small_image: Path
) -> None:
    image = small_image
    other = Stack(tmp_path / "other")
    newer = other.program("newer", '#include <stdio.h>\nint main(void) { puts("x"); }')
    content = newer.read_bytes()
    assert b"GLIBC_2.34\0" in content
    newer.write_bytes(content.replace(b"GLIBC_2.34\0", b"GLIBC_2.97\0"))
    done = pack(image, newer, "-o", "out", cwd=tmp_path)
    assert done.returncode == 3
    assert "needs glibc 2.97, and this machine has 2." in done.stderr


def test_a_program_of_another_machine_is_refused(tmp_path: Path) -> None:
    tools()
    image = packs.small(tmp_path)
    foreign = tmp_path / "foreign"
    content = bytearray((tmp_path / "tree/bin/hello").read_bytes())
    content[18] = 183  # e_machine: AArch64
    foreign.write_bytes(content)
    done = pack(image, foreign, "-o", "out", cwd=tmp_path)
    assert done.returncode == 3
    assert "is for another kind of machine" in done.stderr


def test_what_is_no_image_and_no_recipe_is_told_as_by_the_other_verbs(tmp_path: Path) -> None:
    (tmp_path / "x.squashfs").write_text("no image")
    done = pack("x.squashfs", "-o", "out", cwd=tmp_path)
    assert done.returncode == 6
    done = pack("no-such-recipe", "-o", "out", cwd=tmp_path)
    assert done.returncode == 6
    assert "neither a file, nor a label" in done.stderr
    assert os.listdir(tmp_path) == ["x.squashfs"]


@pytest.mark.battery
def test_an_interrupted_pack_leaves_nothing(tmp_path: Path) -> None:
    tools()
    stack = Stack(tmp_path)
    stack.library("libanswer", "int answer(void) { return 42; }")
    first = stack.program("p", CALLS_ANSWER, needs=("answer",))
    for number in range(60):
        shutil.copy(first, stack.tree / f"bin/p{number}")
    image = stack.image()
    before = sorted(os.listdir(tmp_path))
    argv = [sys.executable, "-m", "stackproof", "pack", image, "-o", tmp_path / "out"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        while sorted(os.listdir(tmp_path)) == before:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 130
    assert sorted(os.listdir(tmp_path)) == before
