"""The hook for containers: what it decides on compiled libraries, and what runtimes make of it."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from eessilab import EVERY, USES_MPICH, inject
from elflab import Lab
from need import need, private_namespaces
from stackproof.core.errors import ExitCode
from stackproof.inject import hook_manifest
from stackproof.inject.hook_manifest import Compact, Replaced
from stackproof.linking.effects.view import RootView

OPEN_MPI = ["MPI_Init", "MPI_Recv", "ompi_mpi_comm_world"]


class Site(Lab):
    """A container's root with a program and its MPI in /opt, and an artefact of another MPI."""

    def __init__(self, folder: Path, program: Path) -> None:
        super().__init__(folder)
        self.hook = program
        self.root = folder / "root"
        self.mpi("own")
        self.mpi("new")
        self.app = self.program(
            "root/bin/app",
            needs=["own/lib/libmpi.so.12"],
            calls=["MPI_Init", "via_fi_getinfo"],
            declarations=USES_MPICH,
            flags=["-Wl,--disable-new-dtags,-rpath,/opt/lib"],
        )
        shutil.copytree(folder / "own" / "lib", self.root / "opt" / "lib")
        self.system()
        for name in ("proc", "dev", "sys", "tmp"):
            (self.root / name).mkdir()

    def mpi(self, name, *, defines=EVERY, node="FABRIC_1.8"):
        self.library(
            f"{name}/lib/libfabric.so.1",
            defines=["fi_getinfo"],
            script=f"FABRIC_1.0 {{ }};\n{node} {{ global: *; }} FABRIC_1.0;\n",
        )
        self.library(
            f"{name}/lib/libmpi.so.12",
            defines=defines,
            imports=["fi_getinfo"],
            needs=[f"{name}/lib/libfabric.so.1"],
            flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN"],
        )

    def system(self):
        """Copy the C library and its loader into the root."""
        said = subprocess.run(
            ["ldd", self.app], capture_output=True, text=True, timeout=600, check=True
        )
        paths = [line.split()[2] for line in said.stdout.splitlines() if "libc.so.6" in line]
        paths.append(RootView().elf(RootView().look(self.app)).interpreter)
        for path in paths:
            (self.root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.root / path[1:])

    def artefact(self, capsys, prefix="new"):
        target = self.path(f"net-{prefix}")
        code, _, err = inject(capsys, "artefact", self.path(prefix), "-o", target)
        assert code == ExitCode.DONE, err
        return target

    def tried(self, artefact, *words, level="mpi"):
        """Return the exit code and what the hook says of the root."""
        argv = [self.hook, f"--artefact={artefact}/default", f"--level={level}"]
        return called([*argv, f"--try={self.root}", "--folder=/opt/lib", *words])

    def rewrite(self, artefact, **changes):
        """Change the compact manifest of an artefact."""
        path = Path(artefact, "default", hook_manifest.NAME)
        compact = hook_manifest.parse(path.read_text(), file="abi.manifest")
        values = {name: getattr(compact, name) for name in Compact.__struct_fields__}
        path.write_text(hook_manifest.render(Compact(**{**values, **changes})))


