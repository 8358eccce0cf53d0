# SPDX-License-Identifier: Apache-2.0
"""Instructions of x86-64 and i386 that call or jump through slots, in stubs or without one.

Every position of the code is treated as an instruction. A chance match with a slot is as rare as
four bytes that happen to be one certain number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from soscope.binfmt.stubs.through import Through

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
