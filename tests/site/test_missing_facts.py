"""What a machine says and a site file does not state, as lines for a person to paste."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from refusals import refused
from stackproof.cli import main
from stackproof.core import noun
from stackproof.core.document import parse
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.site import missing, model
from stackproof.site.capture import Capture, CommandOutput, parse_queues, read_capture
from stackproof.site.effects import missing as effects_missing
from stackproof.site.effects.missing import MissingFacts, MissingOptions, find_missing
from stackproof.site.missing import Asking, Part
from stackproof.site.model import (
    Fabric,
    FabricType,
    Partition,
    Site,
    SiteLauncher,
    parse_site,
)

CAPTURE = Path(__file__).parents[1] / "captures" / "probe" / "constructed-slingshot.json"
LATER = "2026-03-01T00:00:00Z"
OWN = """\
# My machine.
name: mine
partitions:
  gpu:  # eight GCDs
    cores: 56   # eight are reserved
    gpu: AMD MI250X
    gpus: 4
vendor-mpi: {family: cray-mpich, version: "8.1.27"}
sources:
  me: {title: I know it}
facts:
  partitions: me
  vendor-mpi: me
# end
"""


def taken(**commands: str) -> Capture:
    capture = noun.from_json(Capture, CAPTURE.read_bytes())
    answers = {
        name.replace("_", " "): CommandOutput(text=t, returncode=0) for name, t in commands.items()
    }
    return replace(capture, commands={**capture.commands, **answers})


def asked(
    folder: Path, capture: Capture, text: str = OWN, **options: str
) -> tuple[Site, MissingFacts]:
    """Return the site with what was missing pasted into it, and what was said."""
    file = folder / "mine.yaml"
    if not file.exists():
        file.write_text(text)
    (folder / "capture.json").write_text(noun.to_json(capture))
    found = find_missing(
        MissingOptions(site_file=str(file), capture_file=str(folder / "capture.json"), **options)
    )
    lines = parse(found.lines or "{}", file="lines").data
    data = model.overlay(lines, parse(file.read_text(), file="mine.yaml").data)
    file.write_text(json.dumps(data))
    return parse_site(parse(file.read_text(), file="mine.yaml")), found


def test_lines_to_paste_say_which_keys_are_there(tmp_path):
    site, found = asked(tmp_path, taken())
    assert found.lines.startswith(
        "partitions:  # is there\n  gpu:  # is there\n    architecture: x86_64\n"
    )
    assert "\nlaunchers:\n  srun:\n    version: 23.02.7\n    pmi: [cray_shasta, " in found.lines
    assert "\n  uname-m--gpu: {title: uname -m, kind: command, date: '2026-" in found.lines
    assert site.partitions["gpu"].cores == 56
    assert [(one.fact, one.stated, one.asked) for one in found.differs] == [
        ("partitions.gpu.cores", 56, 64)
    ]


def test_every_new_fact_has_its_source(tmp_path):
    site, done = asked(tmp_path, taken())
    node = site.partitions["gpu"]
    assert (node.microarchitecture, node.nics, node.memory_gb) == ("zen3", 4, 540.555)
    assert site.fabric.type == "slingshot-11"
    assert site.launchers["srun"].pmi == ("cray_shasta", "pmi2", "pmix", "pmix_v4")
    assert site.scheduler
    assert site.scheduler.queues == ("standard-g", "small-g", "dev-g")
    for fact in done.facts:
        (source,) = site.sources_of(fact)
        assert source.date == "2026-01-01T00:00:00Z"
        assert source.kind != "document"
    (source,) = site.sources_of("partitions.gpu.microarchitecture")
    assert source.title == "archspec cpu"


def test_the_version_that_the_site_states_is_the_one_looked_for(tmp_path):
    """8.1.29 is there as well, and newer."""
    site, _ = asked(tmp_path, taken())
    assert site.externals["cray-mpich"].version == "8.1.27"
    assert site.externals["cray-mpich"].path == "/opt/cray/pe/mpich/8.1.27/ofi/gnu/9.1"


def test_asked_again_nothing_is_missing(tmp_path):
    asked(tmp_path, taken())
    new = taken(**{"srun_--version": "slurm 24.05.1\n"})
    _, found = asked(tmp_path, replace(new, taken=LATER))
    assert (found.lines, found.facts) == ("", ())
    assert ("launchers.srun.version", "23.02.7", "24.05.1") in [
        (one.fact, one.stated, one.asked) for one in found.differs
    ]


def test_what_recipes_ask_for_and_a_machine_does_not_tell_is_listed():
    nothing = Site(
        name="mine", partitions={"node": Partition()}, fabric=Fabric(type=FabricType.ETHERNET)
    )
    both = Asking(part=Part.BOTH, partition="node")
    lines = missing.not_found(nothing, both)
    words = ("vendor-mpi", "launchers", "spack arch", "gpus: 0", "limit-mb-s")
    assert [word for line, word in zip(lines, words, strict=True) if word not in line] == []
    told = replace(
        nothing,
        launchers={"mpiexec": SiteLauncher(version="5.0.2")},
        partitions={"node": Partition(microarchitecture="zen3", gpus=0)},
        fabric=Fabric(type=FabricType.ETHERNET, limit_mb_s=1000.0),
    )
    assert len(missing.not_found(told, both)) == 1
    assert missing.not_found(told, replace(both, part=Part.NODE)) == ()


def test_the_first_days_page_states_an_external_with_its_source():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "first-day.md"
    (block,) = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    site = parse_site(parse(f"name: mine\n{block}", file="mine.yaml"))
    assert site.externals["cray-mpich"].version == "8.1.32"


def test_a_login_node_says_nothing_of_the_nodes_of_jobs(tmp_path):
    site, done = asked(tmp_path, taken(), part="login")
    assert site.partitions["gpu"].microarchitecture is None
    assert (site.kernel, site.fabric.type, dict(site.interfaces)) == (None, None, {})
    assert site.externals["cray-mpich"].path
    start = "in a job: srun -N1 -n1 -p QUEUE stackproof site probe --missing "
    assert done.next.startswith(start)
    assert done.next.endswith("(QUEUE is one of: standard-g, small-g, dev-g)")
    site, done = asked(tmp_path, taken(), part="node")
    assert site.partitions["gpu"].microarchitecture == "zen3"
    assert done.next.startswith("stackproof check RECIPE --site ")


def test_each_kind_of_node_is_asked_for_itself(tmp_path):
    two = OWN.replace("    gpus: 4\n", "    gpus: 4\n  cpu: {gpus: 0}\n")
    with refused(Reason.USAGE) as caught:
        asked(tmp_path, taken(), two, part="node")
    assert caught.value.problems[0].hint == "--partition NAME, one of: gpu, cpu"
    asked(tmp_path, taken(), part="node", partition="gpu")
    other = taken(archspec_cpu="zen4\n")
    other = replace(other, files={**other.files, "/proc/sys/kernel/osrelease": "6.4.0\n"})
    site, done = asked(tmp_path, other, part="node", partition="cpu")
    assert [site.partitions[name].microarchitecture for name in ("gpu", "cpu")] == ["zen3", "zen4"]
    assert "kernel" in [one.fact for one in done.differs]  # the other node's


def test_a_fabric_of_another_kind_is_not_mixed_in(tmp_path):
    text = OWN.replace("sources:", "fabric: {type: ethernet, limit-mb-s: 1250}\nsources:")
    text = text.replace("  vendor-mpi: me\n", "  vendor-mpi: me\n  fabric: me\n")
    site, done = asked(tmp_path, taken(), text)
    assert (site.fabric.type, site.fabric.limit_mb_s) == ("ethernet", 1250)
    assert ("fabric.type", "ethernet", "slingshot-11") in [
        (one.fact, one.stated, one.asked) for one in done.differs
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "", "\n\n", "srun: error: slurm_mpi: no such plugin\n", "\x00\x1b[31m\udcff" * 10,
        "MPI plugin types are...\n" + "\tpmix\n" * 100_000, "MPI-Plugin-Typen sind …\n\tkeine\n",
        "<html>login</html>", "{" * 5000,
    ],
)  # fmt: skip
def test_odd_answers_give_no_odd_facts(tmp_path, answer):
    commands = ("srun_--mpi=list", "sinfo_-h_-o_%R", "lscpu", "archspec_cpu", "srun_--version")
    odd = answer.encode(errors="replace").decode(errors="replace")
    site, _ = asked(tmp_path, taken(**dict.fromkeys(commands, odd)))
    assert site.launchers.get("srun") is None or set(site.launchers["srun"].pmi) <= {
        "pmix",
        "keine",
    }


def test_kinds_that_are_printed_to_standard_error_count():
    """Slurm before 22 does; the probe keeps both streams."""
    old = "srun: MPI types are...\nsrun: cray_shasta\nsrun: pmi2\nsrun: none\n"
    assert read_capture(taken(**{"srun_--mpi=list": old})).launchers["srun"].pmi == (
        "cray_shasta",
        "pmi2",
    )


@pytest.mark.parametrize(
    ("text", "queues"),
    [
        ("standard\nstandard\ndebug\n", ("standard", "debug")),
        ("sinfo: error: no controller\n", ()),
        ("Queue              Max   Tot Ena Str\n----------------   ---   --- --- ---\nworkq   0  3 yes yes\n",
         ("workq",)),
        ("a;b\n$(reboot)\n-p\nok.1\n", ("ok.1",)),
    ],
)  # fmt: skip
def test_queues(text, queues):
    assert parse_queues(text) == queues


@pytest.mark.parametrize(
    ("stated", "said", "same"),
    [
        ('AMD EPYC 7763 "Milan"', "AMD EPYC 7763 64-Core Processor", True),
        ("AMD MI250X", "AMD", True),
        ("NVIDIA GH200", "NVIDIA H100", False),
        ("AMD EPYC 7763", "AMD EPYC 9745 128-Core Processor", False),
    ],
)
def test_names_with_more_words_say_the_same(stated, said, same):
    data = {"name": "x", "partitions": {"node": {"cpu": stated}}}
    found = read_capture(Capture(
        taken=LATER, commands={"lscpu": CommandOutput(text=f"Model name: {said}\n", returncode=0)}
    ))  # fmt: skip
    unstated = missing.find_unstated(data, found, Asking(part=Part.NODE, partition="node"))
    assert (unstated.differs == ()) is same


def test_the_verb(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "brand-new.yaml"
    file.write_text("name: brand-new\n")
    said = {}
    for name in ("lumi-g", "brand-new.yaml"):
        with pytest.raises(SystemExit) as ended:
            main(("site", "probe", "--missing", name, "--from", str(CAPTURE)))
        assert ended.value.code == 0
        said[name] = capsys.readouterr()
    assert said["lumi-g"].out.startswith(
        "# asked on another machine; paste these lines into lumi-g.yaml, a copy of /"
    )
    new = said["brand-new.yaml"]
    assert new.err.endswith("next: stackproof check RECIPE --site ./brand-new.yaml\n")
    file.write_text(f"name: brand-new\n{new.out}")
    with pytest.raises(SystemExit):
        main(("site", "probe", "--missing", file.name, "--from", str(CAPTURE), "--json"))
    again = json.loads(capsys.readouterr().out)
    assert (again["lines"], again["facts"], again["differs"]) == ("", [], [])
    with pytest.raises(SystemExit):
        main(("site", "probe", "--missing", file.name, "--from", str(CAPTURE)))
    assert capsys.readouterr().err.startswith("brand-new.yaml: states all that was found on ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, Reason.FILE_MISSING), ("name: mine\npartitons: {}\n", Reason.UNKNOWN_KEY)],
)
def test_files_that_cannot_be(tmp_path, text, reason):
    file = tmp_path / "mine.yaml"
    if text is not None:
        file.write_text(text)
    with refused(reason):
        find_missing(MissingOptions(site_file=str(file), capture_file=str(CAPTURE)))


@pytest.mark.parametrize(
    ("environment", "part"),
    [
        ({}, Part.LOGIN),
        ({"SLURM_JOB_ID": "1"}, Part.LOGIN),  # a shell of salloc on the login node
        ({"SLURM_JOB_ID": "1", "SLURMD_NODENAME": "nid1"}, Part.NODE),
        ({"PBS_ENVIRONMENT": "PBS_BATCH"}, Part.NODE),
        ({"FLUX_TASK_RANK": "0"}, Part.NODE),
    ],
)
def test_where_this_runs_is_found_out(environment, part):
    options = MissingOptions(site_file="x.yaml")
    site = read_capture(taken())
    assert effects_missing._part(options, site, environment) is part
    assert effects_missing._part(options, Site(name="x"), environment) is Part.BOTH
