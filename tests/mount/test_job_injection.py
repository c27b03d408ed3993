"""`--inject` of run, start and activate: an MPI under the programs of a job, judged first."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from elflab import Lab
from images import MOUNT, env_json
from mounting import Way, way
from need import need

COVERS = (
    "inject/effects/job.py",
    "inject/effects/job_judge.py",
    "inject/effects/job_key.py",
    "mount/effects/job_mpi.py",
    "mount/effects/other_mpi.py",
    "mpi/requirement.py",
)

USES_MPICH = "void MPI_Recv(int); void use(void) { MPI_Recv(0x4c000405); MPI_Recv(0x4c00080b); }\n"
EVERY = ["MPI_Init", "MPI_Recv", "MPI_Get_count", "MPII_Win_get_attr"]


class Job:
    """Images and prefixes in a folder, and `stackproof` called there."""

    def __init__(self, mounter: Way) -> None:
        self.mounter = mounter
        self.folder = mounter.real_folder
        self.lab = Lab(self.folder)
        (self.folder / "cache").mkdir(mode=0o755)
        if mounter.private:  # it runs as nobody, whose own the cache must be
            os.chown(self.folder / "cache", 65534, 65534)

    def __call__(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.mounter.argv(*self.mounter.stackproof, *words),
            capture_output=True, text=True, timeout=600, check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/",
                 "STACKPROOF_CACHE": str(self.mounter.folder / "cache"), **environment},
        )  # fmt: skip

    def prefix(self, name: str, library: str = "libmpi.so.12", lacks: str = "") -> Path:
        """Make the prefix of an MPICH."""
        defines = [function for function in EVERY if function != lacks]
        self.lab.library(f"{name}/lib/{library}", defines=defines)
        return self.folder / name

    def image(self, name: str, tree: Path, meta: dict[str, object]) -> None:
        (tree / "meta").mkdir(exist_ok=True)
        (tree / "meta" / "env.json").write_text(json.dumps(meta))
        target = self.folder / f"{name}.squashfs"
        argv = ["mksquashfs", tree, target, "-all-root", "-noappend", "-no-progress", "-quiet"]
        subprocess.run(argv, check=True, timeout=600, capture_output=True)
        target.chmod(0o644)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return made(way("kernel", tmp_path))


def made(mounter: Way) -> Job:
    """Return an image with an MPICH and a program for it, `app.squashfs`, and prefixes.

    `new` works, `gone` lacks a function, `named` has another name.
    """
    need("gcc")
    job = Job(mounter)
    job.prefix("app/mpich")
    job.lab.program(
        "app/bin/solver", needs=["app/mpich/lib/libmpi.so.12"], calls=["MPI_Init", "MPI_Get_count"],
        declarations=USES_MPICH,
    )  # fmt: skip
    (job.folder / "app/bin/hello").write_text("#!/bin/sh\necho hello\n")
    (job.folder / "app/bin/hello").chmod(0o755)
    values = {
        "list": {
            "PATH": [{"op": "prepend", "value": [f"{MOUNT}/bin"]}],
            "LD_LIBRARY_PATH": [{"op": "prepend", "value": [f"{MOUNT}/mpich/lib"]}],
        },
        "scalar": {"FI_PROVIDER_PATH": f"{MOUNT}/mpich/lib/libfabric"},
    }
    view = {"root": f"{MOUNT}/env", "env": {"version": 1, "type": "augment", "values": values}}
    job.image("app", job.folder / "app", env_json(views={"default": view}))
    job.prefix("new")
    job.prefix("gone", lacks="MPI_Get_count")
    job.prefix("named", "libmpich.so.12")
    return job


def error(done: subprocess.CompletedProcess[str]) -> int:
    assert done.stdout == ""
    assert done.stderr.startswith("error: "), done.stderr
    return done.returncode


def answers(done: subprocess.CompletedProcess[str]) -> set[str]:
    """Return who answered the program's calls, after a good end."""
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[2] for row in rows if row[0] == "answer"}


@pytest.mark.parametrize("how", ["kernel", "fuse"])
def test_the_program_is_answered_by_what_is_injected(job: Job, how: str) -> None:
    if how == "fuse":
        need("squashfuse", "fuse")
    app = ("run", "app.squashfs", "--how", how)
    assert answers(job(*app, "--", "solver")) == {"app/mpich/lib/libmpi.so.12"}
    for words in (
        [*app, "--inject", "new"],
        ["run", "--how", how, "--inject", "new", "app.squashfs"],
    ):
        assert answers(job(*words, "--", "solver")) == {"new/lib/libmpi.so.12"}


