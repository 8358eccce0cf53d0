# SPDX-License-Identifier: Apache-2.0
"""`--json` with `-c` or `--count-only`: one document, soscope/trace-summary/1."""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import TraceOutcome, TraceProgramOutcome
from soscope.instruments.trace.summary import rows_of
from soscope.model.slot import REFUSAL_NAMES
from soscope.report.jsontext import json_document
from soscope.report.output import Output
from soscope.report.words import signal_name

SCHEMA = "soscope/trace-summary/1"


class SummaryJsonListener(Listener):
    """Writes the document when the trace has ended."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def end(self, outcome: TraceOutcome) -> None:
        """Write the document."""
        self._output.write(json_document(document(outcome)))


def document(outcome: TraceOutcome) -> dict[str, object]:
    """Return the document; times are nanoseconds, null stands for what is not known."""
    rows = rows_of(outcome.programs)
    return {
        "schema": SCHEMA,
        "command": outcome.command,
        "exit": {
            "status": outcome.status,
            "signal": None if outcome.signal is None else signal_name(outcome.signal),
        },
        "rows": [
            {
                "caller": row.caller,
                "callee": row.callee,
                "symbol": row.symbol,
                "version": row.version,
                "calls": row.calls,
                "errors": row.errors,
                "total_ns": row.total_ns,
                "min_ns": row.min_ns,
                "max_ns": row.max_ns,
                "lower_bound": row.is_lower_bound,
            }
            for row in rows
        ],
        "totals": {
            "calls": sum(row.calls for row in rows),
            "dropped": outcome.dropped_count,
            "complete": not outcome.shortfalls,
        },
        "images": [image for program in outcome.programs for image in _images(program)],
    }


def _images(program: TraceProgramOutcome) -> list[dict[str, object]]:
    """Return what was hooked, and what was not, in each image of a program."""
    refused: dict[int, list[dict[str, str]]] = {}
    partial: dict[int, dict[str, None]] = {}
    for slot in program.slots:
        if slot.caller is None:
            continue
        if slot.is_hooked and slot.partial:
            partial.setdefault(slot.caller.index, {})[slot.symbol] = None
        if not slot.is_hooked:
            reason = REFUSAL_NAMES.get(slot.refusal, "unknown")
            refused.setdefault(slot.caller.index, []).append(
                {"symbol": slot.symbol, "reason": reason}
            )
    return [
        {
            "name": image.name,
            "path": image.path,
            "hooked_slots": image.slots_hooked,
            "not_hooked": refused.get(image.index, []),
            "lower_bounds": list(partial.get(image.index, ())),
            "without_room": program.without_room.get(image.index, 0),
        }
        for image in program.images
    ]
