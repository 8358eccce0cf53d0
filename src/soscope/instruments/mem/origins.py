# SPDX-License-Identifier: Apache-2.0
"""Origins: the places in the code where a process made objects, as recorded by the agent."""

from __future__ import annotations

from soscope.binfmt.source import ByteSource
from soscope.live.python.lines import OriginCode
from soscope.wire import headers as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from soscope.instruments.mem.sidetable import Tally

NO_ROOM = 0  # number of an origin for which there was no room
_MOST_CODE = 256 << 20  # limit for bytes of cached copies, as a damaged address may lead anywhere
_FIRST = 2  # number of the first real origin; smaller ones mean no room, or that no frame ran

Place = tuple[str | None, int]  # file and line, (None, 0) if there is no file


class Origins:
    """The origins of a process, by number. The table is read once, and lines on request.

    `line` returns the line for a code object and the bytes from its first instruction to the one
    that ran, None if that instruction belongs to no line.
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
        """Return the sizes by which objects of origins were sampled, 0 if each one was counted."""
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
