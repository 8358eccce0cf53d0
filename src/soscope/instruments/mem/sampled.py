# SPDX-License-Identifier: Apache-2.0
"""Estimates for objects and blocks that were chosen by chance, and their errors."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

_NORMAL_95 = 1.959964  # standard deviations that cover 95 % of a normal distribution


def scale_of(sample_bytes: int | None) -> int:
    """Return the number that makes the agent choose one in `sample_bytes` bytes.

    >>> from soscope.instruments.mem.sampled import scale_of
    >>> scale_of(512 << 10)
    23816333062
    """
    if sample_bytes is None or sample_bytes <= 1:
        return 0
    return round(-(1 << 16) * math.log(2) / math.log1p(-1 / sample_bytes))


class Chances:
    """The probability that an object or block is recorded if one in `sample_bytes` is chosen.

    A block of `size` bytes counts as one byte larger, so that empty blocks are seen. If
    `sample_bytes` is None, all blocks are recorded.

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
        """Return how many blocks a recorded block of each `size` stands for."""
        weight: Numbers = 1 / self._chance(size)
        return weight

    def count_variance(self, size: npt.NDArray[np.int64]) -> Numbers:
        """Return the expected square of the error of each block's `count`."""
        import numpy as np

        chance = self._chance(size)
        variance: Numbers = (1 - chance) / np.square(chance)
        return variance

    def variance(self, size: npt.NDArray[np.int64]) -> Numbers:
        """Return the expected square of each block's error in bytes."""
        import numpy as np

        return np.square(size.astype(np.float64)) * self.count_variance(size)


def half_width(variance: float) -> int:
    """Return half the width of the 95 % interval, rounded up.

    >>> from soscope.instruments.mem.sampled import half_width
    >>> half_width(100.0)
    20
    """
    return math.ceil(_NORMAL_95 * math.sqrt(variance))
