# SPDX-License-Identifier: Apache-2.0
"""`soscope called --json`: one document, soscope/called/1."""

from __future__ import annotations

from soscope.report.jsontext import json_document
from soscope.report.words import signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.called import CalledFunction, CalledImage
    from soscope.instruments.trace.outcome import TraceOutcome

SCHEMA = "soscope/called/1"


def document(images: list[CalledImage], outcome: TraceOutcome, notes: list[str]) -> str:
    """Return the document: `called`, `uncertain` and `never` are all exported functions."""
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
                            **_function(function),
                            "calls": function.calls,
                            "lower_bound": function.is_lower_bound,
                        }
                        for function in image.called
                    ],
                    "uncertain": [_function(function) for function in image.uncertain],
                    "never": [_function(function) for function in image.never],
                    "unreadable": image.why or None,
                }
                for image in images
            ],
            "complete": not outcome.shortfalls,
            "notes": notes,
        }
    )


def _function(function: CalledFunction) -> dict[str, object]:
    return {"symbol": function.name, "aliases": function.names[1:]}
