"""Command lines of README and of the pages, run as they stand there, one page in one folder.

Images are those of the shipped recipes, built once. A line that is not run says why; measuring
ones get what the page says in a comment, so that this takes minutes.
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

import documented
from documented import ROOT, Line
from need import need
from registries import OwnRegistry
from stackproof.bench.spec import parse_bench
from stackproof.core.cli.examples import OUTPUTS
from stackproof.core.document import parse

pytestmark = pytest.mark.machine

PAGES = {
    str(path.relative_to(ROOT)): [line for line in documented.lines_of(path) if not line.reason]
    for path in documented.pages()
}
IMAGES = ("mpich", "intel-mpi", "openmpi", "openmpi-5.0.8")
HELLO = (ROOT / "docs" / "tutorial" / "hello.c").read_text()
VIEWS = "views: {default: {}, tools: {set: {OMP_NUM_THREADS: '1'}}}\n"
# Codes that say something of this machine's numbers, or of steps that a person takes.
CODES = {"bench": {0, 8, 9}, "compare": {0, 8, 9}, "doctor": {0, 8, 9}, "inject check": {0, 10}}
BASE = f"registry.example.org/debian:12@sha256:{'0' * 64}"


class Shelf:
    """Images of the shipped recipes, and the environment of somebody who has stackproof."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # What a person saw of the last command: how it went on, then what it gave.
        self.screen = ""
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        bases = dict.fromkeys(("base", "devel", "runtime"), BASE)
        self.env = {**os.environ, **bases, "PATH": path, "XDG_RUNTIME_DIR": str(runtime)}

    def run(self, line: str, cwd: Path, codes: set[int] | None = None, **env: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line], cwd=cwd, env={**self.env, **env}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=560,
        )  # fmt: skip
        said = f"{line}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode in (codes or {0}), said
        assert "bug in stackproof" not in done.stderr, said
        self.screen = done.stderr + done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    need("network", "bubblewrap", "mksquashfs", "netns", "gcc", "root")
    found = Shelf(tmp_path_factory.mktemp("shelf"))
    for name in IMAGES:
        found.run(f"stackproof build --locked {name}", found.folder)
    (found.folder / "hello.c").write_text(HELLO)
    found.run("stackproof run mpich.squashfs -- mpicc -o hello hello.c", found.folder)
    yield found
    found.run("stackproof cluster down", found.folder)


# Each goes on where the one before it ended: those of `bench` and after it are about its results.
BY_IMAGES = (
    "build", "run", "inspect", "image ls", "inject check", "pack", "install", "inject container",
    "inject apply", "inject undo", "inject artefact", "inject prove", "doctor", "bench", "compare",
    "report", "activate", "start", "import", "cluster up", "cluster ls", "cluster status",
    "cluster exec", "cluster kill", "cluster down",
)  # fmt: skip
BY_LABELS = (
    "image add", "image inspect", "image sign", "image verify", "image fsck", "image prune",
    "image attach", "image push", "image copy", "image find", "image history", "image rollback",
    "image rm", "image pull", "image delete",
)  # fmt: skip
BY_QUICK_TESTS = (
    "check", "plan", "recipe ls", "recipe show", "explain", "site ls", "site show", "site check",
    "site probe", "site spack-config", "completion", "image containerfile", "image edf",
)  # fmt: skip
ELSEWHERE_SHOWN = {
    **dict.fromkeys(BY_QUICK_TESTS, "cli/test_usage.py"), "site place": "launch/test_places.py",
    "shell": "build/test_shell.py", "mirror create": "build/test_other_engine.py",
}  # fmt: skip
"""Outputs of commands that a test of their room compares, and where that is."""


def compare_output(shelf, place, command, **env):
    """Run the line that help shows with its output, and compare the two."""
    line, *text = OUTPUTS[command]
    told = shelf.run(f"{line.removeprefix('$ ')} 2>&1", place, CODES.get(command), **env)
    assert documented.is_like(text, told), f"{line}\n{told}"


