"""Hostile trees through every verb that takes a tree apart: nothing outside of its place changes.

Each tree is a good one with things planted (`mutatedtrees`), each verb works in a guarded place
(`guarded`): it ends well or with a reason, what others own stays as it was, and nothing set-uid, no
special file and no foreign owner is there. A part of them is watched at every system call (`watching`).
`STACKPROOF_ATTACK_ROUNDS` says how many trees each verb gets: 40 in `nox -s attacks`.
"""

from __future__ import annotations

import functools
import io
import os
import random
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import everybody
import guixpacks
import mutatedtrees
import rootfslab
import watching
from guarded import NOBODY, Guarded, remove
from mutatedtrees import MutatedTree
from need import need
from packs import CALLS_ANSWER, MOUNT, Stack
from registries import OwnRegistry
from stackproof.core.value import replace
from stackproof.share import manifests
from stackproof.share.manifests import OciDescriptor
from vendorrpms import Package

pytestmark = pytest.mark.battery

ROUNDS = int(os.environ.get("STACKPROOF_ATTACK_ROUNDS") or 4)
WATCHED = max(1, ROUNDS // 10)
LABEL = "tiny/1:v1@here%zen2"
_RPM_ROOT = "/opt/cray/pe/pmi/6.1.15"
_UNPACK_RPM = """
import sys
from pathlib import Path
from stackproof.build.engines.vendor import rpm, selection
from stackproof.build.engines.vendor.effects import folder
from stackproof.core.errors import StackproofError
path = Path(sys.argv[1])
try:
    with folder.opened(path) as source:
        product = selection.products(rpm.parse(source))
    if product is not None:
        folder.unpacked(path, product, "ab" * 32)
except StackproofError as error:
    sys.exit(f"error: {error}")
"""

_UNPACK_PACK = """
import sys
from pathlib import Path
from stackproof.build.engines.guix.effects import packs
from stackproof.core.effects import files
from stackproof.core.errors import StackproofError
try:
    packs.unpack_pack(Path(sys.argv[1]), files.sha256(sys.argv[1]))
except StackproofError as error:
    sys.exit(f"error: {error}")
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A good tree: a program, the library that it calls, a script, documents, a view."""
    need("gcc", "patchelf", "mksquashfs")
    stack = Stack(tmp_path_factory.mktemp("base"))
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    stack.script("bin/say", '#!/bin/sh\nhello said "$1"\n')
    stack.script("env/default/activate.sh", f"export PATH={MOUNT}/bin:$PATH\n")
    stack.script("env/default/env.json", "{}")
    stack.script("lib/pkgconfig/x.pc", f"prefix={MOUNT}\nlibdir=${{prefix}}/lib\nName: x\n")
    stack.image()
    return stack.tree


@pytest.fixture
def folder():
    """A folder in which other users see what its modes let them see."""
    with tempfile.TemporaryDirectory(prefix="stackproof-guarded-") as name:
        place = Path(os.path.realpath(name))
        place.chmod(0o755)
        yield place


@pytest.fixture(scope="module")
def anybodys():
    """A Python that a user without rights may start."""
    need("root", "unprivileged-user", "unprivileged-userns")
    with tempfile.TemporaryDirectory(prefix="stackproof-python-") as name:
        place = Path(name)
        place.chmod(0o755)
        yield everybody.python(place)[0]


class Cases:
    """Trees for one verb, each with its guarded place; `user` is who runs the verb."""

    def __init__(
        self, folder: Path, base: Path, server: OwnRegistry, name: str, *,
        user: int | None = None, python: str = "",
    ) -> None:  # fmt: skip
        self.base, self.name, self.server = base, name, server
        self._folder = folder
        self._guarded = functools.partial(Guarded, user=user, python=python)

    def __call__(self, count: int) -> Iterator[tuple[Guarded, MutatedTree, random.Random]]:
        for number in range(count):
            place = self._folder / str(number)
            place.mkdir()
            guarded = self._guarded(place)
            choose = random.Random(f"{self.name} {number}")
            yield guarded, mutatedtrees.mutated(choose, self.base, guarded.victim), choose
            remove(place)

    def image(self, guarded: Guarded, tree: MutatedTree, mount: str = MOUNT) -> Path:
        """Return the image of a tree, built for a mount point."""
        if mount != MOUNT:
            other = guarded.folder / "base"
            shutil.copytree(tree.base, other, symlinks=True)
            text = (other / "meta/env.json").read_text()
            (other / "meta/env.json").write_text(text.replace(MOUNT, mount))
            tree = MutatedTree(base=other, plants=tree.plants)
        return mutatedtrees.squashfs(tree, guarded.inputs / "x.squashfs")


@pytest.fixture
def cases(folder, base):
    """Return a function that returns the cases of a name, and of a user with a Python."""
    with OwnRegistry() as server:
        yield functools.partial(Cases, folder, base, server)


# What each verb is given: words, of a case, its guarded place, its tree and a choice.


def _add(cases, guarded, tree, _):
    return "image", "add", LABEL, cases.image(guarded, tree)


def _pull(cases, guarded, tree, choose):
    meta = _meta(tree, choose, guarded.victim) if tree.plants else None
    _fill(cases.server, cases.image(guarded, tree).read_bytes(), meta)
    return "image", "pull", f"deploy::{LABEL}"


def _pack(cases, guarded, tree, choose):
    output = choose.choice(("out", "out.tar.zst", "out.squashfs", "out.oci.tar"))
    return "pack", cases.image(guarded, tree), "-o", guarded.work / output


def _install(cases, guarded, tree, choose):
    prefix = guarded.work / "apps" / "stack"
    mount = choose.choice((MOUNT, os.fspath(prefix)))  # moved there, or built for it
    return "install", cases.image(guarded, tree, mount), "--to", prefix


def _inspect(cases, guarded, tree, choose):
    words = choose.choice(((), ("--json",), ("--views",)))
    return "inspect", cases.image(guarded, tree), *words


def _run(cases, guarded, tree, choose):
    view = choose.choice(((), ("--view", "default")))
    return "run", *view, cases.image(guarded, tree), "--", "true"


def _container(cases, guarded, tree, choose):
    layers = [mutatedtrees.layer(tree, choose, guarded.victim)]
    layers += [mutatedtrees.layer(MutatedTree(cases.base, ()), choose, guarded.victim)]
    choose.shuffle(layers)
    kind = choose.choice(("oci", "oci-archive", "docker-archive", "rootfs", "sif"))
    place = guarded.inputs / "image"
    if kind == "oci":
        rootfslab.write_folder(place, rootfslab.oci_files(layers, Cmd=["/bin/hello"]))
        name = f"oci:{place}:new"
    elif kind == "sif":
        place.with_suffix(".sif").write_bytes(
            rootfslab.sif(cases.image(guarded, tree).read_bytes())
        )
        name = os.fspath(place.with_suffix(".sif"))
    else:
        content = {
            "oci-archive": lambda: rootfslab.archive(rootfslab.oci_files(layers)),
            "docker-archive": lambda: rootfslab.archive(rootfslab.docker_files(layers)),
            "rootfs": lambda: layers[0],
        }[kind]()
        place.write_bytes(content)
        name = f"{kind}:{place}"
    program = choose.choice(("/bin/hello", "/bin/new", "/bin/say", "/bin", "/lib/libanswer.so.1"))
    return "inject", "check", program, "--root", name, "--with", cases.base / "lib"


def _fill(server: OwnRegistry, image: bytes, meta: bytes | None) -> None:
    """Put an image into a registry, and an archive that says it is its meta."""
    repository = "deploy/here/zen2/tiny/1"
    packed = rootfslab.PACKERS["gzip"](meta) if meta is not None else b""
    manifest = manifests.image_manifest(
        digest=manifests.digest_of(image), size=len(image), created="2026-01-02T03:04:05Z",
        meta_digest=manifests.digest_of(packed) if packed else "",
    )  # fmt: skip
    subject = manifests.descriptor_of(manifest)
    server.blobs = {(repository, manifests.digest_of(one)): one for one in (image, packed, b"{}")}
    server.manifests, server.tags = {}, {repository: {"v1": subject.digest}}
    server.manifests[repository, subject.digest] = (manifests.MANIFEST, manifests.render(manifest))
    if packed:
        layer = OciDescriptor(
            media_type=manifests.TAR_GZIP, digest=manifests.digest_of(packed), size=len(packed),
            annotations={manifests.TITLE: "meta", manifests.UNPACK: "true"},
        )  # fmt: skip
        one = manifests.render(manifests.referrer(
            manifests.META, [layer], subject=subject, annotations={}
        ))  # fmt: skip
        server.manifests[repository, manifests.digest_of(one)] = (manifests.MANIFEST, one)


def _meta(tree: MutatedTree, choose: random.Random, victim: Path) -> bytes | None:
    """Return the content that is attached as the meta of an image: of the tree, with more that only it has."""
    if choose.random() < 0.4:
        return None
    stream = io.BytesIO()
    packed = io.BytesIO(mutatedtrees.layer(tree, choose, victim))
    with tarfile.open(fileobj=packed) as source, tarfile.open(fileobj=stream, mode="w") as target:
        for member in source.getmembers():
            member.name = member.name.removeprefix("./")
            if member.name.split("/")[0] not in {"bin", "lib", "share"} or choose.random() < 0.2:
                target.addfile(member, source.extractfile(member) if member.isreg() else None)
    return stream.getvalue()


VERBS: dict[str, Callable[..., tuple[object, ...]]] = {
    "add": _add, "pack": _pack, "install": _install, "inspect": _inspect, "run": _run,
    "container": _container, "pull": _pull,
}  # fmt: skip
WRITERS = ("add", "pack", "install", "pull")


def _told(guarded: Guarded, tree: MutatedTree, words: tuple[object, ...], told: list[str]) -> str:
    """Return a description of what went wrong; empty where nothing did."""
    return "\n".join([f"{words} of {tree.plants}:", *told]) if told else ""


def _through(cases: Cases, verb: str, count: int) -> list[str]:
    wrong = []
    for guarded, tree, choose in cases(count):
        words = VERBS[verb](cases, guarded, tree, choose)
        ended = guarded.run(*words, STACKPROOF_REGISTRY=cases.server.address)
        answers = (1, 3, 8) if words[:2] == ("inject", "check") else ()  # fails, cannot tell
        faults = guarded.faults(ended, answers=answers)
        wrong.append(_told(guarded, tree, words, faults))
    return [one for one in wrong if one]


@pytest.mark.guarantee(
    "Foreign trees",
    "The same holds for every verb that takes a tree:",
    "`image add`, `image pull`, `pack`, `install`, `inspect`, `run`, containers, RPMs and "
    "packs of Guix. Tried: such trees through each of them between files of somebody "
    "else, which must not change. A sample is watched at every system call, with another "
    "user looking on.",
)
@pytest.mark.parametrize("verb", VERBS)
def test_nothing_of_a_hostile_tree_acts(verb, cases):
    """As whoever runs the tests: as root, and as a user in `nox -s attacks`."""
    if verb == "run":
        need("kernel-mount" if os.geteuid() == 0 else "squashfuse")
    assert _through(cases(verb), verb, ROUNDS) == []


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_of_a_hostile_tree_acts_as_a_user(verb, cases, base, anybodys):
    if verb == "run":
        need("squashfuse", "fuse")
    for path in (base, *base.rglob("*")):  # also read by who is not root
        path.chmod(path.stat().st_mode | 0o444)
    of_user = cases(f"{verb} of a user", user=NOBODY, python=anybodys)
    assert _through(of_user, verb, max(1, ROUNDS // 2)) == []


def test_a_good_tree_is_taken_by_all_of_them(cases):
    """Otherwise the others say nothing: each verb gets as far as it can."""
    made = cases("good")
    for guarded, tree, choose in made(1):
        good = MutatedTree(base=tree.base, plants=())
        for name, words_of in VERBS.items():
            words = words_of(made, guarded, good, choose)
            if name == "pull":
                remove(guarded.work / "repository")
            ended = guarded.run(*words, STACKPROOF_REGISTRY=made.server.address)
            assert ended.code in ({0} if name != "container" else {0, 1, 3}), (name, ended.said)
            assert guarded.faults(ended) == []


def test_nothing_of_a_hostile_rpm_acts(cases):
    wrong = []
    for guarded, tree, choose in cases("rpm")(ROUNDS):
        found = mutatedtrees.members(tree, _RPM_ROOT, choose, guarded.victim)
        package = Package("cray-pmi-6.1.15", found, digests=choose.random() < 0.5)
        path = package.written(guarded.inputs)
        done = guarded.python_ends(_UNPACK_RPM, os.fspath(path))
        wrong.append(_told(guarded, tree, ("rpm",), guarded.faults(done)))
    assert [one for one in wrong if one] == []


@pytest.mark.guarantee(
    "Foreign trees",
    "The same holds for every verb that takes a tree:",
)
def test_nothing_of_a_hostile_pack_of_guix_acts(cases):
    """Tarballs and images: hostile in an item, in the store, or above it; the first one is good."""
    item = f"gnu/store/{guixpacks.name_of('tiny-1.0')}/".encode()
    wrong: list[str] = []
    taken: list[bool] = []
    for guarded, tree, choose in cases("guix")(ROUNDS):
        root = guarded.folder / "base"
        shutil.copytree(tree.base, root / os.fsdecode(item), symlinks=True)
        where = (item, item, item, b"gnu/store/", b"gnu/", b"")
        plants = [
            replace(one, path=choose.choice(where) + one.path) for one in tree.plants if taken
        ]
        pack = MutatedTree(base=root, plants=tuple(plants))
        path = guarded.inputs / "pack"
        if choose.random() < 0.5:
            path.write_bytes(mutatedtrees.layer(pack, choose, guarded.victim))
        else:
            mutatedtrees.squashfs(pack, path)
        done = guarded.python_ends(_UNPACK_PACK, os.fspath(path))
        taken.append(done.code == 0)
        wrong.append(_told(guarded, pack, ("guix",), guarded.faults(done)))
    assert [one for one in wrong if one] == []
    assert taken[0]
    assert not all(taken)


@pytest.mark.guarantee(
    "Foreign trees",
    "The same holds for every verb that takes a tree:",
)
@pytest.mark.parametrize("verb", WRITERS)
def test_at_no_moment_anything_hostile_is_there(verb, cases):
    """Each system call of a verb is looked at, and as root another user looks on."""
    need("strace")
    wrong = []
    made = cases(f"watched {verb}")
    for guarded, tree, choose in made(WATCHED):
        words = VERBS[verb](made, guarded, tree, choose)
        env = {**guarded.env, "STACKPROOF_REGISTRY": made.server.address}
        seen = watching.watched(
            guarded.argv(*map(str, words)), place=guarded.work, victim=guarded.victim, env=env
        )
        wrong.append(_told(guarded, tree, words, list(seen.told)))
    assert [one for one in wrong if one] == []
