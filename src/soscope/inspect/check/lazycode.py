# SPDX-License-Identifier: Apache-2.0
"""What the code behind an unbound slot gives the lazy resolver, as its instruction set has it."""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa import part
from soscope.model.filemap import FileSlot


def argument_of(mapped: ElfMap, slot: FileSlot) -> int | None:
    """Return what the resolver is given at the first call through a lazy slot.

    None where the code has no shape that is known, or the resolver finds it otherwise.
    """
    known = part(mapped.machine, "lazy")
    if slot.helper is None or known is None:
        return None
    given: int | None = known.argument_of(mapped, slot, slot.helper)
    return given
