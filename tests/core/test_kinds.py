"""Files of the field in the place of ours: each is one problem, and valid files of ours are none.

The texts are our own, in the forms that the programs' manuals have.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

import pytest

import inprocess
from stackproof.core import kinds

ROOT = Path(__file__).parents[2]
FILES = {
    "spack.yaml": ("an environment of Spack", "spack:\n  specs: [mpich@4.2]\n  view: false\n"),
    "packages.yaml": (
        "packages.yaml of Spack",
        "# site\npackages:\n  mpich:\n    buildable: false\n    externals:\n    - {spec: mpich@4}\n",
    ),
    "template.yaml": (
        "an environment of Spack",
        "{%- set mpi = 'mpich' %}\nspack:\n  specs:\n  - {{ mpi }}\n{%- if x %}\n  - hdf5\n{%- endif %}\n",
    ),
    "concretizer.yaml": ("configuration file of Spack", "concretizer:\n  unify: true\n"),
    "spack.lock": ("lock of Spack", '{"_meta":{"file-type":"spack-lockfile","version":5}}'),
    "fabric-1.0.eb": ("an easyconfig", (
        "easyblock = 'ConfigureMake'\nname = 'fabric'\nversion = '1.0'\n\nhomepage = 'https://h'\n"
        "description = '''\nLong: text\n'''\ntoolchain = SYSTEM\nsources = [\n    'f.tar.gz',\n]\n")
    ),
    "Dockerfile": ("Dockerfile", "# syntax=docker/dockerfile:1\nARG V=12\nFROM debian:$V\nRUN id\n"),
    "Containerfile": ("Containerfile", "FROM debian:12\n"),
    "lab.def": ("definition file of Apptainer", "Bootstrap: docker\nFrom: debian:12\n%post\n  id\n"),
    "lab.toml": (
        "an environment definition (EDF)",
        'image = "/store/lab.sqsh"\nmounts = [\n"/scratch:/scratch",\n]\n[annotations]\na.b = "c"\n',
    ),
    "job.sh": (
        "a batch script of Slurm",
        "#!/bin/bash -l\n#SBATCH --nodes=2\n#SBATCH -t 5\nmodule load mpi\nsrun ./heat\n",
    ),
    "job.pbs": ("a batch script of PBS", "#!/bin/sh\n#PBS -l select=2\nmpiexec ./heat\n"),
    "all.sh": ("a script", "#!/usr/bin/env bash\nset -e\nfor i in 1 2; do\n  ./heat $i\ndone\n"),
    "config.yaml": ("a file of a Stackinator recipe", "name: lab\nstore: /env\nspack: {commit: x}\n"),
    "environments.yaml": (
        "a file of a Stackinator recipe",
        "tools:\n  compiler: [gcc]\n  unify: true\n  specs: [git]\n",
    ),
    "lab.yaml": ("a site", "name: lab\nfabric:\n  type: ethernet\nos: debian\n"),
    "mpich.yaml": ("a recipe", "name: lab\nmpi: {implementation: mpich, version: '5.0'}\n"),
    "heat.yaml": ("a specification of `bench`", "baseline: a.squashfs\nchallengers: [b.squashfs]\n"),
    "mpich.lock.json": ("a lock of stackproof", '{\n "schema": "stackproof/lock/1",\n "a": 1\n}\n'),
    "here.json": ("a capture", '{\n "schema": "stackproof/capture/1"\n}\n'),
    "env.txt": ("environment variables", "HOME=/h\nPATH=/bin\nFI_PROVIDER=tcp\n"),
    "conda.yml": ("environment of conda", "name: a\nchannels: [c]\ndependencies: [mpich]\n"),
    "slurm.conf": ("configuration of Slurm", "ClusterName=lab\nNodeName=n[1-2] CPUs=4\n"),
    "osu.txt": (
        "the output of a benchmark",
        "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n8   1.02\n",
    ),
    "bare.txt": ("the output of a benchmark", "OSU MPI Latency Test v7.3\nSize Latency (us)\n8  1\n"),
    "a.squashfs": ("a SquashFS image", "hsqs" + "\0" * 200),
    "hello.c": ("C or C++ source", "/* x */\n#include <mpi.h>\nint main(void) { return 0; }\n"),
    "hello.f90": ("Fortran source", "program hello\n  use mpi\n  implicit none\nend program\n"),
    "hello.py": ("a program in Python", "from mpi4py import MPI\nprint(MPI.COMM_WORLD.rank)\n"),
    "prog": ("a program", "\x7fELF\2\1\1" + "\0" * 200),
    "a.sif": ("an image of Apptainer", "#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0" + "\0" * 99),
}  # fmt: skip
VERBS: dict[str, tuple[str, ...]] = {
    "recipe": ("check", "--offline", "{}"),
    "plan": ("plan", "{}"),
    "site": ("site", "check", "{}"),
    "bench": ("bench", "{}", "-o", "out"),
    "output": ("import", "-o", "out", "--placement", "intra-node", "{}"),
    "log": ("doctor", "--log", "{}"),
    "results": ("compare", "{}"),
    "image": ("doctor", "{}"),
    "capture": ("site", "probe", "--from", "{}"),
}
WANTED = {"plan": "recipe"}
# What a verb takes, and an image that is only the first bytes of one.
TAKEN = {
    ("recipe", "mpich.yaml"), ("plan", "mpich.yaml"), ("site", "lab.yaml"), ("bench", "heat.yaml"), ("log", "osu.txt"),
    ("log", "hello.c"), ("log", "hello.f90"), ("log", "hello.py"), ("log", "bare.txt"), ("output", "osu.txt"), ("output", "bare.txt"), ("image", "a.squashfs"),
    ("capture", "here.json"),
}  # fmt: skip


def _asked(verb: str, path: Path) -> subprocess.CompletedProcess[str]:
    return inprocess.stackproof(*(word.format(path) for word in VERBS[verb]), cwd=path.parent)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_file_of_another_kind_is_one_problem(verb, name, tmp_path):
    kind, text = FILES[name]
    path = tmp_path / "named-otherwise"
    path.write_bytes(text.encode())
    if (verb, name) in TAKEN:
        assert kinds.problem(kinds.kind_of_file(text.encode()), WANTED.get(verb, verb), "f") is None
        return
    done = _asked(verb, path)
    assert done.stderr.count("error:") == 1, done.stderr
    assert re.search(rf"error: this is .*{re.escape(kind)}.*, not ", done.stderr), done.stderr
    assert f"  --> {path}\nhint: " in done.stderr
    assert done.returncode == (6 if verb == "image" else 3)


@pytest.mark.parametrize("name", ["bench.json", "report.html", "nowhere.json", "launches/1.json"])
def test_a_file_in_a_results_folder_names_the_folder(name, tmp_path):
    (tmp_path / "results/launches").mkdir(parents=True)
    for file in ("bench.json", "report.html", "launches/1.json"):
        (tmp_path / "results" / file).write_text("{}")
    for words in (("compare",), ("report",), ("doctor", "--results")):
        done = inprocess.stackproof(*words, f"results/{name}", cwd=tmp_path)
        assert done.returncode == 3
        assert done.stderr.endswith("hint: give the folder: `results`\n")


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["spack.yaml", "spack.lock"], "an environment of Spack"),
        (["Dockerfile"], "a Dockerfile"),
        (["lab-1.0.eb", "README.md"], "an easyconfig"),
        (["bench.json", "launches"], "a results folder"),
        (["packages.yaml", "network.yaml"], "a site of Stackinator"),
        (["oci-layout", "index.json"], "a container image"),
    ],
)
def test_a_folder_of_another_kind_is_one_problem(names, kind, tmp_path):
    for name in names:
        (tmp_path / name).write_text("")
    for verb in ("recipe", "plan", "site", "bench", "output", "image"):
        done = _asked(verb, tmp_path)
        assert done.stderr.count("error:") == 1
        assert f"error: this is {kind}" in done.stderr, (verb, done.stderr)


OLD = {
    "config.yaml": "name: lab\nstore: /user-environment\nsystem: lab\nspack: {commit: abc}\n",
    "compilers.yaml": "compilers:\n  bootstrap: {specs: [gcc@11]}\n  gcc: {specs: [gcc@12]}\n",
    "packages.yaml": textwrap.dedent("""\
        packages:
          tools:
            compiler: {toolchain: gcc, spec: gcc@12}
            specs:
            - git
        """),
}


@pytest.mark.parametrize("told", ["packages.yaml", "compilers.yaml"])
def test_a_stackinator_folder_of_2023_is_told_as_a_whole(told, tmp_path):
    for name in ("config.yaml", told):
        (tmp_path / name).write_text(OLD[name])
    done = _asked("recipe", tmp_path)
    assert done.stderr.count("error:") == 1
    assert "an old recipe of Stackinator" in done.stderr
    (tmp_path / "environments.yaml").write_text("tools: {specs: [git]}\n")
    assert "old recipe" not in _asked("recipe", tmp_path).stderr


OURS = {
    "recipe": ("recipes/*.yaml", "recipes/spack/*.yaml", "tests/documents/valid/recipe-*.yaml"),
    "site": ("sites/*.yaml", "recipes/*/sites/*.yaml", "tests/documents/valid/site-*.yaml"),
    "bench": ("demo/*.yaml", "tests/documents/valid/bench-*.yaml"),
    "log": ("tests/doctor/corpus/**/*.txt",),
}


@pytest.mark.parametrize(("wanted", "pattern"), [(k, one) for k in OURS for one in OURS[k]])
def test_no_file_of_ours_is_taken_for_another(wanted, pattern):
    paths = [*ROOT.glob(pattern)]
    assert paths
    for path in paths:
        content = path.read_bytes()
        assert kinds.problem(kinds.kind_of_file(content), wanted, str(path)) is None, path
        # With what people add or break, a file of ours is still none of another program.
        broken = b"# Benchmarking mpich\n# OSU MPI Latency Test\n" + content
        broken += b"\nspack: {}\nunknown: 1\n"
        assert kinds.problem(kinds.kind_of_file(broken), wanted, str(path)) is None, path


def test_no_stackinator_folder_of_ours_is_taken_for_another():
    configs = [*(ROOT / "tests/documents/stackinator/recipes").glob("*/config.yaml")]
    assert configs
    for config in configs:
        names = [path.name for path in config.parent.iterdir()]
        told = [name for name in kinds.TOLD_BY if name in names]
        texts = {name: (config.parent / name).read_bytes() for name in told}
        assert kinds.kind_of_folder(names, texts) == "stackinator", config


def test_a_script_with_the_output_of_its_job_is_a_log():
    script = FILES["job.sh"][1]
    for said in ("srun: error: n1: task 0: Killed\n", "n1: rank 0 done\n", "Heat 1.02\n"):
        kind = kinds.kind_of_file((script + said).encode())
        configured = b"Configuration data\nClusterName             = lab\n" + said.encode()
        assert kinds.kind_of_file(configured) == ""
        assert kinds.problem(kind, "log", "f") is None
        assert "this is a script" in str(kinds.problem(kind, "recipe", "f"))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 5000, b"\n" * 5000, b"#" * 99, b"- ", b"a", b":\n", b"\xff\xfe\0", b" x",
        b"a:" * (1 << 19), b"x=" * (1 << 19), b"# OSU " + b"x" * (1 << 20), b"[" * (1 << 20),
        b"spack:\n\0", b"a\n" * (1 << 19), b"a: 1\n" * (1 << 17), b"{" * 9999, b"FRO", b"---\n",
        b"\xef\xbb\xbfname\n", b"[\n" * 9, bytes(range(256)) * 4096,
    ],
    ids=lambda content: str(content[:9]),
)  # fmt: skip
def test_hostile_contents_have_no_kind(content):
    assert kinds.kind_of_file(content) == ""


def test_a_long_or_unreadable_file_is_told_by_its_head(tmp_path):
    image = tmp_path / "a"
    image.write_bytes(b"hsqs")
    with image.open("r+b") as stream:
        stream.truncate(1 << 33)
    assert "this is a SquashFS image" in _asked("recipe", image).stderr
    assert "this is a SquashFS image" in _asked("log", image).stderr
    assert "does not exist" in _asked("site", tmp_path / "none").stderr
