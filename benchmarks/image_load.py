"""What work from an image costs beside the same files in memory and on the disk.

    python benchmarks/image_load.py [--count N] [--how kernel|fuse]

A tree with a package of 300 Python modules and a copy of this machine's gcc is put into an image,
into /dev/shm and on the disk. In turns, COUNT times (default 20): Python imports all modules, the
copied compiler compiles hello.c and hello.cpp (which reads <iostream>: many small files). Every
process runs inside of one mount of the image, as ranks of a job do, and file caches are warm. The
ratios are to the tree in /dev/shm.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from stackproof.core.mountlist import MountRequest
from stackproof.mount.effects import mount_exec
from turns import in_turns, show

MOUNT = "/user-environment"
MODULES = 300
HELLO_C = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
HELLO_CPP = '#include <iostream>\nint main() { std::cout << "hello\\n"; }\n'


def make_tree(tree: Path) -> None:
    """Fill a tree: `python/many/`, `usr/` with compiler and headers, the hello programs."""
    package = tree / "python" / "many"
    package.mkdir(parents=True)
    names = [f"part{number:03}" for number in range(MODULES)]
    for name in names:
        functions = (f"def f{i}(x):\n    return x * {i} + len('{name}')\n" for i in range(20))
        (package / f"{name}.py").write_text("\n".join(functions))
    (package / "__init__.py").write_text("".join(f"from many import {name}\n" for name in names))
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    (tree / "hello.c").write_text(HELLO_C)
    (tree / "hello.cpp").write_text(HELLO_CPP)
    _copy_compiler(tree)


def _copy_compiler(tree: Path) -> None:
    """Copy gcc, g++ and their headers; gcc finds its parts relative to itself (gcc(1), -B)."""
    programs = tree / "usr" / "bin"
    programs.mkdir(parents=True)
    for name in ("gcc", "g++"):
        shutil.copy2(os.path.realpath(shutil.which(name) or name), programs / name)
    (assembler,) = _told("-print-prog-name=as")
    shutil.copy2(os.path.realpath(shutil.which(assembler) or assembler), programs / "as")
    (library,) = _told("-print-libgcc-file-name")
    inner = Path(os.path.realpath(library)).parent
    wanted = tree / inner.relative_to("/")
    ignore = shutil.ignore_patterns("*.a", "plugin", "lto*", "*.spec", "f951", "d21", "gnat1")
    shutil.copytree(inner, wanted, ignore=ignore)
    for name in ("c++", f"{platform.machine()}-linux-gnu"):
        if Path("/usr/include", name).is_dir():
            shutil.copytree(f"/usr/include/{name}", tree / "usr" / "include" / name)
    for folder in ("asm-generic", "linux"):
        shutil.copytree(f"/usr/include/{folder}", tree / "usr" / "include" / folder)
    for header in Path("/usr/include").glob("*.h"):
        shutil.copy2(header, tree / "usr" / "include")


def _told(question: str) -> list[str]:
    done = subprocess.run(["gcc", question], check=True, capture_output=True, text=True)
    return [done.stdout.strip()]


def programs(roots: dict[str, str], scratch: str) -> dict[str, dict[str, list[str]]]:
    """Return the command lines by work and by place."""
    work: dict[str, dict[str, list[str]]] = {"import": {}, "hello.c": {}, "hello.cpp": {}}
    for place, root in roots.items():
        find = ["env", f"PYTHONPATH={root}/python", "PYTHONDONTWRITEBYTECODE=1"]
        work["import"][place] = [*find, sys.executable, "-c", "import many"]
        for compiler, source in (("gcc", "hello.c"), ("g++", "hello.cpp")):
            argv = [f"{root}/usr/bin/{compiler}", f"--sysroot={root}", f"-B{root}/usr/bin", "-O1"]
            work[source][place] = [*argv, "-c", f"{root}/{source}", "-o", f"{scratch}/hello.o"]
    return work


def main() -> None:
    """Make the trees and the image, mount it around this process, time the work."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--how", choices=("auto", "kernel", "fuse"), default="auto")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="stackproof-load-", dir="/var/tmp") as disk,
        tempfile.TemporaryDirectory(prefix="stackproof-load-", dir="/dev/shm") as memory,
    ):
        tree = Path(disk, "tree")
        make_tree(tree)
        shutil.copytree(tree, Path(memory, "tree"), symlinks=True)
        image = Path(disk, "image.squashfs")
        pack = ["mksquashfs", tree, image, "-comp", "zstd", "-noappend", "-no-progress", "-quiet"]
        subprocess.run([*map(str, pack)], check=True, stdout=subprocess.DEVNULL)
        child = os.fork()
        if child:  # the mounts end with the child; the folders are removed here
            _, status = os.waitpid(child, 0)
            sys.exit(os.waitstatus_to_exitcode(status))
        mount_exec.attach([MountRequest(image=str(image), mount_point=MOUNT)], how=args.how)
        roots = {"/dev/shm": f"{memory}/tree", "image": MOUNT, "disk": str(tree)}  # noqa: S108 - the file system that is measured
        for name, argvs in programs(roots, memory).items():
            print(f"{name}:")
            show(in_turns(argvs, args.count), base="/dev/shm")  # noqa: S108 - as above
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
