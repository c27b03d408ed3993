"""What a server, the network and others can do wrong: each has its reason, and nothing is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from need import need
from refusing import refused
from registries import Fault, OwnRegistry, be_alone
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.share import addresses, manifests
from stackproof.share.effects import oci, pulling, pushing, uploading
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.options import RemoteOptions

COVERS = ("share/effects/http_client.py",)
LABEL = addresses.parse_remote("build::tiny/1:v1@here%zen2")
SIZE = 3_000_000


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be_alone(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of about SIZE bytes that nothing can be packed in."""
    need("mksquashfs")
    folder = tmp_path_factory.mktemp("image")
    (folder / "tree").mkdir()
    (folder / "tree/data").write_bytes(random.Random(1).randbytes(SIZE))
    made = folder / "a.squashfs"
    argv = ["mksquashfs", folder / "tree", made, "-noappend", "-no-progress", "-quiet"]
    subprocess.run(argv, check=True, capture_output=True)
    return made


@pytest.fixture
def server(image: Path, tmp_path: Path) -> Iterator[OwnRegistry]:
    """A server that has the image, and has been asked for nothing."""
    with OwnRegistry() as own:
        registry = opened(own)
        pushing.push(registry, str(image), LABEL)
        registry.client.close()
        own.asked.clear()
        yield own


def opened(server: OwnRegistry, **options: str) -> OciRegistry:
    return oci.opened(RemoteOptions(registry=server.address, **options))


def pull(server: OwnRegistry, folder: Path, **options: str) -> pulling.Pulled:
    registry = opened(server, **options)
    try:
        return pulling.pull(registry, pulling.look(registry, LABEL), ImageRepository(folder))
    finally:
        registry.client.close()


def refused_pull(server: OwnRegistry, folder: Path, **options: str) -> StackproofError:
    """Return the error of a pull that must fail, after which the repository has no image."""
    with pytest.raises(StackproofError) as caught:
        pull(server, folder, **options)
    assert ImageRepository(folder).records() == ()
    return caught.value


def test_a_pull_that_is_cut_anywhere_goes_on(
    server: OwnRegistry, image: Path, tmp_path: Path
) -> None:
    cuts = sorted(random.Random(2).sample(range(1, image.stat().st_size), 10))
    sizes = [end - begin for begin, end in zip([0, *cuts], cuts, strict=False)]
    digest = files.sha256(image)
    server.faults = [Fault(match=f"/blobs/sha256:{digest}", cut=one) for one in sizes]
    done = pull(server, tmp_path / "repo")
    assert files.sha256(done.record.file) == digest
    assert server.given(f"/blobs/sha256:{digest}") == image.stat().st_size
    assert server.count("GET", f"/blobs/sha256:{digest}") == len(sizes) + 1


def test_a_server_without_ranges_begins_again(
    server: OwnRegistry, image: Path, tmp_path: Path
) -> None:
    server.ranges = False
    digest = files.sha256(image)
    server.faults = [Fault(match=f"/blobs/sha256:{digest}", cut=1_000_000)]
    done = pull(server, tmp_path / "repo")
    assert files.sha256(done.record.file) == digest


def test_what_is_cut_for_ever_is_kept_for_the_next(
    server: OwnRegistry, image: Path, tmp_path: Path
) -> None:
    digest = files.sha256(image)
    where = f"/blobs/sha256:{digest}"
    server.faults = [Fault(match=where, cut=1_000_000), Fault(match=where, cut=0, times=9)]
    error = refused_pull(server, tmp_path / "repo")
    assert error.reason is Reason.ANSWER_TRUNCATED
    server.faults, before = [], server.given(where)
    assert before == 1_000_000
    assert pull(server, tmp_path / "repo").record.digest == digest
    assert server.given(where) == image.stat().st_size


