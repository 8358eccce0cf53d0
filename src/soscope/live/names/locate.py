# SPDX-License-Identifier: Apache-2.0
"""Find the symbol that contains an address.

The innermost symbol with a size that contains the address counts. If there are several, a global
symbol precedes a weak one and a weak one a local one; one with a type precedes one without. An
address behind the end of a symbol belongs to no symbol. A symbol without a size has only its
first address. A stub belongs to the linker. `Place.why` tells these cases, and the nearest
symbol.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import Segment
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.symboltable import ElfSymbol, dynamic_table
from soscope.errors import FormatError
from soscope.live.names.containing import GAP, INSIDE, UNSIZED, Hit, SymbolIndex, scan
from soscope.live.names.staticnames import ImageNames, Part
from soscope.model.record import Record, once

DYNAMIC = "dlsym"
VDSO = "vdso"
MEMORY = "memory"

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported for addresses in no symbol
    from soscope.binfmt.isa.x86.stubs import X86Stubs

STUB = "stub"  # a kind of place, besides the constants of `containing`

_FEW = 4  # addresses that are looked up one by one before an index is made
_MANY_SYMBOLS = 3  # per address; with more, an index for only these is quicker
# Labels from crtbegin.o, crti.o and the like, which stand at the start of code of other files.
_FURNITURE = frozenset(
    """frame_dummy register_tm_clones deregister_tm_clones __do_global_dtors_aux
    __do_global_ctors_aux call_weak_fn _init _fini _start __TMC_END__ __dso_handle
    _DYNAMIC _GLOBAL_OFFSET_TABLE_ _PROCEDURE_LINKAGE_TABLE_ __GNU_EH_FRAME_HDR
    __FRAME_END__ __EH_FRAME_BEGIN__ _edata edata _end end _etext etext __etext __bss_start
    __data_start data_start __executable_start __ehdr_start __init_array_start
    __init_array_end __fini_array_start __fini_array_end __preinit_array_start
    __preinit_array_end __rela_iplt_start __rela_iplt_end __rel_iplt_start __rel_iplt_end
    __CTOR_LIST__ __CTOR_END__ __DTOR_LIST__ __DTOR_END__ __end__
    __abi_tag""".split()
)


class Place(Record):
    """The result for one address: `symbol` of table `rule`, `offset` bytes into or behind it.

    `what` is INSIDE, GAP (behind the end of `symbol`), UNSIZED (at `symbol`, which has no size,
    or behind it) or STUB (the stub for calls of `symbol`, which is None for the first stub).
    `slot` is the link-time address of the slot that a stub jumps through. `addr` is the address
    of the query; from `Locator.at` it is a link-time address.
    """

    addr: int
    what: str
    symbol: ElfSymbol | None = None
    rule: str = ""
    offset: int = 0
    slot: int = 0

    @property
    def is_found(self) -> bool:
        """Return whether the address belongs to the symbol."""
        return self.symbol is not None and (
            self.what in (INSIDE, STUB) or (self.what == UNSIZED and not self.offset)
        )

    @property
    def why(self) -> str:
        """Return a text about the place, if it is not inside a symbol."""
        name = "" if self.symbol is None else self.symbol.name
        if self.what == STUB:
            return f"stub of {name}" if name else "the stub that calls the loader"
        if self.what == UNSIZED:
            return f"{self.offset} bytes behind {name}, which has no size" if self.offset else ""
        if self.what == GAP:
            return f"{self.offset} bytes behind the end of {name}" if name else "in no symbol"
        return ""


class Locator:
    """The symbols of one image by link-time address.

    `elf` is the image, in its file or in memory. `names` are its static symbols. `rule` is the
    rule for its dynamic symbols. A table that cannot be read is left out, with the reason in
    `notes`.
    """

    def __init__(
        self, elf: ElfImage, names: ImageNames | None = None, *, rule: str = DYNAMIC
    ) -> None:
        self._elf = elf
        self._names = names
        self._rule = rule
        self._index: SymbolIndex | None = None
        self._asked = 0
        self._cache: dict[tuple[int, int], ElfSymbol] = {}
        self.notes: list[str] = []

    @once
    def parts(self) -> list[Part]:
        """The tables: first the dynamic symbols, then the static ones."""
        parts: list[Part] = []
        try:
            parts.append((self._rule, dynamic_table(self._elf)))
        except FormatError as error:
            self.notes.append(str(error))
        if self._names is not None:
            parts.extend(self._names.parts())
            self.notes.extend(self._names.notes)
        return parts

    def at(self, vaddr: int) -> Place:
        """Return the place at link-time address `vaddr`."""
        self._asked += 1
        if self._index is None and self._asked > _FEW:
            self._index = SymbolIndex([symbols for _, symbols in self.parts], self._bounds())
        if self._index is None:
            hit = scan([symbols for _, symbols in self.parts], self._bounds(), vaddr)
        else:
            hit = self._index.find(vaddr)
        return self._place(vaddr, hit)

    def at_all(self, vaddrs: list[int]) -> list[Place]:
        """Return the place at each of many link-time addresses, in order."""
        if len(vaddrs) <= _FEW and self._index is None:
            return [self.at(vaddr) for vaddr in vaddrs]
        places = []
        symbols, parts = self._cache, self.parts
        for vaddr, hit in zip(vaddrs, self._hits(vaddrs), strict=True):
            what, part, row, offset = hit
            if what != INSIDE:
                places.append(self._place(vaddr, hit))
                continue
            symbol = symbols.get((part, row)) or self._symbol(part, row)
            places.append(Place(vaddr, what, symbol, parts[part][0], offset))
        return places

    def _hits(self, vaddrs: list[int]) -> list[Hit]:
        """Find the symbols at many addresses, in order."""
        if self._index is None:
            tables, bounds = [symbols for _, symbols in self.parts], self._bounds()
            count = sum(map(len, tables))
            is_first = not self._asked
            self._asked += 1
            if is_first and len(vaddrs) <= count // _MANY_SYMBOLS:  # there may be no further call
                return SymbolIndex(tables, bounds, sorted(vaddrs)).find_all(vaddrs)
            self._index = SymbolIndex(tables, bounds)
        return self._index.find_all(vaddrs)

    def _bounds(self) -> list[tuple[int, int]]:
        """Return (start, end) of the PT_LOADs; no symbol extends beyond its own."""
        bounds = [
            (segment.vaddr, segment.vaddr + segment.memsz)
            for segment in self._elf.segments
            if segment.type == c.PT_LOAD
        ]
        return bounds or [(0, 1 << 63)]

    def _place(self, vaddr: int, hit: Hit) -> Place:
        what, part, row, offset = hit
        if what != INSIDE:
            stub = self._stub(vaddr)
            if stub is not None:
                return stub
        if part < 0:
            return Place(vaddr, GAP)
        symbol = self._symbol(part, row)
        if what == UNSIZED and offset and symbol.name in _FURNITURE:
            return Place(vaddr, GAP)
        return Place(vaddr, what, symbol, self.parts[part][0], offset)

    def _symbol(self, part: int, row: int) -> ElfSymbol:
        key = part, row
        symbol = self._cache.get(key)
        if symbol is None:
            symbol = self._cache[key] = self.parts[part][1].symbol(row)
        return symbol

    @once
    def _stubs(self) -> X86Stubs:
        from soscope.binfmt.isa.x86.stubs import X86Stubs

        return X86Stubs(self._elf, Sections.read(self._elf))

    def _stub(self, vaddr: int) -> Place | None:
        segment = _segment_at(self._elf.segments, vaddr)
        if segment is None or not segment.flags & c.PF_X:
            return None
        try:
            stub = self._stubs.at(vaddr)
        except FormatError as error:
            self.notes.append(str(error))
            return None
        if stub is None:
            return None
        symbol = None
        if stub.symbol and self.parts and self.parts[0][0] == self._rule:
            table = self.parts[0][1]
            if stub.symbol < len(table):
                symbol = table.symbol(stub.symbol)
        return Place(vaddr, STUB, symbol, self._rule, vaddr - stub.vaddr, stub.slot)


def _segment_at(segments: list[Segment], vaddr: int) -> Segment | None:
    for segment in segments:
        if segment.type == c.PT_LOAD and 0 <= vaddr - segment.vaddr < segment.memsz:
            return segment
    return None
