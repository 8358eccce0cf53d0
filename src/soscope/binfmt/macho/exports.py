# SPDX-License-Identifier: Apache-2.0
"""The export trie: the names that a Mach-O image exports, including re-exports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from soscope.binfmt.macho.encoding import DECODING, uleb
from soscope.binfmt.macho.image import MachoImage
from soscope.errors import FormatError

_KIND = 0x03
_THREAD_LOCAL = 0x01
_ABSOLUTE = 0x02
_WEAK = 0x04
_REEXPORT = 0x08


class Export(NamedTuple):
    """One exported name, with its address, or with the ordinal of the library that defines it."""

    name: str
    vaddr: int
    kind: str  # "regular", "tls" or "absolute"
    weak: bool
    ordinal: int | None  # library of a re-export


def exports(image: MachoImage) -> Iterator[Export]:
    """Yield the exports in the trie's order; errors are reported in `image.partial`."""
    offset, size = image.exports
    if not size and image.dyld_info:
        offset, size = image.dyld_info[8:10]
    if not size:
        return
    try:
        data = image.table(offset, size, "export trie")
    except FormatError as error:
        image.missed(error)
        return
    # In a sound trie, one path leads to each node; a hostile trie has cycles.
    seen = {0}
    waiting = [(0, b"")]
    try:
        while waiting:
            at, name = waiting.pop()
            length, at = uleb(data, at)
            children = at + length
            if length and at + length <= len(data):
                if not image.afford(len(name)):
                    return
                yield _terminal(image, name.decode(*DECODING), data, at)
            count = data[children]
            at = children + 1
            below = []
            for _ in range(count):
                end = data.index(b"\0", at)
                edge = data[at:end]
                node, at = uleb(data, end + 1)
                if node in seen or node >= len(data):
                    image.miss(f"export trie: a way back at {at:#x}")
                    continue
                seen.add(node)
                if not image.afford(len(name) + len(edge)):
                    return
                below.append((node, name + edge))
            waiting.extend(reversed(below))
    except (IndexError, ValueError):
        image.miss("export trie: it ends within a node")


def _terminal(image: MachoImage, name: str, data: bytes, at: int) -> Export:
    flags, at = uleb(data, at)
    kind = {_THREAD_LOCAL: "tls", _ABSOLUTE: "absolute"}.get(flags & _KIND, "regular")
    number, _ = uleb(data, at)
    weak = bool(flags & _WEAK)
    if flags & _REEXPORT:
        return Export(name, 0, kind, weak, number)
    # A stub with a resolver has two addresses; the first is the stub's, which is the symbol's.
    return Export(name, image.base + number, kind, weak, None)
