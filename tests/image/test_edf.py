"""Environment definitions: the keys that CSCS documents, read back as TOML."""

from __future__ import annotations

import tomllib

import pytest

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, StackproofError
from stackproof.image.container import edf
from stackproof.image.container.edf import JobContainer, JobContents

# EDF reference (docs.cscs.ch) for all but `devices`, which the user guide of Sarus Suite has.
DOCUMENTED: dict[str, type] = {
    "image": str, "workdir": str, "entrypoint": bool,
    "writable": bool, "mounts": list, "devices": list, "env": dict, "annotations": dict,
}  # fmt: skip


def test_every_key_is_documented_and_of_its_type() -> None:
    data = tomllib.loads(
        edf.render(
            JobContainer(
                image="/a b.sqsh",
                mounts=("${SCRATCH}:/scratch",),
                workdir="/scratch",
                entrypoint=False,
                writable=True,
                devices=("nvidia.com/gpu=all", "/dev/gdrdrv"),
                env={"A": "1"},
                annotations={edf.CXI_HOOK: "true", "com.hooks.ssh.enabled": "false"},
            )
        )
    )
    assert set(data) == set(DOCUMENTED)
    assert all(isinstance(value, DOCUMENTED[key]) for key, value in data.items())
    hooks = data["annotations"]["com"]["hooks"]
    assert hooks == {"cxi": {"enabled": "true"}, "ssh": {"enabled": "false"}}


def test_annotations_are_dotted_as_the_documentation_has_them() -> None:
    text = edf.render(JobContainer(annotations={edf.CXI_HOOK: "true"}))
    assert text.splitlines()[-2:] == ["[annotations]", 'com.hooks.cxi.enabled = "true"']


@pytest.mark.parametrize("odd", ['a"b', "\\", "x\ty\n", "\x7f\x01", "é", "\U0001f600"])
def test_every_text_survives(odd: str) -> None:
    container = JobContainer(image=odd, env={"A.B": odd}, mounts=(odd,))
    data = tomllib.loads(edf.render(container))
    assert data == {"image": odd, "env": {"A.B": odd}, "mounts": [odd]}


def test_what_is_literal_is_no_variable() -> None:
    assert edf.mount("/a$b", "/c") == "/a$$b:/c:ro"
    env = edf.complete(JobContainer(), JobContents(env=EnvPatch(set={"X": "$HOME"}))).env
    assert env == {"X": "$$HOME"}
    assert edf.parse_words(["${SCRATCH}"], ["X=${HOME}"], []) == JobContainer(
        mounts=("${SCRATCH}:${SCRATCH}",), env={"X": "${HOME}"}
    )


def test_a_stack_for_gpus_gets_devices_and_variables() -> None:
    contents = JobContents(gpu="cuda", switches={"MPIR_CVAR_CH4_OFI_ENABLE_HMEM": "1"})
    whole = edf.complete(JobContainer(), contents)
    assert whole.devices == ("nvidia.com/gpu=all",)
    assert whole.env == {
        "MPIR_CVAR_CH4_OFI_ENABLE_HMEM": "1", "NVIDIA_VISIBLE_DEVICES": "all",
    }  # fmt: skip
    assert whole.annotations == {"com.hooks.cxi.enabled": "true"}
    asked = JobContainer(
        devices=("none",), env={"NVIDIA_VISIBLE_DEVICES": "0"}, annotations={edf.CXI_HOOK: "false"}
    )
    other = edf.complete(asked, contents)
    assert (other.devices, other.annotations) == ((), {"com.hooks.cxi.enabled": "false"})
    assert other.env["NVIDIA_VISIBLE_DEVICES"] == "0"
    rocm = edf.complete(JobContainer(), JobContents(gpu="rocm"))
    assert (rocm.devices, rocm.env) == (("amd.com/gpu=all",), {})
    assert edf.complete(JobContainer(), JobContents()).devices == ()


def test_the_variables_of_a_stack_that_is_mounted() -> None:
    patch = EnvPatch(
        set={"MPI": "/m"}, unset=("OLD",), prepend={"PATH": ("/m/bin",), "MANPATH": ("/m/man",)}
    )
    env = edf.complete(JobContainer(), JobContents(env=patch, whole=True)).env
    assert env == {"MPI": "/m", "OLD": "", "PATH": "/m/bin:${PATH}", "MANPATH": "/m/man"}
    assert edf.complete(JobContainer(), JobContents(env=patch)).env == {"MPI": "/m"}


@pytest.mark.parametrize("word", ["/a", "/a:/b", "/a:/b:ro+private", "./a:/b", "${A:-/b}/c:/d"])
def test_mounts(word: str) -> None:
    (mount,) = edf.parse_words([word], [], []).mounts
    assert mount == ("/a:/a" if word == "/a" else word)


def test_all_wrong_words_at_once() -> None:
    with pytest.raises(StackproofError) as caught:
        edf.parse_words(
            ["a", "/a:/b:ro:x", ""],
            ["1A=b", "A"],
            ["com.hooks.cxi=1", "a b=c", "x.y=1", "x.y.z=2"],
        )
    assert {one.reason for one in caught.value.problems} == {Reason.INVALID_VALUE}
    assert [one.message.split("`")[1] for one in caught.value.problems] == [
        "a", "/a:/b:ro:x", "", "1A=b", "A", "a b=c", "x.y", "com.hooks.cxi.enabled",
    ]  # fmt: skip
