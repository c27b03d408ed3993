"""What only Spack knows, or only the finished store, at the end of a build; runs in the sandbox.

    python -I spack_worker.py solve TARGET CLONE SPACK-WORD...
    spack -e ENVIRONMENT python spack_worker.py views JOB NAME
    spack python spack_worker.py licences MOUNT
    python -I -S spack_worker.py metadata MOUNT
    python -I -S spack_worker.py date FOLDER EPOCH
    python -I -S spack_worker.py tidy MOUNT EPOCH

Self-contained. `solve` runs Spack as if on a machine of another microarchitecture. `views` makes
the views of one environment and asks Spack (0.23 to 1.2) for the changes that each makes in a
user's, as objects and not as the text of a shell script, for its `env.json` and `activate.sh`.
`licences` adds what packages say of their licence to the bill of materials. `metadata` puts the
views into `meta/env.json`. `date` gives all files of a folder one time. `tidy` takes out of the
store what differs between two builds of the same lock.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

# Folders that are no part of an image's environment: those that programs search anyway, which
# would hide the view's own (Spack adds them for external packages below /usr), and the build's.
_FOREIGN = re.compile(
    r"/build(/|$)|(/usr(/local)?)?/?$|(/usr(/local)?)?/(bin|sbin|lib|lib64|include|share|man)(/|$)"
)
# Spack's own records of a build that hold its times, its machine, its temporary folders, or that it
# came from a cache.
_RECORDS = (
    "spack-build-out.txt", "spack-build-out.txt.gz", "spack-build-01-*", "spack-build-env.txt",
    "spack-build-env-mods.txt", "spack-configure-args.txt", "install_times.json",
    "install_environment.json", "errors.txt", "archived-files", "binary_distribution",
)  # fmt: skip
_MODULE_TIME = re.compile(
    rb"^((?:##|--) Module file created by spack .*?) on \d{4}-.*$", re.MULTILINE
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_REFERENCE = re.compile(r"\$\{@([^@]*)@\}")

Operations = list[dict[str, Any]]


class Patch:
    """The changes of a view: operations on lists, and scalars (None unsets)."""

    def __init__(self, lists: list[str]) -> None:
        self.known_lists = set(lists)
        self.lists: dict[str, Operations] = {}
        self.scalars: dict[str, str | None] = {}

    def add(self, name: str, operation: str, entries: list[str]) -> None:
        """Add one operation to a list; two that extend it on one side become one."""
        operations = self.lists.setdefault(name, [])
        if operation in {"set", "unset"}:
            operations[:] = [{"op": operation, "value": entries}]
            return
        same = next((o for o in operations if o["op"] == operation), None)
        if same is None:
            operations.append({"op": operation, "value": _unique(entries)})
        elif operation == "prepend":
            same["value"] = _unique([*entries, *same["value"]])
        else:
            same["value"] = _unique([*same["value"], *entries])

    def scalar(self, name: str, value: str | None) -> None:
        """Set or unset a variable, whichever kind it is."""
        if name in self.known_lists or name in self.lists:
            entries = [entry for entry in (value or "").split(":") if entry]
            self.add(name, "set" if entries else "unset", entries)
        else:
            self.scalars[name] = value

    def data(self) -> dict[str, Any]:
        """Return the patch as uenv images have it."""
        return {
            "version": 1,
            "type": "augment",
            "values": {
                "list": dict(sorted((k, v) for k, v in self.lists.items() if v)),
                "scalar": dict(sorted(self.scalars.items())),
            },
        }


def solve(target: str, clone: str, words: list[str]) -> None:
    """Run Spack as if this machine had the microarchitecture `target`, also one of another family.

    Spack solves for the machine it runs on and for older ones of its family; other targets have to
    be asked for in every root spec, and fail for what is external. So its only source of knowledge
    about the processor (archspec) is told the answer. The words are as in bin/spack.
    """
    library = Path(clone, "lib", "spack")
    outer = library / "external"  # Spack before 1.0 keeps other people's libraries there
    sys.path[:0] = [
        str(library),
        *((str(outer), str(outer / "_vendoring")) if outer.exists() else ()),
    ]
    vendored = (library / "spack" / "vendor" / "archspec").is_dir()
    cpu: Any = importlib.import_module("spack.vendor.archspec.cpu" if vendored else "archspec.cpu")
    if target not in cpu.TARGETS:
        sys.exit(f"Spack knows no microarchitecture `{target}`")
    cpu.host = lambda: cpu.TARGETS[target]
    installable = (library / "spack_installable").is_dir()
    spack: Any = importlib.import_module("spack_installable.main" if installable else "spack.main")
    sys.exit(spack.main(words))


def write_views(job_file: str, environment: str) -> None:
    """Make every view of the active Spack environment, with `env.json` and `activate.sh`."""
    import spack.environment  # type: ignore[import-not-found]  # noqa: PLC0415 - is Spack's Python
    import spack.util.environment  # type: ignore[import-not-found]  # noqa: PLC0415

    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    active = spack.environment.active_environment()
    active.regenerate_views()
    for name, view in sorted(job["environments"][environment].items()):
        changes = spack.util.environment.EnvironmentModifications()
        active.add_view_to_env(changes, name)
        root = f"{job['mount']}/env/{name}"
        link_compilers(root, view["links"])
        patch = view_patch(changes, root, view, job["lists"])
        write(Path(root, "env.json"), dump(patch.data()))
        write(Path(root, "activate.sh"), activation(name, patch), mode=0o755)


def view_patch(changes: Any, root: str, view: dict[str, Any], lists: list[str]) -> Patch:
    """Return Spack's changes of a view, then its prefix paths, then the recipe's own changes."""
    own = {
        change["variable"] for change in view["changes"] if change["op"] in {"prepend", "append"}
    }
    patch = Patch([*lists, *view["prefix_paths"], *own])
    for change in changes.env_modifications:
        fold(patch, change)
    for name, folders in view["prefix_paths"].items():
        paths = [os.path.normpath(f"{root}/{folder}") for folder in folders]
        there = [path for path in paths if os.path.isdir(path)]
        if there:
            patch.add(name, "prepend", there)
    for change in view["changes"]:
        name, value = change["variable"], change["value"]
        if change["op"] in {"prepend", "append"}:
            patch.add(name, change["op"], [entry for entry in value.split(":") if entry])
        else:
            patch.scalar(name, value if change["op"] == "set" else None)
    return patch


def fold(patch: Patch, change: Any) -> None:
    """Add one of Spack's modifications (lib/spack/spack/util/environment.py) to a patch."""
    kind, name = type(change).__name__, change.name
    if name.startswith("SPACK_"):
        return
    if kind == "UnsetEnv":
        patch.scalar(name, None)
        return
    value: Any = getattr(change, "value", None)
    if kind in {"PrependPath", "AppendPath", "SetPath"}:
        entries = value.split(":") if isinstance(value, str) else list(value)
        paths = [os.path.normpath(entry) for entry in entries if entry]
        kept = [path for path in paths if is_ours(path)]
        if kept:
            patch.add(name, {"P": "prepend", "A": "append", "S": "set"}[kind[0]], kept)
    elif kind == "RemovePath":
        for operation in patch.lists.get(name, []):
            operation["value"] = [e for e in operation["value"] if e != os.path.normpath(value)]
    elif kind == "SetEnv":
        patch.scalar(name, str(value))
    elif kind == "AppendFlagsEnv":
        words = (patch.scalars.get(name) or f"${{@{name}@}}").split(change.separator)
        # Packages of one view often ask for the same flag, since they share their prefix there.
        patch.scalar(name, change.separator.join(_unique([*words, str(value)])))
    elif kind not in {"RemoveFlagsEnv", "DeprioritizeSystemPaths", "PruneDuplicatePaths"}:
        sys.exit(f"Spack has a change of the environment that is not known here: {kind}")


