# SPDX-License-Identifier: Apache-2.0
"""Call sites of a native process: the places where its code jumps and calls through slots.

Nothing else of the process is changed, neither slots nor relocations. A thread that stops at a
call site is moved on to the address in the slot, so no instruction has to be stepped over.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa import part
from soscope.binfmt.stubs.finder import Through
from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.remote.watch import Armed, CallWatch
from soscope.control.settings import SITES
from soscope.entry.native.traps import NativeMemory, Traps
from soscope.model.arch import Arch
from soscope.wire import layout


class NativeSite:
    """One call site: the code that goes `through` a slot, and the `armed` slot of the call."""

    __slots__ = ("armed", "through")

    def __init__(self, armed: Armed, through: Through) -> None:
        self.armed = armed
        self.through = through


class NativeSites(CallWatch):
    """The call sites of one process."""

    __slots__ = ("_found", "_memory", "_traps")

    name = SITES

    def __init__(self, memory: NativeMemory, traps: Traps) -> None:
        self._memory = memory
        self._traps = traps
        self._found: dict[ForeignImage, dict[int, list[Through]]] = {}

    def copy_for(self, memory: NativeMemory, traps: Traps) -> NativeSites:
        """Return a copy for a forked process, with its memory and its traps."""
        copied = NativeSites(memory, traps)
        copied._found = dict(self._found)
        return copied

    def look(self, image: ForeignImage, arch: Arch, slots: list[CalledSlot]) -> None:
        """Find the call sites of an image's slots, in the memory of the process."""
        coding = self._memory.coding
        addrs = {slot.addr for slot in slots}
        code_of = part(arch, "through")
        uses = part(arch, "uses")
        assert code_of is not None
        got = 0 if uses is None else uses.base_of(arch, image.elf, Sections.read(image.elf))
        base = got + image.linked.load_bias & (1 << coding.bits) - 1 if got else None
        by_slot: dict[int, list[Through]] = {}
        self._found[image] = by_slot
        for segment in image.elf.segments:
            if segment.type != c.PT_LOAD or not segment.flags & c.PF_X:
                continue
            start = segment.vaddr + image.linked.load_bias
            code = self._memory.read(start, segment.filesz)
            for site in code_of.through(code, start, addrs, coding.bits, base):
                by_slot.setdefault(site.slot, []).append(site)

    def has(self, slot: CalledSlot, image: ForeignImage) -> bool:
        """Return whether any code goes through a slot."""
        return slot.addr in self._found.get(image, ())

    def hook(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Put traps at the call sites of a slot."""
        armed = Armed(slot, image, call)
        told = self._found.get(image, {}).get(slot.addr, [])
        if not told:
            return layout.REFUSED_NO_SITE
        put = [self._traps.put(site.vaddr, NativeSite(armed, site)) for site in told]
        return armed if all(put) else layout.REFUSED_TEXT

    def forget(self, image: ForeignImage) -> None:
        """Drop the call sites of an image that was unloaded."""
        self._found.pop(image, None)
