# SPDX-License-Identifier: Apache-2.0
"""Decode code of x86-64 and i386: instructions, calls, and uses of slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa import CALL as CALL_THROUGH
from soscope.binfmt.isa import JUMP as JUMP_THROUGH
from soscope.binfmt.isa import LOAD, STUB
from soscope.binfmt.isa.x86.stubs import X86Stubs
from soscope.binfmt.stubs.finder import Through
from soscope.model.arch import EM_386, Arch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


# One instruction of x86-64 or i386: its length, and whether it can be moved.
#
# Opcode maps: Intel SDM volume 2, appendix A.

PLAIN = "plain"  # works anywhere, if a displacement from itself is adjusted
CALL, JUMP, BRANCH = "call", "jump", "branch"  # to the address `number` bytes behind its end
CALL_AT, JUMP_AT = "call at", "jump at"  # to the address that its ModRM byte gives
RETURN = "return"  # also removes `number` bytes from the stack
UNFIT = "unfit"  # cannot be moved

# what follows an opcode: "-" nothing, "m" ModRM, "b" a byte, "w" two bytes, "z" four bytes or,
# with a prefix, two; "B" and "Z": ModRM and then as "b" or "z"; "p": it is a prefix, "u": as "-",
# but it cannot be moved, "?": unknown
_ONE = (
    "mmmmbz--mmmmbz-?mmmmbz--mmmmbz--"
    "mmmmbzp-mmmmbzp-mmmmbzp-mmmmbzp-"
    "--------------------------------"
    "--?mppppzZbB----bbbbbbbbbbbbbbbb"
    "BZBBmmmmmmmmmmmm----------?-----"
    "oooo----bz------bbbbbbbbzzzzzzzz"
    "BBw-??BZ?-uuubuummmmbb?-mmmmmmmm"
    "bbbbbbbbzz?b----puppu-mm------mm"
)
_TWO = (
    "mmmm?u-u--?u?m-Bmmmmmmmmmmmmmmmm"
    "uuuu????mmmmmmmm----uu?-????????"
    "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"
    "mmmmmmmmmmmmmmmmBBBBmmm-mm??mmmm"
    "zzzzzzzzzzzzzzzzmmmmmmmmmmmmmmmm"
    "---mBm??--umBmmmmmmmmmmmmmBmmmmm"
    "mmBmBBBm--------mmmmmmmmmmmmmmmm"
    "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"
)
_ONLY_32 = frozenset(b"\x06\x07\x0e\x16\x17\x1e\x1f\x27\x2f\x37\x3f\x60\x61\x82\xce\xd4\xd5")
_MOST = 15  # bytes


class Instruction(NamedTuple):
    """`modrm` and `relative` are offsets of the ModRM byte and of a displacement from the end.

    They are 0 if the instruction has none. `number` belongs to `kind`. `opcode` is the last byte
    of the opcode.
    """

    size: int
    kind: str
    opcode: int
    modrm: int = 0
    relative: int = 0
    number: int = 0


def decode(code: bytes, bits: int) -> Instruction | None:
    """Return the instruction at the start of `code`, None if it is unknown or cut."""
    try:
        decoded = _decode(code[:_MOST], bits)
    except IndexError:
        return None  # it is cut
    return decoded if decoded is not None and decoded.size <= len(code) else None


def _decode(code: bytes, bits: int) -> Instruction | None:
    at, is_short, is_other_size, is_wide = 0, False, False, False
    while _ONE[code[at]] == "p":
        is_short |= code[at] == 0x66
        is_other_size |= code[at] == 0x67
        at += 1
    if bits == 64 and code[at] & 0xF0 == 0x40:
        is_wide = bool(code[at] & 8)
        at += 1
    opcode = code[at]
    is_vector = bits == 64 or code[at + 1] >= 0xC0 if opcode in (0xC4, 0xC5, 0x62) else False
    if is_vector:
        return _vector(code, at, bits, is_other_size=is_other_size)
    if opcode == 0x0F:
        return _two_bytes(code, at + 1, bits, is_short=is_short, is_other_size=is_other_size)
    if opcode in (0xC4, 0xC5, 0x62):  # lds, les, bound
        what = "m"
    elif opcode in _ONLY_32:
        if bits == 64:
            return None
        what = {0x82: "B", 0xD4: "b", 0xD5: "b"}.get(opcode, "-")
    else:
        what = _ONE[opcode]
    if what == "o":
        width = 8 if bits == 64 and not is_other_size else 4
        return None if bits == 32 and is_other_size else Instruction(at + 1 + width, PLAIN, opcode)
    if opcode == 0xC8:  # enter
        return Instruction(at + 4, PLAIN, opcode)
    if opcode in (0xF6, 0xF7) and code[at + 1] & 0x38 < 0x10:
        what = "B" if opcode == 0xF6 else "Z"
    if is_wide and opcode & 0xF8 == 0xB8:
        return Instruction(at + 9, PLAIN, opcode)
    if what == "u":
        return Instruction(at + 1, UNFIT, opcode)
    decoded = _rest(code, at, what, bits, is_short=is_short, is_other_size=is_other_size)
    return None if decoded is None else _with_flow(code, decoded, at, bits, is_short=is_short)


def _with_flow(
    code: bytes, decoded: Instruction, at: int, bits: int, *, is_short: bool
) -> Instruction:
    """Return the instruction with its effect on the program counter, for a one-byte opcode."""
    opcode, size = decoded.opcode, decoded.size
    number = int.from_bytes(code[at + 1 : size], "little", signed=True)
    if opcode in (0xE8, 0xE9, 0xEB) or opcode & 0xF0 == 0x70:
        if is_short:
            return decoded._replace(kind=UNFIT)  # Intel and AMD disagree about the width
        kind = {0xE8: CALL, 0xE9: JUMP, 0xEB: JUMP}.get(opcode, BRANCH)
        return decoded._replace(kind=kind, number=number)
    if opcode in (0xC2, 0xC3):
        return decoded._replace(kind=RETURN, number=number & 0xFFFF)
    if 0xE0 <= opcode <= 0xE3 or opcode == 0xCD:
        return decoded._replace(kind=UNFIT)
    if opcode == 0xC7 and code[at + 1] == 0xF8:  # xbegin
        return decoded._replace(kind=UNFIT)
    if opcode == 0xFF:
        operation = code[at + 1] >> 3 & 7
        if operation in (2, 4) and not (is_short or (bits == 32 and decoded.modrm > 2)):
            return decoded._replace(kind=CALL_AT if operation == 2 else JUMP_AT)
        if operation in (2, 3, 4, 5, 7):
            return decoded._replace(kind=UNFIT)
    return decoded


def _two_bytes(
    code: bytes, at: int, bits: int, *, is_short: bool, is_other_size: bool
) -> Instruction | None:
    opcode = code[at]
    if opcode in (0x38, 0x3A):
        what = "m" if opcode == 0x38 else "B"
        return _rest(code, at + 1, what, bits, is_short=False, is_other_size=is_other_size)
    what = _TWO[opcode]
    if what == "u":
        return Instruction(at + 1, UNFIT, opcode)
    if opcode & 0xF0 == 0x80:
        number = int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
        return Instruction(at + 5, UNFIT if is_short else BRANCH, opcode, number=number)
    return _rest(code, at, what, bits, is_short=is_short, is_other_size=is_other_size)


def _vector(code: bytes, at: int, bits: int, *, is_other_size: bool) -> Instruction | None:
    """Return an instruction with a VEX or an EVEX prefix."""
    prefix = code[at]
    if prefix == 0xC5:
        number, at = 1, at + 2
    elif prefix == 0xC4:
        number, at = code[at + 1] & 0x1F, at + 3
    else:
        number, at = code[at + 1] & 7, at + 4
    opcode = code[at]
    what = _TWO[opcode] if number == 1 else {2: "m", 3: "B", 5: "m", 6: "m"}.get(number, "?")
    if what not in "mB-":
        return None
    return _rest(code, at, what, bits, is_short=False, is_other_size=is_other_size)


def _rest(
    code: bytes, at: int, what: str, bits: int, *, is_short: bool, is_other_size: bool
) -> Instruction | None:
    """Return a plain instruction, given what follows its opcode; the opcode is at `at`."""
    if what == "?":
        return None
    opcode, modrm, relative = code[at], 0, 0
    size = at + 1
    if what in "mBZ":
        modrm = size
        size, relative = _memory(code, modrm, bits)
        if is_other_size and (bits == 32 or relative):
            return None
    if what in "bB":
        size += 1
    elif what == "w":
        size += 2
    elif what in "zZ":
        size += 2 if is_short else 4
    return Instruction(size, PLAIN, opcode, modrm, relative)


def _memory(code: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return the offset behind an operand with a ModRM byte, and the offset of its displacement."""
    mode, base = code[at] >> 6, code[at] & 7
    at += 1
    if mode == 3:
        return at, 0
    has_index = base == 4
    if has_index:
        base = code[at] & 7
        at += 1
    if mode == 0 and base == 5:
        return at + 4, at if bits == 64 and not has_index else 0
    return at + (0, 1, 4)[mode], 0


