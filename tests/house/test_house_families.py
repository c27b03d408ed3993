"""The rule of the house on families: what an MPI is called stands in its own folder.

Rooms ask `stackproof.mpi.families` for what they need to know of an MPI, so that a new one is its
folder and a line in the registry. The places that may name one are listed with their reasons.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from housefiles import MODULES, PACKAGE, ROOT, tree
from stackproof.core import document
from stackproof.knowledge.evidence import FACTS
from stackproof.mpi import families, transports
from stackproof.recipe import conditions

FOLDER = PACKAGE / "mpi" / "families"
NAMES = frozenset(
    name
    for family in families.REGISTRY.values()
    for name in (family.name, family.easybuild, *family.spack, *family.distributions)
    if name
)
"""What families are called here and elsewhere."""

LEFT: dict[str, int] = {}
"""How many names still stand in each file; a number may only fall."""


NAMED = {
    "build/engines/spack/stackinator/defaults.py": "packages of a cluster's first configuration",
    "build/engines/spack/stackinator/network.py": "the MPIs of version 1 of Stackinator's language",
    "build/engines/vendor/selection.py": "what HPE's packages are for, of which MPICH is one",
    "inject/eessi.py": "folders of Open MPI's plug-ins, carried to where EESSI looks",
    "inject/replacement.py": "folders of plug-ins, of libraries as well as of MPIs",
    "inject/site_hook.py": "EasyBuild's modules of toolchains, which hooks are called for",
    "knowledge/evidence.py": "below the families; compared with them here",
    "mpi/abi.py": "names of ABIs, not of families",
    "site/capture.py": "below the families: where HPE installs its MPI",
    "site/missing.py": "as in capture.py",
}
"""Files and folders that may name an MPI, and why."""


def literals(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield node.value


def is_named(path: Path) -> bool:
    place = path.relative_to(PACKAGE)
    return bool({place.as_posix(), place.parent.as_posix()} & NAMED.keys())


def test_no_room_names_an_mpi():
    named = {
        path.relative_to(PACKAGE).as_posix(): len([*literals(path)])
        for path in MODULES
        if FOLDER not in path.parents and not is_named(path)
    }
    assert {place: count for place, count in named.items() if count} == LEFT


def test_the_rule_sees_names():
    assert [*literals(FOLDER / "openmpi" / "__init__.py")]


def test_the_named_places_are_few_and_still_name_one():
    assert len(NAMED) <= 10
    for place in NAMED:
        path = PACKAGE / place
        files = path.glob("*.py") if path.is_dir() else [path]
        assert any([*literals(file)] for file in files), place


def enums(node: object, key: str) -> Iterator[list[str]]:
    """Yield the choices that a schema has for a key."""
    if isinstance(node, dict):
        found = node.get("properties", {}).get(key, {})
        yield from (part["enum"] for part in (found, found.get("items", {})) if "enum" in part)
        yield from (choices for inner in node.values() for choices in enums(inner, key))


def test_schemas_and_facts_list_the_families():
    everyone = families.REGISTRY.values()
    wheels = [family.name for family in everyone if family.distributions]
    vendors = [family.name for family in everyone if family.vendor]
    chains = [family.name for family in everyone if family.chain]
    assert [*enums(document.schema("recipe"), "family")] == [[*wheels, *vendors], wheels]
    assert [*enums(document.schema("site"), "family")] == [[family.name for family in everyone]]
    assert [*enums(document.schema("easybuild-recipe"), "family")] == [chains]
    assert set(FACTS["mpi"].values) == families.REGISTRY.keys()
    assert set(conditions.FACTS["vendor-mpi"]) == {*families.REGISTRY, "none"}


def choices(node: object) -> Iterator[list[str]]:
    """Yield every list of choices in a schema that has a transport."""
    for inner in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from choices(inner)
    if isinstance(node, dict) and "shm" in node.get("enum", ()):
        yield node["enum"]


@pytest.mark.parametrize("kind", ["recipe", "easybuild-recipe", "bench"])
def test_schemas_list_the_transports(kind):
    every = list(transports.REGISTRY)
    found = [*choices(document.schema(kind))]
    assert found
    assert all(names in (every, [name for name in every if name != "auto"]) for names in found)


@pytest.mark.parametrize("name", list(transports.REGISTRY))
def test_the_page_says_what_can_be_forced(name):
    page = (ROOT / "docs" / "explanation" / "transports.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
    forced = {
        f"{family.title.removeprefix('HPE ')} {'.'.join(map(str, family.paths[name].since))}"
        for family in families.REGISTRY.values()
        if name in family.paths
    }
    assert [text for text in forced if not re.search(rf"{re.escape(text)}(?![.\d]*\d)", row)] == []
