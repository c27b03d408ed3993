"""What a test needs of the machine: `need("bubblewrap")` skips where it is not to be had.

    from need import need

    def test_build() -> None:
        need("bubblewrap", "mksquashfs")

The environment variable `STACKPROOF_MUST_WORK` (names with commas, or `all`) turns such a skip into
a failure, so that a machine known to have something cannot lose it in silence. Every probe uses the
thing for real, once per test session; that a program lies on PATH proves nothing. `PROBES` holds
the names.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import armlab
import debianroot
from stackproof.build.effects import git
from stackproof.build.engines.easybuild.effects import builder
from stackproof.core.errors import StackproofError

SPACK_TAGS = {
    "https://github.com/spack/spack.git": "v1.1.0",
    "https://github.com/spack/spack-packages.git": "v2025.11.0",
}
"""What `need("spack")` promises: these tags of these repositories, without the network."""
PUBLIC_CASES = "STACKPROOF_PUBLIC_CASES"
"""A folder with `NUMBER-NAME/expected.txt` and the inputs of public reports beside each."""
_PROBE_TIMEOUT_S = 600
_NOBODY = "65534"


def need(*names: str) -> None:
    """Skip the running test unless everything named works; fail it where it must work."""
    must = _must_work()
    for name in names:
        if name not in PROBES:
            raise ValueError(f"{name!r} is not one of: {', '.join(PROBES)}")
        fault = _fault(name)
        if fault is None:
            continue
        text = f"{name} does not work here: {fault}"
        if name in must:
            pytest.fail(f"{text} (STACKPROOF_MUST_WORK names it)", pytrace=False)
        pytest.skip(text)


def works(name: str) -> bool:
    """Return whether something works, for a test that runs either way and asserts accordingly."""
    return _fault(name) is None


def as_unprivileged(argv: Sequence[str]) -> list[str]:
    """Return the argv that runs a program as a user without rights (needs `unprivileged-user`)."""
    ids = ["--reuid", _NOBODY, "--regid", _NOBODY, "--clear-groups"]
    return ["setpriv", *ids, "--bounding-set=-all", "--inh-caps=-all", *argv]


def private_namespaces(*extra: str) -> list[str]:
    """Return the start of an argv that has its own mounts and processes, gone when it ends.

    `extra` are more options of unshare(1), such as `--net`. Without root a user namespace is made.
    """
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *extra]


def _must_work() -> frozenset[str]:
    text = os.environ.get("STACKPROOF_MUST_WORK", "")
    names = frozenset(word.strip() for word in text.split(",") if word.strip())
    if "all" in names:
        return frozenset(PROBES)
    unknown = names - set(PROBES)
    if unknown:
        raise ValueError(f"STACKPROOF_MUST_WORK names what is not known: {sorted(unknown)}")
    return names


@functools.cache
def _fault(name: str) -> str | None:
    """Return why something does not work, or None when it does."""
    with tempfile.TemporaryDirectory(prefix="stackproof-need-") as folder:
        try:
            return PROBES[name](Path(folder))
        except subprocess.TimeoutExpired:
            return f"no answer within {_PROBE_TIMEOUT_S} s"
        except OSError as error:
            return str(error)


def _try(*argv: str | Path, **options: str) -> str | None:
    """Return None when a program ends with 0, otherwise its last words."""
    done = subprocess.run(
        [os.fspath(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_PROBE_TIMEOUT_S,
        check=False,
        env={**os.environ, **options},
    )
    if done.returncode == 0:
        return None
    words = done.stdout.decode(errors="replace").strip().splitlines()
    return words[-1] if words else f"{argv[0]} exited with {done.returncode}"


def _root(_: Path) -> str | None:
    return None if os.geteuid() == 0 else "not root"


def _bubblewrap(_: Path) -> str | None:
    libraries = [
        word for folder in ("/lib", "/lib64") for word in ("--ro-bind-try", folder, folder)
    ]
    base = ["--die-with-parent", "--unshare-all", "--ro-bind", "/usr", "/usr", *libraries]
    return _try("bwrap", *base, "--proc", "/proc", "--dev", "/dev", "/usr/bin/true")


def _tiny_image(folder: Path) -> tuple[Path, str | None]:
    source = folder / "source"
    source.mkdir()
    (source / "word").write_text("here\n")
    image = folder / "tiny.squashfs"
    fault = _try("mksquashfs", source, image, "-comp", "zstd", "-no-progress", "-quiet")
    return image, fault


def _mksquashfs(folder: Path) -> str | None:
    return _tiny_image(folder)[1]


def _squashfuse(folder: Path) -> str | None:
    image, fault = _tiny_image(folder)
    if fault:
        return fault
    mount = folder / "mount"
    mount.mkdir()
    script = 'squashfuse "$0" "$1" && grep -q here "$1/word" && umount "$1"'
    return _try(*private_namespaces(), "sh", "-c", script, image, mount)


def _kernel_mount(folder: Path) -> str | None:
    image, fault = _tiny_image(folder)
    if fault:
        return fault
    mount = folder / "mount"
    mount.mkdir()
    return _try("unshare", "--mount", "mount", "-o", "loop,ro", image, mount)


def _fuse(_: Path) -> str | None:
    os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    return None


def _userns(_: Path) -> str | None:
    return _try("unshare", "--user", "--map-root-user", "--mount", "true")


def _unprivileged_user(_: Path) -> str | None:
    return _try(*as_unprivileged(["true"]))


def _unprivileged_userns(_: Path) -> str | None:
    return _try(*as_unprivileged(["unshare", "--user", "--map-root-user", "--mount", "true"]))


def _gcc(folder: Path) -> str | None:
    source, program = folder / "a.c", folder / "a"
    source.write_text('#include <stdio.h>\nint main(void) { return puts("here") < 0; }\n')
    return _try("gcc", "-o", program, source) or _try(program)


def _gxx(folder: Path) -> str | None:
    source, program = folder / "a.cpp", folder / "a"
    source.write_text("#include <string>\nint main() { return std::string().size() ? 1 : 0; }\n")
    return _try("g++", "-o", program, source) or _try(program)


def _meson(folder: Path) -> str | None:
    (folder / "meson.build").write_text("project('need', 'c')\n")
    return _try("meson", "setup", folder / "build", folder) or _try("ninja", "-C", folder / "build")


def _clang(folder: Path) -> str | None:
    """Return why clang cannot build a program for libFuzzer with AddressSanitizer."""
    source, program = folder / "a.c", folder / "a"
    source.write_text(
        "int LLVMFuzzerTestOneInput(const char *data, unsigned long size);\n"
        "int LLVMFuzzerTestOneInput(const char *data, unsigned long size)"
        " { (void)data; (void)size; return 0; }\n"
    )
    fault = _try("clang", "-fsanitize=fuzzer,address", "-o", program, source)
    return fault or _try(program, "-runs=1")


def _clang_tidy(folder: Path) -> str | None:
    source = folder / "a.c"
    source.write_text("int main(void) { return 0; }\n")
    return _try("clang-tidy", source, "--")


_DEBIAN = {
    "control": "Source: need\nMaintainer: need <need@need.invalid>\n"
    "Build-Depends: debhelper-compat (= 13)\n\n"
    "Package: need\nArchitecture: all\nDescription: need\n need\n",
    "changelog": "need (1) unstable; urgency=low\n\n  * need\n\n"
    " -- need <need@need.invalid>  Sat, 21 Nov 2026 12:00:00 +0000\n",
    "rules": "#!/usr/bin/make -f\n%:\n\tdh $@\n",
    "source/format": "3.0 (native)\n",
}


def _debhelper(folder: Path) -> str | None:
    """Return why an empty package for Debian cannot be built."""
    for name, text in _DEBIAN.items():
        path = folder / "need" / "debian" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "need" / "debian" / "rules").chmod(0o755)
    script = 'cd "$0" && dpkg-buildpackage --build=binary --no-sign'
    return _try("sh", "-c", script, folder / "need")


_SPEC = (
    "Name: need\nVersion: 1\nRelease: 1\nSummary: need\nLicense: need\nBuildArch: noarch\n"
    "%description\nneed\n%files\n"
)


def _rpmbuild(folder: Path) -> str | None:
    """Return why an empty RPM cannot be built."""
    (folder / "need.spec").write_text(_SPEC)
    return _try("rpmbuild", "-bb", "--define", f"_topdir {folder}", folder / "need.spec")


def _rpmlint(_: Path) -> str | None:
    return _try("rpmlint", "--version")


def _lintian(_: Path) -> str | None:
    return _try("lintian", "--version")


def _slurm_headers(folder: Path) -> str | None:
    source = folder / "a.c"
    source.write_text("#include <slurm/spank.h>\n")
    return _try("gcc", "-fsyntax-only", source)


def _network(_: Path) -> str | None:
    options = ("--retries", "1", "--timeout", "15", "--disable-pip-version-check")
    return _try(sys.executable, "-m", "pip", "index", "versions", *options, "mpich")


_LINK = (
    "ip link add left type veth peer name right && ip link set left up && tc qdisc add dev left "
)


def _netns(_: Path) -> str | None:
    script = f"{_LINK} root tbf rate 1gbit burst 64kb latency 10ms"
    return _try(*private_namespaces("--net", "--uts"), "sh", "-c", script)


def _netem(_: Path) -> str | None:
    script = f"{_LINK} root netem delay 1ms"
    return _try(*private_namespaces("--net", "--uts"), "sh", "-c", script)


def _slurm(folder: Path) -> str | None:
    """Return why Slurm cannot run; munged is what has to be started to know."""
    conf, key, socket = folder / "slurm.conf", folder / "key", folder / "socket"
    conf.write_text("ClusterName=need\nSlurmctldHost=localhost\n")
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    for program in ("slurmctld", "slurmd", "srun", "sinfo"):
        if fault := _try(program, "-V", SLURM_CONF=os.fspath(conf)):
            return fault
    daemon = ("munged", "--force", f"--socket={socket}", f"--key-file={key}")
    files = [f"--{name}-file={folder / name}" for name in ("pid", "log", "seed")]
    script = '"$@" && munge -n -S "$0" | unmunge -S "$0" >/dev/null'
    fault = _root(folder)
    return fault or _try(*private_namespaces(), "sh", "-c", script, socket, *daemon, *files)


def _spack(_: Path) -> str | None:
    """Return why the clones of Spack 1.1 and its packages, or its solver, are not to be had here.

    Spack is in no package index: a machine that reaches nothing else cannot have it.
    """
    if not os.environ.get(git.MIRROR_VARIABLE):
        return f"Spack is in no package index, and {git.MIRROR_VARIABLE} names no folder of clones"
    try:
        for url, tag in SPACK_TAGS.items():
            if not git.find(url).local:
                return f"{git.MIRROR_VARIABLE} has no clone of {url}"
            git.resolve(url, tag)
    except StackproofError as error:
        return error.problems[0].message
    return _try(sys.executable, "-c", "import clingo")


def _apt(_: Path) -> str | None:
    """Return why apt cannot bring a file."""
    return _try("/usr/lib/apt/apt-helper", "--version")


def _debian_archive(_: Path) -> str | None:
    """Return why a bare Debian cannot be had by this machine's apt."""
    if not os.path.exists(debianroot.KEYS):
        return "no debian-archive-keyring"
    return _try("dpkg-deb", "--version") or (
        None if debianroot.mirror() else "no archive of Debian"
    )


