# SPDX-License-Identifier: Apache-2.0
"""Counts the calls of an enter hook that belong to inlined functions.

An enter hook gets the address of the entered function. The code of a function takes that
function's address for its own call of the hook, and other functions' addresses for functions that
were inlined into it. So a piece of code that takes its own address has one call of its own. Other
pieces have none: a part that was split off, or a function that is not instrumented. A copy of a
function takes the address of the original, which only symbols can tell.
"""

from __future__ import annotations

from collections import Counter

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.sections import relative_words
from soscope.binfmt.isa import part
from soscope.binfmt.stubs.finder import SlotTable, all_code
from soscope.errors import FormatError
from soscope.instruments.prof.check.functions import Functions


def count_inlined(
    mapped: ElfMap, functions: Functions, returns: list[int]
) -> tuple[int, int] | None:
    """Return how many of the sites with these return addresses belong to inlined functions.

    The result is a minimum and a maximum, None if nothing is known. Raises FormatError.
    """
    sites = Counter(functions.at(vaddr - 1) for vaddr in returns)
    if -1 in sites:
        return None
    taken = _taken(mapped, functions, sites)
    if taken is None:
        return None
    own = unknown = 0
    for index in sites:
        said = taken.get(index, set())
        if functions.is_cold(index) or functions.is_split(index):
            continue
        if functions.starts[index] in said or said & functions.originals(index):
            own += 1
        elif not functions.names[index] or not said:
            unknown += 1  # a copy, or it takes addresses in an unknown way
    return len(returns) - own - unknown, len(returns) - own


def _taken(mapped: ElfMap, functions: Functions, sites: Counter[int]) -> dict[int, set[int]] | None:
    """Return the functions whose addresses each piece with sites takes, None if unreadable."""
    calls = part(mapped.machine, "calls")
    if calls is None or mapped.bits != 64:
        return None
    starts = set(functions.starts)
    words = _words(mapped, starts)
    by_number = mapped.kind in ("executable", "static")
    taken: dict[int, set[int]] = {}
    for code in all_code(SlotTable(mapped.image, {}, ())):
        made, loaded = calls.addresses(code.data, code.vaddr, by_number=by_number)
        pairs = [(place, target) for place, target in made if target in starts]
        pairs += [(place, words[word]) for place, word in loaded if word in words]
        for place, target in pairs:
            index = functions.at(place)
            if index in sites:
                taken.setdefault(index, set()).add(target)
    return taken


def _words(mapped: ElfMap, starts: set[int]) -> dict[int, int]:
    """Return word -> function for the words from which code loads functions' addresses."""
    defined = {
        symbol.name: symbol.vaddr
        for symbol in mapped.symbols
        if symbol.defined_here and symbol.vaddr in starts
    }
    words = {slot.vaddr: defined[slot.symbol] for slot in mapped.slots if slot.symbol in defined}
    try:
        moved = relative_words(mapped.image)
    except FormatError:
        moved = {}
    words |= {vaddr: target for vaddr, target in moved.items() if target in starts}
    return words
