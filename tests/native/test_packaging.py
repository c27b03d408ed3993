"""Packages of the native parts: built from a release as an administrator would, checked, installed."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from machine import NOBODY, Machine
from need import need
from stackproof import __version__

pytestmark = pytest.mark.battery

ROOT = Path(__file__).parents[2]
_RPMLINT = ROOT / "packaging" / "rpm" / "rpmlint.toml"
_SPEC = ROOT / "packaging" / "rpm" / "stackproof-native.spec"
_CALL = ["--images=a.squashfs:/user-environment", "--verbose", "--", "ls", "/user-environment"]
_HELPER = "/usr/bin/stackproof-mount"


@functools.cache
def _home() -> str:
    """Return a home for rpm and rpmlint, which write there; it goes with this process."""
    folder = tempfile.mkdtemp(prefix="stackproof-home-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _run(
    argv: Sequence[str | Path], folder: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.fspath(word) for word in argv],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
        check=False,
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": _home(),
            **environment,
        },
    )  # fmt: skip


def _must(
    argv: Sequence[str | Path], folder: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = _run(argv, folder, **environment)
    assert done.returncode == 0, done.stdout[-4000:]
    return done


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """Return the file that is released: what administrators build from."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("release")
    _must([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder])
    return next(folder.glob("stackproof-*.tar.gz"))


@pytest.fixture(scope="session")
def tree(release, tmp_path_factory):
    """Return the unpacked release."""
    folder = tmp_path_factory.mktemp("tree")
    _must(["tar", "-C", folder, "-xf", release])
    return folder / release.name.removesuffix(".tar.gz")


@pytest.fixture(scope="session")
def debs(tree, tmp_path_factory):
    """Return the packages for Debian by name."""
    need("meson", "gcc", "debhelper", "slurm-headers")
    folder = tmp_path_factory.mktemp("debs")
    done = _must([tree / "packaging" / "build-deb", folder / "new"])
    assert "warning: " not in done.stdout
    return {path.name.partition("_")[0]: path for path in (folder / "new").glob("*.deb")}


@pytest.fixture(scope="session")
def rpms(release, tmp_path_factory):
    """Return the packages for RPM by name. Those that RPM would want installed are dpkg's here."""
    need("meson", "gcc", "rpmbuild", "slurm-headers")
    top = tmp_path_factory.mktemp("rpms")
    _must(["rpmbuild", "-tb", "--nodeps", "--define", f"_topdir {top}", release])
    found = (top / "RPMS").rglob("*.rpm")
    return {path.name.partition(f"-{__version__}")[0]: path for path in found}


# -------------------------------------------------------------------------------------- the release


def test_a_release_holds_what_packages_are_built_of(tree):
    folders = ["native", "packaging", "docs/man", "docs/completion"]
    listed = _must(["git", "ls-files", "-z", *folders, "SECURITY.md", "LICENSE"])
    names = [name for name in listed.stdout.split("\0") if name]
    assert len(names) > 80
    for name in names:
        assert (tree / name).is_file(), name
        assert (tree / name).stat().st_mode & 0o111 == (ROOT / name).stat().st_mode & 0o111, name


def test_one_version_everywhere():
    changelog = (ROOT / "packaging" / "debian" / "changelog").read_text()
    assert changelog.startswith(f"stackproof-native ({__version__}) ")
    spec = _SPEC.read_text()
    assert re.search(r"^Version: +(\S+)$", spec, re.MULTILINE)[1] == __version__  # type: ignore[index]
    assert f"> - {__version__}-1\n" in spec


# ------------------------------------------------------------------------------------ meson install


def _install(build: Path, root: Path) -> None:
    need("slurm-headers")
    _must(["meson", "install", "-C", build, "--no-rebuild"], DESTDIR=os.fspath(root))