def _debian_arm64(where: Path) -> str | None:
    """Return why this machine's archive has no packages for arm64 of its own release."""
    fault = _debian_archive(where)
    release = platform.freedesktop_os_release()
    if fault or release.get("ID") != "debian":
        return fault or "this machine is no Debian"
    file = f"dists/{release['VERSION_CODENAME']}/main/binary-arm64/Release"
    base = debianroot.mirror().rstrip("/")
    argv = ("/usr/lib/apt/apt-helper", "-oAPT::Sandbox::User=", "download-file", f"{base}/{file}")
    return _try(*argv, where / "Release")


def _aarch64(folder: Path) -> str | None:
    """Return why programs of aarch64 are not compiled, or not started, here."""
    source, program = folder / "a.c", folder / "a"
    source.write_text('#include <stdio.h>\nint main(void) { return puts("here") < 0; }\n')
    return _try(armlab.COMPILER, "-static", "-o", program, source) or _try(
        *armlab.emulated(program)
    )


def _nginx(where: Path) -> str | None:
    """Return why there is no nginx: not installed, nor to be had of this very release of Debian."""
    if shutil.which("nginx"):
        return _try("nginx", "-v")
    if platform.freedesktop_os_release().get("ID") != "debian":
        return "it is not installed"
    return _debian_archive(where)


