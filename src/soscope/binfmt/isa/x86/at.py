# SPDX-License-Identifier: Apache-2.0
"""The stub at one address, in a file or in memory, on x86-64 and i386.

The decoder of all stubs finds only code that is called. This module also recognises separate lazy
halves and the first stub, which calls the loader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.relocations import symbols_of, tables
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa.x86 import shapes
from soscope.errors import FormatError
from soscope.model.arch import EM_X86_64

_LONGEST = 32
_AROUND = 32  # bytes read before and behind, for stubs and their surroundings

# filling between functions: nops of every length, int3, zeros
_PADDING = re.compile(
    rb"(?:\x66|\x2e)*(?:\x90|\x0f\x1f(?:\0|\x40\0|\x44\0\0|\x80\0{4}|\x84\0{5}))|\xcc|\0"
    rb"|\x8d[\x74\xb4]\x26\0*|\x8d\xb6\0{4}|\x8d\x76\0",
    re.DOTALL,
)


def is_lazy(code: bytes) -> bool:
    """Return whether code leads into the loader's resolver, as the target of an unbound slot does.

    Such code is `push $index` or, with mold, the first stub itself: `push GOT[1]`. An endbr may
    stand before either.
    """
    rest = code[4:] if code[:3] == b"\xf3\x0f\x1e" else code
    if rest[:1] == b"\x68" or shapes.FIRST_STUB.match(code) is not None:
        return True
    return any(rest[at : at + 2] in (b"\xff\x35", b"\xff\xb3") for at in range(5))


def is_padding(code: bytes, at: int) -> bool:
    """Return whether the byte at `at` is filling; `code` begins behind a function."""
    place = 0
    while place <= at:
        match = _PADDING.match(code, place)
        if match is None:
            return False
        place = match.end()
    return True


class X86Stub:
    """One stub at link-time address `vaddr`, with `size` bytes.

    `slot` is the vaddr of its slot and `symbol` the index of the slot's dynamic symbol, 0 for an
    IFUNC without a name. `slot` is 0 for the first stub, which calls the loader.
    """

    __slots__ = ("size", "slot", "symbol", "vaddr")

    def __init__(self, vaddr: int, size: int, slot: int, symbol: int) -> None:
        self.vaddr = vaddr
        self.size = size
        self.slot = slot
        self.symbol = symbol


class X86Stubs:
    """The stubs of one image; its relocations are read once."""

    __slots__ = ("_calls", "_got", "_image", "_places", "_sections", "_slots")

    def __init__(self, image: ElfReader, sections: Sections | None = None) -> None:
        """Read the slots; stubs may lie only in `sections`, or anywhere if that is None.

        Raises FormatError if relocations are cut.
        """
        self._image = image
        self._sections = sections
        self._got: int | None = None
        self._places = [
            (section.vaddr, section.vaddr + section.size)
            for section in ([] if sections is None else sections.all)
            if section.name.startswith((".plt", ".iplt"))
        ]
        self._calls: list[tuple[int, int]] = []
        self._slots: dict[int, int] = {}
        for table in reversed(tables(image)):
            rows = symbols_of(image, table)
            self._slots.update(rows)
            if table[3]:
                self._calls = rows

    def at(self, vaddr: int) -> X86Stub | None:
        """Return the stub that contains link-time address `vaddr`, None if there is none."""
        origin = next((start for start, end in self._places if start <= vaddr < end), 0)
        if self._places and not origin:
            return None
        low = max(vaddr - _AROUND, origin)
        code = self._code(low, 3 * _AROUND)
        if not code and low < vaddr:  # `vaddr` is at the start of a segment
            low = vaddr & -16
            code = self._code(low, 2 * _AROUND)
        for start, size, slot, _ in self._rows(low, code, origin):
            if start <= vaddr < start + size:
                return X86Stub(start, size, slot, self._slots[slot])
        return self._other(vaddr - (vaddr - origin) % 16, origin)

    def _rows(self, vaddr: int, code: bytes, origin: int) -> Iterator[shapes.Row]:
        if self._is_64:
            return shapes.stubs_64(code, vaddr, self._slots, origin, is_plt=False)
        return shapes.stubs_32(code, vaddr, self._slots, origin, self.got, is_plt=False)

    def _code(self, vaddr: int, size: int) -> bytes:
        try:
            return self._image.source.read(self._image.locate(vaddr), size)
        except FormatError:
            return b""

    def _other(self, vaddr: int, origin: int) -> X86Stub | None:
        """Return the lazy half, or the first stub, that begins at `vaddr`, or None."""
        code = self._code(vaddr, _LONGEST)
        match = shapes.LAZY_HALF.match(code)
        if match is not None:
            step = 1 if self._is_64 else self._image.encoding.rel.size
            index, left = divmod(int.from_bytes(match[1], "little"), step)
            if not left and index < len(self._calls):
                return X86Stub(vaddr, 16, *self._calls[index])
            return None
        if shapes.FIRST_STUB.match(code) is not None and self._follows(vaddr, origin):
            return X86Stub(vaddr, 16, 0, 0)
        return None

    def _follows(self, vaddr: int, origin: int) -> bool:
        """Return whether a stub with a slot follows the stub at `vaddr`, which has none."""
        for start in (vaddr + 16, vaddr + 32):
            code = self._code(start, 2 * _LONGEST)
            if shapes.FIRST_STUB.match(code) is not None:
                continue
            if shapes.LAZY_HALF.match(code) is not None or any(
                row[0] == start for row in self._rows(start, code, origin)
            ):
                return True
        return False

    @property
    def _is_64(self) -> bool:
        header = self._image.header
        return self._image.encoding.bits == 64 or (
            header is not None and header.machine == EM_X86_64  # x32
        )

    @property
    def got(self) -> int:
        """The link-time base address of position-independent code for i386, 0 if unknown.

        It is _GLOBAL_OFFSET_TABLE_, which is DT_PLTGOT, but with mold the beginning of .got. The
        stubs decide: with the right base, they lead to slots.
        """
        if self._got is None:
            told = self._image.dynamic.get(c.DT_PLTGOT) or 0
            if told and self._image.is_mapped and told >= self._image.load_bias:
                told -= self._image.load_bias
            listed = [] if self._sections is None else self._sections.all
            bases = [
                told,
                *(section.vaddr for section in listed if section.name in (".got", ".got.plt")),
            ]
            code = b"".join(self._code(start, end - start) for start, end in self._places)
            calls = [slot for slot, _ in self._calls]
            got = shapes.told_got(code, calls)
            if got is None:
                got = shapes.fitting_got(code, self._slots, list(dict.fromkeys(bases)))
            self._got = got
        return self._got
