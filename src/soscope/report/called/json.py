# SPDX-License-Identifier: Apache-2.0
"""`soscope called --json`: one document, soscope/called/1."""

from __future__ import annotations

from soscope.proc.status import signal_name
from soscope.report.jsontext import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.trace.called import CalledFunction, CalledImage
    from soscope.instruments.trace.outcome import TraceOutcome

    Names = Callable[[str], str | None]

SCHEMA = "soscope/called/1"


def document(
    images: list[CalledImage], outcome: TraceOutcome, notes: list[str], demangled: Names
) -> str:
    """Return the document. `called`, `uncertain` and `never` have all exported functions.

    `demangled` returns the demangled name of a C++ function, None for other names.
    """
    return json_document(
        {
            "schema": SCHEMA,
            "command": outcome.command,
            "exit": {
                "status": outcome.status,
                "signal": None if outcome.signal is None else signal_name(outcome.signal),
            },
            "images": [
                {
                    "name": image.name,
                    "path": image.path,
                    "called": [
                        {
                            **_function(function, demangled),
                            "calls": function.calls,
                            "lower_bound": function.is_lower_bound,
                        }
                        for function in image.called
                    ],
                    "uncertain": [_function(function, demangled) for function in image.uncertain],
                    "never": [_function(function, demangled) for function in image.never],
                    "unreadable": image.why or None,
                }
                for image in images
            ],
            "complete": not outcome.shortfalls,
            "cost": None if outcome.cost is None else outcome.cost.document(),
            "executed_by_children": outcome.executed.document(),
            "notes": notes,
        }
    )


def _function(function: CalledFunction, demangled: Names) -> dict[str, object]:
    full = demangled(function.name)
    named = {} if full is None else {"demangled": full}
    return {"symbol": function.name, **named, "aliases": function.names[1:]}
