"""Environments of Spack and of Stackinator in 2023: what is known of them is said, once."""

from __future__ import annotations

from pathlib import Path

import pytest

import inprocess
from stackproof.build.engines.spack import environment_file
from stackproof.core import document

SPACK = """\
spack:
  specs: [{spec}]
  packages:
    cray-mpich:
      buildable: false
      externals: [{{spec: cray-mpich@8.1.29, prefix: /opt/a}}]
    mpi:
      buildable: false
"""


def _errors(path: Path) -> list[str]:
    done = inprocess.stackproof("check", path)
    assert done.returncode == 3
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert errors.pop(0).startswith("error: this is ")
    return errors


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("openmpi@4.0.5 ^libfabric@2.1.0", "openmpi@4.0.5 with libfabric@2.1.0"),
        ("openmpi@4.0.7 fabrics=ofi, libfabric@2.3", "openmpi@4.0.7 with libfabric@2.3"),
        ("netcdf-c ^cray-mpich@8.1.31", "`cray-mpich@8.1.31` may not be built"),
        ("openmpi@5.0.8 ^libfabric@2.3.1", ""),
        ("netcdf-c ^cray-mpich@8.1.29 %gcc", ""),
        ("netcdf-c ^mpi, cray-mpich", ""),
        ("$tools", ""),
        ("{matrix: [[openmpi@4.0.5], [^libfabric@2.1]]}", ""),
    ],
)
def test_conflicts_and_externals_of_a_spack_yaml(spec: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "spack.yaml").write_text(SPACK.format(spec=spec))
    for path in (tmp_path, tmp_path / "spack.yaml"):
        errors = _errors(path)
        assert len(errors) == bool(told), errors
        assert told in "".join(errors)


def test_an_external_of_another_name(tmp_path: Path) -> None:
    text = SPACK.format(spec="zlib").replace("    cray-mpich:\n", "    mpich:\n")
    (tmp_path / "spack.yaml").write_text(text)
    assert "the external below `mpich` is `cray-mpich@8.1.29`" in "".join(_errors(tmp_path))


def test_a_problem_stands_where_the_external_does() -> None:
    text = SPACK.format(spec="zlib").replace("    cray-mpich:\n", "    mpich:\n")
    parsed = document.parse(text, file=environment_file.NAME)
    (problem,) = environment_file.judge_spack(parsed, ())
    assert str(problem.where) == "spack.yaml:6:26"
    assert problem.hint == "move it below `cray-mpich`"


@pytest.mark.parametrize("spec", ["cray-mpich@8", "builtin.cray-mpich@8", "'@8.1'"])
def test_forms_of_names_are_no_other_names(spec: str, tmp_path: Path) -> None:
    text = SPACK.format(spec="zlib").replace("cray-mpich:", "cray-mpich::")
    (tmp_path / "spack.yaml").write_text(text.replace("cray-mpich@8.1.29", spec))
    assert _errors(tmp_path) == []


@pytest.mark.parametrize(
    "text", ["spack:\n", "spack:\n  specs: 3\n  packages: [1]\n", "spack:\n- a\n",
             "spack:\n  packages: {a: 1, b: {externals: [1, {spec: 2}]}}\n"],
)  # fmt: skip
def test_an_environment_without_form_is_told_without_more(text: str, tmp_path: Path) -> None:
    (tmp_path / "spack.yaml").write_text(text)
    assert _errors(tmp_path) == []


