"""Which tests fit a view: in an image's metadata, and in the file that users of ReFrame read."""

from __future__ import annotations

import json

import pytest
import yaml

from spackstacks import clones, content, entry, environment, node, stack
from stackinators import SMALL, understand
from stackproof.build import tail
from stackproof.build.engines.spack import buildplan, lockplan, metadata
from stackproof.build.engines.spack.stack import Caches, Compiler, SpackLock, SpackStack, SpackView
from stackproof.core.errors import Reason
from stackproof.image.metadata import parse_env_json, render_env_json
from stackproof.image.model import Image, MpiFacts, View

COVERS = ("build/tail.py",)


def view(name: str) -> tuple[SpackView, ...]:
    return (SpackView(name=name),)


def made(**more: object) -> tuple[SpackStack, SpackLock]:
    """Return a stack of three environments with its lock: for CUDA, for ROCm, without an MPI."""
    of = stack(
        2,
        compilers=(Compiler(name="gcc", specs=(), external=True),
                   Compiler(name="nvhpc", specs=(), external=True)),
        environments=(
            environment(name="one", specs=("openmpi",), views=view("cuda")),
            environment(name="two", specs=("osu-micro-benchmarks",), mpi="cray-mpich", views=view("amd")),
            environment(name="three", specs=("cmake",), mpi=None, compilers=("nvhpc",), views=view("tools")),
        ),
        default_view="cuda",
        **more,
    )  # fmt: skip
    outside = {"external": {"path": "/opt/rocm", "module": None, "extra_attributes": {}}}
    files = {
        "one": content(("openmpi",), node("openmpi", "5.0.9", ("cuda", "link")), node("cuda", "12.6")),
        "two": content(
            ("osu-micro-benchmarks",), node("osu-micro-benchmarks", "7.5", ("cray-mpich", "link")),
            node("cray-mpich", "8.1.30", ("hip", "link")), node("hip", "6.2", **outside),
        ),
        "three": content(("cmake",), node("cmake", "3.31"), node("cuda", "12.6")),
    }  # fmt: skip
    found = {f"environments/{name}/spack.lock": json.dumps(c).encode() for name, c in files.items()}
    return of, lockplan.read_lock(of, clones(of), found)


def test_a_view_of_spack_says_its_mpi_gpus_compilers_and_what_was_asked_for() -> None:
    files = metadata.files(*made(extra_files={}), {})
    views = json.loads(files["meta/env.json.in"])["views"]
    assert {name: one["features"] for name, one in views.items() if "features" in one} == {
        "cuda": ["cuda", "gcc", "mpi", "openmpi"],
        "amd": ["cray-mpich", "gcc", "mpi", "osu-micro-benchmarks", "rocm"],
        "tools": ["cmake", "nvhpc"],
    }
    assert files[tail.REFRAME] == (
        '"amd":\n'
        '  features: ["cray-mpich", "gcc", "mpi", "osu-micro-benchmarks", "rocm"]\n'
        '  cc: "mpicc"\n'
        '  cxx: "mpicxx"\n'
        '  ftn: "mpifort"\n'
        '  views: ["amd"]\n'
        '"cuda":\n'
        '  features: ["cuda", "gcc", "mpi", "openmpi"]\n'
        '  cc: "mpicc"\n'
        '  cxx: "mpicxx"\n'
        '  ftn: "mpifort"\n'
        '  views: ["cuda"]\n'
        '"tools":\n'
        '  features: ["cmake", "nvhpc"]\n'
        '  cc: "nvc"\n'
        '  cxx: "nvc++"\n'
        '  ftn: "nvfortran"\n'
        '  views: ["tools"]\n'
    )
    # As those who use it read it: every value is text.
    assert yaml.load(files[tail.REFRAME], Loader=yaml.BaseLoader)["tools"]["cc"] == "nvc"


def test_the_file_of_a_recipe_is_left_as_it_is() -> None:
    of, lock = made(extra_files={"reframe.yaml": entry("x")})
    assert tail.REFRAME not in metadata.files(of, lock, {})
    (setup,) = (
        step for step in buildplan.build_plan(of, lock, Caches()).steps if step.name == "setup"
    )
    assert f"store/{tail.REFRAME}" in setup.copies


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("default: {features: [mpi]}\n", None, 0),
        ("a: {cc: gcc}\ndefault: [mpi]\n", Reason.WRONG_TYPE, 2),
        ("- default\n", Reason.WRONG_TYPE, 1),
        ("default: {\n", Reason.YAML_SYNTAX, 2),
        ("a: !!python/object:os.system {}\n", Reason.UNSAFE_TAG, 1),
        ("a: {cc: gcc}\n" + "# x\n" * 600_000, Reason.TOO_LARGE, 0),
    ],
)
def test_a_file_that_nobody_could_read_is_a_problem_with_its_place(
    text: str, reason: Reason | None, line: int
) -> None:
    _, findings = understand({**SMALL[2], "extra/reframe.yaml": text})
    assert [p.reason for p in findings.problems] == ([reason] if reason else [])
    for problem in findings.problems:
        assert problem.where.file.endswith("extra/reframe.yaml")
        assert problem.where.line == line


def test_features_are_read_back() -> None:
    facts = MpiFacts(family="mpich", version="5.0", prefix="/user-environment/x", launcher="hydra")
    words = tail.of_mpi(facts, "cuda")
    assert words == ("cuda", "mpi", "mpich")
    assert tail.of_mpi(None, "cuda", ("cmake",)) == ("cmake",)
    image = Image(
        path="x", name="x", mount="/user-environment", size=1,
        views={"default": View(name="default", root="/user-environment/env/default", features=words)},
    )  # fmt: skip
    text = render_env_json(image)
    assert parse_env_json(text, path="x", size=1) == image
    for wrong in ('"features": "mpi"', '"features": [1]'):
        broken = text.replace('"features": [\n    "cuda",\n    "mpi",\n    "mpich"\n   ]', wrong)
        assert broken != text
        with pytest.raises(Exception, match="feature") as caught:
            parse_env_json(broken, path="x", size=1)
        assert caught.value.problems[0].reason is Reason.IMAGE_NO_META
