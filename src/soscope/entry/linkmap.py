# SPDX-License-Identifier: Apache-2.0
"""The loader's data about a process: `struct r_debug` and its list of `struct link_map`.

See <link.h>. Both have the same layout in glibc and musl, on every 64-bit machine.
"""

from __future__ import annotations

import os
from struct import Struct

from soscope.binfmt.elf.image import ElfImage
from soscope.entry.memory import RemoteMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RT_CONSISTENT = 0
RT_ADD = 1

_DEBUG = Struct("<i4xQQi4xQ")  # version, map, brk, state, ldbase
_LINK = Struct("<QQQQQ")  # addr, name, ld, next, prev
_MAX_IMAGES = 1 << 16  # the same as in the agent's namespace.c
_MAX_PATH = 4096


class RDebug:
    """`struct r_debug`: the first link map, the function called at events, the state."""

    __slots__ = ("brk", "first", "state", "version")

    def __init__(self, data: bytes) -> None:
        self.version, self.first, self.brk, self.state, _ = _DEBUG.unpack(data)


class LinkMap:
    """One image of the list: its load bias and the address of its dynamic section.

    `addr` is the address of its `struct link_map`, which is also dlopen's handle.
    """

    __slots__ = ("addr", "dynamic", "load_bias", "name_addr")

    def __init__(self, addr: int, load_bias: int, name_addr: int, dynamic: int) -> None:
        self.addr = addr
        self.load_bias = load_bias
        self.name_addr = name_addr
        self.dynamic = dynamic

    def path(self, memory: RemoteMemory) -> str:
        """Return the path that the loader opened, "" for the program itself."""
        text = memory.read(self.name_addr, 256)
        if b"\0" not in text:
            text = memory.read(self.name_addr, _MAX_PATH)
        return os.fsdecode(text.split(b"\0", 1)[0])

    def image(self, memory: RemoteMemory) -> ElfImage:
        """Return the image, read from memory."""
        return ElfImage.from_dynamic(memory, self.load_bias, self.dynamic)


def read_debug(memory: RemoteMemory, addr: int) -> RDebug | None:
    """Read the `struct r_debug` at `addr`. Return None if no memory is mapped there."""
    data = memory.read(addr, _DEBUG.size)
    return RDebug(data) if len(data) == _DEBUG.size else None


def is_damaged(memory: RemoteMemory, first: int) -> bool:
    """Return whether the list that starts at address `first` is cyclic or far too long.

    The loader may be changing the list meanwhile, so a list that ends at a wrong entry is not
    damaged.
    """
    seen = set()
    for entry in walk(memory, first):
        if entry.addr in seen:
            return True
        seen.add(entry.addr)
    return len(seen) == _MAX_IMAGES


def walk(memory: RemoteMemory, first: int) -> Iterator[LinkMap]:
    """Yield the images of the list that starts at address `first`, in the loader's order."""
    addr = first
    for _ in range(_MAX_IMAGES):
        data = memory.read(addr, _LINK.size)
        if not addr or len(data) < _LINK.size:
            return
        load_bias, name, dynamic, following, _ = _LINK.unpack(data)
        yield LinkMap(addr, load_bias, name, dynamic)
        addr = following
