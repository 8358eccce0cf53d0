# SPDX-License-Identifier: Apache-2.0
"""The loader's list, read from our own memory."""

from __future__ import annotations

import os
import struct

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.entry import loader as linkmap
from soscope.entry.ptrace import RemoteMemory
from soscope.proc import maps


def test_our_own_images_are_found() -> None:
    memory = RemoteMemory(os.getpid())
    try:
        vector = maps.read_auxv(os.getpid())
        loader = ElfImage.from_memory(memory, vector[maps.AT_BASE])
        addr = loader.symbols.addr("_r_debug")
        if addr is None:  # musl
            return
        debug = linkmap.read_debug(memory, addr)
        assert debug is not None
        assert debug.state == linkmap.RT_CONSISTENT
        images = list(linkmap.walk(memory, debug.first))
        paths = [image.path(memory) for image in images]
        assert paths[0] == ""
        libc = next(image for image in images if "libc.so" in image.path(memory))
        found = libc.image(memory)
        assert found.soname == "libc.so.6"
        assert found.dynamic.get(elf.DT_GNU_HASH) is not None
        assert found.symbols.addr("malloc") is not None
    finally:
        memory.close()


def test_a_list_that_leads_nowhere_ends() -> None:
    memory = RemoteMemory(os.getpid())
    try:
        assert linkmap.read_debug(memory, 8) is None
        assert list(linkmap.walk(memory, 0)) == []
        assert list(linkmap.walk(memory, 8)) == []
    finally:
        memory.close()


def test_debug_is_unpacked() -> None:
    debug = linkmap.RDebug(struct.pack("<i4xQQi4xQ", 2, 10, 20, 1, 30))
    assert (debug.version, debug.first, debug.brk, debug.state) == (2, 10, 20, 1)
