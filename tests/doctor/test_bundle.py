"""Archives for requests for support: what is written is read again, and nothing else is."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core import limits
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.secrets import data_without_secrets
from stackproof.doctor import bundle
from stackproof.knowledge.evidence import redacted

pytestmark = [
    pytest.mark.guarantee(
        "What others wrote",
        "A bundle of `doctor` leaves out what looks like a secret,",
    ),
]

MEMBERS = {"evidence.json": '{"a": 1}\n', "logs/001.txt": "first\nsecond: é\n", "site.json": ""}


def archive(
    *entries: tuple[str, bytes], change: Callable[[tarfile.TarInfo], None] | None = None
) -> bytes:
    """Return a tar archive with an index that names nothing; `change` is for the last entry."""
    buffer = io.BytesIO()
    index = json.dumps({"schema": bundle.SCHEMA, "members": []}).encode()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number, (name, content) in enumerate([(bundle.INDEX, index), *entries]):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            if change is not None and number == len(entries):
                change(entry)
            tar.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
    return buffer.getvalue()


def refusal(data: bytes) -> Reason:
    with pytest.raises(StackproofError) as caught:
        bundle.unpack(data, file="b.tar.gz")
    assert all(problem.where is not None and problem.hint for problem in caught.value.problems)
    return caught.value.reason


def test_what_is_written_is_read_again_and_always_the_same() -> None:
    data = bundle.pack(MEMBERS, {"taken": "2026-01-02T03:04:05Z"})
    assert bundle.is_archive(data)
    assert bundle.unpack(data, file="b") == MEMBERS
    turned = dict(reversed(MEMBERS.items()))
    assert bundle.pack(turned, {"taken": "2026-01-02T03:04:05Z"}) == data
    assert bundle.unpack(gzip.decompress(data), file="b") == MEMBERS


def test_anybody_can_open_it() -> None:
    with tarfile.open(fileobj=io.BytesIO(bundle.pack(MEMBERS, {})), mode="r:gz") as tar:
        assert tar.getnames() == ["bundle.json", *sorted(MEMBERS)]
        assert {(one.mtime, one.uid, one.uname) for one in tar} == {(0, 0, "")}


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/passwd",
        "logs/../../x",
        "logs//x",
        "a/b/c",
        ".hidden",
        "A\nB",
        "x\\y",
        "",
        "a/",
    ],
)
def test_paths_that_lead_out_are_refused(name: str) -> None:
    assert refusal(archive((name, b"x"))) is Reason.INVALID_VALUE


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE,
     tarfile.DIRTYPE],
)  # fmt: skip
def test_what_is_no_plain_file_is_refused(kind: bytes) -> None:
    def change(entry: tarfile.TarInfo) -> None:
        entry.type, entry.linkname, entry.size = kind, "/etc/passwd", 0

    assert refusal(archive(("evidence.json", b""), change=change)) is Reason.INVALID_VALUE


def test_a_file_with_holes_is_refused() -> None:
    def change(entry: tarfile.TarInfo) -> None:
        entry.pax_headers = {
            "GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 45), "GNU.sparse.major": "0",
        }  # fmt: skip

    assert refusal(archive(("evidence.json", b"x"), change=change)) is Reason.INVALID_VALUE


def test_a_name_that_stands_twice_is_refused() -> None:
    twice = archive(("evidence.json", b"1"), ("evidence.json", b"2"))
    assert refusal(twice) is Reason.INVALID_VALUE


def test_every_wrong_member_is_named_at_once() -> None:
    with pytest.raises(StackproofError) as caught:
        bundle.unpack(archive(("../a", b""), ("/b", b""), ("c", b"")), file="b")
    assert len(caught.value.problems) == 2


def test_a_bomb_is_refused_before_it_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.BUNDLE_EXPANDED, "bytes", 4 << 20)
    bomb = gzip.compress(bytes(64 << 20), compresslevel=1)
    tracemalloc.start()
    try:
        assert refusal(bomb) is Reason.TOO_LARGE
        assert tracemalloc.get_traced_memory()[1] < 4 * limits.BUNDLE_EXPANDED.bytes
    finally:
        tracemalloc.stop()


def test_a_member_that_is_huge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.BUNDLE_MEMBER, "bytes", 1 << 20)
    assert refusal(archive(("evidence.json", bytes(1 << 21)))) is Reason.TOO_LARGE


def test_a_size_that_no_archive_has_is_refused() -> None:
    entry = tarfile.TarInfo("evidence.json")
    entry.size = 1 << 80
    assert refusal(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1024)) is Reason.TOO_LARGE


def test_a_header_that_was_changed_is_refused() -> None:
    data = bytearray(archive(("evidence.json", b"x")))
    data[1024] ^= 1  # the first letter of the second name
    assert refusal(bytes(data)) is Reason.INVALID_VALUE


def test_too_many_members_are_refused() -> None:
    many = archive(*((f"m{number}", b"") for number in range(limits.BUNDLE_EXPANDED.count + 1)))
    assert refusal(many) is Reason.TOO_LARGE


@given(st.integers(1, 100))
def test_an_archive_that_is_cut_off_is_refused(percent: int) -> None:
    data = bundle.pack(MEMBERS, {})
    cut = data[: max(2, len(data) * percent // 101)]
    assert refusal(cut) is Reason.INVALID_VALUE


def test_a_tar_archive_that_lost_members_is_refused() -> None:
    data = gzip.decompress(bundle.pack(MEMBERS, {}))
    assert refusal(data[:1024]) is Reason.INVALID_VALUE
    assert refusal(data[: 1024 + 700]) is Reason.INVALID_VALUE


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_never_gives_another_content(place: int, change: int) -> None:
    data = bytearray(bundle.pack(MEMBERS, {}))
    data[place % len(data)] ^= change
    try:
        found = bundle.unpack(bytes(data), file="b")
    except StackproofError:
        return
    assert found == MEMBERS  # a byte of gzip's header that says nothing


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x28\xb5\x2f\xfd rest", Reason.UNSUPPORTED),
        (b"BZh9 rest", Reason.UNSUPPORTED),
        (b"\xfd7zXZ\x00 rest", Reason.UNSUPPORTED),
        (b"\x1f\x8b", Reason.INVALID_VALUE),
        (gzip.compress(b"no archive", mtime=0), Reason.INVALID_VALUE),
        (gzip.compress(b"", mtime=0), Reason.INVALID_VALUE),
    ],
)
def test_what_is_no_bundle_is_refused(data: bytes, reason: Reason) -> None:
    assert bundle.is_archive(data)
    assert refusal(data) is reason


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ({"schema": "stackproof/bundle/2", "members": []}, Reason.UNSUPPORTED),
        ({"schema": bundle.SCHEMA}, Reason.INVALID_VALUE),
        ({"schema": bundle.SCHEMA, "members": "evidence.json"}, Reason.INVALID_VALUE),
        ({"schema": bundle.SCHEMA, "members": ["evidence.json"]}, Reason.INVALID_VALUE),
        ([], Reason.INVALID_VALUE),
    ],
)
def test_an_index_that_does_not_fit_is_refused(index: object, reason: Reason) -> None:
    buffer = io.BytesIO()
    content = json.dumps(index).encode()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(bundle.INDEX)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    assert refusal(buffer.getvalue()) is reason


@pytest.mark.parametrize(
    "text",
    [
        "API_TOKEN=hunter2", "password: hunter2", '"password": "hunter2 and more"',
        "curl --token hunter2 https://x", "Authorization: Basic hunter2==",
        "Authorization: Bearer hunter2", "https://user:hunter2@example.org/x",
        "X-Api-Key: hunter2", "my_secret='hunter2 and more'", "aws AKIAHUNTER2HUNTER2HU",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2\nhunter2\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nhunter2\ncut off",
        "OMPI_MCA_plm_rsh_args=-i /home/user/.ssh/hunter2", "ssh -i ~/.ssh/hunter2 node1",
        'plm_ssh_args="-p 22 -i /home/user/.ssh/hunter2"', "ssh -i$HOME/.ssh/hunter2 node1",
        "ssh -i '/home/user/my keys/hunter2' node1", "ssh -i id_hunter2 node1",
        "argv: ['ssh', '-i', '/home/user/my keys/hunter2']", "ssh -i keys/hunter2 node1",
        "ssh -oIdentityFile=/home/user/.ssh/hunter2 node1", "IdentityFile ~/.ssh/hunter2",
        "ssh -o CertificateFile='/home/user/my keys/hunter2' node1",
    ],
)  # fmt: skip
def test_secrets_are_left_out_of_texts(text: str) -> None:
    assert "hunter2" not in redacted(f"before\n{text}\nafter").lower()
    assert redacted(f"before\n{text}").startswith("before\n")


def test_what_is_no_secret_stays() -> None:
    text = "tokens per second 12\nping -i lo\ncc -include a/b.h -I/usr/x\nssh://host/x\nMPI_Init failed\nmtl:ofi:provider: lnx\n"
    assert redacted(text) == text


def test_secrets_are_left_out_of_data_whatever_holds_them() -> None:
    data = {
        "argv": ["run", "--password", "hunter2", "-x"],
        "agent": ["ssh", "-i", "/home/user/.ssh/hunter2"],
        "variables": {"OMPI_MCA_plm_rsh_args": "-4 -i /home/user/.ssh/hunter2 -C"},
        "env": {"WANDB_API_KEY": "hunter2", "FI_PROVIDER": "cxi"},
        "deep": [{"text": "TOKEN=hunter2"}],
        "token": {"kept": 1},
        "number": 3,
    }
    found = data_without_secrets(data)
    assert "hunter2" not in json.dumps(found)
    assert found["env"]["FI_PROVIDER"] == "cxi"
    assert (found["argv"][0], found["argv"][3], found["number"]) == ("run", "-x", 3)
    assert found["token"] == {"kept": 1}
    assert found["variables"]["OMPI_MCA_plm_rsh_args"] == "-4 -i (key left out) -C"
