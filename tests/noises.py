"""Made-up log times of launches on six kinds of machines, as arrays: for simulating many at once.

`launch_noise` returns `experiments x arms x sizes x blocks`; no arm is slower than another.
Nothing here was measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KINDS = ("lognormal", "heavy", "bimodal", "block states", "drift", "autocorrelated")
"""What a machine does to launches.

- lognormal: each launch has its luck, which its sizes share for the most part;
- heavy: the same from Student's t with 3 degrees of freedom, and 3 % of the points delayed by 30 %
  on average;
- bimodal: three launches of ten fall into a state slower by three times the level;
- block states: half of the blocks are slower by three times the level, all arms alike;
- drift: the machine becomes slower or faster by six times the level, with a random walk besides;
- autocorrelated: each launch inherits four fifths of the luck of the one before it.
"""

_SHARED = 0.8  # of a launch's variance, all its sizes share as much
_QUIET = 0.35  # own noise, in levels, of launches of machines whose states are the trouble


def launch_noise(
    kind: str,
    level: float,
    shape: tuple[int, int, int, int],
    random: np.random.Generator,
) -> Any:
    """Return log times; `shape` is experiments, arms, sizes and blocks, `level` as in 0.03."""
    experiments, arms, _, blocks = shape
    launch = random.normal(size=(experiments, arms, 1, blocks))
    if kind == "heavy":
        launch = random.standard_t(3, size=launch.shape) / np.sqrt(3)
    own = random.normal(size=shape)
    noise = level * (np.sqrt(_SHARED) * launch + np.sqrt(1 - _SHARED) * own)
    if kind == "lognormal":
        return noise
    if kind == "heavy":
        return noise + (random.random(shape) < 0.03) * random.exponential(0.3, size=shape)
    if kind == "bimodal":
        return noise / 2 + 3 * level * (random.random(launch.shape) < 0.3)
    if kind == "block states":
        slow = random.random((experiments, 1, 1, blocks)) < 0.5
        return _QUIET * noise + 3 * level * slow
    steps = random.normal(size=(experiments, blocks * arms))
    if kind == "drift":
        walk = np.cumsum(steps, axis=1) / np.sqrt(arms) / 2
        direction = random.choice([-3.0, 3.0], size=(experiments, 1))
        walk += direction * np.linspace(-1, 1, blocks * arms)
    else:
        walk = steps
        for at in range(1, blocks * arms):
            walk[:, at] = 0.8 * walk[:, at - 1] + 0.6 * steps[:, at]
    order = random.random((experiments, blocks, arms)).argsort(axis=2).argsort(axis=2)
    turn = (np.arange(blocks)[None, :, None] * arms + order).reshape(experiments, -1)
    states = np.take_along_axis(walk, turn, axis=1).reshape(experiments, blocks, arms)
    return _QUIET * noise + level * states.transpose(0, 2, 1)[:, :, None, :]
