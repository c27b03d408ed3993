"""Debuggers and a program that only sees its image: beside it, behind it, over a wire, afterwards.

The lines of docs/how-to/debug-and-profile.md that attach to something are run here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from images import ENV_JSON, make_image
from mounting import Way, put_folder, run_words, way
from need import need

pytestmark = pytest.mark.machine

LIBRARY = """#include <unistd.h>
int work(void) { volatile int go = 1; while (go) usleep(10000); return 7; }
"""
PROGRAM = """#include <stdio.h>
#include <unistd.h>
int work(void);
int main(void) { printf("%d\\n", getpid()); fflush(stdout); return work(); }
"""
MOUNT = "/user-environment"
_HERE = re.compile(r"^#\d+ .*\bwork \(\) at work\.c:2$", re.MULTILINE)


@pytest.fixture(params=["kernel", "fuse"])
def mounter(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return way(request.param, tmp_path)


@pytest.fixture
def hanging(mounter: Way) -> Iterator[subprocess.Popen[str]]:
    """A program of an image that waits in a library of the image; its first line was its process."""
    need("gcc", "gdb")
    tree = mounter.real_folder / "tree"
    for folder in "bin", "lib", "meta":
        (tree / folder).mkdir(parents=True)
    (tree / "meta" / "env.json").write_text(json.dumps(ENV_JSON))
    (tree / "work.c").write_text(LIBRARY)
    (tree / "hang.c").write_text(PROGRAM)
    rpath = f"-Wl,-rpath,{MOUNT}/lib"
    for line in (
        "work.c -shared -fPIC -o lib/libwork.so",
        f"hang.c -Llib -lwork {rpath} -o bin/hang",
    ):
        subprocess.run(["gcc", "-g", "-O0", *line.split()], cwd=tree, check=True)
    squash = [
        "mksquashfs",
        tree,
        tree.with_name("a.squashfs"),
        "-quiet",
        "-no-progress",
        "-all-root",
    ]
    subprocess.run(squash, check=True)
    words = mounter.argv(*mounter.stackproof, "run", "a.squashfs", "--", f"{MOUNT}/bin/hang")
    environment = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with subprocess.Popen(
        words, cwd=mounter.real_folder, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def process_of(hanging: subprocess.Popen[str]) -> str:
    assert hanging.stdout is not None
    return hanging.stdout.readline().strip()


def inside(mounter: Way, process: str, *words: str) -> list[str]:
    """Return the words of the page that run something where a process is."""
    user = () if mounter.how == "kernel" else ("-U", "--preserve-credentials")
    return mounter.argv("nsenter", "-t", process, "-m", *user, *words)


def test_gdb_goes_to_the_place_of_a_process(mounter: Way, hanging: subprocess.Popen[str]) -> None:
    process = process_of(hanging)
    done = run_words(inside(mounter, process, "gdb", "-batch", "-nx", "-p", process, "-ex", "bt"))
    assert _HERE.search(done.stdout), done.stdout + done.stderr


def test_gdb_outside_reaches_a_gdbserver_inside(
    mounter: Way, hanging: subprocess.Popen[str]
) -> None:
    need("gdbserver")
    process = process_of(hanging)
    server = inside(mounter, process, "gdbserver", "--once", "--attach", "127.0.0.1:0", process)
    with subprocess.Popen(server, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        port = next(line.split()[-1] for line in serving.stderr if "Listening on port" in line)
        words = ["gdb", "-batch", "-nx", "-ex", f"target remote 127.0.0.1:{port}", "-ex", "bt",
                 "-ex", "frame function work", "-ex", "set var go = 0", "-ex", "detach"]  # fmt: skip
        done = run_words(mounter.argv(*words))
    assert _HERE.search(done.stdout), done.stdout + done.stderr
    assert hanging.wait(600) == 7


def test_a_core_file_is_read_with_the_image(mounter: Way, hanging: subprocess.Popen[str]) -> None:
    process = process_of(hanging)
    core = put_folder(mounter, "cores") / "core"
    core_here = mounter.real_folder / "cores"
    core_here.chmod(0o777)
    take = ("gdb", "-batch", "-nx", "-p", process, "-ex", f"generate-core-file {core}")
    run_words(inside(mounter, process, *take))
    assert (core_here / "core").is_file()
    hanging.kill()
    hanging.wait()
    read = ("gdb", "-batch", "-nx", "-ex", "bt", f"{MOUNT}/bin/hang", os.fspath(core))
    words = mounter.argv(*mounter.stackproof, "run", "a.squashfs", "--", *read)
    done = run_words(words, cwd=mounter.real_folder)
    assert _HERE.search(done.stdout), done.stdout + done.stderr


def test_tools_beside_a_stack_need_not_say_what_they_are(mounter: Way) -> None:
    """A folder of another's packages as an image; the view of the stack counts all the same."""
    make_image(mounter.real_folder / "a.squashfs")
    tools = mounter.real_folder / "tools"
    (tools / "usr" / "bin").mkdir(parents=True)
    (tools / "usr" / "bin" / "tool").write_text("#!/bin/sh\necho a tool beside the stack\n")
    (tools / "usr" / "bin" / "tool").chmod(0o755)
    squash = ["mksquashfs", tools, Path(f"{tools}.squashfs"), "-quiet", "-no-progress", "-all-root"]
    subprocess.run(squash, check=True)
    images = "a.squashfs,tools.squashfs:/user-tools"
    words = ("--", "sh", "-c", "/user-tools/usr/bin/tool && hello")
    run = mounter.argv(*mounter.stackproof, "run", images, *words)
    done = run_words(run, cwd=mounter.real_folder)
    assert done.stdout == "a tool beside the stack\nhello from the image\n", done.stderr
    first = mounter.argv(
        *mounter.stackproof, "run", "tools.squashfs:/user-tools,a.squashfs", *words
    )
    done = run_words(first, cwd=mounter.real_folder)
    assert done.returncode == 6
    assert "nothing tells what is in it" in done.stderr