def is_ours(path: str) -> bool:
    """Return whether a folder belongs into an image's environment."""
    return not _FOREIGN.match(path)


def link_compilers(root: str, links: dict[str, str]) -> None:
    """Link compilers into a view's `bin`, which is made when it is not there."""
    folder = Path(root, "bin")
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in links.items():
        link = folder / name
        if not os.path.exists(target):
            sys.exit(f"the compiler `{target}` is not there and cannot be linked into `{root}`")
        if link.is_symlink() or link.exists():
            link.unlink()
        link.symlink_to(target)


def activation(name: str, patch: Patch) -> str:
    """Return `activate.sh`: the same changes for a POSIX shell that reads it with `.`."""
    lines = [f"# View {shlex.quote(name)}: read this file with `.` in a POSIX shell."]
    for variable, value in sorted(patch.scalars.items()):
        if _NAME.match(variable):
            lines.append(
                f"unset {variable}" if value is None else f"export {variable}={word(value)}"
            )
    for variable, operations in sorted(patch.lists.items()):
        if _NAME.match(variable):
            lines += [shell_operation(variable, operation) for operation in operations]
    return "\n".join(lines) + "\n"


def shell_operation(variable: str, operation: dict[str, Any]) -> str:
    """Return one operation on a list, without a colon too many: it means the current folder."""
    text = ":".join(word(entry) for entry in operation["value"])
    if operation["op"] == "unset" or not text:
        return f"unset {variable}"
    if operation["op"] == "set":
        return f"export {variable}={text}"
    if operation["op"] == "append":
        return f'export {variable}="${{{variable}:+${variable}:}}"{text}'
    return f'export {variable}={text}"${{{variable}:+:${variable}}}"'


