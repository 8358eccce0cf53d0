# SPDX-License-Identifier: Apache-2.0
"""The choice of the calls of a trace that are shown, in a live trace or a recording.

A call is chosen unless a condition excludes it. What can be decided depends on the moment: at the
entry of a call, neither its result nor its duration is known.
"""

from __future__ import annotations

from soscope.model.call import ENDED_RETURN, Entry, Exit
from soscope.model.image import TracedSlot, is_error
from soscope.select.filter import Selection, chooses, rules_matched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.descriptors import Descriptors
    from soscope.instruments.trace.moment import Moment
    from soscope.model.image import TracedImage
    from soscope.select.where import Condition

_MOST_SLOTS = 1 << 16  # slots are new objects when images come, so old ones are forgotten

# Choices by how a call ended.
ANY = 0
SUCCESSES = 1  # the call returned, and did not fail
FAILURES = 2

# Names in conditions for properties that a call has at its end.
OF_END = ("ret", "errno", "duration", "failed", "ended")


class Choice:
    """The calls that are shown. Conditions that are None, empty or ANY exclude nothing.

    `selection` is a filter by symbol and image. `pids` and `tids` are ids of processes and
    threads. `since` and `until` are moments between which calls began. `depth` is a number of
    levels of recorded calls, of which the outermost is 1. `slower_ns` is a minimal duration; an
    open call has taken as long as it has been waited for. `ends` is ANY, SUCCESSES or FAILURES.
    `where` is a condition on single calls, and `paths` are files that calls are about. `on` and
    `off` are filters: calls of a process are shown from a call that `on` chooses to a call that
    `off` chooses, including both. `last_ns` chooses calls that ended at most so long before the
    trace's end, or not at all; a reader of a recording sets `earliest_ns` to that moment.
    `signals` means that signals are shown, too. `descriptors` knows the files of descriptors,
    None if they are not needed.
    """

    __slots__ = (
        "_slots",
        "depth",
        "descriptors",
        "earliest_ns",
        "ends",
        "last_ns",
        "off",
        "on",
        "paths",
        "pids",
        "selection",
        "signals",
        "since",
        "slower_ns",
        "tids",
        "until",
        "where",
    )

    def __init__(
        self,
        *,
        selection: Selection | None = None,
        pids: list[int] | None = None,
        tids: list[int] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        depth: int | None = None,
        slower_ns: int | None = None,
        ends: int = ANY,
        where: Condition | None = None,
        paths: list[str] | None = None,
        signals: bool = True,
        on: Selection | None = None,
        off: Selection | None = None,
        last_ns: int | None = None,
    ) -> None:
        self.selection = selection
        self.pids = frozenset(pids or ())
        self.tids = frozenset(tids or ())
        self.since = since
        self.until = until
        self.depth = depth
        self.slower_ns = slower_ns
        self.ends = ends
        self.where = where
        self.paths = frozenset(paths or ())
        self.signals = signals
        self.on = on
        self.off = off
        self.last_ns = last_ns
        self.earliest_ns = 0
        self.descriptors: Descriptors | None = None
        self._slots: dict[TracedSlot, bool] = {}

    @property
    def by_slot_alone(self) -> bool:
        """Return whether the choice of a call depends only on its slot."""
        return not (
            self.pids
            or self.tids
            or self.since
            or self.until
            or self.depth is not None
            or self.switches
            or self.last_ns is not None
            or self.needs_end
            or self.looks_inside
        )

    @property
    def takes_all(self) -> bool:
        """Return whether every call is chosen, and every signal."""
        return self.selection is None and self.by_slot_alone and self.signals

    @property
    def needs_end(self) -> bool:
        """Return whether the choice depends on how a call ended, or how long it took."""
        return self.slower_ns is not None or self.ends != ANY

    @property
    def asks_of_end(self) -> bool:
        """Return whether the choice or its condition needs more than the entries of calls."""
        return self.needs_end or (
            self.where is not None and not self.where.names.isdisjoint(OF_END)
        )

    @property
    def switches(self) -> bool:
        """Return whether calls switch the output on and off."""
        return self.on is not None or self.off is not None

    @property
    def looks_inside(self) -> bool:
        """Return whether the choice depends on arguments or results."""
        return self.where is not None or bool(self.paths)

    @property
    def needs_entries(self) -> bool:
        """Return whether the choice depends on something that a Stretch lacks."""
        return self.depth is not None or (self.where is not None and "depth" in self.where.names)

    def takes_slot(self, slot: TracedSlot) -> bool:
        """Return whether calls through a slot can be chosen, as far as the slot decides."""
        if self.selection is None:
            return True
        chosen = self._slots.get(slot)
        if chosen is None:
            if len(self._slots) > _MOST_SLOTS:
                self._slots.clear()
            chosen = self._slots[slot] = slot_is_chosen(self.selection, slot)
        return chosen

    def takes_thread(self, pid: int, tid: int) -> bool:
        """Return whether events of a thread are chosen."""
        return (not self.pids or pid in self.pids) and (not self.tids or tid in self.tids)

    def begins(self, entry: Entry, since: int, until: int) -> bool | None:
        """Return whether a call that begins is chosen, in any thread.

        If only its end can decide that, return None. `since` and `until` are in ns.
        """
        if (
            not since <= entry.time_ns <= until
            or not self.takes_slot(entry.slot)
            or (self.depth is not None and entry.depth >= self.depth)
        ):
            return False
        return True if not self.needs_end and entry.time_ns >= self.earliest_ns else None

    def waits(self, entry: Entry, time_ns: int) -> bool | None:
        """Return whether an open call is chosen at `time_ns`, or None if its end decides."""
        if self.slower_ns is not None and time_ns - entry.time_ns < self.slower_ns:
            return None
        if time_ns < self.earliest_ns:
            return None
        return True if self.ends == ANY else None

    def ended(self, entry: Entry, leave: Exit) -> bool:
        """Return whether a call is chosen for which `begins` has returned None."""
        if leave.time_ns < self.earliest_ns:
            return False
        if self.slower_ns is not None:
            spent = leave.duration_ns
            if spent is None:
                spent = leave.time_ns - entry.time_ns
            if spent < self.slower_ns:
                return False
        return self._ends_so(entry.slot, leave.ended, leave.result)

    def takes_whole(self, slot: TracedSlot, spent_ns: int, result: int) -> bool:
        """Return whether a call that has returned is chosen, by duration and result."""
        if self.slower_ns is not None and spent_ns < self.slower_ns:
            return False
        return self._ends_so(slot, ENDED_RETURN, result)

    def _ends_so(self, slot: TracedSlot, ended: str, result: int | None) -> bool:
        if self.ends == ANY:
            return True
        if ended != ENDED_RETURN or result is None:
            return False
        failed = is_error(slot.error_rule, result)
        return failed == (self.ends == FAILURES)


def slot_is_chosen(selection: Selection, slot: TracedSlot) -> bool:
    """Return whether a filter chooses a slot, with the same result as in the agent."""
    caller, callee = _named(slot.caller), _named(slot.callee)
    return chooses(
        selection,
        slot.symbol,
        caller=caller[0],
        callee=callee[0],
        caller_path=caller[1],
        callee_path=callee[1],
        caller_is_main=caller[2],
        callee_is_main=callee[2],
    )


def rules_about(selection: Selection, slot: TracedSlot) -> list[bool]:
    """Return for each rule of a filter whether it matches a slot."""
    return rules_matched(selection, slot.symbol, _named(slot.caller), _named(slot.callee))


def _named(image: TracedImage | None) -> tuple[str, str, bool]:
    return ("", "", False) if image is None else (image.name, image.path, image.is_main)
