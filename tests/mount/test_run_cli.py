"""`stackproof run` and `stackproof start`, as a user calls them: as root and without any right."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from images import MOUNT, env_json, make_image
from mounting import Way, way
from stackproof.mount.effects.entering import PlainOptions
from stackproof.mount.options import StartOptions
from terminals import read_until

pytestmark = [
    pytest.mark.guarantee(
        "What others wrote",
        "An image whose metadata are a FIFO, a device or a link",
        "ends `run` with a sentence.",
    ),
]

COVERS = (
    "core/effects/locale.py",
    "mount/cli/run.py",
    "mount/cli/start.py",
    "mount/effects/entering.py",
)

_TIMEOUT_S = 600
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = {"PATH": _PATH, "LC_ALL": "C.UTF-8", "HOME": "/"}


@pytest.fixture(params=["kernel", "fuse"])
def mounter(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return way(request.param, tmp_path)


Verb = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def verb(mounter: Way) -> Verb:
    """Return a function that calls stackproof in the test's folder, where `a.squashfs` is."""
    make_image(mounter.real_folder / "a.squashfs")

    def call(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            mounter.argv(*mounter.stackproof, *words),
            capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
            env={**_ENVIRONMENT, **environment}, input=environment.pop("INPUT", ""),
        )  # fmt: skip

    return call


