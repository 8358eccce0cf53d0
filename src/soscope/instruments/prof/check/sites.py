# SPDX-License-Identifier: Apache-2.0
"""Calls of a hook in the code of a file: through its slots, with or without stubs, or direct.

Nothing is disassembled. A call contains a 32-bit distance to its slot or stub, which together
with its opcode is no coincidence. Calls through a register that was loaded before are not found,
but such loads are counted.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa import CALL, JUMP, LOAD, STUB, part
from soscope.binfmt.stubs.finder import SlotTable, all_code
from soscope.model.filemap import FileSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Sites:
    """The calls of one hook. `returns` are the link-time addresses behind them, in order.

    `loads` is how often code loads only the address of the hook.
    """

    __slots__ = ("loads", "returns")

    def __init__(self, returns: list[int], loads: int) -> None:
        self.returns = returns
        self.loads = loads


def find_sites(mapped: ElfMap, slots: Iterable[FileSlot], own: Iterable[int]) -> Sites | None:
    """Find the calls through `slots`, and the calls of the code at the addresses `own`.

    Return None if the code of the file's machine cannot be read. Raises FormatError.
    """
    uses, calls = part(mapped.machine, "uses"), part(mapped.machine, "calls")
    if uses is None or calls is None:
        return None
    image = mapped.image
    base = uses.base_of(mapped.machine, image, mapped.sections)
    slots = list(slots)
    stubs = [(stub.vaddr, stub.vaddr + stub.size) for slot in slots for stub in slot.stubs]
    targets = [*own, *(start for start, _ in stubs)]
    is_where_linked = mapped.kind in ("executable", "static")
    returns: set[int] = set()
    loads: set[int] = set()
    table = SlotTable(image, {}, ())
    for code in all_code(table):
        returns.update(calls.direct_calls(code.data, code.vaddr, targets))
        for slot in slots:
            for kind, _, place, _ in uses.places(
                code.data,
                code.vaddr,
                slot.vaddr,
                lambda _: "",
                base,
                is_where_linked=is_where_linked,
            ):
                where = code.vaddr + place
                if kind in (CALL, JUMP, STUB):
                    if not any(start <= where < end for start, end in stubs):
                        returns.add(where + 4)
                elif kind == LOAD and _is_load(code.data, place):
                    loads.add(where)
    mapped.partial += table.partial
    return Sites(sorted(returns), len(loads))


def _is_load(code: bytes, place: int) -> bool:
    """Return whether the number at `place` belongs to a `mov` to a register."""
    return place >= 2 and code[place - 2] == 0x8B and code[place - 1] & 0xC7 in (0x05, 0x83)
