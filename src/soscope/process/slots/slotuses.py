# SPDX-License-Identifier: Apache-2.0
"""Which code of an image goes through a slot: stubs, calls, jumps, and what only loads it.

On x86-64 such code names the slot by a 32-bit displacement from the end of the instruction, on
i386 by its address, or by its distance from the image's GOT, which some register holds. Every
position of the code is taken for one: a chance match looks like a load.
"""

from __future__ import annotations

from collections.abc import Callable

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.stubs.x86 import Stubs
from soscope.process.images.loadedimage import LoadedImage

STUB = "stub"
CALL = "call"
JUMP = "jump"
LOAD = "load"

_ENDBR = b"\xf3\x0f\x1e\xfa"
_ENDBR_32 = b"\xf3\x0f\x1e\xfb"
_PIECE = 1 << 24
_CODE = 16


class Use:
    """One place that goes through a slot.

    `addr` is the run-time address of its first instruction (of a stub: of the stub),
    `displacement` that of the 32-bit number that names the slot, `section` the name of the
    section in the file, "" where that is not known. `code` are the bytes that are there now,
    from `addr` on; `got` is what their displacements count from on i386, None elsewhere.
    """

    __slots__ = ("addr", "code", "displacement", "got", "kind", "section")

    def __init__(
        self,
        kind: str,
        addr: int,
        displacement: int,
        section: str,
        code: bytes,
        got: int | None = None,
    ) -> None:
        self.kind = kind
        self.addr = addr
        self.displacement = displacement
        self.section = section
        self.code = code
        self.got = got


class _Code:
    """A piece of an image's code: its bytes in the file, and where they are in the process."""

    __slots__ = ("addr", "data", "image", "sections")

    def __init__(
        self, image: LoadedImage, sections: Sections | None, data: bytes, addr: int
    ) -> None:
        self.image = image
        self.sections = sections
        self.data = data
        self.addr = addr

    def section_at(self, place: int) -> str:
        """Return the name of the section that holds an offset, "" where that is not known."""
        if self.sections is None:
            return ""
        section = self.sections.containing(self.addr + place - self.image.load_bias)
        return "" if section is None else section.name


def can_search(image: LoadedImage) -> bool:
    """Say whether the code of an image is of a kind that `uses_of` reads."""
    return _machine(image) in (c.EM_X86_64, c.EM_386)


def _machine(image: LoadedImage) -> int:
    """Return what the image's code is made for; where nothing says so, what the process is."""
    return image.machine or (c.EM_X86_64 if image.space.bits == 64 else c.EM_386)


def uses_of(image: LoadedImage, slot: int) -> list[Use]:
    """Return what goes through the slot at run-time address `slot`, by rising address.

    The code of the file is asked where there is one: what is in memory may have been changed.
    Empty for other machines' code (`can_search`). Raises FormatError.
    """
    look: Callable[[_Code], list[Use]]
    machine = _machine(image)
    if machine == c.EM_X86_64:

        def look(code: _Code) -> list[Use]:
            return _uses_64(code, slot)

    elif machine == c.EM_386:
        got = _got_of(image)

        def look(code: _Code) -> list[Use]:
            return _uses_32(code, slot, got)

    else:
        return []
    file = image.file
    sections = None if file is None else Sections.read(file.elf)
    found = []
    for segment in image.segments:
        if segment.type != c.PT_LOAD or not segment.flags & c.PF_X:
            continue
        start = segment.vaddr + image.load_bias
        for at in range(0, segment.filesz, _PIECE):
            size = min(_PIECE + 8, segment.filesz - at)
            if file is not None:
                data = file.source.read(file.elf.locate(segment.vaddr + at), size)
            else:
                data = image.space.read(start + at, size)
            found += look(_Code(image, sections, data, start + at))
    return found


def _words_that(data: bytes, wanted: int, *, counts_from_end: bool) -> list[int]:
    """Return the offsets of the 32-bit words of `data` that are `wanted`.

    With `counts_from_end` a word is a distance from its own end to `wanted`, which counts from
    the beginning of `data`.
    """
    import numpy as np

    found: list[int] = []
    for phase in range(4):
        count = (len(data) - phase) // 4
        if count <= 0:
            continue
        words = np.frombuffer(data, dtype="<i4", count=count, offset=phase)
        places = np.arange(count, dtype=np.int64) * 4 + phase
        ends = words + (places + 4) if counts_from_end else words
        found += places[ends == wanted].tolist()
    return sorted(one for one in found if one < _PIECE)


