"""What somebody else put beside a place, or in the place of it: nothing of ours goes through it.

Every way to change a place is tried: `install`, `install --undo`, `inject apply` with a wrapper and
with an override of EESSI, `inject undo`. Mallory is another user of the machine; root made for him
what is his. A user who tests alone has no Mallory, and tries the links.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eessilab import EVERY, USES_MPICH, Eessi, inject
from elflab import Lab
from need import need
from packs import CALLS_ANSWER, Stack
from refusing import refused
from stackproof.core.effects import files
from stackproof.core.errors import ExitCode, Reason, StackproofError
from stackproof.core.value import replace
from stackproof.inject.delivery import Copied, InjectionDelivery
from stackproof.inject.effects import staging, versions
from stackproof.inject.effects.staging import Injection
from stackproof.linking.effects.view import RootView

pytestmark = pytest.mark.battery

MALLORY = 31001
SHARED = "STACKPROOF_SHARED"
_TIMEOUT_S = 600
WAYS = ("install", "install undo", "wrapper", "wrapper undo", "override", "override undo")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    need("gcc", "patchelf", "mksquashfs")
    stack = Stack(tmp_path / "made")
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    return stack.image()


@pytest.fixture
def ways(image: Path, tmp_path: Path) -> dict[str, tuple[Path, list[str]]]:
    """Return, by name, the folder of a place and the words that change the place."""
    eessi = Eessi(tmp_path)
    app = eessi.program(
        "plain/bin/app", needs=["eessi/lib/libmpi.so.12"], calls=["MPI_Init"],
        declarations=USES_MPICH,
    )  # fmt: skip
    team = tmp_path / "team"
    team.mkdir()
    team.chmod(0o1777)
    more = ["--with", eessi.path("host")]
    override = ["inject", "apply", eessi.app, *more, "--eessi", str(eessi.software)]
    eessi.overrides.mkdir(parents=True)
    eessi.overrides.chmod(0o1777)
    return {
        "install": (team, ["install", str(image), "--to", f"{team}/sw"]),
        "install undo": (team, ["install", "--undo", "--to", f"{team}/sw"]),
        "wrapper": (team, ["inject", "apply", app, *more, "--wrapper", f"{team}/sw"]),
        "wrapper undo": (team, ["inject", "undo", f"{team}/sw"]),
        "override": (eessi.overrides, override),
        "override undo": (eessi.overrides, ["inject", "undo", str(eessi.place)]),
    }


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """Return a folder with links and with what is called as our leftovers are."""
    folder = tmp_path / "home" / "venv" / "bin"
    (folder / "staging.mine").mkdir(parents=True)
    (folder / "staging.mine" / "thesis").write_text("mine")
    (folder / "python").symlink_to("/usr/bin/python3")
    (folder / "staging.link.x").symlink_to("nowhere")
    return folder


def called(words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stackproof", *words],
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env={**os.environ, **env},
    )  # fmt: skip


def before(name: str, ways: dict[str, tuple[Path, list[str]]]) -> tuple[Path, list[str]]:
    """Return folder and words of a way; what is to be undone is done before."""
    way, undoes, _ = name.partition(" undo")
    if undoes:
        done = called(ways[way][1])
        assert done.returncode == 0, done.stderr
        folder, keep = ways[way][0], ways[way][0] / ".stackproof"
        keep.rename(folder / "ours")
    return ways[name]


def names_below(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.guarantee(
    "Folders of several users",
    "`.stackproof` beside a prefix or a place is yours or root's, or nothing is done.",
    "Tried: a link, somebody else's folder, somebody else's version, an exchange meanwhile.",
)
@pytest.mark.parametrize("name", WAYS)
def test_a_link_in_the_place_of_the_versions_is_not_followed(ways, venv, name) -> None:
    """In a folder for all `.stackproof` leads to `~/venv/bin`, whose links would be deleted."""
    folder, words = before(name, ways)
    there = names_below(venv)
    if "undo" in name:  # what it needs to know is there as well
        for one in (folder / "ours").iterdir():
            shutil.move(one, venv / one.name)
        there = names_below(venv)
    (folder / ".stackproof").symlink_to(venv)
    done = called(words)
    assert names_below(venv) == there
    assert done.returncode == ExitCode.NOT_POSSIBLE, done.stderr
    assert "is a link, which is not followed" in done.stderr
    assert "hint:" in done.stderr


@pytest.mark.guarantee(
    "Folders of several users",
    "`.stackproof` beside a prefix or a place is yours or root's, or nothing is done.",
)
@pytest.mark.parametrize("mode", [0o755, 0o777])
@pytest.mark.parametrize("name", WAYS)
def test_versions_of_somebody_else_are_not_used(ways, name, mode) -> None:
    """Who owns the folder of versions renames them later: programs would be his."""
    need("root")
    folder, words = before(name, ways)
    keep = folder / ".stackproof"
    if "undo" in name:
        (folder / "ours").rename(keep)
    else:
        keep.mkdir()
    keep.chmod(mode)
    os.chown(keep, MALLORY, MALLORY)
    there = names_below(folder)
    done = called(words)
    assert names_below(folder) == there
    assert done.returncode == ExitCode.NOT_POSSIBLE, done.stderr
    assert f"belongs to uid {MALLORY}" in done.stderr
    assert "hint:" in done.stderr


@pytest.mark.parametrize("name", WAYS)
def test_versions_that_others_may_exchange_are_not_used(ways, name) -> None:
    """Also a folder of one's own, where a team may write to it; a user can say that it is meant."""
    folder, words = before(name, ways)
    keep = folder / ".stackproof"
    if "undo" in name:
        (folder / "ours").rename(keep)
    else:
        keep.mkdir()
    keep.chmod(0o2777)
    done = called(words)
    assert done.returncode == ExitCode.NOT_POSSIBLE, done.stderr
    assert "can be written to by others" in done.stderr
    done = called(words, **{SHARED: str(folder)})
    if os.geteuid():
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == ExitCode.NOT_POSSIBLE, done.stderr


