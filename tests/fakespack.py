"""A program in the place of Spack, for what stackproof does around it, where Spack is not.

It is a git repository with `bin/spack`, which knows the calls of a build and does what the names
of packages say: `meet-one` and `meet-two` wait for each other, `on-cray-mpich` looks for that of
the machine, `slow` takes a second, `broken` does not compile, `full` finds no space, `forged` has
an entry with a wrong signature in a cache, `strange` one with an unknown key. Its words are those
of Spack 1.1. Whether stackproof understands the real one is asked in tests/build/test_spack.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from stackproof.core.value import Value

_START = """#!/bin/sh
exec "$SPACK_PYTHON" -I -S "${0%/*}/fake.py" "$@"
"""
_FAKE = r"""
import hashlib, json, os, pathlib, re, sys, time

words = [word for word in sys.argv[1:] if word != "--color=never"]
folder = None
while words and words[0] in ("-e", "-C", "-c"):
    option, value = words[:2]
    words = words[2:]
    folder = pathlib.Path(value) if option == "-e" else folder
mount = re.search(r"root: (\S+)", pathlib.Path("/build/config/config.yaml").read_text())[1]


def names():
    text = (folder / "spack.yaml").read_text()
    block = re.search(r"specs:\n((?:  - .*\n)+)", text)[1]
    return [line.strip()[2:].split()[0] for line in block.splitlines()]


def digest(name):
    import base64
    return base64.b32encode(hashlib.sha256(name.encode()).digest()).decode().lower()[:32]


def compiled(name, prefix):
    # Say which compiler compiles; a compiler that is made has its programs.
    there = folder / "compilers.yaml"
    if there.exists():
        (compiler,) = re.findall(r"cc: (/\S+)", there.read_text())
        version = pathlib.Path(compiler).read_text()
        print(f"==> {name} is compiled by {compiler}, {version}")
    if name == "gcc":
        (prefix / "bin").mkdir(parents=True)
        for program in ("gcc", "g++", "gfortran"):
            (prefix / "bin" / program).write_text(f"{prefix.name.rpartition('-')[0]} itself")


def module(kind):
    text = pathlib.Path("/build/modules-config/modules.yaml").read_text()
    root = pathlib.Path(re.search(rf"{kind}: (/\S+)", text)[1])
    for done in pathlib.Path(mount).glob("*/*/done"):
        name, version, key = done.parent.name.rsplit("-", 2)
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / version).write_text(
            f"#%Module1.0\n## Module file created by spack (https://github.com/spack/spack) on {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
            f"prepend-path PATH {done.parent}/bin\n"
        )


def external(name):
    text = pathlib.Path("/build/config/packages.yaml").read_text()
    found = name != "gcc" and re.search(rf"{name}:[^/]*prefix: (\S+)", text)
    return found and found[1]


def meet(name, what):
    other = {"meet-one": "meet-two", "meet-two": "meet-one"}.get(name)
    if other:
        places = pathlib.Path("/build/met")
        places.mkdir(exist_ok=True)
        (places / f"{name}-{what}").touch()
        end = time.monotonic() + 600
        while not (places / f"{other}-{what}").exists():
            if time.monotonic() > end:
                sys.exit(f"{name} waited for {other} in vain")
            time.sleep(0.02)


def concretize():
    nodes = {}
    for name, at, version in (spec.partition("@") for spec in names()):
        meet(name, "solved")
        if name == "unsolvable":
            print("==> Error: failed to concretize: there is no such package", file=sys.stderr)
            sys.exit(1)
        outside = external(name)
        nodes[digest(name)] = {
            **({"external": {"path": outside, "module": None}} if outside else {}),
            "name": name, "version": version or "1.0", "hash": digest(name), "namespace": "builtin",
            "arch": {"platform": "linux", "platform_os": "x", "target": {"name": "y"}},
            "parameters": {}, "package_hash": "z", "dependencies": [],
        }
    lock = {
        "_meta": {"file-type": "spack-lockfile", "lockfile-version": 6, "specfile-version": 5},
        "spack": {"version": "1.1.0"},
        "roots": [{"hash": key, "spec": node["name"]} for key, node in nodes.items()],
        "concrete_specs": nodes,
    }
    (folder / "spack.lock").write_text(json.dumps(lock))


