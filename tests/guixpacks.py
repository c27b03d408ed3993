"""Stores and packs in the form that `guix pack` gives them, and a guix that hands one out.

Guix itself is on no machine of the tests. The tarball is written by the call of tar that
guix/scripts/pack.scm has, its profile's manifest in the form of guix/profiles.scm, version 3 (both of
Guix 1.4). Programs and libraries are real ones, of this machine's compiler and of MPICH's wheel,
with run paths to the store, where also their loader and their C library are.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
from pathlib import Path

from stackproof.build.engines.guix.stack import GuixLock, GuixStack, StoreItem, wants
from stackproof.core.value import Value

STORE = "/gnu/store"
COMMIT = "c81457a5883ea43950eb2ecdcbb58a5b144bcd11"
_BASE32 = "0123456789abcdfghijklmnpqrsvwxyz"
INTRODUCED = "9edb3f66fd807b096b48283debdcddccfea34bad"
KEY = "BBB0 2DDF 2CEA F6A8 0D1D  E643 A2A0 6DF2 A33A 54FA"
CHANNELS = f"""channels:
  guix:
    url: https://git.guix.gnu.org/guix.git
    commit: {COMMIT}
    introduction: {{commit: {INTRODUCED}, fingerprint: "{KEY}"}}
"""
RECIPE = f"""name: small
engine: guix
mpi: {{family: mpich}}
packages: [hello-mpi]
with-input: {{openmpi: mpich}}
{CHANNELS}"""
HELLO = """#include <mpi.h>
#include <stdio.h>
int main(void) { int n, r; MPI_Init(0, 0); MPI_Comm_size(MPI_COMM_WORLD, &n);
MPI_Comm_rank(MPI_COMM_WORLD, &r); if (!r) printf("%d ranks\\n", n); MPI_Finalize(); return 0; }
"""
_LOADERS = ("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")
_LIBRARIES = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
# What guix says on its way is of guix/scripts/time-machine.scm and guix/ui.scm.
_GUIX = """#!/bin/sh
printf '%s\\n' "$@" > {said}
[ "$1 $3 $4" = "time-machine -- pack" ] || {{ echo "guix: error: $1: command not found" >&2; exit 1; }}
for word in "$@"; do
  case $word in
    --channels=*|--manifest=*) [ -f "${{word#*=}}" ] || {{ echo "guix: error: ${{word#*=}}: No such file" >&2; exit 1; }};;
  esac
done
echo "Updating channel 'guix' from Git repository at 'https://git.guix.gnu.org/guix.git'..." >&2
echo {pack}
"""


def name_of(name: str) -> str:
    """Return the name of an item in the store: a hash that is made of its name, and it."""
    digest = hashlib.sha256(name.encode()).digest()
    return "".join(_BASE32[byte % 32] for byte in digest) + f"-{name}"


def header(machine: str) -> bytes:
    """Return an ELF file that says which machine it is for, and no more (gABI, "ELF Header")."""
    number = {"x86_64": 62, "aarch64": 183}[machine]
    sizes = (0, 0, 0, 0, 64, 56, 0, 64, 0, 0)
    return b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, number, 1, *sizes)


class Store:
    """A store that is filled item by item, below a folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.store = folder / "gnu" / "store"
        self.store.mkdir(parents=True)

    def file(self, item: str, path: str, content: bytes | str, mode: int = 0o444) -> Path:
        """Put a file into an item; an empty path is the item itself."""
        place = self.store / name_of(item) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)
        return place

    def link(self, item: str, path: str, target: str) -> None:
        place = self.store / name_of(item) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def profile(self, *items: str, commit: str = COMMIT) -> None:
        """Make the profile of some items: links to their programs, and the manifest."""
        entries = []
        for item in items:
            name, version = item.rsplit("-", 1)
            for path in sorted((self.store / name_of(item) / "bin").glob("*")):
                self.link("profile", f"bin/{path.name}", f"{STORE}/{name_of(item)}/bin/{path.name}")
            entries.append(
                f'("{name}" "{version}" "out" "{STORE}/{name_of(item)}" (propagated-inputs ()) '
                f"(search-paths ()) (properties (provenance (repository (version 0) "
                f'(url "https://git.guix.gnu.org/guix.git") (branch "master") (commit "{commit}") '
                f"(introduction (channel-introduction (version 0) "
                f'(commit "{INTRODUCED}") (signer "{KEY}")))))))'
            )
        self.file("profile", "manifest", f"(manifest (version 3) (packages ({' '.join(entries)})))")

    def tarball(self, pack: Path, program: str = "gzip -9n") -> Path:
        """Write the pack, with `-S /bin=bin` as the blog has it, packed by a program."""
        link = self.root / "bin"
        if not link.is_symlink():
            link.symlink_to(f"gnu/store/{name_of('profile')}/bin")
        subprocess.run(
            ["tar", "-I", program, "--format=gnu", "--sort=name", "--mtime=@1", "--owner=root:0",
             "--group=root:0", "--check-links", "-cf", pack, "./gnu/store", "./bin"],
            cwd=self.root, check=True, timeout=600,
        )  # fmt: skip
        return pack

    def squashfs(self, pack: Path) -> Path:
        options = ["-noappend", "-quiet", "-no-progress", "-comp", "gzip"]
        subprocess.run(["mksquashfs", self.root, pack, *options], check=True, timeout=600)
        return pack


