# SPDX-License-Identifier: Apache-2.0
"""Stubs on aarch64 in ELF and Mach-O files: their slots and their lazy resolution."""

from __future__ import annotations

import re
from struct import unpack_from

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.macho.stubs import MachoDecoder, StubHelper, StubWay
from soscope.binfmt.stubs.finder import Code, Decoder, FoundStub, SlotTable
from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub
from soscope.model.arch import Arch
from soscope.model.filemap import FileSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The argument that an unbound slot passes to the lazy resolver on aarch64.
#
# PLT0 and the resolver compute it from the address of the slot. glibc:
# sysdeps/aarch64/dl-trampoline.S.

_TIMES = 3  # bytes of relocation per byte of slot
_RESERVED = 3  # words of .got.plt before the first slot


def argument_of(mapped: ElfMap, slot: FileSlot, _helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call.

    Return None if there is no DT_PLTGOT, and so no way to compute it.
    """
    got = mapped.image.dynamic.get(c.DT_PLTGOT)
    if got is None:
        return None
    return (slot.vaddr - got - _RESERVED * (mapped.bits // 8)) * _TIMES


# Stubs and stub helpers of arm64, arm64e and arm64_32.
#
#     adrp x16, slot@page; ldr x16, [x16, slot@off]; br x16       __stubs
#     nop; ldr x16, slot; br x16                                  the same, when near
#     adrp x17; add x17; ldr x16, [x17]; braa x16, x17            __auth_stubs
#     adrp x1; ldr x1, [x1]; <one of these>                       __objc_stubs
#     adrp x1; ldr x1, [x1]; b stub                               __objc_stubs, small
#     ldr w16, 1f; b shared; 1: .long offset                      helper
#
# The decoder follows the values that these few instructions give to registers, so that other
# sequences with the same effect are recognised, too.

_M64 = 0xFFFFFFFFFFFFFFFF
_MACHO_NOP = 0xD503201F
_LONGEST = 10  # instructions
_SELECTOR = 1  # x1: the second argument of objc_msgSend


def macho_decoder(_bits: int) -> MachoDecoder:
    """Return the decoder of stubs and stub helpers."""
    return MachoDecoder(macho_stub, macho_helper, 4)


def macho_stub(code: bytes, at: int, vaddr: int) -> StubWay | None:
    """Decode a stub, None if there is none."""
    values: dict[int, int] = {}  # register -> address in it
    loaded: dict[int, int] = {}  # register -> address it was loaded from
    for index in range(min(_LONGEST, (len(code) - at) // 4)):
        (word,) = unpack_from("<I", code, at + 4 * index)
        pc = vaddr + 4 * index
        low, mid = word & 31, word >> 5 & 31
        if word & 0x9F000000 in (0x90000000, 0x10000000):  # adrp, adr
            offset = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            offset -= (offset & 0x100000) << 1
            if word >> 31:
                values[low] = (pc & ~0xFFF) + (offset << 12) & _M64
            else:
                values[low] = pc + offset & _M64
        elif word & 0xFF800000 == 0x91000000 and mid in values:  # add, immediate
            value = word >> 10 & 0xFFF
            values[low] = values[mid] + (value << 12 if word >> 22 & 1 else value) & _M64
        elif word & 0xBFC00000 == 0xB9400000 and mid in values:  # ldr, 64 or 32 bits
            scale = 3 if word >> 30 & 1 else 2
            loaded[low] = values[mid] + ((word >> 10 & 0xFFF) << scale) & _M64
            values.pop(low, None)
        elif word & 0xBF000000 == 0x18000000:  # ldr, literal
            loaded[low] = pc + _branch(word, 19, 5) & _M64
            values.pop(low, None)
        elif word & 0xFFFFFC1F == 0xD61F0000 and mid in loaded:  # br
            return StubWay(4 * index + 4, loaded[mid], selector_at=loaded.get(_SELECTOR, 0))
        elif word & 0xFEFFF800 == 0xD61F0800 and mid in loaded:  # braa, brab, braaz, brabz
            selector = loaded.get(_SELECTOR, 0)
            return StubWay(4 * index + 4, loaded[mid], selector_at=selector, signed=True)
        elif word >> 26 == 0x05 and _SELECTOR in loaded:  # b
            target = pc + _branch(word, 26, 0) & _M64
            return StubWay(4 * index + 4, target=target, selector_at=loaded[_SELECTOR])
        elif word != _MACHO_NOP:
            return None
    return None


def macho_helper(code: bytes, at: int, vaddr: int) -> StubHelper | None:
    """Decode a stub helper; the code that all helpers share is not a helper."""
    if len(code) < at + 12:
        return None
    load, jump, offset = unpack_from("<III", code, at)
    # the literal lies behind the jump: ldr w16 loads from eight bytes ahead
    if load != 0x18000050 or jump >> 26 != 0x05:
        return None
    return StubHelper(vaddr, 12, offset, None, vaddr + 4 + _branch(jump, 26, 0) & _M64)


def _branch(word: int, bits: int, shift: int) -> int:
    """Return the signed offset, in bytes, in `bits` bits of `word`."""
    value = word >> shift & (1 << bits) - 1
    value -= (value & 1 << (bits - 1)) << 1
    return value << 2


# Call sites in stubs of aarch64: at the jump, when x16 and x17 hold all computed values.

# br x17, braa x17, x16
_JUMP = re.compile(rb"(?:.{4})*?(?:\x20\x02\x1f\xd6|\x30\x0a\x1f\xd7)", re.DOTALL)


def place(code: bytes, _order: str) -> SiteInStub:
    """Return the call site in a stub: the instruction that all its calls run."""
    jump = _JUMP.match(code)
    return SiteInStub(0, PASS) if jump is None else SiteInStub(jump.end() - 4, JUMP)


# Stubs on aarch64, as GNU ld, gold, LLD and mold write them: with BTI, with PAC, with both.
#
# ELF for the Arm 64-bit Architecture, "Program Linkage". A stub addresses its slot by its page and
# the offset in the page. LLD writes `bti c` only into stubs whose address is taken, so that stubs
# of both kinds, with the same size, lie side by side.

_PLACES = (".plt", ".iplt")

# [bti c] adrp x16, page; ldr x17, [x16, #offset]; [add x16, x16, #offset]; [autia1716]; br x17 or
# braa x17, x16. The 32-bit registers are used in ILP32.
_STUB = re.compile(
    rb"(?=((?:\x5f\x24\x03\xd5)?"
    rb"([\x10\x30\x50\x70\x90\xb0\xd0\xf0]..[\x90\xb0\xd0\xf0])"
    rb"(\x11.[\x40-\x7f][\xf9\xb9])"
    rb"(\x10.[\0-\x3f][\x91\x11])?"
    rb"(?:\x9f\x21\x03\xd5)?"
    rb"(?:\x20\x02\x1f\xd6|\x30\x0a\x1f\xd7)))",
    re.DOTALL,
)
_NOP = b"\x1f\x20\x03\xd5"
_FIRST = b"\xf0\x7b\xbf\xa9"  # stp x16, x30, [sp, #-16]!: the first stub, which calls the loader
_SIZES = (16, 24, 32)


def decoder(_arch: Arch) -> Decoder:
    """Return the decoder of stubs."""
    return Decoder(_find, _PLACES)


def _find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data, base, slots = code.data, code.vaddr, table.slots
    is_plt = code.section is not None
    from_bytes = int.from_bytes
    last = -1
    for match in _STUB.finditer(data):
        at = match.start()
        start = base + at
        if start & 3 or match.end(1) == last:
            continue
        load = from_bytes(match[3], "little")
        if load >> 5 & 31 != 16:
            continue
        page = from_bytes(match[2], "little")
        pages = (page >> 5 & 0x7FFFF) << 2 | page >> 29 & 3
        pages -= (pages & 1 << 20) << 1
        where = base + match.start(2)
        scale = load >> 30  # 2 or 3, for 4 or 8 bytes
        slot = (where & ~0xFFF) + (pages << 12) + ((load >> 10 & 0xFFF) << scale)
        if slot not in slots and (not is_plt or data[at - 4 : at] == _FIRST):
            continue
        last = match.end(1)
        if not is_plt and match[4] is None and data[last : last + 4] != _NOP:
            continue  # it is a tail call
        yield FoundStub(start, _size(data, at, last), slot, table.kind(code, slot))


def _size(data: bytes, at: int, end: int) -> int:
    """Return the size of a stub with the nops that fill it up."""
    while data[end : end + 4] == _NOP and end - at not in _SIZES:
        end += 4
    if end - at == _SIZES[0] and data[end : end + 8] == _NOP + _NOP:
        end += 8  # next to stubs with `bti c`
    return end - at