def test_a_library_of_another_name_gets_a_link(job: Job) -> None:
    for _ in range(2):  # the second time from what is kept
        done = job("run", "app.squashfs", "--inject", "named", "--", "solver")
        assert answers(done) == {"named/lib/libmpich.so.12"}


def test_an_injection_that_fails_starts_nothing(job: Job) -> None:
    for _ in range(2):
        done = job("run", "app.squashfs", "--inject", "gone", "--", "solver")
        assert error(done) == 8
        assert "MPI_Get_count" in done.stderr


def test_what_is_kept_is_for_the_same_files_alone(job: Job) -> None:
    words = ("activate", "app.squashfs", "--inject", "new")
    assert job(*words).returncode == 0
    kept = sorted((job.folder / "cache" / "injections").iterdir())
    assert job(*words).returncode == 0
    assert sorted((job.folder / "cache" / "injections").iterdir()) == kept
    shutil.copy(job.folder / "gone/lib/libmpi.so.12", job.folder / "new/lib/libmpi.so.12")
    assert error(job(*words)) == 8


def test_activate_says_what_to_set(job: Job) -> None:
    done = job("activate", "app.squashfs", "--inject", "new", "--json")
    data = json.loads(done.stdout)
    assert data["set"]["LD_LIBRARY_PATH"] == f"{job.folder}/new/lib:{MOUNT}/mpich/lib"
    assert data["mounts"] == f"{job.folder}/app.squashfs:{MOUNT}"


def test_programs_that_nobody_can_judge_need_a_word(job: Job) -> None:
    meta = env_json(name="bare", mount="/user-bare", views={}, mpi=None)
    (job.folder / "bare").mkdir()
    job.image("bare", job.folder / "bare", {**meta, "default-view": None})
    words = ("run", "bare.squashfs", "--inject", "new")
    assert error(job(*words, "--", "true")) == 9
    assert job(*words, "--accept-unknown", "--", "true").returncode == 0
    solver = str(job.folder / "app/bin/solver")
    assert answers(job(*words, "--", "env", solver)) == {"new/lib/libmpi.so.12"}


def outside(job: Job, library: str = "libmpich.so.12") -> str:
    """Make a program of this machine with an MPI of its own, and return its path."""
    job.prefix("host", library)
    return job.lab.program(
        "host/bin/outside", needs=[f"host/lib/{library}"], calls=["MPI_Init", "MPI_Get_count"],
        declarations=USES_MPICH, flags=[f"-Wl,-rpath,{job.folder}/host/lib"],
    )  # fmt: skip


def test_a_program_that_takes_another_mpi_is_named(job: Job) -> None:
    """The line that is printed puts the image's own MPI under it, which says nothing more."""
    program = outside(job)
    for start in ([], ["env"], ["nice", "-n", "1"]):
        done = job("run", "app.squashfs", "--", *start, program)
        assert answers(done) == {"host/lib/libmpich.so.12"}
        line = shlex.join(["stackproof", "run", "app.squashfs", "--inject", "app.squashfs", "--",
                           *start, program])  # fmt: skip
        assert done.stderr == (
            f"note: `{program}` takes libmpich.so.12 from {job.folder}/host/lib/libmpich.so.12, "
            f"not from the image; to run it on the image's MPI: `{line}`\n"
        )
        done = job(*shlex.split(line)[1:])
        assert (answers(done), done.stderr) == ({"app/mpich/lib/libmpi.so.12"}, "")
    program = outside(job, "libmpi_cray.so.12")
    (job.folder / "host/lib/libmpi_cray.so.12").unlink()
    done = job("run", "app.squashfs", "--", program)
    assert f"`{program}` finds no libmpi_cray.so.12, not" in done.stderr


def test_a_program_of_another_abi_is_to_be_compiled(job: Job) -> None:
    program = outside(job, "libmpi.so.40")
    done = job("run", "app.squashfs", "--", program)
    assert answers(done) == {"host/lib/libmpi.so.40"}
    assert "is of another ABI: compile it with the image's mpicc" in done.stderr
    assert "--inject" not in done.stderr


