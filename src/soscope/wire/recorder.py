# SPDX-License-Identifier: Apache-2.0
"""Write to a control block as an agent would, for programs that can take no agent.

It writes the same images, slots, units and counters, so readers of the block need not know
whether an agent has written it. Only one thread of this process writes to the block. The target
does not.
"""

from __future__ import annotations

import os
import time

from soscope.wire import headers, layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


_UNITS = (layout.CHUNK_SIZE - layout.CHUNK_HEADER) // layout.UNIT
_PAYLOAD = layout.DATA.offset("payload")
_MOST_OF_ITEM = layout.UNIT - _PAYLOAD
_STATS_WORDS = layout.STATS.size // 8
_WORD = (1 << 64) - 1
_LOW = 0xFFFF_FFFF


# (kind, item, flags, bytes) of captured data of a call
Item = tuple[int, int, int, bytes]


class Recorder:
    """Writes to one control block. `ticks` returns the current time in the unit of the block.

    If the ring is full, `make_room` is called. It makes the reader take the data in the ring.
    """

    def __init__(
        self, block: ControlBlock, ticks: Callable[[], int], make_room: Callable[[], object]
    ) -> None:
        self._block = block
        self._words = block.words
        self._counts = block.section(layout.SEC_COUNTS)[0] // 8
        self.ticks = ticks
        self._make_room = make_room
        self._strings: dict[str, int] = {"": 0}
        self._chunk = -1
        self._unit = 0
        self._seq = 0
        self._owner = (0, 0)
        block.tsc_start = ticks()
        block.realtime_start = time.time_ns()
        block.monotonic_start = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        block.loader_hook = layout.LOADER_HOOKED
        block.state = layout.STATE_RUNNING

    def knows_errno(self) -> None:
        """Set the flag that the errno of failed calls is recorded."""
        self._block.agent_flags |= layout.AGENT_ERRNO

    def stood(self, ns: int) -> None:
        """Add `ns` to the time that threads were stopped."""
        self._block.stood_still += ns

    @property
    def is_stopped(self) -> bool:
        """Return whether soscope has asked to stop recording."""
        return self._block.command == layout.COMMAND_STOP

    # ---- names ----

    def image(
        self,
        name: str,
        path: str,
        *,
        bias: int,
        start: int,
        end: int,
        build_id: bytes,
        flags: int,
        pid: int,
    ) -> int:
        """Write the record of an image. Return its index, `layout.NONE` if there is no room."""
        index = self._block.image_count
        if index >= layout.MAX_IMAGES:
            self._block.images_dropped += 1
            return layout.NONE
        build_id = build_id[:32]
        fields = (self._string(name), self._string(path), bias & _WORD, start, end)
        counts = (0, 0, 0)
        at = index * layout.IMAGE.size
        self._put(
            layout.SEC_IMAGES,
            at,
            layout.IMAGE.struct.pack(
                *fields,
                build_id.ljust(32, b"\0"),
                len(build_id),
                b"\0\0\0",
                flags,
                *counts,
                pid,
                self.ticks(),
                1,
                0,
            ),
        )
        self._block.image_count = index + 1
        return index

    def image_slots(self, index: int, *, hooked: int, left: int, refused: int) -> None:
        """Write the numbers of hooked, left and refused slots of an image."""
        at = index * layout.IMAGE.size + layout.IMAGE.offset("slots_hooked")
        data = b"".join(each.to_bytes(4, "little") for each in (hooked, left, refused))
        self._put(layout.SEC_IMAGES, at, data)
        self._block.slots_left += left

    def move(self, kind: int, pid: int, index: int = layout.NONE, parent: int = 0) -> None:
        """Record that an image was loaded or unloaded, or that the process was forked."""
        row, now = self._block.move_count, self.ticks()
        if row < layout.MAX_MOVES:
            move = layout.MOVE.struct.pack(kind, index, pid, parent, now, now)
            self._put(layout.SEC_MOVES, row * layout.MOVE.size, move)
            self._block.move_count = row + 1

    def close_image(self, index: int) -> None:
        """Record that no process has an image loaded any more."""
        at = index * layout.IMAGE.size + layout.IMAGE.offset("flags")
        flags = int.from_bytes(self._block.view(layout.SEC_IMAGES, at, at + 4), "little")
        self._put(layout.SEC_IMAGES, at, (flags | layout.IMAGE_CLOSED).to_bytes(4, "little"))

    def slot(
        self,
        symbol: str,
        version: str,
        *,
        caller: int,
        callee: int,
        addr: int,
        original: int,
        prototype: int,
        kind: int,
        refusal: int,
        flags: int,
        error_rule: int,
        treatment: int,
        instrument: int,
    ) -> int:
        """Write the record of a slot. Return its index, `layout.NONE` if there is no room."""
        index = self._block.slot_count
        if index >= layout.MAX_SLOTS:
            self._block.slots_dropped += 1
            return layout.NONE
        record = layout.SLOT.struct.pack(
            self._string(symbol),
            self._string(version),
            caller,
            callee,
            addr,
            original,
            original,
            prototype,
            kind,
            refusal,
            flags,
            error_rule,
            1,
            treatment,
            instrument,
            0,
            self.ticks(),
        )
        self._put(layout.SEC_SLOTS, index * layout.SLOT.size, record)
        self._block.slot_count = index + 1
        return index

    def matched(self, first: int, rules: list[bool]) -> None:
        """Add a match to each rule whose item is true. `first` is the number of the first rule."""
        for number, holds in enumerate(rules, first):
            if holds:
                view = self._block.view(layout.SEC_MATCHES, 4 * number, 4 * number + 4)
                view[:] = (int.from_bytes(view, "little") + 1).to_bytes(4, "little")
                view.release()

    def _string(self, text: str) -> int:
        """Return the offset of a name in the section of strings, 0 if there is no room for it."""
        known = self._strings.get(text)
        if known is not None:
            return known
        data = os.fsencode(text) + b"\0"
        at = self._block.strings_used
        if at + len(data) > self._block.section(layout.SEC_STRINGS)[1]:
            return 0
        self._put(layout.SEC_STRINGS, at, data)
        self._block.strings_used = at + len(data)
        self._strings[text] = at
        return at

    def _put(self, section: int, at: int, data: bytes) -> None:
        with self._block.view(section, at, at + len(data)) as view:
            view[:] = data[: len(view)]

    # ---- calls ----

    def entry(
        self,
        pid: int,
        tid: int,
        slot: int,
        *,
        sp: int,
        ticks: int,
        return_addr: int,
        arg0: int,
        items: list[Item],
        is_alone: bool,
    ) -> bool:
        """Record the entry of a call. Return False if there was no room.

        If `is_alone` is set, the exit of the call will not be seen.
        """
        kind = layout.UNIT_ENTRY_ONLY if is_alone else layout.UNIT_ENTRY
        fields = (sp & _LOW, ticks, return_addr & _WORD, arg0 & _WORD)
        unit = layout.ENTRY.struct.pack(kind << 28 | slot, *fields)
        if self._write(pid, tid, unit, items):
            return True
        self._count_dropped()
        return False

    def exit(
        self,
        pid: int,
        tid: int,
        slot: int,
        *,
        sp: int,
        ticks: int,
        result: int,
        errno: int,
        items: list[Item],
    ) -> None:
        """Record the exit of a call."""
        unit = layout.EXIT.struct.pack(
            layout.UNIT_EXIT << 28 | slot, sp & _LOW, ticks, result & _WORD, errno, 0
        )
        if not self._write(pid, tid, unit, items):
            self._block.dropped_exits += 1

    def _count_dropped(self) -> None:
        at = layout.CONTROL.offset("dropped") // 8 + layout.DROP_FULL
        self._block.words[at] += 1

    def _write(self, pid: int, tid: int, unit: bytes, items: list[Item]) -> bool:
        data = b"".join(_units(*item) for item in items)
        count = 1 + len(data) // layout.UNIT
        if count > _UNITS:
            data, count = b"", 1
        if self._owner != (pid, tid) or self._unit + count > _UNITS:
            self._give_back()
            if not self._take(pid, tid):
                return False
        with self._block.chunk(self._chunk) as chunk:
            at = layout.CHUNK_HEADER + self._unit * layout.UNIT
            chunk[at + layout.UNIT : at + layout.UNIT + len(data)] = data
            chunk[at + 4 : at + layout.UNIT] = unit[4:]
            chunk[at : at + 4] = unit[:4]
        self._unit += count
        return True

    def _take(self, pid: int, tid: int) -> bool:
        """Take a free chunk for the units of a thread. Return whether there was one."""
        block = self._block
        for again in range(2):
            index = block.chunk_states().find(layout.CHUNK_FREE)
            if index >= 0:
                break
            if not again:
                self._make_room()
        else:
            return False
        with block.chunk(index) as chunk:
            chunk[:] = bytes(layout.CHUNK_SIZE)
            self._seq += 1
            block.ring_seq = self._seq
            chunk[: layout.CHUNK.size] = layout.CHUNK.struct.pack(
                self._seq, tid, pid, self.ticks(), 0, 0, 0, 0, 0, 0
            )
        block.set_chunk_state(index, layout.CHUNK_OWNED)
        self._chunk, self._unit, self._owner = index, 0, (pid, tid)
        return True

    def leave(self, tid: int) -> None:
        """Note that a thread has ended. The reader takes over its chunk.

        Nothing more is written to the chunk.
        """
        if self._owner[1] == tid:
            self._chunk, self._owner = -1, (0, 0)

    def leave_process(self, pid: int) -> None:
        """Note that all threads of a process have ended, in the same way as `leave`."""
        if self._owner[0] == pid:
            self._chunk, self._owner = -1, (0, 0)

    def _give_back(self) -> None:
        if self._chunk < 0:
            return
        with self._block.chunk(self._chunk) as chunk:
            at = layout.CHUNK.offset("tsc_full")
            chunk[at : at + 8] = self.ticks().to_bytes(8, "little")
        self._block.set_chunk_state(self._chunk, layout.CHUNK_FULL)
        self._chunk, self._owner = -1, (0, 0)

    # ---- counters ----

    def count(self, slot: int) -> None:
        """Count a call, for COUNT."""
        words, at = self._cell(slot, 1)
        words[at] += 1

    def called(self, slot: int) -> None:
        """Count a call, for STATS."""
        words, at = self._cell(slot, _STATS_WORDS)
        words[at] += 1

    def returned(self, slot: int, ticks: int, own: int, *, is_error: bool) -> None:
        """Add the exit of a call to STATS.

        It took `ticks`, and `own` of them without nested calls.
        """
        words, at = self._cell(slot, _STATS_WORDS)
        words[at + 1] += 1
        if is_error:
            words[at + 2] += 1
        words[at + 3] += ticks
        least = words[at + 4]  # the minimum plus one, 0 while there is none
        if not least or ticks < least - 1:
            words[at + 4] = ticks + 1
        words[at + 5] = max(words[at + 5], ticks)
        words[at + 6] += own

    def _cell(self, slot: int, width: int) -> tuple[memoryview, int]:
        """Return the words of the block, and the index of the first counter of a slot."""
        return self._words, self._counts + slot * width


