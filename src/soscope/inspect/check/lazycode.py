# SPDX-License-Identifier: Apache-2.0
"""Find the argument that an unbound slot's code passes to the lazy resolver."""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa import part
from soscope.model.filemap import FileSlot


def argument_of(mapped: ElfMap, slot: FileSlot) -> int | None:
    """Return the resolver's argument at the first call through a lazy slot.

    Return None if the code has an unknown form, or if the resolver finds its argument in another
    way.
    """
    known = part(mapped.machine, "lazy")
    if slot.helper is None or known is None:
        return None
    given: int | None = known.argument_of(mapped, slot, slot.helper)
    return given
