# SPDX-License-Identifier: Apache-2.0
"""How long threads waited for a processor; where it is known, this time is in no call's time."""

from __future__ import annotations

from soscope.model.record import Record


class Delays(Record):
    """The waits of all traced threads.

    The threads waited `waited_ns` within `over_ns` of their time. That time runs, for each
    thread, from its first to its last look at the kernel's account. `ran_ns` is how long their
    programs were observed. `unknown` counts how often a thread may have waited for an unknown
    time: such waits are still part of the times of calls.
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
        """Add the waits of another program's threads."""
        self.waited_ns += other.waited_ns
        self.over_ns += other.over_ns
        self.unknown += other.unknown
        self.ran_ns += other.ran_ns

    @property
    def share(self) -> float:
        """Return the part of the traced time that was waiting, at most 1."""
        traced = max(self.over_ns, self.ran_ns)
        return min(self.waited_ns / traced, 1.0) if traced else 0.0
