"""What a file or folder is, by its content: ours, or of the other programs of the field.

The answer is for people who named the wrong file: one sentence instead of a problem for each key.
A file of which nothing is certain has no kind. Each line is looked at once, whatever it holds.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence

from stackproof.core import limits
from stackproof.core.errors import Location, Problem, Reason

TOLD_BY = ("packages.yaml", "compilers.yaml")
"""Files of a folder whose texts tell more than its names."""

WANTED = {
    "recipe": "a recipe of stackproof", "site": "a site", "bench": "a specification of `bench`",
    "log": "what a job printed", "output": "the output of a benchmark",
    "results": "a results folder", "image": "an image of stackproof",
    "capture": "a capture of a machine",
}  # fmt: skip
"""Kinds that verbs take, in words."""

_SPACK = (
    "a recipe with `engine: spack` has `packages` as they stand here, and specs under "
    "`environments: NAME: specs`; begin with {recipe}, docs/how-to/build-with-spack.md says more"
)
_COMPILERS_OF_SPACK = (
    "a recipe with `engine: spack` names them by version, `compilers: gcc: {version: system}` for "
    "the machine's own; begin with {recipe}, docs/how-to/build-with-spack.md says more"
)
_SCRIPT = (
    "submit it, with `stackproof run IMAGE -- PROGRAM` where it starts programs; "
    "`stackproof doctor --log` takes what its job printed"
)
_CONTAINER = (
    "build it first: `stackproof inject check --root oci:FOLDER` or `sif:FILE` takes the image; "
    "`stackproof image containerfile RECIPE` writes one of a recipe"
)
_OLD = (
    "move the environments into environments.yaml, take the key `compilers` off compilers.yaml: "
    "then `stackproof check` takes the folder (docs/how-to/use-stackinator-recipes.md)"
)
_EASYCONFIG = (
    "stackproof writes its own, for a recipe with `engine: easybuild`: begin with {recipe}, "
    "docs/how-to/build-with-easybuild.md says more"
)
_EDF = (
    "`stackproof image edf` writes one for a container of yours; "
    "`stackproof inject container` puts another MPI into its container, and arms of "
    "`stackproof bench` run in one with `runtime: edf`: docs/how-to/compare-with-your-site.md"
)
_FOLDER = "`stackproof check` and `build` take the folder, with its environments.yaml"
_RESULTS = "`stackproof compare`, `report` and `doctor --results` take the folder of `bench.json`"
# Each kind: what it is, and what takes it.
_KINDS = {
    "image": ("a SquashFS image", "`stackproof inspect {path}` and `run {path}` take it"),
    "program": ("a program or a library", "`stackproof inject check --with MPI {path}` takes it"),
    "sif": ("an image of Apptainer (SIF)", "`stackproof inject check --root sif:{path}` takes it"),
    "packed": ("an archive or a compressed file", "unpack it"),
    "lock": ("a lock of stackproof", "`stackproof build RECIPE` finds it beside its recipe"),
    "spack-lock": ("a lock of Spack (spack.lock)", _SPACK),
    "capture": ("a capture of a machine", "`stackproof site probe --from {path}` takes it"),
    "result": ("a file of a results folder", _RESULTS),
    "written": ("JSON that stackproof wrote", "name the file or the folder that it is about"),
    "spack": ("an environment of Spack (spack.yaml)", _SPACK),
    "spack-packages": ("a packages.yaml of Spack", _SPACK),
    "spack-compilers": ("a compilers.yaml of Spack", _COMPILERS_OF_SPACK),
    "spack-file": ("a configuration file of Spack", _SPACK),
    "stackinator-2023": ("an old recipe of Stackinator (of 2023, before environments.yaml)", _OLD),
    "stackinator-file": ("a file of a Stackinator recipe, which is a folder", _FOLDER),
    "stackinator": ("the folder of a Stackinator recipe", _FOLDER),
    "stackinator-cluster": ("a site of Stackinator", "`stackproof check RECIPE --site` takes it"),
    "easyconfig": ("an easyconfig of EasyBuild", _EASYCONFIG),
    "containerfile": ("a Dockerfile or Containerfile", _CONTAINER),
    "definition": ("a definition file of Apptainer", _CONTAINER),
    "oci-layout": ("a container image", "`stackproof inject check --root oci:{path}` takes it"),
    "edf": ("an environment definition (EDF) of the Container Engine", _EDF),
    "slurm": ("a batch script of Slurm", _SCRIPT),
    "pbs": ("a batch script of PBS", _SCRIPT),
    "lsf": ("a batch script of LSF", _SCRIPT),
    "flux": ("a batch script of Flux", _SCRIPT),
    "script": ("a script", _SCRIPT),
    "printed-script": ("a script", _SCRIPT),
    "module": ("a module file", "`stackproof recipe ls` names stacks to build"),
    "slurm-conf": ("a configuration of Slurm", "`stackproof site probe` asks Slurm on the machine"),
    "conda": ("an environment of conda", "`stackproof recipe ls` names stacks to build"),
    "output": ("the output of a benchmark", "`stackproof import -o results {path}` takes it"),
    "variables": ("a list of environment variables", "`stackproof doctor --env {path}` takes it"),
    "c": ("C or C++ source", "`stackproof run IMAGE -- mpicc {path}` compiles it"),
    "fortran": ("Fortran source", "`stackproof run IMAGE -- mpifort {path}` compiles it"),
    "python": ("a program in Python", "`stackproof run IMAGE -- python3 {path}` runs it"),
    "recipe": ("a recipe", "`stackproof check`, `plan` and `build` take it"),
    "site": ("a site", "`stackproof site check {path}` and `--site {path}` take it"),
    "bench": ("a specification of `bench`", "`stackproof bench {path}` takes it"),
    "results": ("a results folder", _RESULTS),
}  # fmt: skip

_MEASURE = "`stackproof bench --quick --baseline {path} --challenger IMAGE` measures it"
_TAKEN_TOO = {
    *(("log", kind) for kind in ("c", "fortran", "python", "output", "printed-script")),
    ("recipe", "stackinator"),
}


def problem(
    kind: str, wanted: str, path: str, reason: Reason = Reason.INVALID_VALUE,
    recipes: Sequence[str] = (),
) -> Problem | None:  # fmt: skip
    """Return that a path is another kind than is wanted; None where it is not, or has no kind.

    `recipes` are about the same (`name_recipes`).
    """
    if kind in {"", wanted} or (wanted, kind) in _TAKEN_TOO:
        return None
    name, hint = _KINDS[kind]
    hint = _MEASURE if kind == "image" and wanted in {"bench", "results"} else hint
    return Problem(
        reason=reason,
        message=f"this is {name}, not {WANTED[wanted]}",
        hint=hint.replace("{recipe}", _show(recipes)).replace("{path}", shlex.quote(path)),
        where=Location(file=path),
    )


def _show(recipes: Sequence[str]) -> str:
    first = f"`stackproof recipe show {recipes[0]}`" if recipes else "one of `stackproof recipe ls`"
    return f"{first} (or {', '.join(recipes[1:])})" if recipes[1:] else first


_PACKAGE_NAME = re.compile(r"""^name[ \t]*=[ \t]*["']([\w.+-]{1,80})["']""", re.MULTILINE)
_WORDS = re.compile(r"[A-Za-z0-9][\w-]*")


def name_recipes(kind: str, text: str, names: Collection[str]) -> list[str]:
    """Return the recipes among `names` that are about what a file of EasyBuild or Spack has.

    An easyconfig has a name, and recipes that begin with it come first. For Spack it is the recipe
    of the package that the text names first.
    """
    if kind == "easyconfig":
        match = _PACKAGE_NAME.search(text)
        name = match[1].lower() if match else "/"
        same = [recipe for recipe in names if name in re.split(r"[-.]", recipe)]
        return sorted(same, key=lambda recipe: (not recipe.startswith(name), recipe))
    if not kind.startswith("spack"):
        return []
    recipes = {name.removeprefix("spack/"): name for name in names if name.startswith("spack/")}
    words = (match[0] for match in _WORDS.finditer(text))
    return [next((recipes[word] for word in words if word in recipes), "spack/openmpi")]


def kind_of_file(content: bytes) -> str:
    """Return the kind of a file by its first bytes, empty where it has none."""
    text = content[: limits.KIND.bytes].decode(errors="replace")
    return kind_of_bytes(content) or kind_of_text(text)


_MAGIC = {
    b"hsqs": "image", b"\x7fELF": "program", b"\x1f\x8b": "packed", b"\x28\xb5\x2f\xfd": "packed",
    b"\xfd7zXZ\0": "packed", b"BZh": "packed", b"PK\3\4": "packed", b"\xed\xab\xee\xdb": "packed",
}  # fmt: skip


def kind_of_bytes(content: bytes) -> str:
    """Return the kind of a binary file, empty for others."""
    if content[32:41] == b"SIF_MAGIC":
        return "sif"
    if content[257:262] == b"ustar":
        return "packed"
    return next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), "")


