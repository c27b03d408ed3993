"""Nothing of the user's is destroyed: what every option that names an output does to what is there."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from need import need
from refusals import refused
from stackproof import cli
from stackproof.cli import commandtree
from stackproof.core.effects import outputs
from stackproof.core.errors import Reason, StackproofError

COMMANDS = {
    " ".join(command.words): command for command in commandtree.load().all() if not command.commands
}
# What a command needs besides, for its parser: the output is looked at before anything of it.
MORE = {
    "build": ["r.yaml"],
    "image containerfile": ["r.yaml", "--base", "b"],
    "image edf": ["r.yaml"],
    "inject container": ["program", "--with", "prefix", "--form", "cdi"],
    "report": ["results"],
    "pack": ["r.squashfs"],
    "plan": ["r.yaml"],
}
OUTPUTS = [
    (name, option.names[-1], option.output)
    for name, command in COMMANDS.items()
    for option in command.options
    if option.output
]
# Options with paths that are read; and folders that are written, which check for themselves that
# they are new, empty or their own (the last test).
FOLDERS = {
    ("bench", "--output"), ("bench", "--resume"), ("import", "--output"),
    ("inject apply", "--eessi"), ("inject apply", "--wrapper"), ("inject artefact", "--output"),
    ("inject prove", "--output"), ("site spack-config", "--output"),
    ("build", "--build-dir"), ("install", "--to"), ("image containerfile", "--folder"),
}  # fmt: skip
READ = {
    "--accepted", "--arm", "--base", "--baseline", "--builder-base", "--fact", "--challenger",
    "--capture", "--cluster", "--env", "--from", "--hook", "--image", "--inject", "--launcher",
    "--library-path", "--log", "--mirror", "--own", "--mount", "--place", "--plugstack",
    "--probe", "--program", "--results", "--root", "--share", "--site", "--spank", "--upgrade",
    "--with", "--wrong", "--topology", "--missing",
    "--ca", "--key", "--signers", "--token", "--placement", "--workdir", "--with-source", "--with-patch",
}  # fmt: skip
_PATHS = ("FILE", "FOLDER", "DIR", "PATH", "PREFIX", "IMAGE", "PLUGIN", "SITE", "PLACE")


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert isinstance(caught.value.code, int)
    return caught.value.code, capsys.readouterr().err


def test_of_every_option_with_a_path_it_is_known_whether_it_is_written():
    unknown = [
        (name, option.names[-1])
        for name, command in COMMANDS.items()
        for option in command.options
        if any(word in option.value for word in _PATHS)
        and not option.output
        and (name, option.names[-1]) not in FOLDERS
        and option.names[-1] not in READ
    ]
    assert unknown == []
    assert {name for name, _, _ in OUTPUTS} == set(MORE)
    written = {(n, o.names[-1]) for n, c in COMMANDS.items() for o in c.options}
    assert written >= FOLDERS


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "thesis.tex"
    path.write_text("years of work\n")
    return path


def _unread(path: Path) -> tuple[int, ...]:
    """Return what a file is, and when it was changed: to read it is allowed."""
    seen = path.lstat()
    return (
        seen.st_mode,
        seen.st_ino,
        seen.st_nlink,
        seen.st_size,
        seen.st_mtime_ns,
        seen.st_ctime_ns,
    )


@pytest.mark.parametrize("how", ["itself", "link", "hard link", "folder", "pipe", "link to a link"])
@pytest.mark.parametrize(("name", "option", "kind"), OUTPUTS)
def test_what_is_somebodys_stays(capsys, mine, name, option, kind, how):
    target = mine.with_name("out")
    match how:
        case "itself":
            target = mine
        case "link":
            target.symlink_to(mine)
        case "link to a link":
            mine.with_name("between").symlink_to(mine)
            target.symlink_to("between")
        case "hard link":
            target.hardlink_to(mine)
        case "folder":
            target.mkdir()
            (target / "thesis.tex").write_text("years of work\n")
        case "pipe":
            os.mkfifo(target)
    before = _unread(target)
    code, err = run(capsys, *name.split(), *MORE[name], option, str(target))
    assert (code, kind in outputs.KINDS) == (2, True)
    assert "[not-replaced]" in err
    assert f"--> {target}" in err
    assert mine.read_text() == "years of work\n"
    assert _unread(target) == before or how == "folder"
    assert sorted(p.name for p in mine.parent.rglob("*") if p.name.startswith(".")) == []


@pytest.mark.parametrize(("name", "option", "kind"), OUTPUTS)
def test_an_input_is_never_the_output(capsys, mine, name, option, kind):
    """Not even where it is of the kind that is written, and has another name."""
    own = mine.with_name("own")
    own.write_bytes(SAMPLES[kind])
    more = [str(own), *MORE[name][1:]] if MORE[name] else ["--log", str(own)]
    other = mine.with_name("other")
    other.hardlink_to(own)
    for target in (own, other):
        code, err = run(capsys, *name.split(), *more, option, str(target))
        assert code == 2
        assert "an input of this command" in err
        assert own.read_bytes() == SAMPLES[kind]


@pytest.mark.parametrize(("name", "option", "kind"), OUTPUTS)
def test_no_command_makes_the_folder_of_a_file(capsys, mine, name, option, kind):
    """A folder that is not there is one of a slip of the hand, whatever was to be written."""
    target = mine.with_name("no-folder") / "out"
    code, err = run(capsys, *name.split(), *MORE[name], option, str(target))
    assert (code, kind in outputs.KINDS) == (3, True)
    assert f"the folder `{target.parent}` does not exist [file-missing]" in err
    assert not target.parent.exists()


SAMPLES = {
    "image": b"hsqs" + bytes(200),
    "report": b'<!doctype html>\n<html><head><meta name="generator" content="stackproof 0.1">',
    "comparison": b'{\n "schema": "stackproof/comparison/1",',
    "points": b"challenger,baseline,null_arm,placement\r\n",
    "verdicts": b"# demo: INCONCLUSIVE\n\n",
    "containerfile": b"# x: written by `stackproof image containerfile`; plan 1\n",
    "edf": b'# written by `stackproof image edf`\nimage = "a"\n',
    "injection": b"--bind=/a:/b:ro\n",
    "digest": b"0" * 64 + b"  own.squashfs\n",
    "lock": b'{\n "schema": "stackproof/lock/1",',
    "pack": b"\x28\xb5\x2f\xfd" + bytes(200),
    "provenance": b'{"schema":"stackproof/pack/1"}',
    "graph": b"// written by `stackproof plan --graph`\ndigraph stack {\n",
    "guix": b";; written by `stackproof build`\n(list)\n",
    "file": b"x",
}


@pytest.mark.parametrize("kind", outputs.KINDS)
def test_a_file_of_its_own_kind_may_be_replaced(tmp_path, kind):
    own = tmp_path / "own"
    assert outputs.claim(own, kind) == str(own)  # nothing is there
    own.touch()
    assert outputs.claim(own, kind) == str(own)  # an empty file
    own.write_bytes(SAMPLES[kind])
    assert outputs.claim(own, kind) == str(own)
    link = tmp_path / "link"
    link.symlink_to(own)
    assert outputs.claim(link, kind) == str(own)
    for other, content in SAMPLES.items():
        if other != kind != "file":
            own.write_bytes(content)
            with refused(Reason.NOT_REPLACED):
                outputs.claim(own, kind)


def test_archives_of_others_are_no_packs(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("photo.raw"), io.BytesIO())
    for content in (buffer.getvalue(), gzip.compress(b"x"), b"\x1f\x8bbroken"):
        (tmp_path / "own.tar.gz").write_bytes(content)
        with pytest.raises(StackproofError):
            outputs.claim(tmp_path / "own.tar.gz", "pack")


def test_a_device_is_no_place(capsys):
    code, err = run(capsys, "report", "results", "-o", "/dev/null")
    assert (code, Path("/dev/null").is_char_device()) == (2, True)
    assert "no plain file" in err


def test_a_lock_of_another_program_stays(mine):
    with pytest.raises(StackproofError):
        outputs.write(mine, json.dumps({}), "lock")
    assert mine.read_text() == "years of work\n"


PRECIOUS = (
    "hello.squashfs.sha256", "full/thesis.tex", "full/spec.json", "full/packages.yaml", "thesis.squashfs", "hello.squashfs",
    "results/report.html", "results/report.csv", "report.html", "recipe.yaml", "r.lock.json",
)  # fmt: skip


@pytest.mark.parametrize(
    "argv",
    [
        ["build", "r.yaml"],
        ["bench", "--baseline", "a.squashfs", "--challenger", "b.squashfs", "-o", "full"],
        ["import", "osu.txt", "--placement", "intra-node", "-o", "full"],
        ["inject", "prove", "--with", "prefix", "-o", "full", "program"],
        ["inject", "artefact", "prefix", "-o", "full"],
        ["inject", "artefact", "prefix", "-o", "thesis.squashfs"],
        ["inject", "apply", "program", "--with", "prefix", "--wrapper", "full"],
        ["site", "spack-config", "--site", "lumi-c", "-o", "full"],
        ["mirror", "create", "full", "r.yaml"],
        ["report", "results"],
    ],
    ids=lambda argv: " ".join(argv[:2]),
)
def test_defaults_and_folders(capsys, mine, argv):
    """Whatever else is wrong with these command lines, what is there is there afterwards."""
    precious = dict.fromkeys(PRECIOUS, b"years of work\n")
    for name, content in precious.items():
        path = mine.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    mine.with_name("r.yaml").write_text("name: hello\nmpi: {family: mpich}\n")
    mine.with_name("osu.txt").write_text(
        "# OSU MPI Latency Test v7.4\n# Size  Latency (us)\n1 0.5\n"
    )
    (mine.parent / "recipe").mkdir()
    code, err = run(capsys, *argv)
    assert code != 0
    assert "error: " in err
    assert {n: (mine.parent / n).read_bytes() for n in precious} == precious


def test_a_link_that_another_user_planted_is_not_followed(tmp_path):
    """It would have a file made, or replaced, wherever it leads; one's own link is followed."""
    need("root")
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    os.chown(tmp_path / "out", 31001, 31001, follow_symlinks=False)
    with refused(Reason.NOT_REPLACED):
        outputs.write(tmp_path / "out", "{}", "file")
    assert not (tmp_path / "elsewhere").exists()
    os.chown(tmp_path / "out", os.geteuid(), os.getegid(), follow_symlinks=False)
    outputs.write(tmp_path / "out", "{}", "file")
    assert (tmp_path / "elsewhere").read_text() == "{}"