@pytest.mark.attack
@pytest.mark.parametrize("owner", ["folder", "above", "everybody"])
@pytest.mark.parametrize("name", WAYS)
def test_root_believes_no_list_of_shared_folders(ways, name, owner, tmp_path) -> None:
    """It may be somebody's, kept by sudo: the record of a version says which file is written."""
    need("root")
    folder, words = before(name, ways)
    if "undo" in name:
        (folder / "ours").rename(folder / ".stackproof")
        for path in (folder / ".stackproof", *(folder / ".stackproof").glob("*.1")):
            os.chown(path, MALLORY, MALLORY)
    folder.chmod(0o1777 if owner == "everybody" else 0o755)
    if owner != "everybody":
        os.chown(folder if owner == "folder" else tmp_path, MALLORY, MALLORY)
    there = names_below(folder)
    done = called(words, **{SHARED: str(tmp_path)})
    assert names_below(folder) == there
    assert done.returncode == ExitCode.NOT_POSSIBLE, done.stderr
    assert f"as root, {SHARED} counts only for folders of root" in done.stderr


@pytest.mark.parametrize("name", WAYS)
def test_root_may_list_a_folder_of_its_own(ways, name) -> None:
    need("root")
    folder, words = before(name, ways)
    if "undo" in name:
        (folder / "ours").rename(folder / ".stackproof")
    folder.chmod(0o755)
    done = called(words, **{SHARED: str(folder)})
    assert done.returncode == 0, done.stderr


@pytest.mark.guarantee(
    "Folders of several users",
    "`.stackproof` beside a prefix or a place is yours or root's, or nothing is done.",
)
@pytest.mark.parametrize("name", ["install undo", "wrapper undo", "override undo"])
def test_a_version_of_somebody_else_is_not_gone_back_from(ways, name) -> None:
    """The record in it would say what the place becomes, and which file of hooks is written."""
    need("root")
    folder, words = before(name, ways)
    (folder / "ours").rename(folder / ".stackproof")
    (version,) = (folder / ".stackproof").glob("*.1")
    os.chown(version, MALLORY, MALLORY)
    place = next(path for path in folder.iterdir() if path.is_symlink())
    done = called(words)
    assert done.returncode == ExitCode.NOT_POSSIBLE, done.stderr
    assert f"belongs to uid {MALLORY}" in done.stderr
    assert place.is_symlink()