def _lmod(_: Path) -> str | None:
    try:
        program = builder.find_lmod()
    except StackproofError as error:
        return error.problems[0].message
    return _try(program, "python", "--version")


INSTALLED_MPIS = {
    "mpich": ("/usr/bin/mpicc.mpich", "/usr/lib64/mpich/bin/mpicc"),
    "openmpi": ("/usr/bin/mpicc.openmpi", "/usr/lib64/openmpi/bin/mpicc"),
}
"""Where packages of distributions have the wrappers of MPIs."""


def installed_mpi(name: str) -> str:
    """Return the wrapper of a distribution's MPI (needs `installed-mpis`)."""
    return next((path for path in INSTALLED_MPIS[name] if os.access(path, os.X_OK)), "")


def _installed_mpis(folder: Path) -> str | None:
    source = folder / "mpi.c"
    source.write_text("#include <mpi.h>\nint main(void) { return MPI_SUCCESS; }\n")
    for name in INSTALLED_MPIS:
        if not (wrapper := installed_mpi(name)):
            return f"no {name} of the distribution"
        if fault := _try(wrapper, "-o", folder / name, source):
            return fault
    return None


def _easybuild(_: Path) -> str | None:
    """Return why EasyBuild cannot be had: it comes from the package index and loads modules."""
    try:
        program = builder.find_lmod()
    except StackproofError as error:
        return error.problems[0].message
    return _try(program, "python", "--version") or _network(_)