def small(
    folder: Path, mpi: str = "mpich-4.2.1", item: str = "hello-mpi-1.0", program: str = "hello"
) -> Store:
    """Return a store of a library that is no MPI, under the name of one, and a script."""
    store = Store(folder)
    store.file(mpi, "lib/libmpi.so.12", header(os.uname().machine))
    store.file(item, f"bin/{program}", f"#!/bin/sh\necho {STORE}/{name_of(mpi)}\n", 0o555)
    store.link(item, "lib", f"../{name_of(mpi)}/lib")
    store.profile(item)
    return store


def with_mpich(folder: Path, wheel: Path, version: str) -> Store:
    """Return a store with MPICH's wheel as an item, a program that was linked with it, and libc."""
    store = Store(folder)
    mpich = store.store / name_of(f"mpich-{version}")
    prefix, libc = (f"{STORE}/{name_of(name)}" for name in (f"mpich-{version}", "glibc-2.36"))
    shutil.copytree(wheel, mpich, symlinks=True)
    for wrapper in (mpich / "bin").glob("mpi*"):
        text = wrapper.read_bytes()
        if text.startswith(b"#!"):
            wrapper.write_bytes(text.replace(os.fsencode(wheel), prefix.encode()))
    loader = ""
    for name in (*_LOADERS, *_LIBRARIES):
        said = subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        )
        if os.path.isabs(path := said.stdout.strip()):
            store.file("glibc-2.36", f"lib/{name}", Path(path).read_bytes(), 0o555)
            loader = name if name in _LOADERS else loader
    program = store.file("hello-mpi-1.0", "bin/hello", "", 0o755)
    subprocess.run(
        ["gcc", "-xc", "-", "-xnone", f"-I{mpich}/include", f"-L{mpich}/lib", "-lmpi",
         f"-Wl,-rpath,{prefix}/lib:{libc}/lib", f"-Wl,-dynamic-linker,{libc}/lib/{loader}",
         "-Wl,--allow-shlib-undefined", "-o", program],
        input=HELLO.encode(), check=True, timeout=600,
    )  # fmt: skip
    store.profile("hello-mpi-1.0", f"mpich-{version}")
    return store


def lock(stack: GuixStack) -> GuixLock:
    """Return a lock that answers a stack: a program, the MPI, and their profile."""
    names = {"hello-mpi-1.0": ("mpich-4.2.1",), "mpich-4.2.1": (), "profile": ("hello-mpi-1.0",)}
    items = []
    for number, (name, needs) in enumerate(names.items()):
        plain, _, version = name.rpartition("-")
        one = StoreItem(
            filename=name_of(name), name=plain or name, version=version if plain else "",
            sha256=f"{number}{number + 3}" * 32, needs=tuple(map(name_of, needs)),
        )  # fmt: skip
        items.append(one)
    pack = StoreItem(filename="pack.tar.gz", name=stack.name, version="0", sha256="cd" * 32)
    return GuixLock(
        wants=wants(stack), channels=stack.channels, pack=pack, items=tuple(items),
        mpi=name_of("mpich-4.2.1"), profile=name_of("profile"),
    )  # fmt: skip


class Guix(Value, kw_only=False):
    """A guix that hands out a pack: the folder it is in, and the file with its words."""

    folder: Path
    said: Path


def guix(folder: Path, pack: Path) -> Guix:
    """Make a program `guix`, which checks that it is called as the manual has it."""
    folder.mkdir()
    program = folder / "guix"
    program.write_text(_GUIX.format(said=folder / "said", pack=pack))
    program.chmod(0o755)
    return Guix(folder, folder / "said")
