# SPDX-License-Identifier: Apache-2.0
"""Ruby code (iseq): its file, its lines, and its name in frames."""

from __future__ import annotations

from struct import unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.ruby.layout import (
    CODE,
    CODE_BODY,
    IMEMO,
    IMEMO_MASK,
    IMEMO_SHIFT,
    KIND,
    LOCATION,
    RubyLayout,
)
from soscope.live.ruby.lines import RubyLines
from soscope.live.ruby.strings import read_path, read_string

_INFOS_SIZE = 32


class RubyCode:
    """The data of Ruby code; `places` are the memory ranges that identify it."""

    __slots__ = ("_base", "_first", "_label", "_lines", "_size", "file", "places")

    def __init__(self, memory: ByteSource, layout: RubyLayout, addr: int, body: int) -> None:
        """Read the code at `addr`. Raises ValueError if there is none."""
        size = layout.infos + _INFOS_SIZE
        data = memory.read(body, size)
        if len(data) < size:
            raise ValueError("the body of code cannot be read")
        self.places = [(addr + CODE_BODY, body.to_bytes(8, "little")), (body, data)]
        _, self._size, self._first = unpack_from("<IIQ", data)
        path, base, label = unpack_from("<3Q", data, LOCATION)
        named = read_string(memory, layout, label)
        if named is None:
            raise ValueError("code has no label")
        self.file = read_path(memory, layout, path)
        self._label = named
        self._base = read_string(memory, layout, base) or ""
        infos = data[layout.infos :]
        self._lines = RubyLines.read(memory, infos, layout.info, self._size)

    def line(self, pc: int) -> int | None:
        """Return the line of the running instruction; `pc` is behind that instruction."""
        place = pc - self._first >> 3
        if self._lines is None or not 0 <= place <= self._size:
            return None
        return self._lines.line(max(place - 1, 0))

    def name(self, owner: str | None) -> str:
        """Return its label, in which the method has its `owner` ("Class#") if that is known.

        From Ruby 3.4 on, Ruby itself writes labels in this way: "block in Class#method".
        """
        if not owner or not self._base or not self._label.endswith(self._base):
            return self._label
        return self._label[: -len(self._base)] + owner + self._base


def read_code(memory: ByteSource, layout: RubyLayout, addr: int) -> RubyCode | None:
    """Return the code at `addr`, None if there is none that can be read."""
    if not addr or addr & 7:
        return None
    head = memory.read(addr, CODE_BODY + 8)
    if len(head) < CODE_BODY + 8:
        return None
    flags, _, body = unpack_from("<3Q", head)
    if flags & KIND != IMEMO or flags >> IMEMO_SHIFT & IMEMO_MASK != CODE:
        return None
    try:
        return RubyCode(memory, layout, addr, body)
    except ValueError:
        return None  # it was freed, and its memory reused
