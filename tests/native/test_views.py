"""What the Slurm plug-in makes of an image by itself is what `stackproof activate` makes of it.

The plug-in may say that it does not understand and ask the program; it may never say another thing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from images import ENV_JSON, MOUNT, env_json, make_image
from need import need
from stackproof.core import mountlist
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.image import activate, described, view_variables
from stackproof.mount import undo

pytestmark = [
    pytest.mark.guarantee(
        "The plug-in for Slurm",
        "What root reads of the user",
        "is one variable of the job, a mount list of at most 128 KiB and 64 entries. The "
        "helper's code parses it. An image's metadata are read at submission, as the user. "
        "`unsquashfs` gives the `meta/env.json`, of at most 1 MiB. A reader bounded in depth, "
        "count and memory decides what it sets. It is only applied to the user's own "
        "environment.",
    ),
]

_ASK = 3
Answer = tuple[str, dict[str, str], set[str]]


class Views:
    """Images of which only the metadata matter, and both who read them."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder = folder
        self._program = program

    def image(self, text: str | bytes | Mapping[str, Any], name: str = "a") -> Path:
        """Make an image whose `meta/env.json` is `text`."""
        path = self.folder / f"{name}.squashfs"
        if not path.exists():
            os.link(self.folder / "plain", path)
        data = json.dumps(text) if isinstance(text, Mapping) else text
        whole = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        Path(f"{path}.json").write_bytes(whole)
        return path

    def by_plugin(
        self, images: str, views: str | None, environment: Mapping[str, str]
    ) -> Answer | None:
        """Return what the plug-in says; None where it would ask."""
        words = [self._program, "answer", images, *([views] if views else [])]
        done = subprocess.run(
            words, env={**environment, "PATH": self.path(environment)}, capture_output=True,
            cwd=self.folder, timeout=600, check=False,
        )  # fmt: skip
        if done.returncode == _ASK:
            return None
        assert done.returncode == 0, done.stderr
        return _read(done.stdout)

    def by_package(
        self, images: str, views: str | None, environment: Mapping[str, str]
    ) -> Answer | StackproofError:
        """Return what the package says: as mount/effects/activation.py does it, without a process."""
        now = {**environment, "PATH": self.path(environment)}
        before = undo.left(now)
        try:
            requests = mountlist.parse(images)
            found = []
            for request in requests:
                text = Path(f"{request.image}.json").read_bytes()
                found.append(described.parse(text, path=request.image, size=1))
            points = [
                request.mount_point or image.mount
                for request, image in zip(requests, found, strict=True)
            ]
            for point in points:
                if mountlist.bad_mount_point(point):
                    raise fail(Reason.BAD_MOUNT_POINT, point)
            chosen = (
                () if views == "none"
                else activate.choose_views(found, views.split(",") if views else (), permitted=())
            )  # fmt: skip
            activate.forced_transport(found, chosen)
            patch = activate.combined(chosen, environment=before)
        except StackproofError as error:
            return error
        after = undo.entered(before, patch)
        to_set, to_unset = undo.difference(now, after)
        mounts = ",".join(
            f"{request.image}:{mountlist.normal(point)}"
            for request, point in zip(requests, points, strict=True)
        )
        return mounts, to_set, set(to_unset)

    def path(self, environment: Mapping[str, str]) -> str:
        """Return a PATH on which the stand-in of unsquashfs is found first."""
        return f"{self.folder}/bin:/usr/bin:/bin{environment.get('PATH', '')}"

    def compare(
        self, images: str, views: str | None = None, environment: Mapping[str, str] | None = None
    ) -> Answer | None:
        """Ask both; fail where they differ, and return what the plug-in said."""
        environment = environment or {}
        ours = self.by_plugin(images, views, environment)
        theirs = self.by_package(images, views, environment)
        if ours is not None:
            assert not isinstance(theirs, StackproofError), (theirs, ours)
            now = {**environment, "PATH": self.path(environment)}
            assert _seen(ours, now) == _seen(theirs, now)
        return ours


def _read(output: bytes) -> Answer:
    mounts, to_set, to_unset = "", {}, set()
    for record in os.fsdecode(output).split("\0")[:-1]:
        kind, _, rest = record.partition(" ")
        if kind == "mounts":
            mounts = rest
        elif kind == "set":
            name, _, value = rest.partition("=")
            to_set[name] = value
        else:
            to_unset.add(rest)
    return mounts, to_set, to_unset


