# SPDX-License-Identifier: Apache-2.0
"""What an engine asks of a thread that has stopped, and of memory, whoever answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from soscope.binfmt.elf.encoding import Encoding


class StoppedThread(Protocol):
    """Registers of one thread; `order` is their byte order, `registers` has their names."""

    order: str

    @property
    def registers(self) -> Mapping[str, object]:
        """What is known of each register, by name."""

    def get(self, name: str, /) -> int:
        """Return a register."""

    def get_bytes(self, name: str, /) -> bytes:
        """Return a register as it is."""

    def upper_half(self, name: str, /) -> bytes:
        """Return what `get` leaves out of a register, little end first; b"": it is not known."""


class WordMemory(Protocol):
    """The memory of process `pid`, whose words are those of `coding`."""

    coding: Encoding
    pid: int

    def read(self, addr: int, size: int, /) -> bytes:
        """Return up to `size` bytes."""

    def word(self, addr: int, /) -> int:
        """Return one of its words, 0 where there is no memory."""
