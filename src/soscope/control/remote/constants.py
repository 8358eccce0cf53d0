# SPDX-License-Identifier: Apache-2.0
"""Convert constants whose values on a machine differ from x86-64's, which recordings use."""

from __future__ import annotations

SIGNAL = "signal"  # name of the set of signal numbers


class Constants:
    """The sets of one machine: `flags` and `values` of its convention, by the set's name."""

    __slots__ = ("_flags", "_values")

    def __init__(self, flags: dict[str, dict[int, int]], values: dict[str, dict[int, int]]) -> None:
        self._flags = flags
        self._values = values

    def has(self, name: str) -> bool:
        """Return whether any constant of a set has another value."""
        return name in self._flags or name in self._values

    def meant(self, name: str, value: int) -> int:
        """Return x86-64's value of a constant, which belongs to the set `name`."""
        values, flags = self._values.get(name, {}), self._flags.get(name, {})
        if value in values:
            return values[value]
        there = sum(meant for bit, meant in flags.items() if value & bit)
        return value & ~sum(flags) | there

    def signals(self, mask: int) -> int:
        """Return x86-64's bits for a set of signals, one bit for each."""
        values = self._values.get(SIGNAL)
        if not values:
            return mask
        there = 0
        for bit in range(mask.bit_length()):
            if mask >> bit & 1:
                there |= 1 << values.get(bit + 1, bit + 1) - 1
        return there


AS_HERE = Constants({}, {})
