# SPDX-License-Identifier: Apache-2.0
"""Stubs and slots on PowerPC, 32 and 64 bits, ELF and Mach-O, and the lazy resolver."""

from __future__ import annotations

import re
from bisect import bisect_right
from struct import unpack_from

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap, Filled
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.symboltable import dynamic_table
from soscope.binfmt.isa.ppc.pic import function_at, shapes, tied
from soscope.binfmt.macho.stubs import MachoDecoder, StubWay
from soscope.binfmt.stubs.finder import (
    Code,
    Decoder,
    FoundStub,
    SlotTable,
    big_endian,
    numbers,
    signed,
)
from soscope.binfmt.stubs.finder import branches as stub_branches
from soscope.binfmt.stubs.sites import CALL, JUMP, PASS, SiteInStub, StubSite
from soscope.errors import FormatError
from soscope.model.arch import Arch
from soscope.model.filemap import CALL_STUB, IPLT, PLT, FileSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Entries of the BSS PLT of 32-bit PowerPC, which consist of code that the loader writes.
#
# For a near function, glibc (sysdeps/powerpc/powerpc32/dl-machine.c) writes a branch to it.
# Otherwise the entry loads a number into r11 and branches to a common piece of code in the PLT. One
# such piece calls the resolver, the other loads an address from a table at r11 and jumps to it.

SIZE = 16  # bytes of the longest entry

_ENTRY_MASK = 0xFFFF_FFFF
_OPCODE = 0xFFFF_0000
_LI_R11 = 0x3960_0000
_LIS_R11 = 0x3D60_0000
_ADDI_R11 = 0x396B_0000
_ADDIS_R11 = 0x3D6B_0000
_LWZ_R11 = 0x816B_0000
_ENTRY_BRANCH = 18  # the upper six bits
_LINK, _ENTRY_ABSOLUTE = 1, 2


def target(code: bytes, at: int, word: Callable[[int], int | None]) -> int | None:
    """Return the target of the entry at `at`, None if it is unknown, 0 if the entry is empty.

    The target of an unbound entry lies in the PLT. `word` reads memory.
    """
    words = [int.from_bytes(code[place : place + 4], "big") for place in range(0, len(code), 4)]
    if len(words) < 2:
        return None
    if not words[0]:
        return 0
    number, place = 0, 0
    if words[0] & _OPCODE == _LI_R11:
        number, place = _low(words[0]), 1
    elif words[0] & _OPCODE == _LIS_R11 and words[1] & _OPCODE == _ADDI_R11:
        number, place = (_low(words[0]) << 16) + _low(words[1]), 2
    if place >= len(words):
        return None
    to = _branched(words[place], at + 4 * place)
    if to is None or not place:
        return to
    first, second = word(to), word(to + 4)
    if first is None or second is None:
        return None
    if first & _OPCODE == _ADDIS_R11 and second & _OPCODE == _LWZ_R11:
        return word(number + (_low(first) << 16) + _low(second) & _ENTRY_MASK)
    return to


def _branched(word: int, at: int) -> int | None:
    """Return the target of a branch, None if it is no branch."""
    if word >> 26 != _ENTRY_BRANCH or word & _LINK:
        return None
    far = word & 0x03FF_FFFC
    far -= (far & 0x0200_0000) << 1
    return far + (0 if word & _ENTRY_ABSOLUTE else at) & _ENTRY_MASK


def _low(word: int) -> int:
    """Return the signed number in an instruction."""
    return ((word & 0xFFFF) ^ 0x8000) - 0x8000


# Stubs of ppc and ppc64; all share one helper, dyld_stub_binding_helper.
#
#     lis r11, ha(slot); lwzu r12, lo(slot)(r11); mtctr r12; bctr             __symbol_stub1
#     mflr r0; bcl 20, 31, 1f; 1: mflr r11; addis r11, r11, ha(slot-1b);
#     mtlr r0; lwzu r12, lo(slot-1b)(r11); mtctr r12; bctr                    __picsymbolstub1
#
# Older stubs use lwz and add the rest to r11 afterwards (__symbol_stub, __picsymbol_stub). ppc64
# uses ldu. The helper gets the address of the slot in r11.

_LONGEST = 10  # instructions
_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF
_MACHO_BCTR = 0x4E800420


