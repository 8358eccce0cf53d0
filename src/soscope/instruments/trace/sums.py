# SPDX-License-Identifier: Apache-2.0
"""Adds up single calls by slot, for choices that arrays cannot make."""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.model.call import ENDED_RETURN, Entry, Event, Exit, Stats, Stretch
from soscope.model.image import TracedSlot, is_error
from soscope.recording.reduce import class_of


class SumsListener(Listener):
    """Takes calls and adds up their statistics as `trace -c` does, in ns.

    Own times are missing, as calls inside of them may not have been chosen.
    """

    takes_stretches = True

    def __init__(self) -> None:
        # Numbers of calls, returns and errors, then the total, least and most nanoseconds.
        self._cells: dict[tuple[int, int], list[int]] = {}
        self._classes: dict[tuple[int, int], dict[int, int]] = {}

    def events(self, batch: list[Event]) -> None:
        """Add entries and exits of calls."""
        for event in batch:
            if isinstance(event, Entry):
                self._cell(event.slot)[0] += 1
            elif isinstance(event, Exit):
                # A forked child's return from a call of its parent is no call of its own.
                result = None if event.is_inherited else event.result
                if event.ended == ENDED_RETURN and result is not None:
                    self._return(event.slot, event.duration_ns or 0, result)
            elif isinstance(event, Stretch):
                even = event.piece[4]
                for _, ticks, slot, _, result, *_ in event.calls:
                    self._cell(slot)[0] += 1
                    self._return(slot, int(ticks * even // 1), result)

    def stats(self) -> dict[int, Stats]:
        """Return the statistics by program, then by slot."""
        by_program: dict[int, Stats] = {}
        for (program, slot), cell in self._cells.items():
            calls, returns, errors, total, least, most = cell
            cell_of = by_program.setdefault(program, {})
            cell_of[slot] = calls, returns, errors, total, least, most, None
        return by_program

    def durations(self) -> dict[int, dict[int, dict[int, int]]]:
        """Return numbers of returns by program, slot and class of duration."""
        by_program: dict[int, dict[int, dict[int, int]]] = {}
        for (program, slot), classes in self._classes.items():
            by_program.setdefault(program, {})[slot] = classes
        return by_program

    def _cell(self, slot: TracedSlot) -> list[int]:
        key = slot.process, slot.index
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = [0] * 6
        return cell

    def _return(self, slot: TracedSlot, spent: int, result: int) -> None:
        cell = self._cell(slot)
        if not cell[1] or spent < cell[4]:
            cell[4] = spent
        cell[1] += 1
        cell[2] += is_error(slot.error_rule, result)
        cell[3] += spent
        cell[5] = max(cell[5], spent)
        classes = self._classes.setdefault((slot.process, slot.index), {})
        index = class_of(max(spent, 0))
        classes[index] = classes.get(index, 0) + 1
