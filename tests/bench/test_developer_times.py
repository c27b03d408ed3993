"""`benchmarks/developer.py`: what compiling with a stack in an image costs, against folders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.machine
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "developer.py"
CONFIGURE = "#!/bin/sh\nprintf 'app: app.c\\n\\tmpicc -o app app.c\\n' > Makefile\n"


def test_every_way_compiles_and_is_compared_with_the_image(
    bench_folder: Path, tmp_path: Path
) -> None:
    source, storage, out = (tmp_path / name for name in ("source", "storage", "out.json"))
    source.mkdir()
    storage.mkdir()
    (source / "app.c").write_text("#include <mpi.h>\nint main(void) { return MPI_SUCCESS; }\n")
    (source / "configure").write_text(CONFIGURE)
    (source / "configure").chmod(0o755)
    words = ["--folder", storage, "--source", source, "--build", "./configure", "--build", "make"]
    argv = [SCRIPT, bench_folder / "mpich.squashfs", *words, "--rounds", "2", "--json", out]
    done = subprocess.run(
        [sys.executable, *map(str, argv)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert {row["way"] for row in rows} == {"image", "memory", str(storage)}
    assert {row["task"] for row in rows} >= {"hello.c cold", "build: ./configure", "build: make"}
    for row in rows:
        middle, low, high = row["ratio"]
        assert low <= middle <= high
        assert len(row["seconds"]) == 2
        assert min(row["seconds"]) > 0
        assert row["way"] != "image" or row["ratio"] == [1.0, 1.0, 1.0]
    assert list(storage.iterdir()) == []
    (source / "configure").write_text("#!/bin/sh\necho no compiler; exit 3\n")
    done = subprocess.run(
        [sys.executable, *map(str, argv)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "no compiler" in done.stderr
