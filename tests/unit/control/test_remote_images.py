# SPDX-License-Identifier: Apache-2.0
"""Images of emulated programs, by files of this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from soscope.binfmt.elf.reader import encoding
from soscope.control.breakpoints.images import LoadedElf
from soscope.control.gdbserver.run import GdbserverMemory
from soscope.live.images.linkmaps import Linked
from tests.support.files.elffiles import built


def test_an_image_has_the_name_that_it_was_asked_for() -> None:
    linked = Linked(1, 0x1000, "/lib/libname.so.0", 0)
    image = LoadedElf.open(linked, sys.executable, is_main=False)
    assert image.name == "libname.so.0"
    assert image.path == sys.executable
    assert image.contains(image.start)
    assert not image.contains(image.end)
    program = LoadedElf.open(Linked(1, 0, "", 0), sys.executable, is_main=True)
    assert sys.executable.endswith(f"/{program.name}")


def test_addresses_in_code_are_told(tmp_path: Path) -> None:
    """Which nobody hooks: calls by them are seen nowhere."""
    source = "int getppid(void), (*also)(void); int call(void) { return getppid(); }"
    words = ["-fno-pic", "-mcmodel=large", "-shared", "-Wl,-z,notext"]
    path = built(tmp_path, "code", source, *words)
    image = LoadedElf.open(Linked(1, 0x1000, str(path), 0), str(path), is_main=False)
    arch = image.elf.header.arch if image.elf.header else None
    assert arch is not None
    assert ("getppid", True) in [(slot.symbol, slot.is_code) for slot in image.slots(arch)]


@pytest.mark.parametrize(
    ("bits", "order", "word"), [(32, ">", "0000002a"), (64, "<", "2a" + "0" * 14)]
)
def test_a_stub_writes_words_and_more(bits: int, order: str, word: str) -> None:
    """Code of soscope's that slots lead to is longer than a word."""
    written: list[tuple[int, bytes]] = []

    def write(addr: int, data: bytes) -> bool:
        written.append((addr, data))
        return addr < 0x5000

    stub: Any = SimpleNamespace(
        pid=7, tid=7, goes=0, can=SimpleNamespace(packet_size=0x400), write=write
    )
    memory = GdbserverMemory(stub, encoding(bits, order))
    assert memory.write(0x1000, bytes(20))
    assert memory.write_word(0x2000, 42)
    assert not memory.write(0x5000, b"x")
    assert written == [(0x1000, bytes(20)), (0x2000, bytes.fromhex(word)), (0x5000, b"x")]