def _seen(answer: Answer, environment: Mapping[str, str]) -> tuple[object, ...]:
    """Return what a job would see; the record as data, as the order of its members means nothing."""
    mounts, to_set, to_unset = answer
    after = {name: value for name, value in environment.items() if name not in to_unset} | to_set
    record = after.pop(undo.UNDO, None)
    return mounts, after, json.loads(record) if record else None


@pytest.fixture(scope="module")
def views(built, tmp_path_factory):
    need("slurm-headers", "mksquashfs")
    folder = tmp_path_factory.mktemp("views")
    make_image(folder / "plain")
    stand_in = folder / "bin" / "unsquashfs"
    stand_in.parent.mkdir()
    stand_in.write_text('#!/bin/sh\n[ "$#" = 5 ] && exec cat "$4.json"\nexit 1\n')
    stand_in.chmod(0o755)
    return Views(folder, built / "spank" / "test_spank")


def _view(lists: Any = None, scalars: Any = None, **more: Any) -> dict[str, Any]:
    values = {"list": lists, "scalar": scalars}
    return {"root": "/r", "env": {"values": values}, **more}


def _with(**named: Any) -> dict[str, Any]:
    return env_json(views=named, **{"default-view": next(iter(named))})


_LISTS: tuple[Sequence[tuple[str, list[str]]], ...] = (
    [("prepend", ["/a", "/b"])],
    [("append", ["/a", "/b"])],
    [("prepend", ["/a"]), ("prepend", ["/b"]), ("append", ["/c"]), ("append", ["/d"])],
    [("set", ["/a", "/b"])],
    [("set", ["/a"]), ("prepend", ["/b"]), ("append", ["/c"])],
    [("prepend", ["/b"]), ("set", ["/a"])],
    [("unset", [])],
    [("unset", ["/ignored"]), ("append", ["/c"])],
    [("nonsense", ["/x"])],
    [("set", [])],
    [("set", [""])],
    [("set", ["", ":"])],
    [("set", ["/a", "", "/a"])],
    [("prepend", [])],
    [("prepend", [""])],
    [("prepend", ["/old:/a:/old"])],
    [("prepend", ["${@HOME@}/bin", "${@NONE@}", "${@HOME"]), ("append", ["@}/x"])],
    [("set", ["${@HO", "ME@}"])],
    [("set", ["${@HOME@}${@FI_LIST@}", "$HOME"])],
    [],
)


@pytest.mark.parametrize("operations", _LISTS)
@pytest.mark.parametrize("before", [None, "", "/old", "/old::/a:/old:"])
def test_lists(views, operations, before):
    ops = [{"op": op, "value": value} for op, value in operations]
    image = views.image(_with(one=_view({"FI_LIST": ops})))
    environment = {"HOME": "/house/u"} | ({} if before is None else {"FI_LIST": before})
    assert views.compare(str(image), None, environment) is not None


@pytest.mark.parametrize(
    "scalars",
    [
        {"FI_A": "b"},
        {"FI_A": ""},
        {"FI_A": None, "FI_H": None},
        {"FI_A": "${@FI_H@}/${@FI_H@}", "FI_H": "/elsewhere"},
        {"FI_A": '\u00e9\U0001f600 " \\ \n\t\x7f'},
        {"FI_A": "${@A=B@}"},
        {},
        None,
    ],
)
def test_scalars(views, scalars):
    image = views.image(_with(one=_view(None, scalars)))
    assert views.compare(str(image), None, {"FI_H": "/house/u", "FI_A": "old"}) is not None


def test_several_views_and_images(views):
    lists = {"FI_LIST": [{"op": "prepend", "value": ["/one"]}]}
    first = views.image(
        _with(
            one=_view(lists, {"FI_A": "1"}),
            two=_view({"FI_LIST": [{"op": "set", "value": ["/t"]}]}),
        )
        | {"name": "first"},
        "first",
    )
    second = views.image(
        _with(three=_view(lists, {"FI_A": None})) | {"name": "second", "mount": "/user-tools"},
        "second",
    )
    both = f"{first},{second}"
    for names in (None, "one", "two,one", "one,two", "first:two,second:three", "none"):
        assert views.compare(both, names, {"FI_A": "0", "FI_LIST": "/l"}) is not None, names
    for names in ("four", "first:three", ":one", "one:one", "one,four", ""):
        assert views.by_plugin(both, names or ",", {}) is None
    assert views.compare(f"{first}:/user-tools,{second}:/user-environment") is not None
    assert views.by_plugin(f"{first},{first}", None, {}) is None, "two at one place"


