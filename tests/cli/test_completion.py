"""Completion in the shells themselves, and man pages as man reads them."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from need import need
from stackproof.cli import commandtree, completing
from stackproof.share import addresses, labels
from stackproof.share.effects import catalogue
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.labels import LabelRecord

COVERS = ("cli/options.py",)

TREE = commandtree.load()
LINES = [
    ("stackproof b", {"bench", "build"}, set()),
    ("stackproof inject c", {"check", "container"}, {"build"}),
    ("stackproof help insp", {"inspect"}, set()),
    ("stackproof build --o", {"--output", "--on"}, {"--json"}),
    ("stackproof build --on ", {"local", "slurm"}, {"build"}),
    ("stackproof check --site lumi", {"lumi-c", "lumi-g"}, {"own.yaml"}),
    ("stackproof --debug build --json ow", {"own.yaml"}, {"build"}),
    ("stackproof mirror create sub", {"subfolder/"}, set()),
    ("stackproof run own.squashfs -- ./ow", {"./own.yaml", "./own.squashfs"}, set()),
    ("stackproof completion ", {"bash", "zsh", "fish"}, {"own.yaml"}),
    ("stackproof import --placement=int", {"inter-node", "intra-node"}, set()),
]
_LISTED = "listed/1:v1@here%zen2"
# Labels are asked of the program: in the repository of the user, and as a registry was last listed,
# which is not asked.
LABELS = [
    ("stackproof inspect ti", {"tiny/1:v1@here%x86_64", "tiny/2:v1@here%x86_64"}, {"own.squashfs"}),
    ("stackproof run own.squashfs,tiny/2", {"own.squashfs,tiny/2:v1@here%x86_64"}, {"own.yaml"}),
    ("stackproof image rm ", {"tiny/1:v1@here%x86_64", "tiny/2:v1@here%x86_64"}, {"own.squashfs"}),
    ("stackproof inspect ./", {"./own.squashfs"}, {"tiny/1:v1@here%x86_64"}),
    ("stackproof image find ", {f"build::{_LISTED}", f"deploy::{_LISTED}"}, {"own.squashfs"}),
    ("stackproof image pull li", {_LISTED}, {"tiny/1:v1@here%x86_64"}),
    ("stackproof image copy build::l", {f"build::{_LISTED}"}, {f"deploy::{_LISTED}"}),
]


@pytest.fixture
def labelled(folder, monkeypatch):
    """Return the folder with labels in the repository, and stackproof on PATH."""
    repository = ImageRepository(folder / ".uenv" / "repo")
    with repository.changing() as change:
        for version in "12":
            change.add(
                LabelRecord(
                    label=labels.parse(f"tiny/{version}:v1@here%x86_64"), date="", size=1,
                    digest=version * 64, folder="",
                )
            )  # fmt: skip
    monkeypatch.setenv("STACKPROOF_REPOSITORY", str(repository.folder))
    monkeypatch.setenv("STACKPROOF_CACHE", str(folder / "cache"))
    monkeypatch.setenv("STACKPROOF_REGISTRY", "registry.invalid/images")
    for namespace in ("build", "deploy"):
        record = LabelRecord(
            label=labels.parse(_LISTED), date="", size=1, digest="1" * 64, folder="",
            namespace=namespace,
        )  # fmt: skip
        catalogue.remember(addresses.parse_address("registry.invalid/images"), namespace, (record,))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own.yaml").touch()
    (tmp_path / "own.squashfs").touch()
    (tmp_path / "subfolder").mkdir()
    for shell in completing.SHELLS:
        script = completing.SHELLS[shell](TREE, completing.names())
        (tmp_path / f".{shell}").write_text(script)
    return tmp_path


def test_the_verb_prints_the_script(folder):
    for shell in completing.SHELLS:
        done = subprocess.run(
            [sys.executable, "-m", "stackproof", "completion", shell],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == (folder / f".{shell}").read_text()


_BASH = """
complete_line() {
    COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
    COMP_WORDS=($1); [[ $1 == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _stackproof; printf '%s\\n' "${COMPREPLY[@]}"
}
compopt() { :; }
"""


@pytest.mark.parametrize(("line", "there", "absent"), LINES)
def test_bash(folder, line, there, absent):
    # At a terminal bash takes `=` for a word of its own.
    script = f"source ./.bash; {_BASH} complete_line '{line.replace('=', ' = ')}'"
    done = subprocess.run(
        ["bash", "--norc", "-u", "-c", script], cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    words = set(done.stdout.splitlines())
    assert {word.rstrip("/") for word in there} <= words
    assert not absent & words


@pytest.mark.parametrize(("line", "there", "absent"), LABELS[:-1])
def test_labels_in_bash(labelled, line, there, absent):
    test_bash(labelled, line, there, absent)


@pytest.mark.battery
@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("stackproof inspect tiny/2", "tiny/2:v1@here%x86_64"),
        ("stackproof inspect tiny/2:v1@h", "tiny/2:v1@here%x86_64"),
        ("stackproof image copy build::l", f"build::{_LISTED}"),
    ],
)
def test_a_label_at_a_terminal_of_bash(labelled, line, label):
    """There the shell takes `:` and `@` for ends of words; what is missing is put behind them."""
    argv = ["bash", "--norc", "--noprofile", "-i"]
    missing = label.removeprefix(line.rsplit(maxsplit=1)[-1])
    setup = "source ./.bash; bind 'set bell-style none'"
    shown = typed(argv, labelled, setup, line, {missing})
    assert missing in shown


@pytest.mark.battery
@pytest.mark.parametrize(("line", "there", "absent"), [LABELS[0], *LABELS[2:]])
def test_labels_in_zsh(labelled, line, there, absent):
    test_zsh(labelled, line, there, absent)


@pytest.mark.parametrize(("line", "there", "absent"), [LABELS[0], *LABELS[2:]])
def test_labels_in_fish(labelled, line, there, absent):
    test_fish(labelled, line, there, absent)


def typed(argv: list[str], folder: Path, setup: str, line: str, there: set[str]) -> str:
    """Return what a shell shows at a terminal when a line is typed and the key is pressed.

    The key is pressed again as long as words are missing: the first time completes what all have
    in common, and where nothing was completed it is the next one that lists. A shell takes the key
    for a letter while more input waits, so each waits for an echo.
    """
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        ours = {name: text for name, text in os.environ.items() if name.startswith("STACKPROOF_")}
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": str(folder), **ours}
        os.execvpe(argv[0], argv, environment)

    def until(seconds: float, *marks: str) -> str:
        shown, end = "", time.monotonic() + seconds
        while time.monotonic() < end and any(mark not in shown for mark in marks):
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65536).decode(errors="replace")
        return shown

    try:
        os.write(terminal, f"PS1='> '; {setup}; echo rea''dy\n".encode())
        until(60, "ready\r", "> ")
        os.write(terminal, line.encode())
        until(60, line.rstrip())
        time.sleep(0.3)
        shown = ""
        for press in range(20):
            os.write(terminal, b"\t")
            shown += until(1 if press < 2 else 3, *(word for word in there if word not in shown))
            if all(word in shown for word in there):
                break
        return shown
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def rest_of(words: set[str], line: str) -> set[str]:
    """Return what a shell shows of words: all, or of an only one what is missing of it."""
    begun = "" if line.endswith(" ") else line.rsplit(maxsplit=1)[-1]
    return {word.removeprefix(begun) for word in words} if len(words) == 1 else words


@pytest.mark.battery
@pytest.mark.parametrize(("line", "there", "absent"), LINES[:8])
def test_bash_at_a_terminal(folder, line, there, absent):
    argv = ["bash", "--norc", "--noprofile", "-i"]
    setup = "source ./.bash; bind 'set bell-style none'"
    shown = typed(argv, folder, setup, line, rest_of(there, line))
    assert [word for word in rest_of(there, line) if word not in shown] == [], shown
    assert not (absent - set(line.split())) & set(shown.split())


# zsh's own functions for completion are there at a terminal only.
_ZSH = """
compdef() { :; }
compadd() {
    local word; shift
    for word in "$@"; do if [[ $word == ${words[CURRENT]}* ]]; then print -r -- $word; fi; done
}
_files() { compadd -- *(N) ./*(N); }
_command_names() { :; }
source ./.zsh
words=(${(s: :)1}); [[ $1 == *' ' ]] && words+=('')
CURRENT=$#words
_stackproof
"""


@pytest.mark.parametrize(("line", "there", "absent"), LINES[:10])
def test_zsh(folder, line, there, absent):
    need("zsh")
    done = subprocess.run(
        ["zsh", "-f", "-c", _ZSH, "zsh", line], cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    words = set(done.stdout.splitlines())
    assert {word.rstrip("/") for word in there} <= words
    assert not absent & words


@pytest.mark.parametrize(("line", "there", "absent"), LINES)
def test_fish(folder, line, there, absent):
    need("fish")
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source ./.fish; complete -C '{line}'"],
        cwd=folder, capture_output=True, text=True, check=True,
        env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    assert done.stderr == ""
    words = {word.partition("\t")[0].rpartition("=")[2] for word in done.stdout.splitlines()}
    assert there <= words
    assert not absent & words


@pytest.mark.parametrize("path", ["", "."])
@pytest.mark.parametrize("typed_word", ["./stackproof", "{folder}/stackproof", "{installed}"])
@pytest.mark.parametrize("shell", ["bash", "fish", pytest.param("zsh", marks=pytest.mark.battery)])
def test_only_the_installed_program_is_started(shell, typed_word, path, labelled, monkeypatch):
    if shell == "zsh":
        need("zsh")
    elif shell == "fish":
        need("fish")
    planted, mark = labelled / "stackproof", labelled / "was-started"
    planted.write_text(f"#!/bin/sh\necho tiny/2:v1@here%x86_64; touch {mark}\n")
    planted.chmod(0o755)
    if path:
        monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    installed = Path(sys.executable).parent / "stackproof"
    line = f"{typed_word.format(folder=labelled, installed=installed)} inspect ti"
    by_shell = {
        "bash": ["bash", "--norc", "-c", f"source ./.bash; {_BASH} complete_line '{line}'"],
        "fish": ["fish", "--no-config", "-c", f"source ./.fish; complete -C '{line}'"],
        "zsh": ["zsh", "-f", "-c", _ZSH, "zsh", line],
    }
    done = subprocess.run(
        by_shell[shell], cwd=labelled, capture_output=True, text=True, check=True,
        env={**os.environ, "HOME": str(labelled)},
    )  # fmt: skip
    assert not mark.exists()
    known = "installed" in typed_word and not path
    assert ("tiny/2" in done.stdout) == known, done.stdout


MAN_PAGES = sorted(Path(__file__).parents[2].glob("docs/man/*.1"))


def test_every_verb_has_a_man_page():
    names = {"-".join(("stackproof", *one.words)) for one in (TREE, *TREE.commands)}
    assert {page.stem for page in MAN_PAGES} == names


@pytest.mark.parametrize("page", MAN_PAGES, ids=lambda page: page.stem)
def test_man_pages_are_read_without_a_complaint(page):
    need("groff")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-z", page], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
