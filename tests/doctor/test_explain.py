"""`stackproof explain` as a user calls it."""

from __future__ import annotations

import json

import pytest

from inprocess import stackproof
from stackproof.build.engines.spack.effects.known import load_conflicts
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.doctor.cli.explain import explain
from stackproof.knowledge.effects.load import load_everything
from stackproof.knowledge.model import find

COVERS = (
    "doctor/cli/explain.py",
    "doctor/options.py",
    "report/knowledge_text.py",
)


def test_a_problem_is_explained_with_remedy_and_source() -> None:
    text = stackproof("explain", "K01").stdout
    assert "export OMPI_MCA_opal_common_ofi_provider_include=lnx" in text
    assert "https://github.com/ofiwg/libfabric/issues/11392" in text


def test_a_variable_is_explained_for_each_component() -> None:
    data = json.loads(stackproof("explain", "fi_cxi_rdzv_threshold", "--json").stdout)
    assert [entry["component"] for entry in data] == ["cray-mpich", "libfabric"]
    assert data[1]["defaults"][0] == {"value": "2048", "versions": ":2.1"}


def test_without_a_name_everything_is_listed() -> None:
    text = stackproof("explain").stdout
    assert all(f"  {one}  " in text for one in ("K01", "K59"))
    assert "FI_LNX_PROV_LINKS" in text


def test_an_unknown_name_is_wrong_usage() -> None:
    done = stackproof("explain", "K999")
    assert done.returncode == 2
    assert "error: nothing is known of `K999`" in done.stderr


def test_a_word_leads_to_the_problems_that_have_it() -> None:
    done = stackproof("explain", "truncation")
    assert done.returncode == 2
    assert "K242 (a message is longer than the buffer" in done.stderr
    assert " more" in stackproof("explain", "memory").stderr
    assert "`stackproof explain` lists everything" in stackproof("explain", "K999").stderr


def test_every_id_that_a_message_names_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    knowledge = replace(load_everything(), variables=())
    assert all(find(knowledge, name) for rule in knowledge.rules for name in (rule.id, rule.name))
    conflicts = [conflict.id for conflict in load_conflicts()]
    for name in (*conflicts, *Reason, "FAIL", "INCONCLUSIVE"):
        assert explain(name, as_json=False) == 0
        assert name in capsys.readouterr().out
    text = stackproof("explain", "site-incomplete").stdout
    assert text.endswith("\n  exit code 4: This machine lacks a tool, a right, a kernel feature, "
                         "space or the network.\n")  # fmt: skip
    assert json.loads(stackproof("explain", "usage", "--json").stdout)[0]["name"] == "usage"
