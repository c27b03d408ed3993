"""Stack and lock to plan, metadata and bill of materials; what EasyBuild says to reasons."""

from __future__ import annotations

import json

import pytest

from easybuilds import lock, plan, stack
from stackproof.build.engines.easybuild import engine, layout, tool
from stackproof.build.engines.easybuild.chain import Chain
from stackproof.build.engines.easybuild.components import ChainRequest, ExternalComponent
from stackproof.build.engines.easybuild.effects import builder, hooks
from stackproof.build.engines.easybuild.engine import render_bom
from stackproof.build.engines.easybuild.stack import (
    Below,
    EasyBuildLock,
    EasyBuildStack,
    make_lock,
    wants,
)
from stackproof.build.plan import Plan, Step
from stackproof.build.stack import Artefact, StackView
from stackproof.core import noun
from stackproof.core.command import Completed, EnvPatch
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.mpi.transports.profile import Libfabric, libfabric_of
from tinysources import LIBRARY

TOOL = (
    Artefact(name="easybuild-framework", version="5.4.1", filename="f.tar.gz", sha256="1" * 64),
)


def steps(made: Plan) -> dict[str, Step]:
    return {step.name: step for step in made.steps}


def ids(made: Plan) -> dict[str, str]:
    return {step.name: step.id for step in made.steps}


def test_nouns_round_trip() -> None:
    assert noun.from_json(EasyBuildStack, noun.to_json(stack())) == stack()
    assert noun.from_json(EasyBuildLock, noun.to_json(lock(TOOL))) == lock(TOOL)


def test_one_step_for_each_component_on_those_it_needs() -> None:
    made = steps(plan(stack(), lock(TOOL)))
    assert list(made) == [
        "easybuild",
        "two-1.0",
        "four-1.0",
        "tidy",
        "metadata",
        "image",
    ]
    assert made["two-1.0"].inputs == (made["easybuild"].id,)
    assert made["four-1.0"].inputs == (made["easybuild"].id, made["two-1.0"].id)
    assert made["two-1.0"].outputs == (
        "software/two/1.0", "modules/lua/all/two/1.0.lua", "modules/tcl/all/two/1.0",
    )  # fmt: skip
    assert not any(step.network for step in made.values())
    (command,) = made["two-1.0"].commands
    assert "--ignore-locks" in command.argv  # those of a build that was killed
    assert "--optarch=GENERIC" in command.argv


def test_what_changes_which_step() -> None:
    before = ids(plan(stack(), lock(TOOL)))

    def changed(**changes: object) -> set[str]:
        after = ids(plan(stack(**changes), lock(TOOL)))
        return {name for name in before if before[name] != after[name]}

    assert changed(description="other words") == {"metadata", "image"}
    assert changed(compression_level=9) == {"metadata", "image"}  # the image says so of itself
    assert changed(optarch="march=znver3") == set(before) - {"easybuild"}
    assert changed(mount="/user-tools") == set(before)
    assert changed(site_facts={"compiler": "gcc 13"}) == set(before)

    library = {**LIBRARY, "two.h": "/* other */\n"}
    after = ids(plan(stack(), lock(TOOL, library)))
    assert {name for name in before if before[name] != after[name]} == set(before) - {"easybuild"}


def test_modules_of_the_machine_are_said_to_easybuild() -> None:
    below = Below(path="/eessi", modules=("/eessi/modules/all",))
    step = steps(plan(stack(below=below), replace(lock(TOOL), metadata="[x]\n")))["two-1.0"]
    (command,) = step.commands
    assert command.env.set["MODULEPATH"] == "/user-environment/modules/lua/all:/eessi/modules/all"
    assert "--external-modules-metadata=external-modules.cfg" in command.argv
    assert step.build_files["external-modules.cfg"] == "[x]\n"


def test_the_lock_names_one_digest_and_what_was_asked() -> None:
    two, four = lock().components
    chain = Chain(easyconfigs=(two, four))
    digests = {
        source.filename: source.accepted[0].sha256 for one in (two, four) for source in one.sources
    }
    made = make_lock(stack(), chain, TOOL, digests)
    assert made.components == (two, four)
    assert made.wants == wants(stack())
    assert wants(stack(description="x", mount="/user-tools")) == made.wants
    other = ChainRequest(libfabric="1.1", providers=("tcp", "shm"))
    assert wants(stack(request=other)) != made.wants
    assert wants(stack(easybuild="5.4.0")) != made.wants


def test_the_bill_names_sources_licences_and_providers() -> None:
    text = render_bom(stack(), lock(TOOL))
    assert text == render_bom(stack(), lock(TOOL))
    assert libfabric_of(text) == Libfabric(version="1.0", providers=frozenset(("tcp", "shm")))
    bill = json.loads(text)
    assert "timestamp" not in bill["metadata"]
    parts = {part["name"]: part for part in bill["components"]}
    assert parts["four"]["licenses"] == [{"license": {"name": "MIT"}}]
    assert (
        parts["four"]["hashes"][0]["content"] == lock().components[1].sources[0].accepted[0].sha256
    )
    assert parts["easybuild-framework"]["scope"] == "excluded"
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert needs["easybuild:four/1.0"] == ["easybuild:two/1.0"]