def word(value: str) -> str:
    """Return a value as a shell word; `${@NAME@}` is the variable's value when it is read."""
    parts = _REFERENCE.split(value)  # text, name, text, name, ..., text
    words = [
        shlex.quote(part) if number % 2 == 0 else f'"${{{part}-}}"' if _NAME.match(part) else ""
        for number, part in enumerate(parts)
        if part
    ]
    return "".join(words) or "''"


def add_licences(mount: str) -> None:
    """Add the licences that packages state to the bill of materials."""
    import spack.repo  # type: ignore[import-not-found]  # noqa: PLC0415 - runs in Spack's Python
    import spack.spec  # type: ignore[import-not-found]  # noqa: PLC0415

    path = Path(mount, "meta", "bom.cdx.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    for component in data["components"]:
        if not component["bom-ref"].startswith("spack:"):
            continue
        try:
            package = spack.repo.PATH.get_pkg_class(component["name"])
        except spack.repo.UnknownPackageError:
            continue
        version = spack.spec.Spec(f"{component['name']}@={component['version']}")
        stated = {str(text) for when, text in getattr(package, "licenses", {}).items()
                  if version.intersects(when)}  # fmt: skip
        if stated:
            component["licenses"] = [{"license": {"name": text}} for text in sorted(stated)]
    write(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


def write_metadata(mount: str) -> None:
    """Write `meta/env.json`: `meta/env.json.in` with what each view changes."""
    data = json.loads(Path(mount, "meta", "env.json.in").read_text(encoding="utf-8"))
    for view in data["views"].values():
        if "env" not in view and "set" not in view:
            own = Path(view["root"], "env.json").read_text(encoding="utf-8")
            view["env"] = json.loads(own)
    for name, view in data["views"].items():
        if "set" in view:
            below = data["views"].get(view.pop("on"), {"env": Patch([]).data()})
            patch = patch_on(below["env"]["values"], view.pop("set"))
            view["env"] = patch.data()
            Path(view["root"]).mkdir(parents=True, exist_ok=True)
            write(Path(view["root"], "env.json"), dump(view["env"]))
            write(Path(view["root"], "activate.sh"), activation(name, patch), mode=0o755)
    write(Path(mount, "meta", "env.json"), dump(data))


def patch_on(values: dict[str, Any], scalars: dict[str, str]) -> Patch:
    """Return a view's changes with variables that are set on top of them."""
    patch = Patch([])
    patch.lists = {name: [dict(one) for one in done] for name, done in values["list"].items()}
    patch.scalars = dict(values["scalar"])
    for name, value in scalars.items():
        patch.scalar(name, value)
    return patch


def set_times(folder: str, epoch: int) -> None:
    """Give every file below a folder one time.

    Spack makes the indices of its packages again when a package is newer than they are. The clone
    of packages has the time of the clone, so without this it would index them in every build.
    """
    for where, _, names in os.walk(folder, topdown=False):
        for name in names:
            os.utime(Path(where, name), (epoch, epoch), follow_symlinks=False)
        os.utime(where, (epoch, epoch))


def tidy(mount: str, epoch: int) -> None:
    """Take out of the store what differs between two builds of one lock."""
    store = Path(mount)
    for folder, folders, _ in os.walk(store):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
            shutil.rmtree(Path(folder, "__pycache__"))
    for records in sorted(store.glob("*/*/.spack")):
        tidy_records(records)
    # Views link to the records of their packages.
    for link in (*store.glob("env/*/.spack/*/*"), *store.glob("env/._*/*/.spack/*/*")):
        if link.is_symlink() and not link.exists():
            link.unlink()
    tidy_database(store / ".spack-db", epoch)
    for path in sorted(p for p in store.glob("modules/**/*") if p.is_file() and not p.is_symlink()):
        path.write_bytes(_MODULE_TIME.sub(rb"\1", path.read_bytes()))


def tidy_records(folder: Path) -> None:
    """Remove Spack's logs of an installation, and what its list of files says of them.

    Owners and times are those of the image: root has everything, since 1970.
    """
    removed = set()
    for pattern in _RECORDS:
        for path in sorted(folder.glob(pattern)):
            removed.add(str(path))
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    manifest = folder / "install_manifest.json"
    if not manifest.is_file():
        return
    entries = json.loads(manifest.read_text(encoding="utf-8"))
    kept = {
        path: {**entry, "owner": 0, "group": 0, **({"time": 0.0} if "time" in entry else {})}
        for path, entry in sorted(entries.items())
        if not any(path == gone or path.startswith(f"{gone}/") for gone in removed)
        and "/__pycache__/" not in path
    }
    write(manifest, json.dumps(kept))


def tidy_database(folder: Path, epoch: int) -> None:
    """Leave of Spack's database what an upstream needs, with one installation time for all."""
    index = folder / "index.json"
    if not index.is_file():
        return
    data = json.loads(index.read_text(encoding="utf-8"))
    for record in data["database"]["installs"].values():
        if "installation_time" in record:
            record["installation_time"] = float(epoch)
    write(index, json.dumps(data, sort_keys=True, separators=(",", ":")))
    for path in sorted(folder.iterdir()):
        if path.name not in {"index.json", "index.json.gz", "lock"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    packed = folder / "index.json.gz"
    if packed.exists():
        packed.write_bytes(gzip.compress(index.read_bytes(), mtime=0))


def dump(data: Any) -> str:
    """Return data as JSON text that ends with a newline."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def write(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a text file with a mode that does not depend on the umask."""
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _unique(entries: list[str]) -> list[str]:
    return list(dict.fromkeys(entries))


def main(words: list[str]) -> None:
    """Do what the first word says."""
    os.umask(0o022)
    match words:
        case ["solve", target, clone, *others]:
            solve(target, clone, others)
        case ["views", job, environment]:
            write_views(job, environment)
        case ["licences", mount]:
            add_licences(mount)
        case ["metadata", mount]:
            write_metadata(mount)
        case ["date", folder, epoch]:
            set_times(folder, int(epoch))
        case ["tidy", mount, epoch]:
            tidy(mount, int(epoch))
        case _:
            sys.exit(f"usage: see {__file__}")


if __name__ == "__main__":
    main(sys.argv[1:])
