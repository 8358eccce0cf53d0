# SPDX-License-Identifier: Apache-2.0
"""The places in code where objects were made, as the agent has copied them."""

from __future__ import annotations

import ctypes
import struct

from soscope_mem import _tables
from soscope_mem._lines import LineTable

UNKNOWN = "?"  # no code of Python ran
_FIRST_ORIGIN = 2  # numbers below: no frame ran
_ENCODINGS = {0: "utf-8", 1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_ORIGIN, _CODE = (struct.Struct(text) for text in (_tables.ORIGIN_FORMAT, _tables.CODE_FORMAT))


class Origins:
    """The places in code where objects were made, by the agent's numbers."""

    __slots__ = ("_at", "_codes", "_count", "_places")

    def __init__(self) -> None:
        self._at = self._count = 0
        self._places: dict[int, tuple[str, int]] = {}
        self._codes: dict[int, tuple[str, LineTable]] = {}

    def hear(self, answer: dict[str, int]) -> Origins:
        """Take what the agent answers: it has more of them, and those that are known stay."""
        self._at = answer["origins"]
        self._count = answer["origin_count"]
        return self

    def rest(self) -> None:
        """Forget all but files and lines: on some versions dis made it, whose objects count."""
        self._codes = {}

    def place(self, number: int) -> tuple[str, int]:
        """Return file and line of an origin; `?` and 0 where no code of Python ran."""
        if not _FIRST_ORIGIN <= number < self._count:
            return UNKNOWN, 0
        if number not in self._places:
            data = ctypes.string_at(self._at + number * _ORIGIN.size, _ORIGIN.size)
            fields = dict(zip(_tables.ORIGIN_FIELDS, _ORIGIN.unpack(data)))
            file, table = self._code(fields["copy"])
            self._places[number] = file, table.line(fields["instr"])
        return self._places[number]

    def _code(self, at: int) -> tuple[str, LineTable]:
        codes = self._codes  # another thread may have them forgotten meanwhile
        if at not in codes:
            head = ctypes.string_at(at, _CODE.size)
            code = dict(zip(_tables.CODE_FIELDS, _CODE.unpack(head)))
            ends = code["file_size"], code["file_size"] + code["name_size"]
            rest = ctypes.string_at(at + _CODE.size, ends[1] + code["lines_size"])
            encoding = _ENCODINGS.get(code["file_width"], "latin-1")
            file = rest[: ends[0]].decode(encoding, "replace")
            codes[at] = file, LineTable(rest[ends[1] :], code["first_line"])
        return codes[at]
