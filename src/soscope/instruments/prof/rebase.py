# SPDX-License-Identifier: Apache-2.0
"""Where an image lay when a gmon.out was written: its code tells.

mcount and __fentry__ write down where they return to. In the right place, a call of theirs stands
in front of each of these addresses. Images lie at whole pages, so there are few places to try.
"""

from __future__ import annotations

from soscope.binfmt.elf.slots import slot_relocations
from soscope.binfmt.elf.symbols.table import dynamic_table
from soscope.binfmt.gmon import GmonFile
from soscope.errors import SoscopeError
from soscope.instruments.prof.naming import ImageFunctions
from soscope.instruments.prof.returns import Code, ReturnAddresses

_PAGE = 4096  # bytes: the least
_MOST_PAGES = 1 << 16
# the last one may be led to mcount by whoever wants counts of a library built with it
_COUNTERS = ("mcount", "_mcount", "__fentry__", "__cyg_profile_func_enter")


def fits(gmon: GmonFile, functions: ImageFunctions, code: Code, offset: int) -> bool:
    """Return whether most callees are in the code, at calls of mcount or at functions.

    `offset` makes link-time addresses of the file's. What cannot be told, fits.
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
    """Return what makes link-time addresses of the file's; None: no place, or several, fit."""
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
