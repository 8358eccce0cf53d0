# SPDX-License-Identifier: Apache-2.0
"""The opcodes of LC_DYLD_INFO: binds, weak binds and lazy binds, also threaded ones.

Each of the three streams is a program for a small machine whose state is a library, a name, a
type and an address. Counts in the streams come from the file, so this module never uses them as
the bound of a loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.macho import ordinals
from soscope.binfmt.macho.encoding import DECODING, sleb, uleb
from soscope.binfmt.macho.fixups import threaded
from soscope.binfmt.macho.image import MachoImage
from soscope.binfmt.macho.records import (
    BIND,
    LAZY_BIND,
    WEAK_BIND,
    Bind,
    Ranges,
)
from soscope.errors import FormatError

_MASK = 0xFFFFFFFFFFFFFFFF

# constants BIND_OPCODE_…
_DONE = 0x00
_SET_DYLIB_ORDINAL_IMM = 0x10
_SET_DYLIB_ORDINAL_ULEB = 0x20
_SET_DYLIB_SPECIAL_IMM = 0x30
_SET_SYMBOL_TRAILING_FLAGS_IMM = 0x40
_SET_TYPE_IMM = 0x50
_SET_ADDEND_SLEB = 0x60
_SET_SEGMENT_AND_OFFSET_ULEB = 0x70
_ADD_ADDR_ULEB = 0x80
_DO_BIND = 0x90
_DO_BIND_ADD_ADDR_ULEB = 0xA0
_DO_BIND_ADD_ADDR_IMM_SCALED = 0xB0
_DO_BIND_ULEB_TIMES_SKIPPING_ULEB = 0xC0
_THREADED = 0xD0

_WEAK_IMPORT = 0x1

# index of each stream's offset in the load command
_STREAMS = {BIND: 2, WEAK_BIND: 4, LAZY_BIND: 6}


def binds(image: MachoImage, kind: str, wanted: Ranges) -> Iterator[Bind]:
    """Yield the records of the stream `kind` (BIND, WEAK_BIND, LAZY_BIND) at `wanted` addresses.

    Records come in the stream's order, and an address may come more than once. Errors are
    reported in `image.partial`.
    """
    if not image.dyld_info:
        return
    at = _STREAMS[kind]
    offset, size = image.dyld_info[at : at + 2]
    if not size:
        return
    try:
        data = image.table(offset, size, f"{kind} opcodes")
    except FormatError as error:
        image.missed(error)
        data = image.source.read(image.start + offset, max(0, min(size, image.size - offset)))
    yield from _Machine(image, kind, wanted, data).run()


class _Machine:
    """The state of the machine that runs the opcodes."""

    __slots__ = ("data", "image", "kind", "left", "name", "ordinal", "table", "wanted", "weak")

    def __init__(self, image: MachoImage, kind: str, wanted: Ranges, data: bytes) -> None:
        self.image = image
        self.kind = kind
        self.wanted = wanted
        self.data = data
        self.name = ""
        self.ordinal: int | None = ordinals.WEAK_LOOKUP if kind == WEAK_BIND else ordinals.SELF
        self.weak = False
        # Threaded binds refer to their symbols by index in this table.
        self.table: list[tuple[str, int | None, int, bool]] | None = None
        # A stream binds each pointer once, so twice the number of pointers is more than enough.
        self.left = 2 * (image.size // image.encoding.size) + 64

    def run(self) -> Iterator[Bind]:
        try:
            yield from self._run()
        except IndexError:
            self.image.miss(f"{self.kind} opcodes: they end within one of them")

    def _run(self) -> Iterator[Bind]:
        data = self.data
        pointer = self.image.encoding.size
        segments = self.image.segments
        end = len(data)
        lazy = self.kind == LAZY_BIND
        vaddr = addend = at = record = 0
        known = False  # whether an address has been set
        while at < end:
            opcode, immediate = data[at] & 0xF0, data[at] & 0x0F
            start = at
            at += 1
            if opcode == _DO_BIND:
                if self.table is not None:
                    self.table.append((self.name, self.ordinal, addend, self.weak))
                    continue
                if not known:
                    self._bad(start)
                    return
                if self.wanted.has(vaddr):
                    yield self._bind(vaddr, addend, record if lazy else None)
                vaddr = vaddr + pointer & _MASK
            elif opcode == _SET_SYMBOL_TRAILING_FLAGS_IMM:
                stop = data.find(b"\0", at)
                if stop < 0:
                    raise IndexError
                self.name = data[at:stop].decode(*DECODING)
                self.weak = bool(immediate & _WEAK_IMPORT)
                at = stop + 1
            elif opcode == _SET_DYLIB_ORDINAL_IMM:
                self.ordinal = immediate
            elif opcode == _SET_SEGMENT_AND_OFFSET_ULEB:
                offset, at = uleb(data, at)
                if immediate >= len(segments):
                    self._bad(start)
                    return
                vaddr = segments[immediate].vaddr + offset & _MASK
                known = True
            elif opcode == _SET_TYPE_IMM:
                pass  # a pointer, or an address in code (only old i386 images)
            elif opcode == _DONE:
                if not lazy:
                    return
                record = at
            elif opcode == _SET_DYLIB_ORDINAL_ULEB:
                self.ordinal, at = uleb(data, at)
            elif opcode == _SET_DYLIB_SPECIAL_IMM:
                self.ordinal = immediate - 16 if immediate else 0
            elif opcode == _SET_ADDEND_SLEB:
                addend, at = sleb(data, at)
            elif opcode == _ADD_ADDR_ULEB:
                offset, at = uleb(data, at)
                vaddr = vaddr + offset & _MASK
            elif opcode in (_DO_BIND_ADD_ADDR_ULEB, _DO_BIND_ADD_ADDR_IMM_SCALED):
                if not known:
                    self._bad(start)
                    return
                if self.wanted.has(vaddr):
                    yield self._bind(vaddr, addend, record if lazy else None)
                if opcode == _DO_BIND_ADD_ADDR_ULEB:
                    offset, at = uleb(data, at)
                else:
                    offset = immediate * pointer
                vaddr = vaddr + pointer + offset & _MASK
            elif opcode == _DO_BIND_ULEB_TIMES_SKIPPING_ULEB:
                count, at = uleb(data, at)
                skip, at = uleb(data, at)
                if not known or count * pointer > self.image.size:
                    self._bad(start)
                    return
                # In theory a skip may go backwards; no linker does that, and 64 bits wrap around.
                step = pointer + skip & _MASK
                for stretch in self.wanted.steps(vaddr, count, step):
                    for byte in stretch:
                        yield self._bind(byte & _MASK, addend, record if lazy else None)
                vaddr = vaddr + count * step & _MASK
            elif opcode == _THREADED and immediate == 0:
                _, at = uleb(data, at)
                self.table = []
            elif opcode == _THREADED and immediate == 1 and known:
                chain = threaded(self.image, vaddr, self.table or [], self.wanted, self.left)
                self.left -= yield from chain
            else:
                self._bad(start)
                return
            if self.left < 0:
                self.image.miss(f"{self.kind} opcodes: more records than the image has pointers")
                return

    def _bind(self, vaddr: int, addend: int, argument: int | None) -> Bind:
        self.left -= 1
        return Bind(vaddr, self.name, self.ordinal, self.kind, addend, self.weak, None, argument)

    def _bad(self, at: int) -> None:
        self.image.miss(f"{self.kind} opcodes: byte {self.data[at]:#04x} at {at:#x} has no sense")
