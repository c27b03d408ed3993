"""Building, checking and installing native/: warnings are errors for gcc and clang."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from need import need, works
from stackproof.pack.effects.entry_files import COMPILE

NATIVE = Path(__file__).parents[2] / "native"
_PACK = NATIVE.parent / "src" / "stackproof" / "pack" / "csrc"
_FUZZ_SECONDS = 5


def _run(*argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.fspath(word) for word in argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
        check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", **environment},
    )


@pytest.fixture(scope="session")
def by_clang(builder, tmp_path_factory):
    """Return a build by clang with the targets for libFuzzer."""
    need("clang")
    folder = tmp_path_factory.mktemp("clang")
    return builder(folder, "-Dfuzz=true", "-Dspank=disabled", "-Db_lundef=false", compiler="clang")


def _run_unit_tests(folder: Path) -> None:
    done = _run("meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs")
    assert done.returncode == 0, done.stdout
    assert re.search(r"Ok: +[1-9]", done.stdout)


def test_unit_tests(built):
    _run_unit_tests(built)


@pytest.mark.battery
def test_unit_tests_under_sanitizers(sanitized):
    _run_unit_tests(sanitized)


@pytest.mark.battery
def test_the_analyzer_of_gcc_finds_nothing(builder, tmp_path):
    builder(tmp_path / "analyzer", "-Dc_args=-fanalyzer")


def _tidy_key(source: Path) -> str:
    """Return what clang-tidy's answer on a file depends on, as one digest."""
    headers = sorted((NATIVE if source.is_relative_to(NATIVE) else _PACK).rglob("*.h"))
    parts = [path.read_bytes() for path in (NATIVE / ".clang-tidy", source, *headers)]
    parts.append(_run("clang-tidy", "--version").stdout.encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


@pytest.mark.battery
def test_clang_tidy_finds_nothing(request, tmp_path):
    """In a checkout's second run only files are asked about that, or whose headers, have changed."""
    need("meson", "clang-tidy", "clang")
    cache = request.config.cache
    configured = _run("meson", "setup", tmp_path, NATIVE, CC="clang")
    assert configured.returncode == 0, configured.stdout
    parts = ["core", "helper", "hook", *(["spank"] if works("slurm-headers") else [])]
    sources = [path for part in parts for path in sorted((NATIVE / part).glob("*.c"))]
    tests = ("unit.c", "unit_confine.c", "unit_hook.c", "probe.c")
    sources += [NATIVE / "tests" / name for name in tests]
    sources += sorted(_PACK.rglob("*.c"))
    known = cache.get("native/clang-tidy", []) if cache else []
    keys = {path: _tidy_key(path) for path in sources}
    # The long ones first, so that no core waits for one at the end.
    left = sorted(
        (path for path in sources if keys[path] not in known), key=lambda path: -path.stat().st_size
    )
    # One file at a time: what clang-tidy 14 knows of va_list is wrong from the second one on.
    how = {True: ["-p", tmp_path], False: [f"--config-file={NATIVE}/.clang-tidy"]}
    freestanding = ["--", "-std=c11", "-D_GNU_SOURCE", "-ffreestanding", "-fno-builtin"]
    argvs = [
        ["clang-tidy", "--quiet", *how[ours], path, *([] if ours else freestanding)]
        for path in left
        for ours in [path.is_relative_to(NATIVE)]
    ]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        done = list(pool.map(lambda argv: _run(*argv), argvs))
    assert [one.stdout for one in done if one.returncode] == []
    if cache:
        cache.set("native/clang-tidy", sorted(keys.values()))


@pytest.mark.battery
def test_entry_points_of_packs_compile_without_a_warning(tmp_path):
    """By the warnings that native/meson.build asks for, with gcc and clang."""
    need("gcc", "clang")
    asked = re.findall(r"'(-W[\w=-]+)'", (NATIVE / "meson.build").read_text(encoding="utf-8"))
    assert len(asked) > 20
    flags = [one for one in COMPILE if not one.startswith(("-Wl,", "-s")) or one == "-std=c11"]
    of_gcc = {"-fno-tree-loop-distribute-patterns", "-Wduplicated-cond", "-Wduplicated-branches",
              "-Wlogical-op", "-no-pie"}  # fmt: skip
    words = ["-Werror", "-Wpedantic", *flags, *asked]
    for compiler, without in (("gcc", set()), ("clang", of_gcc)):
        known = [word for word in words if word not in without]
        for source in sorted(_PACK.rglob("*.c")):
            done = _run(compiler, *known, "-c", "-o", tmp_path / "object", source)
            assert done.returncode == 0, done.stdout


@pytest.mark.guarantee(
    "The hook for containers",
    "What is read is bounded",
)
@pytest.mark.battery
def test_a_short_fuzzing(by_clang):
    done = _run(NATIVE / "tests" / "fuzz.sh", by_clang, str(_FUZZ_SECONDS))
    assert done.returncode == 0, done.stdout
    counts = [int(word) for word in re.findall(r"executed_units: (\d+)", done.stdout)]
    assert len(counts) == 9
    assert min(counts) > 100
    assert len(re.findall(r"reached [1-9]\d* of [1-9]\d* branches", done.stdout)) == 9


def test_the_helper_is_hardened(built):
    helper = built / "helper" / "stackproof-mount"
    said = _run(
        "readelf", "--wide", "--file-header", "--program-headers", "--dynamic", helper
    ).stdout
    assert "Type:                              DYN" in said  # position-independent
    assert "GNU_RELRO" in said
    assert "NOW" in said
    assert "GNU_STACK" in said
    assert "RWE" not in said  # nothing is both writable and executable
    needed = re.findall(r"Shared library: \[([^\]]+)\]", said)
    assert needed == ["libc.so.6"]
    symbols = _run("readelf", "--wide", "--dyn-syms", helper).stdout
    assert "__stack_chk_fail" in symbols
    assert "_chk@" in symbols  # FORTIFY_SOURCE
    assert "RPATH" not in said
    assert "RUNPATH" not in said


@pytest.mark.battery
def test_installing_setuid_without_the_plug_in(tmp_path):
    """The other way is tested with the packages."""
    need("root", "meson", "gcc")
    folder, root = tmp_path / "build", tmp_path / "root"
    options = ["-Dspank=disabled", "-Dsetuid=true", "-Dpolicy_folder=/etc/site", "--prefix=/usr"]
    done = _run("meson", "setup", folder, NATIVE, *options)
    assert done.returncode == 0, done.stdout
    done = _run("meson", "install", "-C", folder, DESTDIR=os.fspath(root))
    assert done.returncode == 0, done.stdout
    helper = root / "usr/bin/stackproof-mount"
    assert helper.stat().st_mode & 0o7777 == 0o4755
    assert helper.stat().st_uid == 0
    assert b"/etc/site\0" in helper.read_bytes()
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert files == {
        "usr/bin/stackproof-mount",
        "usr/libexec/stackproof/stackproof-oci-hook",
        "usr/share/doc/stackproof/mount.conf",
        "usr/share/doc/stackproof/trust.conf",
        "usr/share/man/man8/stackproof-mount.8",
        "usr/share/man/man8/stackproof-oci-hook.8",
    }


def test_the_example_of_a_policy_is_valid(built, tmp_path):
    need("root")
    example = (NATIVE / "helper" / "mount.conf").read_text()
    folder = tmp_path / "policy"
    folder.mkdir(mode=0o755)
    for text in (example, re.sub(r"^#(?=[a-z-]+ = )", "", example, flags=re.MULTILINE)):
        (folder / "mount.conf").write_text(text)
        done = _run(built / "tests" / "probe", "policy", folder)
        assert done.stdout.startswith("ok\n"), done.stdout


@pytest.mark.parametrize(
    ("page", "part"),
    [("helper/stackproof-mount.8", "helper"), ("hook/stackproof-oci-hook.8", "hook")],
)
def test_every_option_is_in_the_manual_page(page, part):
    text = (NATIVE / page).read_text()
    usage = (NATIVE / part / "options.c").read_text()
    options = re.findall(r'"  (--[a-z-]+)', usage)
    assert len(options) > 3
    for option in options:
        assert option.replace("-", r"\-") in text


def test_every_key_of_a_policy_is_in_page_guide_and_example_with_its_default():
    source = (NATIVE / "core" / "policy.c").read_text()
    keys = re.findall(r'strcmp\(key, "([a-z-]+)"\)', source)
    assert len(keys) > 3
    page = (NATIVE / "helper" / "stackproof-mount.8").read_text()
    shown = re.findall(r'^\.B[IR] "([a-z\\-]+) = ', page, re.MULTILINE)
    trust = re.findall(
        r'strcmp\(key\[0\], "([a-z-]+)"\)', (NATIVE / "core" / "trust.c").read_text()
    )
    assert [key.replace("\\-", "-") for key in shown] == [*keys, *trust]
    example = (NATIVE / "helper" / "mount.conf").read_text()
    assert set(re.findall(r"^#?([a-z-]+) = ", example, re.MULTILINE)) == set(keys)
    guide = (NATIVE.parent / "docs" / "how-to" / "install-mount-helper.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.+?) \|", guide, re.MULTILINE))
    assert list(rows) == keys
    defaults = {
        "images-per-command": "IMAGES", "image-memory": "MEMORY_MIB",
        "loop-devices-per-user": "LOOPS",
    }  # fmt: skip
    for key, name in defaults.items():
        assert f"DEFAULT_{name} = {rows[key]}" in source
        assert f"#{key} = {rows[key]}\n" in example
