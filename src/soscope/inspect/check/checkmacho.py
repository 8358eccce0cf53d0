# SPDX-License-Identifier: Apache-2.0
"""Find contradictions in a Mach-O image's data about its linking."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.macho import filemap as a
from soscope.binfmt.macho.filemap import MachoMap
from soscope.inspect.check.fault import FAULT, Fault


def check_macho(mapped: MachoMap) -> Iterator[Fault]:
    """Yield the faults of one image."""
    names = {slot.vaddr: slot.symbol for slot in mapped.slots}
    for disagreement in a.disagreements(mapped):
        symbol = names.get(disagreement.slot) or disagreement.by_stub or None
        yield Fault(
            _SLUGS[disagreement.what],
            FAULT,
            _text(disagreement, symbol),
            disagreement.stub or disagreement.slot,
            symbol,
        )


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


def _text(case: a.Disagreement, symbol: str | None) -> str:
    bound = " and ".join(case.bound)
    expected = "" if case.expected is None else f", not {case.expected:#x}"
    whose = f", {case.offset_names}'s" if case.offset_names else ", that of no record"
    texts = {
        a.STUB_NAME: f"the stub of {case.by_stub} at {case.stub:#x} leads through the slot of"
        f" {symbol} at {case.slot:#x}",
        a.SLOT_NAME: f"the slot at {case.slot:#x} is {case.by_slot}'s, and is bound to {bound}",
        a.TWO_NAMES: f"the slot at {case.slot:#x} is bound to {bound}",
        a.NO_CODE: f"the stub of {case.by_stub or 'no symbol'} at {case.stub:#x} has code that no"
        " linker makes",
        a.NO_SLOT: f"the stub of {case.by_stub or 'no symbol'} at {case.stub:#x} leads through"
        f" {case.slot:#x}, which nothing binds",
        a.NO_RECORD: f"the slot of {symbol} at {case.slot:#x} is bound to nothing",
        a.LAZY_OFFSET: f"the first call of {symbol} gives the resolver {case.offset or 0:#x}"
        f"{whose}{expected}",
        a.LAZY_SLOT: f"the first call of {symbol} gives the resolver the slot at"
        f" {case.offset or 0:#x}{whose}{expected}",
        a.NO_HELPER: f"the lazy slot of {symbol} at {case.slot:#x} leads to no helper at first",
        a.RECORD_ELSEWHERE: f"{bound} is bound lazily at {case.slot:#x}, which is no slot",
    }
    return texts[case.what]
