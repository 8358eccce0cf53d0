# SPDX-License-Identifier: Apache-2.0
"""Look up a function's flags from special.txt in SEC_FUNCTIONS, as the agent does."""

from __future__ import annotations

from soscope.binfmt.elf.symbols.lookup import gnu_hash
from soscope.select.automaton import Automaton
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.prototypes.row import AutomatonParts

# Index of a family in the table of functions: its flag, shifted.
FAMILIES = {
    "libc": layout.FN_OF_LIBC >> layout.FN_FAMILY_SHIFT,
    "zlib": layout.FN_OF_ZLIB >> layout.FN_FAMILY_SHIFT,
}


def treatment_of(section: bytes, automata: tuple[AutomatonParts, ...], name: bytes) -> int:
    """Return the flags of a function in a section that was built without programs, 0 if none."""
    bits, cells_at, globs_at, *_ = layout.FUNCTION_TABLE.struct.unpack_from(section)
    value, mask = gnu_hash(name), (1 << bits) - 1
    index = (value >> 4) & mask
    for _ in range(1 << bits):
        at = cells_at + index * layout.FUNCTION.size
        hashed, name_at, *_, flags, _, _ = layout.FUNCTION.struct.unpack_from(section, at)
        if not name_at:
            break
        if hashed == value and section.startswith(name + b"\0", name_at):
            return int(flags)
        index = (index + 1) & mask
    for number, parts in enumerate(automata):
        if Automaton(*parts).matches(name):
            at = globs_at + number * layout.FUNCTION_GLOB.size
            return int(layout.FUNCTION_GLOB.struct.unpack_from(section, at)[1])
    return 0
