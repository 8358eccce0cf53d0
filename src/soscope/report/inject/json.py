# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep, for programs: soscope/inject-sweep/1."""

from __future__ import annotations

from soscope.instruments.inject.sweep.result import WORST_FIRST
from soscope.proc.status import signal_name
from soscope.report.form import Form
from soscope.report.jsontext import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.inject.sweep.result import CommandEnd, SweepResult

SCHEMA = "soscope/inject-sweep/1"


def document(result: SweepResult, form: Form) -> str:
    """Return the document in its form. On a page the worst sites come first."""
    results = result.results
    if form.is_markdown:
        results = sorted(results, key=lambda tried: WORST_FIRST.index(tried.kind))
    said = json_document(
        {
            "schema": SCHEMA,
            "command": result.command,
            "functions": result.functions,
            "baseline": _end(result.baseline),
            "deterministic": result.is_deterministic,
            "sites": [
                {
                    "function": tried.site.function,
                    "image": tried.site.image,
                    "offset": f"{tried.site.offset:#x}",
                    "kind": tried.kind,
                    **_end(tried.end),
                    "stack": tried.stack,
                    "repeat": result.repeat(tried.site),
                }
                for tried in results
            ],
            "totals": result.totals,
        }
    )
    return form.shaped(said)


def _end(end: CommandEnd) -> dict[str, object]:
    name = None if end.signal is None else signal_name(end.signal)
    return {"status": end.status, "signal": name}
