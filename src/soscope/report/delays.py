# SPDX-License-Identifier: Apache-2.0
"""Waits of threads for a processor, in words and in JSON."""

from __future__ import annotations

from soscope.control.cost import time_text
from soscope.model.call import Delays
from soscope.report.words import plural

_LITTLE = 0.01  # share of the traced time that is worth a line


def delay_lines(delays: Delays) -> list[str]:
    """Return how much of the traced time was waiting, and what is not known about it."""
    lines = []
    if delays.share >= _LITTLE:
        waited = f"threads waited {time_text(delays.waited_ns)} for a processor"
        part = f"{100 * delays.share:.3g} % of the traced time"
        without = "" if delays.unknown else "; the times are without it"
        lines.append(f"{waited}, {part}{without}")
    if delays.unknown:
        lines.append(
            f"{plural(delays.unknown, 'time')} a thread may have waited for a processor, and nobody"
            " knows how long: that is in the times"
        )
    return lines


def delay_members(delays: Delays) -> dict[str, object]:
    """Return the waits as members of a JSON object."""
    return {
        "waited_ns": delays.waited_ns,
        "waited_of_ns": delays.over_ns,
        "waits_unknown": delays.unknown,
    }
