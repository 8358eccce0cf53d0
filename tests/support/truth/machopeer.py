# SPDX-License-Identifier: Apache-2.0
"""Compare what soscope says of a Mach-O image with LIEF, and with itself by two ways.

LIEF knows the indirect symbol table and the bind records, but not where a stub leads; the code
of the stubs says that. A stub counts as agreed when its code leads to a slot that the records
give the symbol that the indirect symbol table gives the stub.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soscope.binfmt.macho.fat import embedded, slices
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import BufferSource
from soscope.model.filemap import OBJC_STUB, FileSlot

_STUBS = 8
_DSYM = 10  # sections without contents


@dataclass
class Compared:
    """What was compared, and where the answers differ."""

    counts: Counter[str] = field(default_factory=Counter[str])
    differences: list[str] = field(default_factory=list)
    wrong_helpers: list[str] = field(default_factory=list)

    def differ(self, *words: object) -> None:
        """Note a difference."""
        self.differences.append(" ".join(map(str, words)))


def compare_all(path: Path, into: Compared) -> None:
    """Compare every image of a file, and those that are hidden within it."""
    compare(path, into)
    data = path.read_bytes()
    source = BufferSource(data)
    known = {part.offset for part in slices(source)}
    for part in embedded(source):
        if part.offset not in known:
            into.counts["hidden"] += 1
            alone = path.with_name(f"{part.offset:x}-in-{path.name}")
            alone.write_bytes(data[part.offset : part.offset + part.size])
            compare(alone, into)
            alone.unlink()


def compare(path: Path, into: Compared) -> None:
    """Compare every image of a file."""
    import lief

    data = path.read_bytes()
    into.counts["files"] += 1
    source = BufferSource(data, path.name)
    parsed = lief.MachO.parse(str(path))
    assert parsed is not None
    peers = {one.fat_offset: one for one in parsed}
    for part in slices(source):
        image = MachoMap(source, part)
        if image.image.header.filetype == _DSYM:
            into.counts["dSYMs"] += 1
            if image.slots or image.stubs or image.partial:
                into.differ(path.name, part.arch, "a dSYM has slots")
            continue
        into.counts["slices"] += 1
        into.counts[part.arch] += 1
        peer = peers.get(part.offset)
        if peer is None and part.member:
            into.counts["members that LIEF does not have"] += 1
            continue
        if peer is None:
            into.differ(path.name, part.arch, "LIEF does not have this slice")
            continue
        one = _Image(f"{path.name} {part.arch}", image, peer, into)
        one.stubs()
        one.binds()
        one.helpers()
        for reason in image.partial:
            into.differ(one.name, "partial:", reason)


class _Image:
    def __init__(self, name: str, image: MachoMap, peer: Any, into: Compared) -> None:
        self.name = name
        self.image = image
        self.peer = peer
        self.into = into
        self.slots: dict[int, FileSlot] = {slot.vaddr: slot for slot in image.slots}
        into.counts["slots"] += len(self.slots)
        chained, opcodes = bool(image.image.chained[1]), bool(image.image.dyld_info)
        self.classic = not chained and not opcodes
        into.counts["chained"] += chained
        into.counts["opcodes"] += opcodes
        into.counts["classic"] += self.classic

    def stubs(self) -> None:
        """Every stub: the table's symbol is that of the slot that its code leads to."""
        found = {stub.vaddr: stub for stub in self.image.stubs}
        objc = [stub for stub in found.values() if stub.kind == OBJC_STUB]
        self.into.counts["objc stubs"] += len(objc)
        for stub in objc:
            self.into.counts["selectors"] += stub.selector is not None
            slot = self.slots.get(stub.slot)
            if slot is None or slot.symbol != "_objc_msgSend" or not stub.selector:
                self.into.differ(self.name, f"objc stub {stub.vaddr:#x}", stub, slot)
        table = self.peer.dynamic_symbol_command
        indirect = list(table.indirect_symbols) if table is not None else []
        for section in self.peer.sections:
            if section.type.value != _STUBS:
                continue
            size = section.reserved2
            for number in range(section.size // size if size else 0):
                vaddr = section.virtual_address + number * size
                symbol = indirect[section.reserved1 + number]
                self._stub(vaddr, symbol, found.get(vaddr))

    def _stub(self, vaddr: int, symbol: Any, stub: Any) -> None:
        empty = symbol is None or not symbol.name
        if stub is None:
            self.into.differ(self.name, f"stub {vaddr:#x} of", symbol and symbol.name, "missing")
            return
        slot = self.slots.get(stub.slot)
        if empty and slot is None:
            self.into.counts["empty entries"] += 1
            return
        self.into.counts["stubs"] += 1
        name = slot.symbol if slot is not None else None
        if name != (symbol.name if symbol is not None else ""):
            theirs = symbol and symbol.name
            self.into.differ(self.name, f"stub {vaddr:#x}: {theirs!r}, its slot has {name!r}")

    def binds(self) -> None:
        """Every record: address, symbol and library."""
        ours: set[tuple[int, str, str]] = set()
        theirs: set[tuple[int, str, str]] = set()
        weak: set[tuple[int, str, str]] = set()
        libraries = self.image.needed
        for one in self.image.binds():
            number = one.ordinal
            named = number is not None and 0 < number <= len(libraries)
            library = libraries[number - 1] if named and number is not None else ""
            row = (one.vaddr, one.name, library)
            (weak if one.kind == "weak-bind" else ours).add(row)
        weakly: set[tuple[int, str, str]] = set()
        stubs = {stub.vaddr for stub in self.image.stubs}
        for one in self.peer.bindings:
            name = one.symbol.name if one.has_symbol else ""
            library = one.library.name if one.has_library else ""
            row = (one.address, name, library)
            if getattr(getattr(one, "binding_class", None), "name", "") == "WEAK":
                weakly.add((one.address, name, ""))
            else:
                theirs.add(row)
        if self.classic:
            # There LIEF has the indirect symbol table alone, with the stubs' own entries.
            here = {
                (slot.vaddr, slot.symbol, slot.library)
                for slot in self.slots.values()
                if slot.kind == "indirect-symbol"
            }
            self._same("indirect", here, {row for row in theirs if row[0] in self.slots})
            self.into.counts["external relocations"] += len(ours)
            self.into.counts["stub entries in LIEF's binds"] += sum(
                row[0] in stubs for row in theirs
            )
            return
        self._same("binds", ours, theirs)
        self._same("weak binds", weak, weakly)

    def _same(
        self, what: str, ours: set[tuple[int, str, str]], theirs: set[tuple[int, str, str]]
    ) -> None:
        self.into.counts[what] += len(ours & theirs)
        for row in sorted(ours - theirs)[:5]:
            self.into.differ(self.name, what, "only soscope:", hex(row[0]), *row[1:])
        for row in sorted(theirs - ours)[:5]:
            self.into.differ(self.name, what, "only LIEF:", hex(row[0]), *row[1:])

    def helpers(self) -> None:
        """Every helper hands over the record of the slot that leads to it."""
        for slot in self.slots.values():
            if slot.helper is None or slot.resolver_argument is None:
                continue
            helper = self.image.decoded.helper(slot.helper)
            if helper is None:
                self.into.counts["slots that all share a helper"] += 1
                continue
            self.into.counts["helpers"] += 1
            given = helper.offset if helper.offset is not None else helper.slot
            if given != slot.resolver_argument:
                self.into.wrong_helpers.append(
                    f"{self.name} {slot.symbol}: {given} instead of {slot.resolver_argument}"
                )
