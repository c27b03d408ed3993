"""What each transport sets for which versions, fabric and memory; each row with its source."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from stackproof.core.errors import Reason, StackproofError
from stackproof.mpi import transports
from stackproof.mpi.transports import (
    Libfabric,
    Memory,
    Setup,
    device,
    libfabric_of,
    without_by_bill,
)
from stackproof.mpi.transports.profile import INFINIBAND, NEWEST_LIBFABRIC, SLINGSHOT
from stackproof.results.case import Placement, Rank
from stackproof.site.model import FabricType

_HERE = Path(__file__).parents[1] / "golden"
_FILE = _HERE / "transport-profiles.yaml"
_ROWS = yaml.safe_load(_FILE.read_text())
_PLACES = {
    "one-node": Placement(name="one-node", ranks=(Rank(node="a"), Rank(node="a"))),
    "two-nodes": Placement(
        name="two-nodes", ranks=(Rank(node="a"), Rank(node="b")), interface="hsn0"
    ),
}


def _setup(row: dict[str, Any]) -> Setup:
    family, _, version = str(row["mpi"]).partition("@")
    libfabric, _, providers = str(row.get("libfabric", "")).partition(" ")
    return Setup(
        family=family,
        version=version,
        placement=_PLACES[str(row.get("placement", "two-nodes"))],
        libfabric=Libfabric(
            version=libfabric, providers=frozenset(providers.split(",")) if providers else
            frozenset(), lacks=frozenset(row.get("lacks", ())),
        ),
        own_libfabric=str(row.get("own-libfabric", "")),
        fabric=FabricType(str(row["fabric"])).value if "fabric" in row else "",
        nics=int(str(row.get("nics", 0))),
        memory=Memory(str(row.get("memory", "host"))),
        without=frozenset(Memory(str(gpu)) for gpu in row.get("without", ())),
        xpmem=row.get("xpmem"),
        launcher=str(row.get("launcher", "srun")),
        in_slurm_job=bool(row.get("in-slurm-job")),
    )  # fmt: skip


@pytest.mark.parametrize("number", range(len(_ROWS)))
def test_a_row(number: int) -> None:
    row = _ROWS[number]
    assert row["source"]
    if "unsupported" in row:
        with pytest.raises(StackproofError) as caught:
            transports.profile_of(row["transport"], _setup(row))
        problem = caught.value.problems[0]
        assert problem.reason is Reason.UNSUPPORTED
        assert row["unsupported"] in f"{problem.message} {problem.hint}"
        return
    profile = transports.profile_of(row["transport"], _setup(row))
    assert dict(profile.env.set) == {name: str(value) for name, value in row["sets"].items()}
    assert profile.expect == row.get("expect", "")
    assert bool(profile.notes) is row.get("noted", False)


def test_the_newest_release_is_that_of_the_knowledge() -> None:
    shipped = _HERE.parents[1] / "knowledge" / "sources.yaml"
    newest = yaml.safe_load(shipped.read_text())["newest"]["libfabric"]
    assert tuple(map(int, newest.split(".")[:2])) == NEWEST_LIBFABRIC


def test_the_names_of_fabrics_are_those_of_sites() -> None:
    assert {INFINIBAND, SLINGSHOT} < {kind.value for kind in FabricType}


def _bill(*parts: Mapping[str, object]) -> str:
    return json.dumps({"components": list(parts)})


_SPACK: Mapping[str, object] = {
    "name": "libfabric", "version": "2.1.0",
    "properties": [{"name": "spack:variant:fabrics", "value": "lnx,rxm,shm,tcp"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("bill", "version", "providers"),
    [
        (_bill(_SPACK), "2.1.0", {"lnx", "rxm", "shm", "tcp"}),
        (_bill({"name": "libfabric", "version": "1.22.0"}), "1.22.0", set()),
        (_bill({**_SPACK, "scope": "excluded"}), "", set()),
        (_bill(_SPACK, {"name": "libfabric", "version": "1.22.0"}), "", set()),
        (_bill({"name": "mpich", "version": "5.0.2"}), "", set()),
        ("", "", set()),
        ("[]", "", set()),
        ('{"components": [1]}', "", set()),
    ],
)
def test_a_bill_names_libfabric(bill: str, version: str, providers: set[str]) -> None:
    assert libfabric_of(bill) == Libfabric(version=version, providers=frozenset(providers))


@pytest.mark.parametrize(
    ("more", "without"),
    [
        ({"cuda": "false", "rocm": "true"}, {Memory.CUDA}),
        ({"cuda": "true", "rocm": "false"}, {Memory.ROCM}),
        ({}, set()),
    ],
)
@pytest.mark.parametrize("transport", ["cxi", "matched"])
def test_memory_of_a_gpu_that_libfabric_was_built_without(
    more: Mapping[str, str], without: set[Memory], transport: str
) -> None:
    named = [{"name": f"spack:variant:{name}", "value": value} for name, value in more.items()]
    fabrics = {"name": "spack:variant:fabrics", "value": "cxi,rxm,tcp"}
    part = {"name": "libfabric", "version": "2.2.0", "properties": [fabrics, *named]}
    found = libfabric_of(_bill(part))
    assert found.without == without
    for memory in Memory:
        setup = Setup(
            family="mpich", version="4.3.2", libfabric=found, fabric="slingshot-11", memory=memory,
            placement=Placement(name="job", ranks=(Rank(node="a"),)),
        )  # fmt: skip
        if memory in without:
            with pytest.raises(StackproofError, match=f"memory of a GPU .{memory.value}") as error:
                transports.get(transport).profile(setup)
            assert error.value.reason is Reason.UNSUPPORTED
        else:
            transports.get(transport).profile(setup)
    external = {"name": "spack:external", "value": "/opt/cray/libfabric/1.22.0"}
    outside = {**part, "properties": [fabrics, *named, external]}
    assert libfabric_of(_bill(outside)).without == set()  # what the machine's own has, nobody said


def test_no_row_stands_twice() -> None:
    keys = [
        json.dumps({k: v for k, v in row.items() if k not in {"sets", "source", "expect"}})
        for row in _ROWS
    ]
    assert len(set(keys)) == len(keys), os.linesep.join(keys)


def _wheel(name: str) -> dict[str, object]:
    return {"name": name, "version": "5.0", "purl": f"pkg:pypi/{name}@5.0"}


def _variants(name: str, **values: str) -> dict[str, object]:
    found = [{"name": f"spack:variant:{key}", "value": value} for key, value in values.items()]
    return {"name": name, "version": "5.0", "properties": found}


@pytest.mark.parametrize(
    ("family", "bill", "without"),
    [
        ("mpich", _bill(_wheel("mpich")), {Memory.CUDA, Memory.ROCM}),
        ("intel-mpi", _bill(_wheel("impi-rt")), {Memory.ROCM}),
        ("mpich", _bill(_variants("mpich", cuda="true", rocm="false")), {Memory.ROCM}),
        ("mpich", _bill(_variants("mpich", cuda="false"), _variants("gcc", rocm="false")),
         {Memory.CUDA}),
        ("openmpi", _bill(_variants("openmpi", cuda="false"), _variants("ucx", cuda="true")),
         set()),
        ("openmpi", _bill(_variants("openmpi")), set()),
        ("openmpi", _bill(_variants("mpich", cuda="false")), set()),
        ("openmpi", "[]", set()),
        ("openmpi", '{"components": [{}]}', set()),
    ],
)  # fmt: skip
def test_gpus_that_an_mpi_was_built_without(family: str, bill: str, without: set[Memory]) -> None:
    assert without_by_bill(bill, family) == without


@pytest.mark.parametrize("family", ["mpich", "cray-mpich", "intel-mpi", "openmpi"])
def test_buffers_of_the_host_need_nothing(family: str) -> None:
    setup = Setup(
        family=family, version="9999", placement=_PLACES["two-nodes"],
        libfabric=Libfabric(version="2.6.0"), without=frozenset(Memory) - {Memory.HOST},
    )  # fmt: skip
    device.require(setup)
    assert device.settings(setup) == {}


@pytest.mark.parametrize("built", [True, False])
def test_gdrcopy_is_asked_for_where_libfabric_may_have_it(built: bool) -> None:
    found = libfabric_of(_bill({**_variants("libfabric", gdrcopy=str(built).lower()),
                                "version": "2.2.0"}))  # fmt: skip
    assert found.gdrcopy is built
    setup = Setup(family="openmpi", version="5.0.9", placement=_PLACES["two-nodes"],
                  libfabric=found, memory=Memory.CUDA)  # fmt: skip
    env = transports.profile_of("auto", setup).env.set
    assert ("FI_HMEM_CUDA_USE_GDRCOPY" in env) is built
