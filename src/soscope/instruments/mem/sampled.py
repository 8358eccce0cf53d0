# SPDX-License-Identifier: Apache-2.0
"""What blocks stand for that were chosen by chance, and how far that may be from the truth."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

_NORMAL_95 = 1.959964  # standard deviations: 95 % of a normal distribution lie so near

Numbers = npt.NDArray[np.float64]


class Chances:
    """How likely blocks are to be recorded, where one in `sample_bytes` bytes is chosen.

    A block of `size` bytes has one more that may be chosen, so that empty ones are seen. None:
    each block is recorded.

    >>> from soscope.instruments.mem.sampled import Chances
    >>> import numpy as np
    >>> chances = Chances(64)
    >>> float(chances.count(np.array([63]))[0]).__round__(3)
    1.575
    """

    __slots__ = ("_rate",)

    def __init__(self, sample_bytes: int | None) -> None:
        certain = sample_bytes is None or sample_bytes <= 1
        self._rate = -math.inf if certain else math.log1p(-1 / (sample_bytes or 1))

    def _chance(self, size: npt.NDArray[np.int64]) -> Numbers:
        chance: Numbers = -np.expm1((size + 1) * self._rate)
        return chance

    def count(self, size: npt.NDArray[np.int64]) -> Numbers:
        """Return how many blocks each one of `size` bytes stands for."""
        weight: Numbers = 1 / self._chance(size)
        return weight

    def variance(self, size: npt.NDArray[np.int64]) -> Numbers:
        """Return what the square of each one's error in bytes is expected to be."""
        chance = self._chance(size)
        variance: Numbers = np.square(size / chance) * (1 - chance)
        return variance


def half_width(variance: float) -> int:
    """Return half the width of the 95 % interval, in bytes, rounded up.

    >>> from soscope.instruments.mem.sampled import half_width
    >>> half_width(100.0)
    20
    """
    return math.ceil(_NORMAL_95 * math.sqrt(variance))
