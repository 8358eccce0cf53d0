# SPDX-License-Identifier: Apache-2.0
"""One instruction of x86-64 or i386: its length, and whether it can be moved.

Opcode maps: Intel SDM volume 2, appendix A.
"""

from __future__ import annotations

from typing import NamedTuple

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
