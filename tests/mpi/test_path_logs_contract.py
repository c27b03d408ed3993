"""What every probe keeps."""

import pytest

from stackproof.launch import launchers
from stackproof.launch.launchers import LaunchRequest, labels
from stackproof.mpi import families
from stackproof.mpi.path_logs import Pair, Words
from stackproof.results.case import Locality, Placement, Rank

each_probe = pytest.mark.parametrize("name", list(families.REGISTRY))
each_launcher = pytest.mark.parametrize("name", list(launchers.REGISTRY))


@each_probe
def test_every_family_has_a_probe(name):
    assert families.probe_of(name) is not None


def test_an_unknown_family_has_none():
    assert families.probe_of("lam") is None


@each_probe
def test_what_makes_it_talk_changes_no_path(name):
    settings = families.probe_of(name).settings
    assert all(isinstance(value, str) and value for value in settings.values())
    words = ("VERBOSE", "verbose", "DEBUG", "LOG", "DISPLAY", "DUMP")
    assert [key for key in settings if not any(word in key for word in words)] == []


@each_probe
@pytest.mark.parametrize("locality", list(Locality))
def test_without_words_nothing_is_known_for_sure(name, locality):
    pair = Pair(rank=0, peer=1, locality=locality, env={})
    carrier = families.probe_of(name).carrier(Words(()), pair)
    assert carrier is None or not carrier.told


def request(*, labelled: bool) -> LaunchRequest:
    return LaunchRequest(
        prefix="/opt/mpi",
        program=("prog",),
        placement=Placement(name="p", ranks=(Rank(node="a"), Rank(node="b"))),
        agent="/run/agent",
        labelled=labelled,
    )


@each_launcher
def test_labels_are_one_option_more(name):
    plain = launchers.get(name).argv(request(labelled=False))
    labelled = launchers.get(name).argv(request(labelled=True))
    extra = [word for word in labelled if word not in plain]
    assert len(extra) == 1
    assert [word for word in labelled if word not in extra] == list(plain)


LABELLED = {
    "prte": "[1,0]<stdout>: one\n[1,1]<stderr>: two\n[2049,1,11]<stderr>:three\nfour",
    "hydra": "[0] one\n[1] two\n[11] three\nfour",
    "intel-hydra": "[0] one\n[1] two\n[11] three\nfour",
    "srun": " 0: one\n 1: two\n11: three\nfour",
    "flux": "0: one\n1: two\n11: three\nfour",
    "pals": "0: one\nx1c0s0b0n0 1: two\nx1c0s0b0n0 11: three\nfour",
}


@each_launcher
def test_labels_are_taken_off(name):
    assert list(labels.split(name, LABELLED[name])) == [
        (0, "one"), (1, "two"), (11, "three"), (None, "four"),
    ]  # fmt: skip
    assert labels.joined(name, LABELLED[name]) == "one\ntwo\nthree\nfour"


def test_a_line_that_open_mpi_4_tore_is_whole_again():
    """ORTE labels every 4096 bytes that it reads."""
    torn = '[1,0]<stdout>:{"path":"/usr/[1,0]<stdout>:lib","run":"x"}'
    assert list(labels.split("prte", torn)) == [(0, '{"path":"/usr/lib","run":"x"}')]


def test_a_line_that_hydra_tore_is_whole_again():
    torn = '[0] {"kind":"ra[0] nk","run":"x"}[0] \n[1] [1] MPI startup(): x'
    assert list(labels.split("hydra", torn)) == [
        (0, '{"kind":"rank","run":"x"}'), (1, "MPI startup(): x"),
    ]  # fmt: skip


def test_a_launcher_that_is_not_known_labels_nothing():
    assert list(labels.split("pals", "[0] x")) == [(None, "[0] x")]


def test_long_lines_come_from_srun_in_pieces() -> None:
    """As Slurm 22.05 printed lines of 3000 and of 1024 bytes of two ranks at once."""
    first, second = "a" * 3000, "b" * 1024
    printed = [
        f"0: {first[:1024]}", f"1: {second}", f"0: {first[1024:2048]}", "1: ",
        f"0: {first[2048:]}", "0: short", f"1: {second}",
    ]  # fmt: skip
    assert [*labels.split("srun", "\n".join(printed))] == [
        (1, second), (0, first), (0, "short"), (1, second),
    ]  # fmt: skip


@each_probe
@pytest.mark.parametrize("locality", list(Locality))
def test_ways_of_gpu_buffers_come_with_their_variable(name, locality):
    ways = families.probe_of(name).gpu_ways({}, {"cm"}, ["libmpi_gtl_cuda.so.0"], locality)
    assert all(way and (variable.isupper() or "MCA" in variable) for way, variable in ways)
