"""Images that somebody hostile made, packed and installed: nothing outside of the tree is touched.

Beside the pack lies what belongs to the one who packs: a secret, a project, programs, a library.
Every test plants something in an image, packs or installs it, and looks at all of that again, byte
for byte, with modes, owners and times.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from need import as_unprivileged, need
from packs import CALLS_ANSWER, MOUNT, Stack, out
from stackproof.core import noun
from stackproof.core.errors import ExitCode, StackproofError
from stackproof.core.value import Value, replace
from stackproof.image.effects import tree
from stackproof.image.model import MpiFacts
from stackproof.pack.effects import links, unpacked
from stackproof.pack.model import Pack

pytestmark = pytest.mark.battery

SECRET = "auth of the registry: c2VjcmV0"
MALLORY = 31001
FORMS = ("relative", "absolute", "below the mount", "by a link", "above a folder link")
_TIMEOUT_S = 600


class Home(Value):
    """What must stay as it is, and what it was."""

    folder: Path

    def state(self) -> dict[str, tuple[object, ...]]:
        found = {}
        for path in (self.folder, *sorted(self.folder.rglob("*"))):
            seen = path.lstat()
            content = os.readlink(path) if path.is_symlink() else ""
            if stat.S_ISREG(seen.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path)] = (seen.st_mode, seen.st_uid, seen.st_mtime_ns, seen.st_ino, content)
        return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    folder = tmp_path / "home"
    for name in ("bin", "lib", "proj/app/activate.sh/inner"):
        (folder / name).mkdir(parents=True)
    (folder / "config.json").write_text(SECRET)
    (folder / "proj/app/env.json").write_text("mine")
    (folder / "proj/app/activate.sh/inner/thesis").write_text("mine")
    for name in ("deploy", "hello"):
        (folder / "bin" / name).write_text("#!/bin/sh\necho mine\n")
        (folder / "bin" / name).chmod(0o755)
    os.utime(folder / "bin", (1e9, 1e9))
    return Home(folder=folder)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    need("gcc", "patchelf", "mksquashfs")
    stack = Stack(tmp_path / "made")
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    return stack


def leads(stack: Stack, place: str, target: Path, form: str) -> None:
    """Plant a link in an image at a place, by which the kernel comes to a path of this machine."""
    link = stack.tree / place
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() or link.is_file():
        link.unlink()
    out_of = "../" * 24
    if form == "relative":
        link.symlink_to(f"{out_of}{str(target)[1:]}")
    elif form == "absolute":
        link.symlink_to(target)
    elif form == "below the mount":
        link.symlink_to(f"{stack.mount}/{out_of}{str(target)[1:]}")
    elif form == "by a link":
        (stack.tree / "hop").symlink_to(f"{out_of}{str(target.parent)[1:]}")
        link.symlink_to(os.path.relpath(stack.tree / "hop" / target.name, link.parent))
    else:  # by its text it stays inside, as `up/..` is above what the link leads to
        deep = stack.tree / "/".join("d" * 24)
        deep.mkdir(parents=True)
        (stack.tree / "top").mkdir()
        (deep / "up").symlink_to(os.path.relpath(stack.tree / "top", deep))
        (deep / "root").symlink_to(f"up/{out_of}{str(target.parent)[1:]}")
        link.symlink_to(os.path.relpath(deep / "root" / target.name, link.parent))


def asked(folder: Path, verb: str, image: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `pack` or `install` on an image in a folder; what comes out is `p`."""
    more = ["-o", "p"] if verb == "pack" else ["--to", f"{folder}/p"]
    return subprocess.run(
        [sys.executable, "-m", "stackproof", verb, str(image), *words, *more],
        cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip


def texts_below(folder: Path) -> Iterator[bytes]:
    for inner, _, names in os.walk(folder):
        for name in names:
            path = Path(inner, name)
            if path.is_file() and not path.is_symlink():
                yield path.read_bytes()


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode in {ExitCode.INVALID, ExitCode.IMAGE}, (done.returncode, done.stderr)
    assert "bug" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.mark.guarantee(
    "Foreign trees",
    "`pack` and `install` read, move and delete nothing outside of the image.",
    "Tried: documents, folders of views, folders on PATH, interpreters and libraries that "
    "are links in five forms, and metadata with `..`.",
)
@pytest.mark.parametrize("verb", ["pack", "install"])
@pytest.mark.parametrize("form", FORMS)
def test_a_document_that_is_a_link_is_not_read(stack, home, work, form, verb) -> None:
    """`meta/lock.json` leads to a secret, which would be part of the provenance."""
    image = stack.image()  # with a lock of its own, which is put aside
    leads(stack, "meta/lock.json", home.folder / "config.json", form)
    image = again(stack, image)
    before = home.state()
    refused(asked(work, verb, image), "meta/lock.json")
    assert home.state() == before
    assert not [text for text in texts_below(work) if SECRET.encode() in text]


def again(stack: Stack, image: Path, *words: str) -> Path:
    """Write an image once more, of the tree as it is now; owners are those of `words`."""
    owners = words or ("-all-root",)
    argv = ["mksquashfs", stack.tree, image, "-noappend", "-no-progress", "-quiet", *owners]
    subprocess.run(argv, check=True, timeout=_TIMEOUT_S, capture_output=True)
    return image


@pytest.mark.guarantee(
    "Foreign trees",
    "`pack` and `install` read, move and delete nothing outside of the image.",
)
@pytest.mark.parametrize("verb", ["pack", "install"])
@pytest.mark.parametrize("form", FORMS)
def test_a_folder_of_views_that_is_a_link_is_not_cleared(stack, home, work, form, verb) -> None:
    """`env` leads to a project with `app/env.json`, which would be deleted."""
    leads(stack, "env", home.folder / "proj", form)
    image, before = stack.image(), home.state()
    refused(asked(work, verb, image), "env")
    assert home.state() == before


def on_path(stack: Stack, folder: str) -> Path:
    """Return an image whose view has a folder on its PATH."""
    path = {"PATH": [{"op": "prepend", "value": [folder]}]}
    view = {"root": MOUNT, "description": "", "type": "augment"}
    view["env"] = {"version": 1, "type": "augment", "values": {"list": path, "scalar": {}}}
    return stack.image(views={"default": view})


@pytest.mark.guarantee(
    "Foreign trees",
    "`pack` and `install` read, move and delete nothing outside of the image.",
)
@pytest.mark.parametrize("verb", ["pack", "install"])
@pytest.mark.parametrize("form", FORMS)
def test_a_folder_on_path_that_is_a_link_is_not_moved(stack, home, work, form, verb) -> None:
    """`software/x/bin` leads to `~/bin`, whose programs would be replaced by entry points."""
    leads(stack, "software/x/bin", home.folder / "bin", form)
    image, before = on_path(stack, f"{MOUNT}/software/x/bin"), home.state()
    refused(asked(work, verb, image), "software/x/bin")
    assert home.state() == before


@pytest.mark.guarantee(
    "Foreign trees",
    "`pack` and `install` read, move and delete nothing outside of the image.",
)
@pytest.mark.parametrize("verb", ["pack", "install"])
@pytest.mark.parametrize("words", ["path", "mpi", "benchmark", "root"])
def test_paths_of_the_metadata_do_not_lead_out(stack, home, work, words, verb) -> None:
    """Without any link: `MOUNT/../../elsewhere/bin` begins with the mount point as well."""
    out_of = f"{MOUNT}/" + "../" * 24 + str(home.folder)[1:]
    if words == "path":
        image = on_path(stack, f"{out_of}/bin")
    elif words == "mpi":
        facts = {"family": "mpich", "version": "4", "prefix": out_of, "launcher": "mpiexec"}
        image = stack.image(mpi=facts)
    elif words == "benchmark":
        told = {"stack": "0" * 64, "lock": "1" * 64, "benchmarks": {"b": f"{out_of}/bin/deploy"}}
        image = stack.image(stackproof=told)
    else:
        stack.mount = "/"
        image = on_path(stack, f"/{home.folder}/bin")
    before = home.state()
    done = asked(work, verb, image, *(["b"] if words == "benchmark" and verb == "pack" else []))
    assert home.state() == before
    assert "bug" not in done.stderr
    if done.returncode:
        assert done.returncode == ExitCode.INVALID, done.stderr
    assert not [text for text in texts_below(work) if b"echo mine" in text]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["bin/deploy", "bin/.hidden", "lib/libanswer.so.1"])