@pytest.mark.battery
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT], ids=lambda one: one.name)
def test_a_killed_pull_goes_on(
    by: signal.Signals, server: OwnRegistry, image: Path, tmp_path: Path
) -> None:
    digest = files.sha256(image)
    env = {**os.environ, "STACKPROOF_REPOSITORY": str(tmp_path / "repo"),
           "STACKPROOF_REGISTRY": server.address}  # fmt: skip
    argv = [sys.executable, "-m", "stackproof", "image", "pull", str(LABEL)]
    server.faults = [Fault(match=f"/blobs/sha256:{digest}", stall=1_500_000)]
    killed = subprocess.Popen(argv, env=env, stderr=subprocess.PIPE)
    part = tmp_path / f"repo/images/.part-{digest}"
    end = time.monotonic() + 600
    while not part.exists() or part.stat().st_size == 0:
        assert time.monotonic() < end
        time.sleep(0.01)
    killed.send_signal(by)
    _, said = killed.communicate(timeout=600)
    if by is signal.SIGINT:
        assert killed.returncode == 130
        assert b" are kept [interrupted]\nhint: the same command goes on with it" in said
    server.release.set()
    there = part.stat().st_size
    assert 0 < there <= 1_500_000
    server.asked.clear()
    done = subprocess.run([*argv, "--json"], env=env, check=True, capture_output=True)
    assert json.loads(done.stdout)["digest"] == digest
    assert server.given(f"/blobs/sha256:{digest}") == image.stat().st_size - there
    assert sorted(os.listdir(tmp_path / "repo/images")) == [digest]


def test_a_push_that_breaks_goes_on(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "PIECE", 1_000_000)
    with OwnRegistry() as server:
        server.faults = [
            Fault(method="PATCH", match="/uploads/", status=500, times=1, skip=1),
            Fault(method="PATCH", match="/uploads/", status=403, times=9, skip=1),
        ]
        registry = opened(server)
        with refused(Reason.REGISTRY_DENIED):
            pushing.push(registry, str(image), LABEL)
        server.faults = []
        done = pushing.push(registry, str(image), LABEL)
        assert done.sent == image.stat().st_size - 1_000_000
        assert server.uploads == {}
        registry.client.close()


def test_an_upload_that_the_server_forgot_begins_again(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploading, "PIECE", 1_000_000)
    with OwnRegistry() as server:
        server.faults = [Fault(method="PATCH", match="/uploads/", status=403, skip=1)]
        registry = opened(server)
        with refused(Reason.REGISTRY_DENIED):
            pushing.push(registry, str(image), LABEL)
        server.uploads.clear()
        assert pushing.push(registry, str(image), LABEL).sent == image.stat().st_size
        registry.client.close()


def test_other_bytes_are_not_kept(server: OwnRegistry, image: Path, tmp_path: Path) -> None:
    server.faults = [Fault(match=f"/blobs/sha256:{files.sha256(image)}", flip=True)]
    error = refused_pull(server, tmp_path / "repo")
    assert error.reason is Reason.IMAGE_DAMAGED
    assert os.listdir(tmp_path / "repo/images") == []
    pull(server, tmp_path / "repo")


def test_a_part_that_is_wrong_comes_again(server: OwnRegistry, image: Path, tmp_path: Path) -> None:
    part = tmp_path / f"repo/images/.part-{files.sha256(image)}"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 1000)
    assert files.sha256(pull(server, tmp_path / "repo").record.file) == files.sha256(image)


def test_another_manifest_than_its_digest(server: OwnRegistry, tmp_path: Path) -> None:
    server.faults = [Fault(match="/manifests/v1", flip=True)]
    assert refused_pull(server, tmp_path / "repo").reason is Reason.IMAGE_DAMAGED


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        (401, {"WWW-Authenticate": 'Basic realm="a"'}, Reason.LOGIN_NEEDED),
        (401, {"WWW-Authenticate": "Negotiate"}, Reason.REGISTRY_ANSWER),
        (403, {}, Reason.REGISTRY_DENIED),
        (404, {}, Reason.IMAGE_MISSING),
        (405, {}, Reason.REGISTRY_UNABLE),
        (418, {}, Reason.REGISTRY_ANSWER),
        (429, {"Retry-After": "3600"}, Reason.REGISTRY_BUSY),
        (503, {"Retry-After": "Mon, 01 Jan 2035 01:00:00 GMT", "Date": "x"}, Reason.REGISTRY_BUSY),
        (500, {"Retry-After": "0"}, Reason.REGISTRY_FAILED),
        (507, {}, Reason.DISK_FULL),
        (302, {"Location": "ftp://127.0.0.1/a"}, Reason.REDIRECT_REFUSED),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["/manifests/v1", "/blobs/sha256:IMAGE"])
