# SPDX-License-Identifier: Apache-2.0
"""The actions of `soscope patch`, for programs: soscope/patch/1."""

from __future__ import annotations

from soscope.report.jsontext import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.patch import Patched

SCHEMA = "soscope/patch/1"


def document(patched: Patched) -> str:
    """Return the JSON document."""
    return json_document(
        {
            "schema": SCHEMA,
            "pid": patched.pid,
            "replaced": [
                {
                    "symbol": patch.symbol,
                    "library": library,
                    "function": patch.name,
                    "slots": patch.slots,
                    "address_taken": patch.left,
                }
                for library, patch in patched.replaced
            ],
            "restored": patched.restored,
            "left": len(patched.left),
            "closed": patched.closed,
            "left_loaded": list(patched.left_loaded),
            "longest_stop_ns": patched.longest_stop,
        }
    )
