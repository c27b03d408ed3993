"""Trees of somebody hostile, by chance and yet the same for the same seed: images, layers, RPMs.

    tree = mutated(random.Random(7), base, victim)
    image = squashfs(tree, tmp_path / "x.squashfs")

A tree is a good one (`base`, a folder) in which at random places things are planted: links that lead
out, modes, owners, names, special files, depth, size. What a link leads to is a file or folder of the
`victim`, and never the machine's own: a verb that follows one is to do no harm outside of the test.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from guarded import remove
from stackproof.core.value import Value, replace
from vendorrpms import Member

MOUNT = "/user-environment"
OWNERS = (31001, 4294967294, 1)
MODES = (0o4755, 0o2755, 0o6777, 0o4000, 0o2775, 0o1777, 0o000, 0o777)
NAMES = (
    b"-rf", b"--no-preserve-root", b"a\nb", b"x" * 255, b"\xff\xfe", b"*", b"?[a-z]*", b"..foo", b"...",
    b"blank ", b" blank", b"\x1b[2J", b"$(id)", b"a\\b", b"%s%n", "\u202etxt".encode(), b"'\"`",
)  # fmt: skip
"""Names that a shell, a pattern, a terminal or a list of lines may take for something else."""
PLACES = (
    "meta", "meta/env.json", "meta/lock.json", "meta/new.json", "env", "env/default", "env/app",
    "env/default/env.json", "env/default/activate.sh", "bin", "bin/hello", "bin/say", "bin/new",
    "lib", "lib/libanswer.so.1", "lib/libanswer.so", "share", "share/new", "new", "lib/pkgconfig/x.pc",
)  # fmt: skip
"""Where things are planted: what verbs read, list, move, write, and places that are nobody's."""
_VICTIMS = (
    "", ".docker/config.json", ".ssh", ".ssh/id_ed25519", "bin", "bin/deploy", "venv/bin", "proj",
    "proj/app", "thesis.tex", "private", "nothing-is-here",
)  # fmt: skip


class Plant(Value, kw_only=False):
    """Something at a path of a tree: its kind as in stat(2), what it holds or leads to, its rights.

    `hard` is a second name of another path. What is planted takes the place of what was there.
    """

    path: bytes
    kind: int = stat.S_IFREG
    mode: int = 0o755
    owner: int = -1
    text: bytes = b"#!/bin/sh\necho planted\n"
    hard: bool = False
    size: int = 0


class MutatedTree(Value, kw_only=False):
    """A good tree, and what is planted in it, in this order."""

    base: Path
    plants: tuple[Plant, ...]


def mutated(choose: random.Random, base: Path, victim: Path) -> MutatedTree:
    """Return a tree with one to four things planted in it."""
    plants: list[Plant] = []
    for _ in range(choose.choice((1, 1, 2, 3, 4))):
        plants += choose.choices(_KINDS, weights=_WEIGHTS)[0](choose, victim)
    return MutatedTree(base=base, plants=tuple(plants))


def leading_out(choose: random.Random, victim: Path, *, depth: int = 0) -> bytes:
    """Return the text of a link to a victim's file or folder: climbing, absolute, or both."""
    target = os.fsencode(victim / choose.choice(_VICTIMS))
    climbing = b"../" * choose.choice((depth + 1, 8, 16, 24)) + target.lstrip(b"/")
    return choose.choice((climbing, climbing, target, b"./" + climbing, b"bin/../" + climbing,
                          b"/../.." + target, target + b"/."))  # fmt: skip


def _place(choose: random.Random) -> bytes:
    return choose.choice(PLACES).encode()


def _links(choose: random.Random, victim: Path) -> list[Plant]:
    place = _place(choose)
    made = Plant(place, stat.S_IFLNK, 0o777, text=leading_out(choose, victim))
    kind = choose.randrange(8)
    if kind == 0:  # through another link
        other = choose.choice((b"aaa", b"zzz"))
        up = b"../" * place.count(b"/")
        return [replace(made, path=other), replace(made, text=up + other)]
    if kind == 1:
        return [replace(made, text=os.path.basename(place))]
    if kind == 2:  # with something below it
        below = _file(place + b"/" + choose.choice((b"deploy", b"x.json", b"env.json")), choose)
        return [made, below]
    if kind == 3:
        texts = (b"..", b".", b"/", b"x" * 4000, f"{MOUNT}/lib".encode(), f"{MOUNT}/../..".encode())
        return [replace(made, text=choose.choice(texts))]
    return [made]


