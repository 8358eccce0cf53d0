# SPDX-License-Identifier: Apache-2.0
"""What the agent's memory says of reported calls, read back."""

from __future__ import annotations

from soscope.instruments.prof import instrumented
from soscope.recording.names import in_image
from soscope.wire import headers, layout
from soscope.wire.headers import PROF_FRAME, PROF_NODE, PROF_TABLE

INSIDE = headers.PROF_INSIDE
CYG = headers.PROF_CYG


class Memory:
    """The instrument's memory, with the table of one thread in it."""

    def __init__(self, mode: int = headers.PROF_TIME, *, tables: int = 2) -> None:
        head, size = instrumented.own_memory(mode, tables=tables)
        self.bytes = bytearray(size)
        self.bytes[: len(head)] = head
        used = headers.PROF.offset("used")
        self.bytes[used : used + 4] = (2).to_bytes(4, "little")
        self.table = headers.PROF_HEAD + headers.PROF_TABLE_SIZE
        self.frames = 0

    def thread(self, threads: int = 1, done: int = 0, last: int = 0) -> None:
        fields = (7, 8, threads, 0, done, last, 1, 2, 3, *(0,) * 8)
        PROF_TABLE.struct.pack_into(self.bytes, self.table, *fields)

    def node(
        self, place: int, key: int, function: int, *times: int, flags: int = CYG, site: int = 9
    ) -> None:
        calls, total, own, timed = (*times, 0, 0, 0, 0)[:4]
        at = self.table + headers.PROF_HEAD + place * PROF_NODE.size
        fields = (key, function, calls, total, own, 0x40, site, timed, flags)
        PROF_NODE.struct.pack_into(self.bytes, at, *fields)

    def frame(self, place: int, node: int, start: int, done: int, flags: int = 1) -> None:
        self.frames += 1
        at = self.table + headers.PROF_HEAD + headers.PROF_NODES * PROF_NODE.size
        at += self.frames * PROF_FRAME.size
        key = INSIDE | node * PROF_NODE.size
        PROF_FRAME.struct.pack_into(self.bytes, at, place, start, done, 0, 0, key, 0, flags, 0)

    def read(self) -> instrumented.ThreadCalls:
        with memoryview(self.bytes) as own:
            calls = instrumented.read(own)
        assert calls is not None
        (thread,) = calls.threads
        return thread


def under(place: int) -> int:
    return INSIDE | place * PROF_NODE.size


def test_parents_stand_in_front_and_two_of_the_same_are_one() -> None:
    memory = Memory()
    memory.thread()
    memory.node(900, 0x40, 0x1000, 2, 50, 20, 2)
    memory.node(3, under(900), 0x2000, 4, 30, 30, 4)
    memory.node(4, under(900), 0x2000, 1, 5, 5, 1)
    memory.node(5, under(4), 0x3000, 6, 1, 1, 6)
    memory.node(6, under(900), 0x1000, flags=CYG | headers.PROF_NODE_ALIAS)
    thread = memory.read()
    assert (thread.pid, thread.tid, thread.left, thread.unpaired, thread.deep) == (7, 8, 1, 2, 3)
    seen = [(node.parent, node.function, node.calls, node.timed) for node in thread.nodes]
    assert seen == [(-1, 0x1000, 2, 2), (0, 0x2000, 5, 5), (1, 0x3000, 6, 6)]
    assert [node.total_ticks for node in thread.nodes] == [50, 35, 1]


def test_an_addr_knows_its_image_once_that_is_closed() -> None:
    addr = 0x7FFF_1234_5678
    assert in_image(addr) == (None, addr)
    assert in_image(8 << layout.IMAGE_SHIFT | addr) == (7, addr)
    assert in_image(8 << layout.IMAGE_SHIFT | INSIDE | addr) == (7, addr)


def test_what_found_no_room_is_nobody_s_and_what_is_inside_it_has_no_parent() -> None:
    memory = Memory()
    memory.thread()
    memory.node(0, 0, 0, 11)
    memory.node(5, under(0), 0x3000, 6)
    thread = memory.read()
    assert thread.dropped == 11
    assert [(node.parent, node.calls) for node in thread.nodes] == [(-1, 6)]


def test_open_calls_have_the_time_until_now() -> None:
    memory = Memory()
    memory.thread(done=500, last=2000)
    memory.node(1, 0x40, 0x1000, 1)
    memory.node(2, under(1), 0x2000, 1)
    memory.frame(~100 & (1 << 64) - 1, 1, 1000, 300)  # 200 of its ticks were in others
    memory.frame(~90 & (1 << 64) - 1, 2, 1700, 500)
    memory.frame(1, 2, 1800, 500)  # has returned, with one above it open
    memory.frame(~80 & (1 << 64) - 1, 2, 1900, 500, flags=0)  # not timed
    thread = memory.read()
    assert thread.still_open == 3
    outer, inner = thread.nodes
    assert (inner.total_ticks, inner.self_ticks, inner.timed) == (300, 300, 1)
    assert (outer.total_ticks, outer.self_ticks, outer.timed) == (1000, 500, 1)


def test_several_threads_have_no_name() -> None:
    memory = Memory()
    memory.thread(threads=3)
    thread = memory.read()
    assert (thread.tid, thread.threads) == (0, 3)


def test_too_little_memory_is_none() -> None:
    with memoryview(bytearray(10)) as own:
        assert instrumented.read(own) is None
