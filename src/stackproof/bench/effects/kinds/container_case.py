"""What a container arm is made of: its image as a runtime takes it, and as a file to look into."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping

from stackproof.bench.effects.installation import Installation
from stackproof.bench.effects.kinds import stamp_of
from stackproof.bench.runtimes import ImageSource, get, starting
from stackproof.bench.spec import Arm
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import cache_folder, cache_kinds, files
from stackproof.core.effects.run import failure, run
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.image.container.effects import roots

ANSWER_S = 300.0
"""How long a runtime may take to answer."""
_SETTINGS = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF")
_KEPT_BYTES = 16 << 30
_SCHEME = re.compile(r"(?:oci|oci-archive|docker-archive):")


class ContainerCase(Value):
    """A container and what is carried into it, before it is known how it starts.

    `image` is what its runtime is given, `archive` the same as a file or folder to look into;
    `folders` (and files) are seen at their own paths in it, `programs` are in these, by name.
    """

    arm: Arm
    host: Installation
    image: str
    archive: str
    image_digest: str
    folders: tuple[str, ...]
    programs: Mapping[str, str]

    @property
    def hybrid(self) -> bool:
        """Return whether the machine's MPI is put under the programs."""
        return self.arm.bind == "hybrid"

    @property
    def binds(self) -> dict[str, str]:
        """Return the folders of the machine by the place that they are seen at."""
        found = {folder: folder for folder in self.folders}
        return {**found, self.host.prefix: self.host.prefix} if self.hybrid else found


def find_archive(arm: Arm) -> tuple[str, str, str]:
    """Return an image as its runtime takes it, the same as a file or folder, and its digest.

    What has a name alone is written into the cache; its digest is the runtime's own, as no two
    archives of an image are alike. Raises `StackproofError` (UNSUPPORTED).
    """
    runtime, source, text = get(arm.runtime), _source(arm.container), arm.container
    if source not in runtime.sources:
        raise fail(
            Reason.UNSUPPORTED,
            f"{arm.runtime} does not start `{text}`, which is {source.value}",
            hint=f"it starts {', or '.join(sorted(one.value for one in runtime.sources))}"
            f"; {' and '.join(starting(source)) or 'nothing here'} would start this one",
        )
    if source is not ImageSource.NAME:
        image = f"oci:{text}" if source is ImageSource.OCI and os.path.isdir(text) else text
        return image, *_readable(text)
    if arm.archive:
        return text, *_readable(arm.archive)
    if not runtime.archive:
        raise fail(
            Reason.MISSING_KEY,
            f"`{text}` is no file, and {arm.runtime} writes none of it, so that it cannot be "
            "looked into",
            hint="say `archive: FILE`, which it was loaded from, or name a file as `container`",
        )
    digest = run_runtime(arm, (arm.runtime, "image", "inspect", "--format={{.Id}}", text)).strip()
    place = cache_kinds.home("archives") / f"saved-{digest.rpartition(':')[2][:32]}"
    cache_kinds.in_use()
    if not (place / "image.tar").exists():
        with cache_folder.alone(place), cache_folder.making(place) as folder:
            file = str(folder / "image.tar")
            words = (word.replace("{file}", file) for word in runtime.archive)
            run_runtime(arm, (*words, text))
        cache_folder.prune("archives", _KEPT_BYTES, keep=place)
    return text, str(place / "image.tar"), digest.rpartition(":")[2]


def _readable(text: str) -> tuple[str, str]:
    """Return the reader of an image that is no name, and its digest."""
    path = text.partition(":")[2] if _SCHEME.match(text) else text
    path = path if os.path.exists(path) else path.rpartition(":")[0]
    if not os.path.exists(path):
        raise fail(
            Reason.FILE_MISSING, f"there is no `{path or text}`", where=Location(file=path or text)
        )
    digest = files.sha256(path) if os.path.isfile(path) else _digest_of(path)
    return f"rootfs:{text}" if roots.is_squashfs(text) else text, digest


def _source(text: str) -> ImageSource:
    """Return the name that an image was given by."""
    if _SCHEME.match(text):
        return ImageSource.OCI
    if not os.path.exists(text):
        return ImageSource.NAME
    if roots.is_squashfs(text):
        return ImageSource.SQUASHFS
    if roots.is_image(text):
        return ImageSource.SIF if roots.is_sif(text) else ImageSource.OCI
    return ImageSource.FOLDER if os.path.isdir(text) else ImageSource.NAME


def _digest_of(folder: str) -> str:
    """Return a digest of an OCI layout by its index; of a root by its path and its time."""
    index = os.path.join(folder, "index.json")
    if os.path.isfile(index):
        return files.sha256(index)
    return hashlib.sha256(f"{folder} {stamp_of(folder)}".encode()).hexdigest()


def run_runtime(arm: Arm, argv: tuple[str, ...]) -> str:
    """Return the output of a command of the runtime; raises `StackproofError` (JOB_FAILED)."""
    command = Command(argv=argv, env=EnvPatch(set=dict(arm.env)), timeout_s=ANSWER_S, cwd="/")
    done = run(command)
    if done.returncode != 0 or done.timed_out:
        error = failure(command, done, log=None, reason=Reason.JOB_FAILED)
        unused = [name for name in _SETTINGS if name in os.environ and name not in arm.env]
        if not unused:
            raise error
        values = ", ".join(f"{name}: {os.environ[name]}" for name in unused)
        hint = (
            f"no exported variable is used: if it is for this, say `env: {{{values}}}` in the arm"
        )
        raise StackproofError(replace(error.problems[0], hint=hint))
    return done.stdout.decode(errors="replace")
