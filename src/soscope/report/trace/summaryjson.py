# SPDX-License-Identifier: Apache-2.0
"""`--json` with `-c` or `--count-only`: one document, soscope/trace-summary/1."""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import TraceOutcome, TraceProgramOutcome
from soscope.instruments.trace.summary import SummaryRow, rows_of
from soscope.model.image import REFUSAL_NAMES
from soscope.proc.status import signal_name
from soscope.report.delays import delay_members
from soscope.report.form import JSON, Form
from soscope.report.jsontext import json_document
from soscope.report.output import Output
from soscope.report.trace.display import Display
from soscope.report.trace.names import FunctionNames
from soscope.report.trace.percentiles import percentile_ns, powers_of
from soscope.report.trace.tablesettings import PERCENTILES, TableSettings

SCHEMA = "soscope/trace-summary/1"


class SummaryJsonListener(Listener):
    """Writes the document at the end of the trace."""

    def __init__(
        self,
        output: Output,
        settings: TableSettings | None = None,
        display: Display | None = None,
        form: Form | None = None,
    ) -> None:
        self._output = output
        self._form = form or Form(JSON)
        self._names = FunctionNames(display or Display())
        self._settings = settings

    def end(self, outcome: TraceOutcome) -> None:
        """Write the document."""
        said = json_document(document(outcome, self._settings, self._names))
        self._output.write(self._form.shaped(said))


def document(
    outcome: TraceOutcome,
    settings: TableSettings | None = None,
    names: FunctionNames | None = None,
) -> dict[str, object]:
    """Return the document. Times are nanoseconds, and null stands for unknown values.

    Only `settings.needs_durations` is used. All rows are included, in the usual order.
    """
    has_durations = settings is not None and settings.needs_durations
    rows = rows_of(outcome.programs)
    names = names or FunctionNames(Display())
    return {
        "schema": SCHEMA,
        **head_of(outcome),
        "rows": [
            {
                "caller": row.caller or None,
                "callee": row.callee,
                "symbol": row.symbol,
                **_demangled(names.full(row.symbol)),
                "version": row.version,
                "calls": row.calls,
                "errors": row.errors,
                "self_ns": row.self_ns,
                "total_ns": row.total_ns,
                "doubt_ns": row.doubt_ns,
                "min_ns": row.min_ns,
                "max_ns": row.max_ns,
                "lower_bound": row.is_lower_bound,
                **(_durations(row) if has_durations else {}),
            }
            for row in rows
        ],
        "totals": totals_of(outcome, sum(row.calls for row in rows)),
        "images": [image for program in outcome.programs for image in _images(program)],
    }


def head_of(outcome: TraceOutcome) -> dict[str, object]:
    """Return the members about the command, its end, and the cost of tracing."""
    return {
        "command": outcome.command,
        "arch": outcome.arch or None,
        "engine": outcome.engine or None,
        "exit": {
            "status": outcome.status,
            "signal": None if outcome.signal is None else signal_name(outcome.signal),
        },
        "cost": None if outcome.cost is None else outcome.cost.document(),
        "executed_by_children": outcome.executed.document(),
    }


def totals_of(outcome: TraceOutcome, calls: int) -> dict[str, object]:
    """Return the member about whether these are all calls."""
    return {
        "calls": calls,
        "dropped": outcome.dropped_count,
        "complete": not outcome.shortfalls,
        **delay_members(outcome.delays),
    }


def _durations(row: SummaryRow) -> dict[str, object]:
    """Return percentiles, and [ns, ns, returns] for each power of two."""
    known: dict[str, object] = {
        f"{name}_ns": percentile_ns(row, percent) for name, percent in PERCENTILES.items()
    }
    known["histogram"] = powers_of(row)
    return known


def _images(program: TraceProgramOutcome) -> list[dict[str, object]]:
    """Return the slots of each image of a program that were hooked, and those that were not."""
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


def _demangled(name: str | None) -> dict[str, object]:
    """Return the member that only names of C++ have."""
    return {} if name is None else {"demangled": name}
