# SPDX-License-Identifier: Apache-2.0
"""Which code calls an address, and which addresses code takes, on x86-64 and i386.

Every position of the code is taken for an instruction. That it is one by chance is rare where all
of its five or more bytes have to fit: once in 2^40 bytes for each address that is asked for.
"""

from __future__ import annotations

from typing import Any

from soscope.binfmt.isa.x86.uses import words_that

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CALL, _JUMP = 0xE8, 0xE9
_LEA, _MOV = 0x8D, 0x8B
_MOV_NUMBER = 0xB8  # mov $number, %eax; the seven behind it are for the other registers
_SHORT = 7  # bytes of the longest instruction that is looked for


def direct_calls(data: bytes, addr: int, targets: Iterable[int]) -> list[int]:
    """Return where calls of one of `targets`, and jumps there, return to, by rising address.

    `data` lies at `addr`. What a jump returns to is taken to be what stands behind it.
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
    """Return the addresses that code of x86-64 takes, and those of the words that it loads.

    Each is (address of the instruction, address). With `by_number` the code lies where it was
    linked, and may have addresses as numbers.
    """
    import numpy as np

    count = len(data) - _SHORT + 1
    if count <= 0:
        return [], []
    code = np.frombuffer(data, dtype=np.uint8)
    words = np.lib.stride_tricks.sliding_window_view(code, 4)

    def rows(places: Any, number: int, origin: int) -> list[tuple[int, int]]:
        """Return (place, address); its number is `number` bytes behind the place."""
        numbers = words[places + number].copy().view("<i4").ravel().astype(np.int64)
        targets = numbers + (places + origin if origin else 0)
        return list(zip((places + addr).tolist(), targets.tolist(), strict=True))

    by_place = np.flatnonzero(code[1:count] & 0xC7 == 5)  # the form of disp(%rip)
    end = addr + 6  # of such an instruction, from where its number counts
    taken = rows(by_place[code[by_place] == _LEA], 2, end)
    loaded = rows(by_place[code[by_place] == _MOV], 2, end)
    if by_number:
        taken += rows(np.flatnonzero(code[:count] & 0xF8 == _MOV_NUMBER), 1, 0)
    return taken, loaded