@pytest.mark.parametrize(
    "record",
    [
        '{"FI_A":["before","now"]}',
        '{"FI_A":["before","other"],"FI_B":[null,"b"]}',
        '{"FI_A":[null,"now"],"C":["c",null]}',
        '{"FI_A":["\\udce9","now"]}',
        '{"FI_A":["\\u00e9\\ud83d\\ude00","now"]}',
        '{"FI_A":["x"],"FI_B":"y","C":["a","b","c"],"D":[1,2],"E":{"a":"b"},"F":[[],null]}',
        "{}",
    ],
)
def test_records_of_other_views_are_taken_back(views, record):
    image = views.image(_with(one=_view(None, {"FI_N": "${@FI_A@}"})))
    environment = {"FI_A": "now", "FI_B": "b", undo.UNDO: record}
    for names in (None, "none"):
        assert views.compare(str(image), names, environment) is not None


@pytest.mark.parametrize(
    "record",
    [
        "", "nonsense", "[]", '{"FI_A":["a","b"],"FI_A":[null,"now"]}', '{"FI_A":["\\ud800","now"]}',
        '{"FI_A":["\\udcc3\\udca9","now"]}', '{"A=B":["x",null]}', '{"":["x",null]}',
        '{"FI_A":["\\u0000","now"]}', '{"\\u0046I_A":["a","now"],"FI_A":["b","now"]}', '{"FI_A":NaN}',
        "[" * 100_000, '{"FI_A":["a","b"]}x', "null", "{" + ",".join(f'"{n}":[]' for n in range(2000)) + "}",
    ],
)  # fmt: skip
def test_records_that_nobody_wrote(views, record):
    image = views.image(_with(one=_view(None, {"FI_N": "x"})))
    views.compare(str(image), None, {"FI_A": "now", undo.UNDO: record})


def test_what_is_not_utf8_stays_as_it_is(views):
    image = views.image(
        _with(one=_view({"FI_A": [{"op": "append", "value": ["/x"]}]}, {"FI_B": "b"}))
    )
    environment = {
        "FI_A": os.fsdecode(b"/caf\xe9:/\xc3\xa9"),
        "FI_B": os.fsdecode(b"\xff\xed\xa0\x80"),
    }
    answer = views.compare(str(image), None, environment)
    assert answer is not None
    assert views.compare(str(image), "none", environment | answer[1]) is not None


_BAD: tuple[str | bytes, ...] = (
    b"", b"null", b"[]", b"{}", b"{", b'"text"', b"\xef\xbb\xbf{}", b"{}\0", "{}".encode("utf-16"),
    b'{"mount": "/user-environment"} {}', b'{"mount": "/user-environment", "x": 01}',
    b'{"mount": "/user-environment", "x": 1.}', b'{"mount": "/user-environment", "x": -}',
    b'{"mount": "/user-environment", "x": 1e}', b'{"mount": "/user-environment", "x": +1}',
    b'{"mount": "/user-environment", "x": NaN}', b'{"mount": "/user-environment", "x": \'y\'}',
    b'{"mount": "/user-environment", "x": "\xff"}', b'{"mount": "/user-environment", "x": "\x01"}',
    b'{"mount": "/user-environment", "x": "\\x"}', b'{"mount": "/user-environment",}',
    b'{"mount": "/user-environment", "x": ' + b"9" * 5000 + b"}",
    b'{"mount": "/user-environment", "x": ' + b"[" * 70 + b"]" * 70 + b"}",
    b'{"mount": "/user-environment", "x": ' + b"[" * 100_000,
    b'{"mount": "/user-environment", "x": "' + b"y" * (1 << 21) + b'"}',
    b'{"mount": "/user-environment", "mount": "/user-tools"}',
)  # fmt: skip


@pytest.mark.parametrize("text", _BAD)
def test_texts_that_are_no_metadata(views, text):
    views.compare(str(views.image(text)))


def _changed(path: str, value: Any) -> dict[str, Any]:
    data = env_json()
    place: Any = data
    *folders, last = path.split("/")
    for name in folders:
        place = place.setdefault(name, {})
    place[last] = value
    return data