def test_each_answer_has_its_reason(
    place: str, status: int, headers: dict[str, str], reason: Reason, server: OwnRegistry,
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("stackproof.share.effects.http_client._FIRST_WAIT_S", 0.0)
    where = place.replace("IMAGE", files.sha256(image))
    server.faults = [Fault(match=where, status=status, headers=headers, times=99)]
    error = refused_pull(server, tmp_path / "repo")
    assert error.reason is reason
    assert error.problems[0].hint


def test_a_server_that_wants_tls_says_so(server: OwnRegistry, tmp_path: Path) -> None:
    """docker-registry with a certificate, at an address of this machine: http if not said."""
    said = b"Client sent an HTTP request to an HTTPS server.\n"
    server.faults = [Fault(match="/manifests/v1", status=400, body=said, times=9)]
    (problem,) = refused_pull(server, tmp_path / "repo").problems
    assert said.decode().strip() in problem.message
    assert f"https://{server.address}" in str(problem.hint)


def test_a_range_that_is_not_there(server: OwnRegistry, image: Path, tmp_path: Path) -> None:
    where = f"/blobs/sha256:{files.sha256(image)}"
    server.faults = [Fault(match=where, cut=1000), Fault(match=where, status=416, times=9)]
    assert refused_pull(server, tmp_path / "repo").reason is Reason.REGISTRY_ANSWER


@pytest.mark.battery
def test_patience_is_what_the_server_asks(server: OwnRegistry, tmp_path: Path) -> None:
    server.faults = [
        Fault(match="/manifests/v1", status=429, headers={"Retry-After": "0"}, times=2),
        Fault(match="/manifests/v1", status=503, headers={"Retry-After": "1"}),
    ]
    begun = time.monotonic()
    pull(server, tmp_path / "repo")
    assert time.monotonic() - begun >= 1.0


def test_a_redirect_gets_no_secret(server: OwnRegistry, image: Path, tmp_path: Path) -> None:
    digest = files.sha256(image)
    server.login = "who:secret-of-this-test"
    (tmp_path / "token").write_text("secret-of-this-test\n")
    with OwnRegistry() as elsewhere:
        elsewhere.blobs["a", f"sha256:{digest}"] = image.read_bytes()
        target = {"Location": f"http://{elsewhere.address}/v2/a/blobs/sha256:{digest}"}
        server.faults = [Fault(match=f"/blobs/sha256:{digest}", status=307, headers=target)]
        pull(server, tmp_path / "repo", token=str(tmp_path / "token"), username="who")
        (asked,) = elsewhere.asked
        assert "Authorization" not in asked.headers
        assert any("Authorization" in one.headers for one in server.asked)


def test_a_disk_that_is_full(server: OwnRegistry, image: Path, tmp_path: Path,
                             monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    need("root", "userns")
    script = 'mount -t tmpfs -o size=2m,mode=755 none "$1" && shift && exec "$@"'
    env = {**os.environ, "STACKPROOF_REPOSITORY": str(tmp_path / "small"),
           "STACKPROOF_REGISTRY": server.address}  # fmt: skip
    (tmp_path / "small").mkdir()
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path / "small"), sys.executable,
            "-m", "stackproof", "image", "pull", str(LABEL)]  # fmt: skip
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "[disk-full]" in done.stderr
    assert "2.1 MB are free, " in done.stderr
    assert server.given(f"/blobs/sha256:{files.sha256(image)}") == 0


_FILLED = """mount -t tmpfs -o size=6m,mode=755 none "$1" && cd "$1" && shift
"$@" & pull=$!
while ! find images -name '.part-*' -size +1000k 2>/dev/null | grep -q part; do sleep 0.02; done
head -c 6m /dev/zero >more 2>/dev/null; echo full
wait $pull; echo ended $?
rm more && "$@" --json && sha256sum images/*/store.squashfs"""


