# SPDX-License-Identifier: Apache-2.0
"""What threads waited for a processor: it is in no call's time, as far as it is known."""

from __future__ import annotations

from soscope.model.record import Record


class Delays(Record):
    """Waits of all threads that were traced.

    They waited `waited_ns` in `over_ns` of their time, from the first to the last time that each of
    them has asked the kernel. `ran_ns` is for how long their programs were observed. `unknown`
    counts how often a thread may have waited, and nobody knows how long: that is in the times.
    """

    __slots__ = ("over_ns", "ran_ns", "unknown", "waited_ns")

    def __init__(
        self, waited_ns: int = 0, over_ns: int = 0, unknown: int = 0, ran_ns: int = 0
    ) -> None:
        self.waited_ns = waited_ns
        self.over_ns = over_ns
        self.unknown = unknown
        self.ran_ns = ran_ns

    def add(self, other: Delays) -> None:
        """Take what threads of another program waited."""
        self.waited_ns += other.waited_ns
        self.over_ns += other.over_ns
        self.unknown += other.unknown
        self.ran_ns += other.ran_ns

    @property
    def share(self) -> float:
        """Return which part of the traced time was waiting, at most 1."""
        traced = max(self.over_ns, self.ran_ns)
        return min(self.waited_ns / traced, 1.0) if traced else 0.0
