# SPDX-License-Identifier: Apache-2.0
"""What `soscope check` finds in one image."""

from __future__ import annotations

from collections import Counter

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.macho.filemap import MachoMap
from soscope.errors import SoscopeError
from soscope.inspect.checkelf import check_elf
from soscope.inspect.checkmacho import check_macho
from soscope.inspect.fault import FAULT, Fault
from soscope.inspect.hardening import check_hardening
from soscope.inspect.searchpath import check_search_path
from soscope.linker.image import Image
from soscope.model.filemap import CALL_STUB, Stub


class Checked:
    """An image with its faults.

    `ran` is how many stubs were run, `not_run` how many could not be, by the reason; None where
    none should be.
    """

    __slots__ = ("faults", "image", "not_run", "ran")

    def __init__(self, image: Image, faults: list[Fault]) -> None:
        self.image = image
        self.faults = faults
        self.ran: int | None = None
        self.not_run: dict[str, int] | None = None

    @property
    def is_sound(self) -> bool:
        """Say whether there are remarks at most."""
        return not any(one.severity == FAULT for one in self.faults)


def check(image: Image, *, run: bool = False) -> Checked:
    """Check one image; with `run` every stub is run under Unicorn, too.

    Raises SoscopeError (no-extra) where that is not installed.
    """
    found = image.map
    faults: list[Fault] = []
    if isinstance(found, ElfMap):
        faults += check_elf(found)
        faults += check_search_path(found, image.path)
        faults += check_hardening(found)
    elif isinstance(found, MachoMap):
        faults += check_macho(found)
    checked = Checked(image, faults)
    if run and isinstance(found, ElfMap | MachoMap):
        _run(found, checked)
    return checked


def _run(found: ElfMap | MachoMap, into: Checked) -> None:
    """Run the stubs; add what that shows."""
    from soscope.inspect.emulate import disagreement, run_stubs
    from soscope.inspect.emulator import the_library

    the_library()
    into.ran = 0
    reason = ""
    by_slot = {one.vaddr: one for one in found.slots}
    left = {stub.vaddr: stub for slot in found.slots for stub in slot.stubs}
    left.update((stub.vaddr, stub) for stub in found.stubs_without_slot)
    try:
        for one in run_stubs(found):
            into.ran += 1
            left.pop(one.stub.vaddr, None)
            slot = by_slot.get(one.stub.slot)
            if slot is not None:
                why = disagreement(slot, one)
            else:
                why = one.why or f"it goes through the slot at {one.slot or 0:#x}"
            if why:
                symbol = slot.symbol if slot is not None else None
                what = f"the stub of {symbol or 'no symbol'} at {one.stub.vaddr:#x}, run: {why}"
                into.faults.append(Fault("run", FAULT, what, one.stub.vaddr, symbol))
    except SoscopeError as error:
        if error.slug != "no-emulator":
            raise
        reason = error.message.removeprefix("stubs cannot be run: ")
    into.not_run = dict(Counter(reason or _why_not(stub) for stub in left.values()))


def _why_not(stub: Stub) -> str:
    """Say why a stub of an image that can be run was not."""
    if stub.slot == stub.vaddr:
        return "the loader writes the code"
    if stub.kind == CALL_STUB:
        return "only the caller knows the slot"
    return "nobody calls it"