_SCHEMA = re.compile(r'\{\s{0,9}"schema": ?"stackproof/([a-z-]{1,40})/\d')
_WRITTEN = {
    "capture": "capture", "results": "result", "measurement": "result", "message-paths": "result"
}  # fmt: skip
_KEY = re.compile(r"""["']?([A-Za-z][\w.-]{0,80})["']?[ \t]*::?(?:[ \t].*)?\Z""")
_ASSIGNED = re.compile(r"([A-Za-z_][\w.-]{0,80})[ \t]*=")
_TITLE = re.compile(r"#? ?OSU \S.{0,80} Test(?: v\d\S{0,20})?|#\s*Benchmarking \w+|# Size  .*")
_ROW = re.compile(r"\s*\d{1,20}(?:\s+\d[\d.]{0,30})+\Z")
_JOBS = {"#SBATCH": "slurm", "#PBS": "pbs", "#BSUB": "lsf", "#flux:": "flux"}
# A line that a source of a language has, and no YAML.
_SOURCES = {
    "c": re.compile(r"#\s?include\s*[<\"][\w./+-]{1,80}[>\"]|int main\s*\("),
    "fortran": re.compile(r"\s*(?:program \w+|use mpi(?:_f08)?|implicit none)\Z", re.IGNORECASE),
    "python": re.compile(r"import \w[\w.]*(?: as \w+)?\Z|from \w[\w.]* import \w[\w, ]*\Z"),
}
# What the last line of a script begins with: behind other lines is what its job printed.
_STATEMENT = re.compile(
    r"(?:srun|mpirun|mpiexec|prun|exec|wait|fi|done|esac|exit|echo|time|export|module|source|cd|cp|mv"
    r"|rm|date|set|unset|printf|make|Rscript|julia|python[\d.]*|singularity|apptainer|podman|ch-run|stackproof|EOF)\b(?!:)"
    r"|[#./$|}-]|[A-Za-z_]\w*="
)


