# SPDX-License-Identifier: Apache-2.0
"""The stubs of a Mach-O image are run.

The first call through a lazy slot has to reach dyld: what dyld_stub_binder is bound to, or before
LC_DYLD_INFO what dyld writes to the first word of __dyld. It finds there what is to be bound (the
offset of a lazy bind record; before, the address of the slot), and on whose behalf: the address of
a word that dyld keeps for the image; before, that of the image's header. dyld's
dyld_stub_binder.s and the C start-up files' dyld_glue.s have both on the stack, and on PowerPC
in r11 and r12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from soscope.binfmt.macho import constants as c
from soscope.binfmt.macho import records as r
from soscope.binfmt.macho.chained import FORMATS, is_bind
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.macho.image import MachoImage
from soscope.inspect.check import isa
from soscope.inspect.check.emulatecpu import Processor
from soscope.inspect.check.emulator import STEP, Emulator, MemoryPart, Ran, cannot, memory
from soscope.model.arch import arch_of_cputype
from soscope.model.filemap import JUMP_TABLE, LAZY, OBJC_STUB, FileSlot, Stub

_BINDER = "dyld_stub_binder"
_DYLD = "__dyld"  # its first word is dyld's entrance for slots that are not bound
_SELREFS = "__objc_selrefs"
_LONGEST_SELECTOR = 4096
_OBJECT = "object"
_WRITABLE = 2  # of a segment's protection


def run_macho(mapped: MachoMap) -> Iterator[Ran]:
    """Run every stub of an image: those of lazy slots twice, unbound and bound.

    An entry of a __jump_table is left out: it is no code before dyld has written it. Raises
    SoscopeError where Unicorn is not installed (no-extra), or where it does not know the processor
    or has no room (no-emulator).
    """
    arch = arch_of_cputype(mapped.image.header.cpu)
    known = isa.known(arch)
    processor: Processor | None = None
    if arch is not None and known is not None and hasattr(known, "macho"):
        processor = known.macho(arch.bits)
    if processor is None or processor.cpu.order != mapped.image.encoding.order:
        raise cannot(f"no emulator for {mapped.arch}")
    if mapped.kind == _OBJECT:
        raise cannot("an object file has no addresses yet")
    yield from _Run(mapped, processor).all()


class _Run:
    """An image in the memory of an emulated processor, with nothing bound that is lazy."""

    def __init__(self, mapped: MachoMap, processor: Processor) -> None:
        self.mapped = mapped
        self.processor = processor
        self.machine = Emulator(processor.cpu, *_memory(mapped.image), mapped.image.size)
        free = self.machine.free
        if free + STEP * (len(mapped.slots) + 2) > 1 << mapped.bits:
            raise cannot("more slots than free addresses")
        self.magic = {slot.vaddr: free + STEP * n for n, slot in enumerate(mapped.slots, 2)}
        self.slots = {addr: vaddr for vaddr, addr in self.magic.items()}
        self.binders = set() if mapped.image.dyld_info else {free}
        self._fill()

    def _fill(self) -> None:
        """Do what dyld does when it loads the image."""
        mapped, machine = self.mapped, self.machine
        word = mapped.bits // 8
        for section in mapped.image.sections:
            if section.short_name == _DYLD and section.size >= 2 * word:
                machine.put(section.vaddr, machine.free)
                machine.put(section.vaddr + word, machine.free + STEP)
        if any(stub.kind == OBJC_STUB for stub in mapped.stubs):
            self._rebase_selectors()
        for slot in mapped.slots:
            if slot.symbol == _BINDER:
                self.binders.add(self.magic[slot.vaddr])
            if not _has_lazy_half(slot):
                machine.put(slot.vaddr, self.magic[slot.vaddr])

    def _rebase_selectors(self) -> None:
        """Give the pointers to selectors their addresses, where the file has chains instead."""
        sections = [
            section
            for section in self.mapped.image.sections
            if section.type == c.S_LITERAL_POINTERS or section.short_name == _SELREFS
        ]
        wanted = r.Ranges([(section.vaddr, section.vaddr + section.size) for section in sections])
        fixups = self.mapped.cells.fixups
        for vaddr, word, starts in fixups.words(wanted):
            if wanted.has(vaddr) and not is_bind(word, FORMATS[starts.format]):
                self.machine.put(vaddr, fixups.target(word, starts) or 0)

    def all(self) -> Iterator[Ran]:
        """Run them."""
        machine = self.machine
        first: dict[int, tuple[int | None, str]] = {}
        for slot in self.mapped.slots:
            if _has_lazy_half(slot):
                machine.map_code(slot.helper or 0)
                for stub in slot.stubs:
                    if stub.kind != JUMP_TABLE:
                        first[stub.vaddr] = self._first(slot, stub)
        for vaddr, addr in self.magic.items():
            machine.put(vaddr, addr)
        stubs = [stub for slot in self.mapped.slots for stub in slot.stubs]
        for stub in sorted({*stubs, *self.mapped.stubs_without_slot}, key=_place):
            if stub.kind != JUMP_TABLE:
                yield self._second(stub, *first.get(stub.vaddr, (None, "")))

    def _first(self, slot: FileSlot, stub: Stub) -> tuple[int | None, str]:
        """Return (what is to be bound, what went wrong) of the first call of a stub."""
        end = self.machine.run(stub.vaddr)
        if end.addr not in self.binders:
            # What is bound at load in any case needs no lazy half.
            why = f"the first call: {end.why or f'it goes to {end.addr:#x}'}"
            return None, why if slot.binding == LAZY else ""
        whose, argument = self.processor.given(self.machine)
        image = self.mapped.image
        if not image.dyld_info:
            is_right = whose == image.base
        else:
            is_right = any(
                segment.protection & _WRITABLE
                and segment.vaddr <= whose < segment.vaddr + segment.size
                for segment in image.segments
            )
        if is_right:
            return argument, ""
        what = "word that dyld may keep" if image.dyld_info else "image's header"
        return argument, f"the first call: dyld is given {whose:#x}, which is no {what}"

    def _second(self, stub: Stub, argument: int | None, why: str) -> Ran:
        end = self.machine.run(stub.vaddr)
        slot = self.slots.get(end.addr)
        if slot is None:
            why = why or end.why or f"it goes to {end.addr:#x}"
        selector = None
        if stub.kind == OBJC_STUB and self.processor.second:
            selector = self._text(self.machine.register(self.processor.second))
        return Ran(stub, slot, argument, why, selector)

    def _text(self, vaddr: int) -> str | None:
        data, separator, _ = self.mapped.image.read(vaddr, _LONGEST_SELECTOR).partition(b"\0")
        return data.decode("utf-8", "surrogateescape") if separator else None


def _place(stub: Stub) -> int:
    return stub.vaddr


def _has_lazy_half(slot: FileSlot) -> bool:
    """Return whether the file has a helper and a record for a slot, or ought to have them."""
    if slot.binding == LAZY:
        return True
    return slot.resolver_argument is not None and slot.helper is not None


def _memory(image: MachoImage) -> tuple[Callable[[int, int], bytes], int]:
    """Return how to read an image as dyld maps it, and where its memory ends."""
    parts = [
        MemoryPart(
            segment.vaddr,
            segment.size,
            image.start + segment.offset,
            min(segment.filesize, image.size - segment.offset),
        )
        for segment in image.segments
        if segment.size and segment.protection
    ]
    return memory(parts, image.source)
