# SPDX-License-Identifier: Apache-2.0
"""What does not fit together in the linking of a Mach-O image."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.macho import agreement as a
from soscope.binfmt.macho.filemap import MachoMap
from soscope.inspect.fault import FAULT, Fault


def check_macho(found: MachoMap) -> Iterator[Fault]:
    """Give the faults of one image."""
    names = {one.vaddr: one.symbol for one in found.slots}
    for one in a.disagreements(found):
        symbol = names.get(one.slot) or one.by_stub or None
        yield Fault(_SLUGS[one.what], FAULT, _text(one, symbol), one.stub or one.slot, symbol)


_SLUGS = {
    a.STUB_NAME: "stub-of-another-slot",
    a.SLOT_NAME: "slot-name",
    a.TWO_NAMES: "bound-twice",
    a.NO_CODE: "unknown-stub",
    a.NO_SLOT: "stub-without-slot",
    a.NO_RECORD: "slot-leads-nowhere",
    a.LAZY_OFFSET: "wrong-argument",
    a.LAZY_SLOT: "wrong-argument",
    a.NO_HELPER: "slot-leads-elsewhere",
    a.RECORD_ELSEWHERE: "record-without-slot",
}


def _text(one: a.Disagreement, symbol: str | None) -> str:
    bound = " and ".join(one.bound)
    expected = "" if one.expected is None else f", not {one.expected:#x}"
    whose = f", {one.offset_names}'s" if one.offset_names else ", that of no record"
    texts = {
        a.STUB_NAME: f"the stub of {one.by_stub} at {one.stub:#x} leads through the slot of"
        f" {symbol} at {one.slot:#x}",
        a.SLOT_NAME: f"the slot at {one.slot:#x} is {one.by_slot}'s, and is bound to {bound}",
        a.TWO_NAMES: f"the slot at {one.slot:#x} is bound to {bound}",
        a.NO_CODE: f"the stub of {one.by_stub or 'no symbol'} at {one.stub:#x} has code that no"
        " linker makes",
        a.NO_SLOT: f"the stub of {one.by_stub or 'no symbol'} at {one.stub:#x} leads through"
        f" {one.slot:#x}, which nothing binds",
        a.NO_RECORD: f"the slot of {symbol} at {one.slot:#x} is bound to nothing",
        a.LAZY_OFFSET: f"the first call of {symbol} gives the resolver {one.offset or 0:#x}"
        f"{whose}{expected}",
        a.LAZY_SLOT: f"the first call of {symbol} gives the resolver the slot at"
        f" {one.offset or 0:#x}{whose}{expected}",
        a.NO_HELPER: f"the lazy slot of {symbol} at {one.slot:#x} leads to no helper at first",
        a.RECORD_ELSEWHERE: f"{bound} is bound lazily at {one.slot:#x}, which is no slot",
    }
    return texts[one.what]
