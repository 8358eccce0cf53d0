# SPDX-License-Identifier: Apache-2.0
"""The results of `soscope mem attach` and `detach`: soscope/mem-attach/1 and -detach/1."""

from __future__ import annotations

from soscope.report.attached import attached_lines
from soscope.report.jsontext import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome

ATTACHED, DETACHED = "soscope/mem-attach/1", "soscope/mem-detach/1"


def attached(pid: int, notes: list[str], *, did_before: bool) -> str:
    """Return the document of a process that counts its objects from now on.

    `did_before` means that it counted them before.
    """
    return json_document(
        {
            "schema": ATTACHED,
            "pid": pid,
            "what": "objects",
            "did_before": did_before,
            "notes": notes,
        }
    )


def recorded(pid: int, path: str, outcome: Outcome) -> str:
    """Return the document of a process whose blocks were recorded in the file `path`.

    `recording` is null if there is none, and `dropped` is a number of events.
    """
    return json_document(
        {
            "schema": ATTACHED,
            "pid": pid,
            "what": "blocks",
            "recording": None if outcome.record is None else path,
            "dropped": sum(count for count, _ in outcome.dropped),
            "executed_by_children": outcome.executed.document(),
            "notes": [*outcome.executed.lines(), *outcome.remarks, *attached_lines(outcome)]
            + [f"{count:,} events lost: {why}" for count, why in outcome.dropped],
        }
    )


def detached(pid: int, was_counting: bool, notes: list[str]) -> str:
    """Return the document of a process that has stopped counting, or never counted."""
    return json_document(
        {"schema": DETACHED, "pid": pid, "was_counting": was_counting, "notes": notes}
    )
