"""How long `stackproof build` takes: cold, with the downloads at hand, and unchanged.

    python benchmarks/build.py [RECIPE…]

`cold` starts with an empty cache and includes the download, `downloaded` builds again from the
downloaded files, `unchanged` has nothing to do. Beside them the peer that a user has without us:
`pip install --prefix` of the same wheels, from pip's own cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def seconds(argv: list[str], env: dict[str, str]) -> float:
    """Return the wall time of one program in seconds; raises when it fails."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, env=env, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    """Time the builds of each recipe."""
    recipes = sys.argv[1:] or [str(ROOT / f"recipes/{n}.yaml") for n in ("mpich", "openmpi")]
    result = {}
    for recipe in recipes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            copy = shutil.copy(recipe, folder)
            shutil.copy(Path(recipe).with_suffix(".lock.json"), folder)
            env = {**os.environ, "STACKPROOF_CACHE": str(folder / "cache")}
            target = str(folder / "image.squashfs")
            argv = [sys.executable, "-m", "stackproof", "build", str(copy), "-o", target]
            times = {"cold": seconds(argv, env)}
            shutil.rmtree(folder / "cache" / "builds")
            times["downloaded"] = seconds(argv, env)
            times["unchanged"] = seconds(argv, env)
            lock = json.loads(Path(copy).with_suffix(".lock.json").read_text())
            wheels = [f"{a['name']}=={a['version']}" for a in lock["artefacts"]]
            pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--prefix"]
            times["pip install"] = seconds([*pip, str(folder / "pip"), *wheels], env)
        result[Path(recipe).stem] = times
        line = "  ".join(f"{name} {value:.2f} s" for name, value in times.items())
        ratio = times["cold"] / times["unchanged"]
        print(f"{Path(recipe).stem:12} {line}  (cold/unchanged {ratio:.1f})")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
