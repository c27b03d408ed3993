"""Trees that somebody hostile made, through the one unpacker: nothing outside changes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import resource
import stat
import subprocess
import tarfile
import tempfile
import traceback
from pathlib import Path

import pytest

from need import need
from refusals import refused
from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.effects.foreign import parser, tars, walls
from stackproof.core.effects.foreign import unpack as foreign_unpack
from stackproof.core.effects.foreign.folder import real_path
from stackproof.core.effects.foreign.tree import ForeignTree
from stackproof.core.effects.foreign.unpack import Packed, UnpackRules
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.links import ROOT_FILE_SYSTEM, LinkRules
from stackproof.image.effects import image_file, meta_files, tree
from stackproof.share.effects import storing

TREES = int(os.environ.get("STACKPROOF_TREES", "200"))
"""How many mutated trees are unpacked, as root and as a user together."""
_NAMES = ("a", "b", "lib", "bin", "-f", "x y", "n\nl", "*", "[a]", "\\", "\udcff\udcfe", "é", "..a")
_NOBODY = 65534


def squash(folder: Path, image: Path, *pseudo: str) -> Path:
    """Make an image of a folder, with the entries that pseudo definitions add."""
    argv = ["mksquashfs", folder, image, "-noappend", "-no-progress", "-quiet", "-comp", "gzip"]
    words = [word for line in pseudo for word in ("-p", line)]
    done = subprocess.run([*map(str, argv), *words], check=False, timeout=600, capture_output=True)
    assert done.returncode == 0, done.stderr
    image.chmod(0o644)
    return image


def state_of(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return content, mode, owner and time of everything in a folder."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (state.st_mode, state.st_uid, state.st_mtime_ns, content)
    return found


def check_harmless(folder: Path) -> None:
    """Check that all below a folder is the caller's, and has permission bits alone."""
    for place, folders, plain in os.walk(os.fsencode(folder)):
        for name in (b".", *folders, *plain):
            state = os.lstat(os.path.join(place, name))
            assert state.st_uid == os.geteuid(), name
            assert stat.S_IFMT(state.st_mode) in {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}, name
            assert stat.S_ISLNK(state.st_mode) or not state.st_mode & 0o7000, name


