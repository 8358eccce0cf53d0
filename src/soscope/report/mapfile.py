# SPDX-License-Identifier: Apache-2.0
"""The map of a file as text: a page of facts, and tables whose lines have the same fields.

An empty field is "-", and no field contains a blank, so awk can read them.
"""

from __future__ import annotations

from collections import Counter

from soscope.linker.image import Image, Slot
from soscope.model.call import printable
from soscope.model.filemap import Stub, Symbol
from soscope.report.words import STATIC_KINDS, STRAIGHT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SLOTS = ("SLOT", "SECTION", "KIND", "BINDING", "STUBS", "SYMBOL", "PROVIDER")
_STUBS = ("STUB", "SECTION", "KIND", "SLOT", "SYMBOL", "PROVIDER")
_SYMBOLS = ("ADDRESS", "SIZE", "TYPE", "BINDING", "SYMBOL", "LIBRARY")
_NEEDED = ("NEEDED", "PATH")


def text(
    image: Image,
    slots: Sequence[Slot],
    without_slot: Sequence[Stub],
    tables: Sequence[str],
    *,
    symbols: Sequence[Symbol],
    is_alone: bool,
) -> str:
    """Return the chosen tables, or the page of facts and the slots.

    `slots` are the slots to show, with their stubs. `without_slot` are stubs without a slot, and
    `symbols` are the entries of the symbol table. Without `is_alone` each line of a chosen table
    begins with the file's path, and with the architecture if the file has several images.
    """
    if not tables:
        rows = _aligned(_SLOTS, _slot_rows(image, slots), "")
        # Only now it is known what could not be read.
        lines = [*_facts(image, slots, without_slot), "", *rows]
    else:
        lead = "" if is_alone else _field(image.path)
        if image.is_slice:
            lead = f"{_field(image.path)}:{_field(image.arch)}"
        lines = []
        for name in tables:
            if name == "slots":
                lines += _aligned(_SLOTS, _slot_rows(image, slots), lead)
            elif name == "stubs":
                lines += _aligned(_STUBS, _stub_rows(image, slots, without_slot), lead)
            elif name == "symbols":
                lines += _aligned(_SYMBOLS, map(_symbol_row, symbols), lead)
            else:
                lines += _aligned(_NEEDED, _needed_rows(image), lead)
        front = f"{lead}  " if lead else ""
        lines += [f"{front}# partial: {printable(why)}" for why in image.partial]
    return "".join(f"{line}\n" for line in lines)


def _facts(image: Image, slots: Sequence[Slot], without_slot: Sequence[Stub]) -> list[str]:
    form = f"{_FORMATS[image.format]} {image.arch}, {image.bits}-bit {image.endian}-endian"
    lines = [f"{printable(image.path)}: {form}, {image.kind}"]
    if image.build_id:
        lines.append(f"  build-id {image.build_id}")
    if image.needed:
        lines.append(f"  needs    {printable(' '.join(image.needed))}")
    bindings = Counter(slot.binding for slot in slots)
    lines.append(f"  slots    {_counted(len(slots), bindings)}")
    kinds = Counter(stub.kind for slot in slots for stub in slot.stubs)
    lines.append(f"  stubs    {_counted(kinds.total(), kinds)}")
    if without_slot:
        lines.append(f"           {len(without_slot):,} more lead through no slot")
    if image.kind in STATIC_KINDS:
        lines.append(f"  calls    {STRAIGHT}: soscope prof run shows its functions by samples")
    lines += [f"  partial  {printable(why)}" for why in image.partial]
    return lines


_WIDEST = 300  # A name of thousands of letters must not widen all lines.
_FORMATS = {"elf": "ELF", "mach-o": "Mach-O"}


def _counted(total: int, parts: Counter[str]) -> str:
    listed = ", ".join(f"{count:,} {name}" for name, count in parts.most_common())
    return f"{total:,}: {listed}" if listed else f"{total:,}"


def _slot_rows(image: Image, slots: Iterable[Slot]) -> Iterable[Sequence[str]]:
    for slot in slots:
        yield (
            hex(slot.vaddr),
            _field(slot.section),
            _field(slot.kind),
            _field(slot.binding),
            ",".join(hex(stub.vaddr) for stub in slot.stubs) or "-",
            _symbol(slot),
            _provider(image, slot),
        )


def _stub_rows(
    image: Image, slots: Iterable[Slot], without_slot: Iterable[Stub]
) -> Iterable[Sequence[str]]:
    slot_of = {stub: slot for slot in slots for stub in slot.stubs}
    for stub in sorted({*slot_of, *without_slot}):
        slot = slot_of.get(stub)
        yield (
            hex(stub.vaddr),
            _field(stub.section),
            _field(stub.kind),
            "-" if slot is None else hex(slot.vaddr),
            _field(stub.selector) if slot is None else _selected(slot, stub),
            "-" if slot is None else _provider(image, slot),
        )


def _selected(slot: Slot, stub: Stub) -> str:
    return _symbol(slot) if stub.selector is None else _field(f"{slot.symbol}${stub.selector}")


def _symbol_row(symbol: Symbol) -> Sequence[str]:
    name = symbol.name if symbol.version is None else f"{symbol.name}@{symbol.version}"
    return (
        hex(symbol.vaddr) if symbol.defined_here else "-",
        str(symbol.size),
        symbol.type,
        symbol.binding,
        _field(name),
        _field(symbol.library),
    )


def _needed_rows(image: Image) -> Iterable[Sequence[str]]:
    for name in image.needed:
        yield _field(name), _field(image.where(name))


def _symbol(slot: Slot) -> str:
    return _field(slot.symbol if slot.version is None else f"{slot.symbol}@{slot.version}")


def _provider(image: Image, slot: Slot) -> str:
    return _field(image.provider(slot).name)


def _field(value: str | None) -> str:
    """Return a value as one field, without blanks and control characters."""
    if not value:
        return "-"
    return value if value.isidentifier() else printable(value).replace(" ", "\\x20")


def _aligned(head: Sequence[str], rows: Iterable[Sequence[str]], lead: str) -> list[str]:
    """Return the lines of a table, whose columns fit their contents up to a limit.

    With a `lead`, the table is one of several. Then each row begins with the lead, and a table
    without rows has no head.
    """
    if lead:
        head, rows = ("FILE", *head), ((lead, *row) for row in rows)
    listed = [head, *rows]
    if lead and len(listed) == 1:
        return []
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*listed, strict=True)]
    widths[-1] = 0
    return ["  ".join(map(str.ljust, row, widths)) for row in listed]
