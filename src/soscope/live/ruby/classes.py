# SPDX-License-Identifier: Apache-2.0
"""Names of classes and modules, read from memory.

The offset of the names in each version is known. Their key is found with two well-known classes:
a key only counts if it leads to the names of both.
"""

from __future__ import annotations

from struct import iter_unpack, unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.ruby.interpreter import Ruby
from soscope.live.ruby.layout import CLASS, KIND, MODULE, SINGLETON, NamesIn
from soscope.live.ruby.strings import read_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_KNOWN = ("String", "Array")
_EXTENSION, _TABLE = 24, 8  # offset in a class, offset in that
_HASH = 56  # bytes of a table; its entries and their number come last
_MOST_ENTRIES = 4096
_DELETED = (1 << 64) - 1  # in place of a deleted entry's hash
_VARIABLES = 32  # offset of a class's array of variables
_NONE = -1  # no key
_SIZE = 320  # bytes with the fields of a class


class ClassNames:
    """Names of the classes of one process."""

    def __init__(self, memory: ByteSource, ruby: Ruby) -> None:
        self._memory = memory
        self._layout = ruby.layout
        self._objects = ruby.objects
        self._known: dict[int, str] = {}
        self._is_ready = False
        self._name_key = self._attached_key = _NONE

    def method(self, owner: int) -> str | None:
        """Return the prefix for the name of a method of `owner`: "Class#", "Class.".

        Return None if the class has no name, or if its name cannot be read.
        """
        if owner not in self._known:
            if not self._is_ready and not self._prepare():
                return None
            is_singleton = self._kind(owner) & SINGLETON
            of = self._values(owner).get(self._attached_key, 0) if is_singleton else owner
            name = self._name(of)
            if name is None:
                return None  # it may get a name later
            self._known[owner] = name + ("." if is_singleton else "#")
        return self._known[owner]

    def _name(self, value: int) -> str | None:
        if self._kind(value) & KIND not in (CLASS, MODULE):
            return None
        return self._text(self._values(value).get(self._name_key, 0))

    def _prepare(self) -> bool:
        """Find the keys; return False if Ruby has no classes yet."""
        values = [self._word(at) for at in self._objects]
        if not all(values):
            return False
        self._is_ready = True
        names = [self._values(value) for value in values]
        for key in names[0].keys() & names[1].keys():
            if tuple(self._text(each[key]) for each in names) == _KNOWN:
                self._name_key = key
        singletons = [self._values(self._word(value + 8)) for value in values]
        for key in singletons[0].keys() & singletons[1].keys():
            if [each[key] for each in singletons] == values:
                self._attached_key = key
        return True

    def _values(self, value: int) -> dict[int, int]:
        """Return the variables of a class by their keys."""
        return dict(self._pairs(value))

    def _pairs(self, value: int) -> Iterator[tuple[int, int]]:
        names_in = self._layout.names_in
        if names_in is NamesIn.FIELD:
            data = self._memory.read(value, _SIZE)
            for at in range(16, len(data) & -8, 8):
                yield at, unpack_from("<Q", data, at)[0]
        elif names_in is NamesIn.SHAPE:  # the first variable, by the shape that identifies it
            flags = self._word(value)
            yield flags >> 32, self._word(self._word(value + _VARIABLES))
        else:
            table = self._word(self._word(value + _EXTENSION) + _TABLE)
            data = self._memory.read(table, _HASH)
            count, entries = unpack_from("<QQ", data, _HASH - 16) if len(data) == _HASH else (0, 0)
            data = self._memory.read(entries, 24 * min(count, _MOST_ENTRIES))
            for state, key, entry in iter_unpack("<QQQ", data[: len(data) // 24 * 24]):
                if state != _DELETED:
                    yield key, entry

    def _text(self, value: int) -> str | None:
        return read_string(self._memory, self._layout, value)

    def _kind(self, value: int) -> int:
        return self._word(value) if value and not value & 7 else 0

    def _word(self, addr: int) -> int:
        data = self._memory.read(addr, 8)
        return int.from_bytes(data, "little") if len(data) == 8 else 0