def test_files_that_are_links_are_not_carried(stack, home, work, form, name) -> None:
    """A program, a library that leads out: neither read, nor copied, nor started."""
    target = home.folder / "bin/deploy"
    leads(stack, name, target, form)
    image, before = stack.image(), home.state()
    refused(asked(work, "pack", image), name)
    assert home.state() == before


@pytest.mark.parametrize("form", FORMS)
def test_an_interpreter_that_is_a_link_is_refused(stack, home, work, form) -> None:
    stack.script("bin/say", f"#!{MOUNT}/tools/py\necho x\n")
    leads(stack, "tools/py", home.folder / "bin/deploy", form)
    image, before = stack.image(), home.state()
    refused(asked(work, "pack", image, "say"), "tools/py")
    assert home.state() == before


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["bin/../.bin", "programs", "programs/bin", "programs/bin/tool"])
def test_names_that_a_pack_makes_itself_are_no_links(stack, home, work, form, name) -> None:
    """Programs are moved to `.bin`, and those of this machine come to `programs`."""
    target = home.folder / "bin"
    tool = stack.folder / "tool"
    tool.write_text("#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    leads(stack, posixpath.normpath(name), target / "deploy" if "tool" in name else target, form)
    image, before = stack.image(), home.state()
    refused(asked(work, "pack", image, "hello", str(tool)), posixpath.normpath(name))
    assert home.state() == before


@pytest.mark.parametrize("name", [".bin", "programs"])
def test_names_that_a_pack_makes_itself_are_not_those_of_the_image(stack, work, name) -> None:
    """A link that stays inside is no attack on others, but what it leads to would be mixed up."""
    (stack.tree / name).symlink_to("lib")
    image = stack.image()
    refused(asked(work, "pack", image, "hello", "/bin/true"), f"`stack/{name}")


def test_links_below_the_mount_become_relative(tmp_path) -> None:
    """Wherever the tree lies then, they lead to the same; others are listed all at once."""
    (tmp_path / "a/b").mkdir(parents=True)
    for place, target in (
        ("a/b/one", f"{MOUNT}/a/x"),
        ("a/two", MOUNT),
        ("three", f"{MOUNT}/a/../y"),
    ):
        (tmp_path / place).symlink_to(target)
    links.close(str(tmp_path), MOUNT, "stack")
    made = [os.readlink(tmp_path / place) for place in ("a/b/one", "a/two", "three")]
    assert made == ["../x", "..", "a/../y"]
    (tmp_path / "four").symlink_to("/etc")
    (tmp_path / "a/five").symlink_to(f"{MOUNT}-2/x")
    with pytest.raises(StackproofError) as error:
        links.close(str(tmp_path), MOUNT, "stack")
    assert len(error.value.problems) == 2


def test_a_link_to_a_folder_on_path_is_that_folder(stack, work) -> None:
    """Views of Spack are made of links; each program is moved once."""
    (stack.tree / "view").symlink_to("bin")
    (stack.tree / "links").mkdir()
    (stack.tree / "links/hi").symlink_to(f"{MOUNT}/bin/hello")
    (stack.tree / "share").symlink_to(f"{MOUNT}/lib")
    stack.script("bin/say", '#!/bin/sh\nhello said "$1"\n')
    image = on_path(stack, f"{MOUNT}/view")
    done = asked(work, "pack", image)
    assert done.returncode == 0, done.stderr
    assert out(work / "p/stack/links/hi").stdout.split()[1] == "42"
    assert out(work / "p/bin/say", "x").stdout.splitlines()[1:] == ["said", "x"]
    assert (work / "p/stack/share/libanswer.so").exists()


@pytest.mark.guarantee(
    "Foreign trees",
    "They start nothing of the image,",
    "and do not ask its loader. Tried: a program as loader, libraries for auditing, a "
    "machine whose name is the path of a compiler.",
)
@pytest.mark.parametrize("name", ["ld-linux-x86-64.so.2", "program"])
@pytest.mark.parametrize("asked_for", [True, False])
def test_a_loader_of_somebody_else_is_not_started(
    stack, home, tmp_path, work, name, asked_for
) -> None:
    """The loader that a program names goes along, and is asked: it could be the attacker's."""
    trap = tmp_path / "trap"
    trap.mkdir()
    code = f'#include <stdio.h>\nint main(void) {{ return !fopen("{home.folder}/owned", "w"); }}'
    stack.compile(code, trap / name)
    if os.geteuid() == 0:
        os.chown(trap, MALLORY, MALLORY)
        os.chown(trap / name, MALLORY, MALLORY)
    else:
        (trap / name).chmod(0o777)
    link = f"-Wl,--dynamic-linker={trap / name}"
    stack.program("odd", "int main(void) { return 0; }", link)
    before, image = home.state(), stack.image()
    done = asked(work, "pack", image, *(["odd"] if asked_for else []))
    assert home.state() == before
    if asked_for and name == "program":
        refused(done, "odd")
    else:  # it may go along under the name of a loader, as all of the image does
        assert done.returncode == 0, done.stderr


@pytest.mark.guarantee("Foreign trees", "They start nothing of the image,")
@pytest.mark.parametrize("tag", ["audit", "depaudit"])
@pytest.mark.parametrize("verb", ["pack", "install"])
def test_the_loader_runs_nothing_of_an_image(stack, home, tmp_path, work, tag, verb) -> None:
    """Asked what a program takes, the loader starts the libraries that are to audit it."""
    code = f"""
        #include <stdio.h>
        unsigned la_version(unsigned own) {{ fopen("{home.folder}/owned", "w"); return own; }}
    """
    stack.compile(code, tmp_path / "audit.so", "-shared", "-fPIC")
    stack.program("odd", "int main(void) { return 0; }", f"-Wl,--{tag}={tmp_path}/audit.so")
    before = home.state()
    asked(work, verb, stack.image())
    assert home.state() == before


def test_special_files_are_refused(stack, work) -> None:
    """Device nodes and FIFOs of an image are never made, by nobody."""
    image = stack.image()
    for number, node in enumerate(("disk b 666 0 0 254 0", "tty c 666 0 0 5 0")):
        odd = again(stack, image, "-all-root", "-p", node)
        for verb in ("pack", "install"):
            done = asked(work, verb, odd)
            assert done.returncode in {ExitCode.INVALID, ExitCode.IMAGE}, (number, done)
            assert not (work / "p").exists()
    os.mkfifo(stack.tree / "fifo")
    assert asked(work, "pack", again(stack, image)).returncode
    assert not (work / "p").exists()


@pytest.mark.guarantee(
    "Foreign trees",
    "What root installs is root's, for all to use, without rights.",
    "Tried: owners, devices and set-uid programs in the image; a user who looks on while "
    "it is installed.",
)
@pytest.mark.parametrize("place", ["elsewhere", "its own"])
def test_what_root_installs_is_roots_and_gives_no_rights(tmp_path, work, place) -> None:
    """Owners and bits of an image count for nothing."""
    need("root", "gcc", "patchelf", "mksquashfs")
    stack = Stack(tmp_path / "made", f"{work}/p" if place == "its own" else MOUNT)
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    image = stack.image()
    again(stack, image, "-force-uid", str(MALLORY), "-force-gid", str(MALLORY),
          "-p", "bin/hello m 6755 0 0", "-p", "lib m 2777 31001 31001")  # fmt: skip
    for verb in ("pack", "install") if place == "elsewhere" else ("install",):
        done = asked(work, verb, image)
        assert done.returncode == 0, done.stderr
        for path in work.rglob("*"):
            seen = path.lstat()
            assert (seen.st_uid, seen.st_gid) == (0, 0), path
            assert path.is_symlink() or not seen.st_mode & 0o7022, (path, oct(seen.st_mode))
        subprocess.run(["rm", "-r", work / "p"], check=True)


OBSERVER = """
import os, sys
keep = sys.argv[1]
seen = set()
os.set_blocking(0, False)
while True:
    for name in os.listdir(keep) if os.path.isdir(keep) else ():
        if not name.startswith("staging.") or name in seen:
            continue
        try:
            found = os.listdir(f"{keep}/{name}")
        except OSError:
            continue
        seen.add(name)
        print(name, found, flush=True)
    try:
        if os.read(0, 1) == b"":
            break
    except BlockingIOError:
        pass
"""


@pytest.mark.guarantee(
    "Foreign trees",
    "What root installs is root's, for all to use, without rights.",
)
@pytest.mark.parametrize("place", ["elsewhere", "its own"])
def test_nobody_sees_what_is_being_installed(tmp_path, place) -> None:
    """Set-uid programs lie there while root unpacks; one folder that is open shows that he looks."""
    need("root", "unprivileged-user", "gcc", "patchelf", "mksquashfs")
    opened(tmp_path)
    site = tmp_path / "site"
    site.mkdir(mode=0o755)
    stack = Stack(tmp_path / "made", f"{site}/p" if place == "its own" else MOUNT)
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    for number in range(400):
        (stack.tree / "lib" / f"data{number}").write_bytes(os.urandom(1 << 15))
    image = again(stack, stack.image(), "-all-root", "-p", "bin/hello m 4755 0 0")
    keep = site / ".stackproof"
    (keep / "staging.control").mkdir(parents=True)
    argv = as_unprivileged(["/usr/bin/python3", "-c", OBSERVER, str(keep)])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().startswith("staging.control")
        done = asked(site, "install", image)
        told, _ = watch.communicate(timeout=_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert told == ""
    assert (site / "p/bin/hello").stat().st_mode & 0o7777 == 0o755


def opened(folder: Path) -> None:
    for above in (folder, *folder.parents[:-2]):
        above.chmod(above.stat().st_mode | 0o055)


@pytest.mark.parametrize("form", ["program", "mpi", "link", "absolute", "provenance", "fifo"])
def test_a_pack_of_somebody_else_is_all_in_its_folder(stack, home, work, form) -> None:
    """A folder with a provenance that fits it, and that leads elsewhere all the same."""
    assert asked(work, "pack", stack.image(), "--provenance", "inside").returncode == 0
    place = work / "p"
    told = place / "meta/provenance.json"
    pack = noun.from_json(Pack, told.read_text())
    assert unpacked.load_pack(str(place)) == pack
    if form == "program":
        pack = replace(pack, programs={"hello": f"../../{home.folder.name}/bin/deploy"})
    elif form == "mpi":
        facts = MpiFacts(family="mpich", version="4", prefix=str(home.folder), launcher="x")
        pack = replace(pack, mpi=facts)
    elif form in {"link", "absolute"}:
        climbing = f"../../../{home.folder.name}/bin"
        target = home.folder / "bin" if form == "absolute" else climbing
        (place / "stack/more").symlink_to(target)
    pack = replace(pack, tree=tree.of_folder(place, ("meta",)).sha256)
    told.write_text(noun.to_json(pack))
    if form == "provenance":
        told.rename(home.folder / "told")
        told.symlink_to(home.folder / "told")
    elif form == "fifo":
        told.unlink()
        os.mkfifo(told)
    with pytest.raises(StackproofError) as error:
        unpacked.load_pack(str(place))
    assert error.value.problems[0].hint


@pytest.mark.guarantee("Foreign trees", "They start nothing of the image,")
def test_a_machine_that_an_image_names_is_no_path_of_a_compiler(
    stack: Stack, home: Home, tmp_path: Path
) -> None:
    """A script is packed for any machine: its entry point is compiled for the one of the image."""
    stack.script("bin/say", "#!/bin/sh\necho said\n")
    compiler = home.folder / "bin" / "x-linux-gnu-gcc"
    compiler.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec gcc "$@"\n')
    compiler.chmod(0o755)
    said = {"stack": "0" * 64, "lock": "1" * 64, "architecture": f"{home.folder}/bin/x"}
    done = asked(tmp_path, "pack", stack.image(stackproof=said), "say")
    assert not (tmp_path / "ran").exists()
    refused(done, "no entry points for")
