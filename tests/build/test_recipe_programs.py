"""Programs that a recipe names: compiled with its MPI, in the image, in its pack, and in a bench."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import random
import re
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import easybuilds
import inprocess
import tinysources
from benchroom import stackproof
from easybuilds import component
from need import need
from packs import out
from stackproof.build import containerfile, programs
from stackproof.build.containerfile import ContainerfileRequest, Files
from stackproof.build.effects import program_files
from stackproof.build.effects.executor import execute
from stackproof.build.effects.workspace import download_path
from stackproof.build.engine import Container
from stackproof.build.engines.easybuild.effects.builder import BUILDER
from stackproof.build.engines.easybuild.effects.sources import SourceFinder
from stackproof.build.plan import Plan
from stackproof.build.programs import ProgramWish, StackProgram, source_of
from stackproof.build.stack import Digest, SourceFile
from stackproof.core import choices
from stackproof.core.command import EnvPatch
from stackproof.core.document import Document, parse, schema
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor
from stackproof.core.value import replace
from stackproof.image.model import MpiFacts

COVERS = ("build/programs.py", "build/effects/program_files.py")

OSU = Path(__file__).parents[1] / "osustandin"
HALO = """#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d, sum %d\\n", rank, size, sum);
    return MPI_Finalize();
}
"""
BOTH = ["rank 0 of 2, sum 1", "rank 1 of 2, sum 1"]
RECIPE = """name: app
mpi: {family: mpich, version: 5.0.2}
benchmarks: []
programs:
  - {name: halo, source: halo}
  - {name: OSU, source: osu.tar.gz, sha256: DIGEST}
