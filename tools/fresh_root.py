"""A machine that nobody prepared: a minimal root folder of a distribution, and a command in it.

`make_base` gets git, make, python3 and certificates by debootstrap, which is what README asks for;
`Root` is one copy of it with a clone of this checkout, a user, and the network as this machine has
it: its apt mirror, its pip configuration and its certificates, all looked up when it runs.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackproof.core.value import Value

CHECKOUT = Path(__file__).resolve().parents[1]
USER = "alice"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Whose mirror has a suite, and where its keys are.
DISTRIBUTIONS = {"bookworm": "debian", "trixie": "debian", "noble": "ubuntu"}
_KEYS = "/usr/share/keyrings/{}-archive-keyring.gpg"
# What debootstrap goes by for a suite that is newer than itself: all its later names are links.
_SCRIPTS = "/usr/share/debootstrap/scripts"
_SCRIPT = {"debian": "sid", "ubuntu": "gutsy"}
_INCLUDED = "git,make,python3,ca-certificates"
_CERTIFICATES = "usr/local/share/ca-certificates"
# How a user gets to an index, of what pip's variables say; the rest is for this machine alone.
_PASSED = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|PROXY|CERT|DEFAULT_TIMEOUT)|.*_proxy",
    re.IGNORECASE,
)
# Of linux/devices.txt: what a container has, what FUSE needs, and loop devices.
_DEVICES = (
    "null 666 c 1 3", "zero 666 c 1 5", "full 666 c 1 7", "random 666 c 1 8",
    "urandom 666 c 1 9", "tty 666 c 5 0", "loop-control 660 c 10 237",
    *(f"loop{number} 660 b 7 {number}" for number in range(64)),
)  # fmt: skip
_FUSE = "fuse 666 c 10 229"

# In private namespaces: the root folder becomes `/`, with /proc, /sys and /dev of its own. The
# shell stays: it is the first process, and reaps those that lost theirs. At its end the kernel ends
# whatever is left. $1: the root folder, $2: lines of devices.
_ENTER = """
set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs -o mode=755 devices dev
echo "$2" | while read -r name mode kind major minor; do
  mknod -m "$mode" "dev/$name" "$kind" "$major" "$minor"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t tmpfs -o mode=755 run run
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
cd /
shift 2
set +e
"$@"
exit $?
"""


class NotHere(Exception):  # noqa: N818 - no fault, but what this machine lacks
    """Why a root folder cannot be made on this machine."""


class Setting(Value):
    """What is unusual about a machine.

    `private` puts python3 and the checkout below a home of mode 0700; `blank` gives the checkout's
    folder a name with a blank; without `fuse` there is no /dev/fuse, and without `ipv6` no socket
    of it can be made.
    """

    user: str = "root"
    private: bool = False
    blank: bool = False
    umask: int = 0o022
    ipv6: bool = True
    fuse: bool = True


def mirror_of(suite: str) -> str:
    """Return where this machine's own apt gets packages of a suite's distribution.

    Raises `NotHere`. Only the machine's configuration names hosts, no file of the project does.
    """
    wanted = DISTRIBUTIONS[suite]
    given = os.environ.get(f"FRESH_MIRROR_{wanted.upper()}")
    if given:
        return given
    release = platform.freedesktop_os_release()
    if release.get("ID") != wanted:
        variable = f"FRESH_MIRROR_{wanted.upper()}"
        raise NotHere(f"this machine's apt has no mirror of {wanted}; {variable}=URL names one")
    row = "$(RELEASE) $(COMPONENT) $(REPO_URI)"
    done = subprocess.run(  # noqa: S603 - words of this file
        ["apt-get", "indextargets", "--format", row, "Created-By: Packages"],  # noqa: S607 - root's own PATH
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        name, component, address = line.split(" ", 2)
        if (name, component) == (release.get("VERSION_CODENAME"), "main"):
            return address
    raise NotHere("this machine's apt has no package index (`apt-get update` makes it)")


def needed_by(suite: str) -> dict[str, str]:
    """Return the variables that README names for a distribution: where Debian's sources are.

    Raises `NotHere`.
    """
    if DISTRIBUTIONS[suite] == "debian":
        return {}
    return {"STACKPROOF_DEBIAN_ARCHIVE": mirror_of("bookworm")}


def keys_of(distribution: str) -> str:
    """Return the file of keys that a distribution's packages are signed with; raises `NotHere`."""
    variable = f"FRESH_KEYS_{distribution.upper()}"
    keys = os.environ.get(variable) or _KEYS.format(distribution)
    if not os.path.exists(keys):
        raise NotHere(
            f"`{keys}` is not there: Debian 13 and Ubuntu have it in {distribution}-keyring, "
            f"{distribution}-archive-keyring; {variable}=FILE names another one"
        )
    return keys


