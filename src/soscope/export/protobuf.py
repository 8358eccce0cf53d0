# SPDX-License-Identifier: Apache-2.0
"""Encode fields of protobuf messages, and the frame tables of pprof and OTLP."""

from __future__ import annotations

from soscope.export.profiles import ROOT
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from soscope.export.profiles import ExportFrame, Forest, StackTree


# Fields of protobuf messages, as bytes: numbers, and everything with a length.
#
# https://protobuf.dev/programming-guides/encoding/

_LENGTH_DELIMITED = 2  # a wire type
_NEGATIVE = 1 << 64  # a negative int64 is written as its two's complement


def varint(number: int) -> bytes:
    """Return a number as varint: seven bits a byte, lowest first."""
    if 0 <= number < 0x80:
        return bytes((number,))
    if number < 0:
        number += _NEGATIVE
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def integer(field: int, value: int) -> bytes:
    """Return a field of any integer type (except sint and fixed), bool or enum."""
    return varint(field << 3) + varint(value)


def message(field: int, value: bytes) -> bytes:
    """Return a field of type bytes, or of a message type."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(len(value)) + value


def string(field: int, value: str) -> bytes:
    """Return a field of type string."""
    return message(field, value.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """Return a repeated field of integers, b"" if there are none."""
    joined = b"".join([varint(value) for value in values])
    return message(field, joined) if joined else b""


# Strings, mappings, functions and locations by number, as pprof and OTLP describe frames.
#
# Numbers begin with 1, except for strings: string 0 is "". The location of frame N is N + 1.


class ImageMapping(Record):
    """An image, by its file or name; link-time addresses are below `limit`, 0 if not known."""

    file: int
    limit: int = 0
    has_files: bool = False
    has_lines: bool = False


class FrameLocation(Record):
    """A frame: numbers of mapping and function, link-time address and line, 0 if not known."""

    mapping: int
    addr: int
    function: int
    line: int


class SymbolTables:
    """The names for the frames of a forest; `functions` are names and files."""

    def __init__(self, forest: Forest) -> None:
        self.strings: dict[str, int] = {"": 0}
        self.mappings: list[ImageMapping] = []
        self.functions: dict[tuple[int, int], int] = {}
        self._numbers: dict[str, int] = {}  # numbers of mappings
        self.locations = [self._location(frame) for frame in forest.frames]
        self._codes = [varint(number) for number in range(1, len(self.locations) + 1)]

    def string(self, text: str) -> int:
        """Return the number of a string."""
        return self.strings.setdefault(text, len(self.strings))

    def stacks(self, tree: StackTree) -> list[bytes]:
        """Return the locations of each node's stack, innermost first, as a packed field.

        Each list is made from the parent's list, because building whole stacks would take time
        proportional to their depth.
        """
        stacks: list[bytes] = []
        for frame, parent in zip(tree.frames, tree.parents, strict=True):
            below = b"" if parent == ROOT else stacks[parent]
            stacks.append(self._codes[frame] + below)
        return stacks

    def _location(self, frame: ExportFrame) -> FrameLocation:
        where = frame.where
        mapping = self._mapping(frame)
        key = self.string(frame.label()), self.string(where.file or "")
        function = self.functions.setdefault(key, len(self.functions) + 1)
        return FrameLocation(mapping, frame.addr, function, where.line or 0)

    def _mapping(self, frame: ExportFrame) -> int:
        file = frame.path or frame.image()
        if not file:
            return 0
        number = self._numbers.get(file)
        if number is None:
            self.mappings.append(ImageMapping(self.string(file)))
            number = self._numbers[file] = len(self.mappings)
        mapping = self.mappings[number - 1]
        mapping.limit = max(mapping.limit, frame.addr + 1 if frame.addr else 0)
        mapping.has_files |= frame.where.file is not None
        mapping.has_lines |= frame.where.line is not None
        return number
