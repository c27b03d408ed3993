"""The lines of `spack install`: how far it is, what failed, the first error of a build log."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.build.engines.spack.output import (
    PackageFailure,
    Progress,
    Signatures,
    advance,
    failures,
    first_error,
    signatures,
    source_problems,
)
from stackproof.core.errors import Reason

A, B = "aiuc72g6jbbektrrrwpvaw5smnrpstou", "komznkgmd6mmlnzijkpcnemyza6ehmmi"
STORE = "/user-environment/linux-debian12-zen3"
# As Spack 1.1 and 0.23 print them.
GOOD = f"""\
==> Installing xz-5.4-{A} [1/3]
==> No binary for xz-5.4-{A} found: installing from source
==> xz: Executing phase: 'configure'
==> xz: Executing phase: 'install'
==> xz: Successfully installed xz-5.4-{A}
[+] {STORE}/xz-5.4-{A}
[+] /usr (external gcc-12.2.0-{B})
==> Installing py-mpi4py-4.0.1-{B} [3/3]
"""
BAD = f"""\
==> Installing libfabric-2.1.0-{A} [1/2]
==> libfabric: Executing phase: 'build'
==> Error: ProcessError: Command exited with status 2:
    '/usr/bin/make' '-j2' 'V=1'

1 error found in build log:
  >> 12    x.c:1: error: y

See build log for details:
  /build/stage/spack-stage-libfabric-2.1.0-{A}/spack-build-out.txt

==> Warning: Skipping build of openmpi-5.0.9-{B} since libfabric-2.1.0-{A} failed
==> Error: openmpi-5.0.9-{B}: Package was not installed
==> Error: Installation request failed.  Refer to reported errors for failing package(s).
"""
OTHER = f"""\
{A[:7]} zlib@1.3.1: staging
{B[:7]} xz@5.4: build
{A[:7]} zlib@1.3.1: finished
{B[:7]} xz@5.4: failed
"""


def after(text: str) -> Progress:
    return reduce(advance, text.splitlines(), Progress())


def test_progress() -> None:
    found = after(GOOD)
    assert (found.total, len(found.done), found.running, found.left) == (3, 2, ("py-mpi4py",), 0)
    assert found.text == "py-mpi4py; 0 left"
    half = after("\n".join(GOOD.splitlines()[:3]))
    assert half.text == "xz (configure); 2 left"


def test_progress_of_the_other_installer() -> None:
    found = after(OTHER)
    assert (found.running, found.done) == ((), {A[:7]})
    assert after("\n".join(OTHER.splitlines()[:2])).running == ("zlib", "xz")


def test_what_two_workers_install_counts_once() -> None:
    assert len(after(GOOD + GOOD).done) == 2


@given(st.text() | st.lists(st.sampled_from((GOOD + BAD + OTHER).splitlines())).map("\n".join))
def test_nothing_that_a_program_prints_is_an_error_here(text: str) -> None:
    found = after(text)
    assert found.left >= 0
    failures(text)
    first_error(text)
    signatures(text)


def test_the_package_that_failed_comes_first_with_its_log() -> None:
    first, *_ = failures(BAD)
    assert (first.package, first.version, first.hash) == ("libfabric", "2.1.0", A)
    assert first.log.endswith("spack-build-out.txt")
    assert first.message == "ProcessError: Command exited with status 2"
    assert failures(GOOD) == ()
    assert failures("==> Error: no\n") == (PackageFailure(message="no"),)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("checking for error: no\nx.c:3:1: error: y\nmake: *** [x] Error 1\n", "x.c:3:1: error: y"),
        ("gcc -Werror -c x.c\nx.c:3:1: error: y [-Werror]\n", "x.c:3:1: error: y [-Werror]"),
        ("ld: x.o: undefined reference to `y'\n", "ld: x.o: undefined reference to `y'"),
        ("-- Looking for error: no\nCMake Error at x:1\n", "CMake Error at x:1"),
        ("configure: error: no C compiler\n", "configure: error: no C compiler"),
        ("ok\nmake: *** [all] Error 2\n", "make: *** [all] Error 2"),
        ("cc1: No space left on device\n", "cc1: No space left on device"),
        ("Traceback (most recent call last):\nKeyError: 'x'\n", "KeyError: 'x'"),
    ],
)
def test_the_first_error_of_a_log(log: str, line: str) -> None:
    assert line in first_error("\n" * 5 + log)
    assert len(first_error("a\n" * 50 + log + "b\n" * 50)) <= 10


def test_a_log_without_an_error() -> None:
    assert first_error("all is well\n") == ()


def test_signatures() -> None:
    text = f"""\