def called(argv, **options):
    done = subprocess.run(
        [os.fspath(word) for word in argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
        **options,
    )
    return done.returncode, done.stdout


@pytest.fixture
def site(built, tmp_path):
    need("gcc", "patchelf")
    return Site(tmp_path, built / "hook" / "stackproof-oci-hook")


def test_what_fits(site, capsys):
    """At either level; the C library is found in the usual folders."""
    net = site.artefact(capsys)
    code, said = site.tried(net)
    assert code == 0, said
    assert "would put net-new/mpi/libmpi.so.12 over /opt/lib/libmpi.so.12\n" in said
    assert "libfabric" not in said
    code, said = site.tried(net, level="libfabric")
    assert code == 0, said
    assert "libfabric/libfabric.so.1 over /opt/lib/libfabric.so.1\n" in said


def test_files_are_found_by_the_cache(site, capsys):
    """As the loader finds them: here by the container's own ld.so.cache."""
    need("root")
    net = site.artefact(capsys)
    (site.root / "etc").mkdir()
    (site.root / "etc" / "ld.so.conf").write_text("/opt/lib\n")
    subprocess.run(["/sbin/ldconfig", "-X", "-r", site.root], check=True, timeout=600)
    argv = [site.hook, f"--artefact={net}/default", "--level=mpi", f"--try={site.root}"]
    code, said = called(argv)
    assert code == 0, said
    assert "over /opt/lib/libmpi.so.12\n" in said
    (site.root / "etc" / "ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1" + b"\xff" * 60)
    assert called(argv)[0] == ExitCode.WORSE


def test_another_abi(site, capsys):
    """Told by what the files export, under whatever name."""
    net = site.artefact(capsys)
    site.library("root/opt/lib/libmpi.so.12", defines=OPEN_MPI)
    code, said = site.tried(net)
    assert code == ExitCode.WORSE
    assert (
        "[injection-fails] `/opt/lib/libmpi.so.12` of the container is an MPI of the openmpi"
        in said
    )
    site.library("root/opt/lib/libmpi.so.12", defines=["MPI_Init"])
    assert "of the unknown ABI" in site.tried(net)[1]


def test_a_function_that_is_lost(site, capsys):
    net = site.artefact(capsys)
    site.library("root/opt/lib/libmpi.so.12", defines=[*EVERY, "MPI_Session_init"])
    code, said = site.tried(net)
    assert code == ExitCode.WORSE
    assert "MPI_Session_init" in said


def test_version_nodes(site, capsys):
    """All that are defined count, or only those that a file asks for, if one is known."""
    site.mpi("old", node="FABRIC_1.5")
    net = site.artefact(capsys, "old")
    code, said = site.tried(net, level="libfabric")
    assert code == ExitCode.WORSE
    assert "has FABRIC_1.8, which `net-old` has not" in said
    code, said = site.tried(net, "--asks=/opt/lib/libmpi.so.12", level="libfabric")
    assert code == ExitCode.WORSE
    assert "needs FABRIC_1.8" in said
    shutil.copy(site.path("old/lib/libmpi.so.12"), site.root / "opt" / "lib")
    code, said = site.tried(net, "--asks=/opt/lib/libmpi.so.12", level="libfabric")
    assert code == 0, said
    for other in ("/gone", "/bin/app"):  # what does not need it says nothing of it
        assert site.tried(net, f"--asks={other}", level="libfabric")[0] == ExitCode.WORSE


def test_a_c_library_that_is_too_old_or_another_one(site, capsys):
    net = site.artefact(capsys)
    site.rewrite(net, needs={"libc.so.6": ("GLIBC_2.2.5", "GLIBC_9.99")})
    code, said = site.tried(net)
    assert code == ExitCode.WORSE
    assert "libc.so.6` of the container is too old: `net-new` needs GLIBC_9.99" in said
    site.rewrite(net, needs={"libmusl.so.1": ()})
    assert "has no `libmusl.so.1`" in site.tried(net)[1]


def test_a_part_that_stays(site, capsys):
    net = site.artefact(capsys)
    site.library("root/opt/lib/libmpifort.so.12", defines=["mpi_init_"])
    code, said = site.tried(net)
    assert code == ExitCode.WORSE
    assert "would stay beside" in said
    assert site.tried(net, "--unused=libmpifort.so.12")[0] == 0
    assert site.tried(net, level="libfabric")[0] == 0


def test_processors_and_machines(site, capsys):
    net = site.artefact(capsys)
    site.rewrite(net, isa="x86-64-v9")
    assert "processors of the level x86-64-v9" in site.tried(net)[1]
    site.rewrite(net, isa="", machine=183 if os.uname().machine == "x86_64" else 62)
    code, said = site.tried(net)
    assert code == ExitCode.WORSE
    assert "another machine" in said


def test_a_mismatch_may_be_skipped_and_a_fault_may_not(site, capsys):
    net = site.artefact(capsys)
    site.library("root/opt/lib/libmpi.so.12", defines=OPEN_MPI)
    log = site.folder / "log"
    code, said = site.tried(net, "--on-mismatch=skip", f"--log={log}")
    assert code == 0
    assert "not injected: [injection-fails]" in said
    assert "not injected" in log.read_text()
    manifest = Path(net, "default", hook_manifest.NAME)
    manifest.write_text(manifest.read_text().replace("mpich", "openmpi"))
    code, said = site.tried(net, "--on-mismatch=skip")
    assert code == ExitCode.INVALID
    assert "checksum" in said
    os.chmod(Path(net, "default"), 0o777)
    assert site.tried(net, "--on-mismatch=skip")[0] == ExitCode.NOT_POSSIBLE


@pytest.mark.guarantee(
    "The hook for containers",
    "What is read is bounded",
    "in size, depth and steps, and never executed: no program is started, no library of "
    "the container is loaded. A label that lies can have the container refused, or given "
    "libraries that do not run in it; nothing outside of it changes.",
)
@pytest.mark.battery
def test_damaged_libraries(sanitized, site, capsys):
    """Bytes changed where headers and tables are: an answer in time, and nothing for sanitizers."""
    net = site.artefact(capsys)
    site.hook = sanitized / "hook" / "stackproof-oci-hook"
    library = site.root / "opt" / "lib" / "libmpi.so.12"
    whole = library.read_bytes()
    dice = random.Random(1)
    codes = set()
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(dice.randint(1, 20)):
            content[dice.randrange(1200)] = dice.choice([0, 1, 0xFF, dice.randrange(256)])
        library.write_bytes(content[: dice.choice([len(content), dice.randrange(len(content))])])
        code, said = site.tried(net)
        assert code in {0, ExitCode.WORSE}, said
        assert "Sanitizer" not in said
        assert "runtime error" not in said
        codes.add(code)
    assert ExitCode.WORSE in codes


@pytest.mark.guarantee(
    "The hook for containers",
    "Only regular files are opened for reading",
    "; devices and FIFOs are recognised by O_PATH first.",
)
@pytest.mark.guarantee(
    "The hook for containers",
    "Paths in the container are resolved inside of its root by the kernel",
    "(openat2 with RESOLVE_IN_ROOT and RESOLVE_NO_MAGICLINKS), every time, and mounts are "
    "made on what was opened. Folders for the artefact are made below the root only, and "
    "only on its own file system: not in a folder that the host lends.",
)
def test_links_do_not_lead_out_of_the_root(site, capsys):
    """Absolute ones, `..`, devices and FIFOs: nothing outside is found or opened."""
    need("root")
    net = site.artefact(capsys)
    library = site.root / "opt" / "lib" / "libmpi.so.12"
    for target in (
        site.path("own/lib/libmpi.so.12"),
        "../" * 30 + site.path("own/lib/libmpi.so.12"),
    ):
        library.unlink()
        library.symlink_to(target)
        code, said = site.tried(net)
        assert code == ExitCode.WORSE
        assert "nothing that" in said
    library.unlink()
    library.symlink_to("/opt/lib/real")  # a link in the root is followed there
    shutil.copy(site.path("own/lib/libmpi.so.12"), site.root / "opt" / "lib" / "real")
    assert site.tried(net)[0] == 0
    library.unlink()
    os.mkfifo(library)
    assert site.tried(net)[0] == ExitCode.WORSE


def test_a_wrong_command_line(site):
    for words in ((), ("--artefact=x",), ("--artefact=x", "--level=none"), ("--nonsense",)):
        code, said = called([site.hook, *words])
        assert code == ExitCode.USAGE
        assert "[usage]" in said
    assert called([site.hook, "--help"])[0] == 0


@pytest.mark.parametrize(
    "state",
    ["", "{", "[]", '{"bundle": 1}', '{"bundle": "relative"}', '{"bundle": "/gone", "pid": 1}'],
)
def test_a_damaged_state(site, capsys, state):
    net = site.artefact(capsys)
    argv = [site.hook, f"--artefact={net}/default", "--level=mpi", "--on-mismatch=skip"]
    code, said = called(argv, input=state)
    assert code == ExitCode.INVALID
    assert "[invalid-value]" in said


@pytest.mark.guarantee(
    "The hook for containers",
    "Mounts are read-only, nosuid and nodev",
    ", made in the container's mount namespace. In the namespace of the first process it "
    "refuses to work. Where it may not look at that process (no CAP_SYS_PTRACE), a wrong "
    "`--stage` in a definition is the administrator's to avoid.",
)
@pytest.mark.parametrize("stage", ["createContainer", "prestart"])
def test_the_mounts_of_the_machine_are_left_alone(site, capsys, stage):
    """Started at a wrong stage, it would mount where the first process sees it, too."""
    need("root")
    net = site.artefact(capsys)
    (site.folder / "config.json").write_text(json.dumps({"root": {"path": "root"}}))
    state = json.dumps({"bundle": str(site.folder), "pid": 1})
    argv = [site.hook, f"--artefact={net}/default", "--level=mpi", "--folder=/opt/lib"]
    code, said = called([*private_namespaces(), *argv, f"--stage={stage}"], input=state)
    assert code == ExitCode.NOT_POSSIBLE, said
    assert "mounts of the machine" in said


# ------------------------------------------------------------------------------- a real runtime


def run_container(site, hooks, *, env=(), mounts=()):
    """Run the program of a site by runc, with a definition of hooks."""
    config = {
        "ociVersion": "1.0.2",
        "root": {"path": "root"},
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["/bin/app"],
            "env": ["PATH=/bin", *env],
            "cwd": "/",
        },
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, *mounts],
        "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}]},
        **hooks,
    }
    (site.folder / "config.json").write_text(json.dumps(config))
    name = f"stackproof-{os.getpid()}"
    argv = ["runc", "--root", site.folder / "runc", "run", "--bundle", site.folder, name]
    return called(argv, stdin=subprocess.DEVNULL)


