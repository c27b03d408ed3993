"""What joins the nodes is seen by the NICs, kept with the results, and on a report's first screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from reportsamples import comparison_of
from stackproof.bench.effects import planning
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.core.value import replace
from stackproof.mpi.effects import fabric
from stackproof.report.summary import list_facts

HERE = LaunchNodes(nodes={"nid1": (0, 1)})


def machine(folder: Path, monkeypatch: pytest.MonkeyPatch, *, cxi: int = 0, link: str = "") -> None:
    for number in range(cxi):
        (folder / "cxi" / f"cxi{number}").mkdir(parents=True)
    if link:
        port = folder / "infiniband" / "mlx5_0" / "ports" / "1"
        port.mkdir(parents=True)
        (port / "link_layer").write_text(f"{link}\n")
    monkeypatch.setattr(fabric, "CXI", str(folder / "cxi"))
    monkeypatch.setattr(fabric, "LINKS", str(folder / "infiniband"))


@pytest.mark.parametrize(
    ("cxi", "link", "said", "shown"),
    [
        (4, "", "slingshot-11", "Slingshot-11"),
        (1, "InfiniBand", "slingshot-11", "Slingshot-11"),
        (0, "InfiniBand", "infiniband", "InfiniBand"),
        (0, "Ethernet", None, None),
        (0, "", None, None),
    ],
)
def test_a_bench_keeps_the_fabric_and_the_first_screen_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cxi: int, link: str, said: str | None,
    shown: str | None,
) -> None:  # fmt: skip
    machine(tmp_path, monkeypatch, cxi=cxi, link=link)
    host = planning.facts_of(HERE)
    assert host.get("fabric") == said
    made = comparison_of()
    facts = str(list_facts(replace(made, spec=replace(made.spec, host=host))))
    assert all((name in facts) == (name == shown) for name in ("Slingshot-11", "InfiniBand"))


def test_nodes_of_one_machine_have_none_of_its_nics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(tmp_path, monkeypatch, cxi=1)

    class Namespaces(LaunchNodes):
        one_machine = True

    assert "fabric" not in planning.facts_of(Namespaces(nodes={}))
