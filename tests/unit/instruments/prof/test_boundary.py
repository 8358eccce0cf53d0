# SPDX-License-Identifier: Apache-2.0
"""What calls between images have cost, as far as the agent has measured it."""

from __future__ import annotations

import pytest

from soscope.control.outcome import Price, ProgramOutcome
from soscope.instruments.prof.boundary import COUNT, BoundaryInstrument
from soscope.recording.sink import Sink
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import InstrumentPlan, Plan


@pytest.mark.parametrize(("usual", "outer", "ticks"), [(30, 20, 30), (0, 20, 20), (0, 0, None)])
def test_calls_cost_what_is_known_of_one(usual: int, outer: int, ticks: int | None) -> None:
    """A median of 0 is that of a clock that does not tell such a short time."""
    counts = InstrumentPlan(layout.INSTRUMENT_COUNT, rules=b"", functions=b"")
    block = ControlBlock.create(
        Plan(instruments=[counts], patterns=b"", main_path="", count_arrays=1)
    )
    block.slot_count = 1
    start = block.section(layout.SEC_COUNTS)[0]
    block.mapping[start : start + 8] = (5).to_bytes(8, "little")
    for name, value in (("cost_call", usual), ("cost_outer", outer)):
        at = layout.CONTROL.offset(name)
        block.mapping[at : at + 4] = value.to_bytes(4, "little")
    instrument = BoundaryInstrument(COUNT, [])
    instrument.take(ProgramOutcome(0, "", []), block, Sink())
    price = Price()
    instrument.price(price, 2.0, 1)
    assert price.calls_ns == (None if ticks is None else 5 * ticks * 2)
    block.close()
