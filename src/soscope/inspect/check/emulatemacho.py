# SPDX-License-Identifier: Apache-2.0
"""Run the stubs of a Mach-O image.

The first call through a lazy slot must reach dyld: the address to which dyld_stub_binder is
bound, or before LC_DYLD_INFO the address that dyld writes to the first word of __dyld. There dyld
gets two arguments. One is what to bind: the offset of a lazy bind record, or before LC_DYLD_INFO
the address of the slot. The other identifies the image: the address of a word that dyld keeps for
the image, or before LC_DYLD_INFO of its header. In dyld's dyld_stub_binder.s and the C start-up
files' dyld_glue.s both are on the stack, on PowerPC in r11 and r12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from soscope.binfmt.macho import image as c
from soscope.binfmt.macho import image as r
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.macho.fixups import FORMATS, is_bind
from soscope.binfmt.macho.image import MachoImage
from soscope.inspect.check import isa
from soscope.inspect.check.emulatecpu import Processor
from soscope.inspect.check.emulator import STEP, Emulator, MemoryPart, Ran, cannot, memory
from soscope.model.arch import arch_of_cputype
from soscope.model.filemap import JUMP_TABLE, LAZY, OBJC_STUB, FileSlot, Stub

_BINDER = "dyld_stub_binder"
_DYLD = "__dyld"  # its first word is dyld's entry point for unbound slots
_SELREFS = "__objc_selrefs"
_LONGEST_SELECTOR = 4096
_OBJECT = "object"
_WRITABLE = 2  # bit of a segment's protection


def run_macho(mapped: MachoMap) -> Iterator[Ran]:
    """Run every stub of an image; stubs of lazy slots run twice, unbound and bound.

    Entries of a __jump_table are left out, because they are no code before dyld has written them.
    Raises SoscopeError if Unicorn is not installed (no-extra), or if it does not support the
    processor or has no room (no-emulator).
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
    """An image in the memory of an emulated processor, with all lazy slots unbound."""

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
        """Write the addresses of selectors to their pointers, if the file has chains in them."""
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
        """Run the stubs."""
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
        """Return (what to bind, what went wrong) of the first call of a stub."""
        end = self.machine.run(stub.vaddr)
        if end.addr not in self.binders:
            # A slot that is always bound at load time needs no lazy half.
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
    """Return whether the file has a helper and a record for a slot, or should have them."""
    if slot.binding == LAZY:
        return True
    return slot.resolver_argument is not None and slot.helper is not None


def _memory(image: MachoImage) -> tuple[Callable[[int, int], bytes], int]:
    """Return a function that reads an image as dyld maps it, and the end of its memory."""
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
