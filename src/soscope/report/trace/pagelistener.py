# SPDX-License-Identifier: Apache-2.0
"""The calls of a trace as a page of Markdown: functions, failures, and slow calls.

Memory does not grow with the number of calls.
"""

from __future__ import annotations

import heapq

from soscope.model.call import ENDED_RETURN, Entry, Event, Exit, Stretch
from soscope.model.image import ERROR_NONE, TracedSlot, is_error
from soscope.report.form import Form
from soscope.report.jsontext import json_document
from soscope.report.output import Output
from soscope.report.trace.display import Display
from soscope.report.trace.summaryjson import head_of, totals_of
from soscope.report.trace.text import TextListener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome

SCHEMA = "soscope/trace-calls/1"
_FIRST = 20  # number of calls
_SLOWEST = 10
_MOST_FAILURES = 1000  # different lines of failed calls


class PageListener(TextListener):
    """Writes the page at the end of the trace."""

    takes_stretches = False

    def __init__(self, output: Output, display: Display, form: Form) -> None:
        super().__init__(output, display)
        self._form = form
        self.wants_durations = True
        self._calls = 0
        self._functions: dict[TracedSlot, list[int]] = {}  # calls, errors, ns, returns
        self._first: list[tuple[Entry, str, int | None]] = []
        self._slowest: list[tuple[int, int, str]] = []  # a heap, fastest first
        self._failures: dict[str, int] = {}
        self._more_failures = 0

    def events(self, batch: list[Event]) -> None:
        """Take entries and exits of calls."""
        for event in batch:
            if isinstance(event, Entry):
                self._calls += 1
                self._cell(event.slot)[0] += 1
                if event.entry_only or event.slot.entry_only:
                    self._keep_first(event, f"{self._call(event, None)}", None)
            elif isinstance(event, Exit) and event.entry is not None and not event.is_inherited:
                self._ended(event, event.entry)
            else:
                assert not isinstance(event, Stretch)  # this listener does not take stretches

    def caught_up(self, time_ns: int) -> None:
        """Do nothing, as nothing is shown before the end."""

    def end(self, outcome: TraceOutcome) -> None:
        """Write the page."""
        self._output.write(self._form.shaped(json_document(self._document(outcome))))

    def _document(self, outcome: TraceOutcome) -> dict[str, object]:
        """Return the document that the page is made from."""
        return {
            "schema": SCHEMA,
            **head_of(outcome),
            "totals": totals_of(outcome, self._calls),
            "functions": self._rows(),
            "failed": [
                {"call": call, "count": count}
                for call, count in sorted(self._failures.items(), key=lambda each: -each[1])
            ],
            "not_told_apart": self._more_failures or None,
            "slowest": [
                {"duration_ns": spent, "call": call}
                for spent, _, call in sorted(self._slowest, reverse=True)
            ],
            "first": [
                {"duration_ns": spent, "call": call}
                for entry, call, spent in sorted(self._first, key=lambda each: each[0].time_ns)
            ],
        }

    def _ended(self, leave: Exit, entry: Entry) -> None:
        cell, slot, spent = self._cell(entry.slot), entry.slot, leave.duration_ns
        text = ""
        if leave.ended == ENDED_RETURN:
            cell[3] += 1
            cell[2] += max(spent or 0, 0)
            if leave.result is not None and is_error(slot.error_rule, leave.result):
                cell[1] += 1
                text = self._call(entry, leave)
                if text in self._failures or len(self._failures) < _MOST_FAILURES:
                    self._failures[text] = self._failures.get(text, 0) + 1
                else:
                    self._more_failures += 1
        if len(self._first) < _FIRST:
            text = text or self._call(entry, leave)
            self._keep_first(entry, text, spent)
        if spent is not None and (len(self._slowest) < _SLOWEST or spent > self._slowest[0][0]):
            text = text or self._call(entry, leave)
            push = heapq.heappush if len(self._slowest) < _SLOWEST else heapq.heappushpop
            push(self._slowest, (spent, -self._calls, text))

    def _keep_first(self, entry: Entry, text: str, spent: int | None) -> None:
        if len(self._first) < _FIRST:
            self._first.append((entry, text, spent))

    def _call(self, entry: Entry, leave: Exit | None) -> str:
        """Return the line of a call."""
        shown = ", ".join(self._texts(entry, leave))
        start = f"{self._heads.get(entry.slot) or self._head(entry.slot)}{shown})"
        return start if leave is None else f"{start} = {self._result(leave)}"

    def _cell(self, slot: TracedSlot) -> list[int]:
        cell = self._functions.get(slot)
        if cell is None:
            cell = self._functions[slot] = [0] * 4
        return cell

    def _rows(self) -> list[dict[str, object]]:
        """Return a row for each caller, callee and symbol, most time first."""
        merged: dict[tuple[str, str, str], list[int]] = {}
        known: set[tuple[str, str, str]] = set()
        for slot, cell in self._functions.items():
            caller = slot.caller.name if slot.caller else ""
            callee = slot.callee.name if slot.callee else ""
            key = caller, callee, slot.symbol
            sums = merged.setdefault(key, [0] * 4)
            for at, value in enumerate(cell):
                sums[at] += value
            if slot.prototype is not None or slot.error_rule != ERROR_NONE:
                known.add(key)
        return [
            {
                "function": self._names.shown(key[2]),
                "calls": sums[0],
                "errors": sums[1] if key in known else None,
                "total_ns": sums[2] if sums[3] else None,
                "caller": key[0],
                "callee": key[1],
            }
            for key, sums in sorted(
                merged.items(), key=lambda each: (-each[1][2], -each[1][0], each[0])
            )
        ]
