# SPDX-License-Identifier: Apache-2.0
"""Stubs and slots on MIPS in all its encodings, and calls through the GOT."""

from __future__ import annotations

import re
import struct
from array import array
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap, Filled
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.stubs.finder import (
    Code,
    Decoder,
    FoundStub,
    SlotTable,
    big_endian,
    numbers,
    signed,
)
from soscope.binfmt.stubs.sites import ENTER, PASS, SiteInStub, StubSite
from soscope.errors import FormatError
from soscope.model.arch import GOT_WORD, STUBBED_GOT_WORD, Arch
from soscope.model.filemap import MIPS_STUB, PLT, FileSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Jumps and branches of MIPS, whose next instruction (the delay slot) runs before the jump.
#
# If a signal arrives between the two, the thread returns to the jump, which runs once more.

_JUMPS = frozenset((1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23))  # opcodes: regimm, j, jal, b…, b…l
_JR, _JALR = 8, 9
_COP1, _BC = 17, 8


def is_delayed(word: int) -> bool:
    """Return whether an instruction has a delay slot."""
    kind = word >> 26
    if kind == 0:
        return word & 63 in (_JR, _JALR)
    if kind == _COP1:
        return word >> 21 & 31 == _BC
    return kind in _JUMPS


# Code of soscope that slots of MIPS lead to, because a GDB stub cannot set registers there.
#
#     noticed:  lui $at; j common; addiu $at        $at is the address of the slot's cell
#     common:   lw $t9, ($at); rdhwr $v1, $29; jr $t9
#
#     passed:   lui $at; lw $t9, ($at); jr $t9
#
# All calls that soscope should notice run the same instruction, whatever their slot. At the entry
# of a function, $at and $v1 hold nothing of use, while unbound slots need $t7, $t8, $gp and $ra.

CELL = "r1"  # register with the address of the slot's cell, at `STOP`
STOP = 8  # offset of the stop in the code, in bytes
_NOTICED, _PASSED = 0, 16  # offsets in the code of one slot, in bytes
_OWN = 32
_BEFORE = 32
_LUI_AT, _ADDIU_AT, _LW_T9_AT = 0x3C01_0000, 0x2421_0000, 0x8C39_0000
_LW_T9_0, _RDHWR_V1, _JR_T9, _J = 0x8C39_0000, 0x7C03_E83B, 0x0320_0009, 0x0800_0000
_SEGMENT = 0xF000_0000  # a jump cannot leave its segment


def size(count: int) -> int:
    """Return the size in bytes of the code for `count` slots."""
    return _BEFORE + count * _OWN


def noticed(at: int, number: int) -> int:
    """Return the address for noticed calls of slot `number`; the code lies at `at`."""
    return at + _BEFORE + number * _OWN + _NOTICED


def passed(at: int, number: int) -> int:
    """Return the address for calls of slot `number` that soscope does not notice."""
    return at + _BEFORE + number * _OWN + _PASSED


def code(at: int, cells: int, count: int, order: str) -> bytes:
    """Return the code for `count` slots at address `at`, whose cells lie at `cells`.

    Return b"" if the code would cross a segment's end, which a jump cannot do.
    """
    if at & _SEGMENT != at + size(count) & _SEGMENT:
        return b""
    words = [_LW_T9_0, _RDHWR_V1, _JR_T9, 0, 0, 0, 0, 0]
    common = _J | (at & ~_SEGMENT) >> 2
    for number in range(count):
        cell = cells + 4 * number
        low = cell & 0xFFFF
        high = _LUI_AT | (cell - low >> 16) + (low >> 15) & 0xFFFF
        words += (high, common, _ADDIU_AT | low, 0)
        words += (high, _LW_T9_AT | low, _JR_T9, 0)
    return struct.pack(f"{order}{len(words)}I", *words)


# Slots on MIPS, which no relocation fills.
#
# From the symbol DT_MIPS_GOTSYM on, each dynamic symbol has one word of the GOT, in the order of
# the symbols. DT_MIPS_LOCAL_GOTNO other words stand before them. The loader fills all these words.
# The word of a function with a stub keeps the stub's address until the first call (MIPS psABI,
# "Global Offset Table"; glibc, sysdeps/mips/dl-machine.h: elf_machine_got_rel).

