"""What fills an override folder besides a prefix: images, artefacts, libfabric alone; the hook."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from eessilab import EVERY, USES_MPICH, Eessi, inject
from need import need
from packs import MOUNT, Stack
from stackproof.core import noun
from stackproof.core.errors import ExitCode, StackproofError
from stackproof.inject import site_hook
from stackproof.inject.eessi import FABRIC_FOLDER
from stackproof.inject.effects import override, staging
from stackproof.inject.effects.staging import Injection
from stackproof.inject.site_hook import Settings, folder_of, parse_settings, render_part, with_part

COVERS = ("inject/effects/wanted.py",)

FABRIC = "FABRIC_1.0 { global: fi_getinfo; };\nFABRIC_1.8 { global: fi_new; } FABRIC_1.0;\n"


@pytest.fixture
def eessi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Eessi:
    need("gcc", "patchelf", "mksquashfs")
    lab = Eessi(tmp_path)
    software = str(lab.software).replace("/host_injections/", "/versions/")
    monkeypatch.setenv(site_hook.VARIABLE, software)
    return lab


def with_fabric(eessi: Eessi, fabric: str) -> None:
    """Let EESSI's MPI need EESSI's libfabric, which lies where its own DT_RPATH leads."""
    eessi.library("eessi/lib/libfabric.so.1", defines=["fi_getinfo"], script=FABRIC)
    eessi.library(
        "eessi/lib/libmpi.so.12",
        defines=EVERY,
        imports=["fi_getinfo"],
        needs=["eessi/lib/libfabric.so.1"],
        flags=[f"-Wl,--disable-new-dtags,-rpath,{eessi.path('eessi/lib')}:$ORIGIN"],
    )
    eessi.library(f"{fabric}/lib/libcxi.so.1", defines=["cxil_open"])
    eessi.library(
        f"{fabric}/lib/libfabric.so.1",
        defines=["fi_getinfo"],
        imports=["cxil_open"],
        needs=[f"{fabric}/lib/libcxi.so.1"],
        script=FABRIC,
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN"],
    )


def image_of(eessi: Eessi, prefix: str) -> Path:
    """Return an image in which a compiled prefix lies below the mount point."""
    stack = Stack(eessi.folder / "image")
    shutil.copytree(eessi.path(prefix), stack.tree / "mpich")
    mpi = {"family": "mpich", "version": "5.0.2", "prefix": f"{MOUNT}/mpich", "launcher": "hydra"}
    return stack.image(mpi=mpi)


def applied(capsys, eessi, prefix, *words):
    return inject(capsys, "apply", eessi.app, "--with", prefix, *words)


def test_an_image_fills_an_override(eessi, capsys):
    """Nothing is mounted, and jobs need neither the image nor where it was unpacked."""
    image = image_of(eessi, "host")
    code, out, err = applied(capsys, eessi, image, "--eessi", eessi.software)
    assert (code, err) == (ExitCode.DONE, ""), err
    assert "keep" not in out
    image.unlink()
    outcome, after = eessi.loaded()
    assert outcome.answers["MPI_Init"] == "host/lib/libmpi.so.12"
    assert after["libfabric.so.1"] == f"{eessi.place}/lib/private/libfabric.so.1"
    assert staging.current(str(eessi.place)).prefix == str(image)
    assert inject(capsys, "undo", eessi.place)[0] == ExitCode.DONE
    assert eessi.loaded()[0].answers["MPI_Init"] == "eessi/lib/libmpi.so.12"


@pytest.mark.parametrize("suffix", ["", ".squashfs"])
def test_an_artefact_fills_an_override(eessi, capsys, suffix):
    artefact = eessi.folder / f"net{suffix}"
    code, _, err = inject(capsys, "artefact", eessi.path("host"), "-o", artefact)
    assert code == ExitCode.DONE, err
    code, _, err = applied(capsys, eessi, artefact, "--eessi", eessi.software)
    assert (code, err) == (ExitCode.DONE, ""), err
    files = shutil.rmtree if artefact.is_dir() else os.unlink
    files(artefact)
    outcome, after = eessi.loaded()
    assert outcome.answers["MPI_Init"] == "host/lib/libmpi.so.12"
    private = [path for name, path in after.items() if name.startswith("libfabric")]
    assert [os.path.normpath(f"{path}/..") for path in private] == [f"{eessi.place}/private"]


def test_libfabric_alone(eessi, capsys):
    """The program keeps its MPI; EESSI's libfabric is not even loaded, nor is libcxi seen by it."""
    with_fabric(eessi, "net")
    code, out, err = applied(capsys, eessi, eessi.path("net"), "--eessi", eessi.software)
    assert (code, err) == (ExitCode.DONE, ""), err
    assert "programs keep their MPI" in out
    shutil.rmtree(eessi.path("net"))
    outcome, after = eessi.loaded()
    assert outcome.answers["MPI_Init"] == "eessi/lib/libmpi.so.12"
    assert after["libmpi.so.12"] == f"{eessi.place}/lib/libmpi.so.12"
    assert after["libfabric.so.1"] == f"{eessi.place}/{FABRIC_FOLDER}/libfabric.so.1"
    assert after["libcxi.so.1"] == f"{eessi.place}/lib/fabric/private/libcxi.so.1"
    assert after["libz.so.1"] == eessi.path("eessi/lib/libz.so.1")


