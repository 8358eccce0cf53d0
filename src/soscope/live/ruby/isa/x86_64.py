# SPDX-License-Identifier: Apache-2.0
"""x86-64: thread-local variables in code (psABI, 4.11)."""

from __future__ import annotations

import re
from struct import unpack

# 66 lea index(%rip), %rdi; 66 66 rex.W call, or a call through the word that holds the address: 66
# rex.W call
_GENERAL = re.compile(rb"\x66\x48\x8d\x3d(....)\x66(?:\x66\x48\xe8|\x48\xff\x15)", re.DOTALL)
_END = 8  # end of its lea
_LOCAL = re.compile(rb"\x64[\x48\x4c]\x8b[\x04\x0c\x14\x1c\x24\x2c\x34\x3c]\x25(....)", re.DOTALL)
_GUARD = 0x28  # offset of the stack protector's value

DTV = 8  # bytes from the thread pointer to the list of the thread's blocks


def first_variable(code: bytes, addr: int) -> tuple[int, int] | None:
    """Return the location of the first thread-local variable in `code`, which is at `addr`.

    It is (address of the pair of module number and offset, 0), or (0, offset from the thread
    pointer), or None if there is no such variable.
    """
    general = _GENERAL.search(code)
    locals_ = [match for match in _LOCAL.finditer(code) if unpack("<i", match[1])[0] != _GUARD]
    if general is not None and not (locals_ and locals_[0].start() < general.start()):
        return addr + general.start() + _END + unpack("<i", general[1])[0], 0
    return (0, unpack("<i", locals_[0][1])[0]) if locals_ else None