DT_MIPS_LOCAL_GOTNO = 0x7000000A
DT_MIPS_SYMTABNO = 0x70000011
DT_MIPS_GOTSYM = 0x70000013

SHORTER = 0x0600_0000  # e_flags: EF_MIPS_ARCH_ASE_MICROMIPS, EF_MIPS_ARCH_ASE_M16
STO_MIPS_PLT = 8  # st_other: the value is the address of a PLT entry
_MAX_BYTES = 1 << 28


class GotWord(NamedTuple):
    """One word of the GOT: `kind` as in model/arch.py, `symbol` an index into DT_SYMTAB.

    `helper` is the address of the stub that it leads to before it is bound, 0 if it has none.
    """

    vaddr: int
    kind: int
    symbol: int
    helper: int


def first_word(image: ElfReader) -> tuple[int, int, int] | None:
    """Return (vaddr of the word of symbol `first`, first, end), None if there is no such GOT."""
    tags = image.dynamic
    got, local = tags.get(c.DT_PLTGOT), tags.get(DT_MIPS_LOCAL_GOTNO)
    first, end = tags.get(DT_MIPS_GOTSYM), tags.get(DT_MIPS_SYMTABNO)
    if got is None or local is None or first is None or end is None:
        return None
    return got + local * image.encoding.word.size, first, end


def unlike(image: ElfReader) -> str:
    """Return why the calls of an image have forms that soscope does not know, "" if they do not."""
    flags = image.header.flags if image.header is not None else 0
    return "some of its code is MIPS16 or microMIPS" if flags & SHORTER else ""


def counted(image: ElfReader) -> tuple[int, int, int, dict[int, int]] | None:
    """Return the data by which the loader finds the lazy words of the GOT; None if there is no GOT.

    It is (address of the first word, number of words, address of the number of words before it,
    stub that each lazy word leads to), all link-time addresses.
    """
    where = first_word(image)
    dynamic = next((each for each in image.segments if each.type == c.PT_DYNAMIC), None)
    if where is None or dynamic is None:
        return None
    start, first, end = where
    tags = [tag for tag, _ in image.dynamic.entries]
    place = dynamic.vaddr + tags.index(DT_MIPS_LOCAL_GOTNO) * image.encoding.dynamic.size
    helpers = {word.vaddr: word.helper for word in read(image, []) if word.helper}
    return start, end - first, place + image.encoding.word.size, helpers


def more(
    image: ElfReader, _found: Iterable[Filled], _arch: Arch, partial: list[str]
) -> tuple[list[Filled], dict[int, int]]:
    """Return the words of the GOT that are slots, and the stubs to which the lazy ones lead."""
    words = read(image, partial)
    slots = [
        Filled(word.vaddr, word.kind, word.symbol, 0, word.symbol if word.helper else -1)
        for word in words
    ]
    return slots, {word.vaddr: word.helper for word in words if word.helper}