def macho_decoder(bits: int) -> MachoDecoder:
    """Return the decoder of stubs and stub helpers."""
    return MachoDecoder(macho_stub64 if bits == 64 else macho_stub32, None, 4)


def macho_stub32(code: bytes, at: int, vaddr: int) -> StubWay | None:
    """Decode a stub of ppc, None if there is none."""
    return _follow(code, at, vaddr, _M32)


def macho_stub64(code: bytes, at: int, vaddr: int) -> StubWay | None:
    """Decode a stub of ppc64, None if there is none."""
    return _follow(code, at, vaddr, _M64)


def _follow(code: bytes, at: int, vaddr: int, mask: int) -> StubWay | None:
    values: dict[int, int] = {0: 0}  # in addis, register 0 means the number 0
    link = slot = 0
    counter = False
    for index in range(min(_LONGEST, (len(code) - at) // 4)):
        (word,) = unpack_from(">I", code, at + 4 * index)
        top = word >> 26
        target, base, low = word >> 21 & 31, word >> 16 & 31, word & 0xFFFF
        low -= (low & 0x8000) << 1
        if word == 0x429F0005:  # bcl 20, 31, next
            link = vaddr + 4 * index + 4
        elif word & 0xFC1FFFFF == 0x7C0802A6:  # mflr
            if link:
                values[target] = link
        elif word & 0xFC1FFFFF == 0x7C0803A6:  # mtlr
            pass  # restores the link register, changes no value here
        elif top in (14, 15) and base in values:  # addi, addis
            values[target] = values[base] + (low << 16 if top == 15 else low) & _M64
        elif top in (32, 33) and base in values:  # lwz, lwzu
            slot = values[base] + low
        elif top == 58 and word & 3 in (0, 1) and base in values:  # ld, ldu
            slot = values[base] + (low & ~3)
        elif word & 0xFC1FFFFF == 0x7C0903A6:  # mtctr
            counter = True
        elif word == _MACHO_BCTR and counter and slot:
            return StubWay(4 * index + 4, slot & mask, relative=bool(link))
        else:
            return None
    return None


# The targets of unbound lazy slots on 64-bit PowerPC, whose .plt has no bytes in the file.
#
# The loader fills .plt with the addresses of branches, one for each slot in order. DT_PPC64_GLINK
# leads to these branches (glibc, sysdeps/powerpc/powerpc64/dl-machine.h:
# elf_machine_runtime_setup).

DT_PPC64_GLINK = 0x70000000
_EF_PPC64_ABI = 3  # e_flags: 2 is ELFv2, 0 and 1 are ELFv1

FIRST = 32  # bytes from the value of DT_PPC64_GLINK to the first branch
_SHORT = 0x8000  # ELFv1: slots from this number on take one more instruction


def is_elfv2(image: ElfReader) -> bool:
    """Return whether a slot is an address (ELFv2), not a descriptor of three words (ELFv1)."""
    abi = image.header.flags & _EF_PPC64_ABI if image.header else 0
    return abi == 2 or (not abi and image.encoding.order == "<")


def more(
    image: ElfReader, filled: Iterable[Filled], arch: Arch, _partial: list[str]
) -> tuple[list[Filled], dict[int, int]]:
    """Return no further slots, and the first targets of the lazy slots in `filled`."""
    if arch.bits == 32:
        return [], {}
    lazy = [entry.vaddr for entry in filled if entry.kind == arch.relocations.jump_slot]
    return [], helpers_of(image, lazy)


def helpers_of(image: ElfReader, slots: list[int]) -> dict[int, int]:
    """Return slot -> its target before it is bound, for the JMP_SLOTs `slots`."""
    glink, plt = image.dynamic.get(DT_PPC64_GLINK), image.dynamic.get(c.DT_PLTGOT)
    if glink is None or plt is None:
        return {}
    if is_elfv2(image):
        reserved, size = 16, 8
    else:
        reserved, size = 24, 24
    helpers = {}
    for vaddr in slots:
        index, rest = divmod(vaddr - plt - reserved, size)
        if rest or index < 0:
            continue
        if size == 8:
            helpers[vaddr] = glink + FIRST + 4 * index
        else:
            helpers[vaddr] = glink + FIRST + 8 * index + 4 * max(0, index - _SHORT)
    return helpers


# The argument that an unbound slot passes to the lazy resolver on PowerPC.
#
# The resolver computes it from the address of the branch that the slot leads to. In ELFv1, that
# branch passes the index of the relocation, and the trampoline turns it into an offset. glibc:
# sysdeps/powerpc/powerpc{32,64}/dl-trampoline.S.

_GIVEN = re.compile(rb"\x38\0(..)[\x48-\x4b]", re.DOTALL)  # ELFv1: li %r0, index; b
_BRANCH = 4  # bytes


def argument_of(mapped: ElfMap, _slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
    """
    entry = mapped.image.encoding.rela.size
    if mapped.bits == 32:
        first = next((slot.helper for slot in mapped.slots if slot.helper), helper)
        return (helper - first) // _BRANCH * entry
    if is_elfv2(mapped.image):
        glink = mapped.image.dynamic.get(DT_PPC64_GLINK)
        return None if glink is None else (helper - glink - FIRST) // _BRANCH * entry
    given = _GIVEN.match(mapped.code(helper))
    return None if given is None else int.from_bytes(given[1], "big") * entry


# Choose the decoder of stubs on PowerPC.


def decoder(arch: Arch) -> Decoder:
    """Return the decoder of stubs, for 32 or 64 bits; the stubs lie among the functions."""
    if arch.bits == 32:
        return Decoder(find32, (), in_place32)

    return Decoder(find64, ())


# Stubs on 32-bit PowerPC.
#
# With the secure PLT, stubs lie among the functions, and .plt has only addresses. A stub of
# position-independent code addresses its slot by the distance from %r30, which its caller sets
# (`soscope.binfmt.isa.ppc.pic`). With the older BSS PLT the slot is the stub: the loader writes
# code into it (GNU ld, elf32-ppc.c; the PowerPC supplement to the System V ABI).

DT_PPC_GOT = 0x70000000

# lis %r11, high; lwz %r11, low(%r11); mtctr %r11; bctr
_ABSOLUTE = re.compile(
    rb"\x3d\x60(?P<high>..)\x81\x6b(?P<low>..)\x7d\x69\x03\xa6\x4e\x80\x04\x20", re.DOTALL
)
_ENTRY = 8  # bytes of an entry of the BSS PLT
_SIZE = 16
_MASK = 0xFFFF_FFFF


def find32(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    for match in _ABSOLUTE.finditer(code.data):
        slot = (signed(match["high"]) << 16) + signed(match["low"]) & _MASK
        vaddr = code.vaddr + match.start()
        if not vaddr & 3 and slot in table.slots:
            yield FoundStub(vaddr, _SIZE, slot, IPLT if table.slots[slot] else CALL_STUB)
    slots = None
    for start, end, _ in shapes(code.data):
        vaddr = code.vaddr + start
        if vaddr & 3:
            continue
        if slots is None:
            slots = tied(table)
        slot = slots.get(vaddr, -1)
        if slot >= 0:
            yield FoundStub(vaddr, end - start, slot, IPLT if table.slots.get(slot) else CALL_STUB)


def in_place32(table: SlotTable) -> Iterator[FoundStub]:
    """Yield the slots that are stubs at the same time: the entries of a BSS PLT."""
    if table.tag(DT_PPC_GOT) is not None:
        return
    code = [
        segment
        for segment in table.image.segments
        if segment.type == c.PT_LOAD and segment.flags & c.PF_X
    ]
    for vaddr in table.calls:
        if any(0 <= vaddr - segment.vaddr < segment.memsz for segment in code):
            yield FoundStub(vaddr, _ENTRY, vaddr, PLT)


# The path of an unbound slot to the resolver on PowerPC, found without symbols.
#
#     stub ─► slot ─► its branch in .glink ─► PLTresolve ─► .plt[0] or got[1]: the resolver ─► bctr
#
# glibc: sysdeps/powerpc/powerpc{32,64}/dl-trampoline.S, dl-machine.h.

_BCTR = 0x4E800420
_NOP = 0x60000000
_MOST = 400  # bytes of a resolver's trampoline


def branches(mapped: ElfMap) -> dict[int, int]:
    """Return slot -> its branch in .glink, to which it leads when unbound (link-time addresses).

    These branches exist even if the loader binds all slots at once.
    """
    machine = mapped.machine
    calls = [slot.vaddr for slot in mapped.slots if slot.stubs and slot.kind.endswith("JMP_SLOT")]
    if machine is None:
        return {}
    if machine.bits == 64:
        return helpers_of(mapped.image, calls)
    if mapped.tag(DT_PPC_GOT) is None:
        return {}
    word = mapped.image.encoding.word
    unbound = {}
    for vaddr in calls:
        try:
            (unbound[vaddr],) = word.unpack(mapped.image.read(vaddr, word.size, "slot"))
        except FormatError:
            continue  # no bytes in the file: the loader fills it otherwise
    return unbound


def resolver_word(mapped: ElfMap) -> int | None:
    """Return the link-time address of the word with the resolver's address, None if none exists.

    The loader writes that address.
    """
    machine = mapped.machine
    if machine is not None and machine.bits == 64:
        return mapped.tag(c.DT_PLTGOT)
    got = mapped.tag(DT_PPC_GOT)
    return None if got is None else got + mapped.image.encoding.word.size


def end_of_resolver(code: bytes, order: str) -> int | None:
    """Return the offset of a resolver's jump to the function from its start, None if unknown."""
    words = numbers(big_endian(code[:_MOST], order)).tolist()
    return 4 * words.index(_BCTR) if _BCTR in words else None


def way_on(code: bytes, order: str) -> int | None:
    """Return the distance from a branch in .glink to its target; None if it must run itself.

    The last branches are nops in front of a branch, or in front of the code that the branches
    lead to. A thread that runs such nops passes other slots' branches.
    """
    for index, word in enumerate(numbers(big_endian(code, order))):
        if word >> 26 == 18 and not word & 3:
            distance = word & 0x03FF_FFFC
            return 4 * index + distance - ((distance & 0x0200_0000) << 1)
        if word != _NOP:
            return 4 * index or None
    return None


# TOC pointers of 64-bit PowerPC: the values of %r2 in the code of an image.

# addis %r2, %r12, high or lis %r2, high; addi %r2, %r2, low: a function sets its TOC pointer
# (ELFv2)
_SET = re.compile(rb"\x3c(?P<from>[\x4c\x40])(?P<high>..)\x38\x42(?P<low>..)", re.DOTALL)
_TOC_ABSOLUTE = b"\x40"
_BIAS = 0x8000  # from the start of the TOC to the pointer's target
_ALIGN = 256  # GNU ld rounds the start of the TOC down
_TOC_MASK = (1 << 64) - 1
_TOC_KEY = "toc"
DT_INIT = 12
DT_FINI = 13


def toc_pointers(table: SlotTable) -> tuple[int, ...]:
    """Return the TOC pointers of an image: one, except in very large images."""
    known = tuple(dict.fromkeys(pointer for _, pointer in _functions(table)))
    return known or tuple(base + _BIAS for base in table.bases if base != table.got)[:1]


def pointer_at(table: SlotTable, place: int) -> int | None:
    """Return the TOC pointer of the code at `place`, None if it may be one or another.

    The function around `place` tells. If it does not, the functions before and behind it do,
    because code with the same pointer lies together.
    """
    functions = _functions(table)
    index = bisect_right(functions, (place, _TOC_MASK))
    if index and functions[index - 1][0] >= function_at(table, place):
        return functions[index - 1][1]
    beside = {pointer for _, pointer in functions[max(0, index - 1) : index + 1]}
    return beside.pop() if len(beside) == 1 else None


def _functions(table: SlotTable) -> list[tuple[int, int]]:
    """Return (start of a function, its TOC pointer) of all known functions, sorted."""
    known: list[tuple[int, int]] | None = table.notes.get(_TOC_KEY)
    if known is None:
        functions = _of_code(table) if is_elfv2(table.image) else _of_descriptors(table)
        known = table.notes[_TOC_KEY] = sorted(set(functions))
    return known


def _of_code(table: SlotTable) -> Iterator[tuple[int, int]]:
    """Yield (function, TOC pointer) as functions of ELFv2 compute it at their global entries."""
    from soscope.binfmt.stubs.finder import all_code

    for code in all_code(table):
        for match in _SET.finditer(big_endian(code.data, table.image.encoding.order)):
            vaddr = code.vaddr + match.start()
            if vaddr & 3:
                continue
            value = (signed(match["high"]) << 16) + signed(match["low"])
            if match["from"] != _TOC_ABSOLUTE:
                value += vaddr
            if _is_data(table, value - _BIAS & _TOC_MASK):
                yield vaddr, value & _TOC_MASK


def _of_descriptors(table: SlotTable) -> Iterator[tuple[int, int]]:
    """Yield (function, TOC pointer) from the function descriptors that are known in the file."""
    image = table.image
    places = [table.tag(DT_INIT), table.tag(DT_FINI), image.header.entry if image.header else 0]
    try:
        symbols = dynamic_table(image)
    except FormatError as error:
        table.say(str(error))
    else:
        for _, info, _, section, value, _ in symbols.rows():
            if info & 15 == c.STT_FUNC and section != c.SHN_UNDEF:
                places.append(value)
    for place in places:
        if place:
            entry, pointer = table.word(place), table.word(place + 8)
            if entry is None or pointer is None:
                continue
            if _is_data(table, pointer - _BIAS & _TOC_MASK):
                yield entry, pointer


def _is_data(table: SlotTable, vaddr: int) -> bool:
    return any(
        segment.type == c.PT_LOAD
        and segment.flags & c.PF_W
        and -_ALIGN < vaddr - segment.vaddr <= segment.memsz
        for segment in table.image.segments
    )


# Stubs on 64-bit PowerPC, ELFv1 and ELFv2, in both byte orders.
#
# The linker puts stubs among the functions, one group for all code within reach. A stub addresses
# its slot by the distance from the TOC pointer, %r2, or from itself (GNU ld, elf64-ppc.c:
# build_plt_stub; the OpenPOWER ABI, "Procedure Linkage Table"). Code that loads a slot without a
# stub, as compiled with -fno-plt, ends with a call and is not a stub.

_BCTR_WORD = rb"\x4e\x80\x04\x20"
# mtctr %r12 (%r11 before GNU ld 2.22); loads of the rest of an ELFv1 descriptor, and a barrier
# before them; then bctr, or bctr only if the slot is filled, or, in a stub that checks whether a
# thread-local block exists already, a call
_LEAVE = re.compile(
    rb"\x7d[\x89\x69]\x03\xa6"
    rb"(?:\x38\x42..|\x39\x6b..|\x7d\x8b\x62\x78|\x7c\x42\x5a\x14|\x7d\x82\x62\x78|\x7d\x6b\x12\x14"
    rb"|[\xe8\xe9][\x42\x4b\x4c\x62\x6b\x6c]..){0,6}"
    rb"(?:"
    + _BCTR_WORD
    + rb"|\x28\x22\0\0\x4c\xe2\x04\x20[\x48-\x4b]...|(?P<call>\x4e\x80\x04\x21))",
    re.DOTALL,
)
# ld %r0, 0(%r3); ld %r12, 8(%r3); cmpdi %r0, 0; mr %r0, %r3; add %r3, %r12, %r13; beqlr; mr %r3,
# %r0; then the return address is saved
_TLS = re.compile(
    rb"[\xe8\xe9][\x03\x63]\0\0\xe9\x83\0\x08\x2c[\x20\x2b]\0\0\x7c\x60\x1b\x78\x7c\x6c\x6a\x14"
    rb"\x4d\x82\0\x20\x7c\x03\x03\x78(?:.{4}){0,16}\Z",
    re.DOTALL,
)
_TLS_END = b"\x7c\x03\x03\x78"
_SAVE = rb"(?:\xf8\x41\0[\x18\x28])?"  # std %r2, into the caller's frame
_SAVED = re.compile(rb"\xf8\x41\0[\x18\x28]")
# an instruction that does not go on to the next, or filling: blr, bctr, b, nop, trap, zeros
_AWAY = re.compile(
    rb"\x4e\x80[\0\x04]\x20|[\x48-\x4b]..[^\x01\x03]|\x60\0\0\0|\x7f\xe0\0\x08|\0{4}",
    re.DOTALL,
)
_LOAD = re.compile(
    # ld %r12, near(%r2)
    rb"(?:" + _SAVE + rb"\xe9(?:\x82|\x62)(?P<near>..)(?:\x38\x42..)?"
    # addis %r11 or %r12, %r2, high; ld %r12, low(that)
    + rb"|" + _SAVE + rb"\x3d[\x62\x82](?P<high>..)" + _SAVE
    + rb"\xe9[\x8b\x8c\x6c](?P<low>..)(?:\x39\x6b..)?"
    # pld %r12, distance
    + rb"|" + _SAVE + rb"(?:\x60\0\0\0)?(?P<prefix>\x04[\x10-\x13]..)\xe5\x80(?P<suffix>..)"
    # mflr %r12; bcl 20, 31, .+4; mflr %r11; mtlr %r12; [addis %r12, %r11, high;] ld %r12, low(that)
    + rb"|" + _SAVE + rb"\x7d\x88\x02\xa6\x42\x9f\0\x05(?P<here>\x7d\x68\x02\xa6\x7d\x88\x03\xa6)"
    + rb"(?:\x3d\x8b(?P<above>..)\xe9\x8c|\xe9\x8b)(?P<beside>..)"
    # addis %r12, %r12, high; ld %r12, low(%r12): a stub that serves as a function's address
    + rb"|\x3d\x8c(?P<own>..)\xe9\x8c(?P<rest>..)"
    + rb")\Z",
    re.DOTALL,
)  # fmt: skip
_BEFORE = 48  # bytes of the longest code that loads a slot
_BEFORE_TLS = 96  # … and that checks for the block
_KEY = "branched to"
_MASK_STUBS64 = (1 << 64) - 1


def find64(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data = big_endian(code.data, table.image.encoding.order)
    pointers = toc_pointers(table)
    for leave in _LEAVE.finditer(data):
        at = leave.start()
        if code.vaddr + at & 3:
            continue
        first = max(0, at - _BEFORE)
        load = _LOAD.search(data[first:at])
        if load is None:
            continue
        start = first + load.start()
        tls = _tls(data, start)
        if tls is None and leave["call"] is not None:
            continue
        start = start if tls is None else tls
        vaddr = code.vaddr + start
        if vaddr & 3:
            continue
        slots = _slots_of(code.vaddr + first, load, vaddr, pointers, table)
        if not slots or (tls is None and not _is_reached(code.vaddr, data, start, load, table)):
            continue
        if len(slots) == 1:
            kind = IPLT if table.slots[slots[0]] else CALL_STUB
            yield FoundStub(vaddr, leave.end() - start, slots[0], kind)
        else:
            table.say("call stubs whose TOC pointer is one of several: they have no slot")
            yield FoundStub(vaddr, leave.end() - start, 0, CALL_STUB)


def in_place64(code: Code, table: SlotTable) -> Iterator[tuple[int, int, int]]:
    """Yield (vaddr, size, slot) of all code that loads a slot and goes to it, stub or not.

    `vaddr` is the address behind the load of the slot. `size` is the distance to the end of the
    call, 0 if the code does not return there.
    """
    data = big_endian(code.data, table.image.encoding.order)
    pointers = toc_pointers(table)
    for leave in _LEAVE.finditer(data):
        at = leave.start()
        first = max(0, at - _BEFORE)
        load = None if code.vaddr + at & 3 else _LOAD.search(data[first:at])
        if load is None or _tls(data, first + load.start()) is not None:
            continue
        vaddr = code.vaddr + first + load.start()
        slots = _slots_of(code.vaddr + first, load, vaddr, pointers, table)
        if len(slots) == 1:
            size = 0 if leave["call"] is None else leave.end() - at
            yield code.vaddr + at, size, slots[0]
        elif slots:
            table.say("calls through slots whose TOC pointer is one of several")


def _slots_of(
    base: int, load: re.Match[bytes], vaddr: int, pointers: tuple[int, ...], table: SlotTable
) -> list[int]:
    """Return the slots that `load` may load; `base` is the address of its bytes."""
    if load["near"] is None and load["high"] is None:
        slots = [_beside(base, load)]
    else:
        distance = _distance(load)
        told = _pointer(vaddr, pointers, table)
        slots = [
            pointer + distance & _MASK_STUBS64
            for pointer in (pointers if told is None else (told,))
        ]
    return [slot for slot in slots if slot in table.slots]


def _tls(data: bytes, start: int) -> int | None:
    """Return the start of a stub that first checks for a thread-local block, None if it is none."""
    first = max(0, start - _BEFORE_TLS)
    if data.find(_TLS_END, first, start) < 0:
        return None
    match = _TLS.search(data[first:start])
    return None if match is None else first + match.start()


def _is_reached(
    base: int, data: bytes, start: int, load: re.Match[bytes], table: SlotTable
) -> bool:
    """Return whether the code is a stub, not the end of a function that calls in place.

    The end of a function may have the same instructions, but it does not save %r2, the code above
    runs into it, and no branch leads there.
    """
    if load["own"] is not None or _SAVED.search(load[0]) is not None:
        return True
    if start and _AWAY.match(data, start - 4) is None:
        return False
    return base + start in _callers(table)


def _pointer(vaddr: int, pointers: tuple[int, ...], table: SlotTable) -> int | None:
    """Return the TOC pointer of the callers of a stub, None if they do not tell a single one."""
    if len(pointers) < 2:
        return None
    told = {pointer_at(table, place) for place in _callers(table).get(vaddr, ())} - {None}
    return told.pop() if len(told) == 1 else None


def _callers(table: SlotTable) -> dict[int, list[int]]:
    """Return target -> addresses of the branches to it."""
    known: dict[int, list[int]] | None = table.notes.get(_KEY)
    if known is None:
        from soscope.binfmt.stubs.finder import all_code

        known = table.notes[_KEY] = {}
        order = table.image.encoding.order
        for code in all_code(table):
            for place, target in stub_branches(code.vaddr, big_endian(code.data, order)):
                known.setdefault(target, []).append(place)
    return known


def _distance(load: re.Match[bytes]) -> int:
    """Return the distance from the TOC pointer to the slot."""
    if load["near"] is not None:
        return signed(load["near"]) & ~3
    return (signed(load["high"]) << 16) + (signed(load["low"]) & ~3)


def _beside(base: int, load: re.Match[bytes]) -> int:
    """Return the slot that a stub addresses by the distance from itself."""
    if load["own"] is not None:
        far = (signed(load["own"]) << 16) + (signed(load["rest"]) & ~3)
        return base + load.start() + far & _MASK_STUBS64
    if load["prefix"] is None:
        above = 0 if load["above"] is None else signed(load["above"]) << 16
        return base + load.start("here") + above + (signed(load["beside"]) & ~3) & _MASK_STUBS64
    high = int.from_bytes(load["prefix"], "big") & 0x3FFFF
    distance = high << 16 | int.from_bytes(load["suffix"], "big")
    if distance >> 33:
        distance -= 1 << 34
    return base + load.start("prefix") + distance & _MASK_STUBS64


# Call sites in stubs of PowerPC: the `mtctr` behind the load of the slot.
#
# Behind it a stub may branch. A 64-bit stub may be entered behind its first instruction. A stub of
# ELFv1 leaves by one of two branches, depending on whether the slot is filled. soscope skips what
# follows the `mtctr`, unless it is a call: such a stub saves the return address
# (__tls_get_addr_opt).

_MTCTR = (b"\x7d\x89\x03\xa6", b"\x7d\x69\x03\xa6")  # mtctr of r12, r11
_BCTRL = b"\x4e\x80\x04\x21"
_BASE = "r30"


def place(code: bytes, order: str) -> SiteInStub:
    """Return the call site in a stub: the instruction that all its calls run."""
    code = big_endian(code, order)
    at = max(map(code.rfind, _MTCTR))
    if at < 0 or at & 3:
        return SiteInStub(0, PASS)
    if code.find(_BCTRL, at) >= 0:
        return SiteInStub(at, PASS)
    shape = next(iter(shapes(code)), None)
    if shape is not None:
        return SiteInStub(at, JUMP, base=_BASE, distance=shape[2])
    return SiteInStub(at, JUMP)


def in_place(code: Code, table: SlotTable) -> Iterator[StubSite]:
    """Yield the call sites in code that loads slots without a stub; those in stubs come, too.

    On 32 bits there are none, because such code calls through other slots.
    """
    if table.image.encoding.bits == 64:
        for vaddr, size, slot in in_place64(code, table):
            yield StubSite(vaddr, slot, CALL, size) if size else StubSite(vaddr, slot, JUMP)