@pytest.mark.parametrize(
    ("toolchain", "spec", "told"),
    [("gcc", "nvhpc@23.1", True), ("llvm", "nvhpc@23.1", False), ("gcc", "gcc@12", False)],
)
def test_a_compiler_below_another_toolchain(
    toolchain: str, spec: str, told: bool, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("name: lab\nstore: /env\n")
    (tmp_path / "compilers.yaml").write_text(
        "compilers:\n  bootstrap: {specs: [gcc@11]}\n  gcc: {specs: [gcc@12]}\n"
        "  llvm: {requires: gcc@12, specs: [nvhpc@23.1]}\n"
    )
    (tmp_path / "packages.yaml").write_text(
        f"packages:\n  tools:\n    compiler:\n      toolchain: {toolchain}\n      spec: {spec}\n"
        "    specs: [git]\n"
    )
    errors = _errors(tmp_path)
    assert [f"`{spec}` stands under the toolchain `{toolchain}`" in line for line in errors] == (
        [True] if told else []
    )


LAB = """\
spack:
  specs: [hypre+mpi]
  {compilers}: [{{compiler: {{spec: gcc@8.3.1, paths: {{cc: /a}}}}}}]
  packages:
    {mpi}: {{buildable: {buildable}}}
    mvapich2:
      externals: [{{spec: {external}, prefix: /opt/a}}]
"""


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "no MPI fits: none may be built"),
        ({"compilers": "compilers:", "mpi": "'mpi:'"}, "`mvapich2@2.3%gcc@4.9.3`"),
        ({"external": "mvapich2@2.3 %intel"}, "for another compiler than those here: gcc@8.3.1"),
        ({"external": "mvapich2@2.3%gcc@8"}, ""),
        ({"external": "mvapich2@2.3%gcc"}, ""),
        ({"external": "mvapich2@2.3"}, ""),
        ({"buildable": "true"}, ""),
        ({"compilers": "other"}, ""),
    ],
)
def test_an_external_mpi_for_another_compiler(
    changed: dict[str, str], told: str, tmp_path: Path
) -> None:
    given = {"compilers": "compilers", "mpi": "mpi", "buildable": "false",
             "external": "mvapich2@2.3%gcc@4.9.3", **changed}  # fmt: skip
    (tmp_path / "spack.yaml").write_text(LAB.format(**given))
    errors = _errors(tmp_path)
    assert len(errors) == bool(told), errors
    assert told in "".join(errors)


COMPILERS = "compilers:\n- compiler:\n    spec: gcc@8.3.1\n    paths: {cc: /a}\n"
PACKAGES = "packages:\n  mpi: {buildable: false}\n"
EXTERNAL = "  mpich:\n    externals: [{spec: mpich@4.3%gcc@12, prefix: /a}]\n"


@pytest.mark.parametrize(
    ("name", "texts", "told"),
    [
        ("packages.yaml", {"packages.yaml": PACKAGES}, "this file has no external MPI"),
        ("packages.yaml", {"packages.yaml": PACKAGES + EXTERNAL}, ""),
        ("packages.yaml", {"packages.yaml": PACKAGES + EXTERNAL.replace("mpich", "hpcx-mpi")}, ""),
        ("packages.yaml", {"packages.yaml": PACKAGES + EXTERNAL.replace("mpich", "mpt")
                           + "  all: {providers: {mpi: [mpt@2]}}\n"}, ""),
        ("packages.yaml", {"packages.yaml": PACKAGES + EXTERNAL.replace("mpich", "hdf5")},
         "this file has no external MPI"),
        ("packages.yaml", {"packages.yaml": PACKAGES + EXTERNAL, "compilers.yaml": COMPILERS},
         "`mpich@4.3%gcc@12` is for another compiler than those here: gcc@8.3.1"),
        ("packages.yaml", {"packages.yaml": "packages: {}\n  mpich: {buildable: false}\n"},
         "not YAML"),
        ("packages.yaml", {"packages.yaml": "packages:\n  packages:\n    mpich: {version: [4]}\n"},
         "`packages` stands inside `packages`"),
        ("compilers.yaml", {"compilers.yaml": COMPILERS}, ""),
        ("compilers.yaml", {"compilers.yaml": COMPILERS.replace("    ", "  ")},
         "this compiler has no `spec`"),
        ("config.yaml", {"config.yaml": 'config:\n  a: "b\n'}, "not YAML"),
        ("spack.yaml", {"spack.yaml": "spack:\n  specs:\n  - {{ mpi }}: [\n"}, ""),
    ],
)  # fmt: skip
def test_other_files_of_spack(name: str, texts: dict[str, str], told: str, tmp_path: Path) -> None:
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    errors = _errors(tmp_path / name)
    assert len(errors) == bool(told), errors
    assert told in "".join(errors)
