"""docker-registry as it is packaged, by a line that can be cut, and what other clients make of it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import debianroot
import documented
from images import make_image
from need import need
from refusing import refused
from registries import CutLine, be_alone, docker_registry, free_port
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.share import addresses, manifests
from stackproof.share.effects import catalogue, oci, pulling, pushing
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.options import RemoteOptions

pytestmark = pytest.mark.battery

LABEL = addresses.parse_remote("build::tiny/1:v1@here%zen2")
_BIG = ("-p", "more f 644 0 0 head -c 3000000 /dev/urandom")
_SECRET = "word-of-this-test"
_LOGIN = "who:$2b$04$WNIirHnKtfVBPzPVOKkXweXxUC9qQsDz6gJGKnaWcJOcxX2Q3g07O\n"
"""The line of a file of htpasswd for that word; docker-registry takes bcrypt alone."""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be_alone(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("mksquashfs")
    return make_image(tmp_path_factory.mktemp("image") / "a.squashfs", options=_BIG)


@pytest.fixture
def opened() -> Iterator[list[OciRegistry]]:
    """Registries that are closed in the end."""
    found: list[OciRegistry] = []
    yield found
    for one in found:
        one.client.close()


class Ordinary:
    """docker-registry in a folder, which has the image, and the line to it."""

    def __init__(self, folder: Path, line: CutLine) -> None:
        self.blobs = folder / "data/docker/registry/v2/blobs/sha256"
        self.line = line

    def file(self, digest: str) -> Path:
        """Return where the server keeps a blob."""
        plain = digest.removeprefix("sha256:")
        return self.blobs / plain[:2] / plain / "data"

    def open(self) -> OciRegistry:
        return oci.opened(RemoteOptions(registry=self.line.address))

    def pull(self, folder: Path) -> pulling.Pulled:
        registry = self.open()
        try:
            return pulling.pull(registry, pulling.look(registry, LABEL), ImageRepository(folder))
        finally:
            registry.client.close()


@pytest.fixture
def ordinary(image: Path, tmp_path: Path) -> Iterator[Ordinary]:
    need("docker-registry")
    with docker_registry(tmp_path / "server") as address, CutLine(address) as line:
        server = Ordinary(tmp_path / "server", line)
        registry = server.open()
        pushing.push(registry, str(image), LABEL)
        registry.client.close()
        yield server


def test_a_pull_whose_line_is_cut_ten_times_goes_on(
    ordinary: Ordinary, image: Path, tmp_path: Path
) -> None:
    size = image.stat().st_size
    cuts = sorted(random.Random(3).sample(range(1, size), 10))
    looked, registry = ordinary.open(), ordinary.open()
    found = pulling.look(looked, LABEL)
    looked.client.close()  # what follows begins with a connection of its own
    ordinary.line.cuts = [end - begin for begin, end in zip([0, *cuts], cuts, strict=False)]
    ordinary.line.given = 0
    done = pulling.pull(registry, found, ImageRepository(tmp_path / "repo"))
    registry.client.close()
    assert files.sha256(done.record.file) == files.sha256(image)
    assert ordinary.line.cuts == []
    assert size <= ordinary.line.given <= size + 100_000  # and heads of answers, lists, the meta


def test_eight_pulls_are_one_download(ordinary: Ordinary, image: Path, tmp_path: Path) -> None:
    ordinary.line.given = 0
    with ThreadPoolExecutor(8) as pool:
        pulled = list(pool.map(lambda _: ordinary.pull(tmp_path / "repo"), range(8)))
    assert {one.record.digest for one in pulled} == {files.sha256(image)}
    assert ordinary.line.given < 1.1 * image.stat().st_size


@pytest.mark.parametrize(
    ("what", "reason"), [("image", Reason.IMAGE_DAMAGED), ("meta", Reason.META_MISMATCH)]
)
def test_what_was_changed_on_the_disk_of_the_server(
    ordinary: Ordinary, what: str, reason: Reason, tmp_path: Path
) -> None:
    registry = ordinary.open()
    found = pulling.look(registry, LABEL)
    registry.client.close()
    assert found.meta is not None
    path = ordinary.file((found.layer if what == "image" else found.meta).digest)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with refused(reason):
        ordinary.pull(tmp_path / "repo")
    assert ImageRepository(tmp_path / "repo").records() == ()
    assert not list((tmp_path / "repo").rglob("store.squashfs"))
    assert not list((tmp_path / "repo").rglob(".part-*"))


def test_a_push_goes_on_after_kill(image: Path, tmp_path: Path) -> None:
    """Where it was, the server says; which upload it was, the cache of who pushes."""
    need("docker-registry")
    size = image.stat().st_size
    script = (
        "import sys; from stackproof.share.effects import uploading; from stackproof import cli\n"
        "uploading.PIECE = 500_000; cli.main(sys.argv[1:])"
    )
    with docker_registry(tmp_path / "server") as address, CutLine(address) as line:
        env = {**os.environ, "STACKPROOF_REGISTRY": line.address}
        argv = [sys.executable, "-c", script, "image", "push", str(image), str(LABEL), "--json"]
        for stop in (2, 1):
            line.pieces, line.stop = 0, stop
            killed = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL)
            line.wait_stopped()
            killed.kill()
            killed.wait()
        line.stop = 0
        done = subprocess.run(argv, env=env, check=True, capture_output=True)
        assert json.loads(done.stdout)["sent"] == size - 3 * 500_000
        registry = oci.opened(RemoteOptions(registry=address))
        found = pulling.look(registry, LABEL)
        registry.client.close()
        assert found.layer.hex == files.sha256(image)


def test_a_server_whose_disk_is_full(image: Path, tmp_path: Path) -> None:
    """A real one: its folder is a file system of 2 MB."""
    need("root", "userns", "docker-registry")
    folder = tmp_path / "server"
    with docker_registry(folder, room="2m") as address:
        registry = oci.opened(RemoteOptions(registry=address))
        with pytest.raises(StackproofError) as caught:
            pushing.push(registry, str(image), LABEL)
        assert catalogue.find(registry, "build", fresh=True) == ()
        registry.client.close()
    assert caught.value.reason is Reason.DISK_FULL


def test_a_server_that_asks_for_a_name(
    image: Path, tmp_path: Path, opened: list[OciRegistry]
) -> None:
    """Who is not known pulls and finds nothing; the word stands nowhere but in what is sent."""
    need("docker-registry")
    (tmp_path / "logins").write_text(_LOGIN)
    (tmp_path / "TOKEN").write_text(_SECRET)
    auth = f"auth: {{htpasswd: {{realm: images, path: {tmp_path}/logins}}}}"
    with docker_registry(tmp_path / "server", auth=auth) as address:
        known = {"registry": address, "token": str(tmp_path), "username": "who"}
        opened.append(oci.opened(RemoteOptions(**known)))
        pushing.push(opened[-1], str(image), LABEL)
        for options in ({"registry": address}, {**known, "username": "nobody"}):
            opened.append(oci.opened(RemoteOptions(**options)))
            with refused(Reason.LOGIN_NEEDED) as caught:
                pulling.look(opened[-1], LABEL)
            assert _SECRET not in str(caught.value)
    assert _SECRET not in (tmp_path / "server/log").read_text()
    held = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not [path for path in held if _SECRET in path.read_text(errors="replace")]


def test_a_registry_that_deletes_nothing(image: Path, tmp_path: Path) -> None:
    need("docker-registry")
    with docker_registry(tmp_path / "server", delete=False) as address:
        registry = oci.opened(RemoteOptions(registry=address))
        pushing.push(registry, str(image), LABEL)
        with refused(Reason.REGISTRY_UNABLE):
            pushing.delete(registry, LABEL)
        assert pulling.look(registry, LABEL).layer.hex == files.sha256(image)
        registry.client.close()


def test_skopeo_copies_images_to_a_folder_and_back(image: Path, tmp_path: Path) -> None:
    """As a site does that carries images by a disk; what it puts elsewhere is pulled from there."""
    need("docker-registry", "skopeo")
    repository = "/".join(LABEL.path)

    def skopeo(*words: str) -> str:
        argv = ["skopeo", "--insecure-policy", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with ExitStack() as stack:
        first, second = (
            stack.enter_context(docker_registry(tmp_path / name)) for name in ("first", "second")
        )
        registry = oci.opened(RemoteOptions(registry=first))
        stack.callback(registry.client.close)
        pushed = pushing.push(registry, str(image), LABEL)
        at = f"docker://{first}/{repository}:v1"
        said = skopeo("inspect", "--raw", "--tls-verify=false", at)
        assert manifests.digest_of(said.encode()) == pushed.listed.manifest
        folder = f"oci:{tmp_path}/layout:v1"
        skopeo("copy", "--src-tls-verify=false", at, folder)
        there = f"docker://{second}/{repository}:v1"
        skopeo("copy", "--dest-tls-verify=false", folder, there)
        elsewhere = oci.opened(RemoteOptions(registry=second))
        stack.callback(elsewhere.client.close)
        (found,) = catalogue.find(elsewhere, "build")
        assert found == pushed.listed
        done = pulling.pull(
            elsewhere, pulling.look(elsewhere, LABEL), ImageRepository(tmp_path / "repo")
        )
    assert files.sha256(done.record.file) == files.sha256(image)
    # skopeo leaves behind what refers to an image; the folder `meta` is in the image as well
    assert json.loads(Path(done.record.folder, "meta/env.json").read_bytes())["name"] == "tiny"


def test_what_is_attached_has_no_tag(image: Path, tmp_path: Path) -> None:
    """As docs/how-to/keep-a-registry.md says of docker-registry's `--delete-untagged`."""
    need("docker-registry")
    left = []
    for words in ((), ("--delete-untagged",)):
        with docker_registry(tmp_path / "server") as address:
            registry = oci.opened(RemoteOptions(registry=address))
            pushing.push(registry, str(image), LABEL)
            registry.client.close()
        argv = ["docker-registry", "garbage-collect", *words, str(tmp_path / "server/config.yml")]
        subprocess.run(argv, check=True, capture_output=True, timeout=600)
        with docker_registry(tmp_path / "server") as address:
            registry = oci.opened(RemoteOptions(registry=address))
            found = pulling.look(registry, LABEL)
            left.append(len(found.attached))
            pulling.pull(registry, found, ImageRepository(tmp_path / f"repo{len(left)}"))
            registry.client.close()
    assert left == [1, 0]


