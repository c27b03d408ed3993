from __future__ import annotations

import contextlib
import errno
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from need import need
from refusals import refused
from stackproof.core.command import Bind, Command, EnvPatch, Sandbox
from stackproof.core.effects import run, sandbox
from stackproof.core.errors import Reason

# What a program of the host needs to run at all. Folders that are links (merged /usr) stay links.
_LINKS = {
    path: os.readlink(path) for path in ("/bin", "/lib", "/lib64", "/sbin") if os.path.islink(path)
}
_FOLDERS = [
    path
    for path in ("/usr", "/bin", "/lib", "/lib64")
    if os.path.isdir(path) and path not in _LINKS
]
_SYSTEM = tuple(Bind(source=path, target=path) for path in _FOLDERS)


def boxed(
    script: str,
    *,
    binds: tuple[Bind, ...] = (),
    scratch: tuple[str, ...] = ("/tmp",),
    network: bool = False,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = 30,
) -> Command:
    box = Sandbox(binds=(*_SYSTEM, *binds), links=_LINKS, scratch=scratch, network=network)
    return Command(
        argv=("sh", "-c", script),
        sandbox=box,
        env=EnvPatch(set=variables or {}),
        timeout_s=timeout_s,
    )


def out(command: Command) -> list[str]:
    need("bubblewrap")
    done = run.run(command)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split("\n")[:-1]


def test_only_what_is_bound_is_visible(tmp_path):
    (tmp_path / "file").write_text("host")
    assert set(out(boxed("ls /"))) <= {"usr", "bin", "lib", "lib64", "sbin", "dev", "proc", "tmp"}
    assert out(boxed(f"ls /tmp; test -e {tmp_path}/file || echo hidden")) == ["hidden"]
    assert (
        out(boxed("test -e /etc/passwd || echo hidden; test -e /root || echo hidden"))
        == ["hidden"] * 2
    )


def test_binds_are_read_only_unless_asked(tmp_path):
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
    binds = (
        Bind(source=os.fspath(tmp_path / "closed"), target="/closed"),
        Bind(source=os.fspath(tmp_path / "open"), target="/store/open", writable=True),
    )
    out(
        boxed(
            "echo new > /store/open/file; ! touch /closed/file /usr/file 2>/dev/null", binds=binds
        )
    )
    assert (tmp_path / "open" / "file").read_text() == "new\n"
    assert list((tmp_path / "closed").iterdir()) == []


def test_scratch_is_empty_writable_and_gone():
    assert out(boxed("echo x > /scratch/a; ls /scratch", scratch=("/scratch",))) == ["a"]
    assert not Path("/scratch").exists()


def test_links():
    need("bubblewrap")
    box = Sandbox(binds=_SYSTEM, links={**_LINKS, "/opt/tool": "/usr/bin/env"})
    done = run.run(Command(argv=("readlink", "/opt/tool"), sandbox=box))
    assert done.stdout == b"/usr/bin/env\n"


_INTERFACES = "cut -d: -f1 -s /proc/net/dev | tr -d ' '"


def test_no_network_unless_asked():
    assert out(boxed(_INTERFACES)) == ["lo"]
    here = sorted(os.listdir("/sys/class/net"))
    assert sorted(out(boxed(_INTERFACES, network=True))) == here


@pytest.mark.guarantee(
    "The sandbox of build steps",
    "A step without the network is in a network of its own",
    ", where nothing listens.",
)
@pytest.mark.parametrize("network", [False, True])
def test_what_listens_here_is_reached_with_the_network_alone(network):
    """A port of localhost, and a name of a socket that no file system has."""
    name = f"\0stackproof-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as named:
        named.bind(name)
        named.listen()
        script = (
            "import socket\n"
            f"for family, place in ((2, ('127.0.0.1', {port.getsockname()[1]})), (1, {name!r})):\n"
            "    print(socket.socket(family).connect_ex(place))\n"
        )
        told = out(boxed(f"python3 -c {shlex.quote(script)}", network=network))
    assert told == (["0", "0"] if network else [str(errno.ECONNREFUSED)] * 2)


def test_other_processes_are_not_visible():
    seen = {word for word in out(boxed("ls /proc")) if word.isdigit()}
    assert len(seen) <= 4  # bubblewrap's own, the shell, ls
    assert str(os.getpid()) not in seen or os.getpid() <= 4


