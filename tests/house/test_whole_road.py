"""The whole road, once, on the real machine, by the commands that a user types.

One image of each MPI is built, and everything after it works with that image: it is inspected, run,
measured, packed, injected, shared and started by Slurm. This is the only file of the gate that uses
what the machine has one of; the battery tries every part of the road by itself, with its faults.
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
from selenium import webdriver

from need import need
from registries import docker_registry
from stackproof.bench.programs import native
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Output

ROOT = Path(__file__).resolve().parents[2]
# A machine with busy processes beside the tests takes many times as long.
PATIENCE_S = 1200
CLUSTER = f"road-{os.getpid()}"
HELLO = """#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, size, length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_library_version(name, &length);
    printf("rank %d of %d %.9s\\n", rank, size, name);
    MPI_Finalize();
    return 0;
}
"""
DRAW = """
const done = arguments[0];
stackproofReport.ready.then(() => stackproofReport.drawAll()).then(() => done(true), done);
"""
WORLD = ["rank 0 of 2", "rank 1 of 2"]
SPEC = {
    "baseline": {"image": "mpich.squashfs"},
    "challengers": [{"image": "openmpi.squashfs"}],
    "null-arm": False,
    "benchmarks": ["latency"],
    "sizes": [8, 4096],
    "placements": ["inter-node"],
    "launches": 1,
    "samples": 5,
    "seconds-per-size": 0.005,
    "timeout": 600,
    "cluster": CLUSTER,
}


class Road:
    """A folder of somebody who has stackproof, with an image of each MPI and a program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        # Open MPI asks root twice, and does not start two ranks on one core by itself.
        root = {f"{name}_ALLOW_RUN_AS_ROOT{more}": "1" for name in ("OMPI", "PRTE")
                for more in ("", "_CONFIRM")}  # fmt: skip
        self.env = {
            **os.environ, **root, "XDG_RUNTIME_DIR": str(runtime), "HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        }  # fmt: skip

    def run(self, *words: object, codes: tuple[int, ...] = (0,)) -> str:
        """Run a program, and return all that it prints; it exits with one of the codes."""
        done = subprocess.run(
            [*map(str, words)], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode in codes, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def __call__(self, *words: object, codes: tuple[int, ...] = (0,)) -> str:
        """Run a verb."""
        return self.run(sys.executable, "-m", "stackproof", *words, codes=codes)


def ranks(text: str) -> list[str]:
    """Return what ranks print, in their order, without the name of the library."""
    return sorted(re.findall(r"^rank \d of \d", text, re.MULTILINE))


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    need("root", "network", "bubblewrap", "mksquashfs", "gcc", "netns")
    road = Road(tmp_path_factory.mktemp("road"))
    for name in ("mpich", "openmpi"):
        text = road("build", "--locked", name)
        assert re.search(rf"^{name}\.squashfs  [\d.]+ MB  sha256 \w{{64}}$", text, re.MULTILINE)
    (road.folder / "hello.c").write_text(HELLO)
    road("run", "mpich.squashfs", "--", "mpicc", "-o", "hello", "hello.c")
    before = {path.name: path.read_bytes() for path in road.folder.glob("*.squashfs")}
    yield road
    # Whoever only looks at an image leaves it as it is.
    assert {path.name: path.read_bytes() for path in road.folder.glob("*.squashfs")} == before


def test_an_image_says_what_it_is(road):
    said = road("inspect", "mpich.squashfs")
    assert "mpich 5.0.2" in said
    assert "/user-environment" in said
    listed = road("image", "ls", ".")
    assert len(re.findall(r"^(?:mpich|openmpi)\.squashfs  ", listed, re.MULTILINE)) == 2


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_ranks_of_an_image_find_each_other(road, name):
    road("run", f"{name}.squashfs", "--", "mpicc", "-o", f"hello-{name}", "hello.c")
    argv = ("mpiexec", "-n", 2, f"./hello-{name}")
    assert ranks(road("run", f"{name}.squashfs", "--", *argv)) == WORLD


def test_a_build_that_has_nothing_to_do_gives_the_same_image(road):
    digest = road("image", "inspect", "mpich.squashfs", "--json")
    road("build", "--locked", "mpich", "-o", "again.squashfs")
    try:
        again = road("image", "inspect", "again.squashfs", "--json")
        assert json.loads(again)["sha256"] == json.loads(digest)["sha256"]
    finally:
        (road.folder / "again.squashfs").unlink()


def test_a_bench_on_two_nodes_ends_in_a_report(road):
    need("chromium")
    (road.folder / "bench.yaml").write_text(json.dumps(SPEC))
    road("cluster", "up", "--nodes", 2, "--rate", "2gbit", "--name", CLUSTER)
    try:
        road("bench", "bench.yaml", "-o", "results", "--no-verdict")
    finally:
        road("cluster", "down", "--name", CLUSTER)
    comparison = json.loads(road.run(
        "sh", "-c", 'exec "$0" -m stackproof compare results --json 2>/dev/null', sys.executable,
        codes=(0, 8, 9),
    ))  # fmt: skip
    (panel,) = comparison["panels"]
    (judgement,) = panel["judgements"]
    assert judgement["arm"] == "openmpi"
    assert [cell["size"] for cell in judgement["cells"]] == [8, 4096]
    road("report", "results", "-o", "report.html", codes=(0, 8, 9))
    options = webdriver.ChromeOptions()
    profile = road.folder / "profile"
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 f"--user-data-dir={profile}"):  # fmt: skip
        options.add_argument(word)
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(str(shutil.which("chromedriver")))
    with webdriver.Chrome(options=options, service=service) as browser:
        browser.set_page_load_timeout(PATIENCE_S)
        browser.set_script_timeout(PATIENCE_S)
        browser.get((road.folder / "report.html").as_uri())
        # A figure is drawn when a reader comes near; here the page is asked for all of them.
        assert browser.execute_async_script(DRAW) is True
        assert browser.find_elements("css selector", ".js-plotly-plot .main-svg")
        assert "openmpi" in browser.find_element("tag name", "main").text
        assert browser.get_log("browser") == []


def measured(
    road: Road, preload: str, benchmarks: tuple[str, ...], code: int, **variables: object
) -> Output:
    """Run stackproof-bench of the image between two ranks under a preload of `tests/csrc`."""
    library = road.folder / f"{preload}.so"
    compiler = ("mpicc", "-shared", "-fPIC", "-o", library, ROOT / f"tests/csrc/{preload}.c")
    road("run", "mpich.squashfs", "--", *compiler)
    given = {"LD_PRELOAD": library, **variables}
    words = [word for name, value in given.items() for word in ("-genv", name, value)]
    pair = Placement(name="pair", ranks=(Rank(node="localhost"), Rank(node="localhost")))
    asked = Case(
        program="stackproof-bench", benchmarks=benchmarks, sizes=(8, 4096), placement=pair,
        samples=3, seconds_per_size=0.005, validate=True,
    )  # fmt: skip
    argv = native.BENCHMARK.argv("/user-environment/benchmarks/stackproof-bench", asked)
    launcher = ("mpiexec", "-n", 2, *words)
    said = road("run", "mpich.squashfs", "--", *launcher, *argv, codes=(code,))
    return native.BENCHMARK.parse(said.encode(), asked)


def test_every_wrong_byte_is_counted(road):
    """A transport changes one byte of each message of 4 KiB, and of none that is shorter."""
    output = measured(
        road, "wrongbyte", ("latency",), native.EXIT_VALIDATION, STACKPROOF_WRONGBYTE_SIZE=4096
    )
    samples = {series.size: len(series.values) for series in output.series}
    assert samples.keys() == {8, 4096}
    # Both ranks receive one message after each sample, and two more at the end.
    assert output.validation_errors == 2 * (samples[4096] + 2)
    assert {(wrong.size, wrong.offset) for wrong in output.wrong} == {(4096, 4095)}


def test_numbers_are_those_of_the_messages(road):
    """Time passes by messages alone, ten microseconds for each."""
    names = ("latency", "bandwidth", "bibandwidth", "message_rate")
    output = measured(road, "countclock", names, 0)
    found = {(series.benchmark, series.size): min(series.values) for series in output.series}
    # A window of 64 is sent, and answered by one message; both ways nobody answers.
    expected = {
        (name, size): value
        for size in (8, 4096)
        for name, value in {
            "latency": 10.0,
            "bandwidth": size * 64 / (10.0 * 65),
            "bibandwidth": 2 * size * 64 / (10.0 * 128),
            "message_rate": 64 / (10e-6 * 65),
        }.items()
    }
    assert found == pytest.approx(expected, rel=1e-3)


def test_srun_mounts_an_image_on_every_node(road):
    need("slurm", "slurm-headers", "meson")
    name = f"{CLUSTER}-slurm"
    road("cluster", "up", "--slurm", "--name", name, "--share", road.folder)
    try:
        argv = ("srun", "-N2", "--image=mpich.squashfs", "./hello")
        assert ranks(road("cluster", "exec", "--name", name, "--", *argv)) == WORLD
    finally:
        road("cluster", "down", "--name", name)


def test_an_image_goes_through_a_registry(road, tmp_path):
    need("docker-registry")
    label = "mpich/5.0.2:v1@here%zen2"
    road.env["STACKPROOF_REPOSITORY"] = str(tmp_path / "repository")
    with docker_registry(tmp_path / "server") as address:
        road("image", "push", "mpich.squashfs", f"build::{label}", "--registry", address)
        assert label in road("image", "find", "build::", "--registry", address)
        road("image", "pull", f"build::{label}", "--registry", address)
    said = json.loads(road("image", "inspect", label, "--json"))
    assert (
        said["sha256"] == json.loads(road("image", "inspect", "mpich.squashfs", "--json"))["sha256"]
    )
    assert ranks(road("run", label, "--", "mpiexec", "-n", 2, "./hello")) == WORLD


def test_a_pack_that_was_moved_starts_its_ranks(road):
    need("patchelf")
    road("pack", "mpich.squashfs", "./hello", "-o", "pack")
    (road.folder / "pack").rename(road.folder / "moved here")
    argv = ("./moved here/bin/mpiexec", "-n", 2, "./moved here/bin/hello")
    assert ranks(road.run(*argv)) == WORLD


def test_another_mpi_is_judged_and_then_used(road):
    refused = road("inject", "check", "./hello", "--with", "openmpi.squashfs", codes=(8,))
    assert re.search(r"hello: fails$", refused, re.MULTILINE)
    road("pack", "mpich.squashfs", "-o", "prefix")
    (prefix,) = {path.parent.parent for path in road.folder.glob("prefix/stack/*/lib/libmpi.so*")}
    said = road("inject", "check", "./hello", "--with", prefix)
    assert re.search(r"hello: works$", said, re.MULTILINE)
    argv = ("run", "openmpi.squashfs", "--inject", prefix, "--", prefix / "bin/mpiexec", "-n", 2)
    assert ranks(road(*argv, "./hello")) == WORLD


@pytest.mark.parametrize(
    ("recipe", "site", "engine"),
    [("slingshot-openmpi", "lumi-g", "easybuild"), ("spack/mpich", "lumi-c", "spack")],
)
def test_a_stack_of_each_engine_is_planned(road, recipe, site, engine):
    said = road("plan", recipe, "--site", site)
    assert re.search(rf"^engine +{engine}\b", said, re.MULTILINE)
    assert re.search(r"^  1\. [\w-]{12}  ", said, re.MULTILINE)


def test_doctor_names_the_cause_in_a_log(road):
    log = ROOT / "tests/captures/doctor/provider-tcp-excluded.log"
    said = json.loads(road("doctor", "--log", log, "--json", codes=(0, 8, 9)))
    assert said["findings"][0]["rule"] == "K75"