def test_the_outputs_that_help_shows(shelf, tmp_path):
    for name in ("intel-mpi.squashfs", "hello"):
        shutil.copy(shelf.folder / name, tmp_path)
    osu_table(tmp_path)
    stackinator = ROOT / "recipes" / "stackinator"
    shutil.copytree(stackinator / "arbor-dev", tmp_path / "zen3")
    shutil.copy(stackinator / "sites" / "hohgant.yaml", tmp_path)
    for command in BY_IMAGES:
        compare_output(shelf, tmp_path, command)


def test_the_outputs_that_help_shows_of_labels(shelf, tmp_path):
    """A cache, a repository, a key and a registry of its own."""
    need("ssh-keygen")
    label = "mpich/5.0.2:v1@daint%zen2"
    shutil.copy(shelf.folder / "openmpi.squashfs", tmp_path)
    with OwnRegistry() as server:
        env = {
            "HOME": str(tmp_path), "STACKPROOF_REPOSITORY": str(tmp_path / "repo"),
            "STACKPROOF_CACHE": str(tmp_path / "cache"),
            "STACKPROOF_REGISTRY": f"{server.address}/images",
        }  # fmt: skip
        for line in (
            "stackproof build mpich",
            OUTPUTS["bench"][0].removeprefix("$ ").replace("intel-mpi", "openmpi"),
            "mkdir .ssh && ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519",
            """echo 'anna@example.org namespaces="stackproof-image"' $(cat .ssh/*.pub) > s""",
            "mv s .ssh/allowed_signers",
        ):
            shelf.run(line, tmp_path, **env)
        for command in BY_LABELS:
            if command == "image history":  # the label is given to another image
                shelf.run("stackproof image add o/1:1@daint%zen2 openmpi.squashfs", tmp_path, **env)
                shelf.run(f"stackproof image push o/1 deploy::{label} --force", tmp_path, **env)
            compare_output(shelf, tmp_path, command, **env)


def test_each_output_that_help_shows_is_compared():
    assert {*BY_IMAGES, *BY_LABELS, *ELSEWHERE_SHOWN} == set(OUTPUTS)
    for command, file in ELSEWHERE_SHOWN.items():
        assert f'"{command}"' in (ROOT / "tests" / file).read_text()


@pytest.fixture
def place(shelf, tmp_path):
    """Return a folder as a reader has it: recipes, images, a program."""
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    for path in shelf.folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).symlink_to(path)
    shutil.copy(shelf.folder / "hello", tmp_path / "app")
    return tmp_path


def run_page(shelf: Shelf, page: str, place: Path, **env: str) -> dict[str, str]:
    """Run the lines of a page and return what each printed; nothing of it is left up."""
    said = {}
    try:
        for line in PAGES[page]:
            verb = " ".join(re.findall(r"\S+", line.text)[1:3])
            codes = CODES.get(verb, CODES.get(verb.partition(" ")[0]))
            if any(text.endswith(": fails") for text in line.output):
                codes = {8}
            printed = shelf.run(_short(line), place, codes, **env)
            said[line.text] = printed
            missing = documented.shape_differences(line, shelf.screen)
            assert not missing, f"{line.place}: {line.text}: no {missing} in\n{shelf.screen}"
    finally:
        shelf.run("stackproof cluster down", place, **env)
    assert said, page
    return said


def _short(line: Line) -> str:
    measures = re.match(r"stackproof (bench|inject prove) ", line.text)
    return f"{line.text} {line.more}" if measures and line.more else line.text


def block(page: str, number: int = 0, kind: str = "yaml") -> str:
    """Return a block of a page with a file in it."""
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[number]


def write(path: Path, text: str) -> None:
    """Write a file in the place of a link, which leads to the shelf."""
    path.unlink(missing_ok=True)
    path.write_text(text)


