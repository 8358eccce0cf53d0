# SPDX-License-Identifier: Apache-2.0
"""The interfaces of a stopped thread and of memory that an engine needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from soscope.binfmt.elf.reader import Encoding


class StoppedThread(Protocol):
    """Registers of one thread. `order` is their byte order, and `registers` has their names."""

    order: str

    @property
    def registers(self) -> Mapping[str, object]:
        """The facts about each register, by name."""

    def get(self, name: str, /) -> int:
        """Return the value of a register."""

    def get_bytes(self, name: str, /) -> bytes:
        """Return the bytes of a register."""

    def upper_half(self, name: str, /) -> bytes:
        """Return the half of a register that `get` omits, little-endian, b"" if unknown."""


class WordMemory(Protocol):
    """The memory of process `pid`, with the words of `coding`."""

    coding: Encoding
    pid: int

    def read(self, addr: int, size: int, /) -> bytes:
        """Return up to `size` bytes of memory."""

    def word(self, addr: int, /) -> int:
        """Return a word of the program, 0 if no memory is mapped there."""
