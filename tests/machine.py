"""A machine with the mount helper installed, for tests: a root folder and processes of its own.

    machine = Machine(folder=tmp_path, program=built / "helper/stackproof-mount")
    machine.run(*machine.mount("a.squashfs:/user-environment"), "id")

Everything happens in private mount and process namespaces: their root folder lies over that of the
host (nothing is written there), `/test` is the test's folder, the helper is in `/helper`, `etc` of
the test's folder is copied to `/etc/stackproof`, and there are `/user-environment` and
`/user-tools`. It is gone, with all processes, when the command ends.
"""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from stackproof.core.value import Value

NOBODY = 65534
SOMEBODY = 12345
HELPER = "/helper/stackproof-mount"
# How long an attacker tries to be between two steps of the helper. `nox -s races` says 60. On a busy
# machine a try takes long: there it goes on until it was won and lost once, PATIENCE_S at most.
RACE_S = float(os.environ.get("STACKPROOF_RACE_S") or 2)
PATIENCE_S = 600
TIMEOUT_S = 60 + RACE_S + PATIENCE_S
RACING = f"""
import time
begun, answers = time.monotonic(), set()
def racing():
    gone = time.monotonic() - begun
    return gone < {RACE_S} or (len(answers) < 2 and gone < {PATIENCE_S})
"""

_ENTER = """
set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mknod -m 666 /mnt/fuse c 10 229
mount -t overlay machine -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root
mkdir -p test helper user-environment user-tools user-environment-2
for name in usr bin sbin lib lib64 dev sys; do
  if [ $name = dev ] || [ $name = sys ] || mountpoint -q /$name; then
    mount --rbind /$name $name
  fi
done
mount -t proc proc proc
mount --bind /mnt/fuse dev/fuse
mount --bind "$1" test
cp "$2" helper/stackproof-mount
chown 0:0 helper/stackproof-mount
chmod "$3" helper/stackproof-mount
[ -z "$4" ] || /usr/bin/python3 -c "$4"
if [ -n "$5" ]; then
  mkdir -p etc/stackproof
  printf '%s' "$5" >etc/stackproof/mount.conf
fi
[ ! -d test/etc ] || cp -a -T test/etc etc/stackproof
pivot_root . mnt
umount -l /mnt
shift 5
cd /test
exec "$@"
"""


class Machine(Value, kw_only=False):
    """Where a test's files are, which helper is installed, and with which rights.

    `mode` is the helper's; `capabilities` gives it file capabilities instead of setuid. `policy` is
    the text of mount.conf, None for no such file.
    """

    folder: Path
    program: Path
    mode: str = "4755"
    capabilities: bool = False
    policy: str | None = None

    def argv(self, *words: str | Path, user: int = NOBODY) -> list[str]:
        """Return an argv that runs `words` as a user in the machine."""
        texts = [os.fspath(word) for word in words]
        ids = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        attribute = _give_capabilities() if self.capabilities else ""
        mode = "755" if self.capabilities else self.mode
        return [
            *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
            *("sh", "-c", _ENTER, "sh", os.fspath(self.folder), os.fspath(self.program)),
            *(mode, attribute, self.policy or ""),
            *(["setpriv", *ids] if user else []),
            *texts,
        ]

    def run(
        self, *words: str | Path, user: int = NOBODY, stdin: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `words` as a user in the machine, with more variables."""
        return subprocess.run(
            self.argv(*words, user=user),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment},
        )


def mount(images: str, *options: str) -> list[str]:
    """Return the start of a command line of the helper."""
    return [HELPER, *options, f"--images={images}", "--"]


def reasons(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the reasons of a failure, which is nothing but lines of errors and hints."""
    lines = done.stderr.splitlines()
    assert all(line.startswith(("error: [", "hint: ")) for line in lines), done.stderr
    return [
        line.removeprefix("error: [").partition("]")[0]
        for line in lines
        if line.startswith("error")
    ]


def as_attacker(machine: Machine, source: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program in Python in the machine as a user without rights, in a folder of theirs."""
    folder = machine.folder / "mine"
    folder.mkdir(exist_ok=True)
    os.chown(folder, NOBODY, NOBODY)
    (machine.folder / "attack.py").write_text(source)
    done = machine.run("/usr/bin/python3", "/test/attack.py", *words)
    assert done.returncode == 0, done.stderr
    return done


def assert_free(image: Path) -> None:
    """Wait until no loop device has an image any more: the kernel frees it after the last user."""
    end = time.monotonic() + 600
    while loop_devices(image) and time.monotonic() < end:
        time.sleep(0.02)
    assert loop_devices(image) == []


def loop_devices(image: Path) -> list[str]:
    """Return the loop devices of this machine that have a file of that name behind them."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            name = backing.read_text().strip().removesuffix(" (deleted)")
        except OSError:  # freed meanwhile
            continue
        if os.path.basename(name) == image.name:
            found.append(backing.parts[3])
    return found


def _give_capabilities(capabilities: Sequence[int] = (2, 21)) -> str:
    """Return Python that gives the helper `cap_dac_read_search,cap_sys_admin+p`.

    Layout: struct vfs_cap_data, revision 2, of linux/capability.h.
    """
    permitted = sum(1 << number for number in capabilities)
    value = struct.pack("<IIIII", 0x02000000, permitted, 0, 0, 0)
    return f"import os; os.setxattr('helper/stackproof-mount', 'security.capability', {value!r})"