def definition(site, capsys, net, *words):
    code, out, err = inject(
        capsys, "container", "/bin/app", "--root", site.root, "--with", net,
        "--form", "oci-hook", "--hook", site.hook, *words,
    )  # fmt: skip
    assert code == ExitCode.DONE, err
    return json.loads(out)


@pytest.mark.parametrize("stage", ["createContainer", "createRuntime", "prestart"])
def test_a_runtime_puts_it_in_place(site, capsys, stage):
    """The program finds its MPI by a DT_RPATH, before which no variable comes."""
    need("root", "runc")
    net = site.artefact(capsys)
    hooks = definition(site, capsys, net)
    code, said = run_container(site, {})
    assert code == 0, said
    assert "answer MPI_Init own/lib/libmpi.so.12\n" in said
    (one,) = hooks["hooks"]["createContainer"]
    one["args"].append(f"--stage={stage}")
    code, said = run_container(site, {"hooks": {stage: [one]}})
    assert code == 0, said
    assert "answer MPI_Init new/lib/libmpi.so.12\n" in said
    assert "answer via_fi_getinfo new/lib/libmpi.so.12\n" not in said
    assert "loaded /opt/stackproof/net-new/default/private/libfabric-sp" in said
    assert str(net) not in Path("/proc/self/mountinfo").read_text()


