# SPDX-License-Identifier: Apache-2.0
"""ELF files of any shape, written piece by piece, and what reading one costs.

Costs are counted, not timed: lines of Python that ran, and bytes that were held at once.
"""

from __future__ import annotations

import gc
import struct
import sys
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.model import arch as machines

_SEGMENT = "IIQQQQQQ", "IIIIIIII"
_SECTION = "IIQQQQIIQQ", "IIIIIIIIII"


class Segment(NamedTuple):
    """A program header."""

    type: int
    flags: int
    offset: int
    vaddr: int
    size: int


class Header(NamedTuple):
    """A section header."""

    name: str
    type: int
    flags: int
    vaddr: int
    offset: int
    size: int


class File:
    """An image whose parts lie at the link-time addresses that are their offsets.

    `parts` are bytes by name, and `tags` the dynamic section; a tag's value may be a part's name.
    """

    def __init__(
        self,
        parts: Mapping[str, bytes],
        tags: Sequence[tuple[int, int | str]],
        *,
        machine: int = machines.EM_X86_64,
        bits: int = 64,
        order: str = "<",
        flags: int = 0,
        room: int = 0,
    ) -> None:
        """`room` is that for program headers behind the three that are there."""
        self.bits, self.order, self.machine, self.flags = bits, order, machine, flags
        self._sizes = (64, 56, 64) if bits == 64 else (52, 32, 40)
        self._count = 2
        self._first = self._sizes[0]
        self._data = bytearray(self._first + self._sizes[1] * (room + 2))
        self.at: dict[str, int] = {}
        for name, data in parts.items():
            self._put(name, data)
        rows = [(tag, self.at[one] if isinstance(one, str) else one) for tag, one in tags]
        words = [word for row in [*rows, (c.DT_NULL, 0)] for word in row]
        code = "Q" if bits == 64 else "I"
        self._put("dynamic", struct.pack(f"{order}{len(words)}{code}", *words))
        self._headers: list[Header] = []
        end = len(self._data)
        self.segments = [
            Segment(c.PT_LOAD, 7, 0, 0, end),
            Segment(
                c.PT_DYNAMIC, 6, self.at["dynamic"], self.at["dynamic"], len(words) * bits // 8
            ),
        ]

    def _put(self, name: str, data: bytes) -> None:
        self._data += bytes(-len(self._data) % 16)
        self.at[name] = len(self._data)
        self._data += data

    def patch(self, name: str, data: bytes) -> None:
        """Write over a part from its beginning."""
        self._data[self.at[name] : self.at[name] + len(data)] = data

    def sections(self, headers: Sequence[Header]) -> None:
        """Give it section headers."""
        self._headers = list(headers)

    def build(self) -> bytes:
        """Return the bytes."""
        is_64 = self.bits == 64
        out = bytearray(self._data)
        at, count = 0, 0
        if self._headers:
            names = bytearray(b"\0")
            places: dict[str, int] = {}
            for name in [*(one.name for one in self._headers), ".shstrtab"]:
                if name not in places:
                    places[name] = len(names)
                    names += name.encode() + b"\0"
            strings = len(out)
            out += names + bytes(-len(names) % 8)
            at, count = len(out), len(self._headers) + 2
            rows = [(0,) * 10]
            rows += [(places[o.name], *o[1:6], 0, 0, 1, 0) for o in self._headers]
            rows.append((places[".shstrtab"], c.SHT_STRTAB, 0, 0, strings, len(names), 0, 0, 1, 0))
            out += b"".join(struct.pack(self.order + _SECTION[not is_64], *row) for row in rows)
        table = b""
        for one in self.segments:
            kind, flags, offset, vaddr, size = one
            numbers = (offset, vaddr, vaddr, size, size)
            row = (kind, flags, *numbers, 8) if is_64 else (kind, *numbers, flags, 8)
            table += struct.pack(self.order + _SEGMENT[not is_64], *row)
        out[self._first : self._first + len(table)] = table
        ident = b"\x7fELF" + bytes((2 if is_64 else 1, 1 if self.order == "<" else 2, 1, 0))
        fields = (c.ET_DYN, self.machine, 1, 0, self._first, at, self.flags, *self._sizes[:2])
        more = (len(self.segments), self._sizes[2], count, count - 1 if count else 0)
        code = "HHIQQQIHHHHHH" if is_64 else "HHIIIIIHHHHHH"
        out[: self._first] = ident.ljust(16, b"\0") + struct.pack(self.order + code, *fields, *more)
        return bytes(out)

    def map(self) -> ElfMap:
        """Return the map of it."""
        return ElfMap(ElfImage.from_source(BufferSource(self.build())))


def symbol(name: int = 0, *, section: int = 0, value: int = 0) -> bytes:
    """Return an entry of DT_SYMTAB: a global function, 64 bit, little end first."""
    return struct.pack("<IBBHQQ", name, 0x12, 0, section, value, 0)


def rela(vaddr: int, kind: int, index: int, addend: int = 0) -> bytes:
    """Return a relocation, 64 bit, little end first."""
    return struct.pack("<QQq", vaddr, index << 32 | kind, addend)


def lines(run: Callable[[], object]) -> int:
    """Return how many lines of Python `run` executes."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def peak(run: Callable[[], object]) -> int:
    """Return how many bytes more than before are held at once while `run` runs."""
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
