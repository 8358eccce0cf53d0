# SPDX-License-Identifier: Apache-2.0
"""The dynamic section: pairs of tag and value, up to DT_NULL."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.encoding import Encoding
from soscope.binfmt.source import ByteSource, broken, require

_PIECE = 1024  # bytes of one read: most sections are shorter
_MAX_ENTRIES = 65536


class Dynamic:
    """The entries of a dynamic section, in order: (tag, value)."""

    __slots__ = ("_first", "entries")

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self.entries = entries
        self._first = dict(reversed(entries))

    @classmethod
    def read(
        cls, source: ByteSource, coding: Encoding, at: int, size: int | None = None
    ) -> Dynamic:
        """Read the section at offset `at`, up to DT_NULL or the end of its `size` bytes.

        Raises FormatError if it has no end.
        """
        entries: list[tuple[int, int]] = []
        step = coding.dynamic.size
        while len(entries) < _MAX_ENTRIES:
            where = at + len(entries) * step
            left = _PIECE if size is None else min(_PIECE, size - len(entries) * step)
            if left < step:
                return cls(entries)
            piece = source.read(where, left)
            require(piece, step, source, where, "dynamic section")
            pairs = list(coding.dynamic.iter_unpack(piece[: len(piece) // step * step]))
            tags = [tag for tag, _ in pairs]
            if c.DT_NULL in tags:
                return cls(entries + pairs[: tags.index(c.DT_NULL)])
            entries += pairs
        raise broken(source, "dynamic section", at, "no DT_NULL")

    def get(self, tag: int) -> int | None:
        """Return the value of the first entry with `tag`, None if there is none."""
        return self._first.get(tag)

    def all(self, tag: int) -> list[int]:
        """Return the values of all entries with `tag`."""
        return [value for entry, value in self.entries if entry == tag]
