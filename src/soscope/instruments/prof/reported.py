# SPDX-License-Identifier: Apache-2.0
"""Calls that instrumented code has reported, in the format of a recording."""

from __future__ import annotations

from soscope.errors import FormatError
from soscope.instruments.prof.model import MODE_LOG
from soscope.instruments.prof.tree import ROOT, CallNode, ReportedCalls, ThreadCalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from soscope.recording.reader import RecordingFile

_NODE = CallNode.__slots__


def is_logged(recording: RecordingFile) -> bool:
    """Return whether a recording has single calls reported by instrumented code."""
    options = recording.meta.get("options")
    said = options.get("prof") if isinstance(options, dict) else None
    return isinstance(said, dict) and said.get("mode") == MODE_LOG


def pack(calls: ReportedCalls) -> dict[str, object]:
    """Return the object that a recording keeps (`format.REPORTED`)."""
    return {
        "mode": calls.mode,
        "period": calls.period,
        "costs": calls.costs,
        "slots": calls.slots,
        "foreign": calls.foreign,
        "has_shadow_stack": calls.has_shadow_stack,
        "is_followed": calls.is_followed,
        "entries": calls.entries,
        "left": calls.left,
        "unread": calls.unread,
        "node": list(_NODE),
        "threads": [
            {
                **{name: getattr(thread, name) for name in ThreadCalls.__slots__},
                "nodes": [[int(getattr(node, name)) for name in _NODE] for node in thread.nodes],
            }
            for thread in calls.threads
        ],
    }


def unpack(said: dict[str, Any]) -> ReportedCalls:
    """Return the calls that `pack` was given. Raises FormatError for other objects."""
    try:
        calls = ReportedCalls(
            said["mode"],
            _number(said["period"]),
            [(_number(inner), _number(outer)) for inner, outer in said["costs"]],
            slots=_number(said["slots"]),
            foreign=_number(said["foreign"]),
            has_shadow_stack=said["has_shadow_stack"],
            is_followed=said["is_followed"],
            entries=_number(said.get("entries", 0)),
            left=said.get("left"),
            unread=_number(said.get("unread", 0)),
        )
        places = [said["node"].index(name) for name in _NODE]
        for row in said["threads"]:
            thread = ThreadCalls(
                *map(
                    _number,
                    (row[name] for name in ("pid", "tid", "threads", "left", "unpaired", "deep")),
                )
            )
            thread.dropped = _number(row["dropped"])
            thread.still_open = _number(row.get("still_open", 0))  # missing in older recordings
            for words in row["open_calls"]:
                commit, start, ticks, function, around = map(_number, words)
                thread.open_calls.append((commit, start, ticks, function, around))
            for values in row["nodes"]:
                node = CallNode(0, 0, 0, 0, 0)
                for name, place in zip(_NODE, places, strict=True):
                    setattr(node, name, _number(values[place]))
                if not (
                    ROOT <= node.parent < len(thread.nodes) and 0 <= node.hook < len(calls.costs)
                ):
                    raise ValueError("a node without its parent or hook")
                thread.nodes.append(node)
            calls.threads.append(thread)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise FormatError(f"its reported calls are damaged: {error}") from error
    return calls


def _number(value: object) -> int:
    """Return an integer of at most 64 bits. Raises ValueError for other values."""
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{value!r:.40} is not a number")
    return value
