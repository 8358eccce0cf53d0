# SPDX-License-Identifier: Apache-2.0
"""`soscope mem where --json`: one document, schema "soscope/mem-where/1"."""

from __future__ import annotations

from soscope.report.jsontext import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.inspect.memory import Look, Verdict

SCHEMA = "soscope/mem-where/1"


def document(look: Look, verdict: Verdict) -> str:
    """Return the document. All sizes are in bytes."""
    pin = None
    if look.pin is not None:
        pin = {"addr": f"{look.pin[0]:#x}", "bytes": look.pin[1]}
    return json_document(
        {
            "schema": SCHEMA,
            "pid": look.pid,
            "rss": look.rss,
            "parts": [
                {"what": part.what, "name": part.name, "bytes": part.bytes} for part in look.parts
            ],
            "arenas": [
                {
                    "addr": f"{arena.addr:#x}",
                    "in_use": arena.in_use,
                    "free": arena.free,
                    "top": arena.top,
                }
                for arena in look.arenas
            ],
            "allocator": look.allocator,
            "trim": look.trim,
            "pin": pin,
            "verdict": verdict.verdict,
            "why": verdict.why,
            "next": verdict.next,
        }
    )
