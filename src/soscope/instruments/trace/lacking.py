# SPDX-License-Identifier: Apache-2.0
"""Notes about what a reader asks for and a recording does not contain."""

from __future__ import annotations

from soscope.instruments.trace.choice import Choice, rules_about
from soscope.instruments.trace.settings import DEFAULT_STRING_LIMIT
from soscope.instruments.trace.unmatched import explain_unmatched
from soscope.recording.reader import RecordingFile


def lacking_shown(
    options: dict[str, object], *, string_limit: int, has_durations: bool
) -> list[str]:
    """Return a line for each missing part of calls that is to be shown.

    `options` are the same as for `lacking`.
    """
    lines = []
    kept = options.get("string_limit")
    if isinstance(kept, int) and max(kept, DEFAULT_STRING_LIMIT) < string_limit:
        lines.append(f"strings were recorded with -s {kept}: what is behind that was not kept")
    if has_durations and options.get("entry_only"):
        lines.append("the recording has no ends of calls (--entry-only), so no durations")
    return lines


def lacking(choice: Choice, options: dict[str, object], recording: RecordingFile) -> list[str]:
    """Return a line for each missing thing that a choice needs.

    `options` are the options that the recording was made with.
    """
    lines = []
    if options.get("entry_only") and choice.asks_of_end:
        lines.append(
            "the recording has no ends of calls (--entry-only):"
            " what asks for results or durations chooses none"
        )
    selection = choice.selection
    if selection is None:
        return lines
    slots = recording.slots
    about = [rules_about(selection, slot) for slot in slots]
    matched = [sum(column) for column in zip(*about, strict=True)] or [0] * len(selection.words)
    missing = explain_unmatched(
        selection, matched, [slot.symbol for slot in slots], recording.images
    )
    if missing:
        made = [
            f"{option} {word}"
            for option, name in (("-e", "select"), ("--from", "from"), ("-l", "to"))
            if isinstance(words := options.get(name), list)
            for word in words
        ]
        said = f"with {' '.join(made)}" if made else "of the program's own calls"
        lines += [f"{line} (in the recording, which was made {said})" for line in missing]
    return lines
