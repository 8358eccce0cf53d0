# SPDX-License-Identifier: Apache-2.0
"""`--read FORMAT`: the data at an address, as numbers or text.

The formats are:

    str        a string that ends with a NUL            i8 u8 i16 u16 i32 u32 i64 u64
    ptr        an address                               f32 f64
    3i         the letters of Python's struct           hex:N   N bytes
    *FORMAT    follow the pointer there first; ** two of them
"""

from __future__ import annotations

import struct

from soscope.errors import UsageError
from soscope.live.images.space import Space

_LETTERS = {
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "f32": "f",
    "f64": "d",
}
_NATIVE = {64: {"l": "q", "L": "Q", "n": "q", "N": "Q", "P": "Q"}}
_NATIVE[32] = {"l": "i", "L": "I", "n": "i", "N": "I", "P": "I"}
_MAX_TEXT = 1 << 20
_MAX_BYTES = 1 << 20

Value = int | float | str | list[int | float | str]


class Unreadable(Exception):  # noqa: N818  it is an answer, not a mistake
    """There is no memory at the value's address, which the text gives."""


class ValueFormat:
    """A parsed format."""

    __slots__ = ("_kind", "_layout", "_pointers", "_size", "text")

    def __init__(self, text: str) -> None:
        """Parse a format. Raises UsageError."""
        self.text = text
        word = text.lstrip("*")
        self._pointers = len(text) - len(word)
        self._kind = word
        self._layout = ""
        self._size = 0
        if word.startswith("hex:") and word[4:].isdecimal():
            self._kind = "hex"
            self._size = int(word[4:])
            if not 0 < self._size <= _MAX_BYTES:
                raise UsageError(f"'{text}': between 1 and {_MAX_BYTES} bytes")
        elif word in _LETTERS:
            self._layout = _LETTERS[word]
        elif word not in ("str", "ptr"):
            self._kind = "struct"
            self._layout = word.lstrip("<>=!@")
            try:
                size = struct.calcsize(_expanded(self._layout, 64))
            except struct.error:
                size = 0
            if not 0 < size <= _MAX_BYTES:
                raise UsageError(
                    f"'{text}' is no format",
                    hint="str, i32, u64, ptr, f64, 3i, hex:16; * first to follow a pointer",
                )

    def read(self, space: Space, addr: int) -> Value:
        """Return the value at `addr`. Raises Unreadable."""
        for _ in range(self._pointers):
            word = space.word(addr)
            if word is None:
                raise Unreadable(f"no memory at {addr:#x}")
            addr = word
        if self._kind == "str":
            return _string(space, addr)
        if self._kind == "hex":
            return self._take(space, addr, self._size).hex()
        if self._kind == "ptr":
            return hex(int.from_bytes(self._take(space, addr, space.bits // 8), space.endian))
        layout = _expanded(self._layout, space.bits, space.order)
        values = struct.unpack(layout, self._take(space, addr, struct.calcsize(layout)))
        shown = [value.hex() if isinstance(value, bytes) else value for value in values]
        return shown[0] if len(shown) == 1 else shown

    @staticmethod
    def _take(space: Space, addr: int, size: int) -> bytes:
        data = space.read(addr, size)
        if len(data) < size:
            raise Unreadable(f"no memory at {addr + len(data):#x}")
        return data


def _expanded(letters: str, bits: int, order: str = "<") -> str:
    """Return a struct format with the target's sizes, alignment and byte order."""
    out = order
    at = 0
    count = ""
    for letter in letters:
        if letter.isdecimal():
            count += letter
            continue
        real = _NATIVE[bits].get(letter, letter)
        size = struct.calcsize("<" + real)
        align = min(size, 4) if bits == 32 else size
        if letter not in "sp" and size > 1 and at % align:
            out += f"{-at % align}x"
            at += -at % align
        out += count + real
        at += struct.calcsize("<" + count + real)
        count = ""
    if count:
        raise struct.error("a number without a letter")
    return out


def _string(space: Space, addr: int) -> str:
    text = b""
    while len(text) < _MAX_TEXT:
        size = 256 - (addr + len(text)) % 256  # never across the end of a page
        piece = space.read(addr + len(text), size)
        end = piece.find(b"\0")
        if end >= 0:
            return (text + piece[:end]).decode("utf-8", "backslashreplace")
        if len(piece) < size:
            raise Unreadable(f"no memory at {addr + len(text) + len(piece):#x}")
        text += piece
    raise Unreadable(f"no NUL in {_MAX_TEXT} bytes from {addr:#x} on")