def test_readme(shelf, place):
    """The page begins with nothing but a program; what it shows as printed is compared."""
    for name in ("mpich.squashfs", "hello"):
        (place / name).unlink()
    said = run_page(shelf, "README.md", place, STACKPROOF_CACHE=str(place / "cache"))
    assert (place / "results" / "report.html").is_file()
    (injected,) = (text for line, text in said.items() if "--inject" in line)
    assert sorted(injected.split("\n")) == ["", "rank 0 of 2", "rank 1 of 2"]


def test_tour(shelf, place, fabric_image):
    """libfabric is there: other tests have built it, and the line finds that nothing is to do."""
    (place / "hello").unlink()
    said = run_page(shelf, "docs/tutorial/tour.md", place)
    assert (place / "results" / "report.html").is_file()
    (lnx,) = (text for line, text in said.items() if "--transport lnx" in line)
    assert "5.0.8" in lnx
    assert (place / "libfabric.squashfs").read_bytes() == fabric_image.read_bytes()


def test_first_verdict(shelf, place):
    said = run_page(shelf, "docs/tutorial/first-verdict.md", place)
    assert "against intel-mpi" in said["stackproof compare results"]


def test_build_a_stack(shelf, place):
    page = "docs/how-to/build-a-stack.md"
    write(place / "mpich.yaml", block(page))
    run_page(shelf, page, place)
    assert (place / "mpich-4.3.squashfs").is_file()
    assert (place / "mpich.lock.json").is_file()


def test_run_with_an_image(shelf, place):
    page = "docs/how-to/run-with-an-image.md"
    (place / "mpich.squashfs").unlink()
    (place / "hello").unlink()
    write(place / "mpich.yaml", f"name: mpich\nmpi: {{family: mpich, version: '5.0.2'}}\n{VIEWS}")
    shelf.run("stackproof build mpich.yaml", place)
    views = "views: {default: {set: {GROMACS_GPUS: '2'}}}"
    write(place / "other.yaml", f"name: other\nmpi: {{family: mpich, version: '5.0.2'}}\n{views}\n")
    shelf.run("stackproof build other.yaml", place)
    said = run_page(shelf, page, place)
    assert "rank 1 of 2" in said["stackproof run mpich.squashfs -- mpiexec -n 2 ./hello"]


@pytest.mark.parametrize(
    "page",
    [
        "docs/how-to/cluster-on-one-machine.md",
        "docs/how-to/compare-transports.md",
        "docs/how-to/describe-a-site.md",
        "docs/how-to/inject-into-a-job.md",
        "docs/how-to/measure-until-decided.md",
        "docs/how-to/prove-an-injection.md",
        "docs/how-to/swap-the-mpi.md",
        "docs/how-to/use-stackinator-recipes.md",
    ],
)
def test_pages_that_need_nothing_more(shelf, place, page):
    run_page(shelf, page, place)


def test_compare_stacks(shelf, place):
    """The specification is the page's own, with less time for each size."""
    page = "docs/how-to/compare-stacks.md"
    write(place / "spec.yaml", f"{block(page)}samples: 10\nseconds-per-size: 0.01\n")
    run_page(shelf, page, place)
    assert (place / "report.html").is_file()


def test_halo_exchange(shelf, place):
    """The specification is the page's own, with a smaller lattice and fewer launches."""
    page = "docs/how-to/halo-exchange.md"
    small = block(page).replace("16x16x16x16", "4x4x4x4")
    write(place / "halo.yaml", f"{small}null-arm: false\nsamples: 5\n")
    said = run_page(shelf, page, place)["stackproof compare results --all"]
    for arm in ("mpich", "openmpi"):
        assert f"a halo exchange of {arm} at intra-node, the fastest way first:" in said
    assert "times as long as packed" in " ".join(said.split())


def test_read_a_report(shelf, place):
    printed = ROOT / "tests" / "captures" / "benchmarks" / "imb-mpich.txt"
    shelf.run(f"stackproof import {printed} --placement intra-node -o results", place)
    run_page(shelf, "docs/how-to/read-a-report.md", place)


