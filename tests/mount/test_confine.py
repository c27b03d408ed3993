"""The walls around squashfuse: what is behind them can read the image, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from images import make_image
from mounting import way
from need import need
from stackproof.core.effects.foreign import walls

# Started by the text below, in a process of its own.
COVERS = ("mount/effects/methods.py",)

NATIVE = Path(__file__).parents[2] / "native" / "helper" / "confine.c"
# Names that asm-generic/unistd.h has otherwise than libc.
_GENERIC = {
    "newfstatat": 79,
    "lseek": 62,
    "fcntl": 25,
    "statfs": 43,
    "fstatfs": 44,
    "fadvise64": 223,
}
_TRY = """
import os, socket, sys
from stackproof.mount.effects.methods import confine
image = os.open(sys.argv[1], os.O_RDONLY)
confine("/usr/bin/squashfuse", image)
def attempt(name, call):
    try:
        call()
    except OSError as error:
        print(name, error.errno, flush=True)
    else:
        print(name, 0, flush=True)
attempt("image", lambda: os.pread(image, 4, 0))
attempt("again", lambda: os.close(os.open(f"/proc/self/fd/{image}", os.O_RDONLY)))
attempt("file", lambda: os.open(sys.argv[2], os.O_RDONLY))
attempt("write", lambda: os.open(sys.argv[2] + "-new", os.O_WRONLY | os.O_CREAT))
attempt("folder", lambda: os.mkdir(sys.argv[2] + "-folder"))
attempt("remove", lambda: os.unlink(sys.argv[2]))
attempt("network", lambda: socket.socket(socket.AF_INET))
attempt("local", lambda: socket.socket(socket.AF_UNIX))
attempt("process", os.fork)
attempt("signal", lambda: os.kill(os.getppid(), 0))
attempt("program", lambda: os.execv("/usr/bin/true", ["true"]))
attempt("mode", lambda: os.chmod(sys.argv[2], 0o777))
"""


def test_behind_the_walls(tmp_path: Path) -> None:
    need("python")
    image, secret = tmp_path / "image", tmp_path / "secret"
    image.write_bytes(b"hsqs")
    secret.write_text("s")
    done = subprocess.run(
        [sys.executable, "-c", _TRY, image, secret], capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    found = dict(line.split() for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stderr
    refused = {"network", "local", "process", "signal", "folder", "remove", "mode"}
    if _landlock():
        refused |= {"file", "write", "program"}
    assert {name: found[name] for name in ("image", "again")} == {"image": "0", "again": "0"}
    assert {name for name in refused if found.get(name) in {None, "0"}} == set()


def _landlock() -> bool:
    return walls.landlock_version() > 0


def named() -> tuple[list[str], list[str]]:
    """Return the calls of every machine, and those of the older ones, as the helper names them."""
    text = NATIVE.read_text().partition("permitted[] = {")[2].partition("};")[0]
    older = text.partition("#ifdef SYS_open\n")[2].partition("#endif")[0]
    every = re.findall(r"SYS_(\w+),", text.replace(older, ""))
    return every, re.findall(r"SYS_(\w+),", older)


def test_the_calls_are_those_of_the_native_helper(tmp_path: Path) -> None:
    need("gcc")
    every, older = named()
    assert len(every) > 50
    header = Path("/usr/include/asm-generic/unistd.h").read_text()
    found = re.findall(r"#define (?:__NR|__NR3264)_(\w+) (\d+)", header)
    generic = {name: int(number) for name, number in found} | _GENERIC
    assert sorted(generic[name] for name in every) == list(walls.READING["aarch64"])
    if os.uname().machine == "x86_64":
        source, program = tmp_path / "a.c", tmp_path / "a"
        rows = "".join(f'printf("%d ", SYS_{name});' for name in (*every, *older))
        source.write_text(
            f"#include <stdio.h>\n#include <sys/syscall.h>\nint main(void) {{ {rows} return 0; }}\n"
        )
        subprocess.run(["gcc", "-o", program, source], check=True, timeout=600)
        said = subprocess.run([program], stdout=subprocess.PIPE, check=True, timeout=600).stdout
        assert sorted(map(int, said.split())) == list(walls.READING["x86_64"])


def test_squashfuse_runs_behind_them(tmp_path: Path) -> None:
    need("python")
    mounter = way("fuse", tmp_path)
    make_image(tmp_path / "a.squashfs")
    (tmp_path / "mount").mkdir()
    tmp_path.chmod(0o755)
    script = "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' < $p/cmdline) in *squashfuse*-f*) grep -H Seccomp: $p/status;; esac; done; cat $0"
    argv = [*mounter.mountexec, f"{mounter.folder}/a.squashfs:{mounter.folder}/mount", "--"]
    done = subprocess.run(
        mounter.argv(*argv, "sh", "-c", script, f"{mounter.folder}/mount/bin/hello"),
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert "hello from the image" in done.stdout, done.stderr
    assert "Seccomp:\t2" in done.stdout


@pytest.mark.parametrize("how", ["kernel", "auto"])
def test_the_kernel_reads_no_image_from_fuse(tmp_path: Path, how: str) -> None:
    """A user's program would answer for the file, and the machine would wait for it."""
    need("squashfuse", "fuse")
    mounter = way("kernel", tmp_path)
    outer, tree = tmp_path / "outer.squashfs", tmp_path / "tree"
    tree.mkdir()
    make_image(tree / "inner.squashfs")
    subprocess.run(["mksquashfs", tree, outer, "-quiet", "-no-progress"], check=True, timeout=600,
                   capture_output=True)  # fmt: skip
    for name in ("lower", "mount"):
        (tmp_path / name).mkdir()
    words = [*mounter.mountexec, f"{tmp_path}/lower/inner.squashfs:{tmp_path}/mount", "--", "cat",
             f"{tmp_path}/mount/bin/hello"]  # fmt: skip
    words[words.index("kernel")] = how
    script = 'squashfuse "$0" "$1" && shift && "$@"; code=$?; umount "$T/lower"; exit $code'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, outer, tmp_path / "lower", *words],
        env={**os.environ, "T": str(tmp_path), "STACKPROOF_MOUNT_HELPER": ""}, capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip
    if how == "kernel":
        assert "[not-permitted]" in done.stderr
        assert "FUSE" in done.stderr
    else:
        assert "hello from the image" in done.stdout, done.stderr