def _units(kind: int, item: int, flags: int, content: bytes) -> bytes:
    """Return the DATA units of an item."""
    units = []
    left = len(content)
    at = 0
    while True:
        piece = content[at : at + _MOST_OF_ITEM]
        commit = layout.UNIT_DATA << 28 | kind << 24 | item << 16 | left
        units.append(layout.DATA.struct.pack(commit, flags, piece))
        left -= len(piece)
        at += len(piece)
        kind = layout.DATA_MORE
        if left <= 0:
            return b"".join(units)


# The initial content of the memory of an instrument that keeps stacks (soscope/blocks.h).

BITS = 20  # the number of buckets is 2 to this power
WORDS = 1 << 23  # of stacks and code objects: about 350,000 stacks of 23 frames


def stack_memory(
    layouts: bytes,
    *,
    bits: int = BITS,
    words: int = WORDS,
    mode: int = layout.BLOCKS_EXACT,
    scale: int = 0,
    arrays: int = 0,
    frames: int = 0,
    has_xsave: bool = False,
) -> tuple[bytes, int]:
    """Return the initial content, and the size of the memory, which is sparse.

    `layouts` are the structs sosc_python. `arrays` is the number of struct sosc_sizes at the end.
    The other parameters are fields of struct sosc_blocks.
    """
    first_layout = layout.BLOCKS.size
    first_bucket = first_layout + len(layouts) + -len(layouts) % 8
    first_word = first_bucket + (8 << bits)
    end = first_word + 8 * words
    head = layout.BLOCKS.struct.pack(
        bits,
        mode,
        words,
        1,
        0,
        first_bucket,
        first_word,
        scale,
        first_layout,
        len(layouts) // headers.PYTHON.size,
        end if arrays else 0,
        arrays,
        1,  # the first array is for threads that get none
        *(0,) * 5,  # fields of the agent
        frames,
        has_xsave,
        layout.LEAD_NOBODY,
        *(0,) * 7,
    )
    return head + layouts, end + arrays * layout.SIZES.size
