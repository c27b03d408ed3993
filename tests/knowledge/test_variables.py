"""The table of variables: what releases read, and that nothing else is claimed of them."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stackproof.core.errors import StackproofError
from stackproof.core.versions import versions
from stackproof.knowledge.effects.load import load_everything
from stackproof.knowledge.model import Rule, Setting, find
from stackproof.knowledge.variables import ReadVariable, VariableSpan, parse_variables
from stackproof.report.knowledge_text import lines_of

EVERYTHING = load_everything()
TABLE = {(one.component, one.name): one for one in EVERYTHING.variables}
TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "read_variables.py"))
# Words in the form of a variable that nobody sets: functions and constants, versions of symbols, a
# capability, beginnings that `grep` looks for, and a name that stands for any.
NO_VARIABLES = re.compile(
    r"MPI_[A-Z][a-z]\w*|MPI_(?:TAG_UB|THREAD_MULTIPLE)|GLIBCXX_3|FABRIC_1|SYS_PTRACE|CXIP_FI_VERSION"
    r"|CXI_MAP_IOVA_ALLOC|\w+_NAME|MV2_USE_LAZY|SLURM_STEP|VISIBLE_DEVICES"
)


def _present(variable: ReadVariable) -> set[str]:
    """Return the releases that were looked at and have a variable."""
    at = variable.looked_at.index
    return {
        release
        for span in variable.spans
        for release in variable.looked_at[at(span.first) : at(span.last) + 1]
    }


def _of_condition(condition: Mapping[str, Any]) -> Iterator[str]:
    for key in ("equals", "matches", "set", "unset"):
        yield from condition.get(key, ())
    for inner in (*condition.get("all", ()), *condition.get("any", ())):
        yield from _of_condition(inner)
    for key in {"not", "unless"} & {*condition}:
        yield from _of_condition(condition[key])


def _names(rule: Rule) -> set[str]:
    text = " ".join((rule.title, rule.cause, rule.remedy, *rule.commands))
    names = {*re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Za-z0-9]+)+\b", text)}
    return {*names, *_of_condition(rule.when), *_of_condition(rule.supported_by or {})}


@pytest.mark.parametrize("rule", EVERYTHING.rules, ids=lambda rule: rule.id)
def test_each_variable_of_a_rule_is_explained(rule: Rule) -> None:
    for name in _names(rule):
        if NO_VARIABLES.fullmatch(name) is None:
            entries = find(EVERYTHING, name)
            assert all("http" in "\n".join(lines_of(entry, 96)) for entry in entries), name


def test_no_setting_claims_a_release_that_lacks_its_names() -> None:
    compared = 0
    for setting in EVERYTHING.settings:
        variables = [TABLE.get((setting.component, name)) for name in setting.names]
        for variable in filter(None, variables if setting.versions != ":" else ()):
            claimed = [
                release
                for release in variable.looked_at
                if versions(release).within(versions(setting.versions))
            ]
            assert set(claimed) <= _present(variable), (setting.names, claimed)
            compared += len(claimed)
    assert compared > 20


def test_defaults_of_settings_are_those_of_the_libraries() -> None:
    compared = 0
    for setting in EVERYTHING.settings:
        variable = TABLE.get((setting.component, setting.names[0]))
        for span in variable.spans if variable and len(setting.names) == 1 else ():
            for default in setting.defaults:
                both = versions(span.first).within(versions(default.versions))
                if both and span.default is not None and re.fullmatch(r"[\w-]+", default.value):
                    assert default.value == span.default, (setting.names, span)
                    compared += 1
    assert compared > 5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD", ["4.3.1 to 5.0.2 (default -1)", "4.1.3, 4.2.3"]),
        ("MPIR_CVAR_CH4_PROGRESS_THROTTLE", ["5.0.0 to 5.0.2 (default 0)", "polls in vain"]),
        ("MPIR_CVAR_ALLTOALL_THROTTLE", ["(default 32)", "wheels `mpich`, https://www.mpich.org/"]),
        ("ompi_mca_btl_ofi_disable_sep", ["(default false)", "$ ompi_info --all"]),
        ("I_MPI_ADJUST_ALLGATHER", ["read by   intel-mpi", "2021.1.1 to 2021.19.0"]),
        ("PMI_NO_PREINITIALIZE", ["Fortran program", "https://docs.lumi-supercomputer.eu"]),
        ("NCCL_SOCKET_IFNAME", ["read by   nccl"]),
    ],
)  # fmt: skip
def test_a_name_is_explained_by_its_releases(name: str, words: list[str]) -> None:
    (entry,) = find(EVERYTHING, name)
    text = "\n".join(lines_of(entry, 96, EVERYTHING.variables))
    assert all(word in text for word in words), text
    assert "any version" not in text


def test_a_variable_of_two_components_has_an_entry_for_each() -> None:
    setting = next(one for one in EVERYTHING.settings if one.names == ("NCCL_NET",))
    variable = ReadVariable(
        component="mpich", name="NCCL_NET", spans=(VariableSpan(first="5", last="5"),),
        looked_at=("5",),
    )  # fmt: skip
    both = find(type(EVERYTHING)(settings=(setting,), variables=(variable,)), "nccl_net")
    assert [type(entry) for entry in both] == [Setting, ReadVariable]


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("MPIR_CVAR_CH4_OFI_EAGR_THRESHOLD", "`MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD`"),
        ("NCLC_NET", "`NCCL_NET`"),
        ("PMI_NOPREINITIALIZE", "`PMI_NO_PREINITIALIZE`"),
        ("SLURM_FOO_BAR", ""),
        ("PMI_XYZ", ""),
        ("UCX_FOO", ""),
    ],
)
def test_only_related_names_are_guessed(name: str, guess: str) -> None:
    with pytest.raises(StackproofError) as caught:
        find(EVERYTHING, name)
    hint = str(caught.value.problems[0].hint)
    assert hint == (f"did you mean {guess}?" if guess else "`stackproof explain` lists everything")


def test_the_tool_writes_spans_that_are_read_again() -> None:
    releases = {
        "mpich": {
            "4.2": {"A": "1", "B": None},
            "4.10": {"A": "1", "B": None, "C": "x=y"},
            "5.0": {"A": "2", "C": ""},
        }
    }
    spans = {one.name: one.words for one in parse_variables(TOOL["render"](releases))}
    assert spans == {
        "A": "4.2 to 4.10 (default 1); 5.0 (default 2)",
        "B": "4.2 to 4.10",
        "C": "4.10 (default x=y); 5.0 (default empty)",
    }