_PLACES = (
    "name", "mount", "description", "default-view", "views", "mpi", "stackproof", "mpi/family",
    "views/default", "views/bare", "views/default/root", "views/default/description",
    "views/default/env", "views/default/env/values", "views/default/env/values/list",
    "views/default/env/values/scalar", "views/default/env/values/list/PATH",
    "views/default/env/values/scalar/MPI_TINY", "stackproof/benchmarks", "stackproof/transports",
    "stackproof/stack", "stackproof/lock", "stackproof/architecture", "stackproof/benchmarks/x",
    "views/default/env/values/x",
    "views/default/env/values/scalar/A=B", "views/default/env/values/scalar/",
    "views/default/env/values/scalar/a\0b", "views/default/env/values/scalar/a\ud800",
    "views/default/env/values/list/A=B", "views/", "unknown",
)  # fmt: skip
_VALUES = (
    None, "", "x", "/user-tools", "/etc", "relative", "/a/../b", "/", "a\0b", "\ud800", "\u202e", 0, 1,
    1.5, True, False, [], {}, [1], ["x"], ["default"], [["default"]], {"x": None}, {"x": "y"},
    [{"op": "set", "value": ["y"]}], [{"op": 1, "value": []}], [{"value": ["y"]}], [{"op": "set"}],
    [{"op": "set", "value": [1]}], [{"op": "set", "value": None}], [None], [{"op": "set", "value": "y"}],
    "y" * 300_000,
)  # fmt: skip


def test_types_at_places(views):
    """Every type where a list of operations belongs, and some type at every other place."""
    some = [(path, _VALUES[7 * at % len(_VALUES)]) for at, path in enumerate(_PLACES)]
    every = [("views/default/env/values/list/PATH", value) for value in _VALUES]
    for path, value in some + every:
        views.compare(str(views.image(_changed(path, value))), None, {"MPI_TINY": "old"})


@pytest.mark.battery
@pytest.mark.parametrize("path", _PLACES)
def test_every_type_at_every_place(views, path):
    for value in _VALUES:
        image = views.image(_changed(path, value))
        for names in (None, "bare"):
            views.compare(str(image), names, {"MPI_TINY": "old"})


def test_usual_images_need_nobody_else(views):
    transports = {**ENV_JSON["stackproof"], "transports": ["bare"]}
    for data in (ENV_JSON, {"mount": MOUNT}, _changed("stackproof", transports)):
        for names in (
            None,
            "none",
            *(("default", "bare,default", "tiny:default") if "views" in data else ()),
        ):
            assert views.compare(str(views.image(data)), names) is not None


def test_views_that_force_two_transports_are_left_to_the_program(views):
    data = _changed("stackproof/transports", ["default", "bare"])
    assert views.compare(str(views.image(data)), "default") is not None
    assert views.by_plugin(str(views.image(data)), "default,bare", {}) is None


@pytest.mark.parametrize("count", [511, 512, 513, 5000])
def test_many_variables_and_views(views, count):
    scalars = {f"FI_V{number}": "x" for number in range(count)}
    data = _with(one=_view(None, scalars), **{f"w{n}": _view() for n in range(count - 1)})
    answer = views.compare(str(views.image(data)))
    assert (answer is not None) == (count <= 512)