==> No binary for xz-5.4-{A} found: installing from source
gpg: Signature made Sat Nov 21 16:32:11 2026 UTC
gpg:                using RSA key 34284A56B17816E9
gpg: Can't check signature: No public key
gpg: Signature made Sat Nov 21 16:32:12 2026 UTC
gpg:                using RSA key 99AA
gpg: BAD signature from "good <good@example.org>" [ultimate]
"""
    assert signatures(text) == Signatures(
        bad=('gpg: BAD signature from "good <good@example.org>" [ultimate]',),
        unknown_keys=("34284A56B17816E9",),
        built=("xz@5.4",),
    )
    assert signatures(f'gpg: Good signature from "x"\n{GOOD}').bad == ()


# As Spack of June 2026 prints them.
NEWER = f"""\
[e] qggmgd4 glibc@2.36 /usr (0s)
[ ] {A[:7]} gcc-runtime@12.2.0 staging (0s)
[+] {A[:7]} gcc-runtime@12.2.0 {STORE}/gcc-runtime-12.2.0-{A} (0s)
[ ] {B[:7]} tiny-two@1.0 install (1s)
"""
NEWER_BAD = f"""\
[x] {B[:7]} tiny-two@1.0 failed: /build/stage/me/spack-stage-tiny-two-1.0-{B}-3s2nm5rg.log (1s)
-- lines 1 to 7 --
> make: *** no
==> Error: The following packages failed to install:
tiny-two@1.0/{B}: /build/stage/me/spack-stage-tiny-two-1.0-{B}-3s2nm5rg.log
==> Error: Expected InstallError to include the associated package
"""


def test_the_lines_since_spack_1_2() -> None:
    found = after(NEWER)
    assert (found.done, found.running, found.phase) == ({A[:7]}, ("tiny-two",), "install")
    assert after(NEWER + NEWER_BAD).running == ()
    first, *_ = failures(NEWER + NEWER_BAD)
    assert (first.package, first.version, first.hash) == ("tiny-two", "1.0", B)
    assert first.log == f"/build/stage/me/spack-stage-tiny-two-1.0-{B}-3s2nm5rg.log"


# Sources that could not be had.

HASH = "n4vh7yry32qai6lulag2htxft4zr3fsb"
AWAY = f"""\
==> Fetching https://example.org/tiny-four-1.0.tar.gz
==> Warning: Error while fetching tiny-four@1.0
  All fetchers failed for spack-stage-tiny-four-1.0-{HASH}
    https://a.example.org/aa.tar.gz: DetailedURLError: GET https://a.example.org/aa.tar.gz errored \
with: [Errno -2] Name or service not known
    https://example.org/tiny-four-1.0.tar.gz: DetailedURLError: GET x errored with: 404
==> Warning: Error while fetching py-x@2.1rc1
  All fetchers failed for resource-y-spack-stage-py-x-2.1rc1-{HASH}
==> Error: Failed downloads:
  tiny-four@1.0  py-x@2.1rc1
"""
CHANGED = f"""\
==> Error: sha256 checksum failed for /build/stage/spack-stage-xz-5.2-{HASH}/xz-5.2.tar.gz
Expected aa45 but got 73cb. File size = 2 bytes. Contents = b'x\\n'. URL = file:///m/aa45.tar.gz
"""


def test_sources_that_cannot_be_had_are_named_with_what_was_tried():
    one, other = source_problems(AWAY)
    assert one.reason is other.reason is Reason.NO_NETWORK
    assert "tiny-four@1.0" in one.message
    assert one.detail
    assert one.detail.splitlines()[1] == "https://example.org/tiny-four-1.0.tar.gz: 404"
    assert "py-x@2.1rc1" in other.message
    assert source_problems(AWAY + AWAY) == (one, other)


def test_a_source_that_changed_is_another_matter():
    [problem] = source_problems(CHANGED)
    assert problem.reason is Reason.DIGEST_MISMATCH
    assert "xz@5.2" in problem.message
    assert problem.detail == (
        "Expected aa45 but got 73cb. File size = 2 bytes. URL = file:///m/aa45.tar.gz"
    )


@pytest.mark.parametrize("text", ["", "==> Error: No compilers\n", "All fetchers failed"])
def test_other_failures_say_nothing_of_sources(text: str):
    assert source_problems(text) == ()