def test_a_disk_that_others_fill_meanwhile(
    server: OwnRegistry, image: Path, tmp_path: Path
) -> None:
    """What has come is kept, and the next pull goes on with it once there is room."""
    need("root", "userns")
    digest = files.sha256(image)
    where = f"/blobs/sha256:{digest}"
    server.faults = [Fault(match=where, stall=1_500_000)]
    small = tmp_path / "small"
    small.mkdir()
    env = {**os.environ, "STACKPROOF_REPOSITORY": str(small), "STACKPROOF_REGISTRY": server.address}
    argv = ["unshare", "--mount", "sh", "-c", _FILLED, "sh", small, sys.executable,
            "-m", "stackproof", "image", "pull", str(LABEL)]  # fmt: skip
    both = subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert both.stdout is not None
    assert both.stdout.readline() == "full\n"
    server.release.set()
    said, told = both.communicate(timeout=600)
    assert both.returncode == 0, told
    assert said.startswith("ended 4\n")
    assert told.count("error:") == told.count("[disk-full]") == 1
    assert said.splitlines()[-1].split()[0] == digest
    received = json.loads(said.partition("\n")[2].rpartition("}")[0] + "}")["received"]
    assert 0 < received < image.stat().st_size - 1_000_000


def test_a_server_that_has_no_room(image: Path) -> None:
    body = b'{"errors": [{"code": "UNKNOWN", "message": "no space left on device"}]}'
    with OwnRegistry() as server:
        server.faults = [Fault(method="PATCH", match="/uploads/", status=500, body=body, times=9)]
        registry = opened(server)
        with pytest.raises(StackproofError) as caught:
            pushing.push(registry, str(image), LABEL)
        registry.client.close()
    assert caught.value.reason is Reason.DISK_FULL


def test_changed_meta_is_refused(server: OwnRegistry, tmp_path: Path) -> None:
    from stackproof.core.value import replace  # noqa: PLC0415

    registry = opened(server)
    found = pulling.look(registry, LABEL)
    assert found.meta is None  # this image has none
    packed = b"not packed"
    layer = manifests.OciDescriptor(
        media_type=manifests.TAR_GZIP, digest=manifests.digest_of(b"other"), size=len(packed)
    )
    server.blobs["build/here/zen2/tiny/1", layer.digest] = packed
    with refused(Reason.META_MISMATCH):
        pulling.pull(registry, replace(found, meta=layer), ImageRepository(tmp_path / "repo"))
    registry.client.close()


@pytest.mark.battery
def test_nobody_there(tmp_path: Path) -> None:
    with OwnRegistry() as server:
        pass
    error = refused_pull(server, tmp_path / "repo")
    assert error.reason is Reason.NO_NETWORK


@pytest.mark.battery
def test_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose authority is not known, one that is, and one whose time is over."""
    script = (
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $0.key -out $0.csr "
        "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 && openssl x509 -req -in $0.csr "
        "-signkey $0.key -days $1 -copy_extensions copy -out $0.crt"
    )
    for name, days in (("good", "2"), ("old", "0")):
        argv = ["sh", "-c", script, name, days]
        subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    time.sleep(2)  # to the end of the second in which the old one was made
    for name in ("good", "old"):
        with OwnRegistry() as server:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
            server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
            registry = oci.opened(
                RemoteOptions(
                    registry=f"https://{server.address}", certificates=str(tmp_path / f"{name}.crt")
                )
            )
            if name == "good":
                assert registry.tags("a") == ()
                registry.client.close()
                registry = oci.opened(RemoteOptions(registry=f"https://{server.address}"))
            with refused(Reason.CERTIFICATE) as caught:
                registry.tags("a")
            assert ("clock" in str(caught.value)) is (name == "old")
            registry.client.close()


@pytest.mark.battery
def test_a_proxy_is_asked(
    server: OwnRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a proxy for http gets is the whole address; a server of ours takes that, too."""
    monkeypatch.setenv("http_proxy", f"http://who:word@{server.address}")
    registry = oci.opened(RemoteOptions(registry="http://registry.invalid"))
    assert registry.tags("a") == ()
    (asked,) = server.asked
    assert asked.path.startswith("http://registry.invalid/v2/a/tags/list")
    assert asked.headers["Proxy-Authorization"] == "Basic d2hvOndvcmQ="
    monkeypatch.setenv("no_proxy", "registry.invalid")
    with refused(Reason.NO_NETWORK):
        registry.tags("a")
    registry.client.close()
