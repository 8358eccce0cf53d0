# SPDX-License-Identifier: Apache-2.0
"""The results of `soscope check` for one image."""

from __future__ import annotations

from collections import Counter

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.macho.filemap import MachoMap
from soscope.errors import SoscopeError
from soscope.inspect.check.checkelf import check_elf
from soscope.inspect.check.checkmacho import check_macho
from soscope.inspect.check.fault import FAULT, Fault
from soscope.inspect.check.hardening import check_hardening
from soscope.inspect.check.searchpath import check_providers, check_search_path
from soscope.linker.image import Image
from soscope.model.filemap import CALL_STUB, Stub


class Checked:
    """An image with its faults.

    `ran` is how many stubs were run. `not_run` maps reasons to how many could not be run. Both
    are None if no stubs were to be run.
    """

    __slots__ = ("faults", "image", "not_run", "ran")

    def __init__(self, image: Image, faults: list[Fault]) -> None:
        self.image = image
        self.faults = faults
        self.ran: int | None = None
        self.not_run: dict[str, int] | None = None

    @property
    def is_sound(self) -> bool:
        """Return whether the image has no faults; it may have remarks."""
        return not any(fault.severity == FAULT for fault in self.faults)


def check(image: Image, *, run: bool = False, hardening: bool = False) -> Checked:
    """Check one image; if `run` is true, also run every stub under Unicorn.

    If `hardening` is true, check for IBT, shadow stacks, BTI and PAC.

    Raises SoscopeError (no-extra) if Unicorn is not installed.
    """
    mapped = image.map
    faults: list[Fault] = []
    if isinstance(mapped, ElfMap):
        faults += check_elf(mapped)
        faults += check_search_path(mapped, image.path)
        faults += check_providers(mapped, image.path)
        faults += check_hardening(mapped, branches=hardening)
    elif isinstance(mapped, MachoMap):
        faults += check_macho(mapped)
    checked = Checked(image, faults)
    if run and isinstance(mapped, ElfMap | MachoMap):
        _run(mapped, checked)
    return checked


def _run(mapped: ElfMap | MachoMap, into: Checked) -> None:
    """Run the stubs, and add the results."""
    from soscope.inspect.check.emulate import disagreement, run_stubs
    from soscope.inspect.check.emulator import the_library

    the_library()
    into.ran = 0
    reason = ""
    by_slot = {slot.vaddr: slot for slot in mapped.slots}
    left = {stub.vaddr: stub for slot in mapped.slots for stub in slot.stubs}
    left.update((stub.vaddr, stub) for stub in mapped.stubs_without_slot)
    try:
        for ran in run_stubs(mapped):
            into.ran += 1
            left.pop(ran.stub.vaddr, None)
            slot = by_slot.get(ran.stub.slot)
            if slot is not None:
                why = disagreement(slot, ran)
            else:
                why = ran.why or f"it goes through the slot at {ran.slot or 0:#x}"
            if why:
                symbol = slot.symbol if slot is not None else None
                what = f"the stub of {symbol or 'no symbol'} at {ran.stub.vaddr:#x}, run: {why}"
                into.faults.append(Fault("run", FAULT, what, ran.stub.vaddr, symbol))
    except SoscopeError as error:
        if error.slug != "no-emulator":
            raise
        reason = error.message.removeprefix("stubs cannot be run: ")
    into.not_run = dict(Counter(reason or _why_not(stub) for stub in left.values()))


def _why_not(stub: Stub) -> str:
    """Return why one stub was not run, although the image's other stubs can be."""
    if stub.slot == stub.vaddr:
        return "the loader writes the code"
    if stub.kind == CALL_STUB:
        return "only the caller knows the slot"
    return "nobody calls it"
