# SPDX-License-Identifier: Apache-2.0
"""A control block that is written from outside reads as one that an agent has written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from soscope.prototypes import load
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.functions import FunctionTable
from soscope.wire.plan import InstrumentPlan, Plan
from soscope.wire.recorder import Recorder


def _block(kind: int, *, chunks: int = 0, arrays: int = 0) -> ControlBlock:
    plan = Plan(
        instruments=[InstrumentPlan(kind, rules=bytes(2 * layout.RULE.size), functions=b"")],
        patterns=b"",
        main_path="/p",
        strings_size=1 << 16,
        chunks=chunks,
        count_arrays=arrays,
    )
    return ControlBlock.create(plan)


@pytest.fixture
def block() -> Iterator[ControlBlock]:
    """Give the block of a trace, with two chunks."""
    block = _block(layout.INSTRUMENT_TRACE, chunks=2)
    yield block
    block.close()


def _recorder(block: ControlBlock) -> Recorder:
    times = iter(range(100, 1 << 30))
    return Recorder(block, lambda: next(times), lambda: None)


def _slot(recorder: Recorder, caller: int, symbol: str) -> int:
    return recorder.slot(
        symbol,
        "V_1",
        caller=caller,
        callee=layout.NONE,
        addr=0x1000,
        original=0x2000,
        prototype=layout.NONE,
        kind=layout.SLOT_JUMP_SLOT,
        refusal=layout.HOOKED,
        flags=layout.SLOT_LAZY,
        error_rule=layout.ERROR_NULL,
        treatment=0,
        instrument=layout.INSTRUMENT_TRACE,
    )


def test_names(block: ControlBlock) -> None:
    recorder = _recorder(block)
    assert block.state == layout.STATE_RUNNING
    image = recorder.image(
        "p", "/p", bias=0x10, start=0x20, end=0x30, build_id=b"ab", flags=layout.IMAGE_MAIN, pid=7
    )
    recorder.image_slots(image, hooked=2, left=3, refused=1)
    for symbol in ("one", "two"):
        _slot(recorder, image, symbol)
    (found,) = block.images(0)
    assert (found.name, found.load_bias, found.start, found.end) == ("p", 0x10, 0x20, 0x30)
    assert (found.build_id, found.slots_hooked, found.slots_refused) == (b"ab", 2, 1)
    assert block.slots_left == 3
    slots = block.slots(0, [found])
    assert [(slot.symbol, slot.version, slot.caller) for slot in slots] == [
        ("one", "V_1", found),
        ("two", "V_1", found),
    ]
    recorder.close_image(image)
    assert block.images(0)[0].flags == layout.IMAGE_MAIN | layout.IMAGE_CLOSED
    recorder.matched(0, [True, False])
    recorder.matched(0, [True, False])
    assert block.rules_matched(layout.INSTRUMENT_TRACE) == [2, 0]


def test_calls_and_what_finds_no_room(block: ControlBlock) -> None:
    recorder = _recorder(block)
    long = bytes(range(60))
    written = 0
    while recorder.entry(
        1, 2, 5, sp=8, ticks=9, return_addr=10, arg0=11, items=[(5, 3, 1, long)], is_alone=False
    ):
        written += 1
    recorder.exit(1, 2, 5, sp=8, ticks=9, result=1, errno=0, items=[])
    assert written == 2 * (((layout.CHUNK_SIZE - layout.CHUNK_HEADER) // layout.UNIT) // 4)
    assert block.dropped[layout.DROP_FULL] == 1
    assert block.dropped_exits == 1
    with block.chunk(0) as chunk:
        assert layout.CHUNK.struct.unpack_from(chunk)[:3] == (1, 2, 1)
        units = bytes(chunk[layout.CHUNK_HEADER :])
    entry = layout.ENTRY.struct.unpack_from(units)
    assert entry == (layout.UNIT_ENTRY << 28 | 5, 8, 9, 10, 11)
    data = [layout.DATA.struct.unpack_from(units, at * layout.UNIT) for at in (1, 2, 3)]
    assert b"".join(content for _, _, content in data)[:60] == long
    assert [commit >> 24 & 15 for commit, _, _ in data] == [5, layout.DATA_MORE, layout.DATA_MORE]
    assert [commit & 0xFFFF for commit, _, _ in data] == [60, 36, 12]


def test_counters() -> None:
    block = _block(layout.INSTRUMENT_STATS, arrays=2)
    recorder = _recorder(block)
    for symbol in ("one", "two"):
        _slot(recorder, layout.NONE, symbol)
    for ticks in (7, 5):
        recorder.called(1)
        recorder.returned(1, ticks, 4, is_error=ticks == 5)
    recorder.called(1)
    assert block.stats() == {1: (3, 2, 1, 12, 5, 7, 8)}
    block.close()
    block = _block(layout.INSTRUMENT_COUNT, arrays=2)
    recorder = _recorder(block)
    _slot(recorder, layout.NONE, "one")
    recorder.count(0)
    recorder.count(0)
    assert block.counts() == {0: 2}
    block.close()


def test_functions_are_found_as_the_agent_finds_them() -> None:
    prototypes = load()
    patterns: list[Any] = []
    data = prototypes.function_table(patterns, entry_only=False, want_arguments=True)

    def matches(number: int, name: str) -> bool:
        return bool(patterns[number].matches(name.encode()))

    table = FunctionTable(data, matches)
    known = 0
    for name in prototypes.names():
        if "@" in name:
            continue
        function = table.find(name, "", None)
        known += function.prototype != layout.NONE
        assert function.flags & ~layout.FN_FAMILY >= 0
    assert known > 5000
    name = min(name for name in prototypes.names() if prototypes.family(name) == "libc")
    own = table.find(name, "", "libc.so.6")
    assert own.prototype != layout.NONE
    assert not own.flags & layout.FN_FOREIGN
    assert table.find(name, "GLIBC_2.17", "libother.so").prototype == own.prototype
    other = table.find(name, "", "libother.so")
    assert other.flags & layout.FN_FOREIGN
    assert (other.prototype, other.at_entry) == (layout.NONE, b"")
    nobody = table.find("nobody_has_this", "", None)
    assert nobody.prototype == layout.NONE
    assert nobody.flags == layout.FN_SIX


def test_a_chunk_of_a_thread_that_has_ended_is_the_reader_s(block: ControlBlock) -> None:
    """It is not handed over a second time, when the reader has taken it back by itself."""
    recorder = _recorder(block)
    slot = _slot(recorder, layout.NONE, "f")
    for tid in (7, 8):
        assert recorder.entry(
            7, tid, slot, sp=1, ticks=1, return_addr=2, arg0=3, items=[], is_alone=True
        )
        taken = block.chunk_states().index(layout.CHUNK_OWNED)
        block.free_chunks([taken])
        recorder.leave(tid)
    assert set(block.chunk_states()) == {layout.CHUNK_FREE}
