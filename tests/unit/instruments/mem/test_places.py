# SPDX-License-Identifier: Apache-2.0
"""Places for what the agent says of processes: some may have found none."""

from __future__ import annotations

import pytest

from soscope.control.blocks import Blocks
from soscope.control.settings import SessionSettings
from soscope.instruments.mem.objects import ObjectsInstrument, ObjectsPlace
from soscope.wire import headers as layout
from soscope.wire import layout as wire

PLACES = layout.OBJECTS_PLACES


@pytest.mark.parametrize(("used", "there", "missing"), [(0, 0, 0), (3, 3, 0), (4100, PLACES, 4)])
def test_processes_without_a_place_are_counted(used: int, there: int, missing: int) -> None:
    block = Blocks(SessionSettings(["true"]), [ObjectsInstrument()]).make("/bin/true")
    try:
        with block.own(wire.INSTRUMENT_OBJECTS) as own:
            at = layout.OBJECTS.offset("places_used")
            own[at : at + 4] = used.to_bytes(4, "little")
        assert len(ObjectsPlace.all(block)) == there
        assert ObjectsPlace.missing(block) == missing
    finally:
        block.close()
