# SPDX-License-Identifier: Apache-2.0
"""The agent's copy of a code object of Python or Ruby."""

from __future__ import annotations

from soscope.binfmt.source import ByteSource
from soscope.wire import headers as layout

_ENCODINGS = {0: "utf-8", 1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


class OriginCode:
    """Data of a code object. `lines` is its line table, in the interpreter's own format."""

    __slots__ = ("file", "first_line", "lines", "name")

    def __init__(self, memory: ByteSource, addr: int) -> None:
        """Read the copy at `addr`.

        Raises ValueError if it cannot be read, or is larger than any copy that the agent makes.
        """
        head = layout.CODE
        data = memory.read(addr, head.size)
        if len(data) < head.size:
            raise ValueError("a copy of a code object cannot be read")
        first, file_size, file_width, name_size, name_width, lines_size = head.struct.unpack(data)
        if max(file_size, name_size) > layout.CODE_TEXT or lines_size > layout.CODE_LINES:
            raise ValueError("a copy of a code object is damaged")
        rest = memory.read(addr + head.size, file_size + name_size + lines_size)
        self.first_line: int = first
        self.file = _text(rest[:file_size], file_width)
        self.name = _text(rest[file_size : file_size + name_size], name_width)
        self.lines = rest[file_size + name_size :]


def _text(data: bytes, width: int) -> str:
    return data.decode(_ENCODINGS.get(width, "latin-1"), "replace")
