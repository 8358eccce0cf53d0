# SPDX-License-Identifier: Apache-2.0
"""Pieces of chunks, and the records in them: an entry or exit with its DATA units."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from soscope.wire import layout

_UNIT = struct.Struct("<IIQQQ")


class Piece:
    """Units of one chunk, from number `first` on.

    The rest is the chunk's header: who wrote it, when it was handed out (`tsc`) and given
    back (`tsc_full`, 0 before).
    """

    __slots__ = ("first", "pid", "program", "seq", "tid", "tsc", "tsc_full", "units")

    def __init__(self, program: int, header: bytes, first: int, units: bytes) -> None:
        fields = layout.CHUNK.struct.unpack(header)
        self.seq, self.tid, self.pid, self.tsc, self.tsc_full = fields[:5]
        self.program = program
        self.first = first
        self.units = units


def pieces_of(program: int, data: bytes) -> Iterator[Piece]:
    """Cut whole chunks into pieces."""
    size, head = layout.CHUNK_SIZE, layout.CHUNK_HEADER
    for at in range(0, len(data) - size + 1, size):
        yield Piece(program, data[at : at + head], 0, data[at + head : at + size])


def records_of(units: bytes) -> Iterator[tuple[int, tuple[int, ...], bytes]]:
    """Yield (unit type, the unit as five words, its DATA units).

    The words are commit, sp, tsc and two more: return address and first argument, or result
    and errno, or the ticks of an overhead. Units that were never finished are left out, with
    the data behind them.
    """
    data_type = layout.UNIT_DATA
    at = 0
    kind = 0
    record: tuple[int, ...] = ()
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
        # types that are not known, and 0, hide the data behind them
        kind = this if this <= layout.UNIT_OVERHEAD else 0
        record = unit
        start = end = at
    if kind:
        yield kind, record, units[start:end]