def test_the_environment_is_closed(monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    seen = dict(line.split("=", 1) for line in out(boxed("env", variables={"A": "x y"})))
    assert {key for key in seen if key not in {"PWD", "SHLVL", "_", "OLDPWD"}} == {
        "PATH",
        "HOME",
        "LANG",
        "A",
    }
    assert (seen["A"], seen["PATH"], seen["HOME"]) == ("x y", "/usr/bin:/bin", "/tmp")


def test_variables_of_the_command_do_not_reach_bubblewrap_itself(tmp_path):
    assert out(boxed("echo $LD_LIBRARY_PATH", variables={"LD_LIBRARY_PATH": "/none"})) == ["/none"]
    log = tmp_path / "x.log"
    run.run(boxed("true", variables={"LD_LIBRARY_PATH": "/none"}), log=log)
    script = log.with_suffix(".replay.sh").read_text()
    assert "LD_LIBRARY_PATH=" not in script
    assert subprocess.run([log.with_suffix(".replay.sh")], check=False).returncode == 0


_NEEDED = """
import ctypes, os, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
socket.socketpair()
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
    try:
        socket.socket(family).close()
    except OSError as error:
        assert error.errno == 97 and family == socket.AF_INET6, error  # not on this machine
assert [name for _, name in socket.if_nameindex()] == ["lo"]
libc.getifaddrs.argtypes = [ctypes.c_void_p]
assert libc.getifaddrs(ctypes.byref(ctypes.c_void_p())) == 0  # by netlink
text, copy = ctypes.create_string_buffer(b"text"), ctypes.create_string_buffer(4)
child = os.fork()
if child == 0:
    signal.pause()
assert libc.ptrace(0x4206, child, None, None) == 0, ctypes.get_errno()  # SEIZE
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
there, here = Part(ctypes.addressof(text), 4), Part(ctypes.addressof(copy), 4)
assert libc.process_vm_readv(child, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == 4
assert copy.raw == b"text"
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
import resource
resource.prlimit(os.getpid(), resource.RLIMIT_CPU)
os.sched_setaffinity(0, os.sched_getaffinity(0))
assert libc.personality(0xffffffff) >= 0
import multiprocessing
assert multiprocessing.get_context("fork").Pool(2).map(abs, [-1, 2]) == [1, 2]
print("all")
"""


def test_what_builds_and_their_tests_need_is_there():
    need("bubblewrap")
    assert out(boxed(f"python3 -c {shlex.quote(_NEEDED)}")) == ["all"]


def test_a_checker_of_leaks_works():
    """It stops its own process by ptrace when this ends."""
    need("bubblewrap", "gcc")
    script = (
        "cd /tmp && echo 'int main(void) { return 0; }' > a.c && "
        "gcc -fsanitize=leak a.c && ./a.out && echo clean"
    )
    assert out(boxed(script)) == ["clean"]


def test_a_step_cannot_stop_who_waits_for_it():
    need("bubblewrap")
    script = "for name in STOP TSTP TTIN KILL TERM; do kill -$name 1; done; exit 3"
    done = run.run(boxed(script))
    assert (done.returncode, done.timed_out) == (3, False)


@pytest.mark.battery
def test_the_first_process_has_no_variable_of_the_caller(tmp_path):
    """Seen from here: inside nothing of it is to be seen at all."""
    need("bubblewrap")
    (tmp_path / "go").mkdir()
    bind = Bind(source=os.fspath(tmp_path / "go"), target="/go", writable=True)
    waits = boxed("touch /go/on; sleep 60", binds=(bind,), timeout_s=60)
    argv = sandbox.argv(waits)
    environment = {**run.base_environment(), "SECRET": "of the caller"}
    with subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL) as process:
        try:
            while not (tmp_path / "go" / "on").exists():
                assert process.poll() is None
                time.sleep(0.02)
            seen = []
            for pid in _with_children(process.pid):
                # It has ended meanwhile, or the kernel shows its variables to nobody.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    seen.append(Path(f"/proc/{pid}/environ").read_bytes())
            assert seen
            assert not any(b"SECRET" in variables for variables in seen)
        finally:
            process.kill()


def _with_children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _with_children(int(child)))]


def test_the_host_name_is_the_same_everywhere():
    assert out(boxed("uname -n")) == ["stackproof"]


def test_the_exit_code_comes_through():
    need("bubblewrap")
    assert run.run(boxed("exit 42")).returncode == 42


@pytest.mark.battery
def test_a_timeout_ends_everything_inside(tmp_path):
    need("bubblewrap")
    bind = Bind(source=os.fspath(tmp_path), target="/out", writable=True)
    script = "trap '' TERM; (while :; do date +%N > /out/alive; sleep 0.05; done) & sleep 60"
    assert run.run(boxed(script, binds=(bind,), timeout_s=1.5)).timed_out
    (tmp_path / "alive").unlink()
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(
            ["sh", "-c", f"until test -e {tmp_path}/alive; do sleep 0.05; done"],
            timeout=0.5,
            check=True,
        )


def test_a_source_that_is_not_there(tmp_path):
    need("bubblewrap")
    bind = Bind(source=os.fspath(tmp_path / "nothing"), target="/x")
    with refused(Reason.BUILD_FAILED) as caught:
        run.check(boxed("true", binds=(bind,)))
    assert "nothing" in (caught.value.problems[0].detail or "")


def test_never_unsandboxed_by_accident(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    mark = tmp_path / "mark"
    command = Command(argv=("/usr/bin/touch", os.fspath(mark)), sandbox=Sandbox(binds=_SYSTEM))
    with refused(Reason.TOOL_MISSING) as caught:
        run.run(command)
    assert "bubblewrap" in (caught.value.problems[0].hint or "")
    assert not mark.exists()


def test_a_command_without_a_sandbox_is_itself():
    assert sandbox.argv(Command(argv=("a", "b"))) == ("a", "b")


@pytest.mark.parametrize(
    ("program", "package"),
    [("bwrap", "bubblewrap"), ("/usr/sbin/tc", "iproute2"), ("hello", "hello")],
)
def test_package_hint(program, package):
    assert sandbox.package_hint(program).endswith(f" {package}")