def _file(path: bytes, choose: random.Random) -> Plant:
    return Plant(path, mode=choose.choice((0o644, 0o755)))


def _modes(choose: random.Random, _: Path) -> list[Plant]:
    folder = choose.random() < 0.3
    kind = stat.S_IFDIR if folder else stat.S_IFREG
    names = (b"bin/sh", b"meta/sh", b"lib/sh", b"sh", b"env/default/sh")
    return [Plant(choose.choice(names), kind, choose.choice(MODES))]


def _owners(choose: random.Random, _: Path) -> list[Plant]:
    kind = choose.choice((stat.S_IFREG, stat.S_IFDIR))
    names = (b"bin/tool", b"meta/tool", b"lib/tool", b"tool")
    return [
        Plant(choose.choice(names), kind, choose.choice((0o755, 0o4755)), choose.choice(OWNERS))
    ]


def _specials(choose: random.Random, _: Path) -> list[Plant]:
    kind = choose.choice((stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK))
    return [Plant(_place(choose), kind, choose.choice((0o666, 0o600)))]


def _names(choose: random.Random, victim: Path) -> list[Plant]:
    folder = choose.choice((b"", b"bin/", b"meta/", b"lib/", b"env/default/"))
    made = _file(folder + choose.choice(NAMES), choose)
    if choose.random() < 0.2:
        return [replace(made, kind=stat.S_IFLNK, text=leading_out(choose, victim, depth=1))]
    return [made]


def _depth(choose: random.Random, _: Path) -> list[Plant]:
    folder = choose.choice((b"meta", b"bin", b"share", b"env/default"))
    return [_file(folder + b"/d" * choose.choice((40, 200, 1200)) + b"/end", choose)]


def _sizes(choose: random.Random, _: Path) -> list[Plant]:
    path = choose.choice((b"meta/lock.json", b"meta/large", b"bin/large", b"lib/large"))
    return [replace(_file(path, choose), size=choose.choice((1 << 20, 20 << 20)))]


_KINDS: tuple[Callable[[random.Random, Path], list[Plant]], ...] = (
    _links, _modes, _owners, _specials, _names, _depth, _sizes,
)  # fmt: skip
_WEIGHTS = (12, 5, 3, 4, 3, 1, 1)


def squashfs(tree: MutatedTree, image: Path) -> Path:
    """Make an image of a tree: special files, modes and owners need no rights for that."""
    folder = image.with_suffix(".tree")
    shutil.copytree(tree.base, folder, symlinks=True)
    nodes: dict[bytes, str] = {}
    for plant in tree.plants:
        _put(folder, plant, nodes)
    definitions = image.with_suffix(".nodes")
    definitions.write_text("".join(f"{line}\n" for line in nodes.values()))
    subprocess.run(
        ["mksquashfs", folder, image, "-pf", definitions, "-noappend", "-no-progress", "-quiet",
         "-comp", "zstd", "-Xcompression-level", "1"],
        check=True, timeout=600, capture_output=True,
    )  # fmt: skip
    remove(folder)
    definitions.unlink()
    image.chmod(0o644)
    return image


def _put(folder: Path, plant: Plant, nodes: dict[bytes, str]) -> None:
    """Put something into a folder; what a folder cannot have becomes a definition of mksquashfs."""
    place = os.path.join(os.fsencode(folder), plant.path)
    for part in _above(plant.path):  # a link, or what was planted before, gives way
        nodes.pop(part, None)
        there = os.path.join(os.fsencode(folder), part)
        if os.path.islink(there) or (os.path.lexists(there) and not os.path.isdir(there)):
            os.unlink(there)
        if not os.path.lexists(there):
            os.mkdir(there)
    if os.path.isdir(place) and not os.path.islink(place):
        remove(Path(os.fsdecode(place)))
    elif os.path.lexists(place):
        os.unlink(place)
    owner = max(plant.owner, 0)
    name = plant.path.decode("ascii", "replace")
    if plant.kind == stat.S_IFLNK:
        os.symlink(plant.text, place)
    elif plant.kind in _LETTERS:
        nodes[plant.path] = (
            f"{name} {_LETTERS[plant.kind].format(f'{plant.mode:o} {owner} {owner}')}"
        )
    elif plant.kind == stat.S_IFDIR:
        os.mkdir(place)
    else:
        with open(place, "wb") as file:
            file.write(plant.text)
            if plant.size:
                file.truncate(plant.size)
        os.chmod(place, plant.mode & 0o777 | 0o400)
    if plant.kind in {stat.S_IFREG, stat.S_IFDIR} and (plant.mode not in {0o644, 0o755} or owner):
        nodes[plant.path] = f"{name} m {plant.mode:o} {owner} {owner}"


