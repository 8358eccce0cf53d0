# SPDX-License-Identifier: Apache-2.0
"""Finds where an image lay when a gmon.out was written, by means of its code.

mcount and __fentry__ record their return addresses. At the right load address, each of them has a
call of mcount in front of it. Images begin at whole pages, so there are few addresses to try.
"""

from __future__ import annotations

from soscope.binfmt.elf.slots import slot_relocations
from soscope.binfmt.elf.symbols.table import dynamic_table
from soscope.binfmt.profiles import GmonFile
from soscope.errors import SoscopeError
from soscope.instruments.prof.naming import ImageFunctions
from soscope.instruments.prof.returns import Code, ReturnAddresses

_PAGE = 4096  # bytes of the smallest page
_MOST_PAGES = 1 << 16
# A user may direct the last one to mcount, to get counts of a library that was built with it.
_COUNTERS = ("mcount", "_mcount", "__fentry__", "__cyg_profile_func_enter")


def fits(gmon: GmonFile, functions: ImageFunctions, code: Code, offset: int) -> bool:
    """Return whether most callees are in the code, behind calls of mcount or in functions.

    `offset` turns addresses of the file into link-time addresses. If nothing can be told, return
    True.
    """
    addrs = _callees(gmon, offset)
    if not addrs:
        return True
    inside = [addr for addr in addrs if any(start <= addr < end for start, end in code)]
    returns = ReturnAddresses(functions)
    if not returns.is_there:
        return bool(inside)
    right = [
        addr for addr in inside if returns.call_before(addr)[0] or functions.at(addr).addr == addr
    ]
    return 2 * len(right) > len(inside)


def offset_of(gmon: GmonFile, functions: ImageFunctions, code: Code) -> int | None:
    """Return the offset that turns addresses of the file into link-time addresses.

    Return None if no offset fits, or if several do.
    """
    addrs = sorted(_callees(gmon, 0))
    returns = ReturnAddresses(functions)
    if not addrs or not returns.is_there:
        return None
    slots = _slots(functions)
    stubs = {name + end for name in _COUNTERS for end in ("", "@plt")}
    pages = sorted(
        {page for start, end in code for page in range(start // _PAGE, -(-end // _PAGE))}
    )
    offsets = []
    for page in pages[:_MOST_PAGES]:
        offset = page * _PAGE + addrs[0] % _PAGE - addrs[0]
        for addr in addrs:
            _, target, slot = returns.call_before(addr + offset)
            by_stub = target is not None and functions.at(target).symbol in stubs
            if not (by_stub or slot in slots):
                break
        else:
            offsets.append(offset)
    return offsets[0] if len(offsets) == 1 else None


def _slots(functions: ImageFunctions) -> set[int]:
    """Return the slots through which mcount is called, as link-time addresses."""
    if functions.elf is None:
        return set()
    try:
        symbols = dynamic_table(functions.elf)
        return {
            relocation.vaddr
            for relocation in slot_relocations(functions.elf)
            if relocation.symbol < len(symbols)
            and symbols.symbol(relocation.symbol).name in _COUNTERS
        }
    except (SoscopeError, OSError):
        return set()


def _callees(gmon: GmonFile, offset: int) -> list[int]:
    mask = (1 << gmon.bits) - 1
    return [(addr + offset) & mask for addr in {addr for _, addr in gmon.arcs}]