def test_only_libfabric(site, capsys):
    need("root", "runc")
    net = site.artefact(capsys)
    code, said = run_container(site, definition(site, capsys, net, "--level", "libfabric"))
    assert code == 0, said
    assert "answer MPI_Init own/lib/libmpi.so.12\n" in said
    assert "answer via_fi_getinfo new/lib/libfabric.so.1\n" in said


def test_a_container_that_it_does_not_fit_does_not_start(site, capsys):
    """Or starts as it is, where that was wished."""
    need("root", "runc")
    net = site.artefact(capsys)
    failing = definition(site, capsys, net)
    skipping = definition(site, capsys, net, "--on-mismatch", "skip")
    site.library("root/opt/lib/libmpifort.so.12", defines=["mpi_init_"])
    site.library(
        "root/opt/lib/libmpi.so.12", defines=[*EVERY, "MPI_Session_init", "via_fi_getinfo"]
    )
    code, said = run_container(site, failing)
    assert code != 0
    assert "MPI_Session_init" in said
    code, said = run_container(site, skipping)
    assert code == 0, said
    assert "answer MPI_Init root/opt/lib/libmpi.so.12\n" in said


def test_variables_that_must_be_set(site, capsys):
    need("root", "runc")
    net = site.artefact(capsys)
    site.rewrite(net, environment={"mpi": {"OPAL_PREFIX": "/opt/a b"}})
    hooks = definition(site, capsys, net)
    code, said = run_container(site, hooks)
    assert code != 0
    assert "OPAL_PREFIX=/opt/a b" in said
    assert run_container(site, hooks, env=["OPAL_PREFIX=/opt/a b"])[0] == 0


def bound(source, place, *options):
    return {
        "destination": place, "type": "bind", "source": str(source), "options": ["rbind", *options],
    }  # fmt: skip


@pytest.mark.guarantee(
    "The hook for containers",
    "Paths in the container are resolved inside of its root by the kernel",
)
def test_no_folder_is_made_in_what_the_host_lends(site, capsys):
    """It made `stackproof/net` in a folder of the host, with the rights of root."""
    need("root", "runc")
    net = site.artefact(capsys)
    lent = site.folder / "lent"
    lent.mkdir(mode=0o700)
    hooks = definition(site, capsys, net)
    assert run_container(site, hooks)[0] == 0
    code, said = run_container(site, hooks, mounts=[bound(lent, "/opt/stackproof")])
    assert code != 0
    assert "mounted into the container" in said
    assert list(lent.iterdir()) == []


