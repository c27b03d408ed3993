"""The folder form of a Containerfile: its scripts do what the one file does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import inprocess
from need import need
from stackproof.build import containerfile
from stackproof.build.cli.image import write_folder
from stackproof.build.containerfile import ContainerfileRequest, Context, Files
from stackproof.build.engine import Container
from stackproof.build.plan import Plan, Step
from stackproof.core.command import Command, EnvPatch
from stackproof.core.errors import Reason, StackproofError

BASE = "registry.example.org/debian:bookworm-slim@sha256:" + "ab" * 32


def rendered(*steps: Step, mount: str = "/user-environment") -> Context:
    request = ContainerfileRequest(base=BASE, builder=BASE, architecture="x86_64")
    plan = Plan(name="n", mount=mount, steps=steps)
    return containerfile.render_folder(plan, request, Container(), Files())


def script_of(context: Context, folder: str) -> str:
    return context.files[f"{folder}/build/steps/{folder}.sh"].decode()


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, timeout=600, check=False
    )


def machine() -> list[str]:
    """Return words of bwrap for a root of its own that has what this machine's has."""
    words = []
    for path in Path("/").iterdir():
        kind = ("--symlink", os.readlink(path)) if path.is_symlink() else ("--dev-bind", str(path))
        words += [*kind, str(path)]
    return words


def test_each_step_is_a_folder_and_a_script() -> None:
    step = Step(
        name="libfabric 2.1",
        description="build libfabric\nRUN bad",
        files={"it's $x/a.txt": "one\n", "../up": "b\n", "bin/tool": "c\n"},
        executable=("bin/tool",),
        commands=(Command(argv=("echo", "it's")),),
    )
    context = rendered(step)
    folder = "01-libfabric-2.1"
    lines = context.text.split("\n")
    assert lines[lines.index(f"COPY {folder}/ /") + 1] == f"RUN sh /build/steps/{folder}.sh"
    assert not [line for line in lines if line.startswith("RUN bad")]
    assert context.files[f"{folder}/user-environment/it's $x/a.txt"] == b"one\n"
    assert context.files[f"{folder}/up"] == b"b\n"  # the container's root is the end of the way up
    assert context.executable == {f"{folder}/user-environment/bin/tool"}
    assert run(script_of(context, folder)).stdout == "it's\n"


def test_a_script_ends_with_the_first_command_that_fails(tmp_path: Path) -> None:
    bad = Step(name="bad", commands=(Command(argv=("false",)), Command(argv=("echo", "on"))))
    fine = Step(
        name="fine",
        commands=(
            Command(argv=("sh", "-c", "exit 3"), ok=(0, 3)),
            Command(
                argv=("sh", "-c", "echo $A $(pwd)"),
                cwd=str(tmp_path),
                env=EnvPatch(set={"A": "x y"}),
            ),
            Command(argv=("sh", "-c", "echo ${A-unset}")),
        ),
    )
    context = rendered(bad, fine)
    done = run(script_of(context, "01-bad"))
    assert (done.returncode, done.stdout) == (1, "")
    done = run(script_of(context, "02-fine"))
    assert (done.returncode, done.stdout) == (0, f"x y {tmp_path}\nunset\n")
    code = Step(name="code", commands=(Command(argv=("sh", "-c", "exit 4"), ok=(0, 3)),))
    assert run(script_of(rendered(code), "01-code")).returncode != 0


def test_a_folder_is_new_or_empty(tmp_path: Path) -> None:
    context = rendered(Step(name="s", files={"f": "x"}))
    for place in (tmp_path / "new" / "deep", tmp_path):
        if place == tmp_path:
            shutil.rmtree(tmp_path / "new")
        write_folder(place, context)
        assert (place / "Containerfile").read_text() == context.text
        assert {path.stat().st_mode & 0o777 for path in place.rglob("*") if path.is_file()} == {
            0o644
        }
        assert {path.stat().st_mode & 0o777 for path in place.rglob("*") if path.is_dir()} == {
            0o755
        }
    for there in (tmp_path, tmp_path / "Containerfile"):
        with pytest.raises(StackproofError) as caught:
            write_folder(there, context)
        assert caught.value.reason is Reason.NOT_REPLACED


def test_a_link_that_another_user_planted_is_not_followed(tmp_path: Path) -> None:
    need("root")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "context").symlink_to(tmp_path / "elsewhere")
    os.chown(tmp_path / "context", 31001, 31001, follow_symlinks=False)
    with pytest.raises(StackproofError) as caught:
        write_folder(tmp_path / "context", rendered(Step(name="s")))
    assert caught.value.reason is Reason.NOT_REPLACED
    assert list((tmp_path / "elsewhere").iterdir()) == []
    os.chown(tmp_path / "context", os.geteuid(), os.getegid(), follow_symlinks=False)
    write_folder(tmp_path / "context", rendered(Step(name="s")))
    assert (tmp_path / "elsewhere" / "Containerfile").is_file()


def test_a_name_of_a_step_ends_no_comment() -> None:
    context = rendered(Step(name="a\nRUN bad", description=" ", files={"f": "x"}))
    lines = [*context.text.split("\n"), *context.files]
    assert not [line for line in lines if line.startswith("RUN bad")]


def test_what_is_not_written_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StackproofError) as caught:
        write_folder(tmp_path / "new", rendered(Step(name="s")))
    assert caught.value.reason is Reason.DISK_FULL
    assert list(tmp_path.iterdir()) == []


def test_one_way_to_write_it(tmp_path: Path) -> None:
    done = inprocess.stackproof(
        "image", "containerfile", "mpich", "--base", BASE, "-o", "f", "--folder", "d", cwd=tmp_path
    )
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "full", "full/file"])
def test_a_name_that_is_no_new_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    done = inprocess.stackproof(
        "image", "containerfile", "mpich", "--base", BASE, "--folder", name, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "not-replaced" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


@pytest.mark.battery
def test_the_scripts_make_a_stack_that_runs(tmp_path: Path) -> None:
    """As a builder does it: copy, run, next part; on this machine's root, with empty folders."""
    need("network", "bubblewrap", "gcc", "root")
    folder = tmp_path / "context"
    done = inprocess.stackproof(
        "image", "containerfile", "mpich", "--base", BASE, "--folder", folder, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    text = (folder / "Containerfile").read_text()
    assert len(text.split("\n")) < 60
    steps = [line.split()[1] for line in text.split("\n") if line.startswith("COPY 0")]
    assert steps
    lines = ["set -e", 'export PATH="$1:$PATH"']
    for step in steps:
        lines.append(f"cp -r {folder}/{step}. /")
        script = f"build/steps/{step[:-1]}.sh"
        lines += [f"sh /{script}"] if (folder / step / script).exists() else []
    (environment,) = (line for line in text.split("\n") if line.startswith("ENV PATH="))
    bench = (
        "mpiexec -n 2 /user-environment/benchmarks/stackproof-bench --benchmarks latency --sizes 8"
    )
    lines += [f"export {environment[4:]}", "mpichversion", bench]
    python = Path(shutil.which("python3") or "").parent
    ran = subprocess.run(
        ["bwrap", *machine(), "sh", "-c", "\n".join(lines), "sh", str(python)],
        capture_output=True, text=True, timeout=500, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "5.0.2" in ran.stdout
    assert '"world_size":2' in ran.stdout
