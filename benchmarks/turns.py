"""Time programs in turns: what a drift of the machine does, it does to all of them."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence


def milliseconds(argv: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """Return the wall time of one run of a program in ms; raises when it fails."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1e3


def in_turns(programs: Mapping[str, Sequence[str]], count: int) -> dict[str, list[float]]:
    """Return the times in ms of `count` runs of each program, after one that is not counted."""
    for argv in programs.values():  # file caches are warm for a person, too
        milliseconds(argv)
    times: dict[str, list[float]] = {name: [] for name in programs}
    order = list(programs)
    chance = random.Random(0)  # noqa: S311 - an order to repeat, not a secret
    for _ in range(count):
        chance.shuffle(order)  # what one leaves behind is not always the same other's
        for name in order:
            times[name].append(milliseconds(programs[name]))
    return times


def show(times: Mapping[str, Sequence[float]], *, base: str) -> None:
    """Print median, fastest, spread and the ratio to `base` of each, and JSON on the last line."""
    result = {}
    for name, values in times.items():
        ratios = sorted(value / other for value, other in zip(values, times[base], strict=True))
        low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        median = statistics.median(values)
        ratio = statistics.median(ratios)
        result[name] = {
            "median_ms": median, "fastest_ms": min(values),
            "ratio": ratio, "ratio_p10": low, "ratio_p90": high,
        }  # fmt: skip
        print(
            f"{name:34} median {median:8.1f} ms  fastest {min(values):8.1f} ms  "
            f"ratio {ratio:5.2f} (10-90 %: {low:.2f} to {high:.2f})"
        )
    print(json.dumps(result))