def test_write_a_containerfile(shelf, place):
    (place / "mpich.squashfs").unlink()
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(ROOT / "recipes" / name, place)
    run_page(shelf, "docs/how-to/write-a-containerfile.md", place)
    assert BASE in (place / "Containerfile").read_text()


def test_carry_a_pack(shelf, place):
    said = run_page(shelf, "docs/how-to/carry-a-pack.md", place)
    assert "tier 0" in next(text for line, text in said.items() if "--explain" in line)
    lines = documented.others_of(ROOT / "docs/how-to/carry-a-pack.md")
    packed, installed = (one.text for one in lines if not one.reason)
    for text in (packed, installed):
        assert '"world_size":2' in shelf.run(text, place)
    assert (place / "app.tar.zst").is_file()


def test_debug_and_profile(shelf, place):
    """What attaches to a process is run by tests/mount/test_debuggers.py."""
    need("gdb", "strace")
    page = "docs/how-to/debug-and-profile.md"
    (place / "tool.c").write_text(block(page, kind="c"))
    said = run_page(shelf, page, place)
    both = [text for line, text in said.items() if "break MPI_Finalize" in line]
    # Two debuggers print at once, so that a line may begin behind another.
    assert [text.count(" in main (") for text in both] == [2, 2], both
    (judged,) = (text for line, text in said.items() if "inject check" in line)
    assert "it takes MPI_Finalize, MPI_Init" in judged
    (profiled,) = (text for line, text in said.items() if "-n 2 env LD_PRELOAD" in line)
    assert profiled.count("the tool saw 2 ranks") == 2


def test_disk_use(shelf, place):
    """In a cache of its own: at the end all of it is gone."""
    cache = {
        "STACKPROOF_CACHE": str(place / "cache"),
        "STACKPROOF_REPOSITORY": str(place / "repository"),
    }
    shelf.run("stackproof build mpich", place, **cache)
    said = run_page(shelf, "docs/how-to/disk-use.md", place, **cache)
    (listed,) = (text for line, text in said.items() if line.startswith("stackproof image ls . "))
    assert "intel-mpi 2021" in listed
    assert list((place / "cache" / "builds").iterdir()) == []


def test_label_images(shelf, place):
    """In a repository of its own."""
    own = {"STACKPROOF_REPOSITORY": str(place / "repository")}
    said = run_page(shelf, "docs/how-to/label-images.md", place, **own)
    assert "5.0.2" in said["stackproof run mpich/5.0.2 -- mpichversion"]


def test_move_from_uenv(shelf, place):
    """It begins without an image and without a repository, and adds the label itself."""
    (place / "mpich.squashfs").unlink()
    own = {"STACKPROOF_REPOSITORY": str(place / "repository")}
    run_page(shelf, "docs/how-to/move-from-uenv.md", place, **own)


def osu_table(place: Path, test: str = "MPI Bi-Directional Bandwidth") -> None:
    """Write a table as OSU prints it, as of a run of one's own."""
    rows = "".join(f"{1 << power:<10}{2.87 * (1 << power):>18.2f}\n" for power in range(23))
    head = f"# OSU {test} Test v7.1\n# Size      Bandwidth (MB/s)\n"
    (place / "osu.txt").write_text(head + rows)


def test_redo_a_pack_from_guix(shelf, place):
    page = "docs/tutorial/redo-guix-pack.md"
    run_page(shelf, page, place)
    lines = [one.text for one in documented.others_of(ROOT / page) if not one.reason]
    unpacked, ran = (shelf.run(text, place) for text in lines)
    assert unpacked == ""
    assert "# All processes entering MPI_Finalize" in ran
    assert (place / "graph.dot").read_text().startswith("// written by `stackproof plan")


