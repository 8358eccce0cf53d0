# SPDX-License-Identifier: Apache-2.0
"""Carries what the agent names in its records from the control block to a sink.

Those are images, slots, call sites, stacks and strings.

They are passed on as they lie in memory: a program with tens of thousands of slots costs a
copy, and names are looked up only for slots that somebody asks about.
"""

from __future__ import annotations

import zlib

from soscope.recording import format as form
from soscope.recording.sink import Sink
from soscope.recording.stacktable import StackTable
from soscope.wire import layout
from soscope.wire.block import ControlBlock

_LAYOUTS = {
    layout.SEC_IMAGES: (form.IMAGES, layout.IMAGE, "ready", layout.MAX_IMAGES),
    layout.SEC_SLOTS: (form.SLOTS, layout.SLOT, "ready", layout.MAX_SLOTS),
    layout.SEC_CALL_SITES: (form.CALL_SITES, layout.CALL_SITE, "word", layout.MAX_CALL_SITES),
}


class _Table:
    """One section of records: `ready`, or the lower half of `word`, is 0 in unfinished ones."""

    __slots__ = ("_block", "_kind", "_most", "_ready", "_section", "done", "seen", "size")

    def __init__(self, block: ControlBlock, section: int) -> None:
        self._block = block
        self._section = section
        self._kind, record, ready, self._most = _LAYOUTS[section]
        self.size = record.size
        self._ready = record.offset(ready) // 4
        self.done = 0  # all records in front of this one were ready
        self.seen = (0, 0)  # records, and those of them that were ready

    def fresh(self) -> tuple[int, int] | None:
        """Return the range of records to pass on, if there are any new ones."""
        count = min(self._count(), self._most)
        if count == self.seen[0] == self.done:
            return None
        size = self.size
        view = self._block.view(self._section, self.done * size, count * size)
        ready = view.cast("I")[self._ready :: size // 4].tolist() if len(view) else []
        whole = self.done + len(ready) - ready.count(0)
        if (count, whole) == self.seen:
            return None
        first = self.done
        self.seen = count, whole
        self.done = first + ready.index(0) if 0 in ready else count
        return first, count

    def _count(self) -> int:
        if self._kind == form.IMAGES:
            return self._block.image_count
        if self._kind == form.SLOTS:
            return self._block.slot_count
        return self._block.call_site_count

    def data(self, first: int, end: int) -> bytes:
        """Return the bytes of records."""
        size = self.size
        return bytes(self._block.view(self._section, first * size, end * size))


class TableReader:
    """Reads the tables of one control block."""

    __slots__ = (
        "_block",
        "_call_sites",
        "_images",
        "_passed",
        "_program",
        "_sink",
        "_slots",
        "_stacks",
        "_tail",
    )

    def __init__(self, block: ControlBlock, program: int, sink: Sink) -> None:
        self._block = block
        self._program = program
        self._sink = sink
        self._images = _Table(block, layout.SEC_IMAGES)
        self._slots = _Table(block, layout.SEC_SLOTS)
        self._call_sites = _Table(block, layout.SEC_CALL_SITES)
        self._stacks = StackTable(block)
        self._tail = (0, 0, 0)  # start, end, CRC of the strings passed on last
        # kind -> end and CRC of what was passed on; a CRC of -1: in pieces that overlap
        self._passed: dict[int, tuple[int, int]] = {}

    def update(self) -> None:
        """Pass on what is new since the last time."""
        sites = self._call_sites.fresh()
        if sites is not None:
            self._pass_records(form.CALL_SITES, self._call_sites, *sites)
        stacks = self._stacks.fresh()
        if stacks is not None:
            self._sink.table(form.STACKS, self._program, *stacks)
        images = self._images.fresh()
        slots = self._slots.fresh()
        if images is None and slots is None:
            return
        # A record is ready when its strings are there, so they are read after it. The agent
        # may have taken room for a string last time and filled it since.
        self._pass_strings()
        if images is not None:
            self._pass_records(form.IMAGES, self._images, *images)
        if slots is not None:
            self._pass_records(form.SLOTS, self._slots, *slots)

    def finish(self) -> None:
        """Pass on everything that has changed since it was passed on."""
        self.update()
        stacks = self._stacks.rest()
        if stacks is not None:
            self._sink.table(form.STACKS, self._program, *stacks)
        self._pass_if_changed(form.STRINGS, self._block.view(layout.SEC_STRINGS, 0, self._used()))
        for kind, table in (
            (form.IMAGES, self._images),
            (form.SLOTS, self._slots),
            (form.CALL_SITES, self._call_sites),
        ):
            self._pass_if_changed(kind, table.data(0, table.seen[0]))

    def _used(self) -> int:
        return min(self._block.strings_used, self._block.section(layout.SEC_STRINGS)[1])

    def _pass(self, kind: int, first: int, data: bytes, start: int, end: int) -> None:
        """Pass on `data` from record `first`, which are the bytes [start, end) of a table."""
        if not data:
            return
        until, crc = self._passed.get(kind, (0, 0))
        crc = zlib.crc32(data, crc) if start == until and crc >= 0 else -1
        self._passed[kind] = max(end, until), crc
        self._sink.table(kind, self._program, first, data)

    def _pass_records(self, kind: int, table: _Table, first: int, end: int) -> None:
        size = table.size
        self._pass(kind, first, table.data(first, end), first * size, end * size)

    def _pass_strings(self) -> None:
        used = self._used()
        start, end, crc = self._tail
        first = end
        if end > start and zlib.crc32(self._block.view(layout.SEC_STRINGS, start, end)) != crc:
            first = start
        if used > first:
            data = bytes(self._block.view(layout.SEC_STRINGS, first, used))
            self._tail = first, used, zlib.crc32(data)
            self._pass(form.STRINGS, first, data, first, used)

    def _pass_if_changed(self, kind: int, data: bytes | memoryview) -> None:
        if (len(data), zlib.crc32(data)) != self._passed.get(kind, (0, 0)):
            self._passed.pop(kind, None)
            self._pass(kind, 0, bytes(data), 0, len(data))

    def close(self) -> None:
        """Let go of the block."""
        self._sink = Sink()