def _error(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """Return the exit code and the text of a failure, which says nothing on stdout."""
    assert done.stdout == ""
    assert done.stderr.startswith("error: "), done.stderr
    assert "bug in stackproof" not in done.stderr
    return done.returncode, done.stderr


def test_the_command_finds_the_image_at_its_place_with_its_default_view(verb: Verb) -> None:
    done = verb("run", "a.squashfs", "--", "sh", "-c", "hello; echo $MPI_TINY $PATH; exit 3")
    assert done.stdout.splitlines() == ["hello from the image", f"yes {MOUNT}/bin:{_PATH}"]
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("given", [{}, {"LC_CTYPE": "C.UTF-8"}, {"LC_ALL": "C"}])
def test_the_command_has_the_locale_of_the_user(
    verb: Verb, mounter: Way, given: dict[str, str]
) -> None:
    done = subprocess.run(
        mounter.argv(*mounter.stackproof, "run", "a.squashfs", "--", "env"),
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=True,
        env={"PATH": _PATH, "HOME": "/", **given},
    )  # fmt: skip
    assert [line for line in done.stdout.splitlines() if line.startswith("LC_")] == [
        f"{name}={value}" for name, value in given.items()
    ]


def test_views_are_chosen_and_left_out(verb: Verb) -> None:
    for options, said in (
        (["--view", "bare"], ""),
        (["--view", "tiny:default"], "yes"),
        (["--view", "bare,default"], "yes"),
        (["--view", "bare", "--view", "default"], "yes"),
        (["--no-view"], ""),
    ):
        for words in (["a.squashfs", *options], [*options, "a.squashfs"]):
            done = verb("run", *words, "--", "sh", "-c", "echo $MPI_TINY")
            assert (done.returncode, done.stdout) == (0, f"{said}\n"), done.stderr


def test_a_transport_sets_what_the_mpi_obeys(verb: Verb) -> None:
    for words in (["a.squashfs", "--transport", "tcp"], ["--transport", "tcp", "a.squashfs"]):
        done = verb("run", *words, "--", "sh", "-c", "echo $FI_PROVIDER $MPI_TINY")
        assert (done.returncode, done.stdout) == (0, "tcp yes\n"), done.stderr


def test_memory_of_a_gpu_needs_no_transport(verb: Verb) -> None:
    words = ("--", "sh", "-c", "echo $MPIR_CVAR_CH4_OFI_ENABLE_HMEM $FI_PROVIDER")
    done = verb("run", "a.squashfs", "--memory", "cuda", *words)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    done = verb("run", "a.squashfs", "--memory", "host", *words)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


def test_a_transport_that_cannot_be_had_starts_nothing(verb: Verb) -> None:
    for name, said in (("lnx", "Open MPI 5 or later"), ("pigeon", "matched")):
        code, text = _error(verb("run", "a.squashfs", "--transport", name, "--", "echo", "ran"))
        assert code == 3
        assert said in text


def test_an_unknown_view_tells_which_there_are(verb: Verb) -> None:
    code, text = _error(verb("run", "a.squashfs", "--view", "defualt", "--", "true"))
    assert code == 6
    assert "bare, default" in text


def test_a_view_of_two_images_must_be_named_in_full(verb: Verb, mounter: Way) -> None:
    make_image(mounter.real_folder / "b.squashfs", meta=env_json(name="other", mount="/other"))
    code, text = _error(verb("run", "a.squashfs,b.squashfs", "--view", "default", "--", "true"))
    assert code == 2
    assert "tiny:default, other:default" in text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run"], 2),
        (["run", "a.squashfs"], 2),
        (["run", "a.squashfs", "--"], 2),
        (["run", "a.squashfs", "--verbose"], 2),
        (["run", "a.squashfs", "--view", "--", "true"], 2),
        (["run", "a.squashfs", "--nonsense", "--", "true"], 2),
        (["run", "a.squashfs", "--how", "magic", "--", "true"], 2),
        (["run", "a.squashfs", "--view", "bare", "--no-view", "--", "true"], 2),
        (["run", "a.squashfs,", "--", "true"], 2),
        (["run", "a.squashfs:user", "--", "true"], 3),
        (["run", "a.squashfs:/usr", "--", "true"], 3),
        (["run", "a.squashfs:/x,a.squashfs:/x", "--", "true"], 6),
        (["start"], 2),
    ],
)
def test_wrong_words(verb: Verb, words: list[str], code: int) -> None:
    done = verb(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert "error: " in done.stderr
    assert "bug in stackproof" not in done.stderr


def test_words_of_the_command_are_its_own(verb: Verb) -> None:
    show = ["sh", "-c", 'printf "<%s>" "$0" "$@"']
    words = ["--", "--view", "x y", "", "--", "--help"]
    expected = "".join(f"<{word}>" for word in words)
    assert verb("run", "a.squashfs", "--", *show, *words).stdout == expected
    assert verb("run", "a.squashfs", *show, *words).stdout == expected
    assert verb("run", "a.squashfs", "--no-view", "--", *show, *words).stdout == expected


@pytest.mark.parametrize("words", [["--help"], ["a.squashfs", "--help"], ["a.squashfs", "-h"]])
def test_help(verb: Verb, words: list[str]) -> None:
    done = verb("run", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "IMAGE[:MOUNT]" in done.stdout


def test_another_mount_point_is_told_of(verb: Verb, mounter: Way) -> None:
    (mounter.real_folder / "mount").mkdir()
    point = mounter.folder / "mount"
    done = verb("run", f"a.squashfs:{point}", "--", f"{point}/bin/hello")
    assert done.stdout == "hello from the image\n"
    assert MOUNT in done.stderr
    assert verb("run", f"a.squashfs:{point}", "--no-view", "--", "true").stderr == ""


def test_a_squashfs_file_of_others_is_mounted_where_it_is_told(verb: Verb, mounter: Way) -> None:
    make_image(mounter.real_folder / "foreign.squashfs", meta=None)
    (mounter.real_folder / "mount").mkdir()
    point = mounter.folder / "mount"
    words = ("--", f"{point}/bin/hello")
    done = verb("run", f"foreign.squashfs:{point}", "--no-view", *words)
    assert (done.stdout, done.stderr) == ("hello from the image\n", "")
    for named, more in ((f"foreign.squashfs:{point}", ()), ("foreign.squashfs", ("--no-view",))):
        code, text = _error(verb("run", named, *more, *words))
        assert code == 6
        assert "--no-view" in text


def test_how_it_is_mounted_is_told_on_request(verb: Verb) -> None:
    done = verb("run", "a.squashfs", "--verbose", "--", "true")
    assert done.stderr.startswith("note: mounting by ")


@pytest.mark.parametrize("name", ["no-such-program", "./no"])
def test_a_command_that_is_not_there(verb: Verb, name: str) -> None:
    code, text = _error(verb("run", "a.squashfs", "--", name))
    assert code == 127
    assert name in text


def test_a_command_that_cannot_be_executed(verb: Verb) -> None:
    assert _error(verb("run", "a.squashfs", "--", "./a.squashfs"))[0] == 126


def test_a_compiler_of_another_mpi_is_told_of(verb: Verb, mounter: Way) -> None:
    """PATH finds it on the machine, as the image has none; what the image has is not told of."""
    for name in ("mpifort", "my-tool"):
        (mounter.real_folder / name).write_text("#!/bin/sh\necho of the machine\n")
        (mounter.real_folder / name).chmod(0o755)
    path = f"{mounter.folder}:{_PATH}"
    done = verb("run", "a.squashfs", "--", "mpifort", PATH=path)
    assert done.stdout == "of the machine\n"
    found = f"`mpifort` is `{mounter.folder}/mpifort` of this machine, as the image's MPI has none"
    assert done.stderr.startswith(f"note: {found}")
    assert verb("run", "a.squashfs", "--", "my-tool", PATH=path).stderr == ""
    assert verb("run", "a.squashfs", "--", f"{mounter.folder}/mpifort").stderr == ""
    done = verb("run", "a.squashfs", "--", "mpicc", PATH=path)
    assert (done.stdout, done.stderr) == ("mpicc of the image\n", "")


def test_a_reader_that_goes_away_ends_the_command(verb: Verb, mounter: Way) -> None:
    words = mounter.argv(*mounter.stackproof, "run", "a.squashfs", "--", "yes")
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=_ENVIRONMENT) as process:
        assert process.stdout is not None
        process.stdout.read(4)
        process.stdout.close()
        assert process.wait(_TIMEOUT_S) == -13


def test_images_that_want_one_place_clash(verb: Verb, mounter: Way) -> None:
    make_image(mounter.real_folder / "b.squashfs")
    code, text = _error(verb("run", "a.squashfs,b.squashfs", "--", "true"))
    assert code == 6
    assert "a.squashfs" in text
    assert "b.squashfs" in text


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        (None, 6),
        ("not json", 6),
        ({}, 6),
        (env_json(mount="user-environment"), 3),
        (env_json(mount="/usr"), 3),
        (env_json(mount="/proc/self"), 3),
    ],
)
def test_metadata_that_cannot_be_used(
    verb: Verb, mounter: Way, meta: dict | str | None, code: int
) -> None:
    make_image(mounter.real_folder / "b.squashfs", meta=meta)
    found, text = _error(verb("run", "b.squashfs", "--", "true"))
    assert found == code
    assert "b.squashfs" in text


