"""What the public uenv command line reads of an image made with Spack.

`Reader` does what its sources do, in the version of December 2025
(https://github.com/eth-cscs/uenv, src/uenv/meta.cpp, src/uenv/env.cpp, src/uenv/parse.cpp,
src/util/envvars.cpp): whatever they would log as a warning or an error, or throw, is kept, so that
an image that disturbs them fails here. It shares no code with the project's own reader.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from spackstacks import clones, locked, stack
from stackproof.build.engines.spack import buildplan
from stackproof.build.engines.spack.effects import worker as spack_worker
from stackproof.build.engines.spack.stack import Caches, SpackStack, SpackView, ViewChange
from stackproof.core.value import replace
from stackproof.image import metadata
from stackproof.image.activate import environment_patch

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
PATH = re.compile(r"[/.][A-Za-z0-9_./-]*\Z")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Reader(Struct):
    """What the command line takes from `meta/env.json`; `complaints` are its log."""

    name: str = ""
    description: str | None = None
    mount: str = ""
    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def read(self, store: Path) -> Reader:
        """Read a store; a file that is not where it is looked for means no metadata at all."""
        raw = json.loads((store / "meta" / "env.json").read_text())
        self.name = self._text(raw, "name") if "name" in raw else "unnamed"
        if raw.get("description") is not None:
            self.description = self._text(raw, "description")
        self.mount = self._text(raw, "mount")
        if isinstance(raw.get("views"), dict):
            for name, view in raw["views"].items():
                self._view(name, view)
        return self

    def _text(self, raw: dict[str, Any], key: str) -> str:
        # The library of JSON throws for any other type, and the whole metadata is given up.
        value = raw[key]
        if not isinstance(value, str):
            raise TypeError(f"{key}: {value!r} is no text")
        return value

    def _view(self, name: str, view: dict[str, Any]) -> None:
        if not NAME.match(name):
            self.complaints.append(f"view `{name}` cannot be asked for")
        patch: dict[str, Any] = {"scalars": {}, "lists": {}}
        if "env" not in view:
            self.complaints.append(f"view `{name}` will not load correctly")
        else:
            values = view["env"]["values"]
            if isinstance(values["list"], dict):
                for variable, updates in values["list"].items():
                    self._list(patch["lists"], variable, updates)
            if isinstance(values["scalar"], dict):
                for variable, value in values["scalar"].items():
                    if value is not None and not isinstance(value, str):
                        raise TypeError(f"{variable}: {value!r} is neither text nor null")
                    if patch["lists"].pop(variable, None) is not None:
                        self.complaints.append(f"`{variable}` is a list and a scalar")
                    patch["scalars"][variable] = value
        patch["description"] = self._text(view, "description") if "description" in view else ""
        self.views[name] = patch

    def _list(self, lists: dict[str, Any], variable: str, updates: Any) -> None:
        for update in updates:
            if not ("op" in update and "value" in update):
                self.complaints.append(f"invalid definition of `{variable}`")
            elif not isinstance(update["value"], list):
                self.complaints.append(f"`{variable}`: {update['value']!r} is no array")
            else:
                if not all(isinstance(entry, str) for entry in update["value"]):
                    raise TypeError(f"`{variable}` has entries that are no texts")
                if update["op"] not in {"append", "prepend", "set", "unset"}:
                    self.complaints.append(f"`{variable}`: `{update['op']}` is taken for unset")
                lists.setdefault(variable, []).append((update["op"], update["value"]))

    def activated(self, view: str, environment: dict[str, str]) -> dict[str, str]:
        """Return an environment as it is in a session with a view."""
        found = dict(environment)
        for variable, value in self.views[view]["scalars"].items():
            self._set(found, variable, value)
        for variable, updates in self.views[view]["lists"].items():
            entries: list[str] = found.get(variable, "").split(":")
            there = True
            for op, value in updates:
                entries = {
                    "set": value, "append": [*entries, *value], "prepend": [*value, *entries],
                }.get(op, [])  # fmt: skip
                there = op != "unset"
            kept = dict.fromkeys(entry for entry in entries if entry)
            self._set(found, variable, ":".join(kept) if there else None)
        return found

    def _set(self, environment: dict[str, str], variable: str, value: str | None) -> None:
        if not VARIABLE.match(variable):
            self.complaints.append(f"`{variable}` is skipped")
        elif value is None:
            environment.pop(variable, None)
        else:
            environment[variable] = re.sub(
                r"\$\{@(.*?)@\}", lambda m: environment.get(m[1], ""), value
            )


# What Spack says of a view, by the names of its classes (lib/spack/spack/util/environment.py).
def modification(kind: str, name: str, value: Any = None) -> Any:
    made = type(kind, (), {})()
    made.name, made.value, made.separator = name, value, " "
    return made


class Spack:
    """A view's changes as Spack has them."""

    def __init__(self, root: str) -> None:
        self.env_modifications = [
            modification("PrependPath", "PATH", f"{root}/bin"),
            modification("PrependPath", "MANPATH", f"{root}/share/man"),
            modification("AppendPath", "MANPATH", ""),
            modification("PrependPath", "PATH", "/usr/bin"),
            modification("PrependPath", "PKG_CONFIG_PATH", f"{root}/lib/pkgconfig"),
            modification("SetEnv", "MPICC", f"{root}/bin/mpicc"),
            modification("SetEnv", "SPACK_ENV", "/build/environments/apps"),
            modification("UnsetEnv", "F90"),
        ]


