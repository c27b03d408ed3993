"""Where benches run as Slurm jobs: a folder with images, and a cluster with Slurm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from msgspec import Struct, field

from clusters import wait_until
from need import need

ROOT = Path(__file__).resolve().parents[1]


class Room(Struct):
    """A folder with images, and the cluster with Slurm that benches run on."""

    folder: Path
    env: dict[str, str]
    cluster: str
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def argv(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "stackproof", *map(str, words)]

    def run(
        self, *words: object, ok: tuple[int, ...] = (0,), timeout: float = 180
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(*words), cwd=self.folder, env=self.env, capture_output=True, text=True,
            check=False, timeout=timeout,
        )  # fmt: skip
        assert done.returncode in ok, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def begin(self, *words: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.argv(*words), cwd=self.folder, env=self.env, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.running.append(process)
        return process

    def slurm(self, *words: object) -> str:
        return self.run("cluster", "exec", "--name", self.cluster, "--", *words).stdout

    def spec(self, name: str, **changes: object) -> str:
        spec = {
            "baseline": {"name": "base", "image": "mpich.squashfs"},
            "null-arm": False,
            "benchmarks": ["latency"],
            "sizes": [8],
            "placements": ["inter-node"],
            "launches": 9,
            "samples": 3,
            "seconds-per-size": 0.002,
            "timeout": 30,
            "cluster": self.cluster,
            "on": "slurm",
            **changes,
        }
        (self.folder / f"{name}.yaml").write_text(json.dumps(spec))
        return f"{name}.yaml"

    def launches(self, name: str) -> dict[str, dict]:
        files = (self.folder / name / "launches").glob("*.json")
        return {path.name: json.loads(path.read_text()) for path in sorted(files)}

    def wait_for(self, name: str, count: int) -> dict[str, int]:
        """Wait until so many launches are done; return when each was written."""
        place = self.folder / name / "launches"

        def there() -> list[Path]:
            return sorted(place.glob("*.json")) if place.is_dir() else []

        assert wait_until(lambda: len(there()) >= count, 90), [*map(str, there())]
        return {path.name: path.stat().st_mtime_ns for path in there()}

    def untouched(self, name: str, before: dict[str, int]) -> bool:
        place = self.folder / name / "launches"
        return all((place / one).stat().st_mtime_ns == when for one, when in before.items())

    def job(self, name: str) -> str:
        return json.loads((self.folder / name / "job" / "job.json").read_text())["id"]

    def measured(self, name: str, *words: object) -> str:
        """Have a bench submitted, and wait for the end of its job; return what it printed."""
        said = self.submitted(name, *words)
        self.await_end(name)
        return said + self.log(name)

    def submitted(self, name: str, *words: object) -> str:
        """Submit a bench whose results folder has this name; return what that said."""
        given = words or (f"{name}.yaml", "-o", name)
        return self.run("bench", *given, "--no-verdict").stderr

    def await_end(self, name: str) -> None:
        """Wait until the job of a results folder has left Slurm's queue."""
        job = self.job(name)
        queued = ("squeue", "--noheader", f"--jobs={job}", "--format=%T")
        assert wait_until(lambda: not self.slurm(*queued).strip(), 180), self.log(name)

    def log(self, name: str) -> str:
        """Return what the jobs of a results folder printed."""
        return "".join(
            path.read_text() for path in sorted((self.folder / name / "logs").glob("job-*.log"))
        )

    def tree(self, name: str) -> None:
        """Unpack an image of the folder as `NAME-tree`."""
        argv = ["unsquashfs", "-no-progress", "-d", f"{name}-tree", f"{name}.squashfs"]
        subprocess.run(argv, cwd=self.folder, check=True, capture_output=True)


def built_in(folder: Path, cluster: str, *recipes: str) -> Room:
    """Return a room in a folder with the images of these recipes."""
    need("slurm", "root", "network", "bubblewrap", "mksquashfs", "netns", "gcc")
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700)
    room = Room(folder, {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}, cluster)
    for name in recipes:
        shutil.copy(ROOT / "recipes" / f"{name}.yaml", folder)
        room.run("build", f"{name}.yaml")
    return room
