"""Containerfiles: hostile texts arrive unharmed, and what cannot be said is refused."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gitfolders
from stackproof.build import containerfile
from stackproof.build.containerfile import ContainerfileRequest, Files
from stackproof.build.effects import git
from stackproof.build.engine import Container
from stackproof.build.plan import Copy, Plan, Step
from stackproof.build.stack import Artefact, OsPackage, SourceFile
from stackproof.core.command import Command, EnvPatch
from stackproof.core.errors import Reason, StackproofError

BASE = "registry.example.org/debian:bookworm-slim@sha256:" + "ab" * 32
HOSTILE = {
    "quotes": 'it\'s "quoted" $HOME `id` $(id) !x\n',
    "backslash": "one \\\ntwo \\\\\n\\\n",
    "comment": "# looks like a comment\n\n   # so does this\n",
    "here": "cat <<EOF\n1 << 3\nEOF\n",
    "format": "100% %s %d \\n\n-n -e\n",
    "words": "RUN rm -rf /\nFROM scratch\n",
    "unfinished": "no line break at the end",
    "empty": "",
    "returns": "a\r\nb\rc\n",
    "control": "\x00\x01\x1b[0m\n",
    "unicode": "Zürich \u2028 ok\n",
    "long line": "x" * 200_000 + "\n",
    "long": "".join(f"line {number} it's\n" for number in range(20_000)),
}


def wish(**changes: object) -> ContainerfileRequest:
    given: dict[str, object] = {
        "base": BASE, "builder": BASE, "architecture": "x86_64", **changes,
    }  # fmt: skip
    return ContainerfileRequest(**given)  # type: ignore[arg-type]


def render(step: Step, mount: str = "/user-environment", **changes: object) -> str:
    made = Plan(name="n\nRUN bad", mount=mount, steps=(step,))
    needs = {"download": lambda file: (("pip", "download", file.filename),)}
    needs |= {key: changes.pop(key) for key in ("sources", "outside", "download") if key in changes}
    files = Files(blobs={"d": b"\xff\x00\xfe"})
    return containerfile.render(made, wish(**changes), Container(**needs), files)


def instructions(text: str) -> list[str]:
    """Return logical lines as a builder reads them."""
    kept = [line for line in text.split("\n") if line and not line.startswith("#")]
    return "\n".join(kept).replace("\\\n", "").split("\n")


def run_below(folder: Path, text: str) -> None:
    wanted = [line[4:] for line in instructions(text) if line[:4] == "RUN " and str(folder) in line]
    assert wanted
    for line in wanted:
        assert len(line.encode()) < 131_072  # the kernel's limit for one argument
        subprocess.run(["/bin/sh", "-c", line], check=True, timeout=600)


def test_hostile_files_arrive_as_they_are(tmp_path: Path) -> None:
    mount = f"{tmp_path}/m"
    step = Step(
        name="files",
        description="d\nRUN bad",
        files={f"it's $x/{name}": text for name, text in HOSTILE.items()},
        executable=("it's $x/empty",),
        copies={"store/blob": Copy(sha256="d", executable=True)},
    )
    text = render(step, mount)
    assert {line.split(" ", 1)[0] for line in instructions(text) if line} <= {
        "FROM", "RUN", "COPY", "LABEL", "ENV",
    }  # fmt: skip
    assert "RUN bad" not in instructions(text)
    assert max(len(line.encode()) for line in text.split("\n")) < 65_536
    run_below(tmp_path, text)
    for name, content in HOSTILE.items():
        found = Path(mount, "it's $x", name)
        assert found.read_bytes() == content.encode(), name
        assert bool(found.stat().st_mode & 0o111) is (name == "empty")
    assert Path(mount, "blob").read_bytes() == b"\xff\x00\xfe"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=8))
def test_any_file_arrives(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    folder = tmp_path_factory.mktemp("any")
    content = "\n".join(lines)
    run_below(folder, render(Step(name="s", files={"f": content}), str(folder)))
    assert (folder / "f").read_bytes() == content.encode()


def test_commands_get_their_words_and_variables(tmp_path: Path) -> None:
    script = (
        'import os,sys; print(sys.argv[1:], os.environ["A"], os.environ["P"], "U" in os.environ)'
    )
    env = EnvPatch(
        set={"A": "it's $B", "P": "mid"},
        unset=("U",),
        prepend={"P": ("a b",)},
        append={"P": ("z",)},
    )
    told = Command(
        argv=("@python@", "-c", script, "$x", "'", "a;b", f"{tmp_path}"), cwd=f"{tmp_path}", env=env
    )
    text = render(
        Step(name="run", commands=(told, Command(argv=("false", str(tmp_path)), ok=(1,))))
    )
    line = next(one[4:] for one in instructions(text) if str(tmp_path) in one)
    done = subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, timeout=600, check=True,
        env={"PATH": os.environ["PATH"], "U": "1"},
    )  # fmt: skip
    words = ["$x", "'", "a;b", str(tmp_path)]
    assert done.stdout == f"{words} it's $B a b:mid:z False\n"


def test_variables_of_the_container() -> None:
    patch = EnvPatch(set={"A": 'q" $x \\'}, unset=("U",), prepend={"PATH": ("/b",)})
    text = render(Step(name="s"), environment=patch)
    assert 'ENV A="q\\" \\$x \\\\"' in text
    assert 'ENV U=""' in text
    assert 'ENV PATH="/b${PATH:+:$PATH}"' in text


@pytest.mark.parametrize(
    "base",
    [
        "debian", "debian:bookworm", "debian@sha256:abc", "debian@md5:" + "a" * 32, "",
        "Debian@sha256:" + "a" * 64, "debian@sha256:" + "A" * 64, "a b@sha256:" + "a" * 64,
        f"{BASE}\nRUN bad", f"--platform=x {BASE}", "$X@sha256:" + "a" * 64,
    ],
)  # fmt: skip
def test_a_base_that_is_not_pinned(base: str) -> None:
    for key in ("base", "builder"):
        with pytest.raises(StackproofError) as caught:
            render(Step(name="s"), **{key: base})
        assert caught.value.reason is Reason.INVALID_VALUE


@pytest.mark.parametrize("base", [BASE, "localhost:5000/a/b_c@sha256:" + "0" * 64])
def test_a_base_that_is_pinned(base: str) -> None:
    assert containerfile.check_base(base) == base


@pytest.mark.parametrize("package", ["a;b", "-y", "", "x $(id)", "a\nb", "../x", "A"])
def test_packages_that_are_none(package: str) -> None:
    with pytest.raises(StackproofError) as caught:
        render(Step(name="s"), packages=(package,))
    assert caught.value.reason is Reason.INVALID_VALUE


def test_what_cannot_be_said_is_refused() -> None:
    for step, changes in (
        (Step(name="s", commands=(Command(argv=("a\nb",)),)), {}),
        (Step(name="s", files={"a\nb": "x"}), {}),
        (Step(name="s"), {"environment": EnvPatch(set={"A-B": "x"})}),
        (Step(name="s"), {"environment": EnvPatch(set={"A": "x\ny"})}),
        (Step(name="s"), {"labels": {"k": "x\ny"}}),
        (Step(name="s"), {"mount": "/a $b"}),
    ):
        with pytest.raises(StackproofError) as caught:
            render(step, **changes)
        assert caught.value.reason is Reason.INVALID_VALUE


def test_a_file_that_nothing_downloads_is_refused() -> None:
    wheel = Artefact(name="m", version="1", filename="m-1-py3-none-any.whl", sha256="d" * 64)
    with pytest.raises(StackproofError) as caught:
        render(Step(name="s", fetch=(wheel,)), download=None)
    assert caught.value.reason is Reason.FILE_MISSING


def test_downloads_and_clones_are_checked() -> None:
    from stackproof.build.plan import Clone  # noqa: PLC0415 - one test

    commit = "c" * 40
    wheel = Artefact(name="m", version="1", filename="m-1-py3-none-any.whl", sha256="d" * 64)
    clone = Clone(name="spack", url="https://example.org/it's.git", commit=commit, folder="spack")
    text = render(Step(name="s", fetch=(wheel,), clones=(clone,)))
    assert f"echo '{'d' * 64}  /build/downloads/m-1-py3-none-any.whl' | sha256sum -c -" in text
    assert re.search(rf'test "\$\(git .* rev-parse HEAD\)" = {commit}', text)


def fetched(source: SourceFile, sha256: str = "d" * 64) -> list[str]:
    """Return the instructions that bring a source file of a component."""
    file = Artefact(name="n", version="1", filename=source.filename, sha256=sha256)
    text = render(Step(name="s", fetch=(file,)), sources=(source,))
    return [line[4:] for line in instructions(text) if source.filename[:3] in line]


def test_a_commit_is_packed_as_the_lock_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    origin = tmp_path / "it's $HOME"
    commit = gitfolders.commit(origin, {"run.sh": "#!/bin/sh\n"})
    url = f"file://{origin}"
    packed = tmp_path / "packed.tar"
    git.archive(url, commit, "xyz-1.0", packed, lambda _: None)
    source = SourceFile(filename="xyz-1.0.tar", address=url, commit=commit)
    (tmp_path / "downloads").mkdir()
    lines = fetched(source, hashlib.sha256(packed.read_bytes()).hexdigest())
    for line in lines:
        here = line.replace("/build/", f"{tmp_path}/")
        subprocess.run(["/bin/sh", "-c", here], check=True, timeout=600, capture_output=True)
    assert (tmp_path / "downloads" / "xyz-1.0.tar").read_bytes() == packed.read_bytes()


def test_where_source_files_are_from() -> None:
    (line,) = fetched(SourceFile(filename="xyz-1.tar.gz", address="https://example.org/it's;$x"))
    words = shlex.split(line)
    assert words[:5] == [
        "curl", "-fsSL", "-o", "/build/downloads/xyz-1.tar.gz", "https://example.org/it's;$x",
    ]  # fmt: skip
    assert f"{'d' * 64}  /build/downloads/xyz-1.tar.gz" in words
    for name, folder in (("libxyz", "libx/libxyz"), ("xyz", "x/xyz")):
        package = OsPackage(name=name, version="1-2", suite="trixie")
        (line,) = fetched(SourceFile(filename="xyz_1.orig.tar.xz", os_package=package))
        assert f'"$one"pool/main/{folder}/xyz_1.orig.tar.xz && break; done' in line
    with pytest.raises(StackproofError) as caught:
        fetched(SourceFile(filename="xyz-1.tar.gz"))
    assert caught.value.reason is Reason.FILE_MISSING


def test_folders_of_the_base_are_looked_for(tmp_path: Path) -> None:
    """A base that lacks one, or is for another processor, is told by a sentence."""
    gone = f"{tmp_path}/it's"
    text = render(Step(name="s"), outside=(gone,), architecture="pdp11")
    asked = [line for line in instructions(text.split("\n\nFROM ")[0]) if "exit 1" in line]
    said = []
    for line in asked:
        words = ["/bin/sh", "-c", line.removeprefix("RUN ")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 1
        said.append(done.stderr)
    machine, folder = said
    assert "is for pdp11" in machine
    assert f"has no {gone}" in folder
    assert "--builder-base" in folder
    Path(gone).mkdir()
    subprocess.run(["/bin/sh", "-c", asked[1].removeprefix("RUN ")], check=True, timeout=600)
