# SPDX-License-Identifier: Apache-2.0
"""Pieces of chunks, and the records in them: an entry or exit with its DATA units."""

from __future__ import annotations

import struct

from soscope.wire import layout

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.recording.names import RecordedProgram

UNIT = struct.Struct("<IIQQQ")
KIND = 3  # index of the byte of a unit whose upper half is its type
TICKS_LOW = (1 << layout.TICKS_LOW) - 1
NUMBER = layout.MAX_CALL_SITES - 1
START = (1 << layout.START_BITS) - 1
_WORD = (1 << 64) - 1
_ENTRIES = (layout.UNIT_ENTRY, layout.UNIT_ENTRY_ONLY, layout.UNIT_OPEN, layout.UNIT_WHOLE)
_NO_ENTRIES = bytes(kind for kind in range(256) if kind >> 4 not in _ENTRIES)


class Piece:
    """Units of one chunk, from number `first` on.

    The other fields are from the chunk's header: who wrote it, when it was given out (`tsc`) and
    given back (`tsc_full`, 0 before), and `flags`, CHUNK_ constants of `layout`.
    """

    __slots__ = ("first", "flags", "pid", "program", "seq", "tid", "tsc", "tsc_full", "units")

    def __init__(self, program: int, header: bytes, first: int, units: bytes) -> None:
        fields = layout.CHUNK.struct.unpack(header)
        self.seq, self.tid, self.pid, self.tsc, self.tsc_full, self.flags = fields[:6]
        self.program = program
        self.first = first
        self.units = units


def pieces_of(program: int, data: bytes | memoryview) -> Iterator[Piece]:
    """Cut whole chunks into pieces."""
    size, head = layout.CHUNK_SIZE, layout.CHUNK_HEADER
    for at in range(0, len(data) - size + 1, size):
        chunk = bytes(data[at : at + size])
        yield Piece(program, chunk[:head], 0, chunk[head:])


def records_of(
    units: bytes, program: RecordedProgram
) -> Iterator[tuple[int, tuple[int, ...], bytes]]:
    """Yield (unit type, the unit as five words, its DATA units).

    The words are commit, sp, tsc and two more: return address and first argument, or result and
    errno, or the ticks of an overhead. Unfinished units are left out, with the data behind them.
    OPEN units are yielded as ENTRY, and WHOLE ones as ENTRY and EXIT, by the call sites of
    `program`.
    """
    at = 0
    while at < len(units):
        kind, record, back, end = record_at(units, at, program)
        if kind:
            yield kind, record, units[at + layout.UNIT : end]
            if back:
                yield layout.UNIT_EXIT, back, b""
        at = end


def record_at(
    units: bytes, at: int, program: RecordedProgram
) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    """Return (type, words, words of its exit, end) of the record at `at`.

    The exit is set for a WHOLE unit, else (). The type is 0 for unknown types, for an unfinished
    unit, and for data before all records, which belongs to no record.
    """
    unit = UNIT.unpack_from(units, at)
    end = at + layout.UNIT
    while end < len(units) and units[end + KIND] >> 4 == layout.UNIT_DATA:
        end += layout.UNIT
    kind = unit[0] >> 28
    if kind == layout.UNIT_WHOLE:
        record, back = both_of(unit, program)
        return layout.UNIT_ENTRY, record, back, end
    if kind == layout.UNIT_OPEN:
        return layout.UNIT_ENTRY, both_of(unit, program)[0], (), end
    known = kind <= layout.UNIT_OVERHEAD and kind != layout.UNIT_DATA
    return kind if known else 0, unit, (), end


def entries_in(units: bytes) -> int:
    """Return how many calls begin in `units`."""
    return len(units[KIND :: layout.UNIT].translate(None, _NO_ENTRIES))


def latest_of(units: bytes, program: RecordedProgram) -> int:
    """Return the latest time (tsc) of all entries and exits in `units`, 0 if there are none."""
    latest, origin = 0, program.tsc_start
    whole, opened, last = layout.UNIT_WHOLE, layout.UNIT_OPEN, layout.UNIT_EXIT
    for commit, _, time, _, _ in UNIT.iter_unpack(units):
        kind = commit >> 28
        tsc = time
        if kind == whole:
            tsc = origin + (time & START) & _WORD
            ticks = commit & TICKS_LOW | time >> layout.START_BITS << layout.TICKS_LOW
            if ticks != layout.NO_TICKS:
                tsc = max(tsc, tsc + ticks & _WORD)
        elif kind == opened:
            tsc = origin + (time & START) & _WORD
        elif not 0 < kind <= last:
            continue
        latest = max(latest, tsc)
    return latest


def both_of(
    unit: tuple[int, ...], program: RecordedProgram
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the words of the ENTRY and of the EXIT that a WHOLE unit stands for."""
    commit, sp, times, result, arg0 = unit
    slot, return_addr = program.call_site(commit >> layout.TICKS_LOW & NUMBER)
    start = program.tsc_start + (times & START) & _WORD
    ticks = commit & TICKS_LOW | times >> layout.START_BITS << layout.TICKS_LOW
    end = 0 if ticks == layout.NO_TICKS else start + ticks & _WORD
    return (
        (layout.UNIT_ENTRY << 28 | slot, sp, start, return_addr, arg0),
        (layout.UNIT_EXIT << 28 | slot, sp, end, result, 0),
    )


def exit_of(unit: bytes, program: RecordedProgram) -> bytes:
    """Return the EXIT unit for a WHOLE one that was handed over before as OPEN."""
    _, back = both_of(UNIT.unpack(unit), program)
    return UNIT.pack(*back)