def install():
    nodes = json.loads((folder / "spack.lock").read_text())["concrete_specs"]
    failed = False
    for number, (key, node) in enumerate(sorted(nodes.items(), key=lambda n: n[1]["name"]), 1):
        name = node["name"]
        if "external" in node:
            print(f"[+] {node['external']['path']} (external {name}-1.0-{key})")
            continue
        prefix = pathlib.Path(mount, "linux-x-y", f"{name}-{node['version']}-{key}")
        if (prefix / "done").exists():
            print(f"[+] {prefix}")
            continue
        print(f"==> Installing {name}-1.0-{key} [{number}/{len(nodes)}]")
        if name == "forged":
            print('gpg: BAD signature from "somebody <x@example.org>" [ultimate]', file=sys.stderr)
        if name == "strange":
            print("gpg:                using RSA key ABCDEF0123", file=sys.stderr)
            print("gpg: Can't check signature: No public key", file=sys.stderr)
        print(f"==> No binary for {name}-1.0-{key} found: installing from source")
        print(f"==> {name}: Executing phase: 'install'")
        compiled(name, prefix)
        meet(name, "installed")
        if name == "on-cray-mpich":
            there = pathlib.Path(external("cray-mpich"))
            print(f"==> {there}: {sorted(map(str, there.glob('*/*')))}")
            if not (there / "bin" / "mpicc").exists():
                sys.exit(f"==> Error: {there} is not to be seen")
        if name == "slow":
            time.sleep(1.5)
        if name in ("broken", "full"):
            stage = pathlib.Path(f"/build/stage/spack-stage-{name}-1.0-{key}")
            stage.mkdir(parents=True, exist_ok=True)
            log = stage / "spack-build-out.txt"
            said = {
                "broken": "first.c:3:1: error: expected ';'\nmake: *** [first.o] Error 1\n",
                "full": "ld: final link failed: No space left on device\n",
            }[name]
            log.write_text("checking for gcc... yes\n" + said)
            print(f"==> Error: ProcessError: Command exited with status 2:\n    'make'\n\n"
                  f"See build log for details:\n  {log}\n")
            failed = True
            continue
        prefix.mkdir(parents=True, exist_ok=True)
        (prefix / "done").write_text(name)
        print(f"[+] {prefix}")
    sys.exit(failed)


match words:
    case ["concretize", *_]:
        concretize()
    case ["install", *_]:
        install()
    case ["module", kind, "refresh", *_]:
        module(kind)
    case ["fetch", *_] | ["clean", *_] | ["python", *_] | ["external", "find", *_]:
        pass
    case _:
        sys.exit(f"the program in the place of Spack does not know {words}")
"""
_SITE = """packages:
  gcc:
    buildable: false
    externals:
    - spec: gcc@12.2.0 languages:='c,c++,fortran'
      prefix: /usr
      extra_attributes: {compilers: {c: /usr/bin/gcc, cxx: /usr/bin/g++, fortran: /usr/bin/gfortran}}
"""


class Folder(Value, kw_only=False):
    """A folder with a recipe, a site, and the repositories that the recipe names."""

    path: Path

    @property
    def recipe(self) -> Path:
        return self.path / "small"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "STACKPROOF_CACHE": str(self.path / "cache")}

    def argv(self, *words: object) -> list[str]:
        """Return a call of `build` for the recipe and the site."""
        place = [] if "--in-memory" in words or "--build-dir" in words else ["--in-memory", "no"]
        return [sys.executable, "-m", "stackproof", "build", str(self.recipe), "--site",
                str(self.path / "site"), *map(str, words), *place]  # fmt: skip

    def build(
        self, *words: object, ok: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Build, and expect an exit code."""
        done = subprocess.run(
            self.argv(*words), cwd=self.path, env={**self.environment, **environment},
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == ok, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    @property
    def builds(self) -> list[Path]:
        return sorted((self.path / "cache" / "builds").glob("small-*"))

    def write(
        self,
        *packages: str,
        hook: str = "",
        commit: str = "v1.1.0",
        more: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Write the recipe: these packages, no views, and `more` environments by name."""
        every = {"tools": packages, **(more or {})}
        files = {
            "small/config.yaml": f"name: small\nversion: 3\nspack:\n  repo: {self.path}/spack\n"
            f"  commit: {commit}\n  packages: {{repo: {self.path}/packages, commit: v1}}\n",
            "small/compilers.yaml": "gcc: {version: system}\n",
            "small/environments.yaml": "".join(
                f"{name}:\n  compiler: [gcc]\n  network: {{mpi: null}}\n"
                f"  specs: [{', '.join(specs)}]\n"
                for name, specs in every.items()
            ),
            "site/packages.yaml": _SITE,
        }
        if hook:
            files["small/post-install"] = hook
        _write(self.path, files)


def make(folder: Path) -> Folder:
    """Return a folder with a recipe of one package."""
    _repository(
        folder / "spack",
        {"bin/spack": _START, "bin/fake.py": _FAKE, "lib/spack/spack/x.py": "X = 1\n"},
        "v1.1.0",
    )
    text = "repo:\n  namespace: builtin\n  api: v2.0\n"
    _repository(folder / "packages", {"repos/spack_repo/builtin/repo.yaml": text}, "v1")
    made = Folder(folder)
    made.write("good")
    return made


def _repository(folder: Path, files: dict[str, str], tag: str) -> None:
    _write(folder, files)
    if (folder / "bin").is_dir():
        (folder / "bin" / "spack").chmod(0o755)
    who = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.org",
           "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@example.org"}  # fmt: skip
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", tag]):
        subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, **who})


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
