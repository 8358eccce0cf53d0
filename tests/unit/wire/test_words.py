# SPDX-License-Identifier: Apache-2.0
"""Words of a control block that the target has written anything over."""

from __future__ import annotations

from soscope.wire import layout
from tests.unit.recording.fake import make_block


def test_a_counter_that_is_as_high_as_can_be_begins_again() -> None:
    block = make_block(4, layout.FULL_BLOCK)
    for name in ("heartbeat", "images_dropped", "ring_drained"):
        size = layout.CONTROL.fields[name][1]
        setattr(block, name, (1 << 8 * size) - 1)
        setattr(block, name, getattr(block, name) + 1)
        assert getattr(block, name) == 0
    block.error = -5
    assert block.error == -5
    block.close()