def test_installing_with_the_plug_in(built, tmp_path):
    _install(built, tmp_path)
    modes = {
        path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o7777
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    plugin = next(path for path in modes if path.endswith(".so"))
    assert re.fullmatch(r"usr/lib[^.]*/slurm(-wlm)?/stackproof_spank\.so", plugin)
    assert modes.pop(plugin) in {0o644, 0o755}
    assert modes == {
        "usr/bin/stackproof-mount": 0o755,
        "usr/libexec/stackproof/stackproof-oci-hook": 0o755,
        "usr/share/doc/stackproof/mount.conf": 0o644,
        "usr/share/doc/stackproof/trust.conf": 0o644,
        "usr/share/doc/stackproof/plugstack.conf": 0o644,
        "usr/share/man/man8/stackproof-mount.8": 0o644,
        "usr/share/man/man8/stackproof-oci-hook.8": 0o644,
    }


def test_a_new_plug_in_takes_the_place_of_the_old_one(built, tmp_path):
    """It is not written over: a slurmstepd that has it loaded would crash."""
    _install(built, tmp_path)
    plugin = next(tmp_path.rglob("stackproof_spank.so"))
    os.link(plugin, tmp_path / "kept")
    os.utime(plugin, (0, 0))  # so that the one that is built is newer
    _install(built, tmp_path)
    assert plugin.stat().st_ino != (tmp_path / "kept").stat().st_ino


def test_the_example_of_a_plugstack_is_what_the_plug_in_takes(tmp_path):
    text = (ROOT / "native" / "spank" / "plugstack.conf").read_text()
    lines = [line.removeprefix("#") for line in text.splitlines() if "required stack" in line]
    assert [line.split()[:2] for line in lines] == [["required", "stackproof_spank.so"]] * 2
    settings = (ROOT / "native" / "spank" / "arguments.c").read_text()
    for word in [word for line in lines for word in line.split()[2:]]:
        assert f'"{word.partition("=")[0]}="' in settings


# ---------------------------------------------------------------------------------------- .deb


def _fields(deb: Path) -> dict[str, str]:
    said = _must(["dpkg-deb", "--field", deb]).stdout
    return dict(line.split(": ", 1) for line in said.splitlines() if re.match(r"[A-Z]\S*: ", line))


def _files(deb: Path) -> dict[str, str]:
    """Return the modes of the files of a package."""
    rows = [line.split() for line in _must(["dpkg-deb", "--contents", deb]).stdout.splitlines()]
    assert {row[1] for row in rows} == {"root/root"}
    return {row[5].removeprefix("."): row[0] for row in rows if not row[5].endswith("/")}


def test_the_packages_for_debian(debs):
    assert {name for name in debs if "dbgsym" not in name} == {
        "stackproof-completion", "stackproof-mount", "stackproof-oci-hook", "stackproof-spank",
    }  # fmt: skip
    mount = _files(debs["stackproof-mount"])
    assert mount[_HELPER] == "-rwxr-xr-x"
    assert mount["/etc/stackproof/mount.conf"] == "-rw-r--r--"
    assert "/usr/share/man/man8/stackproof-mount.8.gz" in mount
    plugins = [path for path in _files(debs["stackproof-spank"]) if path.endswith(".so")]
    assert len(plugins) == 1
    assert re.fullmatch(r"/usr/lib/[\w-]+/slurm(-wlm)?/stackproof_spank\.so", plugins[0])
    for deb in debs.values():
        assert _fields(deb)["Version"] == __version__
    depends = _fields(debs["stackproof-mount"])["Depends"]
    assert re.fullmatch(r"libc6 \([^)]*\)", depends)


def test_completions_and_man_pages_lie_where_shells_and_man_look(debs, rpms):
    """As they are in docs; zsh of Debian looks elsewhere for those of packages."""
    pages = {path.name for path in (ROOT / "docs" / "man").iterdir()}
    assert {"stackproof.1", "stackproof-build.1"} <= pages
    shared = {
        "/usr/share/bash-completion/completions/stackproof",
        "/usr/share/fish/vendor_completions.d/stackproof.fish",
    }
    files = set(_files(debs["stackproof-completion"]))
    assert files >= shared | {"/usr/share/zsh/vendor-completions/_stackproof"}
    assert files >= {f"/usr/share/man/man1/{page}.gz" for page in pages}
    said = _must(["rpm", "--query", "--list", "--package", rpms["stackproof-completion"]]).stdout
    listed = set(said.split())
    assert listed >= shared | {"/usr/share/zsh/site-functions/_stackproof"}
    assert {path for path in listed if path.removesuffix(".gz").endswith("/stackproof-build.1")}


def test_the_plug_in_depends_on_the_release_of_slurm(debs):
    depends = _fields(debs["stackproof-spank"])["Depends"].split(", ")
    header = Path("/usr/include/slurm/slurm_version.h").read_text()
    number = int(re.search(r"SLURM_VERSION_NUMBER 0x(\w+)", header)[1], 16)  # type: ignore[index]
    first, second = number >> 16, number >> 8 & 255
    at_least, below = [word for word in depends if word.startswith("slurm")]
    assert at_least.endswith(f" (>= {first}.{second:02})")
    assert below.endswith(f" (<< {first}.{second + 1:02}~)")


@pytest.mark.parametrize(
    ("number", "package", "depends"),
    [
        ("0x190b07", "slurm-smd", "slurm-smd (>= 25.11), slurm-smd (<< 25.12~)"),
        ("0x160508", "", ""),
    ],
)
def test_a_slurm_of_ones_own(tmp_path, number, package, depends):
    need("debhelper")
    (tmp_path / "slurm").mkdir()
    header = tmp_path / "slurm" / "slurm_version.h"
    header.write_text(f"#define SLURM_VERSION_NUMBER {number}\n#define SLURM_VERSION_NUM(a) a\n")
    options = {"SLURM_HEADERS": os.fspath(tmp_path), "SLURM_PACKAGE": package}
    argv = ["make", "-f", "packaging/debian/rules", "-np", "override_dh_gencontrol"]
    said = _must([*argv], **options).stdout
    assert f"echo 'slurm:Depends={depends}' >>debian/stackproof-spank.substvars\n" in said


def test_lintian_finds_nothing(debs):
    need("lintian")
    options = ["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]
    done = _must(["lintian", *options, *debs.values()])
    assert re.findall(r"^[EW]: .*", done.stdout, re.MULTILINE) == []


def test_build_deb_without_a_folder():
    for words in ([], ["-d"]):
        done = _run([ROOT / "packaging" / "build-deb", *words])
        assert done.returncode == 2
        assert "packaging/build-deb FOLDER" in done.stdout


@pytest.fixture
def administered(machine, debs):
    """Return a machine that has the packages as files."""
    for deb in debs.values():
        shutil.copy(deb, machine.folder)
    return machine


def _script(machine: Machine, *lines: str) -> list[str]:
    """Run lines of a shell as root in the machine; each must succeed."""
    user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    script = "\n".join(
        ["set -e", f"AS_USER='{user}'", "export DEBIAN_FRONTEND=noninteractive", *lines]
    )
    done = machine.run("bash", "-c", script, user=0)
    assert done.returncode == 0, done.stdout + done.stderr
    return (done.stdout + done.stderr).splitlines()


def test_installed_with_rights_by_the_administrator(administered):
    """As the how-to says it; the rights and what was changed outlive the next version."""
    need("unprivileged-userns", "squashfuse", "fuse")
    lines = _script(
        administered,
        "dpkg --install stackproof-mount_*.deb >/dev/null",
        f"stat -c before:%a {_HELPER}",
        f"$AS_USER {_HELPER} {' '.join(_CALL)}",
        f"dpkg-statoverride --update --add root root 4755 {_HELPER}",
        "echo 'mount-point = /user-environment' >/etc/stackproof/mount.conf",
        "dpkg --install --force-confold stackproof-mount_*.deb >/dev/null",
        f"stat -c after:%a {_HELPER}; cat /etc/stackproof/mount.conf",
        f"$AS_USER {_HELPER} {' '.join(_CALL)}",
        f"! $AS_USER {_HELPER} --images=a.squashfs:/user-tools -- true",
    )
    assert "before:755" in lines
    assert "after:4755" in lines
    assert "mount-point = /user-environment" in lines
    assert "mounting by squashfuse, in a user namespace" in lines
    assert "mounting by a loop device, with the rights that this program has" in lines
    assert lines.count("bin") == 2
    assert any(line.startswith("error: [not-permitted]") for line in lines)


def test_purged(administered):
    need("slurm")
    places = "/etc /usr/bin /usr/lib/*/slurm* /usr/share/doc /usr/share/man /var/lib/dpkg"
    lines = _script(
        administered,
        "dpkg --install stackproof-mount_*.deb stackproof-oci-hook_*.deb stackproof-spank_*.deb"
        " stackproof-completion_*.deb >/dev/null",
        "find /usr/lib/*/slurm* -name stackproof_spank.so",
        "dpkg --purge stackproof-mount stackproof-oci-hook stackproof-spank stackproof-completion"
        " >/dev/null",
        f"echo left:; find {places} -name '*stackproof*'",
    )
    assert len([line for line in lines if line.endswith("/stackproof_spank.so")]) == 1
    assert lines[lines.index("left:") + 1 :] == []


# ---------------------------------------------------------------------------------------- RPM


def test_rpmlint_finds_nothing(rpms):
    need("rpmlint")
    done = _must(["rpmlint", "--config", _RPMLINT, _SPEC, *rpms.values()])
    # One more where the distribution has rpm make a package of symbols for debuggers.
    assert f"{len(rpms)} packages and 1 specfiles checked; 0 errors, 0 warnings" in done.stdout


def test_each_filter_of_rpmlint_has_a_reason():
    """A comment stands above each, or above the group that it belongs to."""
    lines = [line.strip() for line in _RPMLINT.read_text().splitlines()]
    rows = lines[lines.index("Filters = [") + 1 : -1]
    assert rows[0].startswith("#")
    assert all(row.startswith(("#", '"')) for row in rows)


def test_the_packages_for_rpm(rpms, tmp_path):
    assert {name for name in rpms if "debug" not in name} == {
        "stackproof-completion", "stackproof-mount", "stackproof-oci-hook", "stackproof-spank",
    }  # fmt: skip
    # Newer releases open the machine's database even for a file, and a user cannot where it is new.
    query = ["rpm", "--query", "--dbpath", tmp_path / "database"]
    said = _must([*query, "--requires", "--package", rpms["stackproof-spank"]]).stdout
    needed = [line for line in said.splitlines() if line.startswith("slurm")]
    assert len(needed) == 2
    assert re.fullmatch(r"slurm >= \d\d\.\d\d", needed[0])
    assert re.fullmatch(r"slurm < \d\d\.\d\d", needed[1])
    said = _must([*query, "--configfiles", "--package", rpms["stackproof-mount"]]).stdout
    assert said.split() == ["/etc/stackproof/mount.conf"]
    if os.geteuid() == 0:
        root = ["--root", tmp_path / "root", "--nodeps", "--noscripts"]
        _must(["rpm", "--install", *root, *rpms.values()])
        helper = tmp_path / "root" / _HELPER[1:]
        assert helper.stat().st_mode & 0o7777 == 0o755
        assert _must([helper, "--version"]).stdout == f"stackproof-mount {__version__}\n"
        assert len(list((tmp_path / "root").rglob("slurm/stackproof_spank.so"))) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"mode": False, "spank": True}),
        (["--with", "setuid"], {"mode": True, "spank": True}),
        (["--without", "spank"], {"mode": False, "spank": False}),
    ],
)
def test_choices_of_the_spec(options, expected):
    need("rpmbuild")
    said = _must(["rpmspec", "--parse", *options, _SPEC]).stdout
    found = {
        "mode": "%attr(4755,root,root) /usr/bin/stackproof-mount" in said,
        "spank": "stackproof_spank.so" in said and "-Dspank=enabled" in said,
    }
    assert found == expected
    assert ("-Dspank=disabled" in said) is not expected["spank"]


