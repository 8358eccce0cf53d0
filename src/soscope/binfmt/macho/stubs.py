# SPDX-License-Identifier: Apache-2.0
"""The stubs of one Mach-O image, decoded from their code, and the helpers of lazy slots."""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.isa import part
from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.image import MachoImage, MachoSection
from soscope.model.arch import arch_of_cputype
from soscope.model.filemap import AUTH_STUB, JUMP_TABLE, OBJC_STUB, PIC_STUB, STUB, Stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Decode the code of a stub or stub helper: one decoder for each family of processors.
#
# A decoder is two functions of (code, position in it, its address). They only know the short
# sequences that linkers write, not the whole instruction set.


class StubWay(NamedTuple):
    """The target of a stub: through the pointer at `slot`, or directly `target`; `size` bytes.

    `selector_at` is the address of the pointer to the selector that an Objective-C stub loads. If
    `signed` is true, the stub checks the pointer's signature. If `relative` is true, the stub
    addresses the pointer relative to itself, while other stubs of this processor do not.
    """

    size: int
    slot: int = 0
    target: int = 0
    selector_at: int = 0
    signed: bool = False
    relative: bool = False


class StubHelper(NamedTuple):
    """One stub helper: the argument that it passes to the resolver, and where it jumps.

    The argument is either an `offset` into the lazy bind opcodes, or (before LC_DYLD_INFO)
    `slot`, the address of the pointer to fill. `leads_to` is the code that all helpers share.
    """

    vaddr: int
    size: int
    offset: int | None
    slot: int | None
    leads_to: int


class MachoDecoder(NamedTuple):
    """The functions of one family; they return None if the code is not a stub or helper.

    `helper` is None if all slots share one helper, which is an ordinary function.
    """

    stub: Callable[[bytes, int, int], StubWay | None]
    helper: Callable[[bytes, int, int], StubHelper | None] | None
    alignment: int


def decoder(cpu: int) -> MachoDecoder | None:
    """Return the decoder for a cputype, None if there is none."""
    arch = arch_of_cputype(cpu)
    known = part(arch, "macho")
    if arch is None or known is None:
        return None
    decoder: MachoDecoder = known.macho_decoder(arch.bits)
    return decoder


_OBJC_STUBS = "__objc_stubs"
_SHORTEST = 5  # bytes of an entry of __jump_table
_LONGEST_HELPER = 16
_LONGEST_GAP = 64  # bytes between two stubs of varying size, at most
_LONGEST_SELECTOR = 4096


class MachoStubs:
    """All stubs of an image, by section: `found` has them, `entries` their indirect symbols.

    `entries` maps a stub to its index in the indirect symbol table. `pointer` returns the address
    in the pointer at an address, None if the pointer is bound. It is used for selectors.
    """

    __slots__ = ("_decoder", "_image", "_pointer", "entries", "found")

    def __init__(self, image: MachoImage, pointer: Callable[[int], int | None]) -> None:
        self._image = image
        self._pointer = pointer
        self._decoder: MachoDecoder | None = decoder(image.header.cpu)
        self.found: list[Stub] = []
        # stub -> its index in the indirect symbol table
        self.entries: dict[int, int] = {}
        tables = [section for section in image.sections if section.type == c.S_SYMBOL_STUBS]
        for section in image.bounded(tables):
            self._read_table(section)
        objc = [section for section in image.sections if section.short_name == _OBJC_STUBS]
        for section in image.bounded([section for section in objc if section not in tables]):
            self._read_objc(section)

    def _code(self, section: MachoSection) -> bytes:
        image = self._image
        offset, size = image.encrypted
        if size and section.offset < offset + size and offset < section.offset + section.size:
            image.miss(f"section {section.name}: encrypted")
            return b""
        if self._decoder is None:
            image.miss(f"section {section.name}: no decoder for cputype {image.header.cpu:#x}")
            return b""
        return image.contents(section)

    def _read_table(self, section: MachoSection) -> None:
        code = self._code(section)
        size = section.entry_size
        if not _SHORTEST <= size <= len(code):
            if code:
                self._image.miss(f"section {section.name}: stubs of {size} bytes")
            return
        is_table = section.flags & c.S_ATTR_SELF_MODIFYING_CODE and size == 5
        undecoded = 0
        for index in range(len(code) // size):
            vaddr = section.vaddr + index * size
            self.entries[vaddr] = section.first + index
            if is_table:
                stub = Stub(vaddr, size, section.name, JUMP_TABLE, vaddr)
            else:
                stub = self._decode(code[index * size : (index + 1) * size], vaddr, section, size)
                undecoded += not stub.slot
            self.found.append(stub)
        if undecoded:
            self._image.miss(
                f"section {section.name}: {undecoded} stubs have code of no known kind"
            )

    def _decode(self, code: bytes, vaddr: int, section: MachoSection, size: int) -> Stub:
        assert self._decoder is not None
        way = self._decoder.stub(code, 0, vaddr)
        if way is None:
            return Stub(vaddr, size, section.name, STUB, 0)
        return Stub(vaddr, size, section.name, _kind(way), way.slot)

    # ---- Objective-C ----

    def _read_objc(self, section: MachoSection) -> None:
        """Decode stubs of any size: the next stub is at the next address that decodes as one."""
        code = self._code(section)
        if not code or self._decoder is None:
            return
        slots = {stub.vaddr: stub.slot for stub in self.found}
        at = end = 0
        step = section.entry_size
        while at < len(code):
            vaddr = section.vaddr + at
            way = self._decoder.stub(code, at, vaddr)
            if way is None or not way.selector_at:
                at += step or self._decoder.alignment
                if at - end > _LONGEST_GAP + step:
                    self._image.miss(f"section {section.name}: code of no known kind at {vaddr:#x}")
                    break
                continue
            slot = way.slot or slots.get(way.target, 0)
            selector = self._selector(way.selector_at)
            size = max(step, way.size)
            self.found.append(Stub(vaddr, size, section.name, OBJC_STUB, slot, selector))
            at += size
            end = at

    def _selector(self, vaddr: int) -> str | None:
        image = self._image
        target = self._pointer(vaddr)
        if not target:
            return None
        size = 64
        while True:
            data = image.read(target, size)
            end = data.find(b"\0")
            if end >= 0:
                return data[:end].decode("utf-8", "surrogateescape") if image.afford(end) else None
            if len(data) < size or size >= _LONGEST_SELECTOR:
                return None
            size *= 8

    # ---- helpers ----

    def helper(self, vaddr: int) -> StubHelper | None:
        """Decode the stub helper at `vaddr`, None if there is none."""
        if self._decoder is None or self._decoder.helper is None:
            return None
        code = self._image.read(vaddr, _LONGEST_HELPER)
        helper = self._decoder.helper(code, 0, vaddr)
        if helper is None or helper.offset is None or helper.slot is None:
            return helper
        # The generation of the image tells whether the number is an offset or an address.
        if self._image.dyld_info:
            return helper._replace(slot=None)
        return helper._replace(offset=None)


def _kind(way: StubWay) -> str:
    if way.signed:
        return AUTH_STUB
    return PIC_STUB if way.relative else STUB
