# SPDX-License-Identifier: Apache-2.0
"""Memory and files by packets: what is asked, and what is made of the answers."""

from __future__ import annotations

from typing import cast

import pytest

from soscope.entry.remote.stub import Capabilities, RemoteFiles, RemoteStub, StubMemory

START, END = 0x1000, 0x3000  # what the stub has


class Answers:
    """Answers as a stub does; `asked` are the packets that came."""

    def __init__(self, *, size: str = "1000", is_whole: bool = False) -> None:
        self.can = Capabilities(b"PacketSize=" + size.encode())
        self.asked: list[bytes] = []
        self._is_whole = is_whole

    def ask(self, packet: bytes) -> bytes:
        """Answer one packet."""
        self.asked.append(packet)
        if packet.startswith(b"vFile:"):
            return FILES.get(packet[6:], b"F-1,2")
        start, size = (int(word, 16) for word in packet[1:].split(b","))
        end = min(start + size, END)
        if start < START or start >= END or (self._is_whole and end < start + size):
            return b"E0e"
        return bytes(at & 0xFF for at in range(start, end)).hex().encode()


NAME = b"/f".hex().encode()
FILES = {
    b"setfs:7": b"F0",
    b"open:%s,0,0" % NAME: b"F5",
    b"pread:5,7e0,0": b"F3;abc",
    b"pread:5,7e0,3": b"F0;",
    b"close:5": b"F0",
}


def _of(answers: Answers, bits: int = 64) -> StubMemory:
    return StubMemory(cast("RemoteStub", answers), bits)


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("size", ["100", "1000", "47ff"])
def test_what_is_read(size: str, is_whole: bool) -> None:
    memory = _of(Answers(size=size, is_whole=is_whole))
    assert memory.read(START + 3, 5) == bytes(range(3, 8))
    assert memory.read(END - 4, 100) == bytes(range(0xFC, 0x100))
    assert memory.read(START, END - START) == bytes(range(0x100)) * 32
    assert memory.read(START - 1, 4) == b""
    assert memory.read(-1, 4) == b""


def test_pieces_are_asked_for_once() -> None:
    answers = Answers()
    memory = _of(answers)
    memory.read(START, 8)
    memory.read(START + 8, 8)
    assert answers.asked == [b"m1000,400"]
    memory.read(START, 0x1000)
    assert len(answers.asked) == 4
    memory.forget()
    memory.read(START, 8)
    assert len(answers.asked) == 5


def test_addresses_end() -> None:
    answers = Answers()
    assert _of(answers, 32).read(1 << 32, 8) == b""
    assert answers.asked == []


def test_files() -> None:
    files = RemoteFiles(cast("RemoteStub", Answers()), 7)
    assert files.read("/f") == b"abc"
    assert files.read("/none") is None