def test_the_spec_for_another_slurm(tmp_path):
    need("rpmbuild")
    (tmp_path / "slurm").mkdir()
    header = tmp_path / "slurm" / "slurm_version.h"
    header.write_text("#define SLURM_VERSION_NUMBER 0x190b07\n")
    macros = {"headers": tmp_path, "plugins": "/opt/slurm/lib", "package": "slurm-ohpc"}
    options = [
        word for name, value in macros.items() for word in ("--define", f"slurm_{name} {value}")
    ]
    said = _must(["rpmspec", "--parse", *options, _SPEC]).stdout
    assert re.findall(r"^Requires: +(.*)$", said, re.MULTILINE) == [
        "slurm-ohpc >= 25.11", "slurm-ohpc < 25.12",
    ]  # fmt: skip
    assert "/opt/slurm/lib/stackproof_spank.so" in said


def test_the_profile_for_apparmor_is_one():
    """Parsed, not loaded; and a profile with a word that means nothing is refused."""
    need("apparmor")
    parser = ["/sbin/apparmor_parser", "--skip-kernel-load", "--skip-cache"]
    profile = ROOT / "packaging" / "apparmor" / "stackproof-oci-hook"
    subprocess.run([*parser, profile], check=True, capture_output=True, timeout=600)
    text = profile.read_text().replace("ptrace read,", "ptrace nonsense,")
    wrong = subprocess.run(
        parser, input=text, text=True, capture_output=True, timeout=600, check=False
    )
    assert wrong.returncode != 0
    rules = [line.strip() for line in text.splitlines() if not line.startswith("#")]
    assert not any(line.endswith(("x,", "rw,", "rwx,")) for line in rules), (
        "it starts and writes nothing"
    )