def test_redo_mpich_in_a_container(shelf, place):
    osu_table(place, "MPI-CUDA Bandwidth")
    run_page(shelf, "docs/tutorial/redo-mpich-container.md", place)
    assert len((place / "mpich-gpu" / "Containerfile").read_text().split("\n")) < 80
    definition = (place / "osu_gpu.toml").read_text()
    assert 'MPIR_CVAR_CH4_OFI_ENABLE_HMEM = "1"' in definition
    assert 'com.hooks.cxi.enabled = "true"' in definition


def test_redo_eessi_on_slingshot(shelf, place):
    osu_table(place)
    page = "docs/tutorial/redo-eessi-slingshot.md"
    write(place / "olivia.yaml", block(page))
    said = run_page(shelf, page, place)
    chain = said["stackproof plan olivia.yaml --site olivia-gh200"]
    built = re.findall(r"^component +([A-Za-z-]+)/", chain, re.MULTILINE)
    named = {
        "libuv",
        "libnl",
        "libconfig",
        "libfuse",
        "libcxi",
        "lm-sensors",
        "libfabric",
        "OpenMPI",
    }
    assert named - set(built) == set()
    assert "left out     libpdap" in chain
    shelf.run("stackproof build --stop-after lock olivia.yaml --site olivia-gh200", place)
    (lock,) = place.glob("olivia*.lock.json")
    components = {one["name"]: one["text"] for one in json.loads(lock.read_text())["components"]}
    modules = (
        "/cvmfs/software.eessi.io/versions/2023.06/software/linux/aarch64/nvidia/grace/software"
    )
    for words in (  # the blog's line
        f"--with-hwloc={modules}/hwloc/2.9.1-GCCcore-12.3.0",
        f"--with-libevent={modules}/libevent/2.1.12-GCCcore-12.3.0",
        f"--with-pmix={modules}/PMIx/4.2.4-GCCcore-12.3.0",
        f"--with-ucx={modules}/UCX/1.14.1-GCCcore-12.3.0",
        f"--with-ucc={modules}/UCC/1.2.0-GCCcore-12.3.0",
        "--with-prrte=internal --", "--with-slurm", "--enable-mpi-ext=cuda", "--with-cuda=/cvmfs",
    ):  # fmt: skip
        assert words in components["OpenMPI"], words
    assert f"--with-gdrcopy={modules}/GDRCopy/2.3.1-GCCcore-12.3.0" in components["libfabric"]


def test_redo_openmpi_with_lnx(shelf, place):
    page = "docs/tutorial/redo-openmpi-lnx.md"
    write(place / "cug.yaml", block(page))
    run_page(shelf, page, place)
    shelf.run("stackproof check cug.yaml --site lumi-g", place)
    assert "mended by g2g.patch" in shelf.screen
    assert "not here: `g2g.patch`, which the recipe names, is not beside" in shelf.screen
    spec = parse_bench(parse(block(page, 1), file="bench.yaml"))
    assert [arm.name for arm in spec.challengers] == ["lnx", "cxi", "shm"]
    assert {arm.launcher for arm in spec.challengers} == {"mpirun"}
    spec = parse_bench(parse(block(page, 2), file="containers.yaml"))
    assert [arm.bind for arm in spec.challengers] == ["none", "hybrid"]


def test_redo_user_environments(shelf, place):
    own = {"STACKPROOF_REPOSITORY": str(place / "repository")}
    said = run_page(shelf, "docs/tutorial/redo-uenv-stack.md", place, **own)
    assert "rank 1 of 2" in said["stackproof run mpich.squashfs -- mpiexec -n 2 ./hello"]
    assert (place / "apps" / "stacks" / "mpich" / "bin" / "mpiexec").exists()


ELSEWHERE = {
    "docs/how-to/first-day.md": "tests/site/test_missing_slurm.py",
    "docs/how-to/share-images.md": "tests/share/test_remote_verbs.py",
}
"""Pages whose lines want a machine that a test of their room has, and where that is."""


def test_every_page_with_lines_that_are_run_has_its_test():
    text = Path(__file__).read_text()
    assert [page for page, lines in PAGES.items() if lines and f'"{page}"' not in text] == []
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (documented.ROOT / test).read_text()
