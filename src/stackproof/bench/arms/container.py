"""A container of other people, with its own MPI, or with one of the machine under its programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.bench.arms.paths import absolute


class ContainerArm:
    """`container: REFERENCE`, as its runtime takes it; `host-mpi` is an MPI of the same ABI."""

    name = "container"
    title = "a container"
    keys = frozenset({"runtime", "bind", "host-mpi", "options", "accept-unknown",
                      "artefact", "hook", "archive"})  # fmt: skip

    def short(self, text: str) -> dict[str, Any]:
        """Return the entry for REFERENCE, or REFERENCE@HOST-MPI with the path of an MPI."""
        name, mark, host = text.rpartition("@/")
        return {"container": name, "host-mpi": f"/{host}"} if mark else {"container": text}

    def fields(self, entry: Mapping[str, Any], folder: str) -> dict[str, Any]:
        """Return the fields; the MPI of the machine, and a file, are relative to the folder."""
        found = {key: entry[key] for key in (self.name, *self.keys) if key in entry}
        for key in ("host-mpi", "artefact", "hook", "archive"):
            if key in entry:
                found[key] = absolute(entry[key], folder)
        scheme, path = _split(entry["container"])
        if path.startswith(("./", "../")):
            found["container"] = scheme + absolute(path, folder)
        found["options"] = tuple(entry.get("options", ()))
        return {key.replace("-", "_"): value for key, value in found.items()}


def _split(text: str) -> tuple[str, str]:
    """Return the word of an OCI layout or archive with its colon, and the path behind it."""
    scheme, colon, path = text.partition(":")
    return (scheme + colon, path) if path.startswith(("./", "../")) else ("", text)
