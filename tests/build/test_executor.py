"""Plans run for real: continued, repeated, cut short, tampered with, two at once, no space."""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from need import need, private_namespaces
from stackproof.build.effects import visible
from stackproof.build.effects import workspace as build_workspace
from stackproof.build.effects.executor import Built, deliver, execute, fetch
from stackproof.build.effects.workspace import BuildSetup, Indices, workspace
from stackproof.build.engines.easybuild import layout
from stackproof.build.engines.wheel import engine as wheel_engine
from stackproof.build.plan import Plan, Step
from stackproof.build.stack import Artefact
from stackproof.build.tail import pack_step
from stackproof.core import noun
from stackproof.core.command import Bind, Command, Completed
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import Event, null_monitor
from stackproof.core.value import replace

pytestmark = [
    pytest.mark.guarantee(
        "The sandbox of build steps",
        "Links that a step makes are not followed outside of its tree",
        "when stackproof writes, reads, mounts or deletes there afterwards. The trees are for "
        "nobody else, so that a setuid program made there is of no use.",
    ),
    pytest.mark.guarantee(
        "The sandbox of build steps",
        "A step with the network sees whom to trust, and no private key",
        "of the machine. It is in the machine's own network: it reaches what the machine "
        "reaches, what listens on localhost, and sockets with abstract names, as of a "
        "desktop's session or of containerd. It is for steps that fetch sources or push "
        "packages, a recipe's own hooks, an installation from a binary cache that a recipe "
        "names by its address, and `shell --network`.",
    ),
]

MOUNT = "/user-environment"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need("bubblewrap", "mksquashfs", "python")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def small_plan(name: str = "small", shell: str = "echo hello > $0/made/file") -> Plan:
    first = Step(name="files", files={"meta/env.json": "{}\n", "bin/x": "#!/bin/sh\n"},
                 executable=("bin/x",), outputs=("meta", "bin"))  # fmt: skip
    made = Step(
        name="made",
        inputs=(first.id,),
        commands=(Command(argv=("sh", "-c", f"mkdir {MOUNT}/made; {shell}", MOUNT)),),
        outputs=("made",),
    )
    pack = pack_step(mount=MOUNT, compression="zstd", level=3, inputs=(made.id,))
    return Plan(name=name, mount=MOUNT, steps=(first, made, pack))


