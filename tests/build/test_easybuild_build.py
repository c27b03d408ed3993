"""A chain built by EasyBuild for real: repeated, continued, offline, and in every way that fails."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from easybuilds import lock, plan, put, setup, stack
from need import need
from stackproof.build.effects.executor import execute
from stackproof.build.effects.workspace import download_path
from stackproof.build.engines.easybuild.chain import chain
from stackproof.build.engines.easybuild.components import ChainRequest
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.easybuild.effects.sources import SourceFinder
from stackproof.build.engines.easybuild.stack import Below, EasyBuildLock
from stackproof.build.stack import Artefact, Digest, SourceFile
from stackproof.core.command import Bind
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.ids import digest
from stackproof.core.monitor import Event, null_monitor
from stackproof.core.value import replace
from tinysources import LIBRARY

pytestmark = pytest.mark.battery

COVERS = (
    "build/engines/easybuild/engine.py",
    "build/engines/easybuild/effects/builder.py",
)

BROKEN = {**LIBRARY, "two.c": "int two(void) { return 2 }\n"}


@pytest.fixture(scope="module")
def tool() -> tuple[Artefact, ...]:
    """EasyBuild itself, from the package index into the cache of the test run."""
    need("easybuild", "gcc", "bubblewrap", "mksquashfs")
    return SourceFinder((), null_monitor).tool("5.4.1")


def unpack(image: Path, folder: Path) -> Path:
    argv = ["unsquashfs", "-quiet", "-no-progress", "-d", str(folder), str(image)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return folder


def test_a_chain_with_modules_is_built_and_nothing_is_done_twice(
    tool: tuple[Artefact, ...], tmp_path: Path
) -> None:
    put()
    events: list[Event] = []
    made = plan(stack(), lock(tool))
    built = execute(made, events.append, setup=setup())
    steps = [event.text for event in events if event.what == "progress"]
    assert "two/1.0: build" in steps
    assert "four/1.0: sanitycheck" in steps
    assert (execute(made, null_monitor, setup=setup()).ran, built.ran) == (0, 6)

    tree = unpack(built.path, tmp_path / "tree")
    assert (tree / "software/two/1.0/lib/libtwo.so").is_file()
    assert not list(tree.rglob("easybuild"))
    lua = (tree / "modules/lua/all/four/1.0.lua").read_text()
    tcl = (tree / "modules/tcl/all/four/1.0").read_text()
    assert 'depends_on("two/1.0")' in lua
    assert "two/1.0" in tcl
    bill = json.loads((tree / "meta/bom.cdx.json").read_text())
    assert {"libfabric", "four", "easybuild-framework"} <= {p["name"] for p in bill["components"]}

    # Another view, another image, and the components serve as they are.
    other = stack(description="the same with other words")
    events.clear()
    again = execute(plan(other, lock(tool)), events.append, setup=setup())
    assert again.sha256 != built.sha256
    unchanged = {event.name for event in events if event.what == "skipped"}
    assert unchanged == {"two-1.0", "four-1.0"}


def test_the_same_bytes_elsewhere(
    tool: tuple[Artefact, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another cache, another time; the network is never there while it builds."""
    put()
    first = execute(plan(stack(), lock(tool)), null_monitor, setup=setup())
    old = Path(files.cache_home())
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "other"))
    put()
    for file in tool:
        target = download_path(file.sha256, file.filename)
        files.copy(old / target.relative_to(tmp_path / "other"), target)
    second = execute(plan(stack(), lock(tool)), null_monitor, setup=setup())
    assert first.path != second.path
    assert first.sha256 == second.sha256


def test_a_component_that_fails_shows_the_compilers_words_and_keeps_the_rest(
    tool: tuple[Artefact, ...],
) -> None:
    put(BROKEN)
    made = plan(stack(name="broken"), lock(tool, BROKEN))
    with pytest.raises(StackproofError) as caught:
        execute(made, null_monitor, setup=setup())
    problem = caught.value.problems[0]
    assert problem.reason is Reason.BUILD_FAILED
    assert "step `build` of `two-1.0`" in problem.message
    assert "two.c:1:" in (problem.detail or "")
    log = (problem.hint or "").split("`")[1]
    assert "two.c" in Path(log).read_text()


def test_a_missing_module_and_a_wrong_checksum_are_told_by_their_exit_codes(
    tool: tuple[Artefact, ...],
) -> None:
    put()
    whole = lock(tool)
    two, four = whole.components
    alone = replace(whole, components=(replace(four, needs=()),))
    with pytest.raises(StackproofError) as caught:
        execute(plan(stack(name="alone"), _as_libfabric(alone)), null_monitor,
                setup=setup())  # fmt: skip
    assert "two/1.0" in caught.value.problems[0].message
    assert caught.value.reason is Reason.BUILD_FAILED

    wrong = replace(two, text=two.text.replace(two.sources[0].accepted[0].sha256, "0" * 64))
    with pytest.raises(StackproofError) as caught:
        execute(plan(stack(name="wrong"), replace(whole, components=(wrong, four))),
                null_monitor, setup=setup())  # fmt: skip
    assert caught.value.reason is Reason.DIGEST_MISMATCH


