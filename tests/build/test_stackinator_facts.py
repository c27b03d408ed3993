"""What a site's file tells the conditions of recipes."""

from __future__ import annotations

import pytest

from stackproof.build.engines.spack.stackinator.facts import facts_of_site
from stackproof.site.model import from_document

SOURCES = {"sources": {"own": {"title": "here", "kind": "file", "date": "2026"}}}


def facts(*partitions: dict[str, object]) -> dict[str, str]:
    parts = {f"p{i}": {"architecture": "x86_64", **p} for i, p in enumerate(partitions)}
    data = {"name": "there", "partitions": parts, **SOURCES, "facts": {"partitions": "own"}}
    return facts_of_site(from_document(data, file="there.yaml"))


@pytest.mark.parametrize(
    ("partitions", "gpu", "architecture"),
    [
        (({"gpu": "NVIDIA A100"},), "cuda", "80"),
        (({"gpu": "AMD Instinct MI250X", "gpus": 4},), "rocm", "gfx90a"),
        (({"gpus": 0},), "none", None),
        (({},), None, None),
        (({"gpus": 0}, {}), None, None),
        (({"gpus": 0}, {"gpu": "NVIDIA A100"}), None, None),
    ],
)
def test_gpus(partitions, gpu, architecture):
    found = facts(*partitions)
    assert (found.get("gpu"), found.get("gpu-architecture")) == (gpu, architecture)
