# SPDX-License-Identifier: Apache-2.0
"""Look up functions in the agent's table in the same way as its `select.c`."""

from __future__ import annotations

from soscope.model.record import Record
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# flags that apply to a name even if the function comes from an unexpected image
_HOW = layout.FN_ENTRY_ONLY | layout.FN_NEVER | layout.FN_TWICE
_HASH = 0xFFFF_FFFF

# (op, arg, length, length_arg, limit, flags, item); see `Program` for the words behind OP_WHEN
Op = tuple[int, int, int, int, int, int, int]


class KnownFunction(Record):
    """The entry of one function in the table. `at_entry` and `at_exit` are programs, as bytes."""

    flags: int
    error_rule: int
    prototype: int
    at_entry: bytes
    at_exit: bytes


class FunctionTable:
    """One table of functions. `matches(pattern, name)` runs the automaton of that number."""

    __slots__ = ("_bits", "_cells", "_data", "_default", "_families", "_globs", "_matches")

    def __init__(self, data: bytes, matches: Callable[[int, str], bool]) -> None:
        fields = layout.FUNCTION_TABLE.struct.unpack_from(data)
        self._data = data
        self._bits, self._cells, globs, count, self._default = fields[:5]
        self._families = fields[5:9]
        self._globs = [
            layout.FUNCTION_GLOB.struct.unpack_from(
                data, globs + number * layout.FUNCTION_GLOB.size
            )
            for number in range(count)
        ]
        self._matches = matches

    def find(self, symbol: str, version: str, callee: str | None) -> KnownFunction:
        """Return the entry of a function of the image `callee`, which is None if it is unknown.

        A function without an entry of its own gets the default entry.
        """
        if version:
            cells = self._cell(f"{symbol}@{version}")
            if cells:
                return self._function(cells[0], cells[0][5])
        treatment = 0
        cells = self._cell(symbol)
        for cell in cells:
            flags = cell[5]
            family = (flags & layout.FN_FAMILY) >> layout.FN_FAMILY_SHIFT
            if treatment and family:
                continue
            if not family or self._is_of(self._families[family], version, callee):
                return self._function(cell, treatment | flags)
            treatment = flags & _HOW | layout.FN_FOREIGN
        default = layout.FUNCTION.struct.unpack_from(self._data, self._default)
        flags = default[5] | treatment
        if not treatment:
            flags |= next((flag for at, flag in self._globs if self._matches(at, symbol)), 0)
        return self._function(default, flags)

    def _is_of(self, pattern: int, version: str, callee: str | None) -> bool:
        if callee is None or (version and self._matches(pattern, version)):
            return True
        return self._matches(pattern, callee)

    def _cell(self, name: str) -> list[tuple[int, ...]]:
        """Return all cells of a name, in the order of the table."""
        data = name.encode("utf-8", "surrogateescape")
        value = 5381
        for byte in data:
            value = (value * 33 + byte) & _HASH
        mask = (1 << self._bits) - 1
        at = value >> 4 & mask
        cells = []
        for _ in range(mask + 1):
            cell = layout.FUNCTION.struct.unpack_from(
                self._data, self._cells + at * layout.FUNCTION.size
            )
            if not cell[1]:
                break
            if cell[0] == value and self._data.startswith(data + b"\0", cell[1]):
                cells.append(cell)
            at = (at + 1) & mask
        return cells

    def _function(self, cell: tuple[int, ...], flags: int) -> KnownFunction:
        _, _, entry, leave, prototype, _, error_rule, _ = cell
        at_entry = self._data[entry:] if flags & layout.FN_PROGRAM else b""
        at_exit = self._data[leave:] if flags & layout.FN_EXIT_PROGRAM else b""
        return KnownFunction(flags, error_rule, prototype, _program(at_entry), _program(at_exit))


def _program(data: bytes) -> bytes:
    """Return the ops up to OP_END."""
    at = 0
    size = layout.OP.size
    while at + size <= len(data) and data[at] != layout.OP_END:
        if data[at] == layout.OP_WHEN:
            limit = layout.OP.struct.unpack_from(data, at)[4]
            at += size * limit  # the ranges take the place of ops
        at += size
    return data[:at]
