# SPDX-License-Identifier: Apache-2.0
"""What tracing has made calls take longer, by what the agents have measured of an empty one."""

from __future__ import annotations

from soscope.control.cost import Price
from soscope.instruments.trace.outcome import TraceProgramOutcome


def price(
    cost: Price, programs: list[TraceProgramOutcome], ns_per_tick: float, units: int | None
) -> None:
    """Put down what calls took longer; `units` were recorded, None: nobody knows how many.

    A call that keeps a string or a structure has units for that, too, and costs as much more.
    """
    if any(program.records for program in programs):
        most = max(program.call_ticks for program in programs)
        events, ticks = units, None if units is None else most * units
    elif any(program.counts is not None for program in programs):
        each = [(sum((run.counts or {}).values()), run.call_ticks) for run in programs]
        events, ticks = _all(each)
    else:
        each = [
            (sum(cell[1] for cell in (run.stats or {}).values()), run.call_ticks)
            for run in programs
        ]
        events, ticks = _all(each)
    call_ticks = max((program.call_ticks for program in programs), default=0)
    if not call_ticks:
        return
    cost.call_ns = round(call_ticks * ns_per_tick, 1)
    if events is not None and ticks is not None:
        cost.calls_ns = round(ticks * ns_per_tick)


def _all(each: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(count for count, _ in each), sum(count * ticks for count, ticks in each)
