"""The catalogue that is shipped, and what its reader refuses."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import pytest
import yaml

from stackproof.build.engines.easybuild.components import FLAGS, Catalogue, parse_catalogue
from stackproof.build.engines.easybuild.effects import builder
from stackproof.core import document as documents
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.versions import versions

CATALOGUE = builder.load()
PLACES = {"provenance": {"news": {"title": "News", "url": "https://example.org/news"}}}
SOURCE = {
    "origin": "upstream",
    "file": "one-1.0.tar.gz",
    "address": "https://example.org/one-1.0.tar.gz",
    "digests": {"ab" * 32: ["news"]},
}
ONE = {
    "name": "one",
    "title": "The first",
    "homepage": "https://example.org/",
    "licence": "MIT",
    "build": {"easyblock": "ConfigureMake"},
    "releases": [{"version": "1.0", "sources": [SOURCE]}],
}


def made(*components: Mapping[str, Any], places: Mapping[str, Any] = PLACES) -> Catalogue:
    def written(name: str, data: Mapping[str, Any]) -> documents.Document:
        return documents.parse(yaml.safe_dump(dict(data)), file=name)

    files = [written(f"{number}.yaml", data) for number, data in enumerate(components)]
    return parse_catalogue(written("provenance.yaml", places), files)


def changed(*path: str | int, value: Any) -> dict[str, Any]:
    """Return the small component with one value changed; None takes it away."""
    data = copy.deepcopy(ONE)
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


def test_the_small_one_is_read() -> None:
    (component,) = made(ONE).components.values()
    (source,) = component.releases[0].sources
    assert source.file.accepted[0].provenance == "News"
    assert component.root == "EBROOTONE"


IN_SOURCE = ("releases", 0, "sources", 0)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (changed("licence", value=None), Reason.MISSING_KEY),
        (changed(*IN_SOURCE, "digests", value=None), Reason.MISSING_KEY),
        (changed(*IN_SOURCE, "digests", value={}), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "digests", value={"abc": ["news"]}), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "digests", value={"ab" * 32: []}), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "digests", value={"ab" * 32: ["me"]}), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "address", value=None), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "address", value="http://example.org/x"), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "file", value="../one.tar"), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "commit", value="main"), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "commit", value="0" * 40), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "origin", value="debian-trixie"), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "origin", value="elsewhere"), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "tools", value=["autoconf"]), Reason.INVALID_VALUE),
        (changed(*IN_SOURCE, "package", value={"name": "one", "version": "1.0-1"}),
         Reason.INVALID_VALUE),
        (changed("releases", 0, "version", value="latest"), Reason.INVALID_VALUE),
        (changed("releases", value=ONE["releases"] * 2), Reason.INVALID_VALUE),
        (changed("releases", value=None), Reason.INVALID_VALUE),
        (changed("needs", value=[{"component": "two"}]), Reason.INVALID_VALUE),
        (changed("needs", value=[{"component": "one", "versions": "new"}]), Reason.INVALID_VALUE),
        (changed("build", value={"options": ["--with={two}"]}), Reason.INVALID_VALUE),
        (changed("build", value={"options": ["--with=%(x)s"]}), Reason.INVALID_VALUE),
        (changed("build", value={"optionz": []}), Reason.UNKNOWN_KEY),
        (changed("name", value="One!"), Reason.INVALID_VALUE),
    ],
)  # fmt: skip
def test_what_is_refused(data: dict[str, Any], expected: Reason) -> None:
    with pytest.raises(StackproofError) as caught:
        made(data)
    assert caught.value.reason is expected
    assert all(problem.where for problem in caught.value.problems)


def test_every_file_is_told_of_at_once() -> None:
    with pytest.raises(StackproofError) as caught:
        made(changed("licence", value=None), changed("title", value=None), ONE)
    assert {str(problem.where).partition(":")[0] for problem in caught.value.problems} == {
        "0.yaml",
        "1.yaml",
    }


def test_two_of_one_name_and_a_place_that_states_nothing() -> None:
    idle = {"provenance": {**PLACES["provenance"], "idle": PLACES["provenance"]["news"]}}
    with pytest.raises(StackproofError) as caught:
        made(ONE, ONE, places=idle)
    assert len(caught.value.problems) == 3


# --- what is shipped ------------------------------------------------------------------------


def test_the_chain_is_there() -> None:
    assert set(CATALOGUE.components) >= {
        "cassini-headers", "cxi-driver", "hwloc", "json-c", "libconfig", "libcxi", "libevent",
        "libfabric", "libfuse", "libnl", "libuv", "lm-sensors", "mpich", "numactl", "openmpi",
        "osu", "pmix", "prrte", "xpmem",
    }  # fmt: skip
    assert CATALOGUE.conflicts


def test_what_a_request_switches_on_is_what_the_schema_knows() -> None:
    when = documents.schema("component")["properties"]["needs"]["items"]["properties"]["when"]
    known = when["properties"]["flag"]["enum"]
    assert sorted(known) == sorted([*FLAGS, *(f"no-{name}" for name in FLAGS)])


def test_files_are_named_as_components() -> None:
    folder = resources.files("stackproof.build.engines.easybuild") / "components"
    found = {entry.name.removesuffix(".yaml") for entry in folder.iterdir()} - {"provenance"}
    assert found == set(CATALOGUE.components)


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
