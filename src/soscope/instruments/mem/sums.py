# SPDX-License-Identifier: Apache-2.0
"""Sums of blocks by stack and thread, which do not grow with the number of events.

A recording has them as a JSON object with its length (u32) before it, then the rows: see `pack`.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

LIVE, LIVE_BYTES, LIVE_VARIANCE = 0, 1, 2  # blocks that are alive
MADE, MADE_BYTES, MADE_VARIANCE = 3, 4, 5  # all blocks that were made
TEMPORARY, TEMPORARY_BYTES, TEMPORARY_VARIANCE = 6, 7, 8  # temporary blocks
PEAK, PEAK_BYTES, PEAK_VARIANCE = 9, 10, 11  # blocks that were alive at the peak of bytes
OLD, OLD_BYTES, OLD_VARIANCE = 12, 13, 14  # blocks that are alive and old enough
COLUMNS = 15

Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_LENGTH = struct.Struct("<I")
_KEY = np.dtype("<i8")
_VALUE = np.dtype("<f8")


class SumRows:
    """Rows of COLUMNS sums, by keys of the form thread index << 32 | stack number.

    >>> import numpy as np
    >>> from soscope.instruments.mem.sums import MADE, SumRows
    >>> rows = SumRows()
    >>> at = rows.places(np.array([5, 7, 5]))
    >>> rows.add(MADE, at, np.array([1.0, 1.0, 1.0]))
    >>> rows.values[:, MADE].tolist()
    [2.0, 1.0]
    """

    __slots__ = ("_at", "_room", "keys")

    def __init__(self) -> None:
        self.keys: list[int] = []
        self._at: dict[int, int] = {}
        self._room: Numbers = np.zeros((64, COLUMNS))

    @property
    def values(self) -> Numbers:
        """Return the sums, a row for each key."""
        rows: Numbers = self._room[: len(self.keys)]
        return rows

    def places(self, keys: Integers) -> Integers:
        """Return the index of the row of each key. New keys get new rows."""
        unique, inverse = np.unique(keys, return_inverse=True)
        at = np.empty(len(unique), np.int64)
        for number, key in enumerate(unique.tolist()):
            place = self._at.get(key)
            if place is None:
                place = self._at[key] = len(self.keys)
                self.keys.append(key)
            at[number] = place
        while len(self._room) < len(self.keys):
            self._room = np.concatenate((self._room, np.zeros_like(self._room)))
        places: Integers = at[inverse]
        return places

    def add(self, column: int, places: Integers, amounts: Numbers) -> None:
        """Add amounts to one column of rows. A row may occur several times in `places`."""
        count = len(self.keys)
        self._room[:count, column] += np.bincount(places, amounts, count)

    def pack(self, head: dict[str, object]) -> bytes:
        """Return all rows as bytes, with `head` in front."""
        text = json.dumps({**head, "rows": len(self.keys)}, separators=(",", ":")).encode()
        keys = np.array(self.keys, _KEY).tobytes()
        return _LENGTH.pack(len(text)) + text + keys + self.values.astype(_VALUE).tobytes()


def unpack(data: bytes) -> tuple[dict[str, Any], Integers, Numbers]:
    """Return the head, the keys and the rows that `pack` has packed. Raises ValueError."""
    if len(data) < _LENGTH.size:
        raise ValueError(f"sums of {len(data)} bytes")
    (length,) = _LENGTH.unpack_from(data)
    head = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    count = head.get("rows") if isinstance(head, dict) else None
    start = _LENGTH.size + length
    if not isinstance(count, int) or len(data) != start + count * 8 * (1 + COLUMNS):
        raise ValueError(f"sums of {len(data)} bytes")
    keys = np.frombuffer(data, _KEY, count, start).astype(np.int64)
    values = np.frombuffer(data, _VALUE, count * COLUMNS, start + count * 8)
    return head, keys, values.reshape(count, COLUMNS).astype(np.float64)
