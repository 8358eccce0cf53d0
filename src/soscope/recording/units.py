# SPDX-License-Identifier: Apache-2.0
"""Pieces of chunks, and the records in them: an entry or exit with its DATA units."""

from __future__ import annotations

import struct
from _collections_abc import Iterator

from soscope.wire import layout

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from soscope.recording.names import RecordedProgram

_UNIT = struct.Struct("<IIQQQ")
_TICKS_LOW = (1 << layout.TICKS_LOW) - 1
_NUMBER = layout.MAX_CALL_SITES - 1
_START = (1 << layout.START_BITS) - 1
_WORD = (1 << 64) - 1


class Piece:
    """Units of one chunk, from number `first` on.

    The rest is the chunk's header: who wrote it, when it was handed out (`tsc`) and given
    back (`tsc_full`, 0 before), `flags`: CHUNK_ constants of `layout`.
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

    The words are commit, sp, tsc and two more: return address and first argument, or result
    and errno, or the ticks of an overhead. Units that were never finished are left out, with
    the data behind them. OPEN units are yielded as ENTRY, WHOLE ones as ENTRY and EXIT, by the
    call sites of `program`.
    """
    entry_type, exit_type = layout.UNIT_ENTRY, layout.UNIT_EXIT
    opened, whole = layout.UNIT_OPEN, layout.UNIT_WHOLE
    data_type = layout.UNIT_DATA
    at = 0
    kind = 0
    record: tuple[int, ...] = ()
    back: tuple[int, ...] = ()  # the exit of a WHOLE unit, behind its data
    start = end = 0  # of the data of the record before
    for unit in _UNIT.iter_unpack(units):
        at += layout.UNIT
        this = unit[0] >> 28
        if this == data_type:
            if kind:
                end = at
            continue
        if kind:
            yield kind, record, units[start:end]
            if back:
                yield exit_type, back, b""
                back = ()
        # types that are not known, and 0, hide the data behind them
        kind = this if this <= layout.UNIT_OVERHEAD else 0
        record = unit
        if this == whole:
            kind = entry_type
            record, back = both_of(unit, program)
        elif this == opened:
            kind = entry_type
            record, _ = both_of(unit, program)
        start = end = at
    if kind:
        yield kind, record, units[start:end]
        if back:
            yield exit_type, back, b""


def both_of(
    unit: tuple[int, ...], program: RecordedProgram
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the words of the ENTRY and of the EXIT that a WHOLE unit stands for."""
    commit, sp, times, result, arg0 = unit
    slot, return_addr = program.call_site(commit >> layout.TICKS_LOW & _NUMBER)
    start = program.tsc_start + (times & _START) & _WORD
    ticks = commit & _TICKS_LOW | times >> layout.START_BITS << layout.TICKS_LOW
    end = 0 if ticks == layout.NO_TICKS else start + ticks & _WORD
    return (
        (layout.UNIT_ENTRY << 28 | slot, sp, start, return_addr, arg0),
        (layout.UNIT_EXIT << 28 | slot, sp, end, result, 0),
    )


def exit_of(unit: bytes, program: RecordedProgram) -> bytes:
    """Return the EXIT unit for a WHOLE one that was handed over before, as OPEN."""
    _, back = both_of(_UNIT.unpack(unit), program)
    return _UNIT.pack(*back)
