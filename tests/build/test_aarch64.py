"""aarch64 on a machine of x86_64: what is compiled, built and said for it, run by an emulator.

docs/explanation/chains-built.md says what of it that does not show.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import armlab
import once
import packs
from need import need
from stackproof.build.effects import builders, stacks
from stackproof.build.effects.executor import execute
from stackproof.build.options import BuildOptions, RecipeOptions
from stackproof.core.command import EnvPatch
from stackproof.core.errors import ExitCode
from stackproof.core.monitor import null_monitor
from stackproof.core.value import replace
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import LoaderSettings, load_program
from stackproof.pack.effects import entry_files
from stackproof.pack.model import EntryPoint, Loading

pytestmark = pytest.mark.battery

ROOT = Path(__file__).parents[2]
MOUNT = "/user-environment"
RECIPE = "name: arm\nmpi: {family: mpich, version: 5.0.2}\ntransports: [shm, tcp]\n"
_TIMEOUT_S = 600
_LIBRARY = "const char *where(void) { return PLACE; }\n"
_PROGRAM = """
#include <stdio.h>
const char *where(void);
int main(void) { return puts(where()) < 0; }
"""
_MPI_PROGRAM = """
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words) {
    int rank = 0, sum = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rank++;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 1) printf("sum %d\\n", sum);
    return MPI_Finalize();
}
"""


@pytest.fixture(scope="session")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a `root` of Debian for arm64, made once."""
    need("aarch64", "bubblewrap", "debian-arm64")
    with once.folder(tmp_path_factory, "arm") as folder:
        if not (folder / "root" / "etc" / "passwd").exists():  # what is put there last
            armlab.root(folder)
        return folder


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an image for aarch64, with a cross compiler's benchmark; its `tree` lies beside it."""
    need("network", "aarch64", "bubblewrap", "mksquashfs")
    with once.folder(tmp_path_factory, "arm-image") as folder:
        made = folder / "arm.squashfs"
        if not made.is_file():
            (folder / "arm.yaml").write_text(RECIPE)
            shutil.copy(_build(folder / "arm.yaml"), made)
            _run("unsquashfs", "-q", "-n", "-no-xattrs", "-d", folder / "tree", made, cwd=folder)
        return made


def _build(recipe: Path) -> Path:
    """Build what `build` does at a site of aarch64, by a compiler of this machine."""
    loaded = stacks.load_recipe(RecipeOptions(recipe=str(recipe), site="alps-gh200"))
    builder = builders.of(loaded)
    lock = builder.solve(loaded, BuildOptions(), null_monitor)
    plan = builder.engine.plan(loaded.stack, lock, loaded.sources)
    setup = builder.setup(loaded, lock, plan, BuildOptions(), null_monitor)
    cross = setup.environment.then(EnvPatch(set={"MPICH_CC": armlab.COMPILER}))
    return execute(plan, null_monitor, setup=replace(setup, environment=cross)).path