def test_libfabric_of_an_mpi(eessi, capsys):
    """`--level libfabric` takes that of an MPI, and again: what is there is no reason against it."""
    with_fabric(eessi, "net")
    words = ("--eessi", eessi.software)
    eessi.library("host/lib/inner/libfabric.so.1", defines=["fi_getinfo"], script=FABRIC)
    assert applied(capsys, eessi, eessi.path("host"), *words)[0] == ExitCode.DONE
    for said in ("programs keep their MPI", "nothing was changed"):
        code, out, err = applied(capsys, eessi, eessi.path("host"), *words, "--level", "libfabric")
        assert (code, err) == (ExitCode.DONE, ""), err
        assert said in out
    outcome, after = eessi.loaded()
    assert outcome.answers["MPI_Init"] == "eessi/lib/libmpi.so.12"
    assert after["libfabric.so.1"] == f"{eessi.place}/{FABRIC_FOLDER}/libfabric.so.1"


def test_an_older_libfabric_is_refused(eessi, capsys):
    """EESSI's MPI asks for a node that it lacks: one way only, as libfabric's versions go."""
    with_fabric(eessi, "net")
    both = ["fi_getinfo", "fi_new"]
    eessi.library("eessi/lib/libfabric.so.1", defines=both, script=FABRIC)
    eessi.library(
        "eessi/lib/libmpi.so.12",
        defines=EVERY,
        imports=["fi_new"],
        needs=["eessi/lib/libfabric.so.1"],
        flags=[f"-Wl,--disable-new-dtags,-rpath,{eessi.path('eessi/lib')}"],
    )
    old = "FABRIC_1.0 { global: fi_getinfo; };\n"
    eessi.library("net/lib/libfabric.so.1", defines=["fi_getinfo"], script=old)
    code, _, err = applied(capsys, eessi, eessi.path("net"), "--eessi", eessi.software)
    assert code == ExitCode.WORSE
    assert "FABRIC_1.8" in err
    assert not os.path.lexists(eessi.place)


def test_programs_of_two_releases_have_no_libfabric_in_common(eessi, capsys):
    with_fabric(eessi, "net")
    shutil.copytree(eessi.path("eessi/lib"), eessi.path("other/lib"))
    other = eessi.program(
        "other/bin/app",
        needs=["other/lib/libmpi.so.12"],
        calls=["MPI_Init"],
        declarations=USES_MPICH,
        flags=[f"-Wl,--disable-new-dtags,-rpath,{eessi.place}/lib:{eessi.path('other/lib')}"],
    )
    words = ("--with", eessi.path("net"), "--eessi", eessi.software)
    code, _, err = inject(capsys, "apply", eessi.app, other, *words)
    assert code == ExitCode.WORSE
    assert "one MPI for all programs" in err
    assert err.count("built with one release") == 2


