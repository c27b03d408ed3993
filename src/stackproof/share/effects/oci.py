"""A registry, as the distribution specification 1.1 has it: manifests, blobs, tags, what refers.

https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md; its numbers (end-1 to
end-13) stand at the requests. Tokens are those of https://distribution.github.io/distribution/spec/auth/token/.

`STACKPROOF_REGISTRY` names the address below which images are, `STACKPROOF_LISTING` a service of
the site that lists them, as uenv asks one. A site sets both where it sets `CLUSTER_NAME`.
"""

from __future__ import annotations

import os
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.share import addresses, answers, manifests, origins
from stackproof.share.addresses import RegistryAddress
from stackproof.share.effects import credentials
from stackproof.share.effects.credentials import Credential
from stackproof.share.effects.http_client import HttpAnswer, HttpClient, HttpRequest
from stackproof.share.manifests import OciDescriptor, OciIndex
from stackproof.share.options import RemoteOptions
from stackproof.share.origins import Secret

VARIABLE = "STACKPROOF_REGISTRY"
LISTING = "STACKPROOF_LISTING"
PULL, PUSH, DELETE = "pull", "pull,push", "pull,push,delete"
"""What is asked for of a repository, as tokens have it."""
CATALOG = "*"
_PAGE = 1000
_CHALLENGE = re.compile(r'(?<![A-Za-z])([A-Za-z]+)="((?:[^"\\]|\\.)*)"')
_TOKEN_S = 60.0
"""How long a token is good whose server does not say it."""
_TOKEN = re.compile(r"[!-~]{1,65536}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
"""Of repositories and tags in a list: what can stand in an address, and means itself there."""

CredentialFinder = Callable[[str, str], Credential | None]


class OciRegistry:
    """A server that keeps images; several threads may use one.

    Everything raises `StackproofError`: what `HttpClient` does, LOGIN_NEEDED (401),
    REGISTRY_DENIED (403), IMAGE_MISSING (404), REGISTRY_UNABLE (405, or what it does not have),
    REGISTRY_ANSWER for answers that the specification does not have.
    """

    def __init__(
        self, address: RegistryAddress, *, client: HttpClient, credentials: CredentialFinder
    ) -> None:
        self.address = address
        self.client = client
        self._root = origins.parse(f"{address.scheme}://{address.host}/v2/")
        self._credentials = credentials
        self._tokens: dict[str, tuple[Secret, float]] = {}
        self._lock = threading.Lock()
        self._has_referrers: bool | None = None

    # ---- manifests

    def manifest(self, repository: str, reference: str) -> tuple[bytes, str]:
        """Return a manifest by tag or digest, and its digest, which is checked (end-3)."""
        place = f"{repository}/manifests/{reference}"
        with self._ask("GET", place, PULL, {"Accept": ", ".join(manifests.ACCEPTED)}) as answer:
            self.expect(answer, place, 200)
            content = answer.read(limits.REGISTRY.bytes)
            said = answer.headers.get("Docker-Content-Digest", "")
        digest = manifests.digest_of(content)
        wanted = reference if manifests.is_digest(reference) else said
        if manifests.is_digest(wanted) and wanted != digest:
            raise self._changed(place, wanted, digest)
        return content, digest

    def digest_of_tag(self, repository: str, tag: str) -> str:
        """Return the digest of a tag; empty for one that there is not."""
        try:
            with self._ask("HEAD", f"{repository}/manifests/{tag}", PULL,
                           {"Accept": ", ".join(manifests.ACCEPTED)}) as answer:  # fmt: skip
                if answer.status == 404:
                    return ""
                self.expect(answer, f"{repository}:{tag}", 200)
                said = answer.headers.get("Docker-Content-Digest", "")
            return said if manifests.is_digest(said) else self.manifest(repository, tag)[1]
        except StackproofError as error:
            if error.reason is Reason.IMAGE_MISSING:
                return ""
            raise

    def put_manifest(self, repository: str, reference: str, content: bytes, kind: str) -> bool:
        """Put a manifest; return whether the server keeps what refers to its subject (end-7)."""
        place = f"{repository}/manifests/{reference}"
        with self._ask("PUT", place, PUSH, {"Content-Type": kind}, content) as answer:
            self.expect(answer, place, 201)
            said = answer.headers.get("Docker-Content-Digest", "")
            kept = bool(answer.headers.get("OCI-Subject"))
        if manifests.is_digest(said) and said != manifests.digest_of(content):
            raise self._changed(place, manifests.digest_of(content), said)
        return kept

    def delete_manifest(self, repository: str, reference: str) -> None:
        """Delete a manifest by its digest, which takes all its tags (end-9)."""
        place = f"{repository}/manifests/{reference}"
        with self._ask("DELETE", place, DELETE) as answer:
            self.expect(answer, place, 202, 200, 404)

    # ---- lists

    def tags(self, repository: str) -> tuple[str, ...]:
        """Return the tags of a repository; none where there is none (end-8)."""
        return self._listed(f"{repository}/tags/list", PULL, "tags")

    def repositories(self) -> tuple[str, ...]:
        """Return all repositories of the server, which not every one tells (`/v2/_catalog`)."""
        return self._listed("_catalog", CATALOG, "repositories")

    def _listed(self, place: str, what: str, key: str) -> tuple[str, ...]:
        names: list[str] = []
        target, left = f"{place}?n={_PAGE}", limits.LISTING.bytes
        for _ in range(limits.REGISTRY.count):
            with self._ask("GET", target, what) as answer:
                if answer.status == 404 and what == PULL:
                    return ()
                self.expect(answer, place, 200)
                content = answer.read(min(limits.REGISTRY.bytes, left))
                link = answer.headers.get("Link", "")
            page = self._json(content, place).get(key) or []
            if not isinstance(page, list) or not all(
                isinstance(name, str) and _NAME.fullmatch(name) for name in page
            ):
                raise self._odd(place, f"its `{key}` is no list of names")
            left -= len(content)
            before = len(names)
            names = list(dict.fromkeys((*names, *page)))
            following = re.match(r'\s*<([^>]*)>\s*;.*rel="?next"?', link)
            if following is None:
                break
            if len(names) == before:
                raise self._odd(place, "a page of the list has nothing new, and there are more")
            address = origins.resolve(answer.address, following[1])
            if address.origin != self._root.origin:
                raise self._odd(place, f"its next page is on another server, `{address.origin}`")
            target = str(address)
        return tuple(names)

    def referrers(self, repository: str, digest: str) -> tuple[OciDescriptor, ...]:
        """Return the manifests that refer to one: by the server's list, else the fallback tag."""
        if self._has_referrers is not False:
            place = f"{repository}/referrers/{digest}"
            with self._ask("GET", place, PULL, {"Accept": manifests.INDEX}) as answer:
                self._has_referrers = answer.status == 200
                if self._has_referrers:
                    found = manifests.parse(answer.read(limits.REGISTRY.bytes), where=place)
                    if isinstance(found, OciIndex):
                        return found.manifests
                    raise self._odd(place, "it is no index")
                self.expect(answer, place, 404, 405, 400)
        return self.fallback_index(repository, digest).manifests

    def fallback_index(self, repository: str, digest: str) -> OciIndex:
        """Return the list under the fallback tag of a manifest, empty where there is none."""
        tag = manifests.fallback_tag(digest)
        try:
            content, _ = self.manifest(repository, tag)
        except StackproofError as error:
            if error.reason is Reason.IMAGE_MISSING:
                return OciIndex(manifests=())
            raise
        found = manifests.parse(content, where=f"{repository}:{tag}")
        return found if isinstance(found, OciIndex) else OciIndex(manifests=())

    # ---- blobs

    def has_blob(self, repository: str, digest: str) -> bool:
        """Return True where a blob is there (end-2)."""
        with self._ask("HEAD", f"{repository}/blobs/{digest}", PULL) as answer:
            self.expect(answer, f"{repository}/blobs/{digest}", 200, 404)
            return answer.status == 200

    def blob(
        self, repository: str, one: OciDescriptor, *, most: int = limits.REGISTRY.bytes
    ) -> bytes:
        """Return a small blob, whose digest is checked; raises IMAGE_DAMAGED, TOO_LARGE."""
        if one.data and one.digest == manifests.EMPTY.digest:
            return manifests.EMPTY_BLOB
        place = f"{repository}/blobs/{one.digest}"
        with self._ask("GET", place, PULL) as answer:
            self.expect(answer, place, 200)
            content = answer.read(min(most, one.size))
        if manifests.digest_of(content) != one.digest:
            raise self._changed(place, one.digest, manifests.digest_of(content))
        return content

    def open_blob(self, repository: str, digest: str, first: int, last: int) -> HttpAnswer:
        """Return the answer with the bytes from `first` to `last` of a blob, both included.

        Its status is 206, or 200 where the server knows no ranges and begins at the first byte;
        416 is given back too.
        """
        headers = {"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"}
        place = f"{repository}/blobs/{digest}"
        answer = self._ask("GET", place, PULL, headers)
        try:
            self.expect(answer, place, 200, 206, 416)
        except StackproofError:
            answer.close()
            raise
        return answer

    # ---- the wire

    def send(self, request: HttpRequest, what: str, repository: str) -> HttpAnswer:
        """Return the answer to a request at an address that the server gave, whole or relative.

        Who asks is told to this server alone: a secret is for its origin, and what another one
        answers, after a redirect too, is no reason to name a password.
        """
        request = replace(request, url=str(origins.resolve(self._root, request.url)))
        scope = "registry:catalog:*" if what == CATALOG else f"repository:{repository}:{what}"
        answer = self.client.send(replace(request, secret=self._known(scope)))
        if answer.status != 401 or answer.address.origin != self._root.origin:
            return answer
        challenge = answer.headers.get("WWW-Authenticate", "")
        answer.close()
        secret = self._authorization(challenge, scope, repository)
        answer = self.client.send(replace(request, secret=secret))
        if answer.status == 401 and answer.address.origin == self._root.origin:
            answer.close()
            raise self._login(repository, "it takes none of what is known here, or not for this")
        return answer

    def _ask(
        self, method: str, place: str, what: str, headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HttpAnswer:  # fmt: skip
        repository = re.split(r"/(?:manifests|blobs|tags|referrers)/", place)[0]
        request = HttpRequest(method=method, url=place, headers=headers or {}, body=body)
        return self.send(request, what, repository)

    def _known(self, scope: str) -> Secret | None:
        with self._lock:
            secret, until = self._tokens.get(scope, (None, 0.0))
        return secret if time.monotonic() < until else None

    def _authorization(self, challenge: str, scope: str, repository: str) -> Secret:
        """Return the header that answers a challenge, and keep it for the next request."""
        scheme, _, rest = challenge.partition(" ")
        asked = dict(_CHALLENGE.findall(rest))
        credential = self._credentials(self.address.host, repository)
        if scheme.lower() == "bearer" and asked.get("realm"):
            header, seconds = self._token(asked, scope, credential, repository)
        elif scheme.lower() == "basic":
            if credential is None or not credential.username:
                raise self._login(repository, "no file or helper knows a name for it")
            origins.check_credential(self._root.origin, self._root.origin)
            header, seconds = credential.basic, 3600.0
        else:
            raise self._odd(repository, f"it asks for `{scheme[:40]}`, which is not known here")
        secret = Secret(header=header, origin=self._root.origin)
        with self._lock:
            self._tokens[scope] = (secret, time.monotonic() + seconds)
        return secret

    def _token(
        self, asked: Mapping[str, str], scope: str, credential: Credential | None, repository: str
    ) -> tuple[str, float]:
        """Return a token and the seconds for which it is good, by this machine's own clock."""
        realm = origins.resolve(self._root, asked["realm"])
        fields = {"service": asked.get("service", ""), "scope": asked.get("scope") or scope}
        request = HttpRequest(method="GET", url=str(realm.with_query(fields)))
        if credential is not None:
            origins.check_credential(self._root.origin, realm.origin)
            request = replace(request, secret=Secret(header=credential.basic, origin=realm.origin))
        if credential is not None and credential.identity_token:
            form = {
                **fields, "grant_type": "refresh_token", "client_id": "stackproof",
                "refresh_token": credential.identity_token,
            }  # fmt: skip
            request = HttpRequest(
                method="POST", url=str(realm), body=urllib.parse.urlencode(form).encode(),
                headers={"Content-Type": "application/x-www-form-urlencoded"},
            )  # fmt: skip
        with self.client.send(request) as answer:
            if answer.status in {400, 401, 403}:
                known = "no file or helper knows a name for it"
                raise self._login(repository, known if credential is None
                                  else "it does not take the name and password")  # fmt: skip
            self.expect(answer, realm.place, 200)
            data = self._json(answer.read(limits.REGISTRY.bytes), realm.place)
        token = data.get("token") or data.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise self._odd(realm.place, "it has no token")
        return f"Bearer {token}", max(answers.seconds(data.get("expires_in"), _TOKEN_S) * 0.9, 1.0)

    # ---- what can be wrong

    def expect(self, answer: HttpAnswer, place: str, *good: int) -> None:
        """Raise what a status means that is none of the good ones."""
        if answer.status in good:
            return
        where = Location(file=f"{self.address.host}/{place}")
        said = answer.words()
        if answer.status == 403:
            raise fail(
                Reason.REGISTRY_DENIED,
                f"`{self.address.host}` does not let you: {said or 'forbidden (403)'}",
                where=where,
                hint="ask who keeps the registry for the right to it, or log in by another name",
            )
        if answer.status == 404:
            raise fail(
                Reason.IMAGE_MISSING,
                f"`{self.address.host}` has no `{place}`",
                where=where,
                hint="`stackproof image find` lists what there is",
            )
        if answer.status == 507:
            raise fail(
                Reason.DISK_FULL,
                f"`{self.address.host}` has no space left: {said or 507}",
                where=where,
                hint="tell its administrator; the next try goes on where this one stopped",
            )
        if answer.status in {405, 501} or (answer.status == 400 and "UNSUPPORTED" in said):
            raise fail(
                Reason.REGISTRY_UNABLE,
                f"`{self.address.host}` does not do this: {said or 'not allowed (405)'}",
                where=where,
                hint="who keeps the registry can switch it on; of docker-registry deleting is: "
                "storage.delete.enabled",
            )
        raise fail(
            Reason.REGISTRY_ANSWER,
            f"`{self.address.host}` answered with {answer.status}: {said or 'no reason'}",
            where=where,
            hint=f"is this the address of a registry? {self._plain_hint()}".strip(),
        )

    def _plain_hint(self) -> str:
        """Return the hint for a registry that may want to be spoken to by TLS."""
        plain = self.address.scheme == "http"
        return f"where it has a certificate write https://{self.address.host}" if plain else ""

    def _json(self, content: bytes, place: str) -> dict[str, Any]:
        try:
            return answers.parse_object(content)
        except ValueError:
            raise self._odd(place, "it is not JSON") from None

    def _odd(self, place: str, why: str) -> StackproofError:
        return fail(
            Reason.REGISTRY_ANSWER,
            f"the answer of `{self.address.host}` cannot be read: {why}",
            where=Location(file=f"{self.address.host}/{place.partition('?')[0]}"),
            hint="is this the address of a registry?",
        )

    def _login(self, repository: str, why: str) -> StackproofError:
        return fail(
            Reason.LOGIN_NEEDED,
            f"`{self.address.host}` wants to know who you are: {why}",
            where=Location(file=f"{self.address.host}/{repository}"),
            hint=f"`podman login {self.address.host}`, or give --username NAME and --token FILE",
        )

    def _changed(self, place: str, wanted: str, found: str) -> StackproofError:
        return fail(
            Reason.IMAGE_DAMAGED,
            f"`{self.address.host}` gave other bytes than it was asked for",
            where=Location(file=f"{self.address.host}/{place}"),
            detail=f"wanted {wanted}\ngot    {found}",
            hint="nothing of it was kept; tell who keeps the registry",
        )


def opened(options: RemoteOptions) -> OciRegistry:
    """Return the registry that is meant; nothing is asked of it yet. Raises USAGE without one."""
    text = options.registry or os.environ.get(VARIABLE, "")
    if not text:
        raise fail(
            Reason.USAGE,
            "no registry is named",
            hint=f"--registry registry.example.org/images, or set {VARIABLE}",
        )
    given: Credential | None = None
    if options.token:
        given = credentials.from_token(options.token, options.username)

    def known(host: str, repository: str) -> Credential | None:
        return given if given is not None else credentials.find(host, repository)

    client = HttpClient(certificates=options.certificates)
    return OciRegistry(addresses.parse_address(text), client=client, credentials=known)


def listing_service() -> str:
    """Return the address of the site's listing; empty where it has none."""
    return os.environ.get(LISTING, "")