def _run(*argv: str | Path, cwd: Path | None = None, code: int = 0) -> str:
    done = subprocess.run(
        [os.fspath(word) for word in argv], cwd=cwd, timeout=_TIMEOUT_S, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == code, done.stdout[-4000:]
    return done.stdout


def _compiled(target: Path, text: str, *options: str | Path) -> Path:
    """Compile C for aarch64."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source = target.with_name(f"{target.name}.c")
    source.write_text(text)
    _run(armlab.COMPILER, "-Wall", "-Werror", source, "-o", target, *options)
    source.unlink()
    return target


def _aligned(program: Path) -> None:
    """Require that a program also starts where pages have 64 KiB, as of many kernels for Grace."""
    said = _run(f"{armlab.TRIPLET}-readelf", "-lW", program)
    found = re.findall(r"^ +LOAD .* (0x[0-9a-f]+)$", said, re.MULTILINE)
    assert found, said
    assert {int(word, 16) % 0x10000 for word in found} == {0}, said


# ----------------------------------------------------------------------------- what is in C


def test_the_native_parts_are_compiled_and_pass_their_tests(arm: Path, tmp_path: Path) -> None:
    """The mount helper, the hook of containers and the plug-in of Slurm: warnings are errors."""
    need("meson", "slurm-headers")
    (tmp_path / "headers").mkdir()  # of Slurm alone: other headers there are of this machine
    (tmp_path / "headers" / "slurm").symlink_to("/usr/include/slurm")
    tools = {"c": armlab.COMPILER, **{n: f"{armlab.TRIPLET}-{n}" for n in ("ar", "strip")}}
    host = {"system": "linux", "cpu_family": "aarch64", "cpu": "aarch64", "endian": "little"}
    cross = tmp_path / "cross.ini"
    cross.write_text(
        "\n".join(
            f"[{title}]\n" + "\n".join(f"{name} = '{value}'" for name, value in values.items())
            for title, values in {"binaries": tools, "host_machine": host}.items()
        )
    )
    made = tmp_path / "made"
    options = ("--cross-file", cross, "-Dspank=enabled", f"-Dslurm_headers={tmp_path}/headers")
    _run("meson", "setup", made, ROOT / "native", *options)
    _run("ninja", "-C", made)
    binds = ((made, "/mnt"),)
    counts = []
    for name in ("tests/unit", "tests/unit_confine", "tests/unit_hook", "spank/test_spank"):
        said = _run(*armlab.inside(arm / "root", f"/mnt/{name}", binds=binds))
        assert "not ok" not in said
        counts.append(len(re.findall(r"^ok ", said, re.MULTILINE)))
    assert min(counts) > 0
    assert sum(counts) > 200
    said = _run(*armlab.inside(arm / "root", "/mnt/helper/stackproof-mount", "--help", binds=binds))
    assert said.startswith("usage: stackproof-mount")
    _aligned(made / "helper" / "stackproof-mount")
    switch = ROOT / "src" / "stackproof" / "cluster" / "effects" / "csrc" / "delay_switch.c"
    _run(armlab.COMPILER, "-std=c11", "-O2", "-Wall", "-Werror", switch, "-o", tmp_path / "switch")


def test_entry_points_of_packs_start_programs(
    arm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the C library of the machine, and with the one that went along."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "gcc").symlink_to(str(shutil.which(armlab.COMPILER)))
    monkeypatch.setenv("PATH", f"{tmp_path}/path:{os.environ['PATH']}")
    kinds = {kind: entry_files.template.__wrapped__(kind) for kind in entry_files._PARTS}
    for kind, content in kinds.items():
        (tmp_path / kind).write_bytes(content)
        _aligned(tmp_path / kind)
    pack, libraries = tmp_path / "pack", arm / "root" / "lib" / armlab.TRIPLET
    answer = tmp_path / "libanswer.so.1"
    soname = f"-Wl,-soname,{answer.name}"
    _compiled(answer, "int answer(void) { return 42; }", "-shared", "-fPIC", soname)
    program = _compiled(pack / "stack" / "hello", packs.CALLS_ANSWER, answer, "-Wl,-rpath,$ORIGIN")
    shutil.copy(answer, program.with_name("libanswer.so.1"))
    (pack / "glibc").mkdir()
    for name in ("ld-linux-aarch64.so.1", "libc.so.6"):
        shutil.copy(libraries / name, pack / "glibc")
    (pack / "bin").mkdir()
    for floor, explained in (
        (17, "by the loader of this machine"),
        (99, "by the loader of the pack"),
    ):
        loading = Loading(
            floor=floor, interpreter="/lib/ld-linux-aarch64.so.1",
            own="glibc/ld-linux-aarch64.so.1", libraries=(f"/lib/{armlab.TRIPLET}/libc.so.6",),
        )  # fmt: skip
        env = entry_files.EnvPatch(set={"MPI_TINY": "small"})
        entry = EntryPoint(place=f"bin/hello{floor}", program="stack/hello", env=env)
        table = entry_files.render_table(entry, loading)
        place = pack / entry.place
        place.write_bytes(entry_files.fill(kinds["tier 0"], table))
        place.chmod(0o755)
        argv = ("env", "STACKPROOF_PACK_EXPLAIN=1", f"/mnt/{entry.place}", "a word")
        said = _run(*armlab.inside(arm / "root", *argv, binds=((pack, "/mnt"),)))
        assert "42 small\na word\n" in said
        assert explained in said, said


# ----------------------------------------------------------------------- what an image is for


def test_an_image_is_built_and_two_ranks_of_it_run(arm: Path, image: Path) -> None:
    tree = image.with_name("tree")
    said = json.loads((tree / "meta" / "env.json").read_text())
    assert said["stackproof"]["architecture"] == "aarch64"
    assert (
        json.loads((tree / "meta" / "configure.json").read_text())["host"]["machine"] == "aarch64"
    )
    bench = f"{MOUNT}/benchmarks/stackproof-bench"
    prefix = said["mpi"]["prefix"]
    argv = [f"{prefix}/bin/mpiexec", "-n", "2", bench, "--sizes", "8,4096", "--check", "all"]
    argv += ["--samples", "2", "--seconds-per-size", "0.001", "--expect-ranks", "2"]
    printed = _run(*armlab.inside(arm / "root", *argv, binds=((tree, MOUNT),)))
    records = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert records[-1] | {"ok": True, "errors": 0} == records[-1]
    series = [record for record in records if record["kind"] == "series"]
    assert {one["benchmark"] for one in series} >= {"latency", "allreduce", "alltoall", "barrier"}
    assert all(one["validated"] for one in series if one["size"])


def test_a_pack_made_here_runs_there(arm: Path, image: Path, tmp_path: Path) -> None:
    """It has the C library for aarch64 that this machine has beside its own; and finds itself."""
    need("patchelf", "userns")
    pack = (sys.executable, "-m", "stackproof", "pack", image, "stackproof-bench", "mpiexec")
    _run(*armlab.beside(arm / "root", *pack, "-o", "packed.tar.gz"), cwd=tmp_path)
    _run("tar", "-xf", "packed.tar.gz", cwd=tmp_path)
    folder = next(one for one in tmp_path.iterdir() if one.is_dir())
    for name in ("glibc/ld-linux-aarch64.so.1", "bin/mpiexec"):
        _aligned(folder / name)
    argv = ("/mnt/bin/mpiexec", "-n", "2", "/mnt/bin/stackproof-bench", "--benchmarks", "latency")
    argv += ("--sizes", "8", "--samples", "2", "--seconds-per-size", "0.001")
    said = _run(*armlab.inside(arm / "root", *argv, binds=((folder, "/mnt"),)))
    assert '"ok":true' in said.splitlines()[-1]
    said = _run(*pack, "-o", "none.tar.gz", cwd=tmp_path, code=3)
    assert "needs `libc.so.6`, which neither the image nor this machine has" in said
    assert "install it here for aarch64" in said


def test_this_machine_refuses_the_image(image: Path) -> None:
    """`run` says so before anything is mounted; without what images say, the program tells."""
    here = os.uname().machine
    stackproof = (sys.executable, "-m", "stackproof")
    assert "machine      aarch64\n" in _run(*stackproof, "inspect", image)
    for words in (("run", image, "--", "true"), ("start", image)):
        said = _run(*stackproof, *words, code=3)
        assert f"the image is for aarch64, and this machine is {here}" in said
    program = f"{MOUNT}/benchmarks/stackproof-bench"
    mount_exec = ROOT / "src" / "stackproof" / "mount" / "effects" / "mount_exec.py"
    said = _run(sys.executable, "-I", "-S", mount_exec, f"{image}:{MOUNT}", "--", program, code=126)
    assert f"`{program}` is a program for aarch64, and this is {here}" in said


# -------------------------------------------------------------------- what the loader would do


def test_the_model_finds_what_the_loader_finds(arm: Path) -> None:
    """Old subfolders, `$LIB` and `$PLATFORM`, a file of x86_64, the cache, and default folders."""
    root = arm / "root"
    lib = f"lib/{armlab.TRIPLET}"
    places = {
        "hwcap": ("libhwcap.so.1", "opt/lab/hw/atomics"),
        "platform": ("libplatform.so.1", "opt/lab/aarch64"),
        "token": ("libtoken.so.1", f"opt/lab/{lib}"),
        "passed": ("libpassed.so.1", "opt/lab/second"),
        "cached": ("libcached.so.1", "opt/cached"),
        "ordinary": ("libordinary.so.1", f"usr/{lib}"),
    }
    links = []
    for name, (file, folder) in places.items():
        place = root / folder / file
        text = _LIBRARY.replace("where", name).replace("PLACE", f'"{folder}"')
        _compiled(place, text, "-shared", "-fPIC", f"-Wl,-soname,{file}")
        links.append(place)
    for folder in ("opt/lab/hw", "opt/lab/first"):  # what is taken only where the model is wrong
        (root / folder).mkdir(exist_ok=True)
    shutil.copy(links[0], root / "opt/lab/hw/libhwcap.so.1")
    foreign = root / "opt/lab/first/libpassed.so.1"
    _run("gcc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-o", foreign)
    folders = ("hw", "$PLATFORM", "$LIB", "first", "second")
    runpath = ":".join(f"$ORIGIN/{folder}" for folder in folders)
    calls = "".join(f"const char *{name}(void);\n" for name in places)
    body = " ".join(f"puts({name}());" for name in places)
    program = _compiled(
        root / "opt/lab/program", f"#include <stdio.h>\n{calls}int main(void) {{ {body} return 0; }}",
        *links, f"-Wl,-rpath,{runpath}", "-Wl,--enable-new-dtags",
    )  # fmt: skip
    (root / "etc/ld.so.conf").write_text("/opt/cached\n")
    argv = [
        word if word != "--ro-bind" else "--bind" for word in armlab.inside(root, "/sbin/ldconfig")
    ]
    _run(*argv)
    inside = f"/{program.relative_to(root)}"
    loader = "/lib/ld-linux-aarch64.so.1"
    listed = _run(*armlab.inside(root, loader, "--list", inside))
    real = dict(re.findall(r"^\t(\S+) => (\S+) \(", listed, re.MULTILINE))
    view = RootView(str(root))
    closure = load_program(view, inside, machine=this_machine(), setting=LoaderSettings())
    assert not closure.missing
    found = {name: one.path for one in closure.objects[1:] for name in one.names}
    assert {name: os.path.normpath(found[name]) for name in real if name != loader} == {
        name: os.path.normpath(path) for name, path in real.items() if name != loader
    }
    answers = _run(*armlab.inside(root, inside)).split()
    assert answers == [folder for _, folder in places.values()]
    assert found["libcached.so.1"] == "/opt/cached/libcached.so.1"
    assert closure.passed_over == {"/opt/lab/first/libpassed.so.1": "x86_64, 64 bits"}


def test_programs_work_with_a_stack_of_their_machine_alone(
    arm: Path, image: Path, tmp_path: Path
) -> None:
    tree = image.with_name("tree")
    prefix = next(tree.glob("mpich-*"))
    (tmp_path / "p.c").write_text(_MPI_PROGRAM)
    stub = tmp_path / "libmpi.so.12"
    _run(
        "gcc", "-shared", "-nostdlib", "-Wl,-soname,libmpi.so.12", "-o", stub, "-x", "c", os.devnull
    )
    other = tmp_path / "other"
    loose = ("-Wl,--unresolved-symbols=ignore-all", "-Wl,--no-as-needed")
    _run("gcc", f"-I{prefix}/include", tmp_path / "p.c", *loose, stub, "-o", other)
    program = arm / "root" / "opt" / "mpi-program"
    options = (f"-I{prefix}/include", f"-L{prefix}/lib", "-lmpi", "-Wl,--allow-shlib-undefined")
    _compiled(program, _MPI_PROGRAM, *options)
    check = (sys.executable, "-m", "stackproof", "inject", "check", "--with", image)
    said = _run(*check, "/opt/mpi-program", "--root", arm / "root")
    assert said.startswith("/opt/mpi-program: works\n"), said
    folders = str(re.findall("LD_LIBRARY_PATH=(.*)", said)[0])
    argv = ("env", f"LD_LIBRARY_PATH={folders}", "/opt/mpi-program")
    mpiexec = f"{MOUNT}/{prefix.name}/bin/mpiexec"
    ranks = armlab.inside(arm / "root", mpiexec, "-n", "2", *argv, binds=((tree, MOUNT),))
    assert _run(*ranks) == "sum 3\n"
    said = _run(*check, other, code=ExitCode.WORSE)
    here = os.uname().machine
    assert f"the program is for {here}, and the replacement for aarch64" in said
