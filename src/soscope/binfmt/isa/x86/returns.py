# SPDX-License-Identifier: Apache-2.0
"""Find the call before a return address in x86 code, as far as its bytes tell."""

from __future__ import annotations

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
