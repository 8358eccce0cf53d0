# SPDX-License-Identifier: Apache-2.0
"""Finds words of a control block that the target's program has overwritten.

Each word is written either by the agent or by soscope, by fixed rules. A word that soscope writes
at the beginning does not change. A word that the agent writes at its start does not change
either. A counter of the agent never decreases.
"""

from __future__ import annotations

from soscope.wire import layout
from soscope.wire.block import ControlBlock

_LAID_OUT = ("magic", "wire_version", "control_size", "build_id")
_WRITTEN_ONCE = (
    "error",
    "error_at",
    "agent_base",
    "agent_size",
    "tsc_start",
    "realtime_start",
    "monotonic_start",
    "cost_inner",
    "cost_outer",
    "cost_call",
)
_COUNTED = (
    "images",
    "slots",
    "strings",
    "counts_used",
    "ring_seq",
    "dropped_exits",
    "images_dropped",
    "slots_dropped",
    "call_sites",
    "moves",
    "unanswered",
    "delayed",
    "delays_over",
    "delays_unknown",
)
_MOST = {
    "images": ("images_dropped", layout.MAX_IMAGES),
    "slots": ("slots_dropped", layout.MAX_SLOTS),
}
_PLACES = {
    name: (at, at + size)
    for name, (at, size, _) in layout.CONTROL.fields.items()
    if name in _COUNTED
}


class Meddling:
    """The expected values in one control block. Each word that breaks a rule is counted once."""

    __slots__ = ("_block", "_counts", "_found", "_has_begun", "_stays")

    def __init__(self, block: ControlBlock) -> None:
        self._block = block
        self._found: set[str] = set()
        self._has_begun = False
        self._stays: dict[str, bytes] = {}
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._keep(_LAID_OUT)

    def begin(self) -> None:
        """Take note that the agent has written its constant fields."""
        self._keep(_WRITTEN_ONCE)
        self._block.keep_written()
        self._has_begun = True

    def _keep(self, names: tuple[str, ...]) -> None:
        self._stays.update({name: self._field(name) for name in names})

    def _field(self, name: str) -> bytes:
        at, size, _ = layout.CONTROL.fields[name]
        return self._block.mapping[at : at + size]

    def look(self) -> int:
        """Return how many more counters have decreased or cannot be right since the last look."""
        before = len(self._found)
        page = self._block.mapping[: layout.CONTROL.size]
        for name, (at, end) in _PLACES.items():
            now = int.from_bytes(page[at:end], "little")
            if now < self._counts[name]:
                self._found.add(name)
            self._counts[name] = now
        if self._has_begun and not 0 < self._block.state <= layout.STATE_STOPPED:
            self._found.add("state")
        self._found |= self._block.bounds.damaged
        return len(self._found) - before

    def finish(self) -> int:
        """Return how many more words have changed that must not, or cannot be right."""
        before = len(self._found)
        self._found |= self._block.damaged_sums()
        self._found.update(
            name for name, value in self._stays.items() if self._field(name) != value
        )
        for name, (dropped, most) in _MOST.items():
            if self._counts[name] > most and not self._counts[dropped]:
                self._found.add(name)
        return len(self._found) - before