def listing(image: Path) -> str:
    argv = ["unsquashfs", "-lls", "-no-progress", str(image)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_build_and_unchanged_build() -> None:
    built = execute(small_plan(), null_monitor)
    assert built.ran == 3
    assert "squashfs-root/made/file" in listing(built.path)
    assert "-rwxr-xr-x root/root" in listing(built.path)
    seen: list[Event] = []
    again = execute(small_plan(), seen.append)
    assert (again.ran, again.sha256) == (0, built.sha256)
    assert {event.what for event in seen} == {"skipped"}


def test_builds_with_different_caches_have_trees_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not wait for each other, so one would take away what the other one works on."""
    setup = BuildSetup(tree=tmp_path / "trees")
    first = workspace(small_plan(), setup).tree
    assert workspace(small_plan(), setup).tree == first
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "other"))
    assert workspace(small_plan(), setup).tree != first


def test_results_that_are_kept_serve_other_builds_and_damaged_ones_are_made_again(
    tmp_path: Path,
) -> None:
    def plan_of(text: str) -> Plan:
        made = Step(name="made", outputs=("made",), reports=layout.INSTALL,
                    commands=(Command(argv=("sh", "-c", f"mkdir {MOUNT}/made")),))  # fmt: skip
        words = Step(name="words", inputs=(made.id,), files={"meta/env.json": text})
        pack = pack_step(mount=MOUNT, compression="zstd", level=3, inputs=(words.id,))
        return Plan(name="kept", mount=MOUNT, steps=(made, words, pack))

    setup = BuildSetup(kept=tmp_path / "kept")
    assert execute(plan_of("{}"), null_monitor, setup=setup).ran == 3
    assert execute(plan_of("[]"), null_monitor, setup=setup).ran == 2
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:700])
    built = execute(plan_of('{"x": 1}'), null_monitor, setup=setup)
    assert built.ran == 3
    assert "squashfs-root/made" in listing(built.path)


def test_indices_that_one_build_made_are_there_in_the_next_one(tmp_path: Path) -> None:
    """Those of the named repositories, which are the same for all; of others nothing is kept."""
    setup = BuildSetup(
        indices=Indices(folder="indices", kept=tmp_path / "kept", names=("builtin", "absent"))
    )
    made = "mkdir -p /build/indices/tags; cd /build/indices/tags; touch $0/made/file; {}"
    makes = made.format("for one in builtin own; do echo {} > $one-index.json; done")
    looks = made.format("cp * $0/made")
    execute(small_plan("one", makes.format("one")), null_monitor, setup=setup)
    execute(small_plan("two", makes.format("two")), null_monitor, setup=setup)
    found = listing(execute(small_plan("three", looks), null_monitor, setup=setup).path)
    assert "made/builtin-index.json" in found
    assert "own-index.json" not in found
    assert (tmp_path / "kept/tags/builtin-index.json").read_text() == "one\n"


@pytest.mark.battery
def test_same_digest_in_another_cache_with_another_umask_and_on_another_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = execute(small_plan(), null_monitor)
    time.sleep(1.1)  # SquashFS times have whole seconds
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "other"))
    old = os.umask(0o077)
    try:
        second = execute(small_plan(), null_monitor)
    finally:
        os.umask(old)
    assert second.path != first.path
    assert second.sha256 == first.sha256


def test_the_sandbox_shows_no_build_path_and_no_network() -> None:
    """Of the folders that this Python lies in, as a user's home may be, nothing else is seen."""
    found = {
        sys.prefix, sys.base_prefix, sysconfig.get_config_var("LIBDIR"),
        os.path.dirname(os.path.dirname(os.path.realpath(sys.executable))),
    }  # fmt: skip
    own = {Path(path) for path in found if path and not f"{path}/".startswith("/usr/")}
    above = {Path("/"), *(folder for path in own for folder in path.parents)}
    shell = (
        f"find {shlex.join(map(str, above))} -mindepth 1 -maxdepth 1 > $0/made/seen; "
        "cat /proc/net/dev > $0/made/net"
    )
    built = execute(small_plan("closed", shell), null_monitor)
    store = built.path.parents[1] / "store" / "made"
    seen = {Path(line) for line in (store / "seen").read_text().splitlines()}
    system = [
        "bin",
        "sbin",
        "lib",
        "lib64",
        "usr",
        "etc",
        "dev",
        "proc",
        "tmp",
        "tmp/home",  # its own, seen where this checkout lies below /tmp
        "build",
        "user-environment",
    ]
    assert Path("/usr") in seen
    others = {path for path in seen if not own & {path, *path.parents}}
    assert others - above - {Path("/", name) for name in system} == set()
    assert [
        line.split(":")[0].strip() for line in (store / "net").read_text().splitlines()[2:]
    ] == ["lo"]


def test_a_failing_step_says_why_and_leaves_no_image(tmp_path: Path) -> None:
    plan = small_plan("bad", "echo the reason >&2; exit 3")
    with pytest.raises(StackproofError) as caught:
        execute(plan, null_monitor)
    problem = caught.value.problems[0]
    assert problem.reason is Reason.BUILD_FAILED
    assert problem.detail is not None
    assert "the reason" in problem.detail
    folder = next((tmp_path / "cache" / "builds").iterdir())
    assert not (folder / "out" / "image.squashfs").exists()
    replay = folder / "logs" / "made-1.replay.sh"
    again = subprocess.run([str(replay)], capture_output=True, text=True, check=False)
    assert again.returncode != 0


@pytest.mark.battery
def test_interrupted_build_continues_with_the_same_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill a build in the middle of a step, as hard as can be, at several moments."""
    reference = execute(small_plan("cut", "sleep 0.6; echo x > $0/made/file"), null_monitor)
    for number, (delay, sig) in enumerate(
        [(0.4, signal.SIGKILL), (0.7, signal.SIGINT), (0.2, signal.SIGTERM)]
    ):
        cache = tmp_path / f"cut{number}"
        code = textwrap.dedent(f"""
            from stackproof.build.effects.executor import execute
            from stackproof.core.monitor import null_monitor
            from stackproof.core import noun
            from stackproof.build.plan import Plan
            plan = noun.from_json(Plan, open({str(tmp_path / "plan.json")!r}).read())
            print("ready", flush=True)
            execute(plan, null_monitor)
        """)  # fmt: skip
        (tmp_path / "plan.json").write_text(
            noun.to_json(small_plan("cut", "sleep 0.6; echo x > $0/made/file"))
        )
        env = {**os.environ, "STACKPROOF_CACHE": str(cache)}
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(sig)
        process.wait(timeout=600)
        process.stdout.close()
        monkeypatch.setenv("STACKPROOF_CACHE", str(cache))
        built = execute(small_plan("cut", "sleep 0.6; echo x > $0/made/file"), null_monitor)
        assert built.sha256 == reference.sha256


def test_two_builds_at_once_make_one_image() -> None:
    results: list[Built] = []
    plan = small_plan("twice", "sleep 0.5; echo x > $0/made/file")
    threads = [
        threading.Thread(target=lambda: results.append(execute(plan, null_monitor)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(built.ran for built in results) == [0, 3]
    assert len({built.sha256 for built in results}) == 1


def test_a_removed_image_is_made_again() -> None:
    built = execute(small_plan(), null_monitor)
    built.path.unlink()
    assert execute(small_plan(), null_monitor).sha256 == built.sha256


def test_deliver_is_whole_or_not_at_all(tmp_path: Path) -> None:
    built = execute(small_plan(), null_monitor)
    target = tmp_path / "x.squashfs"
    assert deliver(built, target)
    assert not deliver(built, target)
    target.write_bytes(b"other")
    assert deliver(built, target)
    assert files.sha256(target) == built.sha256
    assert [p.name for p in tmp_path.glob(".x*")] == []


def wheel_file(content: bytes, digest: str | None = None) -> Artefact:
    return Artefact(
        name="x", version="1", filename="x-1-py3-none-any.whl",
        sha256=digest or hashlib.sha256(content).hexdigest(),
    )  # fmt: skip


def pip_that_brings(
    content: bytes, name: str = "x-1-py3-none-any.whl", *, code: int = 0, stderr: bytes = b""
):
    def runner(command: Command, *, log: Path | None = None) -> Completed:
        folder = Path(command.argv[command.argv.index("--dest") + 1])
        if code == 0:
            (folder / name).write_bytes(content)
        return Completed(argv=command.argv, returncode=code, stdout=b"", stderr=stderr, seconds=0)

    return runner


def fetched(content: bytes, runner: Callable[..., Completed]) -> Path:
    return fetch(wheel_file(content), wheel_engine.fetch_command, null_monitor, runner=runner)


def test_a_file_with_another_digest_is_refused_and_removed(cache: Path) -> None:
    with pytest.raises(StackproofError) as caught:
        fetched(b"good", pip_that_brings(b"evil"))
    assert caught.value.reason is Reason.DIGEST_MISMATCH
    assert not [p for p in cache.rglob("*") if p.is_file()]


def test_a_file_that_was_tampered_with_in_the_cache_is_fetched_anew() -> None:
    path = fetched(b"good", pip_that_brings(b"good"))
    path.write_bytes(b"evil")
    again = fetched(b"good", pip_that_brings(b"good"))
    assert again.read_bytes() == b"good"


def test_a_cached_file_needs_no_network() -> None:
    fetched(b"good", pip_that_brings(b"good"))
    offline = pip_that_brings(b"", code=1, stderr=b"Retrying (Retry(total=0))")
    assert fetched(b"good", offline).exists()
    with pytest.raises(StackproofError) as caught:
        fetched(b"more", offline)
    assert caught.value.reason is Reason.NO_NETWORK


def test_another_file_name_is_refused() -> None:
    runner = pip_that_brings(b"good", "x-1-py3-none-manylinux1_x86_64.whl")
    with pytest.raises(StackproofError) as caught:
        fetched(b"good", runner)
    assert caught.value.reason is Reason.DIGEST_MISMATCH


@pytest.mark.parametrize(("movable", "move"), [(False, "STACKPROOF_CACHE"), (True, "--build-dir")])
def test_disk_full(tmp_path: Path, movable: bool, move: str) -> None:
    """A cache on a file system that is too small: a clear reason, and what moves such a build."""
    need("root")
    code = textwrap.dedent(f"""
        import sys
        from stackproof.core import noun
        from stackproof.core.errors import StackproofError
        from stackproof.build.effects.executor import execute
        from stackproof.build.effects.workspace import BuildSetup
        from stackproof.core.monitor import null_monitor
        from stackproof.build.plan import Plan
        plan = noun.from_json(Plan, open({str(tmp_path / "plan.json")!r}).read())
        try:
            execute(plan, null_monitor, setup=BuildSetup(movable={movable}))
        except StackproofError as error:
            print(error.reason.value, error.problems[0].hint.split(" or ")[-1])
    """)
    plan = small_plan("full", "head -c 8000000 /dev/urandom > $0/made/file")
    (tmp_path / "plan.json").write_text(noun.to_json(plan))
    (tmp_path / "tiny").mkdir()
    script = (
        f"mount -t tmpfs -o size=2m,mode=755 tmpfs {tmp_path}/tiny && "
        f'STACKPROOF_CACHE={tmp_path}/tiny exec {sys.executable} -c "$0"'
    )
    argv = [*private_namespaces(), "sh", "-c", script, code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout.startswith("disk-full "), done.stderr
    assert move in done.stdout


def test_of_the_trace_of_a_full_disk_one_line_is_shown() -> None:
    shell = (
        "printf 'Traceback:\\n  File x\\nOSError: No space left on device\\n  at y\\n' >&2; exit 1"
    )
    with pytest.raises(StackproofError) as caught:
        execute(small_plan("full", shell), null_monitor)
    (problem,) = caught.value.problems
    assert problem.reason is Reason.DISK_FULL
    assert problem.detail == "OSError: No space left on device"


def test_a_python_that_was_moved_is_looked_for_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was compiled to be there is nothing, and a sandbox cannot bind that."""
    monkeypatch.setattr(visible.sysconfig, "get_config_var", lambda _: "/nonexistent/lib")
    binds, _ = visible.system(network=True)
    assert binds
    assert [bind.source for bind in binds if not os.path.exists(bind.source)] == []


@pytest.mark.parametrize("what", ["files", "build_files", "outputs"])
def test_a_link_that_a_step_made_is_not_followed(tmp_path: Path, what: str) -> None:
    """In the sandbox it leads nowhere; here it would have a later step write or delete there."""
    home = tmp_path / "home"
    (home / "kept").mkdir(parents=True)
    area = "/build" if what == "build_files" else MOUNT
    hostile = Step(
        name="hostile", commands=(Command(argv=("ln", "-s", os.fspath(home), f"{area}/x")),)
    )
    given = {"outputs": ("x/kept",)} if what == "outputs" else {what: {"x/file": "text"}}
    later = noun.from_data(Step, {"name": "later", "inputs": [hostile.id], **given})
    pack = pack_step(mount=MOUNT, compression="zstd", level=3, inputs=(later.id,))
    with pytest.raises(StackproofError) as caught:
        execute(Plan(name="links", mount=MOUNT, steps=(hostile, later, pack)), null_monitor)
    assert "a link in it leads elsewhere" in str(caught.value)
    assert [path.name for path in home.iterdir()] == ["kept"]


def test_what_a_step_names_as_its_log_is_read_in_its_tree_only(tmp_path: Path) -> None:
    plan = small_plan()
    space = workspace(plan, BuildSetup())
    space.build.mkdir(parents=True)
    (tmp_path / "secret").write_text("s")
    (space.build / "link").symlink_to(tmp_path / "secret")
    (space.build / "folder").symlink_to(tmp_path)
    (space.build / "log").write_text("log")
    ups = "../" * 30 + str(tmp_path)
    for path in ("link", "folder/secret", f"{ups}/secret", "..", ""):
        assert space.on_host(f"/build/{path}", MOUNT) is None
    assert space.on_host("/build/log", MOUNT) == space.build / "log"


def test_an_image_that_is_a_link_is_not_delivered(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    plan = small_plan()
    last = plan.steps[-1]
    link = Command(argv=("ln", "-s", "-f", f"{tmp_path}/secret", "/build/out/image.squashfs"))
    image = replace(last, commands=(*last.commands, link))
    with pytest.raises(StackproofError) as caught:
        execute(replace(plan, steps=(*plan.steps[:-1], image)), null_monitor)
    assert "is no file" in str(caught.value)


def test_nothing_is_mounted_where_a_step_put_a_link(tmp_path: Path) -> None:
    """Bubblewrap would make the mount point beyond the link, on this machine."""
    plan = small_plan()
    step = plan.steps[0]
    space = workspace(plan, BuildSetup())
    space.build.mkdir(parents=True)
    setup = BuildSetup(binds=(Bind(source=str(tmp_path), target="/build/a/b"),))
    assert build_workspace.sandbox(step, plan, space, setup, {}).binds
    for link in ("a", "a/b"):
        files.remove(space.build / "a")
        (space.build / link).parent.mkdir(exist_ok=True)
        (space.build / link).symlink_to("/oldroot/tmp")
        with pytest.raises(StackproofError) as caught:
            build_workspace.sandbox(step, plan, space, setup, {})
        assert caught.value.reason is Reason.BUILD_FAILED


def test_nobody_else_reaches_the_programs_that_a_step_makes() -> None:
    """One with the setuid bit would run with the rights of whoever builds."""
    plan = small_plan(shell="cp /bin/true $0/made/a; chmod 4755 $0/made/a")
    execute(plan, null_monitor)
    space = workspace(plan, BuildSetup())
    assert (space.store / "made" / "a").stat().st_mode & 0o4000
    assert space.home.stat().st_mode & 0o077 == 0


def test_a_step_with_the_network_sees_whom_to_trust_and_no_private_key() -> None:
    seen = {bind.target for bind in visible.system(network=True)[0]}
    assert "/etc/resolv.conf" in seen
    assert seen.isdisjoint({"/etc", "/etc/ssl", "/etc/pki", "/etc/pki/tls"})
    assert not [path for path in seen if "private" in path]


def test_killed_while_it_writes_a_file_it_leaves_nothing_that_an_image_would_have() -> None:
    plan = small_plan()
    whole = execute(plan, null_monitor)
    space = workspace(plan, BuildSetup())
    before = listing(whole.path)
    files.remove(space.home)
    with pytest.MonkeyPatch.context() as killed:
        # The moment before the first file has its name; who is killed removes nothing.
        killed.setattr(os, "replace", mock.Mock(side_effect=KeyboardInterrupt))
        killed.setattr(os, "unlink", mock.Mock())
        with pytest.raises(KeyboardInterrupt):
            build_workspace.prepare(plan.steps[0], space, BuildSetup())
    assert [path for path in space.store.rglob("*") if path.is_file()] == []
    assert len(list(space.unfinished.iterdir())) == 1
    again = execute(plan, null_monitor)
    assert (again.sha256, listing(again.path)) == (whole.sha256, before)
    assert list(space.unfinished.iterdir()) == []
