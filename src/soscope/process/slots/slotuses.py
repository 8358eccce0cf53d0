# SPDX-License-Identifier: Apache-2.0
"""Which code of an image goes through a slot: stubs, calls, jumps, and what only loads it.

On x86-64 such code names the slot by a 32-bit displacement from the end of the instruction.
Every position of the code is taken for one: a chance match looks like a load.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.sections import Sections
from soscope.process.images.loadedimage import LoadedImage

STUB = "stub"
CALL = "call"
JUMP = "jump"
LOAD = "load"

_ENDBR = b"\xf3\x0f\x1e\xfa"
_PIECE = 1 << 24
_CODE = 16


class Use:
    """One place that goes through a slot.

    `addr` is the run-time address of its first instruction (of a stub: of the stub),
    `displacement` that of the 32-bit displacement, `section` the name of the section in the
    file, "" where that is not known. `code` are the bytes that are there now, from `addr` on.
    """

    __slots__ = ("addr", "code", "displacement", "kind", "section")

    def __init__(self, kind: str, addr: int, displacement: int, section: str, code: bytes) -> None:
        self.kind = kind
        self.addr = addr
        self.displacement = displacement
        self.section = section
        self.code = code


def uses_of(image: LoadedImage, slot: int) -> list[Use]:
    """Return what goes through the slot at run-time address `slot`, by rising address.

    The code of the file is asked where there is one: what is in memory may have been changed.
    Empty for 32-bit images. Raises FormatError.
    """
    if image.space.bits != 64:
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
            places = [one for one in _matches(data, start + at, slot) if one < _PIECE]
            found += [_use(image, sections, data, start + at, place) for place in places]
    return found


def _matches(data: bytes, addr: int, slot: int) -> list[int]:
    """Return the offsets of the displacements in `data` that lead to `slot`."""
    import numpy as np

    code = np.frombuffer(data, dtype=np.uint8)
    found: list[int] = []
    for phase in range(4):
        count = (len(code) - phase) // 4
        if count <= 0:
            continue
        words = np.frombuffer(data, dtype="<i4", count=count, offset=phase)
        places = np.arange(count, dtype=np.int64) * 4 + phase
        hits = words.astype(np.int64) + places == slot - addr - 4
        found += places[hits].tolist()
    return sorted(found)


def _use(image: LoadedImage, sections: Sections | None, data: bytes, addr: int, place: int) -> Use:
    opcode = data[max(place - 2, 0) : place]
    where = addr + place
    section = None if sections is None else sections.containing(where - image.load_bias)
    name = "" if section is None else section.name
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
    at = addr + max(start, 0)
    return Use(kind, at, where, name, image.space.read(at, _CODE))


def _is_stub(data: bytes, place: int, name: str) -> bool:
    """Say whether a jump is a stub where no section says so: by what fills it up."""
    after = data[place + 4 : place + 7]
    return not name and (
        after[:2] == b"\x66\x90" or after == b"\x66\x0f\x1f" or after[:1] == b"\x68"
    )


def instruction(code: bytes, addr: int) -> str:
    """Return the first instruction that matters of the code at `addr`, in AT&T's words.

    Landing marks are left out; what is not a stub's or a call's is shown as bytes.
    """
    skipped = 0
    prefix = ""
    if code[:4] == _ENDBR:
        skipped = 4
    if code[skipped : skipped + 2] == b"\x41\xbb":
        skipped += 6
    if code[skipped : skipped + 1] == b"\xf2":
        prefix, skipped = "bnd ", skipped + 1
    rest = code[skipped:]
    names = {b"\xff\x25": "jmp", b"\xff\x15": "call"}
    name = names.get(rest[:2])
    if name is None or len(rest) < 6:
        return " ".join(f"{one:02x}" for one in code[:8])
    distance = int.from_bytes(rest[2:6], "little", signed=True)
    return f"{prefix}{name} *{distance:#x}(%rip), to what is at {target_of(code, addr):#x}"


def target_of(code: bytes, addr: int) -> int | None:
    """Return the address of the word that a stub or call goes through, None for other code."""
    for at in range(min(len(code) - 5, 12)):
        if code[at : at + 2] in (b"\xff\x25", b"\xff\x15"):
            distance = int.from_bytes(code[at + 2 : at + 6], "little", signed=True)
            return addr + at + 6 + distance
    return None
