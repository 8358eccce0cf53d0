# SPDX-License-Identifier: Apache-2.0
"""Comma-separated values (RFC 4180), a row for each call in the order of their starts."""

from __future__ import annotations

import re

from soscope.export.calls import ExportStacks, names, stacks_of, texts
from soscope.export.profiles import ExportSettings
from soscope.frames.names import key_of
from soscope.instruments.trace.backlog import Backlog
from soscope.instruments.trace.listener import Listener
from soscope.model.call import ENDED_LOST, Entry, Event, Exit, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.instruments.trace.replay import Replay
    from soscope.prototypes import Prototypes
    from soscope.select.filter import Selection

VIEWER = ""
COLUMNS = (
    "time_ns", "pid", "tid", "caller", "callee", "symbol", "args", "result", "errno",
    "duration_ns", "ended",
)  # fmt: skip

_FORMULAS = tuple("=+-@")
_NUMBER = re.compile(r"[+-]?(?:[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?|inf|nan)(?:, |\Z)")


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls; return notes."""
    replay.run(_CsvRows(write, settings.string_limit, stacks_of(replay)))
    return []


class _CsvRows(Listener):
    def __init__(
        self, write: Callable[[bytes], object], limit: int, stacks: ExportStacks | None
    ) -> None:
        self._stacks = stacks
        self._limit = limit
        self._prototypes: Prototypes
        self._write = write
        self._backlog = Backlog(self._encoded)
        columns = COLUMNS if stacks is None else (*COLUMNS, "stack")
        self._backlog.add(",".join(columns) + "\r\n")

    def _encoded(self, text: str) -> None:
        self._write(text.encode("utf-8", "surrogateescape"))

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        self._prototypes = prototypes

    def events(self, batch: list[Event]) -> None:
        backlog = self._backlog
        for event in batch:
            if isinstance(event, Entry):
                if event.entry_only:
                    backlog.add(self._row(event, None, ""))
                else:
                    backlog.open(event)
            elif isinstance(event, Exit):
                entry = event.entry
                if entry is not None and not event.is_inherited and backlog.is_open(entry):
                    backlog.close(entry, self._row(entry, event, event.ended))
        backlog.write()

    def end(self, outcome: TraceOutcome) -> None:
        for entry in self._backlog.still_open():
            self._backlog.close(entry, self._row(entry, None, ENDED_LOST))
        self._backlog.write(everything=True)

    def _row(self, entry: Entry, leave: Exit | None, ended: str) -> str:
        caller, callee = names(entry)
        arguments, result, errno = texts(self._prototypes, entry, leave, self._limit)
        known = leave is not None and leave.duration_ns is not None
        cells = [
            f"{entry.time_ns},{entry.pid},{entry.tid}",
            _cell(caller),
            _cell(callee),
            _cell(entry.slot.symbol),
            _cell(arguments),
            _cell(result),
            errno,
            str(leave.duration_ns) if leave is not None and known else "",
            ended,
        ]
        if self._stacks is not None:
            cells.append(_cell(self._stacks.text(key_of(entry))))
        return ",".join(cells) + "\r\n"


def _cell(text: str) -> str:
    """Return a cell, quoted if necessary.

    A spreadsheet treats a cell that begins with certain characters as a formula, quoted or not.
    An apostrophe in front marks the cell as text (OWASP, "CSV Injection"). Numbers stay numbers,
    and so do lists of arguments that begin with a number.
    """
    text = printable(text)
    if text.startswith(_FORMULAS) and not _NUMBER.match(text):
        text = "'" + text
    if any(sign in text for sign in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