def test_a_libfabric_of_the_machine_is_in_the_bill_and_in_the_view() -> None:
    request = ChainRequest(
        libfabric="2.2.0", providers=("cxi",),
        externals={"libfabric": ExternalComponent(version="2.2.0", prefix="/opt/cray/libfabric/2.2.0")},
    )  # fmt: skip
    whole = stack(request=request)
    alone = replace(lock(TOOL), components=(replace(lock().components[1], needs=()),))
    parts = {part["name"]: part for part in json.loads(render_bom(whole, alone))["components"]}
    assert parts["libfabric"]["version"] == "2.2.0"
    view = engine.describe_image(whole, alone).views["default"]
    assert view.env.prepend["PATH"] == ("/opt/cray/libfabric/2.2.0/bin",)


def test_the_image_says_what_mpi_it_has_and_what_its_views_do() -> None:
    two, four = lock().components
    whole = stack(
        request=ChainRequest(libfabric="1.0", providers=("tcp",), mpi=("mpich", "1.0")),
        views=(StackView(name="default", env=EnvPatch(set={"ROOT": "@prefix@", "M": "@mount@"})),),
        benchmarks=("stackproof-bench",),
    )
    both = replace(lock(TOOL), components=(two, replace(four, component="mpich")))
    image = engine.describe_image(whole, both)
    assert image.mpi is not None
    assert image.mpi.prefix == "/user-environment/software/four/1.0"
    assert image.mpi.launcher == "hydra"
    view = image.views["default"].env
    assert view.set == {"ROOT": image.mpi.prefix, "M": "/user-environment"}
    assert view.prepend["PATH"][0] == f"{image.mpi.prefix}/bin"
    assert "benchmark" in steps(plan(whole, both))
    assert image.views["modules"].env.prepend["MODULEPATH"] == (
        "/user-environment/modules/tcl/all",
    )


def test_benchmarks_and_diagnostic_programs_are_on_the_path() -> None:
    two, four = lock().components
    both = replace(
        lock(TOOL),
        components=(replace(two, component="libcxi"), replace(four, component="osu")),
    )
    request = ChainRequest(
        libfabric="2.2.0", providers=("cxi",), libcxi_tools=True,
        externals={"libfabric": ExternalComponent(version="2.2.0", prefix="/usr")},
    )  # fmt: skip
    software = "/user-environment/software"
    path = engine.describe_image(stack(request=request), both).views["default"].env.prepend["PATH"]
    assert path == (
        f"{software}/two/1.0/bin",
        *(f"{software}/four/1.0/{folder}" for folder in layout.PROGRAMS["osu"]),
    )
    alone = engine.describe_image(stack(request=replace(request, libcxi_tools=False)), both)
    assert f"{software}/two/1.0/bin" not in alone.views["default"].env.prepend["PATH"]
    assert layout.PROGRAMS["osu"] == tuple(builder.load().components["osu"].builds[0].paths["PATH"])


def test_hooks_and_their_reader_agree() -> None:
    assert hooks._MARK == tool.MARK
    assert {"pre_build_hook", "fail_hook"} <= set(vars(hooks))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "== building",
        f"{tool.MARK}",
        f"{tool.MARK}[1]",
        f"{tool.MARK}{{",
        "x" + tool.MARK,
    ],
)
def test_other_lines_are_no_events(line: str) -> None:
    assert tool.event(line) is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (42, Reason.DIGEST_MISMATCH), (32, Reason.TOOL_MISSING), (30, Reason.FILE_MISSING),
        (41, Reason.NO_NETWORK), (16, Reason.BUILD_FAILED), (1, Reason.BUILD_FAILED),
        ("x", Reason.BUILD_FAILED),
    ],
)  # fmt: skip
def test_exit_codes_are_reasons(code: object, reason: Reason) -> None:
    lines = [
        "== noise",
        tool.MARK + json.dumps({"event": "step", "step": "build", "log": "/build/x.log"}),
        tool.MARK + json.dumps({"event": "fail", "message": "it\nbroke", "code": code}),
    ]
    found = tool.failure("\n".join(lines))
    assert found is not None
    assert (found.reason, found.step, found.log, found.message) == (
        reason, "build", "/build/x.log", "it broke",
    )  # fmt: skip
    assert tool.failure("\n".join(lines[:2])) is None


@pytest.mark.parametrize(
    ("stderr", "reason", "said"),
    [
        ("ERROR: Could not find a version (from versions: 5.3.0, 5.4.1)", Reason.UNKNOWN_VERSION, "5.4.1, 5.3.0"),
        ("Retrying (Retry(total=0))\n(from versions: none)", Reason.NO_NETWORK, "--mirror"),
        ("WARNING: something else", Reason.BUILD_FAILED, ""),
    ],
)  # fmt: skip
def test_why_easybuild_cannot_be_had(stderr: str, reason: Reason, said: str) -> None:
    done = Completed(argv=(), returncode=1, stdout=b"", stderr=stderr.encode(), seconds=0.0)
    problem = tool.explain("9.9.9", done).problems[0]
    assert problem.reason is reason
    assert said in (problem.hint or "")