def test_who_may_push_where(image: Path, tmp_path: Path) -> None:
    """By the lines for nginx of docs/how-to/keep-a-registry.md."""
    need("docker-registry", "nginx")
    program = shutil.which("nginx")
    if program is None:
        suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
        program = str(debianroot.bare(tmp_path / "apt", suite, "nginx") / "usr/sbin/nginx")
    page = (documented.ROOT / "docs/how-to/keep-a-registry.md").read_text()
    (block,) = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    port = free_port()
    with docker_registry(tmp_path / "server") as address:
        for old, new in (
            ("registry.example.org:5000 ssl", f"127.0.0.1:{port}"),
            ("  ssl_certificate /etc/…; ssl_certificate_key /etc/…;\n", ""),
            ("/etc/nginx", str(tmp_path)),
            ("127.0.0.1:5001", address),
            ("X-Forwarded-Proto https", "X-Forwarded-Proto http"),
        ):
            assert old in block
            block = block.replace(old, new)
        temporary = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = tmp_path / "nginx.conf"
        config.write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/errors;\nevents {{}}\n"
            f"{'user root;' if os.geteuid() == 0 else ''}\n"
            f"http {{ access_log off;\n{temporary}{block}}}\n"
        )
        (tmp_path / "pushers").write_text(f"ci:{{PLAIN}}{_SECRET}\nreleaser:{{PLAIN}}{_SECRET}\n")
        (tmp_path / "releasers").write_text(f"releaser:{{PLAIN}}{_SECRET}\n")
        (tmp_path / "TOKEN").write_text(_SECRET)
        with _serving([program, "-p", str(tmp_path), "-c", str(config)], port):
            _push_and_release(image, f"127.0.0.1:{port}/images", tmp_path)
            with pytest.raises(urllib.error.HTTPError, match="401"):  # or any login succeeds
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/")