@pytest.mark.parametrize(
    "member",
    [
        "i 644 0 0 f",
        "i 644 0 0 s",
        "c 666 0 0 1 5",
        "b 666 0 0 7 0",
        "s 777 0 0 /dev/zero",
        "d 755 0 0",
    ],
    ids=["fifo", "socket", "character", "block", "link", "folder"],
)
def test_metadata_that_is_no_file_is_not_waited_for(verb: Verb, mounter: Way, member: str) -> None:
    """The first one to look is a process with rights, where root mounts."""
    options = ("-p", "meta d 755 0 0", "-p", f"meta/env.json {member}")
    make_image(mounter.real_folder / "b.squashfs", meta=None, options=options)
    done = verb("run", "b.squashfs", "--", "true")
    assert done.returncode == 6
    assert "b.squashfs" in done.stderr


def test_a_link_to_a_system_path_is_no_mount_point(verb: Verb, mounter: Way) -> None:
    (mounter.real_folder / "link").symlink_to("/usr")
    assert _error(verb("run", f"a.squashfs:{mounter.folder}/link", "--", "true"))[0] == 3


@pytest.mark.parametrize("name", ["none.squashfs", "text", ".", "cut"])
def test_what_is_not_an_image(verb: Verb, mounter: Way, name: str) -> None:
    (mounter.real_folder / "text").write_text("text")
    (mounter.real_folder / "cut").write_bytes(
        (mounter.real_folder / "a.squashfs").read_bytes()[:999]
    )
    for action in (["run", name, "--", "true"], ["start", name]):
        code, text = _error(verb(*action))
        assert code == 6
        assert name in text


