"""The catalogue that is shipped: read whole, and nothing missing in it that a build needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
import yaml

from stackproof.build.engines.easybuild.components import (
    FLAGS,
    PREFIX,
    PROVIDERS,
    When,
    parse_catalogue,
)
from stackproof.build.engines.easybuild.effects import builder
from stackproof.core.versions import versions

CATALOGUE = builder.load()
FOLDER = resources.files("stackproof.build.engines.easybuild") / "components"
RAW = {
    entry.name.removesuffix(".yaml"): yaml.safe_load(entry.read_text())
    for entry in FOLDER.iterdir()
}
PEOPLE = RAW.pop("provenance")
PLAIN = {
    "address": r"https://[^%\s]+",
    "homepage": r"https://[^%\s]+",
    "commit": r"[0-9a-f]{40}",
    "origin": r"upstream|debian-[a-z]+",
    "version": r"[0-9][0-9A-Za-z.:+~-]*",
    "name": r"[a-z0-9][a-z0-9+.-]*",
    "software": r"[A-Za-z][A-Za-z0-9-]*",
    "licence": r"[^%]+",
    "title": r"[^%]+",
    "gpu": r"none|cuda|rocm|no-cuda",
    "group": r"lib|mpi|tools|perf|system",
    "flag": "|".join((*FLAGS, *(f"no-{name}" for name in FLAGS))),
}
"""What the texts at some keys must be, wherever they stand."""


def texts(data: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text of a file, with the key that it stands at."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from texts(value, name)
    elif isinstance(data, list):
        for value in data:
            yield from texts(value, key)
    elif isinstance(data, str):
        yield key, data


def test_files_are_named_as_components() -> None:
    assert {name: data["name"] for name, data in RAW.items()} == {name: name for name in RAW}
    assert RAW.keys() == CATALOGUE.components.keys()


@pytest.mark.parametrize("name", RAW)
def test_texts_are_what_easyconfigs_and_shells_can_hold(name: str) -> None:
    for key, text in texts(RAW[name]):
        assert re.fullmatch(PLAIN.get(key, r"[^%\x00]*"), text), (key, text)
        assert " ".join(text.split()) == text
    assert {*RAW[name]} >= {"name", "title", "homepage", "licence"}


@pytest.mark.parametrize("name", RAW)
def test_every_release_has_a_source_that_can_be_fetched_and_checked(name: str) -> None:
    releases = RAW[name].get("releases", ())
    assert releases or RAW[name]["hint"]
    assert len({release["version"] for release in releases}) == len(releases)
    for source in (source for release in releases for source in release["sources"]):
        assert ("address" in source) is not ("package" in source)
        assert ("package" in source) is source["origin"].startswith("debian-")
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+~-]*", source["file"])
        assert "commit" not in source or source["file"].endswith(".tar")
        assert "tools" not in source or source["prepare"]
        assert source["digests"]
        assert all(who for who in source["digests"].values())


@pytest.mark.parametrize("name", RAW)
def test_what_is_named_is_there(name: str) -> None:
    data, component = RAW[name], CATALOGUE.components[name]
    needs = {need.component for need in component.needs}
    assert needs <= RAW.keys()
    assert not {"build", "builds"} <= data.keys()
    placed = json.dumps([data.get("build"), data.get("builds")])
    named = set(re.findall(r"\{([a-z0-9-]+)\}", placed)) - {PREFIX, PROVIDERS, "provider"}
    assert named <= needs
    whens = [part.when for part in (*component.needs, *component.left_out, *component.builds)]
    assert all(isinstance(when, When) and when.versions.known for when in whens)


def test_everybody_who_states_a_digest_is_known() -> None:
    stated = {
        who
        for data in RAW.values()
        for release in data.get("releases", ())
        for source in release["sources"]
        for named in source["digests"].values()
        for who in named
    }
    assert stated == PEOPLE["provenance"].keys()
    assert all({*one} == {"title", "url"} for one in PEOPLE["provenance"].values())


@pytest.mark.parametrize("wrong", [{"buildd": {}}, {"build": {"optionz": []}}, {"by-gpu": "yes"}])
def test_what_is_no_key_is_not_passed_over(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown field|Expected `bool`"):
        parse_catalogue(PEOPLE, [{**RAW["hwloc"], **wrong}])


def test_the_chain_is_there() -> None:
    assert set(CATALOGUE.components) >= {
        "cassini-headers", "cxi-driver", "hwloc", "json-c", "libconfig", "libcxi", "libevent",
        "libfabric", "libfuse", "libnl", "libuv", "lm-sensors", "mpich", "numactl", "openmpi",
        "osu", "pmix", "prrte", "xpmem",
    }  # fmt: skip
    assert CATALOGUE.conflicts


@pytest.mark.parametrize("name", CATALOGUE.components)
def test_versions_can_be_compared(name: str) -> None:
    for release in CATALOGUE.components[name].releases:
        assert versions(f"={release.version}").known
    for need in CATALOGUE.components[name].needs:
        assert need.versions.known


@pytest.mark.parametrize("name", CATALOGUE.components)
def test_no_two_releases_are_one_file(name: str) -> None:
    """A digest or a commit that was copied from one release to the next would be seen here."""
    seen: dict[str, str] = {}
    for release in CATALOGUE.components[name].releases:
        for source in release.sources:
            for digest in source.file.accepted:
                assert re.fullmatch("[0-9a-f]{64}", digest.sha256)
                assert seen.setdefault(digest.sha256, release.version) == release.version
            assert release.version in source.file.filename
            if source.file.address and not source.file.commit:
                forms = {release.version, release.version.replace(".", "-")}
                assert any(form in source.file.address for form in forms)


@pytest.mark.parametrize(
    ("name", "variable"),
    [("cassini-headers", "EBROOTCASSINIMINHEADERS"), ("openmpi", "EBROOTOPENMPI")],
)
def test_variables_of_easybuild(name: str, variable: str) -> None:
    assert CATALOGUE.components[name].root == variable