def make_base(suite: str, folder: Path, log: Path) -> Path:
    """Return a minimal root folder of a suite, made by debootstrap unless it is there already.

    Raises `NotHere` and CalledProcessError, which the log explains.
    """
    base = folder / f"{suite}-base"
    if base.exists():
        return base
    if os.geteuid() != 0:
        raise NotHere("only root can make root folders of distributions")
    if shutil.which("debootstrap", path=PATH) is None:
        raise NotHere("`debootstrap` is not there: apt-get install debootstrap, or give --install")
    distribution, part = DISTRIBUTIONS[suite], folder / f"{suite}-part"
    keys, mirror = keys_of(distribution), mirror_of(suite)
    if part.exists():
        shutil.rmtree(part)
    components = "main,universe" if distribution == "ubuntu" else "main"
    argv = [
        "debootstrap", "--variant=minbase", f"--include={_INCLUDED}", f"--keyring={keys}",
        f"--components={components}", suite, os.fspath(part), mirror,
        *([] if os.path.exists(f"{_SCRIPTS}/{suite}") else [_SCRIPT[distribution]]),
    ]  # fmt: skip
    with log.open("ab") as stream:
        subprocess.run(  # noqa: S603 - words of this file
            argv, check=True, stdout=stream, stderr=stream, env={**os.environ, "PATH": PATH}
        )
    part.rename(base)
    return base


