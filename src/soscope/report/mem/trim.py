# SPDX-License-Identifier: Apache-2.0
"""The result of `soscope mem trim`: a line for people, and soscope/mem-trim/1."""

from __future__ import annotations

from soscope.report.jsontext import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.interpreter import Trimmed

SCHEMA = "soscope/mem-trim/1"
_MIB = 1 << 20


def document(trimmed: Trimmed) -> str:
    """Return the JSON document. Sizes are in bytes."""
    return json_document(
        {
            "schema": SCHEMA,
            "pid": trimmed.pid,
            "rss_before": trimmed.before,
            "rss_after": trimmed.after,
            "given_back": trimmed.given_back,
            "result": int(trimmed.gave),
            "longest_stop_ns": trimmed.longest_stop,
        }
    )


def text(trimmed: Trimmed) -> str:
    """Return the line for people."""
    before, after = trimmed.before / _MIB, trimmed.after / _MIB
    given = f"{trimmed.given_back / _MIB:,.2f} MiB given back"
    said = given if trimmed.given_back else "malloc had nothing to give back"
    return f"process {trimmed.pid}: {said}; RSS was {before:,.2f} MiB and is {after:,.2f} MiB\n"
