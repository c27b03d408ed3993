"""A compiler that builds a compiler that builds environments, and their module files.

With the program in the place of Spack (`fakespack.py`): the order, what each is compiled by, and
what is in the image. The recipe is of the form of version 1, as in the CUG 2023 paper.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import fakespack
from fakespack import Folder
from need import need

pytestmark = pytest.mark.battery

COMPILERS = """\
compilers:
- compiler:
    spec: gcc@12.2.0
    paths: {cc: /usr/bin/gcc, cxx: /usr/bin/g++, f77: /usr/bin/gfortran, fc: /usr/bin/gfortran}
    flags: {}
    operating_system: x
    target: x86_64
    modules: []
"""
ENVIRONMENT = """\
{name}:
  compiler: [{{toolchain: gcc, spec: gcc@11.3}}]
  specs: [{specs}]
  mpi: null
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    need("bubblewrap", "mksquashfs", "gcc")
    made = fakespack.make(tmp_path)
    subprocess.run(["git", "tag", "v0.23.1"], cwd=tmp_path / "spack", check=True, timeout=600)
    texts = {
        "small/config.yaml": f"name: small\nsystem: hohgant\nspack: {{repo: {tmp_path}/spack, "
        "commit: v0.23.1}\n",
        "small/compilers.yaml": "bootstrap: {spec: gcc@11}\ngcc: {specs: [gcc@11.3]}\n",
        "small/environments.yaml": ENVIRONMENT.format(name="prgenv-gcc", specs="meet-one@5.9, good")
        + ENVIRONMENT.format(name="prgenv-tools", specs="meet-two"),
        "small/modules.yaml": "modules:\n  default:\n    arch_folder: false\n    tcl: {hash_length: 0}\n",
        "site/compilers.yaml": COMPILERS,
        "site/packages.yaml": "packages:\n  slurm: {buildable: false}\n",
        "site/concretizer.yaml": "concretizer: {reuse: false}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return made


def test_each_is_built_by_the_one_before_and_has_its_module(folder: Folder) -> None:
    done = folder.build("--jobs", "2")
    order = re.findall(r"ok \[\d+/\d+\] (install\S+|modules)", done.stderr)
    assert order == [
        "install-compiler-bootstrap", "install-compiler-gcc", "install-environments", "modules",
    ]  # fmt: skip
    (home,) = (home for home in folder.builds if (home / "logs/modules-1.log").exists())

    def by(step: str) -> list[tuple[str, str]]:
        text = (home / "logs" / f"{step}-1.log").read_text()
        return re.findall(r"==> (\S+) is compiled by \S+, (.*)", text)

    # The bootstrap compiler by the machine's; no stand-in for a compiler is left by then.
    assert by("install-compiler-bootstrap") == []
    assert by("install-compiler-gcc") == [("gcc", "gcc-11 itself")]
    assert sorted(by("install-environments")) == [
        (name, "gcc-11.3 itself") for name in ("good", "meet-one", "meet-two")
    ]

    def in_image(*words: str) -> str:
        argv = ["unsquashfs", *words[:1], str(folder.path / "small.squashfs"), *words[1:]]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600).stdout

    modules = [line for line in in_image("-ls").splitlines() if "/modules/" in line]
    assert {line.partition("/modules/")[2] for line in modules} >= {
        "meet-one/5.9", "meet-two/1.0", "good/1.0", "gcc/11.3",
    }  # fmt: skip
    text = in_image("-cat", "modules/meet-one/5.9")
    assert "/user-environment/linux-x-y/meet-one-5.9-" in text
    assert re.search(r"created by spack \(\S+\)$", text, re.MULTILINE)  # without the time