def _push_and_release(image: Path, address: str, folder: Path) -> None:
    with ExitStack() as stack:

        def opened(name: str) -> OciRegistry:
            options = {"token": str(folder), "username": name} if name else {}
            registry = oci.opened(RemoteOptions(registry=address, **options))
            stack.callback(registry.client.close)
            return registry

        def denied(reason: Reason, act: Callable[[], object]) -> None:
            with refused(reason):
                act()

        anybody, ci, releaser = opened(""), opened("ci"), opened("releaser")
        released = addresses.parse_remote("deploy::tiny/1:v1@here%zen2")
        elsewhere = addresses.parse_remote("other::tiny/1:v1@here%zen2")
        denied(Reason.LOGIN_NEEDED, lambda: pushing.push(anybody, str(image), LABEL))
        denied(Reason.LOGIN_NEEDED, lambda: pushing.push(ci, str(image), released))
        denied(Reason.REGISTRY_DENIED, lambda: pushing.push(releaser, str(image), elsewhere))
        pushing.push(ci, str(image), LABEL)
        found = pulling.look(anybody, LABEL)
        denied(Reason.LOGIN_NEEDED, lambda: pushing.copy(ci, found, released))
        assert pushing.copy(releaser, found, released).sent == 0
        denied(Reason.LOGIN_NEEDED, lambda: pushing.delete(ci, released))
        assert pulling.look(anybody, released).layer.hex == files.sha256(image)


@contextlib.contextmanager
def _serving(argv: list[str], port: int) -> Iterator[None]:
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 600
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert server.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        yield
    finally:
        server.terminate()
        server.wait(600)