@pytest.mark.guarantee(
    "What others wrote",
    "Views change search paths, compilers, and what MPIs and their parts read.",
)
@pytest.mark.parametrize(
    ("name", "value", "ends"),
    [
        ("FI_X", "x", "plugin"), ("EBROOTGSL", "/x", "plugin"), ("CC", "gcc", "plugin"),
        ("GSL_ROOT_DIR", f"{MOUNT}/gsl", "package"), ("HISTFILE", f"{MOUNT}/x", "nobody"),
        ("ESMFMKFILE", f"{MOUNT}/a:{MOUNT}/b", "package"), ("PATHS", "/x", "nobody"),
        ("ESMFMKFILE", f"{MOUNT}/../../var/x", "nobody"), ("fI_X", "x", "nobody"),
        ("ESMFMKFILE", f"{MOUNT}/a:/b", "nobody"), ("LD_PRELOAD", f"{MOUNT}/x", "nobody"),
        ("HYDRA_LAUNCHER_EXEC", "/x", "nobody"), ("OMPI_MCA_plm_rsh_agent", "x", "nobody"),
        ("UCX_LOG_FILE", "/x", "nobody"), ("MPIR_CVAR_X_FILE", f"{MOUNT}/x", "package"),
        ("UENV_MOUNT_LIST", "/x", "nobody"), ("CURL_HOME", f"{MOUNT}/x", "nobody"),
        ("TEXTDOMAINDIR", f"{MOUNT}/x", "nobody"), ("PYTHONUSERBASE", f"{MOUNT}/x", "nobody"),
        ("SRUN_STACKPROOF_IMAGE", f"{MOUNT}/x", "nobody"), ("__fish_data_dir", f"{MOUNT}", "nobody"),
        ("CCACHE_DIR", "/x", "nobody"), ("PATH_X", "x", "nobody"), ("HOME", None, "nobody"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["scalar", "list"])
def test_who_decides_on_a_variable(views, name, value, ends, kind):
    """The plug-in uses what is listed; of the rest it asks the program, which may refuse."""
    operation = {"op": "unset" if value is None else "prepend", "value": [value or ""]}
    view = _view({name: [operation]}) if kind == "list" else _view(None, {name: value})
    image = str(views.image(_with(one=view)))
    assert (views.compare(image) is not None) == (ends == "plugin")
    refused = views.by_package(image, None, {})
    assert isinstance(refused, StackproofError) == (ends == "nobody")


def test_both_have_one_list_of_variables():
    source = (Path(__file__).parents[2] / "native" / "spank" / "variables.c").read_text()
    texts = dict(re.findall(r"(\w+)\[\] = \{([^}]*)\}", source))
    tables = {name: tuple(re.findall(r'"(\w+)"', text)) for name, text in texts.items()}
    assert set(tables["names"]) == view_variables.NAMES
    assert tables["families"] == view_variables.FAMILIES
    assert tables["steering"] == view_variables.STEERING


def test_references_do_not_take_all_memory(views):
    """A hostile image names a long variable very often; the answer is `no`, soon."""
    data = _with(one=_view(None, {"FI_A": "${@LONG@}" * 50_000}))
    assert views.by_plugin(str(views.image(data)), None, {"LONG": "x" * 100_000}) is None


_TEXTS = st.lists(
    st.sampled_from(
        ("", ":", "/a", "/b", "${@", "@}", "FI_A", "${@FI_A@}", "${@HOME@}", "\u00e9", " ")
    ),
    max_size=5,
).map("".join)
_NAMES = st.sampled_from(("FI_A", "FI_B", "FI_LIST", "FI_H", "MANPATH"))
_OPERATIONS = st.lists(
    st.fixed_dictionaries({
        "op": st.sampled_from(("prepend", "append", "set", "unset", "other")),
        "value": st.lists(_TEXTS, max_size=3),
    }),
    max_size=4,
)  # fmt: skip
_VIEW = st.builds(
    _view,
    st.dictionaries(_NAMES, _OPERATIONS, max_size=4),
    st.dictionaries(_NAMES, st.one_of(st.none(), _TEXTS), max_size=4),
)
_ENVIRONMENT = st.dictionaries(st.sampled_from(("FI_A", "FI_B", "FI_LIST", "FI_H", "HOME")), _TEXTS)


@pytest.mark.battery
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=_VIEW, second=_VIEW, environment=_ENVIRONMENT)
def test_any_views_in_any_environment(views, first, second, environment):
    image = str(views.image(_with(one=first, two=second)))
    once = views.compare(image, "one,two", environment)
    assert once is not None
    if len("".join(once[1].values())) < 20_000:
        views.compare(image, "two", {**environment, **once[1]})


def test_with_the_real_unsquashfs(built, tmp_path):
    """The whole way, through files: the same records as those of the command."""
    need("slurm-headers", "mksquashfs")
    make_image(tmp_path / "a.squashfs")
    program = built / "spank" / "test_spank"
    environment = {"PATH": os.environ["PATH"], "HOME": "/house/u", "MPI_TINY": "old"}
    done = subprocess.run(
        [program, "answer", "a.squashfs"], env=environment, cwd=tmp_path, capture_output=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = subprocess.run(
        [sys.executable, "-m", "stackproof", "activate", "--null", "a.squashfs"], env=environment,
        cwd=tmp_path, capture_output=True, timeout=600, check=True,
    )  # fmt: skip
    records = asked.stdout.split(b"\0", 1)[1].removesuffix(b"end\0")
    assert _seen(_read(done.stdout), environment) == _seen(_read(records), environment)
