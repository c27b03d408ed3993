"""`stackproof cluster`: what it prints where, and its exit codes. Nothing here needs namespaces."""

from __future__ import annotations

import json
import stat
import subprocess
import sys

import pytest

from need import need
from stackproof import cli
from stackproof.cluster.effects import plugin
from stackproof.cluster.effects import state as cluster_state
from stackproof.core.errors import ExitCode

COVERS = (
    "cluster/cli/cluster.py",
    "cluster/effects/rights.py",
    "cluster/options.py",
)


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


def exit_code(*argv: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(["cluster", *argv])
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.parametrize(
    "option",
    [
        "--nodes=0", "--nodes=33", "--nodes=two", "--nodes=-1", "--nodes=2.0", "--nodes=",
        "--rate=1", "--rate=1gbps", "--rate=-1gbit", "--rate=1kbit", "--delay=20", "--delay=0us",
        "--delay=2s", "--name=../x", "--name=", "--name=A B", "--share=/tmp/not/there",
        "--user=alice", "--user=alice:0", "--spank=here.so", "--cpus=0", "--cpus=many",
        "--cpus=1000", "--set=words", "--set=A=b\nC=d",
    ],
)  # fmt: skip
def test_a_bad_value_is_an_error_that_leaves_nothing(option, runtime, capsys):
    of_slurm = option.startswith(("--user", "--spank", "--cpus", "--set"))
    assert exit_code("up", *["--slurm"] * of_slurm, option) == ExitCode.INVALID
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert list(runtime.iterdir()) == []


def test_all_bad_values_are_shown_at_once(capsys):
    assert exit_code("up", "--nodes", "33", "--rate", "x", "--delay", "y", "--name", "Z") == 3
    assert capsys.readouterr().err.count("error: ") == 4


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        ((), ""), (("sideways",), "sideways"), (("up", "--colour", "red"), "--colour"),
        (("down", "--nodes", "2"), "--nodes"), (("kill",), "NODE"), (("exec",), "COMMAND"),
        (("exec", "--"), "COMMAND"), (("exec", "--on", "node1"), "COMMAND"),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(argv, word, capsys):
    assert exit_code(*argv) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "usage: stackproof" in said
    assert word in said


@pytest.mark.parametrize("argv", [("status",), ("kill", "node1"), ("exec", "--", "true")])
def test_a_cluster_that_is_not_up_says_how_to_bring_it_up(argv, capsys):
    assert exit_code(argv[0], "--name", "mine", *argv[1:]) == ExitCode.NOT_POSSIBLE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "stackproof cluster up --name mine" in shown.err


def test_a_program_can_ask_whether_it_is_up(capsys):
    assert exit_code("status", "--json") == ExitCode.NOT_POSSIBLE
    assert json.loads(capsys.readouterr().out) == {"name": "default", "up": False}


def test_taking_down_what_is_not_up_is_no_error(capsys):
    assert exit_code("down", "--json") == ExitCode.DONE
    assert json.loads(capsys.readouterr().out) == {"name": "default", "up": False, "was_up": False}
    assert exit_code("down") == ExitCode.DONE
    assert "was not up" in capsys.readouterr().err


def test_missing_programs_are_named_all_at_once(monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert exit_code("up") == ExitCode.NOT_POSSIBLE
    said = capsys.readouterr().err
    assert "`ip`" in said
    assert "`nsenter`" in said
    assert "apt-get install iproute2" in said


def test_the_folder_is_made_for_one_user(runtime):
    exit_code("down")
    assert stat.S_IMODE((runtime / "stackproof").stat().st_mode) == 0o700


@pytest.mark.parametrize("action", ["up", "down", "status"])
def test_a_folder_that_others_could_use_is_refused(action, runtime, capsys):
    (runtime / "stackproof").mkdir()
    (runtime / "stackproof").chmod(0o755)
    assert exit_code(action) == ExitCode.NOT_POSSIBLE
    assert "is not for you alone" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["up", "down", "status"])
def test_a_link_in_the_place_of_the_folder_is_refused(action, runtime, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (runtime / "stackproof").symlink_to(elsewhere)
    assert exit_code(action) == ExitCode.NOT_POSSIBLE
    assert list(elsewhere.iterdir()) == []


def test_a_file_in_the_place_of_the_folder_is_refused(runtime):
    (runtime / "stackproof").write_text("mine\n")
    assert exit_code("up") == ExitCode.NOT_POSSIBLE
    assert (runtime / "stackproof").read_text() == "mine\n"


def test_a_state_of_another_version_is_no_cluster(runtime):
    folder = runtime / "stackproof" / "default"
    folder.mkdir(parents=True)
    (runtime / "stackproof").chmod(0o700)
    (folder / "state.json").write_text('{"schema": "stackproof/cluster/999"}')
    assert exit_code("status") == ExitCode.NOT_POSSIBLE
    assert exit_code("down") == ExitCode.DONE
    assert not folder.exists()


def test_clusters_are_listed_and_what_is_left_of_one_too(runtime, capsys):
    assert exit_code("ls") == ExitCode.DONE
    assert capsys.readouterr() == ("", "note: there is no cluster\n")
    (runtime / "stackproof" / "gone").mkdir(parents=True)
    (runtime / "stackproof").chmod(0o700)
    assert exit_code("ls") == ExitCode.DONE
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["CLUSTER", "NODES", "RATE", "SLURM", "STATE"]
    assert row.split(maxsplit=4) == ["gone", "-", "-", "-", "not up: `cluster down` removes it"]
    assert exit_code("ls", "--json") == ExitCode.DONE
    assert json.loads(capsys.readouterr().out) == [{"name": "gone", "up": False}]


# ------------------------------------------------------------------------------ with Slurm


@pytest.mark.parametrize(
    "argv",
    [
        ("--user=alice:2001",), ("--spank=/x.so",), ("--plugstack=x",), ("--cpus=2",),
        ("--no-pin",), ("--set=A=b",),
    ],
)  # fmt: skip
def test_options_of_slurm_without_slurm_are_a_slip(argv, capsys):
    assert exit_code("up", *argv) == ExitCode.USAGE
    assert "--slurm" in capsys.readouterr().err


def test_slurm_without_root_or_programs_says_both(monkeypatch, capsys):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert exit_code("up", "--slurm") == ExitCode.NOT_POSSIBLE
    said = capsys.readouterr().err
    assert "needs root" in said
    # of a virtual environment as well, where sudo does not look
    assert f"run it as root: sudo {sys.prefix}/bin/stackproof cluster up --slurm" in said
    assert "leave out --slurm" in said


def test_all_that_slurm_lacks_is_one_list_and_one_command(monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setattr(plugin, "_HEADERS", "/nowhere")
    plugin._tool.cache_clear()
    assert exit_code("up", "--slurm") == ExitCode.NOT_POSSIBLE
    plugin._tool.cache_clear()
    said = capsys.readouterr().err
    assert said.count("error: ") == 1
    for name in ("ip", "slurmctld", "munged", "/nowhere/slurm/spank.h", "meson"):
        assert f"`{name}`" in said
    assert said.count("apt-get install") == 1
    (command,) = (line for line in said.splitlines() if "apt-get install" in line)
    assert {"slurmctld", "munge", "libslurm-dev", "meson", "iproute2"} <= set(command.split())
    assert "setsid" not in command.split()  # it is of util-linux


def test_a_plug_in_that_cannot_be_built_names_all_it_lacks(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setattr(plugin, "_HEADERS", "/nowhere")
    plugin._tool.cache_clear()
    own, why = plugin.find()
    plugin._tool.cache_clear()
    assert own is None
    assert "`/nowhere/slurm/spank.h`, `meson`, `ninja`, `cc` is not installed" in why
    assert "libslurm-dev" in why


# ------------------------------------------------------------------------------ root's


def test_root_is_told_by_the_processes_of_a_cluster(monkeypatch):
    need("root")
    words = ["sh", "-c", "echo; read line", "/x/stackproof/cluster/effects/node.py", "head", "7"]
    held = [
        subprocess.Popen([*words, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for folder in ("/run/user/0/stackproof/lab", "/run/user/0/stackproof/B A D")
    ]
    try:
        for process in held:
            assert process.stdout is not None
            process.stdout.readline()  # it is what it will be
        assert cluster_state.list_of_others() == {}
        monkeypatch.setattr("os.geteuid", lambda: 1000)
        assert cluster_state.list_of_others()["lab"] == "root"
        assert "B A D" not in cluster_state.list_of_others()
    finally:
        for process in held:
            process.communicate(b"\n", timeout=600)


def test_a_cluster_of_root_is_shown_to_a_user_who_is_sent_to_sudo(monkeypatch, capsys):
    monkeypatch.setattr(cluster_state, "list_of_others", lambda: {"lab": "root"})
    program = f"sudo {sys.prefix}/bin/stackproof"
    assert exit_code("ls") == ExitCode.DONE
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].split(maxsplit=4) == ["lab", "-", "-", "-", "up, root's: sudo"]
    assert f"{program} cluster ls" in shown.err
    assert exit_code("ls", "--json") == ExitCode.DONE
    assert json.loads(capsys.readouterr().out) == [{"name": "lab", "up": True, "owner": "root"}]
    for verb in (["exec", "--name=lab", "--", "true"], ["status", "--name=lab"],
                 ["kill", "node1", "--name=lab"], ["down", "--name=lab"]):  # fmt: skip
        assert exit_code(*verb) == ExitCode.NOT_POSSIBLE
        said = capsys.readouterr().err
        assert "error: the cluster `lab` is root's [not-permitted]" in said
        assert f"hint: use it as root: {program} cluster " in said
        assert said.rstrip().endswith("--name lab")
    assert exit_code("exec", "--", "true") == ExitCode.NOT_POSSIBLE
    assert "is not up" in capsys.readouterr().err


def test_clusters_of_all_users_are_named_after_their_owners(monkeypatch):
    heads = [(1, 0, b"/r/both"), (2, 4321, b"/r/both"), (3, 4321, b"/r/lab"), (4, 1000, b"/r/own")]
    monkeypatch.setattr(cluster_state, "_all_heads", lambda: iter(heads))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert cluster_state.list_of_others() == {"both": "root", "lab": "user 4321"}
    assert cluster_state.describe_owner("own") == ""
    assert "user 4321's, not yours" in cluster_state.describe_owner("lab")


@pytest.mark.parametrize("owner", ["root", "ada"])
def test_the_status_of_somebody_elses_cluster_says_whose_it_is(monkeypatch, capsys, owner):
    monkeypatch.setattr(cluster_state, "list_of_others", lambda: {"default": owner})
    assert exit_code("status") == ExitCode.NOT_POSSIBLE
    shown = capsys.readouterr()
    assert shown.out == f"cluster  default, {owner}'s; you have none that is up\n"
    assert "error" not in shown.err
    assert ("sudo " in shown.err) == (owner == "root")
    assert exit_code("status", "--json") == ExitCode.NOT_POSSIBLE
    assert json.loads(capsys.readouterr().out) == {"name": "default", "up": True, "owner": owner}
    assert exit_code("ls") == ExitCode.DONE
    assert f"up, {owner}'s" in capsys.readouterr().out
    assert exit_code("down") == ExitCode.DONE
    assert f"`default` that is up is {owner}'s, not yours" in capsys.readouterr().err