class Root(Value):
    """A copy of a base, with a user's checkout in it."""

    path: Path
    setting: Setting

    @property
    def home(self) -> str:
        """Return the user's home; everybody may look into it unless the setting says otherwise."""
        return "/root" if self.setting.user == "root" else f"/home/{USER}"

    @property
    def checkout(self) -> str:
        """Return where the clone is: in a private home, or where everybody can read it."""
        above = self.home if self.setting.private or self.setting.user != "root" else "/srv"
        return f"{above}/{'my stack proof' if self.setting.blank else 'stackproof'}"

    def prepare(self, base: Path, log: Path) -> None:
        """Copy the base, let it reach the network, make the user, and clone the checkout.

        A root of the same name that an earlier run left goes first.
        """
        if self.path.exists():
            self.remove()
        subprocess.run(["cp", "-a", "--reflink=auto", base, self.path], check=True)  # noqa: S603, S607 - words and paths of this file
        self._connect()
        (self.path / "usr/local/bin/prepare").write_text(_PREPARE)
        words = ["bash", "/usr/local/bin/prepare", self.setting.user]
        words += ["private"] if self.setting.private else []
        plain = Root(path=self.path, setting=Setting())
        with log.open("ab") as stream:
            plain.run(words, stream.fileno()).check_returncode()
        mode = 0o700 if self.setting.private else 0o755
        (self.path / self.home.lstrip("/")).chmod(mode)
        self._clone()

    def _clone(self) -> None:
        """Clone what is committed here, with the user's umask, and give it to the user."""
        target = self.path / self.checkout.lstrip("/")
        # Where this checkout belongs to somebody else, git would refuse to read it.
        git = ["git", "-c", "safe.directory=*", "clone", "--quiet", "--no-hardlinks"]
        subprocess.run([*git, CHECKOUT, target], check=True, umask=self.setting.umask)  # noqa: S603 - words and paths of this file
        if self.setting.user != "root":
            owner = (self.path / self.home.lstrip("/")).stat()
            for path in (target, *target.rglob("*")):
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def _connect(self) -> None:
        """Give the root this machine's names, apt settings, pip settings and certificates."""
        shutil.copy("/etc/resolv.conf", self.path / "etc")
        host = platform.node()
        (self.path / "etc/hostname").write_text(f"{host}\n")
        (self.path / "etc/hosts").write_text(f"127.0.0.1 localhost {host}\n::1 localhost {host}\n")
        shown = subprocess.run(
            ["apt-config", "dump"],  # noqa: S607 - root's own PATH
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        kept = [line for line in shown.stdout.splitlines() if re.match(r"Acquire::https?::", line)]
        (self.path / "etc/apt/apt.conf.d/99fresh").write_text("".join(f"{row}\n" for row in kept))
        own = sorted(Path("/", _CERTIFICATES).glob("*.crt"))
        for file in own:
            target = self.path / _CERTIFICATES / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        for name in ("/etc/pip.conf", os.environ.get("PIP_CERT", "")):
            # The bundle of certificates is made again in there.
            if name and os.path.isfile(name) and not (self.path / name.lstrip("/")).exists():
                (self.path / name.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(name, self.path / name.lstrip("/"))

    def run(
        self,
        argv: Sequence[str],
        output: int,
        *,
        folder: str = "/",
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the root as its user; nothing that it starts outlives it."""
        return subprocess.run(  # noqa: S603 - words and paths of this file
            self.argv(argv, folder, env or {}),
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False,
            timeout=timeout_s, preexec_fn=None if self.setting.ipv6 else _forbid_ipv6,
        )  # fmt: skip

    def argv(self, argv: Sequence[str], folder: str, env: Mapping[str, str]) -> list[str]:
        """Return the argv that enters the root and runs a command there."""
        passed = {name: text for name, text in os.environ.items() if _PASSED.fullmatch(name)}
        python = f"{self.home}/python/bin:" if self.setting.private else ""
        variables = {
            **passed, "PATH": python + PATH, "HOME": self.home, "LANG": "C.UTF-8", **env,
            "USER": self.setting.user if self.setting.user == "root" else USER,
        }  # fmt: skip
        words = [f"{name}={text}" for name, text in variables.items()]
        as_user = [] if self.setting.user == "root" else ["setpriv", f"--reuid={USER}",
            f"--regid={USER}", "--init-groups"]  # fmt: skip
        script = (
            f"umask {self.setting.umask:03o} && cd {shlex.quote(folder)} && exec {shlex.join(argv)}"
        )
        devices = (*_DEVICES, _FUSE) if self.setting.fuse else _DEVICES
        return [
            *("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"),
            *("--propagation", "private", "sh", "-c", _ENTER, "sh", os.fspath(self.path)),
            *("\n".join(devices), *as_user, "env", "-i", *words, "bash", "-c", script),
        ]

    def remove(self) -> None:
        """Remove the root folder; raises `NotHere` where something is mounted in it.

        What its commands mount is in their own namespaces, and goes with them.
        """
        below = os.fspath(self.path.resolve())
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            mount = line.split()[4].replace("\\040", " ")
            if mount == below or mount.startswith(f"{below}/"):
                raise NotHere(f"`{mount}` is mounted, so `{below}` is not deleted")
        shutil.rmtree(self.path)


# As root, before the user comes: certificates; sudo and the user; a Python of their own, which is a
# copy of the system's in a home (what pyenv, uv and conda make is of that shape).
_PREPARE = f"""
set -e
update-ca-certificates >/dev/null
export DEBIAN_FRONTEND=noninteractive
if [ "$1" != root ]; then
  apt-get -qq update
  apt-get -qq install --yes --no-install-recommends sudo
  useradd --create-home --shell /bin/bash {USER}
  echo '{USER} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/{USER}
fi
if [ "$2" = private ]; then
  apt-get -qq update
  apt-get -qq install --yes --no-install-recommends python3-venv
  home=$(eval echo "~$([ "$1" = root ] && echo root || echo {USER})")
  real=$(readlink -f /usr/bin/python3)
  mkdir -p "$home/python/bin" "$home/python/lib"
  cp "$real" "$home/python/bin/"
  ln -s "${{real##*/}}" "$home/python/bin/python3"
  cp -a "/usr/lib/${{real##*/}}" "$home/python/lib/"
  [ "$1" = root ] || chown -R {USER}: "$home/python"
fi
"""

# linux/seccomp.h, linux/filter.h, linux/audit.h
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO, _EAFNOSUPPORT, _AF_INET6 = 0x7FFF0000, 0x00050000, 97, 10
_SOCKET = {"x86_64": 41, "aarch64": 198}


def _forbid_ipv6() -> None:
    """Let socket(AF_INET6, …) fail as on a kernel without IPv6, for all that is started later."""
    number = _SOCKET[platform.machine()]
    program = b"".join(
        struct.pack("<HBBI", *row)
        for row in (
            (_LOAD, 0, 0, 0),  # the number of the system call
            (_EQUAL, 0, 3, number),
            (_LOAD, 0, 0, 16),  # its first argument
            (_EQUAL, 0, 1, _AF_INET6),
            (_RETURN, 0, 0, _ERRNO | _EAFNOSUPPORT),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    buffer = ctypes.create_string_buffer(program)
    filter_ = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_, 0, 0) != 0:
        sys.exit("seccomp(2) does not work here")
