"""Charts of what is built on what, of a bill of materials."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from stackproof import cli
from stackproof.build import graph
from stackproof.build.graph import Graph

RECIPES = Path(__file__).parents[2] / "recipes"
SVG = "{http://www.w3.org/2000/svg}"


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


def test_the_stack_points_to_what_nothing_else_needs() -> None:
    made = graph.of_bill(bill(DIAMOND, external=("cuda",), tool="eb"))
    assert made.labels["stack:s"] == "s 2"
    assert made.needs["stack:s"] == ("mpi",)
    assert made.outside == {"cuda"}
    assert "eb" not in made.labels


def test_an_external_has_no_edges() -> None:
    made = graph.of_bill(bill({**DIAMOND, "mpi": ["fabric", "cuda"]}, external=("cuda",)))
    assert all("cuda" not in every for every in made.needs.values())
    assert not any(
        '"cuda" ->' in line or '-> "cuda"' in line for line in graph.render_dot(made).splitlines()
    )
    assert '"cuda" [label="cuda 1", style=dashed];' in graph.render_dot(made)


def test_a_layer_is_below_all_that_need_it() -> None:
    made = graph.of_bill(bill(DIAMOND, external=("cuda",), tool="eb"))
    rows = graph.layers(made)
    assert rows[0] == ("stack:s",)
    assert rows[-1] == ("cuda",)
    row = {ref: index for index, every in enumerate(rows) for ref in every}
    assert sorted(row) == sorted(made.labels)
    assert all(row[ref] < row[below] for ref, every in made.needs.items() for below in every)


def test_a_picture_has_every_part_once_inside_of_its_frame() -> None:
    odd = bill({'a<&"b': [], "c": ['a<&"b']})
    made = graph.of_bill(odd)
    picture = ET.fromstring(graph.render_svg(made))
    assert sorted(one.text or "" for one in picture.iter(f"{SVG}text")) == sorted(
        made.labels.values()
    )
    assert len([*picture.iter(f"{SVG}path")]) == sum(map(len, made.needs.values()))
    width, height = float(picture.get("width", 0)), float(picture.get("height", 0))
    boxes = [
        [float(box.get(key, -1)) for key in ("x", "y", "width", "height")]
        for box in picture.iter(f"{SVG}rect")
    ]
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    for index, (x, y, w, h) in enumerate(boxes):
        for u, v, _, _ in boxes[index + 1 :]:
            assert v >= y + h or u >= x + w or v + h <= y or u < x
    assert '"a<&\\"b 1"' in graph.render_dot(made)


def test_a_stack_of_nothing_else() -> None:
    only = Graph(labels={"s": "s 1"})
    assert graph.layers(only) == (("s",),)
    assert ET.fromstring(graph.render_svg(only)).find(f"{SVG}rect") is not None


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
    file = tmp_path / "chart.svg"
    assert plan("--graph", "svg", "-o", str(file)) == (code, "")
    assert "libfabric 2.1.0" in file.read_text()
    assert plan("--graph", "svg", "-o", str(file))[0] == code  # its own kind is replaced
    assert plan("-o", str(file))[0] == 2
    assert plan("--graph", "dot", "--json")[0] == 2