# No-operations on x86-64 and i386, with which compilers reserve room.

# Intel SDM, "NOP": also multi-byte ones, with any number of prefixes
_NOP = re.compile(
    rb"(?:\x66|\x2e)*(?:\x90|\x0f\x1f(?:\0|\x40.|\x44..|\x80.{4}|\x84.{5}))", re.DOTALL
)
_LANDING = (b"\xf3\x0f\x1e\xfa", b"\xf3\x0f\x1e\xfb")


def nops(code: bytes) -> list[int]:
    """Return the sizes in bytes of the no-operations at the start of `code`, in order.

    An endbr, the landing mark for indirect calls, may stand before them.
    """
    at = 4 if code.startswith(_LANDING) else 0
    sizes = []
    while match := _NOP.match(code, at):
        sizes.append(match.end() - at)
        at = match.end()
    return sizes


# Find the call before a return address in x86 code, as far as its bytes tell.

LONGEST = 7  # bytes of a call, without prefixes that do not matter here

_CALL, _GROUP, _INDIRECT = 0xE8, 0xFF, 2
_BY_SLOT = b"\xff\x15"


def call_before(code: bytes, addr: int) -> tuple[bool, int | None, int | None]:
    """Return (whether `code`, up to `addr`, may end with a call, its target, its slot).

    At most one of target and slot is known, the other is None. A slot's address is only right for
    64-bit code. Bytes of other instructions may look like a call.
    """
    distance = int.from_bytes(code[-4:], "little", signed=True)
    if len(code) >= 5 and code[-5] == _CALL:
        return True, addr + distance, None
    if code[-6:-4] == _BY_SLOT:
        return True, None, addr + distance
    for size in (2, 3, 4, 6, 7):
        if len(code) >= size and code[-size] == _GROUP and _length(code[-size + 1 :]) == size:
            return True, None, None
    return False, None, None


