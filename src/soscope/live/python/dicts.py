# SPDX-License-Identifier: Apache-2.0
"""Look up keys in a dictionary of CPython, by reading memory.

The struct of the keys has a table of indices, followed by the entries in the order of their
creation. Objects/dictobject.c describes it; `_dictkeysobject` is in pycore_dict.h.
"""

from __future__ import annotations

from struct import iter_unpack, unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.python.offsets import PythonLayout
from soscope.live.python.values import read_str

_MOST = 1 << 16  # entries that are read, at most
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
    head = memory.read(keys, layout.dict_keys_head)
    if len(head) < layout.dict_keys_head:
        return []
    if layout.version >= (3, 11):
        has_hash = head[10] == _GENERAL
        count = unpack_from("<Q", head, 24)[0]
        indices = 1 << min(head[9], 40)
    else:
        has_hash = True
        slots, count = unpack_from("<Q", head, 8)[0], unpack_from("<Q", head, 32)[0]
        indices = slots * next(size for size in (1, 2, 4, 8) if slots < 1 << 8 * size or size == 8)
    size = 24 if has_hash else 16
    data = memory.read(keys + layout.dict_keys_head + indices, size * min(count, _MOST))
    data = data[: len(data) // size * size]
    return [row[-2:] for row in iter_unpack("<QQQ" if has_hash else "<QQ", data)]
