# SPDX-License-Identifier: Apache-2.0
"""The code that goes through a slot on x86-64 and i386: stubs, calls, jumps and loads.

On x86-64 such code addresses the slot by a 32-bit displacement from the end of the instruction.
On i386 it does so by its address, or by its distance from the image's GOT, which a register
holds. Every position of the code is treated as such an instruction, and a chance match looks like
a load.
"""

from __future__ import annotations

from collections.abc import Callable

from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa import CALL, JUMP, LOAD, STUB
from soscope.binfmt.isa.x86.at import X86Stubs
from soscope.model.arch import EM_386, Arch

_ENDBR = b"\xf3\x0f\x1e\xfa"
_ENDBR_32 = b"\xf3\x0f\x1e\xfb"
_EBX = 3
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
        kind = CALL
    elif opcode == b"\xff\x25":
        kind = STUB if name.startswith(".plt") or _is_stub(data, place, name) else JUMP
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
            kind = CALL if operation == 2 else JUMP
        if kind == JUMP and (name.startswith(".plt") or _is_stub(data, place, name)):
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