def image_tree(folder: Path, of: SpackStack) -> Path:
    """Write the tree of an image as a build leaves it, but for the packages themselves."""
    store = Path(of.mount)
    assert store.is_relative_to(folder)
    lock = locked(of)
    csrc = {"bench.c": "int main(void) { return 0; }"}
    plan = buildplan.build_plan(of, lock, Caches(), csrc=csrc)
    steps = {step.name: step for step in plan.steps}
    for path, text in steps["metadata"].files.items():
        (store / path).parent.mkdir(parents=True, exist_ok=True)
        (store / path).write_text(text)
    job = json.loads(steps["views"].build_files["views.json"])
    for views in job["environments"].values():
        for name, view in views.items():
            root = store / "env" / name
            for below in ("bin", "lib"):
                (root / below).mkdir(parents=True)
            patch = spack_worker.view_patch(Spack(str(root)), str(root), view, job["lists"])
            spack_worker.write(root / "env.json", spack_worker.dump(patch.data()))
            spack_worker.write(root / "activate.sh", spack_worker.activation(name, patch))
    spack_worker.write_metadata(str(store))
    return store


def mounted(folder: Path, generation: int, **changes: Any) -> SpackStack:
    """Return a stack whose mount point is a folder of the test, since views are read there."""
    return stack(generation, mount=str(folder / "store"), **changes)


BEFORE = {"PATH": "/usr/bin:/bin", "HOME": "/home/alice", "F90": "f", "PYTHONPATH": "/x"}


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_it_is_read_without_complaint(tmp_path: Path, generation: int) -> None:
    of = mounted(tmp_path, generation)
    found = Reader().read(image_tree(tmp_path, of))
    assert found.complaints == []
    assert (found.name, found.description, found.mount) == (of.name, of.description, of.mount)
    assert set(found.views) == {"default", "run", "modules", "spack"}
    assert found.views["default"]["description"] == "everything"
    assert NAME.match(found.name)
    for view in found.views:
        found.activated(view, BEFORE)
    assert found.complaints == []


def test_the_usual_mount_point_is_a_path_to_it() -> None:
    assert PATH.match(stack(3).mount)


def test_without_modules_and_views(tmp_path: Path) -> None:
    base = mounted(tmp_path, 3)
    bare = tuple(replace(environment, views=()) for environment in base.environments)
    of = replace(base, modules=None, environments=bare, default_view=None, description="")
    found = Reader().read(image_tree(tmp_path, of))
    assert found.complaints == []
    assert set(found.views) == {"spack"}


def test_keys_and_types_that_it_reads(tmp_path: Path) -> None:
    """Those of Stackinator's images; a description that is null would cost all metadata."""
    data = json.loads((image_tree(tmp_path, mounted(tmp_path, 3)) / "meta/env.json").read_text())
    assert {"name", "description", "mount", "default-view", "views", "modules"} <= set(data)
    assert data["default-view"] in data["views"]
    for name, view in data["views"].items():
        assert isinstance(view["root"], str), name
        assert isinstance(view["description"], str), name
        assert view["env"]["version"] == 1
        assert view["env"]["type"] == "augment"
        assert set(view["env"]["values"]) == {"list", "scalar"}
    assert data["views"]["default"]["activate"].endswith("/env/default/activate.sh")
    assert data["modules"] == {"root": f"{tmp_path}/store/modules"}


def test_what_it_hands_to_spack(tmp_path: Path) -> None:
    of = mounted(tmp_path, 3)
    found = Reader().read(image_tree(tmp_path, of)).activated("spack", {})
    commits = {clone.name: clone for clone in clones(of)}
    assert found["UENV_SPACK_CONFIG_PATH"] == f"{of.mount}/config"
    assert found["UENV_SPACK_URL"] == of.spack.url
    assert found["UENV_SPACK_COMMIT"] == commits["spack"].commit
    assert found["UENV_SPACK_PACKAGES_COMMIT"] == commits["builtin"].commit
    assert found["UENV_PACKAGE_REPOS"] == "builtin"
    folder = Path(found["UENV_SPACK_CONFIG_PATH"])
    assert {path.name for path in folder.iterdir()} == {
        "packages.yaml", "repos.yaml", "upstreams.yaml",
    }  # fmt: skip


