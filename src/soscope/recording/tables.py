# SPDX-License-Identifier: Apache-2.0
"""Carry what the agent names in its records, and stacks, from the control block to a sink."""

from __future__ import annotations

import zlib

from soscope.recording import format as form
from soscope.recording.sink import Sink
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


# Reads stacks, and codes among them, from the memory of BLOCKS or TRACE, for a sink.
#
# A thread reserves room for a stack and then fills it, its head last. A stack without a head is
# being filled: everything from there on is passed on again until nothing is missing. A record only
# refers to complete stacks.

_COUNT = (1 << layout.STACK_API) - 1
_KEEPERS = (layout.INSTRUMENT_BLOCKS, layout.INSTRUMENT_TRACE)
_IS_CODE = 1 << layout.STACK_CODE


class StackTable:
    """The stacks of one control block, none if no instrument keeps any."""

    __slots__ = ("_block", "_first", "_room", "_seen", "_used", "_whole")

    def __init__(self, block: ControlBlock) -> None:
        self._block = block
        self._whole = 1  # all words before this one belong to complete stacks
        self._seen = 1  # number of words that were passed on last
        keeper = next(filter(block.own_start, _KEEPERS), None)
        self._room = self._first = self._used = 0
        if keeper is not None:
            start, fields = block.own_start(keeper), layout.BLOCKS
            said = memoryview(block.given(keeper)[: fields.size & ~7]).cast("Q")
            self._room = said[fields.offset("words") // 8]
            self._first = (start + said[fields.offset("first_word") // 8]) // 8
            self._used = (start + fields.offset("words_used")) // 8

    @property
    def used(self) -> int:
        """Return how many words are in use. Numbers of stacks are lower."""
        return min(self._block.words[self._used], self._room) if self._room else 0

    def fresh(self) -> tuple[int, bytes] | None:
        """Return (number of the first word, words) if there are new ones, else None."""
        if not self._room:
            return None
        count = min(self._block.words[self._used], self._room)
        if count <= self._seen and self._whole >= self._seen:
            return None
        first, whole = self._whole, self._skip(self._whole, count)
        if count <= self._seen and whole == first:
            return None
        self._seen, self._whole = max(count, self._seen), whole
        return first, self._words(first, count)

    def rest(self) -> tuple[int, bytes] | None:
        """Return the words that have not been passed on as complete stacks, at the end."""
        if not self._room or self._whole >= self._seen:
            return None
        return self._whole, self._words(self._whole, self._seen)

    def _skip(self, first: int, count: int) -> int:
        """Return the number of the first word from `first` on that is in no complete stack."""
        words, start = self._block.words, self._first
        while first < count:
            head = words[start + first]
            if not head:
                break
            first += 1 + (head >> layout.STACK_SIZE if head & _IS_CODE else head & _COUNT)
        return min(first, count)

    def _words(self, first: int, end: int) -> bytes:
        return self._block.words[self._first + first : self._first + end].tobytes()


_LAYOUTS = {
    layout.SEC_IMAGES: (form.IMAGES, layout.IMAGE, "ready", layout.MAX_IMAGES),
    layout.SEC_SLOTS: (form.SLOTS, layout.SLOT, "ready", layout.MAX_SLOTS),
    layout.SEC_MOVES: (form.MOVES, layout.MOVE, "kind", layout.MAX_MOVES),
    layout.SEC_CALL_SITES: (form.CALL_SITES, layout.CALL_SITE, "word", layout.MAX_CALL_SITES),
}


def _staying(record: layout.Layout, names: str) -> tuple[int, slice, bytes]:
    """Return a record's size, the place of its ready flag, and a mask of constant bytes."""
    mask = bytearray(record.size)
    for name in names.split():
        at, size, _ = record.fields[name]
        mask[at : at + size] = b"\xff" * size
    at, size, _ = record.fields["ready"]
    return record.size, slice(at, at + size), bytes(mask)


# Fields of a record that do not change once it is ready. Slots of an image that comes again are
# rewritten, and their names may be at another place then.
_STAYS = {
    form.STRINGS: (1, slice(0, 1), b"\xff"),
    form.CALL_SITES: (layout.CALL_SITE.size, slice(0, 8), b"\xff" * layout.CALL_SITE.size),
    form.MOVES: (layout.MOVE.size, slice(0, 4), b"\xff" * layout.MOVE.size),
    form.IMAGES: _staying(
        layout.IMAGE,
        "name path load_bias start end build_id build_id_size reserved tsc ready ns",
    ),
    form.SLOTS: _staying(layout.SLOT, "caller addr ready instrument reserved"),
}
_PIECE = 256  # units that are compared at once
_LAST_KIND = layout.SLOT_ENTRY
_LAST_REFUSAL = layout.REFUSED_NO_SITE
_LAST_RULE = layout.ERROR_INT_MINUS_ONE
_SLOT_FLAGS = layout.SLOT_LAZY | layout.SLOT_ENTRY_ONLY | layout.SLOT_PARTIAL


class _Table:
    """One section of records.

    In unfinished records `ready`, `kind` or the lower half of `word` is 0.
    """

    __slots__ = ("_block", "_kind", "_most", "_ready", "_section", "done", "seen", "size")

    def __init__(self, block: ControlBlock, section: int) -> None:
        self._block = block
        self._section = section
        self._kind, record, ready, self._most = _LAYOUTS[section]
        self.size = record.size
        self._ready = record.offset(ready) // 4
        self.done = 0  # all records before this one were ready
        self.seen = (0, 0)  # number of records, and of those that were ready

    def fresh(self) -> tuple[int, int] | None:
        """Return the range of records to pass on, None if there are no new ones."""
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
        if self._kind == form.MOVES:
            return self._block.move_count
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
        "_kept",
        "_moves",
        "_passed",
        "_program",
        "_sink",
        "_slots",
        "_stacks",
        "_tail",
        "spoiled",
    )

    def __init__(self, block: ControlBlock, program: int, sink: Sink) -> None:
        self._block = block
        self._program = program
        self._sink = sink
        self._images = _Table(block, layout.SEC_IMAGES)
        self._slots = _Table(block, layout.SEC_SLOTS)
        self._call_sites = _Table(block, layout.SEC_CALL_SITES)
        self._moves = _Table(block, layout.SEC_MOVES)
        self._stacks = StackTable(block)
        self._tail = (0, 0, 0)  # start, end and CRC of the strings that were passed on last
        # kind -> end and CRC of what was passed on; the CRC is -1 if pieces overlap
        self._passed: dict[int, tuple[int, int]] = {}
        self._kept = {kind: bytearray() for kind in _STAYS}  # first version passed on
        self.spoiled = 0  # records and names that have changed wrongly

    def update(self) -> None:
        """Pass on everything new since the last time."""
        sites = self._call_sites.fresh()
        if sites is not None:
            self._pass_records(form.CALL_SITES, self._call_sites, *sites)
        moves = self._moves.fresh()
        if moves is not None:
            self._pass_records(form.MOVES, self._moves, *moves)
        stacks = self._stacks.fresh()
        if stacks is not None:
            self._sink.table(form.STACKS, self._program, *stacks)
        images = self._images.fresh()
        slots = self._slots.fresh()
        if images is None and slots is None:
            return
        # A record is ready when its strings are there, so they are read after it. The agent may
        # have reserved a string's room before the last time and filled it since.
        self._pass_strings()
        if images is not None:
            self._pass_records(form.IMAGES, self._images, *images)
        if slots is not None:
            self._pass_records(form.SLOTS, self._slots, *slots)

    def finish(self) -> None:
        """Pass on everything that has changed since it was passed on."""
        self.update()
        self._look_for_spoiled()
        stacks = self._stacks.rest()
        if stacks is not None:
            self._sink.table(form.STACKS, self._program, *stacks)
        self._pass_if_changed(form.STRINGS, self._block.view(layout.SEC_STRINGS, 0, self._used()))
        for kind, table in (
            (form.IMAGES, self._images),
            (form.SLOTS, self._slots),
            (form.CALL_SITES, self._call_sites),
            (form.MOVES, self._moves),
        ):
            self._pass_if_changed(kind, table.data(0, table.seen[0]))

    def _look_for_spoiled(self) -> None:
        """Count changes of data that must not change once it is there."""
        tables = {
            form.STRINGS: bytes(self._block.view(layout.SEC_STRINGS, 0, self._used())),
            form.IMAGES: self._images.data(0, self._images.seen[0]),
            form.SLOTS: self._slots.data(0, self._slots.seen[0]),
            form.CALL_SITES: self._call_sites.data(0, self._call_sites.seen[0]),
            form.MOVES: self._moves.data(0, self._moves.seen[0]),
        }
        kept = self._kept
        self.spoiled = sum(_changed(kept[kind], now, kind) for kind, now in tables.items())
        self.spoiled += _impossible(tables[form.SLOTS], tables[form.STRINGS], self._images.seen[0])

    def _used(self) -> int:
        return min(self._block.strings_used, self._block.section(layout.SEC_STRINGS)[1])

    def _pass(self, kind: int, first: int, data: bytes, start: int, end: int) -> None:
        """Pass on `data` from record `first`, which are the bytes [start, end) of a table."""
        if not data:
            return
        until, crc = self._passed.get(kind, (0, 0))
        crc = zlib.crc32(data, crc) if start == until and crc >= 0 else -1
        self._passed[kind] = max(end, until), crc
        self._keep(kind, start, data)
        self._sink.table(kind, self._program, first, data)

    def _keep(self, kind: int, start: int, data: bytes) -> None:
        """Keep the first version of ready records that are passed on."""
        kept = self._kept[kind]
        unit, ready, _ = _STAYS[kind]
        known = max(len(kept) - start, 0)
        for at in _differing(kept[start : start + len(data)], data[:known], unit):
            here = slice(start + at, start + at + unit)
            if not any(kept[here][ready]):
                kept[here] = data[at : at + unit]
        kept += data[known:]

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
        """Drop the block."""
        self._sink = Sink()


def _differing(before: bytes | bytearray, now: bytes, unit: int) -> Iterator[int]:
    """Yield the places of units that differ in `before` and `now`, as far as both reach.

    Tables are large and mostly unchanged, so equal pieces of many units are skipped.
    """
    size = min(len(before), len(now))
    for piece in range(0, size, unit * _PIECE):
        end = min(piece + unit * _PIECE, size)
        if before[piece:end] != now[piece:end]:
            for at in range(piece, end, unit):
                if before[at : at + unit] != now[at : at + unit]:
                    yield at


def _changed(before: bytearray, now: bytes, kind: int) -> int:
    """Return how many records, or bytes of strings, have changed after they were ready."""
    unit, ready, mask = _STAYS[kind]
    size = min(len(before), len(now))
    changed = (len(before) - size) // unit
    stays = int.from_bytes(mask)
    for at in _differing(before, now, unit):
        old = before[at : at + unit]
        is_same = not (int.from_bytes(old) ^ int.from_bytes(now[at : at + unit])) & stays
        changed += any(old[ready]) and not is_same
    return changed


def _impossible(slots: bytes, strings: bytes, images: int) -> int:
    """Return how many records of slots cannot have been written by an agent."""
    bad = 0
    for row in layout.SLOT.struct.iter_unpack(slots):
        symbol, version, caller, callee, *_, kind, refusal, flags, rule, ready, _, _, _, _ = row
        if ready:
            names = [at for at in (symbol, version) if at]
            is_named = all(at < len(strings) and not strings[at - 1] for at in names)
            is_placed = all(at < images or at == layout.NONE for at in (caller, callee))
            is_known = kind <= _LAST_KIND and refusal <= _LAST_REFUSAL and rule <= _LAST_RULE
            bad += not (is_named and is_placed and is_known and not flags & ~_SLOT_FLAGS)
    return bad
