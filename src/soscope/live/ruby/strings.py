# SPDX-License-Identifier: Apache-2.0
"""Strings of Ruby, read from memory."""

from __future__ import annotations

from struct import unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.ruby.layout import ARRAY, KIND, LONG, SHORT_ARRAY, STRING, RubyLayout

_FIRST = 128  # bytes of the first read
_HEAD = 24
_MOST = 1 << 16  # bytes; a longer one is not a name
_SIZE_SHIFT, _SIZE_MASK = 14, 31  # size of a short string, in its flags


def read_string(memory: ByteSource, layout: RubyLayout, value: int) -> str | None:
    """Return the text of the string `value`, None if it is no string or cannot be read."""
    if not value or value & 7:
        return None
    head = memory.read(value, _FIRST)
    if len(head) < _HEAD + 8 or head[0] & KIND != STRING:
        return None
    flags, _, size, pointer = unpack_from("<4Q", head)
    at = _HEAD
    if not flags & LONG and not layout.has_long_texts:
        at, size = _HEAD - 8, flags >> _SIZE_SHIFT & _SIZE_MASK
    if size > _MOST:
        return None
    if flags & LONG:
        data = memory.read(pointer, size)
    elif at + size <= len(head):
        data = head[at : at + size]
    else:
        data = memory.read(value + at, size)
    return data.decode("utf-8", "replace") if len(data) == size else None


def read_path(memory: ByteSource, layout: RubyLayout, value: int) -> str | None:
    """Return the path of code: a string, or the first string of an array."""
    head = memory.read(value, 40) if value and not value & 7 else b""
    if len(head) == 40 and head[0] & KIND == ARRAY:
        flags, _, first, _, pointer = unpack_from("<5Q", head)
        if not flags & SHORT_ARRAY:
            first = int.from_bytes(memory.read(pointer, 8), "little")
        return read_string(memory, layout, first)
    return read_string(memory, layout, value)
