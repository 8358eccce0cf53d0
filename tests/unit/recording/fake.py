# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the agent: writes into a control block what threads of a target would."""

from __future__ import annotations

import contextlib
import struct

from soscope.model.image import is_error
from soscope.recording.clock import Sampler
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import InstrumentPlan, Plan
from tests.support.processes.leftovers import at_end

BASE = 0x7000_0000_0000  # where the blob lies
SITE = BASE + layout.BLOB_SITES + 14  # a return address that says: tail-called
CALLER = 0x40_1234  # an ordinary return address
EPOCH = 1_700_000_000_000_000_000
GHZ = 2  # ticks per nanosecond
PER_CHUNK = (layout.CHUNK_SIZE - layout.CHUNK_HEADER - layout.CHUNK_SLACK) // layout.UNIT


class FakeSampler(Sampler):
    """Clocks that stand still until `now` (tsc) is set."""

    def __init__(self, now: int = 1000) -> None:
        super().__init__()
        self.now = now

    def sample(self, newest: int = 0) -> tuple[int, int, int]:
        del newest
        return self.now, EPOCH + self.now // GHZ, self.now // GHZ


def make_block(
    chunks: int = 8, when_full: int = layout.FULL_BLOCK, mode: int = layout.INSTRUMENT_TRACE
) -> ControlBlock:
    block = ControlBlock.create(
        Plan(
            instruments=[InstrumentPlan(mode, rules=b"", functions=b"")],
            patterns=b"",
            main_path="program",
            chunks=chunks,
            when_full=when_full,
            count_arrays=0 if mode == layout.INSTRUMENT_TRACE else 2,
        )
    )
    at_end(lambda: _close(block))
    return block


def _close(block: ControlBlock) -> None:
    """Close a block that its test has not closed."""
    with contextlib.suppress(BufferError):  # what the test looked at is still there
        if block.fd >= 0:
            block.close()


class FakeAgent:
    """Fills a control block."""

    def __init__(self, block: ControlBlock) -> None:
        self.block = block
        block.agent_base = BASE
        block.agent_flags = layout.AGENT_ERRNO
        block.strings_used = 1
        block.tsc_start = 1
        block.realtime_start = EPOCH
        block.state = layout.STATE_RUNNING

    def string(self, text: str) -> int:
        at = self.block.strings_used
        data = text.encode() + b"\0"
        self.block.view(layout.SEC_STRINGS, at, at + len(data))[:] = data
        self.block.strings_used = at + len(data)
        return at

    def image(self, name: str, *, flags: int = 0, ready: int = 1) -> int:
        index = self.block.image_count
        record = layout.IMAGE.struct.pack(
            self.string(name), 0, 0, 0x1000, 0x2000, b"", 0, b"", flags, 0, 0, 0, 1, 0, ready, 0
        )
        size = layout.IMAGE.size
        self.block.view(layout.SEC_IMAGES, index * size, (index + 1) * size)[:] = record
        self.block.image_count = index + 1
        return index

    def slot(
        self,
        symbol: str,
        *,
        caller: int = 0,
        error_rule: int = 0,
        flags: int = 0,
        ready: int = 1,
        index: int | None = None,
    ) -> int:
        at = self.block.slot_count if index is None else index
        record = layout.SLOT.struct.pack(
            self.string(symbol), 0, caller, layout.NONE, 0x4000, 0, 0, layout.NONE,
            layout.SLOT_JUMP_SLOT, 0, 0, error_rule, ready, flags, self.block.instruments[0], 0, 0,
        )  # fmt: skip
        size = layout.SLOT.size
        self.block.view(layout.SEC_SLOTS, at * size, (at + 1) * size)[:] = record
        if index is None:
            self.block.slot_count = at + 1
        return at

    def thread(self, pid: int = 100, tid: int = 100) -> FakeThread:
        return FakeThread(self.block, pid, tid)