def test_the_version_before_is_gone_back_to_only_if_it_is_believed(ways, image) -> None:
    need("root")
    folder, words = ways["install"]
    assert called(words).returncode == 0
    other = Stack(image.parent / "other")
    other.script("bin/say", "#!/bin/sh\necho x\n")
    assert called(["install", str(other.image()), *words[2:]]).returncode == 0
    os.chown(folder / ".stackproof/sw.1", MALLORY, MALLORY)
    done = called(ways["install undo"][1])
    assert done.returncode == ExitCode.NOT_POSSIBLE, done.stderr
    assert os.readlink(folder / "sw") == ".stackproof/sw.2"


def test_leftovers_are_ours_by_their_names(ways) -> None:
    """A folder of one's own that somebody gave the name of ours: other links in it stay."""
    folder, words = ways["install"]
    keep = folder / ".stackproof"
    keep.mkdir()
    (keep / "python").symlink_to("/usr/bin/python3")
    (keep / "sw.found.3").symlink_to("nowhere")
    (keep / "staging.link.sw").symlink_to("nowhere")
    assert called(words).returncode == 0
    assert sorted(os.listdir(keep)) == ["lock", "python", "sw.1"]


def test_what_is_copied_gives_no_rights(tmp_path: Path) -> None:
    """A tree of somebody else: bits, capabilities and modes stay behind, FIFOs are refused."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "in").mkdir(parents=True)
    for name, mode in (("tool", 0o6755), ("data", 0o666), ("in/tool", 0o4711)):
        (source / name).write_text("x")
        (source / name).chmod(mode)
    (source / "link").symlink_to("/etc/shadow")
    (source / "in").chmod(0o2777)
    if os.geteuid() == 0:
        content = (0x02000001).to_bytes(4, "little") + (1 << 7).to_bytes(4, "little") + bytes(12)
        os.setxattr(source / "tool", "security.capability", content)
    staging.copy_tree(str(source), str(target))
    versions.normalise(target)
    modes = {path.name: path.lstat().st_mode & 0o7777 for path in sorted(target.rglob("*"))}
    assert (modes["tool"], modes["data"], modes["in"]) == (0o755, 0o644, 0o755)
    assert os.readlink(target / "link") == "/etc/shadow"
    assert not os.listxattr(target / "tool")
    os.mkfifo(source / "fifo")
    with pytest.raises(StackproofError):
        staging.copy_tree(str(source), str(tmp_path / "again"))


@pytest.mark.parametrize("inside", ["lib/../../out", "{top}/out", "lib//out", "./out"])
@pytest.mark.parametrize("kind", ["copies", "trees", "links", "scripts"])
def test_nothing_is_filled_in_beside_the_folder(tmp_path: Path, inside: str, kind: str) -> None:
    """A path may have the SONAME of a library in it, which is whatever its maker wrote."""
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.mkdir()
    folder.mkdir()
    target = inside.format(top=tmp_path)
    copied = Copied(source="/bin/sh", target=target, rpath="$ORIGIN")
    content = (copied,) if kind == "copies" else {target: str(source)}
    delivery = replace(InjectionDelivery(), **{kind: content})
    with refused(Reason.INJECTION_FAILS):
        staging.fill(delivery, str(folder), RootView())
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "source"]


def test_a_link_of_a_tree_is_not_taken_for_ours(tmp_path: Path) -> None:
    """An artefact with a link where an alias goes is refused, but for one that says the same."""
    (tmp_path / "elsewhere.so").write_text("x")
    for name, text in (("same", "libmpi.so.12"), ("other", str(tmp_path / "elsewhere.so"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libmpi.so.12").write_text("x")
        (tmp_path / name / "libmpich.so.12").symlink_to(text)
    links = {"lib/libmpich.so.12": "libmpi.so.12"}
    delivery = InjectionDelivery(trees={"lib": str(tmp_path / "same")}, links=links)
    staging.fill(delivery, str(tmp_path / "good"), RootView())
    assert os.readlink(tmp_path / "good" / "lib" / "libmpich.so.12") == "libmpi.so.12"
    delivery = InjectionDelivery(trees={"lib": str(tmp_path / "other")}, links=links)
    with refused(Reason.INVALID_VALUE):
        staging.fill(delivery, str(tmp_path / "bad"), RootView())


def test_a_soname_that_leads_out_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A library would be written wherever its maker wants: nothing of it is left anywhere."""
    need("gcc", "patchelf")
    lab = Lab(tmp_path)
    lab.library("host/lib/libdeep.so.1", defines=["deep"])
    lab.library(
        "host/lib/libmpi.so.12",
        defines=EVERY,
        imports=["deep"],
        needs=["host/lib/libdeep.so.1"],
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN"],
    )
    deep = lab.path("host/lib/libdeep.so.1")
    soname = "../" * 30 + f"{tmp_path}/out.so"[1:]
    subprocess.run(["patchelf", "--set-soname", soname, deep], check=True)
    before = sorted(tmp_path.rglob("*"))
    code, _, said = inject(capsys, "artefact", lab.path("host"), "-o", tmp_path / "net")
    assert (code, "lead out of its folder" in said) == (ExitCode.WORSE, True), said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.guarantee(
    "Folders of several users",
    "`.stackproof` beside a prefix or a place is yours or root's, or nothing is done.",
)
def test_the_place_itself_may_be_exchanged(tmp_path: Path, venv: Path) -> None:
    """Whoever may write to the folder above renames ours away meanwhile: nothing follows him."""
    team = tmp_path / "team"
    team.mkdir()
    place = str(team / "sw")
    there = names_below(venv)
    with versions.locked(place) as keep, versions.staging(keep) as folder:
        (team / ".stackproof").rename(team / "taken")
        (team / ".stackproof").symlink_to(venv)
        files.write(os.path.join(folder, "bin", "tool"), "x", mode=0o4755)
        staged = staging.commit(keep, folder, Injection(place=place, prefix="/x"))
        staging.with_rollback(keep, staged, lambda: None)
    assert names_below(venv) == there
    assert (team / "taken/sw.1/bin/tool").stat().st_mode & 0o7777 == 0o755
    with versions.beside(str(team / "out"), "pack") as folder:
        (name,) = (path for path in team.iterdir() if path.name.startswith(".stackproof-pack-"))
        name.rename(team / "mine")
        name.symlink_to(venv)
        Path(folder, "x").mkdir()
        Path(folder, "x", "y").write_text("x")
    assert names_below(venv) == there
    assert os.listdir(team / "mine") == []


