# SPDX-License-Identifier: Apache-2.0
"""The lines of a code object. The interpreter reads its own line tables."""

from __future__ import annotations

import dis
import sys
from bisect import bisect_right


def _pattern() -> None:
    """Give a code object whose line table can be another one's."""


class LineTable:
    """The line of each instruction of one code object: `line` is asked for it."""

    __slots__ = ("_first_line", "_lines", "_starts")

    def __init__(self, table: bytes, first_line: int) -> None:
        """`table` is `co_linetable`, or `co_lnotab` of 3.9."""
        code = _pattern.__code__
        self._first_line = first_line
        if sys.version_info >= (3, 10):
            code = code.replace(co_linetable=table, co_firstlineno=first_line)
            pairs = [(start, line) for start, _, line in code.co_lines()]
        else:
            much = bytes(sum(table[::2]) + 2)  # `dis` looks no further than the code
            code = code.replace(co_lnotab=table, co_firstlineno=first_line, co_code=much)
            # the sum is an int of this file, which is not counted; what dis makes would be
            pairs = [(start, line + 0) for start, line in dis.findlinestarts(code)]
        self._starts = [start for start, _ in pairs]
        self._lines = [line for _, line in pairs]

    def line(self, instr: int) -> int:
        """Return the line of the instruction at byte `instr`.

        It is the first line of the code where the table names none.
        """
        at = bisect_right(self._starts, instr) - 1
        line = self._lines[at] if at >= 0 else None
        return self._first_line if line is None else line
