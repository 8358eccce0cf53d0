# SPDX-License-Identifier: Apache-2.0
"""Notes about what the stacks of a trace lack."""

from __future__ import annotations

_NO_STACKS = "the recording has no stacks: soscope trace -k --record FILE ... keeps them"


def stack_remarks(totals: object) -> list[str]:
    """Return a line for each loss of stacks in `totals`, the totals of a trace."""
    said = totals.get("stacks") if isinstance(totals, dict) else None
    if not isinstance(said, dict):
        return []
    lost, notes = said.get("lost"), said.get("notes")
    lines = [str(note) for note in notes] if isinstance(notes, list) else []
    if isinstance(lost, int) and lost:
        lines.append(f"{lost:,} calls have no stack: there was no room for more")
    return lines


def recorded_remarks(options: dict[str, object], depth: int) -> list[str]:
    """Return a note if a recording made with `options` has fewer frames than `depth`."""
    kept = options.get("stacks")
    if not depth:
        return []
    if not isinstance(kept, int) or not kept:
        return [_NO_STACKS]
    return [f"stacks were recorded with --stack-depth {kept}"] if kept < depth else []