def test_what_configure_left_out_and_a_patch_that_does_not_fit(
    tool: tuple[Artefact, ...],
) -> None:
    """The commands of the catalogue's libfabric before `make`, in a package that drops XPMEM."""
    request = ChainRequest(libfabric="2.1.0", providers=("shm",), xpmem=True)
    made = chain(request, builder.load()).easyconfigs
    (text,) = (one.text for one in made if one.component == "libfabric")
    (commands,) = (line for line in text.splitlines() if line.startswith("prebuildopts"))
    dropped = {**LIBRARY, "config.log": "#define HAVE_SHM 1\n#define HAVE_XPMEM 0\n"}
    put(dropped)
    whole = lock(tool, dropped)
    two, four = whole.components
    without = replace(two, text=f"{two.text}{commands}\n")
    with pytest.raises(StackproofError) as caught:
        execute(plan(stack(name="dropped"), replace(whole, components=(without, four))),
                null_monitor, setup=setup())  # fmt: skip
    problem = caught.value.problems[0]
    assert problem.reason is Reason.BUILD_FAILED
    assert "left out what was asked for: xpmem" in f"{problem.message} {problem.detail}"

    put()
    patch = b"--- a/two.c\n+++ b/two.c\n@@ -1 +1 @@\n-int three(void);\n+int four(void);\n"
    sha256 = digest(patch)
    files.write(download_path(sha256, "fix.patch"), patch)
    whole = lock(tool)
    two, four = whole.components
    file = SourceFile(filename="fix.patch", accepted=(Digest(sha256=sha256, provenance="a test"),))
    text = two.text.replace("checksums = [", "patches = ['fix.patch']\nchecksums = [")
    text = text.replace("']\ndependencies", f"', '{sha256}']\ndependencies")
    patched = replace(two, text=text, sources=(*two.sources, file))
    with pytest.raises(StackproofError) as caught:
        execute(plan(stack(name="patched"), replace(whole, components=(patched, four))),
                null_monitor, setup=setup())  # fmt: skip
    problem = caught.value.problems[0]
    assert problem.reason is Reason.BUILD_FAILED
    assert "step `patch` of `two-1.0`" in problem.message
    assert "fix.patch" in f"{problem.message} {problem.detail}"


def _as_libfabric(whole: EasyBuildLock) -> EasyBuildLock:
    return replace(
        whole, components=tuple(replace(one, component="libfabric") for one in whole.components)
    )


def test_on_top_of_software_that_is_there(tool: tuple[Artefact, ...], tmp_path: Path) -> None:
    """A tree of a site, or of EESSI: its modules are loaded, and nothing of it is built again."""
    put()
    two, four = lock(tool).components
    base = tmp_path / "base"
    alone = replace(lock(tool), components=(two,))
    made = plan(stack(name="base", mount=str(base)), alone)
    unpack(execute(made, null_monitor, setup=setup()).path, base)

    below = Below(path=str(base), modules=(str(base / "modules/lua/all"),))
    upper = replace(lock(tool), components=(replace(four, component="libfabric", needs=()),))
    ready = replace(setup(), binds=(Bind(source=str(base), target=str(base)),))
    image = execute(plan(stack(name="upper", below=below), upper), null_monitor,
                    setup=ready).path  # fmt: skip
    tree = unpack(image, tmp_path / "tree")
    assert [path.name for path in (tree / "software").iterdir()] == ["four"]
    done = subprocess.run([tree / "software/four/1.0/bin/four"], capture_output=True, check=True)
    assert done.stdout == b"twice two is 4\n"


_WRAPPER = """#!/bin/sh
exec /usr/bin/{0} -Wl,--build-id=0x6d6f64756c656763 "$@"
"""
_MODULE = """\
local root = "{root}"
prepend_path("PATH", pathJoin(root, "bin"))
setenv("EBROOTGCC", root)
setenv("EBVERSIONGCC", "12.2.0")
"""


def test_the_compiler_of_a_module_compiles(tool: tuple[Artefact, ...], tmp_path: Path) -> None:
    """A site's GCC, or EESSI's, which Lmod loads; it marks what it links, and the system's does not."""
    put()
    base, root = tmp_path / "base", tmp_path / "base/software/GCC/12.2.0"
    for name in ("gcc", "g++", "gfortran"):
        files.write(root / "bin" / name, _WRAPPER.format(name).encode(), mode=0o755)
    files.write(base / "modules/all/GCC/12.2.0.lua", _MODULE.format(root=root).encode())

    whole = lock(tool)
    two = whole.components[0]
    made = replace(
        two,
        text=two.text.replace("SYSTEM", "{'name': 'GCC', 'version': '12.2.0'}"),
        filename="two-1.0-GCC-12.2.0.eb", module="two/1.0-GCC-12.2.0",
    )  # fmt: skip
    below = Below(path=str(base), modules=(str(base / "modules/all"),))
    ready = replace(setup(), binds=(Bind(source=str(base), target=str(base)),))
    image = execute(plan(stack(name="module", below=below), replace(whole, components=(made,))),
                    null_monitor, setup=ready).path  # fmt: skip
    notes = [
        "readelf",
        "--notes",
        unpack(image, tmp_path / "tree") / "software/two/1.0-GCC-12.2.0/lib/libtwo.so",
    ]
    assert "6d6f64756c656763" in subprocess.check_output(notes, text=True)