def read(image: ElfReader, partial: list[str]) -> list[GotWord]:
    """Return the words of the GOT that have symbols; report what is missing in `partial`."""
    where = first_word(image)
    if where is None or where[1] >= where[2]:
        return []
    start, first, end = where
    coding = image.encoding
    step, word = coding.symbol.size, coding.word
    try:
        at = image.locate_pointer(c.DT_SYMTAB)
    except FormatError as error:
        partial.append(str(error))
        return []
    if at is None:
        partial.append("no DT_SYMTAB: the words of the GOT have no symbols")
        return []
    wanted = (end - first) * step
    symbols = image.source.read(at + first * step, min(wanted, _MAX_BYTES))
    if len(symbols) < wanted:
        partial.append(
            f"DT_MIPS_SYMTABNO: symbols at offset {at + first * step:#x}:"
            f" {wanted} bytes expected, {len(symbols)} found"
        )
        symbols = symbols[: len(symbols) // step * step]
    count = len(symbols) // step
    try:
        words = image.source.read(image.locate(start), count * word.size)
    except FormatError:
        words = b""
    if len(words) < count * word.size:
        partial.append(
            f"GOT at vaddr {start:#x}: {count * word.size} bytes expected, {len(words)} found"
        )
    got_words = []
    for index, raw in enumerate(coding.symbol.iter_unpack(symbols)):
        if coding.bits == 64:
            _, info, other, section, value, _ = raw
        else:
            _, value, _, info, other, section = raw
        place = index * word.size
        content = word.unpack_from(words, place)[0] if place + word.size <= len(words) else value
        helper = 0
        if info & 15 == c.STT_FUNC:
            if section == c.SHN_UNDEF:
                helper = 0 if other & STO_MIPS_PLT else value
            elif content != value and section != c.SHN_COMMON:
                helper = content
        kind = STUBBED_GOT_WORD if helper else GOT_WORD
        got_words.append(GotWord(start + place, kind, first + index, helper))
    return got_words


# Stubs on MIPS in its shorter encodings, MIPS16 and microMIPS (GNU ld, elfxx-mips.c).
#
# The lowest bit of a code address tells that the code has such an encoding. Addresses here are
# without that bit.

# microMIPS: lw $t9, -0x7ff0($gp); move $t7, $ra; [lui $t8, high;] jalr $t9;
# li $t8, low or ori $t8, $t8, low
_SHORT_STUB = re.compile(
    rb"(?=(\xff\x3c\x80\x10(?:\x0d\xff|\0\x1f\x7a\x90)(?:\x41\xb8(?P<high>..))?"
    rb"(?:\x45\xd9|\x03\xf9\x0f\x3c)(?:(?P<alone>[\x33\x53]\0)|\x53\x18)(?P<low>..)))",
    re.DOTALL,
)
# addiu $v0, $pc, distance; lw $t9, 0($v0); jr $t9; move $t8, $v0
_BESIDE = re.compile(rb"(?=\x79([\0-\x7f]..)\xff\x22\0\0\x45\x99\x0f\x02)", re.DOTALL)
# lui $t7, high; lw $t9, low($t7); jr $t9; addiu $t8, $t7, low
_ABSOLUTE = re.compile(
    rb"(?=\x41\xaf(?P<high>..)\xff\x2f(?P<low>..)\0\x19\x0f\x3c\x33\x0f(?P=low))", re.DOTALL
)
# MIPS16: lw $v0, slot; lw $v1, 0($v0); move $t8, $v0; jr $v1; move $t9, $v1; nop; .word slot
_MIPS16 = re.compile(rb"(?=\xb2\x03\x9a\x60\x65\x1a\xeb\0\x65\x3b\x65\0(....))", re.DOTALL)
_MASK = 0xFFFF_FFFF


def find_short(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    order = table.image.encoding.order
    data = _halves(code.data, order)
    where = first_word(table.image)
    for match in _SHORT_STUB.finditer(data):
        index = symbol_index(match)
        start = code.vaddr + match.start()
        if where is not None and not start & 1 and index is not None:
            word, first, end = where
            if first <= index < end:
                slot = word + (index - first) * (table.image.encoding.bits // 8)
                yield FoundStub(start, len(match[1]), slot, MIPS_STUB)
    for match, slot, size in _entries(code.vaddr, data, order):
        start = code.vaddr + match.start()
        if not start & 1 and slot in table.slots:
            yield FoundStub(start, size, slot, PLT)


def _entries(vaddr: int, data: bytes, order: str) -> Iterator[tuple[re.Match[bytes], int, int]]:
    for match in _BESIDE.finditer(data):
        distance = int.from_bytes(match[1], "big")
        if distance >> 22:
            distance -= 1 << 23
        yield match, (vaddr + match.start() & ~3) + (distance << 2) & _MASK, 12
    for match in _ABSOLUTE.finditer(data):
        yield match, (signed(match["high"]) << 16) + signed(match["low"]) & _MASK, 16
    for match in _MIPS16.finditer(data):
        word = match[1] if order == ">" else match[1][2:] + match[1][:2]
        yield match, int.from_bytes(word, "big"), 16


def short_index_of(code: bytes, order: str) -> int | None:
    """Return the symbol's index in the stub at the start of `code`, None if there is none."""
    match = _SHORT_STUB.match(_halves(code, order))
    return None if match is None else symbol_index(match)


def symbol_index(match: re.Match[bytes]) -> int | None:
    """Return the symbol's index that a stub passes to the loader, None if it is incomplete.

    `match` has the groups `low`, `high` and `alone`.
    """
    low = int.from_bytes(match["low"], "big")
    if match["high"] is None:
        return low if match["alone"] is not None else None
    return int.from_bytes(match["high"], "big") << 16 | low if match["alone"] is None else None


def _halves(data: bytes, order: str) -> bytes:
    """Return code with each 16 bits in big-endian order."""
    if order == ">":
        return data
    halves = array("H", data[: len(data) & ~1])
    halves.byteswap()
    return halves.tobytes()


# Call sites in code of MIPS: a word of the GOT is loaded into $t9, and $t9 is called.
#
# The word is addressed by $gp, or a copy of it. The code does not tell which register has the copy,
# so a load of the same distance from another base looks alike. When a thread stops at the jump, the
# caller compares $t9 with the slot.
#
# Other instructions stand between load and jump, and the one in the delay slot runs before the
# function. All arguments are set only when both have run. Calls of bound slots do not go through
# the stubs of unbound ones.

_GP = 0x7FF0  # offset of $gp from the start of the GOT
_LOAD = re.compile(rb"[\x8c-\x8f](?P<registers>.)(?P<offset>..)", re.DOTALL)  # lw
_T9, _SP = 25, 29
_CALL_T9, _JUMPS_T9 = 0x0320F809, (0x03200008, 0x03200009)
_JUMP_RA = 0x03E00008
_NEAR = 24  # instructions from the load of a slot to the call, at most
_FAR = 4096  # instructions of one function, at most
_JUMP_IN_PLT = re.compile(rb"(?:.{4})*?\x03\x20\x00[\x08\x09]", re.DOTALL)
_SAVED = frozenset((*range(8, 26), 28, 30)) | {2, 3}  # registers that may keep a function's address
_BOTH = 8  # bytes of a jump with its delay slot


def place(code: bytes, order: str) -> SiteInStub:
    """Return the call site in an entry of the PLT."""
    jump = _JUMP_IN_PLT.match(big_endian(code, order))
    return SiteInStub(0 if jump is None else jump.end() - 4, PASS)


def in_place(code: Code, table: SlotTable) -> Iterator[StubSite]:
    """Yield the call sites in code."""
    words, loads = _loads(code, table)
    for index, register, slot in loads:
        at = _jump_behind(words, index) if register == _T9 else 0
        if at:
            yield StubSite(code.vaddr + 4 * at, slot, ENTER, _BOTH)


def unclear(code: Code, table: SlotTable) -> Iterator[int]:
    """Yield slots that code loads without calling the function directly afterwards.

    An address that is passed on or stored does not count, because such a call does not go through
    the slot.
    """
    words, loads = _loads(code, table)
    for index, register, slot in loads:
        if register == _T9:
            if not _jump_behind(words, index):
                yield slot
        elif register in _SAVED and _reaches_t9(words, index, register):
            yield slot


def _loads(code: Code, table: SlotTable) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Return all instructions, and (index, register, slot) of each load of a slot."""
    base = first_word(table.image)
    if base is None or code.vaddr & 3:
        return [], []
    data = big_endian(code.data, table.image.encoding.order)
    gp = table.got + _GP
    loads = []
    for match in _LOAD.finditer(data):
        slot = gp + signed(match["offset"])
        if slot not in table.slots or match.start() & 3:
            continue
        first, second = match[0][:2]
        if (first & 3) << 3 | second >> 5 != _SP:  # compilers keep $gp in any other register
            loads.append((match.start() // 4, second & 31, slot))
    return list(numbers(data)) if loads else [], loads


def _jump_behind(words: list[int], index: int) -> int:
    """Return the index of the jump to a function loaded into $t9 at `index`, 0 if none is near."""
    for at in range(index + 1, min(index + _NEAR, len(words))):
        word = words[at]
        if word == _CALL_T9 or word in _JUMPS_T9:
            return at
        if word == _JUMP_RA or _sets(word) == _T9:
            return 0
    return 0


def _reaches_t9(words: list[int], index: int, register: int) -> bool:
    """Return whether the function copies a register into $t9 before it sets the register."""
    for at in range(index + 1, min(index + _FAR, len(words))):
        word = words[at]
        if word & 0xFC1F_07FF in (0x25, 0x21) and word >> 11 & 31 == _T9:  # move
            if word >> 21 & 31 == register:
                return True
        elif word == _JUMP_RA:
            return False
    return False


def _sets(word: int) -> int:
    """Return the general register that an instruction writes, as far as it matters here, else 0."""
    kind = word >> 26
    if not kind:
        return word >> 11 & 31
    if kind in (*range(8, 16), 24, 25, *range(32, 40), 55):
        return word >> 16 & 31
    return 0


# Stubs on MIPS, o32, n32 and n64, in both byte orders.
#
# Code calls through the GOT. A function's word leads to a stub in .MIPS.stubs until the loader has
# bound it. A program that is not position-independent may have a PLT as well (GNU ld,
# elfxx-mips.c).

_PLACES = (".MIPS.stubs", ".plt")
DT_MIPS_PLTGOT = 0x70000032

# lw or ld $t9, -0x7ff0($gp); move $t7, $ra; [lui $t8, high;] jalr $t9;
# li $t8, low or ori $t8, $t8, low
_STUB = re.compile(
    rb"(?=([\x8f\xdf]\x99\x80\x10\x03\xe0\x78[\x21\x25\x2d](?:\x3c\x18(?P<high>..))?"
    rb"\x03\x20\xf8\x09(?:(?P<alone>[\x24\x34\x64]\x18)|\x37\x18)(?P<low>..)))",
    re.DOTALL,
)
# lui $t7, high; lw or ld $t9, low($t7); addiu or daddiu $t8, $t7, low; jr $t9 (before or behind)
_ENTRY = re.compile(
    rb"(?=\x3c\x0f(?P<high>..)[\x8d\xdd]\xf9(?P<low>..)"
    rb"(?:[\x25\x65]\xf8(?P=low)\x03\x20\x00[\x08\x09]|\x03\x20\x00[\x08\x09][\x25\x65]\xf8(?P=low)))",
    re.DOTALL,
)
_SIZE = 16


def decoder(_arch: Arch) -> Decoder:
    """Return the decoder of stubs."""
    return Decoder(_find, _PLACES)


def _find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data = big_endian(code.data, table.image.encoding.order)
    bits = table.image.encoding.bits
    mask = (1 << bits) - 1
    where = first_word(table.image)
    for match in _STUB.finditer(data):
        start = code.vaddr + match.start()
        if start & 3 or where is None:
            continue
        index = symbol_index(match)
        word, first, end = where
        if index is not None and first <= index < end:
            slot = word + (index - first) * (bits // 8)
            yield FoundStub(start, len(match[1]), slot, MIPS_STUB)
    for match in _ENTRY.finditer(data):
        start = code.vaddr + match.start()
        high, low = signed(match["high"]), signed(match["low"])
        slot = (high << 16) + low & mask
        if not start & 3 and (slot in table.slots or code.section is not None):
            yield FoundStub(start, _SIZE, slot, PLT)
    if table.flags & SHORTER:
        yield from find_short(code, table)


def index_of(code: bytes, order: str) -> int | None:
    """Return the symbol's index in the stub at the start of `code`, None if there is none."""
    match = _STUB.match(big_endian(code, order))
    return None if match is None else symbol_index(match)


# The argument that an unbound slot passes to the lazy resolver on MIPS.
#
# A stub of the GOT has the symbol's index as a constant. For the PLT, the resolver computes it from
# the address of the slot, as an offset. glibc: sysdeps/mips/dl-trampoline.c.

_RESERVED = 2  # words of .got.plt before the first slot


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
    """
    if slot.kind == "DT_MIPS_GOTSYM":
        order = mapped.image.encoding.order
        if helper & 1:  # microMIPS
            return short_index_of(mapped.code(helper - 1), order)
        return index_of(mapped.code(helper), order)
    got = mapped.image.dynamic.get(DT_MIPS_PLTGOT)
    size = mapped.bits // 8
    entry = 2 * size  # bytes of a relocation without addend
    return None if got is None else ((slot.vaddr - got) // size - _RESERVED) * entry