class Mutated:
    """A tree with entries at random, and whether it must be refused."""

    def __init__(self, folder: Path, guard: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder, self.guard = folder, guard
        self.refused = False
        self.pseudo: list[str] = []
        self.places = [b""]
        folder.mkdir()
        for index in range(self.random.randrange(3, 14)):
            self.add(index)

    def add(self, index: int) -> None:
        parent = self.random.choice(self.places)
        name = os.fsencode(self.random.choice(_NAMES)) + str(index).encode()
        path = os.path.join(parent, name)
        place = os.path.join(os.fsencode(self.folder), path)
        what = self.random.choice(("file", "file", "folder", "folder", "deep", "link", "link",
                                   "name", "special", "set-id"))  # fmt: skip
        if what == "file":
            Path(os.fsdecode(place)).write_text("x" * self.random.randrange(3000))
            os.chmod(place, self.random.choice((0o644, 0o755, 0o600, 0o444, 0o1644, 0o777)))
        elif what == "folder":
            os.mkdir(place)
            self.places.append(path)
            if self.random.random() < 0.3:
                mode = self.random.choice((0o000, 0o555, 0o1777, 0o2755, 0o700))
                plain = f"m{index}"
                os.rename(place, os.path.join(os.fsencode(self.folder), plain.encode()))
                self.places[-1] = plain.encode()
                self.pseudo.append(f"{plain} m {mode:o} {self.random.randrange(70000)} 7")
        elif what == "deep":
            for _ in range(self.random.randrange(1, 40)):
                os.mkdir(place)
                self.places.append(path)
                path, place = os.path.join(path, b"d"), os.path.join(place, b"d")
        elif what == "link":
            self.add_link(place, path.count(b"/"))
        elif what == "name" and (given := sorted(self.folder.glob("t*"))):
            # At the top: whoever parses may not enter a folder of mode 0 for a second name.
            os.link(given[0], os.path.join(os.fsencode(self.folder), name))
        elif what == "special" and self.random.random() < 0.3:
            kind = self.random.choice(("c 666 0 0 1 3", "b 660 0 0 8 0", "fifo"))
            self.refused = True
            if kind == "fifo":
                os.mkfifo(place)
            else:
                self.pseudo.append(f"s{index} {kind}")
        elif what == "set-id":
            (self.folder / f"t{index}").write_text("#!/bin/sh\n")
            mode = self.random.choice((0o4755, 0o2755, 0o6777, 0o7700))
            self.pseudo.append(f"t{index} m {mode:o} {self.random.choice((0, 31001))} 0")

    def add_link(self, place: bytes, depth: int) -> None:
        climbs = "../" * (depth + 1 + self.random.randrange(20))
        target = self.random.choice((
            f"{self.guard}/secret", str(self.guard), f"{climbs}{str(self.guard).lstrip('/')}",
            "..", "." * 200, "a0", "nowhere/x", os.path.basename(os.fsdecode(place)),
        ))  # fmt: skip
        self.refused |= target.startswith("../") or (target == ".." and depth == 0)
        os.symlink(os.fsencode(target), place)


def unpack_one(image: Path, target: Path) -> str:
    """Unpack a tree and read all of it; return why it was refused, "" for one that was taken."""
    try:
        unpacked = tree.unpack(str(image), target)
    except StackproofError as error:
        assert not os.path.lexists(target)
        return f"{error}"
    with unpacked:
        check_harmless(target)
        if os.geteuid() == 0:  # others do not see into every folder
            for path in [path for path, _ in unpacked.walk()]:
                with contextlib.suppress(StackproofError):
                    assert unpacked.read(path, limits.DOCUMENT) != b"secret", path
    return ""


def unpack_many(base: Path, seeds: range) -> int:
    """Unpack mutated trees below a folder; return how many were taken."""
    guard, taken = base / "guard", 0
    guard.mkdir()
    (guard / "secret").write_text("secret")
    (guard / "secret").chmod(0o600)
    before = state_of(guard)
    for seed in seeds:
        source, target = base / "source", base / f"target-{seed}"
        mutated = Mutated(source, guard, seed)
        image = squash(source, base / "image", *mutated.pseudo)
        subprocess.run(["rm", "-rf", source], check=True, timeout=600)
        refused = unpack_one(image, target)
        assert bool(refused) == mutated.refused, (seed, refused)
        taken += not refused
        assert not [name for name in os.listdir(base) if name.startswith(".unpack")]
        assert state_of(guard) == before, seed
        files.remove(target)
    return taken


@pytest.mark.guarantee(
    "Foreign trees",
    "What is unpacked is the caller's, and has permission bits alone.",
)
@pytest.mark.battery
def test_mutated_trees_as_a_user():
    need("mksquashfs", "unprivileged-user")
    with tempfile.TemporaryDirectory() as folder:  # all folders above one of pytest's are root's
        os.chown(folder, _NOBODY, _NOBODY)
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresgid(_NOBODY, _NOBODY, _NOBODY)
                os.setresuid(_NOBODY, _NOBODY, _NOBODY)
                os.chdir("/")
                unpack_many(Path(folder), range(TREES // 2, TREES))
            except BaseException:  # noqa: BLE001 - this process ends here
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.guarantee(
    "Foreign trees",
    "What is unpacked is the caller's, and has permission bits alone.",
    "Devices, pipes and sockets are refused; of root file systems they are left out. "
    "Nobody else can enter the folder before the final rename. Tried: seeded trees with "
    "hostile links, modes, owners, names, special files and depth, through the unpacker "
    "as root and as a user.",
)
@pytest.mark.battery
def test_mutated_trees(tmp_path):
    need("mksquashfs")
    assert unpack_many(tmp_path, range(TREES // 2)) > TREES // 10


def suspicious(tmp_path: Path) -> Path:
    """Return an image with a set-uid program, of another user, in its meta."""
    source = tmp_path / "source"
    (source / "meta").mkdir(parents=True)
    for name in ("meta/sh", "meta/env.json", "tool"):
        (source / name).write_text("{}")
    image = tmp_path / "suspicious.squashfs"
    return squash(source, image, "meta m 2777 31001 31001", "meta/sh m 4755 0 0",
                  "meta/env.json m 666 31001 31001", "tool m 6755 31001 31001")  # fmt: skip


@pytest.mark.guarantee(
    "Foreign trees",
    "The folder `meta` beside an image in a repository keeps no owner, mode or link of the image.",
    "Tried: a set-uid shell in it, owners, links.",
)
def test_meta_beside_an_image_keeps_no_owner_and_no_right(tmp_path):
    need("mksquashfs")
    (tmp_path / "folder").mkdir()
    storing.unpack_meta(suspicious(tmp_path), tmp_path / "folder")
    folder = tmp_path / "folder" / "meta"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {"meta": 0o755, "sh": 0o644, "env.json": 0o644}
    assert {path.stat().st_uid for path in (folder, *folder.iterdir())} == {os.geteuid()}


@pytest.mark.guarantee(
    "Foreign trees",
    "The folder `meta` beside an image in a repository keeps no owner, mode or link of the image.",
)
@pytest.mark.parametrize("link", ["env.json", "."])
def test_meta_with_a_link_is_left_out(tmp_path, link):
    need("mksquashfs")
    source = tmp_path / "source"
    source.mkdir()
    (tmp_path / "folder").mkdir()
    if link == ".":
        (source / "meta").symlink_to("/etc")
    else:
        (source / "meta").mkdir()
        (source / "meta" / link).symlink_to("/etc/passwd")
    image = squash(source, tmp_path / "image")
    assert meta_files.read(str(image)) is None
    storing.unpack_meta(image, tmp_path / "folder")
    assert os.listdir(tmp_path / "folder") == []
    assert image_file.read_member(str(image), f"meta/{link}") == b""


@pytest.mark.guarantee(
    "Foreign trees",
    "What is unpacked is the caller's, and has permission bits alone.",
)
def test_nobody_can_enter_while_it_is_unpacked(tmp_path, monkeypatch):
    """A set-uid program that were there for a moment could be started in it."""
    need("mksquashfs")
    seen = []
    real = parser.parse

    def parse(argv, image, bounds, *, folder):
        ended = real(argv, image, bounds, folder=folder)
        place = Path(os.readlink(f"/proc/self/fd/{folder}"))
        seen.append((stat.S_IMODE(place.parent.stat().st_mode), place.parent.stat().st_uid))
        seen.append(place.stat().st_uid != 0)
        assert not (place / "tool").stat().st_mode & 0o7000
        return ended

    monkeypatch.setattr(parser, "parse", parse)
    tree.unpack(str(suspicious(tmp_path)), tmp_path / "target").close()
    assert seen == [(0o700, os.geteuid()), True]
    assert stat.S_IMODE((tmp_path / "target/tool").stat().st_mode) == 0o755


_SET_SIGNAL, _SET_OWNER = 10, 15  # F_SETSIG, F_SETOWN_EX of fcntl(2)
_TRIES = {
    "set-uid": lambda: os.chmod("file", 0o4755),
    "set-gid": lambda: os.chmod("folder", 0o2755),
    "open": lambda: os.open("new", os.O_CREAT | os.O_WRONLY, 0o4755),
    "mkdir": lambda: os.mkdir("new", 0o2755),
    "device": lambda: os.mknod("new", 0o600 | stat.S_IFCHR, os.makedev(1, 3)),
    "pipe": lambda: os.mkfifo("new"),
    "owner": lambda: os.chown("file", _NOBODY, _NOBODY),
    "own": lambda: os.chown("file", os.getuid(), os.getgid()),
    "attribute": lambda: os.setxattr("file", "user.x", b"x"),
    "signal": lambda: os.kill(os.getppid(), 0),
    "signal of input": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid()),
    "kind of signal": lambda: fcntl.fcntl(0, _SET_SIGNAL, 9),
    "signal to a thread": lambda: fcntl.fcntl(0, _SET_OWNER, bytes(8)),
    "limits of others": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE),
    "process": os.fork,
    "rename": lambda: os.rename("file", "other"),
}


@pytest.mark.guarantee(
    "Foreign trees",
    "A parser can do little else than parse.",
    "It cannot make a set-uid or set-gid file, a device, a pipe or a socket, change an "
    "owner, start a process, or open another file. Tried: each of these calls from behind "
    "the walls. It can read /proc. Without Landlock (RHEL 8, SLES 15) one that writes "
    "gets a root directory of its own, by a user namespace. Where neither is to be had, "
    "it is not started. One that only reads may then open the files of its user, as one "
    "may that was not installed below /usr. Tried: an ext image whose names have slashes. "
    "On processors other than x86-64 and ARM there is no list of system calls: there the "
    "user id, the closed folder and the walk afterwards protect.",
)
def test_what_a_parser_may_not_do(tmp_path):
    """The same whoever it is: here it is the test's user, root as well."""
    if walls.unpacking_filter(os.uname().machine, writes=True) is None:
        pytest.skip("no filter for this kind of machine")
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path.parent / "outside").write_text("x")
    output, end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chdir(tmp_path)
            folder, image = os.open(".", os.O_RDONLY), os.open("file", os.O_RDONLY)
            walls.no_new_rights()
            walls.restrict_files("/usr/bin/unsquashfs", image, folder)
            walls.restrict_calls(walls.unpacking_filter(os.uname().machine, writes=True))
            done = [name for name, call in _TRIES.items() if succeeds(call)]
            more = {
                "outside": lambda: os.open("../outside", os.O_RDONLY),
                "outside-new": lambda: os.open("../outside-new", os.O_CREAT | os.O_WRONLY),
            }
            if walls.landlock_version() >= 2:
                done += [name for name, call in more.items() if succeeds(call)]
            resource.prlimit(0, resource.RLIMIT_CORE)
            os.chmod("file", 0o755)
            os.mkdir("good", 0o755)
            os.link("file", "good/name")
            os.symlink("file", "good/link")
            os.write(end, " ".join((*done, "end")).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(end)
    said = os.read(output, 1000).decode()
    os.close(output)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert said == "end"


def succeeds(call) -> bool:
    """Return true where a call raises nothing."""
    try:
        call()
    except OSError:
        return False
    return True


@pytest.mark.guarantee(
    "Foreign trees",
    "Root parses no foreign image.",
    "Root hands over to a user id that nobody has, without groups and, where the kernel "
    "makes them, in a user namespace of its own. Tried: what that process is, with user "
    "namespaces and without.",
)
@pytest.mark.parametrize("namespaces", [True, False])
def test_root_does_not_parse(tmp_path, monkeypatch, namespaces):
    """Neither with root's rights, nor in the namespaces of this machine where others are to be had."""
    need("mksquashfs")
    if os.geteuid() != 0:
        pytest.skip("only root has something to give up")
    program = tmp_path / "status"
    program.write_text("")
    if not namespaces:
        monkeypatch.setattr(walls, "_NEW_USER", -1)  # the kernel refuses that
    monkeypatch.setattr(parser, "find", lambda _: "/usr/bin/cat")
    descriptor = parser.open_image(str(program))
    bounds = parser.Bounds(seconds=10, output=10000)
    ended = parser.parse(("cat", "/proc/self/status", "/proc/self/uid_map"), descriptor, bounds)
    os.close(descriptor)
    seen = ended.output.decode().splitlines()
    fields = dict(line.split(":\t", 1) for line in seen if ":\t" in line)
    assert "0" not in fields["Uid"].split() + fields["Gid"].split()
    assert fields["Groups"].strip() in {"", str(_NOBODY)}
    assert (fields["CapEff"], fields["CapPrm"], fields["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
    if walls.unpacking_filter(os.uname().machine, writes=False):
        assert fields["Seccomp"] == "2"


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_images_in_private_folders(tmp_path, mode):
    """Whoever parses has no right on the path, and perhaps none on the file."""
    need("mksquashfs")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("content")
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    image = squash(tmp_path / "source", private / "-image")
    image.chmod(mode)
    assert image_file.read_member(str(image), "file") == b"content"
    with tree.unpack(str(image), private / "target") as unpacked:
        assert unpacked.read("file", limits.DOCUMENT) == b"content"


def test_modes_are_exact(tmp_path):
    need("mksquashfs")
    source = tmp_path / "source"
    modes = {"zero": 0, "read": 0o444, "sticky": 0o1777, "inner": 0o555}
    for name in modes:
        (source / name).mkdir(parents=True)
        (source / name / "file").write_text("x")
    pseudo = [f"{name} m {mode:o} 0 0" for name, mode in modes.items()]
    source.chmod(0o2555)
    image = squash(source, tmp_path / "image", *pseudo)
    mask = os.umask(0o077)
    try:
        tree.unpack(str(image), tmp_path / "target").close()
    finally:
        os.umask(mask)
    found = {name: stat.S_IMODE((tmp_path / "target" / name).stat().st_mode) for name in modes}
    assert found == {name: mode & 0o777 for name, mode in modes.items()}
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o555
    subprocess.run(["chmod", "-R", "u+rwx", tmp_path / "target"], check=True)
    assert len(list((tmp_path / "target").rglob("file"))) == len(modes)


def test_a_parser_that_does_not_end_is_ended(tmp_path, monkeypatch):
    (tmp_path / "image").write_text("x")
    monkeypatch.setattr(parser, "find", lambda _: "/usr/bin/sleep")
    monkeypatch.setattr(Packed, "argv", lambda _: ("sleep", "60"))
    rules = UnpackRules(seconds=1)
    with refused(Reason.IMAGE_UNREADABLE):
        foreign_unpack.unpack(Packed(path=str(tmp_path / "image")), tmp_path / "target", rules)
    assert os.listdir(tmp_path) == ["image"]


@pytest.mark.guarantee(
    "Foreign trees",
    "Who unpacks more than an image has is ended,",
    "while it writes: the sum of all files is looked at, and the size of the image bounds "
    "it. Tried: files without an end, and many small ones.",
)
def test_who_writes_too_much_is_ended(tmp_path, monkeypatch):
    """Not when it is done: this one never is, and none of its files is large."""
    monkeypatch.setattr(parser, "find", lambda _: os.path.realpath("/bin/sh"))
    loop = 'i=0; while :; do i=$((i + 1)); echo "$1" >"file$i"; done'
    (tmp_path / "image").touch()
    (tmp_path / "out").mkdir()
    image, out = parser.open_image(str(tmp_path / "image")), os.open(tmp_path / "out", os.O_RDONLY)
    try:
        parser.writer(out)
        for most in ((limits.MIB, 0), (0, 100)):
            bounds = parser.Bounds(seconds=3600, file=limits.MIB, tree=most)
            ended = parser.parse(("sh", "-c", loop, "sh", "x" * 3000), image, bounds, folder=out)
            assert ended.fault == "full"
    finally:
        os.close(image)
        os.close(out)


@pytest.mark.guarantee(
    "Foreign trees",
    "Who unpacks more than an image has is ended,",
)
@pytest.mark.parametrize("count", [10, 3000])
def test_an_image_has_no_more_than_its_kind(tmp_path, count):
    """A few large files, or many small ones: the sum counts."""
    need("mksquashfs")
    source = tmp_path / "source"
    (source / "meta").mkdir(parents=True)
    for number in range(count):
        (source / "meta" / str(number)).write_text("x" * (20_000_000 // count))
    image = squash(source, tmp_path / "image.squashfs")
    assert image.stat().st_size < limits.META.bytes
    rules = UnpackRules(most=limits.META)
    with refused(Reason.TOO_LARGE):
        foreign_unpack.unpack(Packed(path=str(image)), tmp_path / "out", rules)
    assert not (tmp_path / "out").exists()
    assert meta_files.read(str(image)) is None


@pytest.mark.guarantee(
    "Foreign trees",
    "Links are judged before anything is read.",
)
def test_paths_of_a_tree_stay_in_it(tmp_path):
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "file").write_text("inside")
    for name, target in {
        "out": "../secret", "absolute": str(tmp_path / "secret"), "up": "..", "loop": "loop",
        "a/deep": "../../../secret", "via": "up/secret", "mounted": "/mount/a/file",
        "beyond": "/mount/../secret", "folder": "a",
    }.items():  # fmt: skip
        (root / name).symlink_to(target)
    before = state_of(tmp_path)
    with ForeignTree.at(root, LinkRules(root="/mount")) as opened:
        assert opened.read("mounted", limits.DOCUMENT) == b"inside"
        assert opened.read("folder/../a/./file", limits.DOCUMENT) == b"inside"
        assert opened.real("folder/file") == "a/file"
        for path in (
            "out",
            "absolute",
            "up/secret",
            "loop",
            "a/deep",
            "via",
            "beyond",
            "../secret",
        ):
            with pytest.raises(StackproofError):
                opened.read(path, limits.DOCUMENT)
        for call in (
            lambda: opened.write("up/new", b"x"), lambda: opened.remove("up/secret"),
            lambda: opened.rename("a/file", "up/file"), lambda: opened.names("up"),
            lambda: opened.set_mode("out", 0o777), lambda: opened.make_folder("up/new"),
        ):  # fmt: skip
            with pytest.raises(StackproofError):
                call()
        assert state_of(tmp_path) == before
        opened.write("out", b"mine")  # the link is replaced
        opened.remove("absolute")
    assert (tmp_path / "secret").read_text() == "secret"
    assert (root / "out").read_text() == "mine"
    with ForeignTree.at(root, ROOT_FILE_SYSTEM) as opened:
        assert opened.read("../../a/file", limits.DOCUMENT) == b"inside"
        assert opened.stat("mounted") is None


def test_a_link_of_a_tree_has_a_state_of_its_own(tmp_path):
    """It is one thing to ask for a link, and another to ask for what it leads to."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "file").write_text("inside")
    inside = {"link": "a/file", "chain": "link", "folder": "a"}
    outside = {"out": "../secret", "absolute": "/etc/passwd", "up": "..", "loop": "loop"}
    nowhere = {"hanging": "a/none"}
    for name, target in (inside | outside | nowhere).items():
        (root / name).symlink_to(target)
    (tmp_path / "secret").write_text("secret")
    with ForeignTree.at(root) as opened:
        for name, target in (inside | outside | nowhere).items():
            state = opened.stat(name, follow=False)
            assert state is not None
            assert stat.S_ISLNK(state.st_mode)
            assert state.st_ino == (root / name).lstat().st_ino
            assert opened.link(name) == target
            assert not opened.is_file(name, follow=False)
            assert not opened.is_folder(name, follow=False)
        for name in inside:
            state = opened.stat(name)
            assert state is not None
            assert state.st_ino == (root / name).stat().st_ino
        assert opened.is_file("chain")
        assert opened.is_folder("folder")
        assert opened.stat("hanging") is None
        for name in outside:
            with pytest.raises(StackproofError):
                opened.stat(name)
        links = {path for path, state in opened.walk() if stat.S_ISLNK(state.st_mode)}
        assert links == inside.keys() | outside.keys() | nowhere.keys()


@pytest.mark.guarantee(
    "Foreign trees",
    "Links are judged before anything is read.",
)
def test_a_tar_writes_nothing_through_its_links(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "guard").mkdir()
    packed = tmp_path / "a.tar"
    with tarfile.open(packed, "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "../guard"
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("link/file"))
    with ForeignTree.at(tmp_path / "root") as opened, pytest.raises(StackproofError):
        tars.extract(packed, opened)
    assert os.listdir(tmp_path / "guard") == []


def test_a_real_path_is_told_while_a_link_becomes_a_folder(monkeypatch, tmp_path):
    """As `os.path.realpath` raises where `readlink` meets what was a link a moment ago.

    Python 3.13 takes such an answer for a name that is no link, so there it does not raise.
    """
    (tmp_path / "link").symlink_to(tmp_path)
    answers = [OSError(22, "Invalid argument"), None]
    resolve = os.path.realpath

    def exchanged(path, **more):
        fault = answers.pop(0)
        if fault:
            raise fault
        return resolve(path, **more)

    monkeypatch.setattr(os.path, "realpath", exchanged)
    assert real_path(tmp_path / "link") == resolve(tmp_path)
    assert answers == []
