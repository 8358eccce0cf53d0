# SPDX-License-Identifier: Apache-2.0
"""Find the code that calls an address, and the addresses that code uses, on x86-64 and i386.

Every position of the code is treated as an instruction. A match by chance is rare if all its five
or more bytes have to fit: once in 2^40 bytes for each address.
"""

from __future__ import annotations

from typing import Any

from soscope.binfmt.isa.x86.uses import words_that

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CALL, _JUMP = 0xE8, 0xE9
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
        if place and data[place - 1] in (_CALL, _JUMP)
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