def _length(rest: bytes) -> int:
    """Return the length of a call whose ModRM byte begins `rest`, 0 if it is no call."""
    modrm = rest[0]
    mode, extension, rm = modrm >> 6, modrm >> 3 & 7, modrm & 7
    if extension != _INDIRECT:
        return 0
    if mode == 3:
        return 2
    sib = int(rm == 4)
    if mode == 0:
        is_far = rm == 5 or (sib and len(rest) > 1 and rest[1] & 7 == 5)
        return 2 + sib + (4 if is_far else 0)
    return 2 + sib + (1 if mode == 1 else 4)


# Instructions of x86-64 and i386 that call or jump through slots, in stubs or without one.
#
# Every position of the code is treated as an instruction. A chance match with a slot is as rare as
# four bytes that happen to be one certain number.

SIZE = 6  # bytes of such an instruction: opcode, ModRM byte, four bytes

# call *number(%rip), jmp *number(%rip); on i386 the number is the address itself
_FIXED = re.compile(rb"(?=\xff([\x15\x25]))")
# call *number(%register), jmp *number(%register)
_BASED = re.compile(rb"(?=\xff([\x90-\x93\x95-\x97\xa0-\xa3\xa5-\xa7]))")
_EBX = 3


def through(
    code: bytes, vaddr: int, slots: Collection[int], bits: int, base: int | None = None
) -> Iterator[Through]:
    """Yield these instructions in `code`, which lies at `vaddr`, sorted for each of their forms.

    `slots` are addresses. On i386, `base` is the address of the GOT from which code counts, None
    if it is not known.
    """
    most = len(code) - SIZE
    for match in _FIXED.finditer(code):
        at = match.start()
        if at > most:
            break
        number = int.from_bytes(code[at + 2 : at + SIZE], "little", signed=bits == 64)
        slot = number + vaddr + at + SIZE if bits == 64 else number
        if slot in slots:
            yield Through(vaddr + at, slot, match[1] == b"\x15")
    if bits == 64 or base is None:
        return
    for match in _BASED.finditer(code):
        at = match.start()
        if at > most:
            break
        number = int.from_bytes(code[at + 2 : at + SIZE], "little", signed=True)
        form = code[at + 1]
        # calls through tables of functions look the same, with any register and a positive number
        if (form & 7 == _EBX or number < 0) and base + number & 0xFFFF_FFFF in slots:
            yield Through(vaddr + at, base + number & 0xFFFF_FFFF, form < 0xA0)


# The code that goes through a slot on x86-64 and i386: stubs, calls, jumps and loads.
#
# On x86-64 such code addresses the slot by a 32-bit displacement from the end of the instruction.
# On i386 it does so by its address, or by its distance from the image's GOT, which a register
# holds. Every position of the code is treated as such an instruction, and a chance match looks like
# a load.

