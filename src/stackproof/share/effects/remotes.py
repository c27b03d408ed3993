"""Which registry is meant, and who the user is there.

`STACKPROOF_REGISTRY` names the address below which images are, `STACKPROOF_LISTING` a service of
the site that lists them, as uenv asks one. A site sets both where it sets `CLUSTER_NAME`.
"""

from __future__ import annotations

import os

from stackproof.core.errors import Reason, fail
from stackproof.share import addresses
from stackproof.share.effects import credentials
from stackproof.share.effects.credentials import Credential
from stackproof.share.effects.http_client import HttpClient
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.options import RemoteOptions

VARIABLE = "STACKPROOF_REGISTRY"
LISTING = "STACKPROOF_LISTING"


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