@pytest.mark.parametrize("case", ["own", "read", "rank", "no view", "inject", "of the image"])
def test_nothing_is_said_where_all_is_right(job: Job, case: str) -> None:
    program = outside(job, "libmpi.so.12" if case == "own" else "libmpich.so.12")
    words = {"read": ["head", "-c", "1", program], "of the image": ["solver"]}.get(case, [program])
    options = {"no view": ["--no-view"], "inject": ["--inject", "new"]}.get(case, [])
    more = {"PMI_RANK": "1"} if case == "rank" else {}
    done = job("run", "app.squashfs", *options, "--join", "no", "--", *words, **more)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_damaged_program_is_only_started(job: Job, tmp_path: Path) -> None:
    for number, text in enumerate(
        (b"\x7fELF libmpi", b"\x7fELF\2\1\1" + b"\xff" * 400 + b"libmpi")
    ):
        program = job.folder / f"damaged{number}"
        program.write_bytes(text)
        program.chmod(0o755)
        done = job("run", "app.squashfs", "--", str(program))
        assert done.returncode in {2, 126, 127}
        assert "note: " not in done.stderr
        assert "bug" not in done.stderr


@pytest.mark.parametrize(
    ("family", "version"), [("nobody's", "1"), ("openmpi", "\u00b2"), ("openmpi", "9" * 5000)]
)
def test_an_image_of_an_mpi_that_nobody_knows_is_only_mounted(
    job: Job, family: str, version: str
) -> None:
    program = outside(job)
    tree = job.folder / "odd"
    tree.mkdir()
    mpi = {"family": family, "version": version, "prefix": MOUNT, "launcher": "hydra"}
    job.image("odd", tree, env_json(mpi=mpi))
    done = job("run", "odd.squashfs", "--", program)
    assert answers(done) == {"host/lib/libmpich.so.12"}
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


def test_an_image_is_mounted_beside(job: Job) -> None:
    mpi = {"family": "mpich", "version": "5.0.2", "prefix": "/built/there", "launcher": "hydra"}
    values = {"list": {"PATH": [{"op": "prepend", "value": ["/built/there/bin"]}]}, "scalar": {}}
    view = {"root": "/built/there", "env": {"version": 1, "type": "augment", "values": values}}
    meta = env_json(name="new", mount="/built/there", mpi=mpi, views={"default": view})
    job.image("new", job.folder / "new", meta)
    for place in ("", ":/user-other"):
        words = ("run", "app.squashfs", "--inject", f"new.squashfs{place}", "--", "sh", "-c")
        done = job(*words, "solver && echo $PATH $LD_LIBRARY_PATH")
        assert answers(done) == {"new/lib/libmpi.so.12"}
        path, libraries = done.stdout.splitlines()[-1].split()
        point = place[1:] or "/built/there"
        assert path.startswith(f"{point}/bin:{MOUNT}/bin:")
        assert libraries == f"{point}/lib:{MOUNT}/mpich/lib"


@pytest.mark.parametrize(
    ("family", "code", "text"),
    [
        ("openmpi", 8, "are for the mpich ABI, and"),
        ("cray-mpich", 6, "two images at"),
        ("lam", 6, "two images at"),  # nobody here knows its ABI
    ],
)
@pytest.mark.parametrize("verb", [["activate"], ["run", "--how", "kernel"], ["run"]])
def test_the_abi_is_told_before_the_place(
    job: Job, verb: list[str], family: str, code: int, text: str
) -> None:
    """Of two images at one place, those of other ABIs would not work at any other."""
    mpi = {"family": family, "version": "5.0.8", "prefix": MOUNT, "launcher": "prte"}
    job.image("new", job.folder / "new", env_json(name="new", mpi=mpi))
    end = [] if verb == ["activate"] else ["--", "solver"]
    done = job(*verb, "app.squashfs", "--inject", "new.squashfs", *end)
    assert error(done) == code
    assert text in done.stderr.splitlines()[0]
    assert "RPATH" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--inject", "nowhere"], 6),
        (["--inject", ""], 2),
        (["--inject", "/dev/null"], 3),
        (["--inject", "empty"], 3),
        (["--inject", "new,gone"], 2),
        (["--inject", f"app.squashfs:{MOUNT}"], 6),
        (["--inject", "app/bin"], 3),
        (["--inject", "facts.json"], 3),
        (["--accept-unknown"], 2),
        (["--inject", "artefact"], 2),
    ],
)
def test_wrong_words(job: Job, words: list[str], code: int) -> None:
    (job.folder / "facts.json").write_text("{}")
    (job.folder / "empty").write_text("")
    (job.folder / "artefact" / "meta").mkdir(parents=True)
    (job.folder / "artefact" / "meta" / "artefact.json").write_text("{}")
    assert error(job("activate", "app.squashfs", *words)) == code