_ENDBR = b"\xf3\x0f\x1e\xfa"
_ENDBR_32 = b"\xf3\x0f\x1e\xfb"
_READS = frozenset(b"\x8b\x03\x2b\x33\x39\x3b\x83\x85")  # mov add sub xor cmp cmp cmp test
_REGISTERS = ("eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi")

Named = Callable[[int], str]  # offset -> name of its section, "" if not known
# kind, start of its first instruction, position of the number that addresses the slot, section
Place = tuple[str, int, int, str]


def base_of(arch: Arch, image: ElfReader, sections: Sections | None) -> int | None:
    """Return the link-time base address of code on i386, 0 if unknown; None on other machines."""
    return X86Stubs(image, sections).got if arch.number == EM_386 else None


def places(
    data: bytes, addr: int, slot: int, named: Named, base: int | None, *, is_where_linked: bool
) -> list[Place]:
    """Return the code that goes through `slot` in `data`, which lies at `addr`, sorted by address.

    All addresses, also `base`, are run-time addresses. If `is_where_linked` is true, code may
    address the slot by its absolute address.
    """
    if base is None:
        words = words_that(data, slot - addr, counts_from_end=True)
        return [_use_64(data, place, named(place)) for place in words]
    return _uses_32(data, slot, named, base, is_where_linked=is_where_linked)


def words_that(data: bytes, wanted: int, *, counts_from_end: bool) -> list[int]:
    """Return the offsets of the 32-bit words of `data` that are `wanted`.

    With `counts_from_end`, a word is a distance from its own end to `wanted`, and `wanted` counts
    from the beginning of `data`.
    """
    import numpy as np

    offsets: list[int] = []
    for phase in range(4):
        count = (len(data) - phase) // 4
        if count <= 0:
            continue
        words = np.frombuffer(data, dtype="<i4", count=count, offset=phase)
        places = np.arange(count, dtype=np.int64) * 4 + phase
        ends = words + (places + 4) if counts_from_end else words
        offsets += places[ends == wanted].tolist()
    return sorted(offsets)


def _use_64(data: bytes, place: int, name: str) -> Place:
    opcode = data[max(place - 2, 0) : place]
    start = place - 2
    if opcode == b"\xff\x15":
        kind = CALL_THROUGH
    elif opcode == b"\xff\x25":
        kind = STUB if name.startswith(".plt") or _is_stub(data, place, name) else JUMP_THROUGH
        if data[start - 1 : start] == b"\xf2":
            start -= 1
        if kind == STUB and data[start - 6 : start - 4] == b"\x41\xbb":
            start -= 6
        if data[max(start - 4, 0) : start] == _ENDBR:
            start -= 4
    else:
        kind = LOAD
        start = place - 3
    return kind, max(start, 0), place, name


def _uses_32(
    data: bytes, slot: int, named: Named, got: int, *, is_where_linked: bool
) -> list[Place]:
    # by its absolute address, in code that is not position-independent and lies where it was
    # linked
    wanted = [(slot, True)] if is_where_linked else []
    if got:
        wanted.append((slot - got, False))
    uses = []
    for number, by_address in wanted:
        for place in words_that(data, _signed(number), counts_from_end=False):
            use = _use_32(data, place, named(place), by_address=by_address)
            if use is not None:
                uses.append(use)
    return sorted(uses, key=lambda use: use[1])


def _signed(number: int) -> int:
    return (number + (1 << 31) & 0xFFFF_FFFF) - (1 << 31)


def _use_32(data: bytes, place: int, name: str, *, by_address: bool) -> Place | None:
    """Return the instruction with the word at `place`; None if no instruction has memory there."""
    if place < 2:
        return None
    opcode, form = data[place - 2], data[place - 1]
    start = place - 2
    named = form & 0xC7 == 5 if by_address else form >> 6 == 2 and form & 7 != 4
    operation = form >> 3 & 7
    if named and opcode == 0xFF and operation in (2, 4):
        # calls through tables of functions look the same, with any register and a positive number
        is_sure = by_address or form & 7 == _EBX or data[place + 3] & 0x80
        kind = LOAD
        if is_sure:
            kind = CALL_THROUGH if operation == 2 else JUMP_THROUGH
        if kind == JUMP_THROUGH and (name.startswith(".plt") or _is_stub(data, place, name)):
            kind = STUB
        if kind == STUB and data[start - 5 : start - 4] == b"\xb9":
            start -= 5
        if data[max(start - 4, 0) : start] == _ENDBR_32:
            start -= 4
    elif named and (opcode in _READS or (opcode == 0xFF and operation == 6)):
        kind = LOAD
    elif by_address and form == 0xA1:  # load to %eax, in its short form
        kind, start = LOAD, place - 1
    else:
        return None
    return kind, max(start, 0), place, name