def kind_of_text(text: str) -> str:
    """Return the kind of a text, empty where it has none."""
    if schema := _SCHEMA.match(text):
        return "lock" if schema[1].endswith("lock") else _WRITTEN.get(schema[1], "written")
    lines = [line.rstrip() for line in text.removeprefix("\ufeff").splitlines() if line.strip()]
    if "\0" in text or not lines:
        return ""
    if lines[0].startswith("#!"):
        return _kind_of_script(lines)
    if any(map(_TITLE.match, lines)) and any(map(_ROW.match, lines)):
        return "output"
    for kind, form in _SOURCES.items():
        if any(map(form.match, lines)):
            return kind
    lines = [line for line in lines if not line.lstrip().startswith("#")] or ["-"]
    return (
        _kind_by_start(text)
        or _kind_of_instructions(lines)
        or _kind_of_assignments(lines)
        or _kind_of_keys(lines)
    )


def _kind_by_start(text: str) -> str:
    if '"spack-lockfile"' in text[:500]:
        return "spack-lock"
    return "module" if text.startswith(("#%Module", "help([[", "whatis(")) else ""


def _kind_of_script(lines: list[str]) -> str:
    if "run-singularity" in lines[0]:
        return "sif"
    if "python" not in lines[0] and not _STATEMENT.match(lines[-1].strip()):
        return "printed-script"
    marks = {line.split(maxsplit=1)[0] for line in lines}
    return next((kind for mark, kind in _JOBS.items() if mark in marks), "script")


def _kind_of_instructions(lines: list[str]) -> str:
    words = [line.split(maxsplit=1)[0] for line in lines]
    if words[0] == "FROM" or (words[0] == "ARG" and "FROM" in words):
        return "containerfile"
    first = {word.lower() for word in words[:4]}
    return "definition" if {"bootstrap:", "from:"} <= first else ""


