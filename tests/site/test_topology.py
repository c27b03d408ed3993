"""What nodes say of their inside, read: files of `/sys`, XML of hwloc, and what is neither."""

import json
import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from need import need
from refusals import refused
from stackproof.core.errors import Reason
from stackproof.site import hwloc, sysfs, topology
from stackproof.site.effects import node_files
from topologies import node

COVERS = ("site/effects/node_files.py", "site/sysfs.py")


def test_this_machine_as_its_system_says():
    found = topology.parse_topology(node_files.gather())
    cpus = sorted(cpu for core in found.cores for cpu in core.cpus)
    assert {*os.sched_getaffinity(0)} <= {*cpus}
    assert len(cpus) == len({*cpus})


def test_this_machine_as_hwloc_says():
    need("lstopo")
    text = subprocess.run(["lstopo", "--of", "xml", "-"], capture_output=True, check=True).stdout
    assert hwloc.parse_hwloc(text).cores == topology.parse_topology(node_files.gather()).cores


def test_what_a_node_says_survives_as_a_line():
    told = json.loads(json.dumps(node("lumi-g").gathered()))
    assert topology.parse_topology(told) == node("lumi-g").topology()


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["threads", "l3", "numa", "sockets", "nics", "gpus", "name",
                                       "cpus", "kind", "0", "-1"]), inner, max_size=6),
    max_leaves=30,
)  # fmt: skip


@pytest.mark.parametrize(
    ("cpus", "text"), [((), ""), ((3,), "3"), ((2, 0, 1, 8), "0-2,8"), ((0, 2), "0,2")]
)
def test_cpus_as_text(cpus, text):
    assert sysfs.cpu_text(cpus) == text
    assert sysfs.cpu_list(text) == tuple(sorted(cpus))


@given(ANY)
def test_nothing_that_a_node_says_breaks_the_reader(data):
    found = topology.parse_topology(data)
    assert all(0 <= cpu < sysfs.MOST_CPUS for core in found.cores for cpu in core.cpus)


@given(st.text(max_size=40))
def test_cpu_lists(text):
    assert all(0 <= cpu < sysfs.MOST_CPUS for cpu in sysfs.cpu_list(text))


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8\n", (0, 1, 2, 3, 8)), ("7", (7,)), ("", ()), ("3-1", ()), ("0-99999999", ()),
        ("0-8191," * 9 + "0", ()), ("x", ()), ("-1", ()), ("٣", ()),
    ],
)  # fmt: skip
def test_cpu_lists_of_the_kernel_and_others(text, cpus):
    assert sysfs.cpu_list(text) == cpus


@given(st.dictionaries(st.text(max_size=30), st.text(max_size=30), max_size=5), st.text(max_size=9))
def test_files_that_say_anything_break_nothing(files, name):
    def read(path: str) -> str:
        return files.get(path[-9:], "0-3" if path.endswith(("online", "cpulist")) else name)

    found = topology.parse_topology(sysfs.gather(read, lambda _: [name, "node0", "index3", "7"]))
    assert len(found.cores) <= sysfs.MOST_CPUS


GPUS = ["cuda", "cuda", "cuda", "cuda"]


def numbers(name: str, **variables: str) -> list[int]:
    inside = topology.seen(node(name).topology(), variables)
    return [gpu.number for gpu in inside.gpus]


def test_gpus_that_a_task_may_use():
    assert numbers("alps-gh200") == [0, 1, 2, 3]
    assert numbers("alps-gh200", CUDA_VISIBLE_DEVICES="2,3") == [2, 3]
    assert numbers("alps-gh200", CUDA_VISIBLE_DEVICES="") == []
    assert numbers("alps-gh200", CUDA_VISIBLE_DEVICES="GPU-1,GPU-2") == []
    assert numbers("alps-gh200", CUDA_VISIBLE_DEVICES="GPU-1,GPU-2,GPU-3,GPU-4") == [0, 1, 2, 3]
    assert numbers("alps-gh200", HIP_VISIBLE_DEVICES="0") == [0, 1, 2, 3]
    assert numbers("lumi-g", ROCR_VISIBLE_DEVICES="4,5") == [0, 1]  # HIP counts again
    behind = topology.seen(node("lumi-g").topology(), {"ROCR_VISIBLE_DEVICES": "4,5"})
    assert [gpu.numa for gpu in behind.gpus] == [0, 0]
    assert numbers("lumi-g", HIP_VISIBLE_DEVICES="4,5") == [4, 5]
    assert numbers("lumi-c", CUDA_VISIBLE_DEVICES="0") == []