@pytest.mark.guarantee(
    "The hook for containers",
    "What is mounted stays in the container",
    ": a place whose mount is shared with the host or with other containers is refused.",
)
def test_nothing_is_mounted_where_others_would_see_it(site, capsys):
    """A volume with `rshared`: what was mounted over its library was so on the host too."""
    need("root", "runc")
    net = site.artefact(capsys)
    hooks = definition(site, capsys, net)
    volume = site.root / "opt" / "lib"
    kept = shutil.copytree(volume, site.folder / "volume")
    assert run_container(site, hooks, mounts=[bound(kept, "/opt/lib", "rprivate")])[0] == 0
    code, said = run_container(site, hooks, mounts=[bound(kept, "/opt/lib", "rshared")])
    assert code != 0
    assert "seen outside of the container" in said


@pytest.mark.guarantee(
    "The hook for containers",
    "Its log is its own",
    ": what paths, variables and names of the image hold is made printable there, and on "
    "standard error.",
)
def test_what_an_image_says_is_no_line_of_the_log(site, capsys):
    net = site.artefact(capsys)
    log = site.folder / "log"
    odd = "/opt/x\nstackproof-oci-hook all is well\x1b[2J"
    site.root.joinpath("opt/lib").rename(f"{site.root}{odd}")
    argv = [site.hook, f"--artefact={net}/default", "--level=mpi", f"--try={site.root}"]
    _, said = called([*argv, f"--log={log}", f"--folder={odd}"])
    assert "all is well" in said, said
    for text in (said, log.read_text()):
        assert "\x1b" not in text
        assert not any(line.startswith("stackproof-oci-hook all") for line in text.splitlines())


# ------------------------------------------------------------------------------- definitions


def test_a_definition_for_podman(site, capsys):
    net = site.artefact(capsys)
    words = ["container", "/bin/app", "--root", site.root, "--with", net, "--form", "podman-hook"]
    code, out, err = inject(capsys, *words)
    assert code == ExitCode.DONE, err
    data = json.loads(out)
    assert data["when"] == {"annotations": {r"^stackproof\.inject$": r"^net\-new$"}}
    assert data["stages"] == ["createContainer"]
    assert "--folder=/opt/lib" in data["hook"]["args"]
    assert "--asks=/bin/app" in data["hook"]["args"]
    assert "--annotation=stackproof.inject=net-new" in err


@pytest.mark.parametrize("form", ["podman", "apptainer", "cdi"])
def test_other_forms_bind_an_artefact_at_its_place(site, capsys, form):
    flags = ["-Wl,--enable-new-dtags,-rpath,/opt/lib"]
    site.program("root/bin/app", needs=["own/lib/libmpi.so.12"], calls=["MPI_Init"],
                 declarations=USES_MPICH, flags=flags)  # fmt: skip
    net = site.artefact(capsys)
    words = ["container", "/bin/app", "--root", site.root, "--with", net, "--form", form]
    code, out, err = inject(capsys, *words)
    assert code == ExitCode.DONE, err
    assert f"{net}/default" in out
    assert "LD_LIBRARY_PATH=/opt/stackproof/net-new/default/mpi" in out


@pytest.mark.guarantee(
    "The hook for containers",
    "Definition, artefact and log are the administrator's.",
    "An artefact that everybody may write to is refused; the log is never followed as a link.",
)
def test_what_a_definition_refuses(site, capsys):
    site.mpi("old", node="FABRIC_1.5")
    old = site.artefact(capsys, "old")
    base = ["container", "/bin/app", "--root", site.root, "--form", "oci-hook"]
    cases = [
        (["--with", old, "--level", "libfabric"], ExitCode.WORSE, "FABRIC_1.8"),
        (["--with", site.path("new")], ExitCode.USAGE, "inject artefact"),
        (["--with", old, "--level", "libcxi"], ExitCode.USAGE, "no level `libcxi`"),
    ]
    for words, code, text in cases:
        done = inject(capsys, *base, *words)
        assert done[0] == code, done
        assert text in done[2]
        assert done[1] == ""


def test_the_compact_manifest_round_trips():
    compact = Compact(
        name="net",
        place="/opt/net",
        machine=62,
        isa="x86-64-v3",
        shs="12.0.2",
        replaces=(Replaced(level="mpi", name="libmpi.so.12", file="mpi/libmpi.so.12"),),
        abis={"libmpi.so.12": "mpich"},
        lacks={"libmpi.so.12": ("MPI_Send_c",)},
        provides={"libfabric.so.1": ("FABRIC_1.0", "FABRIC_1.1")},
        parts=("libmpifort.so.12",),
        needs={"libc.so.6": ("GLIBC_2.34",), "libm.so.6": ()},
        environment={"mpi": {"A": "b c"}, "libfabric": {"D": ""}},
    )
    assert hook_manifest.parse(hook_manifest.render(compact), file="x") == compact
