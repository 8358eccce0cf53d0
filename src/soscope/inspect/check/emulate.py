# SPDX-License-Identifier: Apache-2.0
"""Run stubs one by one under the emulator Unicorn (the extra `emulate`).

This machine's processor runs no code of the file, and no loader is needed. Each slot gets an
unmapped address of its own. The address at which a stub ends tells which slot it went through.
The first call of a lazy slot's stub is run, too: it must reach the loader's resolver, which also
has such an address.
"""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.macho.filemap import MachoMap
from soscope.inspect.check.emulateelf import run_elf
from soscope.inspect.check.emulatemacho import run_macho
from soscope.inspect.check.emulator import Ran
from soscope.model.filemap import LAZY, FileSlot


def run_stubs(mapped: ElfMap | MachoMap) -> Iterator[Ran]:
    """Run every suitable stub of an image; stubs of lazy slots run twice, unbound and bound.

    Raises SoscopeError if Unicorn is not installed (no-extra), or if it does not support the
    processor or has no room (no-emulator).
    """
    return run_elf(mapped) if isinstance(mapped, ElfMap) else run_macho(mapped)


def disagreement(slot: FileSlot, ran: Ran) -> str:
    """Return how a run differs from the file's data about a slot, "" if it does not."""
    if ran.why:
        return ran.why
    if ran.slot != slot.vaddr:
        return f"it goes through the slot at {ran.slot or 0:#x}"
    is_told = slot.binding == LAZY or ran.argument is not None
    if is_told and ran.argument != slot.resolver_argument:
        given, right = ran.argument or 0, slot.resolver_argument or 0
        return f"the resolver is given {given:#x}, not {right:#x}"
    if ran.stub.selector is not None and ran.selector != ran.stub.selector:
        return f"it asks for the method {ran.selector}, not {ran.stub.selector}"
    return ""
