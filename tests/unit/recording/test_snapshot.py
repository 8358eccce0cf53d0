# SPDX-License-Identifier: Apache-2.0
"""A copy of a control block holds what the block holds, and the block goes on."""

from __future__ import annotations

from soscope.recording.drain import Drainer
from soscope.recording.snapshot import copy_of
from soscope.recording.stream import Stream
from soscope.wire import layout
from tests.unit.recording.fake import FakeAgent, FakeSampler, make_block


def test_a_copy_has_what_was_there_and_takes_nothing_off() -> None:
    block = make_block(when_full=layout.FULL_OVERWRITE)
    agent = FakeAgent(block)
    agent.image("prog")
    slot = agent.slot("getenv")
    thread = agent.thread()
    for _ in range(600):  # more than a chunk
        thread.enter(slot, sp=0x6000)
        thread.leave(slot, sp=0x6000)
    thread.enter(slot, sp=0x7000)
    copy = copy_of(block)
    before = block.chunk_states()
    thread.enter(slot, sp=0x6000)
    seen = []
    for each in (copy, block):
        stream = Stream()
        drainer = Drainer(each, 0, stream, FakeSampler())
        drainer.finish()
        drainer.close()
        seen.append([event.time_ns for event in stream.finish() if hasattr(event, "time_ns")])
        if each is copy:
            assert block.chunk_states() == before
    assert len(seen[0]) == 1201
    assert len(seen[1]) == 1202
    assert block.when_full == copy.when_full == layout.FULL_OVERWRITE
    copy.close()
    block.close()


def test_a_chunk_that_is_being_prepared_is_left_out() -> None:
    block = make_block()
    agent = FakeAgent(block)
    agent.image("prog")
    slot = agent.slot("getenv")
    thread = agent.thread()
    thread.enter(slot, sp=0x6000)
    start, _ = block.section(layout.SEC_RING)
    block.words[(start + thread.chunk * layout.CHUNK_SIZE + layout.CHUNK.offset("seq")) // 8] = 0
    copy = copy_of(block)
    assert copy.chunk_states()[thread.chunk] == layout.CHUNK_FREE
    assert block.chunk_states()[thread.chunk] == layout.CHUNK_OWNED
    copy.close()
    block.close()