def test_a_plain_run_reads_few_files_and_parses_nothing(verb: Verb, mounter: Way) -> None:
    """It is in front of every command; each file of ours is read again on every node."""
    script = (
        "import os, sys\n"
        "sys.argv[1:] = ['run', 'a.squashfs', '--', 'true']\n"
        "real = os.execve\n"
        "def execve(program, *rest):\n"
        "    if not program.endswith('/true'): real(program, *rest)  # squashfuse\n"
        "    print(*sorted(sys.modules), flush=True)\n    os._exit(0)\n"
        "os.execve = execve\n"
        "from stackproof.cli import main\nmain()\n"
    )
    done = subprocess.run(
        mounter.argv(*mounter.python, "-c", script),
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=True, env=_ENVIRONMENT,
    )  # fmt: skip
    names = set(done.stdout.split())
    ours = {name for name in names if name.partition(".")[0] == "stackproof"}
    packages = {name for name in ours if any(one.startswith(f"{name}.") for one in ours)}
    assert "stackproof.mount.effects.mount_exec" in ours
    # Who has no right to mount also looks for a helper, and puts walls around squashfuse.
    more = {
        "stackproof.mount.effects.methods",
        "stackproof.core.effects.foreign.walls",
        "stackproof.mount.effects.helper",
    } & ours
    assert len(ours - packages - more) <= 18
    assert not {"argparse", "stackproof.core.cli.parsing"} & names


@pytest.mark.parametrize(
    "words",
    [["run", "--verbose", "a.squashfs", "--", "true"], ["activate", "--null", "a.squashfs"]],
)
def test_nothing_heavy_is_imported(verb: Verb, mounter: Way, words: list[str]) -> None:
    """Both are in front of every command or job of a user; dataclasses cost more than the mount."""

    def imported(*argv: str) -> set[str]:
        python = [*mounter.python, "-X", "importtime"]
        done = subprocess.run(
            mounter.argv(*python, *argv),
            capture_output=True, text=True, timeout=_TIMEOUT_S, check=True, env=_ENVIRONMENT,
        )  # fmt: skip
        lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
        return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}

    ours = imported("-m", "stackproof", *words) - imported("-m", "timeit", "-n1", "-r1")
    assert "argparse" in ours
    assert not ours & {
        "asyncio", "contextlib", "dataclasses", "inspect", "jsonschema", "msgspec", "numpy",
        "pathlib", "shutil", "subprocess", "tempfile", "typing", "yaml",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ start


def test_start_is_a_shell_in_the_view(verb: Verb) -> None:
    done = verb("start", "a.squashfs", INPUT="hello; echo $MPI_TINY; exit 4\n", SHELL="/bin/sh")
    assert done.stdout == "hello from the image\nyes\n"
    assert done.returncode == 4


def test_start_within_start_is_refused(verb: Verb, mounter: Way) -> None:
    command = " ".join([*mounter.stackproof, "start", "a.squashfs"])
    done = verb("start", "a.squashfs", INPUT=f"{command}\n")
    assert done.returncode == 4
    assert "exit" in done.stderr


def test_the_prompt_of_bash_names_the_image(verb: Verb, mounter: Way) -> None:
    (mounter.real_folder / ".bashrc").write_text("PS1='mine> '\n")
    argv = mounter.argv(*mounter.stackproof, "start", "a.squashfs")
    environment = {
        **_ENVIRONMENT,
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "HOME": str(mounter.folder),
    }
    head, tail = pty.openpty()
    with subprocess.Popen(
        argv, stdin=tail, stdout=tail, stderr=tail, env=environment, start_new_session=True
    ) as process:
        os.close(tail)
        seen = read_until(head, b"mine> ")
        os.write(head, b"ls /proc/$$/fd | wc -w; hello; exit 9\n")
        seen += read_until(head)
        assert process.wait(_TIMEOUT_S) == 9
    os.close(head)
    text = seen.decode()
    assert "[tiny] mine> " in text
    assert "hello from the image" in text
    assert f"a.squashfs:{MOUNT}" in text
    assert "\r\n4\r\n" in text, "the start-up file must be closed"


def test_a_plain_run_has_the_defaults_of_the_options() -> None:
    plain, whole = PlainOptions("x"), StartOptions(images="x")
    for options, names in ((whole, ("images", "how", "join", "verbose")), (whole.mpi, ("path",))):
        for name in names:
            assert getattr(plain, name) == getattr(options, name)
    assert tuple(plain.views or ()) == tuple(whole.views or ()) == ()
    for name in whole.mpi.option_fields:
        assert getattr(plain.mpi, name) == getattr(whole.mpi, name)
