"""Stackinator recipes and clusters as texts, for tests that change one thing at a time."""

from __future__ import annotations

import hashlib
from pathlib import Path

from stackproof.build.engines.spack.stack import SpackStack
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig, read_cluster
from stackproof.build.engines.spack.stackinator.config import read_config
from stackproof.build.engines.spack.stackinator.findings import FindingsList, Folder
from stackproof.build.engines.spack.stackinator.reader import read_recipe
from stackproof.build.plan import Copy

DOCUMENTS = Path(__file__).parent / "documents" / "stackinator"
CLUSTERS = {1: "fjord-spack-0.23", 2: "fjord", 3: "fjord"}

_CONFIG = """\
name: small
spack:
  repo: https://example.org/spack.git
  commit: {commit}
{packages}version: {version}
"""
_PACKAGES = """\
  packages:
    repo: https://example.org/packages.git
    commit: develop
"""
_SINCE_2 = {
    "compilers.yaml": 'gcc:\n  version: "13"\n',
    "environments.yaml": "tools:\n  compiler: [gcc]\n  specs: [cmake]\n  views:\n    all:\n",
}
SMALL: dict[int, dict[str, str]] = {
    1: {
        "config.yaml": _CONFIG.format(commit="releases/v0.23", packages="", version=1),
        "compilers.yaml": "bootstrap:\n  spec: gcc@12.3\ngcc:\n  specs: [gcc@12.3]\n",
        "environments.yaml": "tools:\n  compiler:\n  - toolchain: gcc\n    spec: gcc@12.3\n"
        "  specs: [cmake]\n  views:\n    all:\n",
    },
    2: {
        "config.yaml": _CONFIG.format(commit="releases/v1.0", packages=_PACKAGES, version=2),
        **_SINCE_2,
    },
    3: {
        "config.yaml": _CONFIG.format(commit="releases/v1.2", packages=_PACKAGES, version=3),
        **_SINCE_2,
    },
}


def folder(path: str, texts: dict[str, str | bytes], others: tuple[str, ...] = ()) -> Folder:
    """Return a folder of texts; `others` are paths of files whose content is their path."""
    content = {name: t.encode() if isinstance(t, str) else t for name, t in texts.items()}
    every = {**content, **{name: name.encode() for name in others}}
    files = {name: Copy(sha256=hashlib.sha256(t).hexdigest()) for name, t in every.items()}
    return Folder(path=path, files=files, texts=content)


def cluster_folder(version: int) -> Folder:
    """Return the folder of a cluster for a version of the recipe language."""
    path = DOCUMENTS / "clusters" / CLUSTERS[version]
    return folder("fjord", {file.name: file.read_bytes() for file in path.glob("*.yaml")})


def cluster(version: int = 2) -> ClusterConfig:
    """Return a cluster without problems, without packages of its own."""
    findings = FindingsList()
    found = read_cluster(cluster_folder(version), (), version, findings)
    assert findings.problems == []
    return found


def understand(
    texts: dict[str, str | bytes],
    *,
    version: int = 2,
    others: tuple[str, ...] = (),
    on: ClusterConfig | None = None,
) -> tuple[SpackStack | None, FindingsList]:
    """Return the stack of the small recipe of a version with some files in the place of its own."""
    findings = FindingsList()
    recipe = folder("recipe", {**SMALL[version], **texts}, others)
    config = read_config(recipe, findings)
    if config is None:
        return None, findings
    place = on or cluster(config.language.version)
    return read_recipe(recipe, config, place, "x86_64", findings), findings


def stack_of(texts: dict[str, str | bytes], **options: object) -> SpackStack:
    """Return the stack of a recipe that has no problem."""
    stack, findings = understand(texts, **options)  # type: ignore[arg-type]
    assert findings.problems == []
    assert stack is not None
    return stack
