# SPDX-License-Identifier: Apache-2.0
"""All keys and values of a dictionary of CPython, and keys as text, by reading memory."""

from __future__ import annotations

import numpy as np

from soscope.binfmt.source import ByteSource
from soscope.live.python.objects import Words
from soscope.live.python.offsets import PythonLayout
from soscope.live.python.types import PythonTypes
from soscope.live.python.values import read_entries, read_str

_MOST = 1 << 28  # entries
_LONGEST = 60  # characters of a key's text
_DIGIT = 30  # bits


def dict_items(memory: ByteSource, layout: PythonLayout, addr: int) -> tuple[Words, Words]:
    """Return the addresses of keys and values of the dictionary at `addr`, in order.

    Both are 0 for a deleted entry. Both arrays are empty if the dictionary cannot be read.
    """
    head = memory.read(addr + layout.dict_keys, 16)
    if len(head) < 16:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    keys_addr, values_addr = (int(word) for word in np.frombuffer(head, np.uint64))
    keys, values = keys_and_values(memory, layout, keys_addr)
    if values_addr:
        start = values_addr + layout.dict_values_head
        data = memory.read(start, 8 * len(keys))
        values = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
        keys = keys[: len(values)]
    is_there = (keys != 0) & (values != 0)
    return np.where(is_there, keys, 0), np.where(is_there, values, 0)


def keys_and_values(memory: ByteSource, layout: PythonLayout, keys: int) -> tuple[Words, Words]:
    """Return keys and values in the struct of keys at `keys`, as far as it has values."""
    data, size = read_entries(memory, layout, keys, _MOST)
    table = np.frombuffer(data, np.uint64).reshape(-1, size // 8)
    return table[:, -2], table[:, -1]


def key_text(memory: ByteSource, layout: PythonLayout, types: PythonTypes, addr: int) -> str:
    """Return a key as text: strings and numbers as in Python, the type of others (`<date>`)."""
    text = read_str(memory, layout, addr)
    if text is not None:
        said = repr(text)
        return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
    data = memory.read(addr, 32)
    if len(data) < 32:
        return "?"
    info = types.info(int.from_bytes(data[layout.object_type : layout.object_type + 8], "little"))
    if info is None:
        return "?"
    number = _number(layout, data) if info.qualified == "builtins.int" else None
    return f"<{info.name}>" if number is None else str(number)


def _number(layout: PythonLayout, data: bytes) -> int | None:
    """Return an int of at most two digits, None if it has more."""
    if layout.has_tagged_int:
        tag = int.from_bytes(data[16:24], "little")
        count, sign = tag >> 3, 1 - (tag & 3)
    else:
        size = int.from_bytes(data[16:24], "little", signed=True)
        count, sign = abs(size), (size > 0) - (size < 0)
    if count > 2:
        return None
    digits = [int.from_bytes(data[at : at + 4], "little") for at in (24, 28)][:count]
    return sign * sum(digit << _DIGIT * at for at, digit in enumerate(digits))