def _is_stub(data: bytes, place: int, name: str) -> bool:
    """Return whether a jump is a stub, by the filling behind it, if no section tells."""
    after = data[place + 4 : place + 7]
    return not name and (
        after[:2] == b"\x66\x90" or after == b"\x66\x0f\x1f" or after[:1] == b"\x68"
    )


def instruction(code: bytes, addr: int, got: int | None) -> str:
    """Return the first relevant instruction of `code`, which lies at `addr`, in AT&T syntax.

    Landing marks (endbr) are skipped. Instructions that are neither in stubs nor calls are shown
    as bytes.
    """
    skipped = 0
    prefix = ""
    if code[:4] in (_ENDBR, _ENDBR_32):
        skipped = 4
    if code[skipped : skipped + 2] == b"\x41\xbb":
        skipped += 6
    elif got is not None and code[skipped : skipped + 1] == b"\xb9":
        skipped += 5
    if code[skipped : skipped + 1] == b"\xf2":
        prefix, skipped = "bnd ", skipped + 1
    rest = code[skipped:]
    name = {2: "call", 4: "jmp"}.get(rest[1] >> 3 & 7) if rest[:1] == b"\xff" else None
    if name is None or len(rest) < 6:
        return " ".join(f"{byte:02x}" for byte in code[:8])
    number = int.from_bytes(rest[2:6], "little", signed=True)
    form = rest[1] & 0xC7
    if got is None and form == 5:
        end = addr + skipped + 6
        return f"{prefix}{name} *{number:#x}(%rip), to what is at {end + number:#x}"
    if got is not None and form == 5:
        return f"{prefix}{name} *{number & 0xFFFF_FFFF:#x}"
    if got is not None and form >> 6 == 2 and form & 7 != 4:
        where = got + number & 0xFFFF_FFFF
        return f"{prefix}{name} *{number:#x}(%{_REGISTERS[form & 7]}), to what is at {where:#x}"
    return " ".join(f"{byte:02x}" for byte in code[:8])


# Find the code that calls an address, and the addresses that code uses, on x86-64 and i386.
#
# Every position of the code is treated as an instruction. A match by chance is rare if all its five
# or more bytes have to fit: once in 2^40 bytes for each address.

_DIRECT_CALL, _JUMP = 0xE8, 0xE9
_LEA, _MOV = 0x8D, 0x8B
_MOV_NUMBER = 0xB8  # mov $number, %eax; the next seven opcodes are for the other registers
_SHORT = 7  # bytes of the longest instruction searched for


def direct_calls(data: bytes, addr: int, targets: Iterable[int]) -> list[int]:
    """Return the return addresses of all calls of, and jumps to, one of `targets`, sorted.

    `data` lies at `addr`. The return address of a jump is the address behind it.
    """
    return sorted(
        addr + place + 4
        for target in targets
        for place in words_that(data, target - addr, counts_from_end=True)
        if place and data[place - 1] in (_DIRECT_CALL, _JUMP)
    )


def addresses(
    data: bytes, addr: int, *, by_number: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the addresses that code of x86-64 takes, and the addresses of words that it loads.

    Each is (address of the instruction, address). If `by_number` is true, the code lies at its
    link-time address, and may contain addresses as plain numbers.
    """
    import numpy as np

    count = len(data) - _SHORT + 1
    if count <= 0:
        return [], []
    code = np.frombuffer(data, dtype=np.uint8)
    words = np.lib.stride_tricks.sliding_window_view(code, 4)

    def rows(places: Any, number: int, origin: int) -> list[tuple[int, int]]:
        """Return (position, address) pairs; the number lies `number` bytes behind each position."""
        numbers = words[places + number].copy().view("<i4").ravel().astype(np.int64)
        targets = numbers + (places + origin if origin else 0)
        return list(zip((places + addr).tolist(), targets.tolist(), strict=True))

    by_place = np.flatnonzero(code[1:count] & 0xC7 == 5)  # a ModRM byte with disp(%rip)
    end = addr + 6  # end of such an instruction, from which its number counts
    taken = rows(by_place[code[by_place] == _LEA], 2, end)
    loaded = rows(by_place[code[by_place] == _MOV], 2, end)
    if by_number:
        taken += rows(np.flatnonzero(code[:count] & 0xF8 == _MOV_NUMBER), 1, 0)
    return taken, loaded