def test_a_swap_of_the_folder_wins_nothing(tmp_path: Path, image: Path, venv: Path) -> None:
    """Somebody exchanges `.stackproof` for a link, again and again, while it is installed."""
    team = tmp_path / "team"
    team.mkdir()
    there, over = names_below(venv), threading.Event()

    def swapping() -> None:
        keep = team / ".stackproof"
        while not over.is_set():
            try:
                keep.rename(team / "taken")
                keep.symlink_to(venv)
                time.sleep(0.02)
                keep.unlink()
                (team / "taken").rename(keep)
                time.sleep(0.02)
            except OSError:
                continue

    thread = threading.Thread(target=swapping)
    thread.start()
    try:
        for number in range(6):
            done = called(["install", str(image), "--to", f"{team}/sw{number}"])
            assert "bug" not in done.stderr
    finally:
        over.set()
        thread.join()
    assert names_below(venv) == there


def test_outputs_beside_which_somebody_planted_links(image, tmp_path) -> None:
    """Files that are written on the way to an output have no name that can be known before."""
    team, secret = tmp_path / "team", tmp_path / "thesis.tex"
    team.mkdir()
    for name in ("p.tar.zst", "p.squashfs", "p.oci.tar"):
        secret.write_text("mine")
        for ending in (".tar", ".zst", ".new", ".squashfs", ".part"):
            (team / f".{name}{ending}").symlink_to(secret)
        done = called(["pack", str(image), "-o", str(team / name)])
        assert done.returncode == 0, done.stderr
        assert secret.read_text() == "mine"
