"""Slurm's configuration as a whole, beside what was read over once by a person.

After a change that is meant: python tests/cluster/test_slurm_conf_golden.py, and read the difference.
"""

from __future__ import annotations

from pathlib import Path

from stackproof.cluster.effects import slurm
from stackproof.cluster.slurm import SlurmSpec, parse_spank

GOLDEN = Path(__file__).parents[1] / "golden" / "slurm-conf.txt"


def shown() -> str:
    spec = SlurmSpec(
        spank=(parse_spank("/opt/image.so=allow=/user-environment verbose"),),
        plugstack="/somewhere/plugstack.conf",
        cpus=2,
        settings=("KillWait=30", "DebugFlags=SPANK", "PartitionName=debug Nodes=node1"),
    )
    files = slurm.conf_files(3, spec, version="22.05.8", logs="/run/logs")
    return "".join(f"==> {name}\n{text}" for name, text in files.items())


def test_the_configuration_is_the_one_that_was_read_over():
    assert shown() == GOLDEN.read_text()


if __name__ == "__main__":
    GOLDEN.write_text(shown())