def _public_cases(_: Path) -> str | None:
    """Return why there are no cases of public reports, which are not part of the project."""
    folder = os.environ.get(PUBLIC_CASES, "")
    if not folder:
        return f"{PUBLIC_CASES} names no folder"
    return None if any(Path(folder).glob("*/expected.txt")) else f"no cases are in {folder}"


def _chromium(folder: Path) -> str | None:
    if not shutil.which("chromedriver"):
        return "no chromedriver"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
    profile = f"--user-data-dir={folder / 'profile'}"
    return _try("chromium", *options, profile, "--dump-dom", "about:blank", HOME=str(folder))


def _runc(folder: Path) -> str | None:
    """Return why runc cannot run a container; a static program is all that is in it."""
    root = folder / "runc"
    (folder / "bundle").mkdir()
    config = {
        "ociVersion": "1.0.2",
        "root": {"path": "root"},
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/a"], "cwd": "/"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}]},
    }
    (folder / "bundle" / "config.json").write_text(json.dumps(config))
    name = f"need-{os.getpid()}"
    return _one_program(folder / "bundle" / "root") or _try(
        "runc", "--root", root, "run", "--bundle", folder / "bundle", name
    )


def _one_program(root: Path) -> str | None:
    """Make a root with one static program, `/a`, and folders; return why that cannot be."""
    for name in ("dev", "proc", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    source = root / "a.c"
    source.write_text("int main(void) { return 0; }\n")
    return _try("gcc", "-static", "-o", root / "a", source)


def _apptainer(folder: Path) -> str | None:
    return _one_program(folder) or _try("apptainer", "exec", "--userns", folder, "/a")


def _singularity(folder: Path) -> str | None:
    """Return why there is no SingularityCE; Apptainer may have its name."""
    if fault := _try("sh", "-c", "singularity --version | grep singularity-ce"):
        return f"no SingularityCE: {fault}"
    return _one_program(folder) or _try("singularity", "exec", "--userns", folder, "/a")


def _strace(folder: Path) -> str | None:
    """Return the reason that strace cannot follow a program by seccomp, empty for none."""
    calls = folder / "calls"
    argv = ("strace", "-f", "--seccomp-bpf", "--trace=mkdir", "-o", calls, "mkdir", folder / "made")
    return _try(*argv) or (None if calls.stat().st_size else "no call was seen")


def _gdb(folder: Path) -> str | None:
    """Return the reason that gdb cannot attach to a process, empty for none."""
    script = 'sleep 60 & gdb -batch -nx -p $! -ex "info inferiors" | grep -q "process $!"; '
    return _try("sh", "-c", f"cd {shlex.quote(str(folder))}; {script} got=$?; kill $!; exit $got")


def _ssh_keygen(folder: Path) -> str | None:
    """Return why ssh-keygen cannot sign: releases before 8.0 cannot."""
    (folder / "a").write_text("a")
    key = folder / "key"
    made = _try("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    return made or _try("ssh-keygen", "-Y", "sign", "-q", "-n", "a", "-f", key, folder / "a")


PROBES: dict[str, Callable[[Path], str | None]] = {
    "root": _root,
    # Below somebody's private folder it is no program for a user without rights.
    "python": lambda _: _try(sys.executable, "-c", "pass"),
    "bubblewrap": _bubblewrap,
    "mksquashfs": _mksquashfs,
    "squashfuse": _squashfuse,
    "kernel-mount": _kernel_mount,
    "fuse": _fuse,
    "userns": _userns,
    "unprivileged-user": _unprivileged_user,
    "unprivileged-userns": _unprivileged_userns,
    "gcc": _gcc,
    "zsh": lambda _: _try("zsh", "-fc", "autoload -U compinit && compinit -D -u"),
    "fish": lambda _: _try("fish", "--no-config", "-c", "complete -C 'cd /'"),
    "groff": lambda _: _try("groff", "-man", "-Tutf8", "-z", "/dev/null"),
    "g++": _gxx,
    "gfortran": lambda _: _try("gfortran", "--version"),
    "zstd": lambda _: _try("zstd", "--version") or _try("prlimit", "--version"),
    "e2fsprogs": lambda _: _try("mke2fs", "-V") or _try("debugfs", "-V"),
    "patchelf": lambda _: _try("patchelf", "--version"),
    "meson": _meson,
    "clang": _clang,
    "clang-tidy": _clang_tidy,
    "debhelper": _debhelper,
    "lintian": _lintian,
    "apparmor": lambda _: _try("/sbin/apparmor_parser", "--version"),
    "rpmbuild": _rpmbuild,
    "rpmlint": _rpmlint,
    "slurm-headers": _slurm_headers,
    "network": _network,
    "netns": _netns,
    "netem": _netem,
    "slurm": _slurm,
    "lstopo": lambda _: _try("lstopo", "--version"),
    "apt": _apt,
    "spack": _spack,
    "easybuild": _easybuild,
    "lmod": _lmod,
    "podman": lambda _: _try("podman", "info") or _try("runc", "--version"),
    "installed-mpis": _installed_mpis,
    "chromium": _chromium,
    "runc": _runc,
    "apptainer": _apptainer,
    "singularity": _singularity,
    "strace": _strace,
    "gdb": _gdb,
    "gdbserver": lambda _: _try("gdbserver", "--version"),
    "ssh-keygen": _ssh_keygen,
    "docker-registry": lambda _: _try("docker-registry", "--version"),
    "skopeo": lambda _: _try("skopeo", "--version"),
    "public-cases": _public_cases,
    "hpcc": lambda _: _try("sh", "-c", 'ldd "$(command -v hpcc)" | grep -q "=> /.*libmpi"'),
    "debian-archive": _debian_archive,
    "debian-arm64": _debian_arm64,
    "aarch64": _aarch64,
    "nginx": _nginx,
}
