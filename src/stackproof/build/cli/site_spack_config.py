"""`stackproof site spack-config`: what a machine offers, as a cluster configuration for Spack."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from stackproof.build.engines.spack.effects import machine
from stackproof.build.engines.spack.stackinator import defaults
from stackproof.build.engines.spack.stackinator.facts import cluster_of_site
from stackproof.core.effects import files
from stackproof.core.errors import Reason, fail
from stackproof.core.value import replace
from stackproof.site.effects import probe
from stackproof.site.options import SpackConfigOptions

_COMPILERS = "gcc: the site does not state its compilers; on the machine itself leave --site out"


def run(asked: SpackConfigOptions) -> int:
    """Write or print a cluster configuration for Spack stacks, and say what is missing in it."""
    site = probe.load_site(asked.site or probe.LOCAL)
    facts, left_out = machine.facts_of(site)
    if site.name != probe.LOCAL:  # the compilers that were found are this machine's
        facts, left_out = replace(facts, compilers=()), (*left_out, _COMPILERS)
    cluster, own = defaults.default_cluster_config(facts), cluster_of_site(site)
    packages, mpis = {**cluster.packages, **own.packages}, {**cluster.mpis, **own.mpis}
    cluster = replace(cluster, packages=packages, mpis=mpis)
    heads = defaults.comments(facts)
    texts = {
        name: "".join(f"# {line}\n" for line in heads[name])
        + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
        for name, data in defaults.cluster_documents(cluster).items()
    }
    if asked.output is None:
        print("".join(f"--- # {name}\n{text}" for name, text in texts.items()), end="")
    else:
        _write_new(Path(asked.output), texts)
    for line in (line for line in left_out if line.partition(":")[0] not in packages):
        print(f"note: left out: {line}", file=sys.stderr)
    return 0


def _write_new(folder: Path, texts: dict[str, str]) -> None:
    """Write files that are not there yet; with one that is, none is written."""
    taken = [name for name in texts if (folder / name).exists()]
    if taken:
        raise fail(
            Reason.USAGE,
            f"`{folder}` has {', '.join(taken)} already",
            hint="name another folder, or remove them",
        )
    for name, text in texts.items():
        files.write(folder / name, text)
    print(f"{folder}: {', '.join(texts)}", file=sys.stderr)