class FakeThread:
    """One thread of the target, with a clock of its own (`tsc`)."""

    all_compact = False

    def __init__(self, block: ControlBlock, pid: int, tid: int) -> None:
        self.block = block
        self.pid = pid
        self.tid = tid
        self.tsc = 2000
        self.chunk = -1
        self.at = 0
        self.flags = 0  # of its chunks
        self.compact = self.all_compact  # calls are OPEN and become WHOLE
        # what a WHOLE unit needs: chunk, place of the OPEN one and behind it, slot, sp
        self.last: tuple[int, int, int, int, int] | None = None
        self.lost_entries = 0
        self.lost_exits = 0

    def _take(self) -> bool:
        if self.chunk >= 0 and self.at + layout.UNIT <= layout.CHUNK_SIZE - layout.CHUNK_SLACK:
            return True
        self.give_back()
        states = self.block.chunk_states()
        for index in range(len(states)):
            if states[index] == layout.CHUNK_FREE:
                break
        else:
            if self.block.when_full != layout.FULL_OVERWRITE:
                return False
            index = self._oldest()
        self.block.set_chunk_state(index, layout.CHUNK_OWNED)
        self.block.ring_seq += 1
        memory = self.block.chunk(index)
        memory[:] = bytes(len(memory))
        header = layout.CHUNK.struct.pack(
            self.block.ring_seq, self.tid, self.pid, self.tsc, 0, self.flags, 0, 0, 0, 0
        )
        memory[: layout.CHUNK_HEADER] = header
        self.chunk, self.at = index, layout.CHUNK_HEADER
        return True

    def _oldest(self) -> int:
        def seq(index: int) -> int:
            return int.from_bytes(self.block.chunk(index)[:8], "little")

        states = self.block.chunk_states()
        return min((i for i in range(len(states)) if states[i] == layout.CHUNK_FULL), key=seq)

    def give_back(self, chunk: int | None = None) -> None:
        chunk, self.chunk = (self.chunk, -1) if chunk is None else (chunk, self.chunk)
        if chunk >= 0:
            memory = self.block.chunk(chunk)
            at = layout.CHUNK.offset("tsc_full")
            memory[at : at + 8] = self.tsc.to_bytes(8, "little")
            self.block.set_chunk_state(chunk, layout.CHUNK_FULL)

    def write(self, units: bytes) -> bool:
        """Write units that belong together; the first's commit word last."""
        if self.chunk >= 0 and self.at + len(units) > layout.CHUNK_SIZE:
            self.give_back()
        if not self._take():
            return False
        memory = self.block.chunk(self.chunk)
        memory[self.at + 4 : self.at + len(units)] = units[4:]
        memory[self.at : self.at + 4] = units[:4]
        self.at += len(units)
        return True

    def _count(self, exits: int, entries: int) -> None:
        at = layout.CONTROL.offset("dropped")
        mapping = self.block.mapping
        kept = struct.unpack_from("<Q", mapping, at)[0] + entries
        mapping[at : at + 8] = struct.pack("<Q", kept)
        self.block.dropped_exits += exits
        self.lost_entries += entries
        self.lost_exits += exits

    def enter(
        self,
        slot: int,
        sp: int,
        *,
        arg0: int = 0,
        tail: bool = False,
        only: bool = False,
        data: bytes = b"",
    ) -> bool:
        self.tsc += 10
        kind = layout.UNIT_ENTRY_ONLY if only else layout.UNIT_ENTRY
        returns = SITE if tail else CALLER + sp
        unit = layout.ENTRY.struct.pack(kind << 28 | slot, sp, self.tsc, returns, arg0)
        opens = (
            self.compact and not only and not self._slot(slot)["function_flags"] & layout.FN_TWICE
        )
        if opens:
            commit = layout.UNIT_OPEN << 28 | self._site(slot, returns) << layout.TICKS_LOW
            start = self.tsc - self.block.tsc_start
            unit = layout.WHOLE.struct.pack(commit, sp, start, 0, arg0)
        if self.write(unit + data):
            if opens:
                at = self.at - len(unit + data)
                self.last = self.chunk, at, self.at, slot, sp
            return True
        self._count(0, 1)
        return False

    def leave(
        self, slot: int, sp: int, *, result: int = 0, errno: int = 0, data: bytes = b""
    ) -> bool:
        self.tsc += 10
        fails = is_error(self._slot(slot)["error_rule"], result & (1 << 64) - 1)
        if not (fails or data) and self._is_last(slot, sp):
            return self._make_whole(result)
        unit = layout.EXIT.struct.pack(
            layout.UNIT_EXIT << 28 | slot, sp, self.tsc, result & (1 << 64) - 1, errno, 0
        )
        if self.write(unit + data):
            return True
        self._count(1, 0)
        return False

    def _slot(self, slot: int) -> dict[str, int]:
        record = self.block.view(
            layout.SEC_SLOTS, slot * layout.SLOT.size, (slot + 1) * layout.SLOT.size
        )
        values = layout.SLOT.struct.unpack(record)
        return dict(zip(layout.SLOT.fields, values, strict=True))

    def _site(self, slot: int, returns: int) -> int:
        """Return the number of a call site."""
        size = layout.CALL_SITE.size
        word = returns << layout.CALL_SITE_SLOT | slot + 1
        count = self.block.call_site_count
        known = self.block.view(layout.SEC_CALL_SITES, 0, count * size)
        for number, site in enumerate(layout.CALL_SITE.struct.iter_unpack(known)):
            if site == (word,):
                return number
        place = self.block.view(layout.SEC_CALL_SITES, count * size, (count + 1) * size)
        place[:] = layout.CALL_SITE.struct.pack(word)
        self.block.call_site_count = count + 1
        return count

    def _is_last(self, slot: int, sp: int) -> bool:
        """Return whether the entry of a call is the thread's last record, and OPEN."""
        return self.last is not None and self.last == (self.chunk, self.last[1], self.at, slot, sp)

    def _make_whole(self, result: int) -> bool:
        assert self.last is not None
        at = self.last[1]
        self.last = None
        memory = self.block.chunk(self.chunk)
        unit = memory[at : at + layout.UNIT]
        commit, sp, start, _, arg0 = layout.WHOLE.struct.unpack(unit)
        ticks = self.tsc - self.block.tsc_start - start
        commit += (1 << 28) + (ticks & (1 << layout.TICKS_LOW) - 1)
        start |= ticks >> layout.TICKS_LOW << layout.START_BITS
        unit[:] = layout.WHOLE.struct.pack(commit, sp, start, result & (1 << 64) - 1, arg0)
        return True

    def overhead(self, ticks: int) -> None:
        unit = layout.OVERHEAD.struct.pack(layout.UNIT_OVERHEAD << 28, 0, self.tsc, ticks, 0)
        self.tsc += ticks
        self.write(unit)


def data_units(kind: int, item: int, content: bytes, flags: int = 0) -> bytes:
    """Make the DATA units of one captured item."""
    units = b""
    rest = content
    first = True
    while first or rest:
        commit = layout.UNIT_DATA << 28 | (kind if first else 0) << 24 | item << 16 | len(rest)
        units += layout.DATA.struct.pack(commit, flags if first else 0, rest[:24])
        rest = rest[24:]
        first = False
    return units