"""


def write(folder: Path, text: str = RECIPE) -> Path:
    """Write a recipe with two programs, and their sources."""
    (folder / "halo").mkdir()
    (folder / "halo" / "halo.c").write_text(HALO)
    with tarfile.open(folder / "osu.tar.gz", "w:gz") as archive:
        archive.add(OSU, "osu-7.4")
    digest = hashlib.sha256((folder / "osu.tar.gz").read_bytes()).hexdigest()
    (folder / "app.yaml").write_text(text.replace("DIGEST", digest))
    return folder


def steps(text: str, words: str) -> set[str]:
    """Return the steps of which a build said something."""
    return set(re.findall(rf"\[\d/\d\] (\S+)  .*{words}", text))


# --- the whole road ----------------------------------------------------------------------------


@pytest.mark.battery
def test_a_recipes_programs_run_from_its_image_its_pack_and_a_bench(tmp_path: Path) -> None:
    need("gcc", "bubblewrap", "mksquashfs")
    folder = write(tmp_path)
    stackproof("build", "app.yaml", "-o", "app.squashfs", cwd=folder)
    shown = stackproof("run", "app.squashfs", "--", "mpiexec", "-n", "2", "halo", cwd=folder)
    assert sorted(shown.stdout.splitlines()) == BOTH
    told = json.loads(stackproof("inspect", "--json", "app.squashfs", cwd=folder).stdout)
    assert {"halo", "osu_latency", "osu_put_latency"} <= {one["name"] for one in told["benchmarks"]}
    bill = stackproof("run", "app.squashfs", "--", "cat", "/user-environment/meta/bom.cdx.json",
                      cwd=folder)  # fmt: skip
    parts = {part["name"]: part for part in json.loads(bill.stdout)["components"]}
    lock = json.loads((folder / "app.lock.json").read_text())
    pinned = {one["filename"]: one["accepted"][0] for one in lock["programs"]}
    assert parts["halo"]["hashes"][0]["content"] == pinned["halo.tar"]["sha256"]
    assert "osu.tar.gz, sha256 " in pinned["OSU.tar"]["provenance"]
    stackproof("pack", "app.squashfs", "halo", "gzip", "-o", "p.tar.gz", cwd=folder)
    subprocess.run(["tar", "-xf", "p.tar.gz"], cwd=folder, check=True)
    ranks = out("app/bin/mpiexec", "-n", "2", "app/bin/halo", cwd=folder)
    assert sorted(ranks.stdout.splitlines()) == BOTH

    measured = stackproof(
        "bench", "--baseline", "a=app.squashfs", "--program", "OSU", "--benchmarks", "bandwidth",
        "--sizes", "8", "--launches", "1", "--placement", "intra-node", "--no-verdict",
        cwd=folder,
    )  # fmt: skip
    assert "a, intra-node, osu_bw" in measured.stderr
    measured = stackproof(
        "bench", "--baseline", "a=app.squashfs", "--program", "stackproof-solver",
        "--launches", "1", "--placement", "intra-node", "--no-verdict", "-o", "solved", cwd=folder,
    )  # fmt: skip
    assert "a, intra-node, stackproof-solver" in measured.stderr

    # What else is in the recipe does not matter to a program that was compiled, its source does.
    recipe = (folder / "app.yaml").read_text()
    (folder / "app.yaml").write_text(f"{recipe}description: the same in other words\n")
    again = stackproof("build", "app.yaml", "-o", "app.squashfs", cwd=folder)
    assert steps(again.stderr, "unchanged") == {"program-halo", "program-OSU"}
    (folder / "halo" / "halo.c").write_text(HALO.replace("sum %d", "total %d"))
    for verb in "build", "check":
        refused = stackproof(verb, "app.yaml", cwd=folder, ok=(5,))
        assert "app.yaml:5:3" in refused.stderr
        assert "`halo` changed after the lock was made" in refused.stderr
    planned = stackproof("plan", "app.yaml", cwd=folder)
    assert "changed after the lock" in planned.stderr
    assert "compile halo with the stack's mpicc" in planned.stdout
    taken = stackproof("build", "--update", "app.yaml", "-o", "new.squashfs", cwd=folder)
    assert steps(taken.stderr, "unchanged") == {"program-OSU"}
    shown = stackproof("run", "new.squashfs", "--", "halo", cwd=folder)
    assert shown.stdout == "rank 0 of 1, total 0\n"


@pytest.mark.battery
def test_easybuild_compiles_a_program_with_the_mpi_that_it_built(tmp_path: Path) -> None:
    """A real run of EasyBuild; the MPI is a wrapper around gcc, and no more."""
    need("easybuild", "gcc", "bubblewrap", "mksquashfs")
    tool = SourceFinder((), null_monitor).tool("5.4.1")
    mpicc = {
        "mpicc": '#!/bin/sh\nexec gcc -DMPI=\\"ours\\" "$@"\n',
        "Makefile": "all:\n\tchmod 755 mpicc\n",
    }
    easybuilds.put()
    wrapper = component("four", mpicc)
    text = wrapper.text.replace("(['four'], 'bin')", "(['mpicc'], 'bin')").replace(
        "bin/four", "bin/mpicc"
    )
    archive = tinysources.archive("four", mpicc)
    file = wrapper.sources[0]
    files.write(download_path(file.accepted[0].sha256, file.filename), archive)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own.c").write_text(
        "#include <stdio.h>\nint main(void) { puts(MPI); return 0; }\n"
    )
    document = parse("programs: [{name: own, source: own}]", file=str(tmp_path / "r.yaml"))
    own, _ = program_files.load_programs(document)
    whole = easybuilds.stack()
    stack = replace(whole, programs=own, request=replace(whole.request, mpi=("mpich", "1.0")))
    lock = replace(
        easybuilds.lock(tool),
        components=(
            easybuilds.lock().components[0],
            replace(wrapper, component="mpich", text=text),
        ),
        programs=tuple(one.source for one in own),
    )
    built = execute(easybuilds.plan(stack, lock), null_monitor, setup=easybuilds.setup())
    tree = tmp_path / "tree"
    subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-d", tree, built.path], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    assert out(tree / "compiled/own/bin/own", cwd=tmp_path).stdout == "ours\n"
    view = json.loads((tree / "env/default/env.json").read_text())
    assert "/user-environment/compiled/own/bin" in json.dumps(view)
    bill = json.loads((tree / "meta/bom.cdx.json").read_text())
    assert {"own", "mpich"} <= {part["name"] for part in bill["components"]}
    (tmp_path / "own" / "own.c").write_text("int main(void) { return 0; }\n")
    changed = replace(stack, programs=program_files.load_programs(document)[0])
    found = BUILDER.engine.problems(changed, lock, document.where).problems
    assert [one.reason for one in found] == [Reason.DIGEST_MISMATCH]


# --- what cannot be ----------------------------------------------------------------------------


def recipe(folder: Path, entry: object) -> Document:
    data = {"name": "e", "mpi": {"family": "mpich"}, "programs": [entry]}
    return parse(json.dumps(data), file=str(folder / "e.yaml"))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"source": "linked"}, "is a link out of the folder of the sources"),
        ({"source": "outside"}, "a link leads out of the recipe's folder"),
        ({"source": "pipe"}, "it is neither a file nor a folder"),
        ({"source": "../halo"}, "`..` leaves the folder"),
        ({"source": "/etc"}, "it is absolute"),
        ({"source": "none"}, "there is no `"),
        ({"source": "osu.tar.gz", "sha256": "0" * 64}, "is not the archive that is meant"),
        ({"source": "halo", "sha256": "0" * 64}, "is a folder, which has no SHA-256"),
        ({"source": "words"}, "says nowhere how `x` is compiled"),
        ({"source": "words", "name": "OSU"}, "has no `configure`"),
    ],
)
def test_sources_that_are_refused(tmp_path: Path, entry: dict[str, Any], words: str) -> None:
    folder = write(tmp_path)
    for name in "linked", "words":
        (folder / name).mkdir()
    (folder / "linked" / "x.c").symlink_to("/etc/passwd")
    (folder / "outside").symlink_to("/etc")
    (folder / "words" / "README").write_text("no sources")
    os.mkfifo(folder / "pipe")
    with pytest.raises(StackproofError) as caught:
        program_files.load_programs(recipe(folder, {"name": "x", **entry}))
    (problem,) = caught.value.problems
    assert words in problem.message
    assert problem.where is not None
    assert problem.where.line == 1
    assert problem.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{name: ../x, source: halo}", "'../x' does not match"),
        ("{name: halo, source: halo, outputs: [../x]}", "`../x` is no path of a program"),
        ("{name: halo, source: halo, outputs: [-x]}", "`-x` is no path of a program"),
        ("{name: halo, source: halo, outputs: [a/x, b/x]}", "two programs are called `x`"),
        (
            "{name: halo, source: halo, outputs: [a]}\n  - {name: halo, source: osu.tar.gz}",
            "two programs are called `halo`",
        ),
        ("{name: stackproof-bench, source: halo}", "two programs are called `stackproof-bench`"),
        ("{name: halo, source: halo, build: ['make \"CC']}", "is no command line"),
    ],
)
def test_entries_that_cannot_be(tmp_path: Path, text: str, words: str) -> None:
    folder = write(tmp_path, f"name: e\nmpi: {{family: mpich}}\nprograms:\n  - {text}\n")
    done = inprocess.stackproof("check", "--offline", folder / "app.yaml")
    assert done.returncode == 3
    assert words in done.stderr
    assert f"app.yaml:{4 + text.count(chr(10))}:" in done.stderr


def test_archives_with_hostile_members_hold_their_files_alone(tmp_path: Path) -> None:
    path = tmp_path / "bad.tar"
    with tarfile.open(path, "w") as archive:
        for name in "../out.c", "/abs.c", "top/in.c":
            entry = tarfile.TarInfo(name)
            entry.size = 1
            archive.addfile(entry, io.BytesIO(b"x"))
        link = tarfile.TarInfo("top/link.c")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert program_files.load_sources(ProgramWish(name="x", source=str(path))) == {"in.c": b"x"}


def header(name: str, kind: bytes, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.battery
@pytest.mark.parametrize(
    ("bomb", "reason"),
    [
        (header("././@LongLink", b"L", 64 << 20) + bytes(64 << 20), Reason.TOO_LARGE),
        (header("x", b"x", 64 << 20) + bytes(64 << 20), Reason.TOO_LARGE),
        (header("d", b"5", 0) * 20_001, Reason.TOO_LARGE),
        (header("../x", b"0", 257 << 20), Reason.TOO_LARGE),
        (header("s", b"S", 0), Reason.INVALID_VALUE),
        (header("a", b"0", 0) + header("a/b", b"0", 0), Reason.INVALID_VALUE),
    ],
    ids=["name", "header", "folders", "left out", "sparse", "file and folder"],
)
def test_archives_that_cost_more_than_they_hold(
    tmp_path: Path, bomb: bytes, reason: Reason
) -> None:
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(bomb + header("x.c", b"0", 0) + bytes(1024), 1))
    del bomb
    tracemalloc.start()
    try:
        with pytest.raises(StackproofError) as caught:
            program_files.load_sources(ProgramWish(name="x", source=str(path)))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.problems[0].reason is reason


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_damaged_archive_is_not_taken_for_a_shorter_one(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    first, last = random.Random(1).randbytes(1 << 20), b"int main(void) {}"
    packed = bytearray(pack(program_files.pack_files({"a.h": first, "b.c": last})))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "cut.tar"
    path.write_bytes(packed)
    with pytest.raises(StackproofError) as caught:
        program_files.load_sources(ProgramWish(name="x", source=str(path)))
    assert caught.value.problems[0].reason is Reason.INVALID_VALUE


# --- what is pure ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "command"),
    [
        (["configure", "Makefile"], "sh ./configure CC={c} CXX={c++} --fast"),
        (["Makefile", "halo.c"], "make -j{jobs} CC={c} CXX={c++} FC={fortran}"),
        (["b.c", "a.c", "inner/c.c"], "{c} -O2 -o halo a.c b.c -lm"),
        (["a.cpp"], "{c++} -O2 -o halo a.cpp -lm"),
        (["a.f90"], "{fortran} -O2 -o halo a.f90 -lm"),
        (["-o.c", "a.c"], "{c} -O2 -o halo a.c -lm"),
    ],
)
def test_how_a_program_is_compiled_is_told_by_its_files(names: list[str], command: str) -> None:
    wish = ProgramWish(name="halo", source="halo", configure=("--fast",))
    made = source_of(wish, dict.fromkeys(names, b""))
    assert " ".join(made.commands[1]) == command
    assert made.outputs == ("halo",)
    own = replace(wish, build=("ninja 'my halo'",), outputs=("build/halo",))
    made = source_of(own, dict.fromkeys(names, b""))
    assert (made.commands[1:], made.outputs) == ((("ninja", "my halo"),), ("build/halo",))


def test_files_of_osu_that_several_programs_share_are_no_programs() -> None:
    files_of = {"configure": b"", "mpi/pt2pt/osu_bw.c": b"int\nmain (int argc, char **argv) {",
                "mpi/pt2pt/osu_pt2pt.c": b"void remain(void) {}"}  # fmt: skip
    made = source_of(ProgramWish(name="OSU", source="osu"), files_of)
    assert made.outputs == ("mpi/pt2pt/osu_bw",)
    twice = {**files_of, "old/mpi/osu_bw.c": files_of["mpi/pt2pt/osu_bw.c"]}
    assert source_of(ProgramWish(name="OSU", source="osu"), twice).outputs == made.outputs


def halo(content: bytes = b"int main(void) { return 0; }") -> StackProgram:
    folder = {"halo.c": content, "run.sh": b"#!/bin/sh\n"}
    packed = program_files.pack_files(folder)
    assert packed == program_files.pack_files(dict(reversed(folder.items())))
    digest = hashlib.sha256(packed).hexdigest()
    source = SourceFile(
        filename="halo.tar", accepted=(Digest(sha256=digest, provenance="files of halo"),)
    )
    made = source_of(ProgramWish(name="halo", source="halo"), folder)
    return StackProgram(name="halo", source=source, commands=made.commands, outputs=made.outputs)


def test_a_container_copies_the_sources_and_compiles_them() -> None:
    program = halo()
    facts = MpiFacts(family="mpich", version="5.0.2", prefix="/e/mpich", launcher="hydra")
    step = programs.program_step(program, "/e", facts, EnvPatch())
    content = program_files.pack_files({"halo.c": b"x"})
    made = containerfile.render(
        Plan(name="n", mount="/e", steps=(step,)),
        ContainerfileRequest(
            base=f"debian@sha256:{'ab' * 32}", builder=f"debian@sha256:{'ab' * 32}",
            architecture="x86_64",
        ),
        Container(),
        Files(blobs={program.artefact.sha256: content}),
    )  # fmt: skip
    assert "/build/downloads/halo.tar" in made
    assert "/e/mpich/bin/mpicc -O2 -o halo halo.c -lm" in made
    assert "install -m 755 halo /e/compiled/halo/bin/halo" in made


def test_other_sources_are_no_other_wish_and_other_commands_are() -> None:
    first, second = halo(), halo(b"int main(void) { return 1; }")
    assert first.artefact.sha256 != second.artefact.sha256
    wishes = programs.describe_wishes((first,))
    assert wishes == programs.describe_wishes((second,))
    assert wishes != programs.describe_wishes((replace(first, outputs=("other",)),))
    assert programs.describe_wishes(()) == {}
    (problem,) = programs.find_changes((second,), (first.source,), None)
    assert problem.reason is Reason.DIGEST_MISMATCH
    assert not list(programs.find_changes((first,), (first.source,), None))


def test_both_schemas_say_the_same_and_the_option_has_what_a_bench_runs() -> None:
    entries = [schema(kind)["properties"]["programs"] for kind in ("recipe", "easybuild-recipe")]
    assert entries[0] == entries[1]
    of_bench = schema("bench")["properties"]["programs"]["items"]["anyOf"][1]
    assert list(choices.PROGRAMS) == of_bench["properties"]["name"]["enum"]