def _kind_of_assignments(lines: list[str]) -> str:
    """Return the kind of a file of names and values with `=` between them."""
    margin = [line for line in lines if line[0] not in " \t])}\"'"]
    names = [_ASSIGNED.match(line) for line in margin]
    given = {name[1] for name in names if name}
    if {"name", "version"} <= given and given & {"toolchain", "easyblock"}:
        return "easyconfig"
    if all(names):
        if given & {"ClusterName", "SlurmctldHost", "GresTypes"}:
            return "slurm-conf"
        if {"PATH", "HOME"} <= given:
            return "variables"
    elif not all(name or line[0] == "[" for name, line in zip(names, margin, strict=True)):
        return ""
    return "edf" if given & {"image", "base_environment"} else ""


_RECIPE = frozenset(("engine", "mpi", "inherit", "replacement", "libfabric"))
_SITE = frozenset(
    ("partitions", "fabric", "launchers", "scheduler", "vendor-mpi", "interfaces", "mount-points")
)
_SPACK_FILES = frozenset(
    ("compilers", "concretizer", "config", "mirrors", "modules", "repos", "upstreams", "toolchains")
)
_COMPILERS = frozenset(
    ("bootstrap", "gcc", "llvm", "nvhpc", "llvm-amdgpu", "intel-oneapi-compilers")
)
# For each kind, whether a mapping is it: by its keys, and by the words of all keys below them.
_MAPPINGS: tuple[tuple[str, Callable[[set[str], set[str]], bool]], ...] = (
    ("recipe", lambda keys, _: "inherit" in keys),
    ("recipe", lambda keys, _: "name" in keys and len(keys & _RECIPE) > len(keys & _SITE)),
    ("site", lambda keys, _: "name" in keys and len(keys & _SITE) > len(keys & _RECIPE)),
    ("bench", lambda keys, _: "baseline" in keys and not keys & (_RECIPE | _SITE)),
    ("spack", lambda keys, _: keys == {"spack"}),
    ("stackinator-2023", lambda k, words: k == {"packages"} and {"compiler", "specs"} <= words),
    ("stackinator-2023", lambda k, words: k == {"compilers"} and bool(_COMPILERS & words)),
    ("spack-packages", lambda keys, _: keys == {"packages"}),
    ("spack-compilers", lambda keys, _: keys == {"compilers"}),
    ("spack-file", lambda keys, _: len(keys) == 1 and keys <= _SPACK_FILES),
    ("stackinator-file", lambda k, _: {"name", "spack", "store"} <= k and not k & _RECIPE),
    ("stackinator-file", lambda k, _: {"name", "spack", "version"} <= k and not k & _RECIPE),
    ("stackinator-file", lambda keys, _: "gcc" in keys and keys <= _COMPILERS),
    ("stackinator-file", lambda _, words: {"compiler", "specs", "unify"} <= words),
    ("stackinator-cluster", lambda keys, _: keys == {"mpi", "packages"}),
    ("easyconfig", lambda keys, _: keys == {"easyconfigs"}),
    ("conda", lambda keys, _: {"channels", "dependencies"} <= keys),
)  # fmt: skip


def _kind_of_keys(lines: list[str]) -> str:
    """Return the kind of a YAML mapping: each line at its margin is a key or an item."""
    margin = [line for line in lines if line[0] not in " \t]}{" and line not in {"---", "..."}]
    keys = [_KEY.match(line) for line in margin if not line.startswith("- ")]
    if not keys or not all(keys):
        return ""
    given = {key[1] for key in keys if key}
    below = {line.split(":", 1)[0].strip(" -\t'\"") for line in lines if line[0] in " \t-"}
    return next((kind for kind, fits in _MAPPINGS if fits(given, below)), "")


# For each kind, the names of which one must be in a folder.
_FOLDERS = (
    ("stackinator", {"config.yaml", "environments.yaml"}),
    ("spack", {"spack.yaml"}),
    ("results", {"bench.json"}),
    ("oci-layout", {"oci-layout"}),
    ("stackinator-cluster", {"packages.yaml", "network.yaml"}),
    ("containerfile", {"Dockerfile", "Containerfile"}),
)


def kind_of_folder(names: Collection[str], texts: Mapping[str, bytes]) -> str:
    """Return the kind of a folder by the names in it and the texts of `TOLD_BY`, empty for none."""
    old = any(kind_of_file(text) == "stackinator-2023" for text in texts.values())
    if old and "environments.yaml" not in names:
        return "stackinator-2023"
    kind = next((kind for kind, told in _FOLDERS if not told.isdisjoint(names)), "")
    easyconfigs = any(name.endswith(".eb") for name in names)
    return kind or ("easyconfig" if easyconfigs else "")