def test_xml_of_version_1():
    text = b"""<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc.dtd"><topology>
    <object type="Machine" os_index="0" cpuset="0x0000000f">
     <object type="NUMANode" os_index="1" cpuset="0x0000000f">
      <object type="Socket" os_index="0" cpuset="0x0000000f">
       <object type="Cache" depth="3" cpuset="0x0000000f">
        <object type="Core" os_index="0" cpuset="0x00000005"><object type="PU" os_index="0"/></object>
        <object type="Core" os_index="1" cpuset="0x0000000a"/></object></object>
      <object type="PCIDev" pci_busid="0000:81:00.0" pci_type="0207 [15b3:101b] [15b3:0007] 00">
       <object type="OSDev" name="mlx5_0" osdev_type="3"/></object>
     </object></object></topology>"""
    found = hwloc.parse_hwloc(text)
    assert [core.cpus for core in found.cores] == [(0, 2), (1, 3)]
    assert {(core.numa, core.socket, core.l3) for core in found.cores} == {(1, 0, 0)}
    assert [(nic.name, nic.numa) for nic in found.nics] == [("mlx5_0", 1)]


@pytest.mark.parametrize(
    ("pci_type", "kinds"),
    [
        ("0300 [1002:515e] [003c:00fb] 02", ()),  # ES1000 of a management board
        ("0300 [1002:4752] [1028:0000] 27", ()),  # Rage XL
        ("0300 [1002:7142] [1002:0322] 00", ()),  # Radeon X1300
        ("0300 [102b:0522] [1028:0000] 05", ()),  # Matrox G200
        ("0300 [1a03:2000] [1a03:2000] 41", ()),  # ASPEED
        ("0300 [1002:66af] [1002:081e] c1", ("rocm",)),  # Radeon VII
        ("0300 [1002:7312] [1002:0e2b] 00", ("rocm",)),  # Radeon Pro W5700
        ("0302 [1002:66A1] [1002:0834] 02", ("rocm",)),  # MI50, in capital letters
        ("0380 [1002:7408] [1002:0b0c] 01", ("rocm",)),  # MI250X
        ("0300 [10de:1eb8] [10de:12a2] a1", ("cuda",)),  # a T4 as a display
        ("0302 [10de:20b0] [10de:134f] a1", ("cuda",)),  # A100
    ],
)
def test_a_graphics_chip_of_a_board_is_no_gpu_for_ranks(pci_type, kinds):
    text = f"""<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
    <object type="Machine" os_index="0" cpuset="0x1"><object type="Package" os_index="0" cpuset="0x1">
     <object type="NUMANode" os_index="0" cpuset="0x1"/>
     <object type="Core" os_index="0" cpuset="0x1"/></object>
     <object type="PCIDev" pci_busid="0000:06:00.0" pci_type="{pci_type}"/></object></topology>"""
    gpus = hwloc.parse_hwloc(text.encode()).gpus
    assert tuple(gpu.kind for gpu in gpus) == kinds


ENTITIES = b"""<?xml version="1.0"?><!DOCTYPE topology [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;">]><topology><object type="&b;"/></topology>"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(b"", Reason.YAML_SYNTAX, id="empty"),
        pytest.param(b"\x00\xff", Reason.YAML_SYNTAX, id="binary"),
        pytest.param(b"<topology><object", Reason.YAML_SYNTAX, id="cut"),
        pytest.param(b"<topology/>", Reason.UNSUPPORTED, id="nothing"),
        pytest.param(b'<?xml version="1.0" encoding="no-such"?><a/>', Reason.YAML_SYNTAX,
                     id="encoding"),
        pytest.param(ENTITIES, Reason.UNSUPPORTED, id="entities"),
        pytest.param(b"<object>" * 100, Reason.UNSUPPORTED, id="deep"),
        pytest.param(b"<a>" + b"<b/>" * 200_000 + b"</a>", Reason.UNSUPPORTED, id="many"),
        pytest.param(b'<object type="Core" cpuset="' + b"0xffffffff," * 9999 + b'0"/>',
                     Reason.UNSUPPORTED, id="wide"),
        pytest.param(b'<t><object cpuset="' + b"0xffffffff," * 255 + b'0xffffffff">'
                     + b'<object type="Core"/>' * 90_000 + b"</object></t>",
                     Reason.UNSUPPORTED, id="cores-of-all-cpus"),
    ],
)  # fmt: skip
def test_what_is_no_topology_is_refused_in_no_time(text, reason):
    with refused(reason, "lstopo.xml"):
        hwloc.parse_hwloc(text, file="lstopo.xml")