def test_the_site_of_the_environment(eessi, capsys):
    """The folder is made, the hook sets what was asked for, and `undo` takes both back."""
    eessi.software.rmdir()
    words = ("--eessi-here", "--set", "FI_PROVIDER=cxi", "--set", 'QUOTED=a "b" \\c')
    code, out, err = applied(capsys, eessi, eessi.path("host"), *words)
    assert (code, err) == (ExitCode.DONE, ""), err
    hook = eessi.software / ".lmod" / "SitePackage.lua"
    assert f"{hook} sets what the MPI is told" in out
    assert 'setenv("FI_PROVIDER", "cxi")' in hook.read_text()
    assert 'setenv("QUOTED", "a \\"b\\" \\\\c")' in hook.read_text()
    assert eessi.loaded()[0].answers["MPI_Init"] == "host/lib/libmpi.so.12"
    assert applied(capsys, eessi, eessi.path("newer"), "--eessi-here")[0] == ExitCode.DONE
    assert not hook.exists()
    for text in ("cxi", ""):
        assert inject(capsys, "undo", eessi.place)[0] == ExitCode.DONE
        assert (text in hook.read_text()) if text else not hook.exists()


def test_a_hook_that_was_stopped_before_is_written_again(eessi, capsys):
    words = ("--eessi-here", "--set", "FI_PROVIDER=cxi")
    assert applied(capsys, eessi, eessi.path("host"), *words)[0] == ExitCode.DONE
    hook = eessi.software / ".lmod" / "SitePackage.lua"
    whole = hook.read_text()
    hook.unlink()
    code, out, _ = applied(capsys, eessi, eessi.path("host"), *words)
    assert code == ExitCode.DONE
    assert "nothing was changed" in out
    assert hook.read_text() == whole


def test_the_sites_own_hooks_stay(eessi, capsys):
    hook = eessi.software / ".lmod" / "SitePackage.lua"
    hook.parent.mkdir()
    hook.write_text("-- of the site\nlocal x = 1")
    hook.chmod(0o640)
    words = ("--eessi-here", "--set", "FI_PROVIDER=cxi")
    assert applied(capsys, eessi, eessi.path("host"), *words)[0] == ExitCode.DONE
    assert hook.read_text().startswith("-- of the site\nlocal x = 1\n-- begin stackproof MPICH/")
    assert hook.stat().st_mode & 0o777 == 0o640
    hook.write_text(hook.read_text() + "-- more of the site\n")
    assert inject(capsys, "undo", eessi.place)[0] == ExitCode.DONE
    assert hook.read_text() == "-- of the site\nlocal x = 1\n-- more of the site\n"


def test_a_hook_that_cannot_be_written_undoes_the_switch(eessi, capsys):
    (eessi.software / ".lmod").write_text("no folder")
    words = ("--eessi-here", "--set", "FI_PROVIDER=cxi")
    code, _, err = applied(capsys, eessi, eessi.path("host"), *words)
    assert code == ExitCode.INVALID, err
    assert not os.path.lexists(eessi.place)
    assert eessi.loaded()[0].answers["MPI_Init"] == "eessi/lib/libmpi.so.12"


WRONG = {
    "only `--eessi-here` writes": ["--set", "A=1", "--eessi", "x"],
    "no NAME=VALUE": ["--eessi-here", "--set", "A-B=1"],
    "a variant of an artefact": ["--eessi-here", "--shs", "12.0"],
    "for EESSI only": ["--wrapper", "x", "--level", "mpi"],
    "exclude each other": ["--eessi-here", "--eessi", "x"],
}


def test_words_that_do_not_go_together(tmp_path, capsys, monkeypatch):
    (tmp_path / "host_injections").mkdir()
    monkeypatch.setenv(site_hook.VARIABLE, f"{tmp_path}/versions/1/software/linux/x")
    for said, words in WRONG.items():
        code, _, err = inject(capsys, "apply", "/bin/sh", "--with", tmp_path, *words)
        assert (code, said in err) == (ExitCode.USAGE, True), err


def test_without_eessi(tmp_path, capsys, monkeypatch):
    def said() -> tuple[int, str]:
        code, _, err = inject(capsys, "apply", "/bin/sh", "--with", tmp_path, "--eessi-here")
        return code, err

    monkeypatch.setenv(site_hook.VARIABLE, f"{tmp_path}/versions/1/software/linux/x")
    (tmp_path / "host_injections").symlink_to("nowhere")
    code, err = said()
    assert (code, f"mkdir -p {tmp_path}/nowhere" in err) == (ExitCode.INVALID, True), err
    monkeypatch.setenv(site_hook.VARIABLE, "/opt/software")
    assert "no folder of EESSI" in said()[1]
    monkeypatch.delenv(site_hook.VARIABLE)
    code, err = said()
    assert code == ExitCode.USAGE
    assert "no EESSI is set up here" in err
    assert "module load EESSI" in err


