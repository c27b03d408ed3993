"""Where a report draws thresholds."""

from __future__ import annotations

import pytest

from stackproof.bench.import_outputs import ImportSetup, OutputFile, import_outputs
from stackproof.compare.compare import compare
from stackproof.compare.model import Comparison
from stackproof.core.value import replace
from stackproof.knowledge.effects.load import load_curves
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.report.thresholds import lines_of

BOUNCE = "alps-gh200-mpich-4-3-1-inter-device-bandwidth"


def comparison(
    curve_id: str, *, env: dict[str, str] | None = None, fabric: str = "slingshot-11"
) -> Comparison:
    curve = next(curve for curve in load_curves() if curve.id == curve_id)
    tag = "-CUDA" if curve.memory is BufferPlace.DEVICE else ""
    lines = [f"# OSU MPI{tag} Bandwidth Test v7.5", "# Size  Bandwidth (MB/s)"]
    lines += [f"{point.size:<10}{point.printed:>20}" for point in curve.points]
    setup = ImportSetup(
        name="r", locality=curve.locality, memory=curve.memory, limit=25000.0, fabric=fabric,
        env=env or {},
    )  # fmt: skip
    file = OutputFile(arm="theirs", name="f", text="\n".join(lines) + "\n")
    return compare(import_outputs([file], setup).results)


@pytest.mark.parametrize(
    ("env", "fabric", "lines"),
    [
        ({}, "slingshot-11", [(192, "command of the NIC")]),
        ({}, "ethernet", []),
        ({"FI_CXI_RDZV_THRESHOLD": "16384"}, "", [(18433, "eager limit of cxi")]),
        (
            {"FI_CXI_RDZV_THRESHOLD": "2048", "FI_CXI_RDZV_GET_MIN": "0"},
            "",
            [(2048, "eager limit of cxi")],
        ),
        ({"FI_CXI_RDZV_THRESHOLD": "many"}, "", []),
        ({"MPICH_GPU_IPC_THRESHOLD": "8192"}, "", []),
    ],
)
def test_thresholds_stand_where_the_run_set_them(
    env: dict[str, str], fabric: str, lines: list[tuple[int, str]]
) -> None:
    made = comparison(BOUNCE, env=env, fabric=fabric)
    assert lines_of(made, made.panels[0]) == lines


def test_thresholds_inside_a_node_are_others() -> None:
    made = comparison(
        "alps-gh200-mpich-4-3-1-intra-host-bandwidth",
        env={"MPIR_CVAR_CH4_IPC_XPMEM_P2P_THRESHOLD": "65536", "FI_CXI_RDZV_THRESHOLD": "16384"},
    )
    assert lines_of(made, made.panels[0]) == [(65536, "XPMEM")]


def test_a_benchmark_without_sizes_has_no_lines() -> None:
    made = comparison(BOUNCE)
    curve = replace(made.panels[0].curve, sized=False)
    assert lines_of(made, replace(made.panels[0], curve=curve)) == []