def _uses_64(code: _Code, slot: int) -> list[Use]:
    places = _words_that(code.data, slot - code.addr, counts_from_end=True)
    return [_use_64(code, place) for place in places]


def _use_64(code: _Code, place: int) -> Use:
    data = code.data
    opcode = data[max(place - 2, 0) : place]
    name = code.section_at(place)
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
    return _use(code, kind, start, place, name)


def _use(code: _Code, kind: str, start: int, place: int, name: str, got: int | None = None) -> Use:
    at = code.addr + max(start, 0)
    return Use(kind, at, code.addr + place, name, code.image.space.read(at, _CODE), got)


# ---- i386 ----


def _got_of(image: LoadedImage) -> int:
    """Return the run-time address that position-independent code counts from, 0 if unknown."""
    file = image.file
    stubs = Stubs(image.elf) if file is None else Stubs(file.elf, Sections.read(file.elf))
    return stubs.got + image.load_bias if stubs.got else 0


def _uses_32(code: _Code, slot: int, got: int) -> list[Use]:
    # by its address: in code that is not position-independent, which lies where it was linked
    found = []
    if not code.image.load_bias:
        for place in _words_that(code.data, _signed(slot), counts_from_end=False):
            one = _use_32(code, place, got, by_address=True)
            if one is not None:
                found.append(one)
    if got:
        for place in _words_that(code.data, _signed(slot - got), counts_from_end=False):
            one = _use_32(code, place, got, by_address=False)
            if one is not None:
                found.append(one)
    return sorted(found, key=lambda one: one.addr)


def _signed(number: int) -> int:
    return (number + (1 << 31) & 0xFFFF_FFFF) - (1 << 31)


def _use_32(code: _Code, place: int, got: int, *, by_address: bool) -> Use | None:
    """Return what the word at `place` belongs to, None where no instruction names memory so."""
    data = code.data
    if place < 2:
        return None
    opcode, form = data[place - 2], data[place - 1]
    start = place - 2
    name = code.section_at(place)
    named = form & 0xC7 == 5 if by_address else form >> 6 == 2 and form & 7 != 4
    operation = form >> 3 & 7
    if named and opcode == 0xFF and operation in (2, 4):
        # a table of functions is called in the same way, through any register and forwards
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
    elif by_address and form == 0xA1:  # to %eax, in its short form
        kind, start = LOAD, place - 1
    else:
        return None
    return _use(code, kind, start, place, name, got)


_EBX = 3
_READS = frozenset(b"\x8b\x03\x2b\x33\x39\x3b\x83\x85")  # mov add sub xor cmp cmp cmp test


def _is_stub(data: bytes, place: int, name: str) -> bool:
    """Say whether a jump is a stub where no section says so: by what fills it up."""
    after = data[place + 4 : place + 7]
    return not name and (
        after[:2] == b"\x66\x90" or after == b"\x66\x0f\x1f" or after[:1] == b"\x68"
    )


def instruction(use: Use) -> str:
    """Return the first instruction that matters of a use, in AT&T's words.

    Landing marks are left out; what is not a stub's or a call's is shown as bytes.
    """
    code = use.code
    skipped = 0
    prefix = ""
    if code[:4] in (_ENDBR, _ENDBR_32):
        skipped = 4
    if code[skipped : skipped + 2] == b"\x41\xbb":
        skipped += 6
    elif use.got is not None and code[skipped : skipped + 1] == b"\xb9":
        skipped += 5
    if code[skipped : skipped + 1] == b"\xf2":
        prefix, skipped = "bnd ", skipped + 1
    rest = code[skipped:]
    name = {2: "call", 4: "jmp"}.get(rest[1] >> 3 & 7) if rest[:1] == b"\xff" else None
    if name is None or len(rest) < 6:
        return " ".join(f"{one:02x}" for one in code[:8])
    number = int.from_bytes(rest[2:6], "little", signed=True)
    form = rest[1] & 0xC7
    if use.got is None and form == 5:
        end = use.addr + skipped + 6
        return f"{prefix}{name} *{number:#x}(%rip), to what is at {end + number:#x}"
    if use.got is not None and form == 5:
        return f"{prefix}{name} *{number & 0xFFFF_FFFF:#x}"
    if use.got is not None and form >> 6 == 2 and form & 7 != 4:
        where = use.got + number & 0xFFFF_FFFF
        return f"{prefix}{name} *{number:#x}(%{_REGISTERS[form & 7]}), to what is at {where:#x}"
    return " ".join(f"{one:02x}" for one in code[:8])


_REGISTERS = ("eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi")