def test_a_file_is_no_replacement(eessi, capsys):
    file = eessi.folder / "host.json"
    file.write_text("{}")
    code, _, err = applied(capsys, eessi, file, "--eessi", eessi.software)
    assert code == ExitCode.INVALID
    assert "neither a shared library nor an image" in err


def test_the_folder_of_the_site():
    path = "/cvmfs/software.eessi.io/versions/2025.06/software/linux/aarch64/nvidia/grace"
    assert folder_of({site_hook.VARIABLE: path}) == path.replace("versions", "host_injections")
    assert parse_settings(("A=b=c", "B=")) == {"A": "b=c", "B": ""}
    with pytest.raises(StackproofError):
        folder_of({})


def test_which_modules_a_part_is_for():
    def pattern(**words: str) -> str:
        part = render_part(Settings(name="x", variables={"A": "1"}, **words))
        return re.search(r"string.find\(t.modFullName or '', \"(.*)\"\)", part)[1]

    assert pattern(family="OpenMPI") == "^OpenMPI/"
    assert pattern(family="IntelMPI") == "^impi/"
    assert pattern(family="OpenMPI", compiler="LLVM") == "^OpenMPI/.*%-llvm%-compilers%-"
    assert render_part(Settings(name="x", family="MPICH")) == ""


def test_parts_are_told_apart():
    one, two = (
        render_part(Settings(name=f"stackproof {name}", family="OpenMPI", paths=(f"/{name}",)))
        for name in ("OpenMPI/system", "OpenMPI/system-GCC")
    )
    text = with_part(
        with_part("", "stackproof OpenMPI/system-GCC", two), "stackproof OpenMPI/system", one
    )
    assert text == two + one
    assert with_part(text, "stackproof OpenMPI/system", "") == two
    assert with_part(two, "stackproof OpenMPI/system", "") == two


def test_the_part_does_its_work_in_lmod(tmp_path):
    """EESSI's hook and the site's go on being called; an unload takes back what a load set."""
    need("lmod")
    modules = tmp_path / "modules"
    for name in ("OpenMPI/5.0-GCC-13", "other/1"):
        path = modules / f"{name}.lua"
        path.parent.mkdir(parents=True)
        path.write_text('prepend_path("PATH", "/of/the/module")\n')
    package = tmp_path / "lmod"
    part = render_part(
        Settings(
            name="x", family="OpenMPI", compiler="GCC", variables={"FI_X": 'a"b'}, paths=("/p",)
        )
    )
    override.write_part(str(package / "SitePackage.lua"), "y", part)
    first = (
        'require("strict")\nlocal hook = require("Hook")\n'
        'hook.register("load", function(t) setenv("OF_EESSI", t.modFullName) end)\n'
    )
    (package / "SitePackage.lua").write_text(first + (package / "SitePackage.lua").read_text())
    script = (
        '. /usr/share/lmod/lmod/init/bash\nshow() { echo "$1:$OF_EESSI:${FI_X-}:${PATH%%:/usr*}"; }\n'
        "module load other; show 1\nmodule load OpenMPI; show 2\nmodule unload OpenMPI; show 3\n"
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": "/usr/bin:/bin", "MODULEPATH": str(modules), "LMOD_PACKAGE_PATH": str(package),
             "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "1:other/1::/of/the/module",
        '2:OpenMPI/5.0-GCC-13:a"b:/p:/of/the/module',
        "3:OpenMPI/5.0-GCC-13::/of/the/module",
    ], done.stderr


def test_the_record_of_old_versions_is_read():
    """A version made before hooks were written has no word of them."""
    old = {"schema": Injection.SCHEMA, "place": "/p", "prefix": "/x", "before": "",
           "before_folder": False, "sources": {}}  # fmt: skip
    assert noun.from_json(Injection, json.dumps(old)).part == ""