def test_none_takes_no_injection(job: Job) -> None:
    assert error(job("activate", "none", "--inject", "new")) == 2


LAUNCHER = """
#include <stdio.h>
#include <unistd.h>
const char *prte_init(void);
int main(int count, char **words) {
    printf("launcher %s\\n", prte_init());
    fflush(stdout);
    return count > 3 ? execvp(words[3], words + 3) : 0;
}
"""
USES_OPENMPI = "extern int ompi_mpi_comm_world[]; int *use(void) { return ompi_mpi_comm_world; }\n"


def launched(job: Job) -> list[str]:
    """Make two Open MPI, `mine` and `other`, each with its launcher; return how to inject one."""
    lab = job.lab
    for name in ("mine", "other"):
        own = [f"-Wl,--enable-new-dtags,-rpath,{lab.path(f'{name}/lib')}"]
        lab.library(f"{name}/lib/libprrte.so.3", defines=["prte_init"])
        lab.library(
            f"{name}/lib/libmpi.so.40", defines=["MPI_Init"], data=[("ompi_mpi_comm_world", 8)],
            needs=[f"{name}/lib/libprrte.so.3"], flags=own,
        )  # fmt: skip
        (job.folder / name / "bin").mkdir()
        lab._gcc(
            lab._source(LAUNCHER, "c"), lab.path(f"{name}/lib/libprrte.so.3"), *own,
            lab.path(f"{name}/bin/mpiexec"),
        )  # fmt: skip
    lab.program(
        "ranks", needs=["mine/lib/libmpi.so.40"], calls=["MPI_Init"], declarations=USES_OPENMPI,
        flags=[f"-Wl,--enable-new-dtags,-rpath,{lab.path('mine/lib')}"],
    )  # fmt: skip
    return ["run", "app.squashfs", "--no-view", "--inject", "other", "--"]


@pytest.mark.parametrize("how", ["by itself", "kept"])
def test_a_launcher_stays_itself(job: Job, how: str) -> None:
    """What its ranks need would make another launcher of it: they alone get it."""
    start = launched(job)
    mine, ranks = job.lab.path("mine/bin/mpiexec"), job.lab.path("ranks")
    if how == "kept":
        job(*start, mine, "-n", "2", ranks)
    done = job(*start, mine, "-n", "2", ranks)
    assert answers(done) == {"other/lib/libmpi.so.40"}
    assert "launcher mine/lib/libprrte.so.3\n" in done.stdout
    own = job(*start, "mpiexec", "-n", "2", ranks)  # found first: it is of what is injected
    assert "launcher other/lib/libprrte.so.3\n" in own.stdout
    assert answers(own) == {"other/lib/libmpi.so.40"}
    place = job.mounter.folder / "other/bin/mpiexec"
    assert own.stderr == f"note: `mpiexec` is that of the injected MPI: `{place}`\n"


def test_a_launcher_whose_program_is_not_named_is_refused(job: Job) -> None:
    start = launched(job)
    words = (*start, job.lab.path("mine/bin/mpiexec"), "-n", "2", "./script")
    shutil.copy(job.lab.path("ranks"), job.folder / "app" / "bin" / "ranks")
    job.image("app", job.folder / "app", json.loads((job.folder / "app/meta/env.json").read_text()))
    done = job(*words)
    assert error(done) == 8
    assert "the variables are for the ranks alone" in done.stderr


def test_a_launcher_of_another_mpi_is_refused(job: Job) -> None:
    """It would start jobs of one rank each."""
    start = launched(job)
    start[start.index("other")] = "new"
    done = job(*start, job.lab.path("mine/bin/mpiexec"), "-n", "2", job.lab.path("app/bin/solver"))
    assert error(done) == 8
    assert "`prte` would start N jobs of one rank each" in done.stderr
