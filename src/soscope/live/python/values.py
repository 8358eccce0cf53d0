# SPDX-License-Identifier: Apache-2.0
"""Values of CPython, read from memory: `str`, `bytes`, and look-ups in a dictionary."""

from __future__ import annotations

from struct import iter_unpack, unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.python.offsets import PythonLayout

# `str` and `bytes` objects of CPython, read from memory.
#
# A compact `str` has its characters behind its head, with 1, 2 or 4 bytes each. An instance of a
# subclass has a pointer to them. PEP 393; Include/cpython/unicodeobject.h.

BYTES_SUBCLASS = 1 << 27  # of tp_flags
STR_SUBCLASS = 1 << 28
KIND = 7 << 2  # bits of the state: 1, 2 or 4
_COMPACT, _ASCII = 1 << 5, 1 << 6
# Some builds of 3.14 use 16 bits, not 2, to tell whether a text is interned. As the kind is never
# 0, each text shows which form its state has.
WIDE_SHIFT = 14
_MOST = 1 << 24  # bytes; a longer one is not a name
_FIRST = 256  # bytes of the first read
_CODING = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


def read_str(memory: ByteSource, layout: PythonLayout, addr: int) -> str | None:
    """Return the `str` at `addr`, None if there is none or it cannot be read.

    Lone surrogates are kept.
    """
    head = memory.read(addr, _FIRST)
    if not _is_a(memory, layout, head, STR_SUBCLASS):
        return None
    length = _word(head, layout.str_length)
    state = int.from_bytes(head[layout.str_state : layout.str_state + 4], "little")
    if layout.has_wide_state and not state & KIND:
        state >>= WIDE_SHIFT
    kind = state >> 2 & 7
    if kind not in _CODING or length * kind > _MOST:
        return None
    if not state & _COMPACT:
        at = layout.str_compact_data
        data = memory.read(_word(head, at), length * kind)
    else:
        at = layout.str_ascii_data if state & _ASCII else layout.str_compact_data
        data = _behind(memory, addr, head, at, length * kind)
    if len(data) < length * kind:
        return None
    try:
        return data.decode(_CODING[kind], "surrogatepass" if kind > 1 else "strict")
    except UnicodeDecodeError:
        return None


def read_bytes(memory: ByteSource, layout: PythonLayout, addr: int) -> bytes | None:
    """Return the `bytes` at `addr`, None if there is none or it cannot be read."""
    head = memory.read(addr, _FIRST)
    if not _is_a(memory, layout, head, BYTES_SUBCLASS):
        return None
    size = _word(head, layout.var_size)
    if size > _MOST:
        return None
    data = _behind(memory, addr, head, layout.bytes_data, size)
    return data if len(data) == size else None


def c_string(memory: ByteSource, addr: int, most: int = 1024) -> bytes | None:
    """Return the bytes before the NUL at `addr`, None if there is no NUL within `most` bytes."""
    data = memory.read(addr, 64)
    end = data.find(0)
    if end < 0:
        data = memory.read(addr, most)
        end = data.find(0)
    return None if end < 0 else data[:end]


def _is_a(memory: ByteSource, layout: PythonLayout, head: bytes, flag: int) -> bool:
    """Return whether the object's type has a flag."""
    if len(head) < 40:
        return False
    flags = memory.read(_word(head, layout.object_type) + layout.type_flags, 8)
    return len(flags) == 8 and bool(_word(flags, 0) & flag)


def _behind(memory: ByteSource, addr: int, head: bytes, at: int, size: int) -> bytes:
    """Return `size` bytes of the object at `addr` from byte `at` on."""
    if at + size <= len(head):
        return head[at : at + size]
    return memory.read(addr + at, size)


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


# Look up keys in a dictionary of CPython, by reading memory.
#
# The struct of the keys has a table of indices, followed by the entries in the order of their
# creation. Objects/dictobject.c describes it; `_dictkeysobject` is in pycore_dict.h.

_MOST_DICTS = 1 << 16  # entries that are read, at most
_GENERAL = 0  # the kind of keys whose entries have a hash


def value_of(memory: ByteSource, layout: PythonLayout, addr: int, *names: str) -> dict[str, int]:
    """Return the addresses of the values of some `str` keys in the dictionary at `addr`.

    Names that are missing, or that cannot be read, are left out. A dictionary of an instance has
    no values here if it keeps them in another place.
    """
    head = memory.read(addr, layout.dict_values + 8)
    if len(head) < layout.dict_values + 8:
        return {}
    keys, values = unpack_from("<QQ", head, layout.dict_keys)
    wanted = set(names)
    answers: dict[str, int] = {}
    if values:
        return answers
    for key, value in _entries(memory, layout, keys):
        if key and value:
            name = read_str(memory, layout, key)
            if name in wanted:
                answers[str(name)] = value
                if len(answers) == len(wanted):
                    break
    return answers


def _entries(memory: ByteSource, layout: PythonLayout, keys: int) -> list[tuple[int, int]]:
    """Return (key, value) of each entry that was ever made."""
    data, size = read_entries(memory, layout, keys, _MOST_DICTS)
    return [row[-2:] for row in iter_unpack(f"<{size // 8}Q", data)]


def read_entries(
    memory: ByteSource, layout: PythonLayout, keys: int, most: int
) -> tuple[bytes, int]:
    """Return at most `most` entries of the struct of keys at `keys`, and the size of one in bytes.

    The last two words of an entry are its key and its value. There are no bytes if the struct
    cannot be read.
    """
    head = memory.read(keys, layout.dict_keys_head)
    if len(head) < layout.dict_keys_head:
        return b"", 24
    size = 24
    if layout.has_log2_keys:
        size = 24 if head[10] == _GENERAL else 16
        count = unpack_from("<Q", head, 24)[0]
        indices = 1 << min(head[9], 40)
    else:
        slots, count = unpack_from("<Q", head, 8)[0], unpack_from("<Q", head, 32)[0]
        indices = slots * next(wide for wide in (1, 2, 4, 8) if slots < 1 << 8 * wide or wide == 8)
    data = memory.read(keys + layout.dict_keys_head + indices, size * min(count, most))
    return data[: len(data) // size * size], size