def test_configure_json(tmp_path: Path) -> None:
    """Nothing of the command line reads it; tools around it look for these keys."""
    of = mounted(tmp_path, 2)
    data = json.loads((image_tree(tmp_path, of) / "meta/configure.json").read_text())
    assert {"host", "cluster", "mount", "spack"} <= set(data)
    assert data["cluster"] == "alps"
    assert data["mount"] == of.mount
    assert data["host"]["machine"] == of.architecture
    assert {"repo", "ref", "commit", "packages"} == set(data["spack"])


def test_three_ways_into_a_view_agree(tmp_path: Path) -> None:
    """The uenv command line, this project's own, and a shell that reads `activate.sh`."""
    of = mounted(tmp_path, 3)
    store = image_tree(tmp_path, of)
    theirs = Reader().read(store).activated("default", BEFORE)
    text = (store / "meta/env.json").read_bytes()
    image = metadata.parse_env_json(text, path="image.squashfs", size=1)
    ours = environment_patch(image, "default", permitted=None, environment=BEFORE).apply(BEFORE)
    assert ours == theirs
    assert sourced(store / "env/default/activate.sh", BEFORE) == theirs
    root = f"{of.mount}/env/default"
    assert theirs["PATH"] == f"/home/alice/bin:{root}/bin:/usr/bin:/bin"
    assert theirs["LD_LIBRARY_PATH"] == f"{root}/lib"
    assert theirs["MPICC"] == f"{root}/bin/mpicc"
    assert theirs["APP_HOME"] == "/user-environment/env/default"
    assert not {"F90", "PYTHONPATH", "SPACK_ENV"} & set(theirs)


def test_a_list_that_a_recipe_unsets_is_gone_for_all(tmp_path: Path) -> None:
    """`set` to an empty list, as Stackinator writes it, would leave an empty variable there."""
    view = SpackView(
        name="default",
        changes=(
            ViewChange(op="unset", variable="PYTHONPATH"),
            ViewChange(op="unset", variable="CPATH"),
            ViewChange(op="set", variable="LIBRARY_PATH", value=""),
        ),
    )
    base = mounted(tmp_path, 3)
    environments = tuple(replace(one, views=(view,)) for one in base.environments)
    store = image_tree(tmp_path, replace(base, environments=environments))
    before = {**BEFORE, "CPATH": "/c", "LIBRARY_PATH": "/l"}
    theirs = Reader().read(store).activated("default", before)
    assert not {"PYTHONPATH", "CPATH", "LIBRARY_PATH"} & set(theirs)
    shell = sourced(store / "env/default/activate.sh", before)
    assert not {"PYTHONPATH", "CPATH", "LIBRARY_PATH"} & set(shell)


def test_values_with_signs_reach_all_three(tmp_path: Path) -> None:
    """What a shell or a format would take for its own, and a variable that is not there."""
    view = SpackView(
        name="default",
        changes=(
            ViewChange(op="set", variable="FLAGS", value="-DX='a b' \"$HOME\" `id` \\ % {}"),
            ViewChange(op="set", variable="MIXED", value="${@HOME@}/x:${@NOT_THERE@}:${HOME}"),
            ViewChange(op="append", variable="PATH", value="${@HOME@}/tools"),
        ),
    )
    base = mounted(tmp_path, 3)
    environments = tuple(replace(one, views=(view,)) for one in base.environments)
    store = image_tree(tmp_path, replace(base, environments=environments))
    theirs = Reader().read(store).activated("default", BEFORE)
    assert theirs["FLAGS"] == "-DX='a b' \"$HOME\" `id` \\ % {}"
    assert theirs["MIXED"] == "/home/alice/x::${HOME}"
    assert theirs["PATH"].endswith(":/bin:/home/alice/tools")
    assert sourced(store / "env/default/activate.sh", BEFORE) == theirs


def sourced(script: Path, environment: dict[str, str]) -> dict[str, str]:
    """Return the environment after a shell has read a file, without the shell's own variables."""
    printed = subprocess.run(
        ["/bin/sh", "-c", f'. "{script}" && /usr/bin/env -0'],
        env=environment,
        capture_output=True,
        check=True,
    ).stdout
    pairs = (entry.partition("=") for entry in os.fsdecode(printed).split("\0") if entry)
    return {name: value for name, _, value in pairs if name not in {"PWD", "OLDPWD", "SHLVL", "_"}}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"description": None}, "no text"),
        ({"env": {"values": {"list": {"PATH": [{"op": "set", "value": "x"}]}, "scalar": {}}}}, ""),
        ({"env": {"values": {"list": {}, "scalar": {"N": 1}}}}, "neither"),
    ],
)
def test_the_reader_does_complain(tmp_path: Path, fault: dict[str, Any], words: str) -> None:
    """Otherwise the tests above would prove nothing."""
    store = image_tree(tmp_path, mounted(tmp_path, 3))
    path = store / "meta/env.json"
    data = json.loads(path.read_text())
    data["views"]["default"] |= fault
    path.write_text(json.dumps(data))
    if words:
        with pytest.raises(TypeError, match=words):
            Reader().read(store)
    else:
        assert Reader().read(store).complaints
