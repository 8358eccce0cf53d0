# SPDX-License-Identifier: Apache-2.0
"""What objects and blocks stand for that were chosen by chance, and how far off that may be."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

_NORMAL_95 = 1.959964  # standard deviations: 95 % of a normal distribution lie so near


def scale_of(sample_bytes: int | None) -> int:
    """Return what the agent is told of `sample_bytes`, so that a byte is chosen with 1 / that.

    >>> from soscope.instruments.mem.sampled import scale_of
    >>> scale_of(512 << 10)
    23816333062
    """
    if sample_bytes is None or sample_bytes <= 1:
        return 0
    return round(-(1 << 16) * math.log(2) / math.log1p(-1 / sample_bytes))


class Chances:
    """How likely objects and blocks are to be recorded: one in `sample_bytes` bytes is chosen.

    One of `size` bytes has one more that may be chosen, so that empty ones are seen. None:
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
        import numpy as np

        chance: Numbers = -np.expm1((size + 1) * self._rate)
        return chance

    def count(self, size: npt.NDArray[np.int64]) -> Numbers:
        """Return how many each one of `size` bytes stands for."""
        weight: Numbers = 1 / self._chance(size)
        return weight

    def count_variance(self, size: npt.NDArray[np.int64]) -> Numbers:
        """Return what the square of the error of each one's `count` is expected to be."""
        import numpy as np

        chance = self._chance(size)
        variance: Numbers = (1 - chance) / np.square(chance)
        return variance

    def variance(self, size: npt.NDArray[np.int64]) -> Numbers:
        """Return what the square of each one's error in bytes is expected to be."""
        import numpy as np

        return np.square(size.astype(np.float64)) * self.count_variance(size)


def half_width(variance: float) -> int:
    """Return half the width of the 95 % interval, rounded up.

    >>> from soscope.instruments.mem.sampled import half_width
    >>> half_width(100.0)
    20
    """
    return math.ceil(_NORMAL_95 * math.sqrt(variance))
