# SPDX-License-Identifier: Apache-2.0
"""What events say, with the calls of a Stretch as the entries and exits that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from soscope.model.call import ENDED_RETURN, NOTHING, Entry, Event, Exit, Stretch
from soscope.recording.units import captured

Row = tuple[object, ...]


def rows(events: Iterable[Event]) -> list[Row]:
    """Return a row for each event; an exit's holds that of its entry."""
    return [row for event in events for row in _rows(event)]


def lengths(events: Iterable[Event]) -> list[int]:
    """Return how many calls each stretch has."""
    return [len(event.calls) for event in events if isinstance(event, Stretch)]


def _rows(event: Event) -> Iterator[Row]:
    if isinstance(event, Stretch):
        tsc, _, realtime, rate, even = event.piece
        where = event.pid, event.tid
        for start, ticks, slot, arg0, result, data, errno, back in event.calls:
            time_ns = realtime + int((start - tsc) * rate // 1)
            words = captured((arg0,), data).values()
            entry = "entry", time_ns, *where, slot.symbol, words, False
            yield entry
            end = realtime + int((start + ticks - tsc) * rate // 1)
            after = (captured((), back) if back else NOTHING).values()
            seen = int(ticks * even // 1), result, errno or None, after
            yield "exit", end, *seen, ENDED_RETURN, *where, slot.symbol, entry
    elif isinstance(event, Entry):
        yield _entry(event)
    elif isinstance(event, Exit):
        entered = None if event.entry is None else _entry(event.entry)
        # an errno of 0 says as little as none: no WHOLE unit has another
        told = event.duration_ns, event.result, event.errno or None, event.captured.values()
        where = event.pid, event.tid
        yield "exit", event.time_ns, *told, event.ended, *where, event.slot.symbol, entered
    else:
        yield type(event).__name__, *event.values()


def _entry(event: Entry) -> Row:
    where = event.pid, event.tid, event.slot.symbol
    return "entry", event.time_ns, *where, event.captured.values(), event.entry_only
