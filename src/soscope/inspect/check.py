# SPDX-License-Identifier: Apache-2.0
"""What `soscope check` finds in one image."""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.macho.filemap import MachoMap
from soscope.errors import SoscopeError
from soscope.inspect.checkelf import check_elf
from soscope.inspect.checkmacho import check_macho
from soscope.inspect.fault import FAULT, REMARK, Fault
from soscope.inspect.hardening import check_hardening
from soscope.inspect.searchpath import check_search_path
from soscope.linker.image import Image


class Checked:
    """An image with its faults; `ran` is how many stubs were run, None where none should be."""

    __slots__ = ("faults", "image", "ran")

    def __init__(self, image: Image, faults: list[Fault], ran: int | None) -> None:
        self.image = image
        self.faults = faults
        self.ran = ran

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
    ran = None
    if run and isinstance(found, ElfMap | MachoMap):
        try:
            more, ran = _run(found)
        except SoscopeError as error:
            if error.slug != "no-emulator":
                raise
            more = [Fault("not-run", REMARK, error.message)]
        faults += more
    return Checked(image, faults, ran)


def _run(found: ElfMap | MachoMap) -> tuple[list[Fault], int]:
    """Return what running the stubs shows, and how many ran."""
    from soscope.inspect.emulate import disagreement, run_stubs
    from soscope.inspect.emulatemacho import run_macho

    ran = 0
    faults = []
    by_slot = {one.vaddr: one for one in found.slots}
    for one in run_stubs(found) if isinstance(found, ElfMap) else run_macho(found):
        ran += 1
        slot = by_slot.get(one.stub.slot)
        why = one.why if slot is None else disagreement(slot, one)
        if why:
            symbol = slot.symbol if slot is not None else None
            what = f"the stub of {symbol or 'no symbol'} at {one.stub.vaddr:#x}, run: {why}"
            faults.append(Fault("run", FAULT, what, one.stub.vaddr, symbol))
    return faults, ran
