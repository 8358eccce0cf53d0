# SPDX-License-Identifier: Apache-2.0
"""The session hears of programs while the command is still being launched."""

from __future__ import annotations

import gc
import os

import pytest

from soscope.control.blocks import Blocks
from soscope.control.program import Program
from soscope.instruments.trace.instrument import TraceRun
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.settings import MODE_COUNT, MODE_SUMMARY, MODE_TRACE, TraceSettings


@pytest.mark.parametrize("mode", [MODE_TRACE, MODE_SUMMARY, MODE_COUNT])
def test_a_command_that_ends_at_once_is_let_go_of(mode: str) -> None:
    settings = TraceSettings(["/bin/true"], mode=mode, follow=True)
    run = TraceRun(settings, Listener())
    session, blocks = run.session, Blocks(settings, [run.instrument])
    gc.collect()  # what other tests have left open
    before = os.listdir("/proc/self/fd")
    for index in range(3):
        program = Program(index, 100 + index, "/bin/true", 1)
        program.block = blocks.make("/bin/true")
        event = "exec" if index else "start"
        session.on_process(event, 100 + index, None, program, 2)
        session.on_exit(100 + index, 0, None, 3)
        assert program.block is None
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert session.feed.drainers == []
