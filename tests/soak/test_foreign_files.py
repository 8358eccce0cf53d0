# SPDX-License-Identifier: Apache-2.0
"""Debian's own files for other processors: objdump, readelf and Unicorn on all stubs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.check.check import check_elf
from soscope.model import filemap as words
from tests.support.files.stubs import differences, named_by_objdump, opened, without_sections
from tests.support.machines.foreign import elf_files, readelf_slots, unpacked

pytestmark = pytest.mark.soak

_PACKAGES = ("libc6", "libc6-dev", "coreutils", "bash", "libstdc++6", "perl-base", "libxml2")
_CELLS = {
    ("arm64", "bookworm"): "aarch64-linux-gnu",
    ("arm64", "trixie"): "aarch64-linux-gnu",  # with BTI
    ("armhf", "bookworm"): "arm-linux-gnueabihf",
    ("s390x", "trixie"): "s390x-linux-gnu",
    ("riscv64", "trixie"): "riscv64-linux-gnu",
}
_DT_AARCH64_BTI_PLT = 0x7000_0001
_WORDS = ("_64", "_32")  # one type of relocation for all words


def _against_objdump(path: Path, mapped: ElfMap, triplet: str) -> list[str]:
    """Return where objdump names another stub, or none, without a reason that is known."""
    ours = {stub.vaddr: slot for slot in mapped.slots for stub in slot.stubs}
    sections = [one.name for one in mapped.sections.all if one.name.startswith((".plt", ".iplt"))]
    is_bti = mapped.arch == "aarch64" and mapped.image.dynamic.get(_DT_AARCH64_BTI_PLT) is not None
    if not sections or is_bti:  # objdump 2.40 takes stubs with `bti c` to be shorter
        return []
    options = [word for name in sections for word in ("-j", name)]
    theirs = named_by_objdump(path, f"{triplet}-objdump", *options)
    # it counts entries, and takes the trampoline of thread-local descriptors for some of them
    tls = {one.symbol or "*ABS*" for one in mapped.slots if one.binding == words.TLSDESC}
    found = []
    for vaddr, name in theirs.items():
        if vaddr not in ours:
            if name not in tls:
                found.append(f"{path}: {vaddr:#x}: {name} is not ours")
        elif ours[vaddr].symbol != name and not (
            # an IFUNC that has no dynamic symbol: it has but the address
            ours[vaddr].binding == words.IRELATIVE and re.match(r"\*ABS\*(\+|$)", name)
        ):
            found.append(f"{path}: {vaddr:#x}: {name} is {ours[vaddr].symbol} of ours")
    for vaddr, slot in ours.items():
        # those of IFUNCs it does not name on arm
        if vaddr not in theirs and slot.binding != words.IRELATIVE:
            found.append(f"{path}: {vaddr:#x}: {slot.symbol} is ours alone")
    return found


@pytest.mark.parametrize(("arch", "suite"), _CELLS)
def test_every_stub_and_slot_of_debian(tmp_path: Path, arch: str, suite: str) -> None:
    triplet = _CELLS[arch, suite]
    found: list[str] = []
    stubs = bare_stubs = 0
    for path in elf_files(*unpacked(arch, suite, _PACKAGES)):
        with opened(path) as mapped:
            rows = [(one.vaddr, one.slot) for slot in mapped.slots for one in slot.stubs]
            slots = [(one.vaddr, one.kind, one.symbol) for one in mapped.slots if one.symbol]
            stubs += len(rows)
            found += [f"{path}: {why}" for why in mapped.partial]
            found += [f"{path}: {one} leads astray" for one in mapped.stubs_without_slot]
            found += [f"{path}: {one.message}" for one in check_elf(mapped)]
            found += [f"{path}: {one}" for one in differences(mapped)]
            found += _against_objdump(path, mapped, triplet)
            ours = {one.vaddr for one in mapped.slots if not one.kind.endswith(_WORDS)}
            if ours != readelf_slots(path, f"{triplet}-readelf"):
                found.append(f"{path}: other slots than readelf's")
        bare = without_sections(path, tmp_path)
        with opened(bare) as mapped:
            again = [(one.vaddr, one.slot) for slot in mapped.slots for one in slot.stubs]
            bare_stubs += len(again)
            names = {one.vaddr: one.symbol for one in mapped.slots}
            for vaddr, kind, symbol in slots:
                # the names of local functions have no other place
                if names.get(vaddr) != symbol and not kind.endswith("_IRELATIVE"):
                    found.append(f"{path}: without section headers no {symbol} at {vaddr:#x}")
            if again != rows:
                wrong = sorted(set(again) ^ set(rows))
                found.append(f"{path}: without section headers {len(wrong)} differ: {wrong[:3]}")
        bare.unlink()
    assert not found, "\n".join(found[:40])
    assert stubs == bare_stubs > 10_000