_LETTERS = {
    stat.S_IFCHR: "c {} 1 3", stat.S_IFBLK: "b {} 254 0", stat.S_IFIFO: "i {} f",
    stat.S_IFSOCK: "i {} s",
}  # fmt: skip


def _above(path: bytes) -> Iterable[bytes]:
    parts = path.split(b"/")[:-1]
    return (b"/".join(parts[: count + 1]) for count in range(len(parts)))


def layer(tree: MutatedTree, choose: random.Random, victim: Path) -> bytes:
    """Return a tree as a tar archive, with names and second names that only an archive can have."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(tree.base, arcname=".", recursive=True)
        more = choose.randrange(3) if tree.plants else 0
        plants = [*tree.plants, *(_of_archives(choose, victim) for _ in range(more))]
        choose.shuffle(plants)
        for plant in plants:
            _append(archive, plant, choose)
    return output.getvalue()


def _of_archives(choose: random.Random, victim: Path) -> Plant:
    """Return a member whose name leads out, or a second name of a victim's file."""
    target = os.fsencode(victim / choose.choice(_VICTIMS))
    if choose.random() < 0.5:
        text = choose.choice((target, b"../" * 16 + target.lstrip(b"/"), b"aaa/thesis.tex"))
        return Plant(_place(choose), text=text, hard=True)
    names = (target, b"../" * 16 + target.lstrip(b"/"), b"bin/../../" + target, b"//" + target,
             b"bin/./hello", b".", b"..", b"", b"/")  # fmt: skip
    return _file(choose.choice(names), choose)


_TYPES = {
    stat.S_IFREG: tarfile.REGTYPE, stat.S_IFDIR: tarfile.DIRTYPE, stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE, stat.S_IFBLK: tarfile.BLKTYPE, stat.S_IFIFO: tarfile.FIFOTYPE,
    stat.S_IFSOCK: b"9",
}  # fmt: skip


def _append(archive: tarfile.TarFile, plant: Plant, choose: random.Random) -> None:
    entry = tarfile.TarInfo(os.fsdecode(plant.path))
    entry.type = tarfile.LNKTYPE if plant.hard else _TYPES[plant.kind]
    entry.mode = plant.mode
    entry.uid = entry.gid = max(plant.owner, 0)
    entry.devmajor, entry.devminor = 1, 3
    if plant.hard or plant.kind == stat.S_IFLNK:
        entry.linkname = os.fsdecode(plant.text)
    content = b"" if entry.type != tarfile.REGTYPE else plant.text.ljust(plant.size, b"\0")
    entry.size = len(content)
    if choose.random() < 0.2:
        entry.pax_headers = choose.choice((
            {"SCHILY.xattr.security.capability": "x"}, {"uid": "31001"}, {"mtime": "-1e9"},
            {"path": entry.name}, {"GNU.sparse.name": "x"}, {"comment": "\udcff"},
        ))  # fmt: skip
    archive.addfile(entry, io.BytesIO(content))


def members(
    tree: MutatedTree, root: str, choose: random.Random, victim: Path
) -> Mapping[str, Member]:
    """Return a tree as the files of an RPM below a root."""
    found: dict[str, Member] = {}
    for path in sorted(tree.base.rglob("*")):
        name = f"{root}/{path.relative_to(tree.base).as_posix()}"
        if path.is_symlink():
            found[name] = Member(mode=stat.S_IFLNK | 0o777, link=os.readlink(path))
        elif path.is_file():
            found[name] = Member(path.read_bytes(), stat.S_IFREG | 0o755)
    more = choose.randrange(2) if tree.plants else 0
    for plant in (*tree.plants, *(_of_archives(choose, victim) for _ in range(more))):
        name = os.fsdecode(plant.path)
        path = name if name.startswith("/") or choose.random() < 0.1 else f"{root}/{name}"
        text = os.fsdecode(plant.text) if plant.kind == stat.S_IFLNK or plant.hard else ""
        kind = stat.S_IFLNK if plant.hard else plant.kind
        content = plant.text.ljust(min(plant.size, 1 << 20), b"\0") if kind == stat.S_IFREG else b""
        found[path] = Member(content, kind | plant.mode, text)
    return found
