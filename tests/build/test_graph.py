"""Charts of what is built on what, of a bill of materials."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.build import graph

RECIPES = Path(__file__).parents[2] / "recipes"


def bill(needs: dict[str, list[str]], external: tuple[str, ...] = (), tool: str = "") -> str:
    parts = [
        {
            "bom-ref": ref, "name": ref, "version": "1",
            **({"scope": "excluded"} if ref == tool else {}),
            **({"properties": [{"name": "x:external", "value": "/usr"}]} if ref in external else {}),
        }
        for ref in needs
    ]  # fmt: skip
    whole = {"bom-ref": "stack:s", "name": "s", "version": "2"}
    edges = [{"ref": ref, "dependsOn": every} for ref, every in needs.items()]
    edges.append({"ref": "stack:s", "dependsOn": [*needs]})
    return json.dumps(
        {"metadata": {"component": whole}, "components": parts, "dependencies": edges}
    )


DIAMOND = {
    "mpi": ["fabric", "hwloc"],
    "fabric": ["nl"],
    "hwloc": ["nl"],
    "nl": [],
    "cuda": [],
    "eb": [],
}


def test_the_stack_points_to_what_nothing_else_needs_and_an_external_has_no_edges() -> None:
    needs = {**DIAMOND, "mpi": ["fabric", "cuda"], 'a<&"b': []}
    lines = graph.render_dot(bill(needs, external=("cuda",), tool="eb")).splitlines()
    assert '  "stack:s" [label="s 2"];' in lines
    assert '  "cuda" [label="cuda 1", style=dashed];' in lines
    assert '  "a<&\\"b" [label="a<&\\"b 1"];' in lines
    assert not any('"eb"' in line for line in lines)
    assert [line.strip(" ;") for line in lines if "->" in line] == [
        '"stack:s" -> "mpi"', '"stack:s" -> "hwloc"', '"stack:s" -> "a<&\\"b"',
        '"mpi" -> "fabric"', '"fabric" -> "nl"', '"hwloc" -> "nl"',
    ]  # fmt: skip


def test_the_chart_of_a_shipped_recipe(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    recipe = str(RECIPES / "openmpi-lnx.yaml")

    def plan(*words: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as caught:
            cli.main(["plan", recipe, *words])
        return caught.value.code, capsys.readouterr().out

    code, out = plan("--graph", "dot")
    assert code in {0, None}
    assert re.search(r'"easybuild:OpenMPI/[^"]+" -> "easybuild:libfabric/[^"]+";', out)
    file = tmp_path / "chart.dot"
    assert plan("--graph", "dot", "-o", str(file)) == (code, "")
    assert "libfabric 2.1.0" in file.read_text()
    assert plan("--graph", "dot", "-o", str(file))[0] == code  # its own kind is replaced
    assert plan("-o", str(file))[0] == 2
    assert plan("--graph", "dot", "--json")[0] == 2
