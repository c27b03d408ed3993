"""EasyBuild's own reader on every easyconfig of the chains that are written down."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from easybuildchains import REQUESTS
from need import need
from stackproof.build.effects.executor import fetch
from stackproof.build.engines.easybuild import tool
from stackproof.build.engines.easybuild.chain import SYSTEM, Template, chain, render
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.easybuild.effects.sources import SourceFinder
from stackproof.build.engines.easybuild.tool import VERSION
from stackproof.core.monitor import null_monitor

CATALOGUE = builder.load()
# A compiler that is on the machine has an easyconfig elsewhere: here is one for the reader.
ELSEWHERE = {
    "easyblock": "SystemCompilerGCC",
    "name": "GCC",
    "version": "12.3.0",
    "homepage": "https://gcc.gnu.org/",
    "description": "of the machine",
    "toolchain": SYSTEM,
}
OPTIONS = (
    "--modules-tool=Lmod", "--allow-modules-tool-mismatch", "--output-style=basic",
    "--allow-use-as-root-and-accept-consequences",
)  # fmt: skip


@pytest.fixture(scope="module")
def easybuild(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what PYTHONPATH is with EasyBuild unpacked."""
    need("easybuild")
    folder = tmp_path_factory.mktemp("easybuild")
    for file in SourceFinder((), null_monitor).tool(VERSION):
        packed = fetch(file, tool.fetch_command, null_monitor)
        subprocess.run(["tar", "-xf", packed, "-C", folder], check=True)
    return ":".join(str(path) for path in sorted(folder.iterdir()))


def dry_run(easybuild: str, tmp_path: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Return what EasyBuild says of easyconfigs without building any."""
    return subprocess.run(
        [
            sys.executable, "-m", "easybuild.main", "--dry-run", f"--prefix={tmp_path}",
            f"--tmpdir={tmp_path}", *OPTIONS, *words,
        ],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": easybuild,
            "LMOD_CMD": str(builder.find_lmod()),
            "MODULEPATH": str(tmp_path),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )  # fmt: skip


@pytest.mark.battery
@pytest.mark.parametrize("name", REQUESTS)
def test_easybuild_reads_a_chain_as_it_was_meant(name: str, easybuild: str, tmp_path: Path) -> None:
    """Its names of modules are ours, and every dependency is found among the files."""
    made = chain(REQUESTS[name], CATALOGUE)
    folder = tmp_path / "easyconfigs"
    folder.mkdir()
    for one in made.easyconfigs:
        (folder / one.filename).write_text(one.text)
    if name == "slingshot-cuda":
        (folder / "GCC-12.3.0.eb").write_text(render(ELSEWHERE))
    metadata = tmp_path / "metadata.cfg"
    metadata.write_text(made.metadata)
    paths = [folder / one.filename for one in made.easyconfigs]
    options = ("--robot", f"--robot-paths={folder}", f"--external-modules-metadata={metadata}")
    done = dry_run(easybuild, tmp_path, *options, *paths)
    assert done.returncode == 0, done.stdout
    read = dict(
        re.findall(r"^ \* \[ \] \S+/(\S+\.eb) \(module: (\S+)\)$", done.stdout, re.MULTILINE)
    )
    assert read.pop("GCC-12.3.0.eb", "") == ("GCC/12.3.0" if name == "slingshot-cuda" else "")
    assert read == {one.filename: one.module for one in made.easyconfigs}, done.stdout


@pytest.mark.battery
def test_a_text_that_is_wrong_is_refused(easybuild: str, tmp_path: Path) -> None:
    """The reader of the test above does tell: a parameter that it does not know is an error."""
    wrong = tmp_path / "GCC-12.3.0.eb"
    wrong.write_text(render({**ELSEWHERE, "configoptz": "x"}))
    done = dry_run(easybuild, tmp_path, wrong)
    assert done.returncode != 0
    assert "configoptz" in done.stdout


@pytest.mark.battery
def test_what_looks_like_a_template_stays_as_it_is(easybuild: str, tmp_path: Path) -> None:
    """EasyBuild fills in its own values where we mean it, and nowhere else."""
    path = tmp_path / "GCC-12.3.0.eb"
    texts = ["%(version)s", "%%(version)s", "100%", "%(nothing)s", "a'b\n%", "%%%(name)s"]
    path.write_text(render({**ELSEWHERE, "postinstallcmds": [*texts, Template("%(version)s")]}))
    script = (
        "import json, sys\n"
        "from easybuild.tools.options import set_up_configuration\n"
        "from easybuild.framework.easyconfig.easyconfig import EasyConfig\n"
        "set_up_configuration(args=sys.argv[2:], silent=True)\n"
        "print(json.dumps(EasyConfig(sys.argv[1])['postinstallcmds']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path, *OPTIONS],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": easybuild,
             "TMPDIR": str(tmp_path), "LMOD_CMD": str(builder.find_lmod())},
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == [*texts, "12.3.0"]
