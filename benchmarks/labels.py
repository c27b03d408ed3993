"""What labels cost: processor time and wall time of the listings, and of `run` by a label.

    python benchmarks/labels.py [COUNT]

A repository and a registry with COUNT labels (200 if not said) of images that are small; `find`
lists those of the registry, `known` without asking it, `run` starts `true` with an image by its
file and by its label. Each command runs 20 times, by modules that are compiled, as pip leaves them;
printed is the median in ms. Either listing of 200 should take less than 300 ms.

With 100,000 labels, processor time on 2 cores of a virtual machine, in turn with the code before
labels were looked up by SQL: `run` by file 33 ms, as before; by label 133 ms, was 2661; `image ls
--json` 2.4 s, was 4.5; `image ls LABEL` 201 ms, was 2696; `inspect LABEL` 0.32 s, was 7.2; `image
add` of a further label 0.39 s, was 8.8. Of what `run` by label costs more, 40 ms are modules and
60 ms the bytes of the index (39 MB): SQLite has them in memory, as it opens no file of others.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stackproof.core.value import replace

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from images import make_image  # noqa: E402 - only now on the path
from registries import OwnRegistry  # noqa: E402 - as above
from stackproof.share import labels, listing  # noqa: E402
from stackproof.share.effects import catalogue, oci, storing  # noqa: E402
from stackproof.share.effects.repository import ImageRepository  # noqa: E402
from stackproof.share.effects.storing import AddOptions  # noqa: E402
from stackproof.share.options import RemoteOptions  # noqa: E402

TIMES = 20


def cost_ms(argv: list[str], env: dict[str, str]) -> dict[str, float]:
    """Return the medians of processor time (user and system) and wall time in ms."""
    processor, wall = [], []
    for _ in range(TIMES):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(argv, check=True, env=env, capture_output=True)
        wall.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    medians = {"processor": statistics.median(processor), "wall": statistics.median(wall)}
    return {name: round(1000 * seconds, 1) for name, seconds in medians.items()}


def main() -> None:
    """Fill a repository, and time the commands."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    program = shutil.which("stackproof", path=str(Path(sys.executable).parent)) or "stackproof"
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as closing:
        file = make_image(Path(name) / "a.squashfs")
        repository = ImageRepository(Path(name) / "repository")
        label = labels.parse("tiny/0:v1@here%any")
        record = storing.add(repository, AddOptions(label=label, file=str(file)))
        with repository.changing() as change:  # one at a time would write the index as often
            for number in range(1, count):
                label = labels.parse(f"tiny/{number}:v1@here%any")
                change.add(replace(record, label=label, digest=f"{number:x}".zfill(64)[::-1]))
        server = closing.enter_context(OwnRegistry())
        registry = oci.opened(RemoteOptions(registry=server.address))
        closing.callback(registry.client.close)
        records = [replace(one, namespace="deploy") for one in repository.records()]
        content = listing.render(records)
        listed = listing.parse(content, namespace="deploy", where="here")
        catalogue.renew(registry, "deploy", add=listed)
        env = {
            **os.environ, "STACKPROOF_REPOSITORY": str(repository.folder),
            "STACKPROOF_CACHE": f"{name}/cache", "STACKPROOF_REGISTRY": server.address,
            "PYTHONPYCACHEPREFIX": f"{name}/compiled", "PYTHONDONTWRITEBYTECODE": "",
        }  # fmt: skip
        commands = {
            "version": ["--version"],
            "ls": ["image", "ls"],
            "names": ["image", "ls", "--names"],
            "find": ["image", "find"],
            "known": ["image", "find", "--known", "--names"],
            "run by file": ["run", str(file), "--", "true"],
            "run by label": ["run", "tiny/0", "--", "true"],
        }
        found = {name: cost_ms([program, *words], env) for name, words in commands.items()}
    print(json.dumps({"labels": count, "median_ms": found}, indent=1))


if __name__ == "__main__":
    main()
