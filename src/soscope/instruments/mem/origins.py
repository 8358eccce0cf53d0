# SPDX-License-Identifier: Apache-2.0
"""Origins: where in its code a process made objects, as the agent has taken it down."""

from __future__ import annotations

from soscope.binfmt.source import ByteSource
from soscope.frames.code import OriginCode
from soscope.wire import objectlayout as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from soscope.instruments.mem.sidetable import Tally

NO_ROOM = 0  # the number of an origin that had no room
_MOST_CODE = 256 << 20  # bytes of copies that are kept; a damaged address may lead to any memory
_FIRST = 2  # of those that have a place: below, there was no room, or no frame ran

Place = tuple[str | None, int]  # file and line; no file: (None, 0)


class Origins:
    """The origins of a process, by number; read once, looked up when they are asked for.

    `line` makes a line of a code object and the bytes between its first instruction and that
    which ran; None: that instruction belongs to no line.
    """

    __slots__ = ("_codes", "_data", "_left", "_line", "_memory")

    def __init__(
        self, memory: ByteSource, tally: Tally, line: Callable[[OriginCode, int], int | None]
    ) -> None:
        self._memory = memory
        self._line = line
        self._codes: dict[int, OriginCode | None] = {}
        self._left = _MOST_CODE
        size = layout.ORIGIN.size
        self._data = memory.read(tally.origins, tally.origin_count * size)

    def place(self, number: int) -> Place:
        """Return the file and line of an origin."""
        size = layout.ORIGIN.size
        if number < _FIRST or (number + 1) * size > len(self._data):
            return None, 0
        fields = layout.ORIGIN.struct.unpack_from(self._data, number * size)
        copy, first_line, instr = fields[4:7]
        if not fields[0]:
            return None, 0  # no code ran
        code = self._code(copy)
        if code is None:
            return None, 0
        line = self._line(code, instr)
        return code.file, first_line if line is None else line

    def sizes(self, numbers: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return by which sizes the objects of origins were chosen; 0: each one is counted."""
        import numpy as np

        size = layout.ORIGIN.size
        words = np.frombuffer(self._data[: len(self._data) // size * size], "<u4")
        column = words.reshape(-1, size // 4)[:, layout.ORIGIN.offset("size") // 4]
        there = np.minimum(numbers.astype(np.int64), max(len(column) - 1, 0))
        sizes = column[there].astype(np.int64) if len(column) else np.zeros_like(there)
        return np.where(numbers < len(column), sizes, 0)

    def _code(self, addr: int) -> OriginCode | None:
        if addr not in self._codes:
            self._codes[addr] = None
            try:
                code = OriginCode(self._memory, addr)
            except ValueError:
                return None
            self._left -= len(code.lines) + len(code.file) + len(code.name)
            if self._left >= 0:
                self._codes[addr] = code
        return self._codes[addr]
