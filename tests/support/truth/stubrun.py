# SPDX-License-Identifier: Apache-2.0
"""Run the code of PLT sections on x86 under Unicorn: where it leads is what a stub is.

No shape of code is known here: segments are mapped as they lie in the file, every slot gets an
address of its own that nothing else has, and a run ends where one of them, or the resolver's, is
jumped to.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.model import arch as machines

_TARGETS = 0x6000_0000  # where nothing of a test's file lies; 16 bytes for each slot
_RESOLVER = 0x5000_0000
_LINK_MAP = 0x5100_0000
_STACK = 0x4000_0000
_PAGE = 0x1000
_MOST = 60  # instructions: the longest retpoline has fewer


class Led(NamedTuple):
    """Where a run ended: at what slot `slot` holds, or at the resolver with `argument`."""

    slot: int | None = None
    argument: int | None = None


class StubRunner:
    """One file in an emulated processor."""

    def __init__(self, path: Path, slots: Iterable[int], base: int, got: int) -> None:
        """Map `path`; its code counts from `base`, the resolver's words are in `got`."""
        unicorn = pytest.importorskip("unicorn")
        from unicorn import x86_const as x86

        self._error = unicorn.UcError
        self._x86 = x86
        image = ElfImage.from_source(BufferSource(path.read_bytes(), str(path)))
        machine = image.header.machine if image.header else 0
        self._is_64 = machine == machines.EM_X86_64
        # x32 has short addresses, but its slots and its stack are those of 64-bit code
        self._size = 8 if self._is_64 else 4
        mode = unicorn.UC_MODE_64 if self._is_64 else unicorn.UC_MODE_32
        self._cpu = unicorn.Uc(unicorn.UC_ARCH_X86, mode)
        self._base = base
        self._slots = {slot: _TARGETS + 16 * index for index, slot in enumerate(sorted(slots))}
        self._back = {value: slot for slot, value in self._slots.items()}
        loaded = [one for one in image.segments if one.type == c.PT_LOAD and one.memsz]
        until = 0
        for one in sorted(loaded, key=lambda one: one.vaddr):
            start = max(one.vaddr & -_PAGE, until)
            until = max(one.vaddr + one.memsz + _PAGE - 1 & -_PAGE, until)
            if start < until:
                self._cpu.mem_map(start, until - start)
        for one in loaded:
            self._cpu.mem_write(one.vaddr, image.source.read(one.offset, one.filesz))
        self._cpu.mem_map(_STACK, 16 * _PAGE)
        self.before = {slot: self._word(slot) for slot in self._slots}
        if got:
            for index, value in ((1, _LINK_MAP), (2, _RESOLVER)):
                if got + index * self._size not in self._slots:
                    self._write(got + index * self._size, value)
        for slot, value in self._slots.items():
            self._write(slot, value)

    def second(self, vaddr: int) -> Led | None:
        """Run from `vaddr` with all slots bound; None where it leads to none of these places."""
        return self._run(vaddr)

    def first(self, vaddr: int, slot: int) -> Led | None:
        """Run from `vaddr` with `slot` as it is in the file."""
        self._write(slot, self.before[slot])
        try:
            return self._run(vaddr)
        finally:
            self._write(slot, self._slots[slot])

    def _run(self, vaddr: int) -> Led | None:
        x86, cpu = self._x86, self._cpu
        saved = cpu.context_save()
        stack = _STACK + 8 * _PAGE
        cpu.mem_write(stack - 256, bytes(512))
        cpu.reg_write(x86.UC_X86_REG_RSP if self._is_64 else x86.UC_X86_REG_ESP, stack)
        if not self._is_64:
            cpu.reg_write(x86.UC_X86_REG_EBX, self._base)
        try:
            cpu.emu_start(vaddr, 1, count=_MOST)
        except self._error:
            pass  # it has arrived where nothing is
        at = cpu.reg_read(x86.UC_X86_REG_RIP if self._is_64 else x86.UC_X86_REG_EIP)
        top = cpu.reg_read(x86.UC_X86_REG_RSP if self._is_64 else x86.UC_X86_REG_ESP)
        found = None
        if at in self._back:
            found = Led(self._back[at]) if top == stack else None
        elif at == _RESOLVER and self._word(top) == _LINK_MAP and top + 2 * self._size == stack:
            found = Led(argument=self._word(top + self._size))
        cpu.context_restore(saved)
        return found

    def _word(self, vaddr: int) -> int:
        return int.from_bytes(self._cpu.mem_read(vaddr, self._size), "little")

    def _write(self, vaddr: int, value: int) -> None:
        self._cpu.mem_write(vaddr, value.to_bytes(self._size, "little"))
