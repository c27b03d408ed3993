"""`inject container`: one definition in several forms, and a real container that gets it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from containerlab import store
from eessilab import EVERY, Eessi, inject
from images import MOUNT, make_image
from injectlab import openmpi, uses_mpich, uses_openmpi
from need import need
from stackproof.core.errors import ExitCode
from stackproof.inject.container import CDI_KIND, Containing, render_edf
from stackproof.linking.effects.view import RootView


@pytest.fixture
def lab(tmp_path: Path) -> Eessi:
    """A root folder with a program, its MPI in /opt, and the C library."""
    need("gcc")
    lab = Eessi(tmp_path)
    app = uses_mpich(
        lab, name="root/bin/app", own="eessi/lib", flags=["-Wl,--enable-new-dtags,-rpath,/opt/lib"]
    )
    root = tmp_path / "root"
    shutil.copytree(tmp_path / "eessi" / "lib", root / "opt" / "lib")
    listed = subprocess.run(["ldd", app], capture_output=True, text=True, timeout=600, check=True)
    libc = next(line.split()[2] for line in listed.stdout.splitlines() if "libc.so.6" in line)
    loader = RootView().elf(RootView().look(app)).interpreter
    for path in (libc, loader):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    for name in ("proc", "dev", "sys", "tmp"):
        (root / name).mkdir()
    return lab


def words(lab, prefix="host", form="podman"):
    root = lab.path("root")
    return ("container", "/bin/app", "--root", root, "--with", lab.path(prefix), "--form", form)


def test_options(lab, capsys):
    host = lab.path("host")
    for form, bind in (("podman", "volume"), ("docker", "volume"), ("apptainer", "bind")):
        code, out, err = inject(capsys, *words(lab, form=form))
        assert code == ExitCode.DONE
        assert "takes the place of the one that the container's image sets" in err
        assert shlex.split(out) == [
            f"--{bind}={host}:{host}:ro",
            f"--env=LD_LIBRARY_PATH={host}/lib",
        ]


def test_runtimes_of_the_field(lab, capsys):
    """Every form says the same: one folder at its own path, one variable."""
    host = lab.path("host")
    code, out, err = inject(capsys, *words(lab, form="edf"), "--library-path", "/own")
    assert (code, err) == (ExitCode.DONE, ""), "the image's own folders are known"
    assert tomllib.loads(out) == {
        "mounts": [f"{host}:{host}:ro"],
        "env": {"LD_LIBRARY_PATH": f"{host}/lib:/own"},
    }
    assert shlex.split(inject(capsys, *words(lab, form="enroot"))[1]) == [
        f"--mount={host}:{host}:none:x-create=auto,rbind,ro",
        f"--env=LD_LIBRARY_PATH={host}/lib",
    ]
    assert shlex.split(inject(capsys, *words(lab, form="ch-run"))[1]) == [
        f"--bind={host}:{host}",
        f"--set-env=LD_LIBRARY_PATH={host}/lib",
    ]


def test_a_link_is_made_beside_the_library(lab, capsys):
    """A bind brings it along, and the line that is printed makes it."""
    lab.library("named/lib/libmpich.so.12", defines=EVERY)
    code, _, err = inject(capsys, *words(lab, "named"))
    link = f"ln -s libmpich.so.12 {lab.path('named/lib/libmpi.so.12')}"
    assert (code, f"repeat this: {link}\n" in err) == (ExitCode.STEPS, True)
    subprocess.run(["/bin/sh", "-c", link], check=True, timeout=600)
    assert inject(capsys, *words(lab, "named"))[0] == ExitCode.DONE


def test_levels_are_of_an_artefact_alone(lab, capsys):
    code, _, err = inject(capsys, *words(lab), "--level", "libfabric")
    assert (code, "choose from an artefact" in err) == (ExitCode.USAGE, True)


def test_why_a_hook_covers_nothing(lab, capsys, tmp_path):
    """It is another ABI, an MPI that is not there, or a program without MPI."""
    need("patchelf")
    net = lab.path("net")
    assert inject(capsys, "artefact", lab.path("host"), "-o", net)[0] == ExitCode.DONE
    uses_openmpi(lab, name="root/bin/other", own="openmpi/lib") if openmpi(lab, "openmpi") else None
    lab.program("root/bin/plain")
    hook = ("--with", net, "--form", "podman-hook", "--root", lab.path("root"), "--level", "mpi")
    for program, why in (
        ("/bin/other", "compiled for the openmpi ABI, and the artefact's MPI is not"),
        ("/bin/plain", "neither the program nor its libraries call MPI"),
    ):
        code, _, err = inject(capsys, "container", program, *hook)
        assert (code, why in err) == (ExitCode.WORSE, True), err
    (tmp_path / "root/opt/lib/libmpi.so.12").unlink()
    code, _, err = inject(capsys, "container", "/bin/app", *hook)
    assert (code, "the container has no `libmpi.so.12`" in err) == (ExitCode.WORSE, True)


def test_texts_of_an_edf():
    odd = 'a "b" \\ $HOME'
    text = render_edf(Containing(binds={"/b": "/a"}, environment={"A.B": odd}))
    assert tomllib.loads(text)["env"] == {"A.B": odd.replace("$", "$$")}
    assert tomllib.loads(render_edf(Containing(binds={"/b": "/a"}))) == {"mounts": ["/a:/b:ro"]}


def test_a_cdi_file(lab, capsys, tmp_path):
    place = tmp_path / "mpi.json"
    assert inject(capsys, *words(lab, form="cdi"), "-o", place)[0] == ExitCode.DONE
    data = json.loads(place.read_text())
    (device,) = data["devices"]
    host = lab.path("host")
    assert data["kind"] == "stackproof.org/mpi"
    assert device["containerEdits"]["env"] == [f"LD_LIBRARY_PATH={host}/lib"]
    (mount,) = device["containerEdits"]["mounts"]
    assert (mount["hostPath"], mount["containerPath"]) == (host, host)
    assert "ro" in mount["options"]


@pytest.mark.battery
def test_podman_reads_the_cdi_file(lab, capsys, tmp_path):
    """The program takes the new MPI in a container that asks for the device, and its own without.

    podman 4 looks into fixed folders alone: a namespace of mounts has the file there for it.
    """
    need("podman", "root", "runc")
    place = tmp_path / "cdi" / "mpi.json"
    place.parent.mkdir()
    assert inject(capsys, *words(lab, form="cdi"), "-o", place)[0] == ExitCode.DONE
    # A root without a folder for what podman mounts itself is none.
    for name in ("proc", "dev", "sys", "etc", "run", "tmp"):
        Path(lab.path("root"), name).mkdir(exist_ok=True)
    Path("/run/cdi").mkdir(exist_ok=True)
    with store() as kept:
        image = kept.add("app", Path(lab.path("root")))
        start = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /run/cdi && exec "$@"',
                 place.parent, "podman", "run", "--rm", "--network=none"]  # fmt: skip

        def answer(*more):
            argv = [*start, *more, image, "/bin/app"]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False,
                                  env={**os.environ, **kept.env})  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert "answer MPI_Init eessi/lib/libmpi.so.12\n" in answer()
        given = answer(f"--device={CDI_KIND}=injected")
        assert "answer MPI_Init host/lib/libmpi.so.12\n" in given


def test_apptainer_takes_the_options(lab, capsys):
    need("apptainer")
    options = shlex.split(inject(capsys, *words(lab, form="apptainer"))[1])
    for more, answers in (([], "eessi"), (options, "host")):
        argv = ["apptainer", "exec", "--userns", *more, lab.path("root"), "/bin/app"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=True)
        assert f"answer MPI_Init {answers}/lib/libmpi.so.12\n" in done.stdout


def test_a_container_gets_it(lab, capsys):
    """The same bind and variables, made by bubblewrap: the program takes the new MPI."""
    need("bubblewrap")
    out = inject(capsys, *words(lab))[1]
    options = []
    for word in shlex.split(out):
        name, _, value = word.partition("=")
        if name == "--volume":
            source, place, _ = value.split(":")
            options += ["--ro-bind", source, place]
        else:
            options += ["--setenv", *value.split("=", 1)]
    start = ["bwrap", "--unshare-all", "--bind", lab.path("root"), "/"]

    def answer(*more):
        argv = [*start, *more, "/bin/app"]
        return subprocess.run(argv, capture_output=True, text=True, timeout=600, check=True).stdout

    assert "answer MPI_Init eessi/lib/libmpi.so.12\n" in answer()
    assert "answer MPI_Init host/lib/libmpi.so.12\n" in answer(*options)


def test_a_hook_program_that_is_not_here(lab, capsys, tmp_path):
    """A note says so, and no more: the definition may be for another machine."""
    need("patchelf")
    net = lab.path("net")
    assert inject(capsys, "artefact", lab.path("host"), "-o", net)[0] == ExitCode.DONE
    words_ = words(lab, "net", "oci-hook")
    hook = tmp_path / "stackproof-oci-hook"
    code, out, err = inject(capsys, *words_, "--hook", hook)
    assert (code, json.loads(out)["hooks"]["createContainer"][0]["path"]) == (0, str(hook))
    assert f"note: there is no hook program `{hook}` on this machine" in err
    hook.touch()
    code, _, err = inject(capsys, *words_, "--hook", hook)
    assert (code, "note:" in err) == (ExitCode.DONE, False)


def test_an_image_is_refused_with_two_ways(lab, capsys, tmp_path, monkeypatch):
    """A folder needs no mount, which a user without FUSE cannot make."""
    need("mksquashfs")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    image = make_image(tmp_path / "a.squashfs")
    code, out, err = inject(capsys, *words(lab, image.name))
    assert (code, out) == (ExitCode.INVALID, "")
    assert f"`stackproof install {image} --to DIR`" in err
    assert f"`stackproof start {image}`, and there name {MOUNT}/mpich" in err


def test_an_artefact_in_an_image_is_refused_with_two_ways(lab, capsys):
    need("mksquashfs", "patchelf")
    net = lab.path("net.squashfs")
    assert inject(capsys, "artefact", lab.path("host"), "-o", net)[0] == ExitCode.DONE
    code, out, err = inject(capsys, *words(lab, "net.squashfs"))
    assert (code, out) == (ExitCode.INVALID, "")
    assert f"`unsquashfs -d DIR {net}`" in err


def test_what_fails_is_refused(lab, capsys):
    lab.mpi("gone", defines=[name for name in EVERY if name != "MPI_Init"])
    code, out, err = inject(capsys, *words(lab, "gone"))
    assert (code, out) == (ExitCode.WORSE, "")
    assert "MPI_Init" in err


def test_links_are_not_for_binds(lab, capsys):
    """Another name needs a link, which no bind makes: it is said, and nothing is written."""
    lab.library("named/lib/libmpich.so.12", defines=EVERY)
    code, out, err = inject(capsys, *words(lab, "named"))
    assert (code, out) == (ExitCode.STEPS, "")
    assert "links" in err


def test_paths_that_no_option_can_hold(lab, capsys):
    lab.mpi("a,b")
    code, out, err = inject(capsys, *words(lab, "a,b"))
    assert (code, out) == (ExitCode.INVALID, "")
    assert "a,b" in err
