"""Reading captures of machines: what is there becomes facts with sources, the rest stays unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core import noun
from stackproof.core.document import parse
from stackproof.site import capture
from stackproof.site.capture import Capture, CommandOutput, parse_pmi_kinds, read_capture
from stackproof.site.model import FabricType, SourceKind, leaves, parse_site, to_document

CAPTURES = Path(__file__).parents[1] / "captures" / "probe"
TAKEN = "2026-01-01T00:00:00Z"


def load(name: str) -> Capture:
    return noun.from_json(Capture, (CAPTURES / f"{name}.json").read_bytes())


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.json")), ids=lambda path: path.stem)
def test_a_probed_site_is_a_valid_document_with_sources(path):
    site = read_capture(load(path.stem))
    assert load(path.stem).note
    assert parse_site(parse(json.dumps(to_document(site)), file="probed")) == site
    for fact in leaves(site):
        assert [source.date for source in site.sources_of(fact)] == [load(path.stem).taken]


def test_debian_virtual_machine():
    site = read_capture(load("debian-12-vm"))
    node = site.partitions["node"]
    assert (node.architecture, node.cpu, node.sockets, node.cores) == ("x86_64", "AMD EPYC", 1, 2)
    assert node.memory_gb == 25.277  # 24684084 kB of 1024 bytes
    assert (node.gpu, node.gpus, node.nics) == (None, None, None)
    assert site.fabric.type is FabricType.ETHERNET
    assert site.fabric.limit_mb_s is None  # the kernel gives -1 for the speed of this interface
    assert set(site.interfaces) == {"eth0", "ifb0", "ifb1"}
    assert site.interfaces["eth0"].up is True
    assert site.tools["mksquashfs"].version == "4.5.1"
    assert site.tools["squashfuse_ll"].version == "0.1.104"  # although it ends with an error
    assert site.tools["gcc"].version == "12.2.0"
    assert site.tools["ip"].version == "6.1.0"
    assert "srun" not in site.tools
    assert site.launchers == {}
    assert site.vendor_mpi is None
    assert site.glibc == "2.36"
    assert (site.limits.fuse, site.limits.process_vm_readv) == (True, True)
    (source,) = site.sources_of("partitions.node.memory-gb")
    assert (source.title, source.kind) == ("/proc/meminfo", SourceKind.FILE)
    (source,) = site.sources_of("glibc")
    assert (source.title, source.kind) == ("getconf GNU_LIBC_VERSION", SourceKind.COMMAND)


def test_slingshot_node():
    site = read_capture(load("constructed-slingshot"))
    node = site.partitions["node"]
    assert (node.sockets, node.cores, node.nics) == (1, 64, 4)
    assert (node.gpu, node.gpus) == ("AMD", None)
    assert site.fabric.type is FabricType.SLINGSHOT_11
    assert site.fabric.limit_mb_s == 25_000
    assert site.fabric.bidirectional_limit_mb_s is None  # nothing on the machine says it
    assert site.interfaces["nmn0"].speed_mb_s is None
    assert site.interfaces["nmn0"].up is False
    assert site.vendor_mpi
    assert site.vendor_mpi.version == "8.1.29"
    assert site.vendor_mpi.path == "/opt/cray/pe/mpich/8.1.29"
    assert site.externals["libfabric"].path == "/opt/cray/libfabric/1.15.2.0"
    assert site.externals["libcxi"].version == "1.5.0"
    assert site.externals["rocm"].version == "6.0.3"
    assert site.externals["xpmem"].path == "/opt/cray/xpmem/2.6.2-2.5"
    assert site.externals["rdma-core"].version == "39.0"  # libibverbs 1.14.39.0
    assert site.externals["cray-mpich"].path == "/opt/cray/pe/mpich/8.1.29/ofi/gnu/12.3"
    assert site.externals["cray-programming-environment"].version == "24.03"
    assert site.externals["slurm"].path == "/usr"
    assert site.scheduler
    assert site.scheduler.queues == ("standard-g", "small-g", "dev-g")
    assert node.microarchitecture == "zen3"
    assert site.launchers["srun"].version == "23.02.7"
    assert site.launchers["srun"].pmi == ("cray_shasta", "pmi2", "pmix", "pmix_v4")
    assert site.limits.user_namespaces is False
    assert site.limits.fuse is False


def test_nothing_seen_is_nothing_known():
    site = read_capture(Capture(taken=TAKEN))
    assert leaves(site) == {}
    assert site.limits.fuse is None


def test_nvidia_cards_and_their_name():
    folder = "/proc/driver/nvidia/gpus"
    site = read_capture(
        Capture(
            taken=TAKEN,
            folders={folder: ("0009:01:00.0", "0019:01:00.0"), "/dev": ("nvidia0", "nvidiactl")},
            files={
                f"{folder}/0009:01:00.0/information": "Model: \t\t NVIDIA GH200 120GB\nIRQ: 1\n"
            },
        )
    )
    assert site.partitions["node"].gpu == "NVIDIA GH200 120GB"
    assert site.partitions["node"].gpus == 2


def test_nvidia_devices_without_the_drivers_folder():
    devices = ("nvidia-uvm", "nvidia0", "nvidia1", "nvidiactl")
    site = read_capture(Capture(taken=TAKEN, folders={"/dev": devices}))
    assert site.partitions["node"].gpus == 2


@pytest.mark.parametrize(
    ("layer", "fabric", "nics"),
    [("InfiniBand\n", FabricType.INFINIBAND, 1), ("Ethernet\n", FabricType.ETHERNET, None)],
)
def test_the_same_card_may_speak_infiniband_or_ethernet(layer, fabric, nics):
    site = read_capture(
        Capture(
            taken=TAKEN,
            folders={"/sys/class/infiniband": ("mlx5_0",), "/sys/class/net": ("ib0", "lo")},
            files={"/sys/class/infiniband/mlx5_0/ports/1/link_layer": layer},
        )
    )
    assert site.fabric.type is fabric
    assert (site.partitions["node"].nics if "node" in site.partitions else None) == nics


def test_a_machine_with_loopback_only_has_no_fabric():
    site = read_capture(Capture(taken=TAKEN, folders={"/sys/class/net": ("lo",)}))
    assert site.fabric.type is FabricType.NONE


def test_processor_name_without_lscpu():
    files = {"/proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 7763\nflags\t: fpu\n"}
    site = read_capture(Capture(taken=TAKEN, files=files))
    assert site.partitions["node"].cpu == "AMD EPYC 7763"
    assert site.partitions["node"].cores is None


def test_a_failed_command_is_no_answer():
    commands = {"uname -m": CommandOutput(text="x86_64\n", returncode=1)}
    assert leaves(read_capture(Capture(taken=TAKEN, commands=commands))) == {}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n", ("pmi2", "pmix")),
        (
            "MPI plugin types are...\n\tcray_shasta\n\tpmix\n\tnone\nspecific pmix plugin versions available: pmix_v4,pmix_v5\n",
            ("cray_shasta", "pmix", "pmix_v4", "pmix_v5"),
        ),
        ("srun: MPI types are...\nsrun: cray_shasta\nsrun: none\nsrun: pmi2\n",
         ("cray_shasta", "pmi2")),
        ("srun: error: Unable to establish configuration source\n", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_pmi_kinds(text, kinds):
    assert parse_pmi_kinds(text) == kinds


PATHS = st.sampled_from(
    [path.replace("*", name) for path in capture.FILES for name in ("a", "hsn0")]
)
NAMES = st.one_of(
    st.text(max_size=8), st.sampled_from(("a", "hsn0", "lo", "1.2", "kfd", "nvidia0"))
)
TEXT = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["MemTotal: 99999999999999999999 kB", "model name:", "Model: ", "-1", "٣", "²", "1" * 400, "MemTotal: " + "9" * 400 + " kB",
         "Version: 1..", 'PRETTY_NAME=""', "Socket(s):  0\nCore(s) per socket: 0\n", "glibc \n"]
    ),
)  # fmt: skip


@given(
    st.dictionaries(PATHS, TEXT),
    st.dictionaries(st.sampled_from(capture.FOLDERS), st.lists(NAMES).map(tuple)),
    st.dictionaries(
        st.sampled_from((*capture.COMMANDS, capture.SIBLING_READ)),
        st.builds(CommandOutput, text=TEXT, returncode=st.integers(-15, 255)),
    ),
)
def test_odd_text_never_fails(files, folders, commands):
    programs = dict.fromkeys(capture.TOOLS, "/usr/bin/x")
    site = read_capture(
        Capture(taken=TAKEN, files=files, folders=folders, commands=commands, programs=programs)
    )
    assert all(site.sources_of(path) for path in leaves(site))
