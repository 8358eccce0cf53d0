# SPDX-License-Identifier: Apache-2.0
"""Calls that are OPEN when the ring is looked at, and WHOLE later."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator

import pytest

from soscope.model.call import ENDED_RETURN, Entry, Exit
from soscope.recording.sink import Tee
from soscope.recording.spoiled import Chunks
from soscope.recording.stream import Stream
from soscope.recording.units import captured
from soscope.wire import layout
from tests.unit.recording.fake import FakeThread, data_units
from tests.unit.recording.test_drain import Target, clock

__all__ = ["clock"]  # a fixture


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.drainer.close()
    target.block.close()


@pytest.mark.parametrize("next_call", [False, True])
@pytest.mark.parametrize("data", [b"", data_units(layout.DATA_WORDS, 1, bytes(40))])
def test_a_call_that_waits_is_told_before_it_has_returned(
    target: Target, data: bytes, *, next_call: bool
) -> None:
    stream = Stream(target.sink.programs)
    target.drainer.sink = Tee(target.sink, stream)
    target.thread.compact = True
    target.thread.enter(0, 1000, arg0=1)
    target.thread.leave(0, 1000, result=2)
    target.thread.enter(0, 1000, arg0=3, data=data)
    target.drainer.drain()
    target.drainer.drain()
    target.thread.leave(0, 1000, result=4)
    if next_call:
        target.thread.enter(0, 1000, arg0=5)
        target.thread.leave(0, 1000, result=6)
    target.drainer.drain()
    target.drainer.drain()
    target.drainer.finish()
    returned = [piece for piece in target.sink.pieces if piece.flags & layout.CHUNK_RETURNED]
    assert [piece.first for piece in returned] == [1]
    calls = [1, 2, 3, 4, 5, 6] if next_call else [1, 2, 3, 4]
    events = stream.finish()
    seen = [
        one.captured.words[0] if isinstance(one, Entry) else one.result
        for one in events
        if isinstance(one, (Entry, Exit))
    ]
    assert seen == calls
    assert {one.ended for one in events if isinstance(one, Exit)} == {ENDED_RETURN}


def test_an_open_call_that_something_follows_gets_an_exit_of_its_own(target: Target) -> None:
    stream = Stream(target.sink.programs)
    target.drainer.sink = Tee(target.sink, stream)
    target.thread.compact = True
    target.thread.enter(0, 1000, arg0=1)
    target.drainer.drain()
    target.thread.enter(0, 900, arg0=2)
    target.drainer.drain()
    target.thread.leave(0, 900, result=3)
    target.thread.leave(0, 1000, result=4)
    target.drainer.finish()
    ends = [one for one in stream.finish() if isinstance(one, Exit)]
    assert [(one.result, one.ended) for one in ends] == [(3, ENDED_RETURN), (4, ENDED_RETURN)]


def living(target: Target) -> FakeThread:
    """Return a thread that nobody finds to have ended."""
    target.drainer.pids.add(os.getpid())
    return target.agent.thread(os.getpid(), threading.get_native_id())


def pass_over(target: Target, clock: list[float]) -> None:
    """Look at the ring until holes have been passed over."""
    for _ in range(3):
        target.drainer.drain()
        clock[0] += 0.3


def ends(stream: Stream) -> list[tuple[int, int | None, str]]:
    """Return (first argument, result, how it ended) of all calls, in order of their ends."""
    return [
        (one.entry.captured.words[0], one.result, one.ended)
        for one in stream.finish()
        if isinstance(one, Exit) and one.entry is not None
    ]


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_a_handler_in_the_middle_of_an_exit_goes_on_for_long(
    target: Target, clock: list[float], *, looks: bool, waits: bool
) -> None:
    stream = Stream(target.sink.programs)
    thread = living(target)
    target.drainer.sink = Tee(target.sink, stream)
    thread.compact = True
    thread.enter(0, 1000, arg0=1)
    if looks:
        target.drainer.drain()
    interrupted, place = thread.last, thread.at
    thread.at += layout.UNIT  # taken by the exit
    thread.enter(0, 500, arg0=2)
    if not waits:
        thread.leave(0, 500, result=3)
    for index in range(1, len(target.states()) if not looks else 1):
        target.block.set_chunk_state(index, layout.CHUNK_OWNED)  # nobody waits for it
    pass_over(target, clock)
    if waits:
        thread.leave(0, 500, result=3)
    memory, thread.at, behind = target.block.chunk(thread.chunk), place, thread.at
    thread.last = interrupted
    thread.leave(0, 1000, result=4)
    memory[place : place + 4] = (layout.UNIT_NOTHING << 28).to_bytes(4, "little")
    thread.at = behind
    target.drainer.drain()
    thread.enter(0, 1000, arg0=5)
    thread.leave(0, 1000, result=6)
    target.drainer.drain()
    target.drainer.finish()
    assert sorted(ends(stream)) == [
        (1, 4, ENDED_RETURN),
        (2, 3, ENDED_RETURN),
        (5, 6, ENDED_RETURN),
    ]


def test_a_handler_in_the_middle_of_an_entry_waits_in_a_call(
    target: Target, clock: list[float]
) -> None:
    stream = Stream(target.sink.programs)
    thread = living(target)
    target.drainer.sink = Tee(target.sink, stream)
    thread.compact = True
    thread.enter(0, 1000, arg0=1)
    memory, place = target.block.chunk(thread.chunk), thread.at - layout.UNIT
    commit = bytes(memory[place : place + 4])
    memory[place : place + 4] = bytes(4)
    thread.enter(0, 500, arg0=2)
    pass_over(target, clock)
    thread.leave(0, 500, result=3)
    memory[place : place + 4] = commit
    target.drainer.drain()
    thread.leave(0, 1000, result=4)
    target.drainer.drain()
    target.drainer.finish()
    assert ends(stream) == [(2, 3, ENDED_RETURN), (1, 4, ENDED_RETURN)]


def test_a_copy_that_is_made_while_an_exit_writes(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(target.sink.programs)
    thread = target.thread
    target.drainer.sink = Tee(target.sink, stream)
    thread.compact = True
    thread.enter(0, 1000, arg0=1)
    read = Chunks.units

    def torn(chunks: Chunks, index: int, first: int, end: int) -> bytes:
        """Give the unit with its new commit word, the rest as it was: memcpy may do so."""
        before = read(chunks, index, first, end)
        if len(before) == layout.UNIT and thread.last:
            thread.leave(0, 1000, result=7)
            return read(chunks, index, first, end)[:8] + before[8:]
        return before

    with monkeypatch.context() as patched:
        patched.setattr(Chunks, "units", torn)
        target.drainer.drain()
    target.drainer.finish()
    assert ends(stream) == [(1, 7, ENDED_RETURN)]


def test_packed_words_are_signed() -> None:
    words = [0, -1, (1 << 47) - 1, -(1 << 47), 0x1234_5678_9ABC]
    six = b"".join((word & (1 << 48) - 1).to_bytes(6, "little") for word in words)
    commit = layout.UNIT_DATA << 28 | layout.DATA_PACKED << 24 | 1 << 16
    unit = struct.pack("<I4s24s", commit | int.from_bytes(six[28:], "little"), six[24:28], six[:24])
    assert captured((7,), unit).words == (7, *(word & (1 << 64) - 1 for word in words))


def test_that_errno_is_known_is_told_before_the_units_behind(target: Target) -> None:
    """The C library comes later than the program that uses it."""
    target.block.agent_flags = 0
    target.calls(1)
    target.drainer.drain()
    assert not target.sink.programs[0].knows_errno
    target.calls(1)
    target.block.agent_flags |= layout.AGENT_ERRNO
    target.drainer.drain()
    assert target.sink.programs[0].knows_errno
    told = target.sink.told
    target.calls(1)
    target.drainer.drain()
    assert target.sink.told == told
